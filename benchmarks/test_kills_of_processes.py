"""``emulate`` and runs on MPI that end at any moment, by any signal: no process, device or memory is left.

``python -m pytest -m benchmarks benchmarks/test_kills_of_processes.py -s``; THEMIS_OPT_KILLS says how many kills
there are of each.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest
from background import LISTENING, wait_until

from themis_opt.base.errors import InputError
from themis_opt.emulation import network

pytestmark = [pytest.mark.benchmarks, pytest.mark.timeout(0)]

KILLS = int(os.environ.get("THEMIS_OPT_KILLS", "100"))
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
MARK = "THEMIS_OPT_KILLED"  # a variable that whatever a command starts inherits, even if it detaches itself
DETACHED = "setsid sleep 600 & (setsid nohup sleep 600 > /dev/null 2>&1 &); sleep 600"
"""A command that leaves processes in sessions of their own, one of them without a parent."""


def marked(value: str) -> list[psutil.Process]:
    """Processes of a run that still do something."""
    return [process for process in psutil.process_iter() if _mark(process) == value]


def _mark(process: psutil.Process) -> str | None:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return process.environ().get(MARK)
    except psutil.Error:
        return None


def traces() -> tuple[set[str], set[str]]:
    """Network devices, and memory that processes share."""
    devices = {line.split(":")[0].strip() for line in Path("/proc/net/dev").read_text().splitlines()}
    return devices, {path.name for path in Path("/dev/shm").iterdir()}


def kill_often(arguments: Sequence[str], longest: float, folder: Path) -> None:
    """Start a command and end it at a random moment, as often as asked."""
    moments, before, running = random.Random(3), traces(), 0
    for number in range(KILLS):
        value = f"{os.getpid()}.{number}"
        with (folder / "output").open("wb") as output:
            process = psutil.Popen(
                [sys.executable, "-c", LISTENING, *arguments],
                cwd=folder, env=os.environ | {MARK: value}, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
            time.sleep(moments.uniform(0.3, longest))
            running += len(process.children(recursive=True)) > 1
            process.send_signal(moments.choice(SIGNALS))
            process.wait()
        wait_until(lambda value=value: not marked(value))
    after = traces()
    assert after[0] <= before[0]
    assert after[1] <= before[1]
    assert running > KILLS / 4, "most were killed before they had begun"
    print(f"\n{arguments[0]}: {KILLS} kills, {running} of them while processes ran, nothing left")


def test_emulations(tmp_path: Path) -> None:
    try:
        network.emulate((2,), (1e6,), ["true"])
    except (InputError, FileNotFoundError) as error:
        pytest.skip(f"needs network namespaces: {error}")
    words = ["emulate", "2x2", "--rates", "10Mb/s,10Mb/s", "--", "bash", "-c", DETACHED]
    kill_often(words, 2.0, tmp_path)


def test_runs_on_mpi(tmp_path: Path) -> None:
    pytest.importorskip("mpi4py", reason="needs the extra mpi")
    words = ["run", "2d-sw_sw.all_reduce.100MiB", "--local", "2x2", "--transport", "mpi", "--size", "1 MiB"]
    kill_often([*words, "--repeat", "400", "--policies", "baseline"], 5.0, tmp_path)

"""Ctrl-C where it may come."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from formulations.interruption import INTERRUPTION


def burn() -> None:
    """Use the processor until the timer has rung."""
    while signal.getitimer(signal.ITIMER_VIRTUAL)[0]:
        pass


def test_ctrl_c_waits_for_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heeds_ctrl_c: None) -> None:
    """A module that is half there would fail whatever imports it next."""
    (tmp_path / "interrupted_module.py").write_text(
        "import signal\nsignal.raise_signal(signal.SIGINT)\nis_whole = True"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import interrupted_module  # type: ignore[import-not-found]

    assert interrupted_module.is_whole
    assert INTERRUPTION.came
    with pytest.raises(KeyboardInterrupt):
        burn()


AT_EXIT = """
import atexit, signal
from formulations.interruption import INTERRUPTION
signal.signal(signal.SIGINT, INTERRUPTION.handle)
atexit.register(lambda: print(signal.getitimer(signal.ITIMER_VIRTUAL)[0]))
import interrupted_module
"""


@pytest.mark.parametrize("end", ["", "try:\n    INTERRUPTION.check()\nexcept KeyboardInterrupt:\n    pass"])
def test_ctrl_c_that_waited_does_not_come_again_at_the_end(tmp_path: Path, end: str) -> None:
    (tmp_path / "interrupted_module.py").write_text("import signal\nsignal.raise_signal(signal.SIGINT)")
    timer = f"{end}\nprint(signal.getitimer(signal.ITIMER_VIRTUAL)[0] > 0)\n"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    command = [sys.executable, "-c", AT_EXIT + timer]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout.split() == [str(not end), "0.0"]

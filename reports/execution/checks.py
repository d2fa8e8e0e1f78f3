"""Checks of the runtime beside the table of measure.py: each writes its figures into reports/execution/checks.json.

python reports/execution/checks.py random|faults|iterations|overhead|calibration|hook
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import psutil

from themis_opt import (
    Collective,
    ComputeTask,
    Dimension,
    Instance,
    Iteration,
    Network,
    Schedule,
    Tensor,
    make_policy,
    simulate,
)
from themis_opt.families.door import save
from themis_opt.problem.phases import CollectiveKind
from themis_opt.runtime.coordinator import Coordinator, local
from themis_opt.runtime.elements import DTYPES, REDUCTIONS
from themis_opt.runtime.execution import ExecutionResult, execute
from themis_opt.runtime.links import RankFailure
from themis_opt.runtime.program import RunOptions, compile_program
from themis_opt.runtime.worker import FAULT_VARIABLE

sys.path.append(str(Path(__file__).parents[2] / "tests" / "runtime"))

from in_threads import first_fault

FILE = Path(__file__).with_name("checks.json")
ALGORITHMS = ("ring", "direct", "halving_doubling")
KINDS = [kind for kind in CollectiveKind if kind is not CollectiveKind.SEND]


def network(sizes: tuple[int, ...], rates: tuple[str, ...]) -> Network:
    """Switches."""
    pairs = zip(sizes, rates, strict=True)
    return Network(dimensions=tuple(Dimension(kind="switch", size=size, bandwidth=rate) for size, rate in pairs))


def all_reduce(sizes: tuple[int, ...], rates: tuple[str, ...], size: str, chunks: int) -> Instance:
    """One collective."""
    collective = Collective(kind="all_reduce", size=size, chunks=chunks, element_bytes=4)
    return Instance(network=network(sizes, rates), collectives=(collective,))


def planned(instance: Instance, policy: str) -> Schedule:
    """The schedule of a policy."""
    return simulate(instance, make_policy(policy)(instance))


def check_random(count: int = 1000) -> dict[str, Any]:
    """Random schedules of random problems, run by threads without pace."""
    generator, wrong, began = random.Random(1), [], monotonic()
    for seed in range(count):
        sizes = generator.choice([(4, 2), (2, 2, 2), (3, 2), (5,), (2, 3, 2), (4, 3)])
        dimensions = tuple(
            Dimension(kind="switch", size=size, bandwidth="1 GB/s", algorithm=generator.choice(ALGORITHMS))
            for size in sizes
        )
        size = 8 * generator.randrange(1, 2000)
        kind, chunks = generator.choice(KINDS), generator.randrange(1, 9)
        collective = Collective(kind=kind, size=size, chunks=min(chunks, size // 8), element_bytes=8)
        problem = Instance(network=Network(dimensions=dimensions), collectives=(collective,))
        options = RunOptions(
            dtype=generator.choice(DTYPES),
            reduction=generator.choice(list(REDUCTIONS)),
            in_flight=generator.randrange(1, 4),
            paced=False,
        )
        fault = first_fault(compile_program(planned(problem, f"random:seed={seed}"), options), seed)
        wrong += [fault] if fault else []
    return {"runs": count, "wrong": wrong, "seconds": monotonic() - began}


def check_faults(count: int = 50) -> dict[str, Any]:
    """One rank killed, stopped or corrupted at a random instant of a run of about a second."""
    generator = random.Random(2)
    program = compile_program(planned(all_reduce((2, 2), ("2 MB/s", "2 MB/s"), "1 MiB", 8), "themis+scf"))
    rows = []
    for number in range(count):
        kind, rank = ("kill", "stop", "corrupt")[number % 3], generator.randrange(4)
        rows.append(_fault(program, kind, rank, generator))
    left = [process.pid for process in psutil.Process().children(recursive=True)]
    named = sum(row["named"] == row["rank"] for row in rows)
    slowest = {kind: max(row["seconds"] for row in rows if row["kind"] == kind) for kind in ("kill", "stop", "corrupt")}
    return {"faults": count, "named": named, "slowest_seconds": slowest, "left": left}


def _fault(program: Any, kind: str, rank: int, generator: random.Random) -> dict[str, Any]:
    os.environ[FAULT_VARIABLE] = f"corrupt:{rank}:{generator.randrange(1, 20)}" if kind == "corrupt" else ""
    moment = monotonic()
    with Coordinator(4, local(4)) as ranks:
        ranks.connect(program)
        ranks.load(0, program, "fault")
        moment = monotonic()
        if kind != "corrupt":
            number = signal.SIGKILL if kind == "kill" else signal.SIGSTOP
            words = (number, ranks.process_of(rank), generator.uniform(0.05, 0.4))
            threading.Thread(target=_signal, args=words, daemon=True).start()
        named = -1
        try:
            ranks.run(0, 1, 0.5)
        except RankFailure as failure:
            named = failure.rank
    return {"kind": kind, "rank": rank, "named": named, "seconds": monotonic() - moment}


def _signal(number: int, pid: int, after: float) -> None:
    sleep(after)
    os.kill(pid, number)


def check_iterations() -> dict[str, Any]:
    """Exposed time of a training iteration with four layers."""
    layers = [f"layer{number}" for number in range(1, 5)]
    tasks = [ComputeTask(name=f"forward {name}", duration="30 ms") for name in layers]
    tasks += [ComputeTask(name=f"backward {name}", duration="60 ms") for name in reversed(layers)]
    tensors = tuple(
        Tensor(
            name=name, size="1 MiB", element_bytes=4, ready_after=f"backward {name}", needed_before=f"forward {name}"
        )
        for name in layers
    )
    problem = Instance(
        network=network((4, 2), ("100 Mb/s", "50 Mb/s")),
        iteration=Iteration(tasks=tuple(tasks), tensors=tensors),
        chunks=4,
    )
    names = (
        "fused/themis+scf",
        "wait_free/hourglass",
        "ddp:cap=2MiB/hourglass",
        "dear/hourglass",
        "priority/hourglass",
        "exact:seconds=10",
    )
    return _rows(_executed({name: planned(problem, name) for name in names}, RunOptions(iterations=4), 5))


POLICIES = ("baseline+fifo", "themis+fifo", "themis+scf", "hourglass")
REAL = ("--rates", "80Mb/s,60Mb/s", "--delay", "0,5ms")
"""The network of the calibration, of which its file says that it has 100 and 50 Mb/s and no latency."""
EMULATE = Path(__file__).with_name("emulate.py")


def check_calibration() -> dict[str, Any]:
    """A file that is wrong about the network: errors of its predictions, and of those of the calibrated one."""
    with tempfile.TemporaryDirectory() as folder:
        stated, measured = Path(folder, "stated.json"), Path(folder, "measured.json")
        save(all_reduce((4, 2), ("100 Mb/s", "50 Mb/s"), "4 MiB", 8), stated)
        policies = ("--policies", ",".join(POLICIES))
        before = _emulated("4x2", REAL, "run", str(stated), *policies, "--json")
        dimensions = _emulated("4x2", REAL, "calibrate", str(stated), "--repeat", "3", "-o", str(measured), "--json")
        after = _emulated("4x2", REAL, "run", str(measured), *policies, "--json")
    return {"dimensions": dimensions, "stated": before["rows"], "calibrated": after["rows"]}


def _emulated(sizes: str, network: Sequence[str], *words: str) -> Any:
    """What a command of ours prints as JSON on an emulated network, all ranks joined."""
    command = [sys.executable, "-m", "themis_opt"]
    line = [sys.executable, str(EMULATE), sizes, *network, "--", *command, *words]
    text = subprocess.check_output([*line, "--join", "10.77.0.1:29600", "--address", "{address}"], text=True)
    return json.JSONDecoder().raw_decode(text[min(text.index(bracket) for bracket in "[{" if bracket in text) :])[0]


def check_overhead() -> dict[str, Any]:
    """Unpaced all-reduces on loopback, beside those of gloo and MPI on the same ranks."""
    rows_by_size = {}
    for mebibytes in (1, 16):
        problem = all_reduce((4, 2), ("1 GB/s", "1 GB/s"), f"{mebibytes} MiB", 2)
        ran = _executed(
            {name: planned(problem, name) for name in ("baseline+fifo", "themis+scf")}, RunOptions(paced=False), 5
        )
        ours = {executed.name: executed.measured_seconds for executed in ran.executed}
        memory = max(run.memory for executed in ran.executed for run in executed.runs)
        rows_by_size[f"{mebibytes} MiB"] = ours | {
            "gloo": _gloo(mebibytes),
            "mpi": _mpi(mebibytes),
            "memory_bytes": memory,
        }
    return rows_by_size


GLOO = """
import os, sys, time, torch, torch.distributed as d
store, count = sys.argv[1], int(sys.argv[2]) << 18
for rank in range(1, 8):
    if os.fork() == 0: break
else: rank = 0
torch.set_num_threads(1)
d.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=8)
x, times = torch.zeros(count), []
for _ in range(6):
    d.barrier(); began = time.monotonic(); d.all_reduce(x); d.barrier(); times.append(time.monotonic() - began)
if rank == 0: print(sorted(times[1:])[2], flush=True)
d.barrier(); os._exit(0)
"""

MPI = """
import sys, time, numpy as np
from mpi4py import MPI
w, times = MPI.COMM_WORLD, []
x, y = np.zeros(int(sys.argv[1]) << 18, np.float32), np.zeros(int(sys.argv[1]) << 18, np.float32)
for _ in range(6):
    w.Barrier(); began = time.monotonic(); w.Allreduce(x, y); w.Barrier(); times.append(time.monotonic() - began)
if w.rank == 0: print(sorted(times[1:])[2])
"""


def _gloo(mebibytes: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        return float(subprocess.check_output([sys.executable, "-c", GLOO, f"{folder}/store", str(mebibytes)]))


def _mpi(mebibytes: int) -> float:
    mpiexec = str(Path(sys.executable).parent / "mpiexec")
    environment = os.environ | {"MPIR_CVAR_NOLOCAL": "1"}  # over the loopback device, not over shared memory
    line = [mpiexec, "-n", "8", sys.executable, "-c", MPI, str(mebibytes)]
    return float(subprocess.check_output(line, env=environment))


def _executed(schedules: dict[str, Schedule], options: RunOptions, repeat: int) -> ExecutionResult:
    count = next(iter(schedules.values())).instance.fabric.num_npus
    with Coordinator(count, local(count)) as ranks:
        return execute(schedules, ranks, options, repeat=repeat)


def _rows(done: ExecutionResult) -> dict[str, Any]:
    return {"verdict": done.verdict(), "rows": done.rows()}


HOOK = Path(__file__).with_name("hook.py")


def check_hook() -> dict[str, Any]:
    """Training with plain DDP and with the hook, on an emulated network of 2 x 2 ranks."""
    return {"neighbours": _trained("0132"), "others": _trained("0123")}


def _trained(npus: str) -> dict[str, Any]:
    """With ranks on NPUs in this order, in which gloo's ring passes them."""
    line = [sys.executable, str(EMULATE), "2x2", "--rates", "100Mb/s,50Mb/s", "--"]
    text = subprocess.check_output([*line, sys.executable, str(HOOK), *npus], text=True)
    first, _, rest = text.partition("\n")
    training: dict[str, Any] = json.loads(first) | {"sent_bytes": json.loads(rest)["sent_bytes"]}
    return training


CHECKS: dict[str, Callable[[], dict[str, Any]]] = {
    "random": check_random,
    "faults": check_faults,
    "iterations": check_iterations,
    "calibration": check_calibration,
    "overhead": check_overhead,
    "hook": check_hook,
}


def main() -> None:
    """Run one check, or several."""
    for name in sys.argv[1:]:
        outcome = CHECKS[name]()
        known = json.loads(FILE.read_text()) if FILE.exists() else {}
        FILE.write_text(json.dumps(known | {name: outcome}, indent=1, sort_keys=True) + "\n")
        print(name, json.dumps(outcome)[:1500], flush=True)


if __name__ == "__main__":
    main()

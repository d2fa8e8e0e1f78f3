"""How far commands run past their time limit: 33 cases, each with the CPU time that it takes over the limit.

``python -m pytest -m benchmarks benchmarks/test_limit_overruns.py -s`` prints the table.  Imports and
compilation do not count: commands run in a process that has run all of them before.  Neither does other work on the
machine: the clock of limits is that of the process.
"""

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import layered_iterations
import pytest
import warm_commands
from held_out import with_costs
from limited_command import count_processor_time, run_command

import themis_opt
from themis_opt.families import door
from themis_opt.families.family import Problem
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Network

pytestmark = pytest.mark.benchmarks

OVERRUN = 1.0  # CPU seconds past the limit that a command may take
DETERMINISTIC = 3.0
"""CPU time over the limit that commands which count work may take on one thread, as a multiple of the limit."""


def wide(dimensions: int, size: int, chunks: int, collectives: int = 1) -> Instance:
    """All-reduces on uneven switches."""
    switches = tuple(
        Dimension(kind="switch", size=size, bandwidth=f"{100 + 10 * k} GB/s", latency="1 us") for k in range(dimensions)
    )
    operations = tuple(Collective(kind="all_reduce", size=f"{64 + n} MiB", chunks=chunks) for n in range(collectives))
    return Instance(network=Network(dimensions=switches), collectives=operations)


INSTANCES: dict[str, Callable[[], Problem]] = {
    "4 dimensions": lambda: themis_opt.load("4d-ring_fc_ring_sw.all_reduce.100MiB").overridden(size="16 MiB"),
    "with costs": lambda: with_costs(themis_opt.load("3d-fc_ring_sw.all_reduce.100MiB"), "2 us", True),
    "6 dimensions": lambda: themis_opt.load("6d-ring_fc_ring_sw_sw_sw.all_reduce.1000MiB"),
    "12 dimensions": lambda: wide(12, 2, 64),
    "1,000,000 NPUs": lambda: wide(6, 10, 64),
    "500 collectives": lambda: wide(3, 4, 8, 500),
    "bert-large": lambda: themis_opt.load("v100-256.bert-large"),
    "600 tensors": lambda: layered_iterations.layers(600, size=2**16, chunks=8),
    "5,000 tensors": lambda: layered_iterations.layers(5_000, size=2**13, chunks=4),
    "1,024 GPUs without a NIC": lambda: door.problem_for("cluster:h100:npus=1024", lost="pod0.box0.nic0"),
}


@dataclass(frozen=True)
class LimitCase:
    """A command on an instance, with its limit in seconds."""

    instance: str
    limit: float
    command: tuple[str, ...]

    def __str__(self) -> str:
        return f"{' '.join(self.command)} --time-limit {self.limit:g}, {self.instance}"

    @property
    def allowed(self) -> float:
        """CPU seconds over the limit that the case may take."""
        return (DETERMINISTIC - 1) * self.limit if "--deterministic" in self.command else OVERRUN


def cases() -> Iterator[LimitCase]:
    """Every instance with every command, comparisons of iterations and small ones with the shortest limits."""
    for name in INSTANCES:
        yield LimitCase(name, 3, ("solve",))
        yield LimitCase(name, 1, ("compare",))
        yield LimitCase(name, 3, ("solve", "--deterministic"))
    for name in ("6 dimensions", "500 collectives", "5,000 tensors"):
        yield LimitCase(name, 5, ("tune",))


def overrun(case: LimitCase, folder: Path) -> float:
    """CPU seconds that a command takes over its limit, which counts those seconds, or work."""
    path = folder / "instance.json"
    door.save(INSTANCES[case.instance](), path)
    command, *rest = case.command
    options = [*rest, "--time-limit", str(case.limit)]
    options += [] if command == "compare" else ["-o", str(folder / "out")]
    options += [] if command == "tune" else ["--workers", "1"]
    forget()
    begin = time.process_time()
    run_command([command, str(path), *options])
    return max(time.process_time() - begin - case.limit, 0.0)


def forget() -> None:
    """Empty all caches of functions, as if the process had just begun."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("themis_opt.", "formulations.")):
            for function in vars(module).values():
                if hasattr(function, "cache_clear"):
                    function.cache_clear()


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """Import and compile all that commands need."""
    warm_commands.run_all()
    count_processor_time()


@pytest.fixture(scope="module", autouse=True)
def table() -> Iterator[list[tuple[LimitCase, float]]]:
    rows: list[tuple[LimitCase, float]] = []
    yield rows
    for case, seconds in rows:
        print(f"| {case} | {seconds:.2f} s | {case.allowed:g} s |")


@pytest.mark.parametrize("case", list(cases()), ids=str)
def test_limit_holds(case: LimitCase, table: list[tuple[LimitCase, float]], tmp_path: Path) -> None:
    seconds = overrun(case, tmp_path)
    table.append((case, seconds))
    assert seconds <= case.allowed

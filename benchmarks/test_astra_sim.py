"""ASTRA-sim, built, runs exports: its time, by Chakra's feeder, beside those of the check and of the schedule.

``THEMIS_OPT_ASTRA_SIM=CHECKOUT python -m pytest -m benchmarks benchmarks/test_astra_sim.py -s``, with a checkout of
https://github.com/astra-sim/astra-sim and its submodules, whose ``build/astra_analytical/build.sh`` has run.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from themis_opt.formats.astra_sim.exporter import SYSTEM
from themis_opt.formats.exports import Replay, export, make_exporter
from themis_opt.policies.registry import make_policy
from themis_opt.problem.instance import Instance
from themis_opt.schedules.simulator import simulate

pytestmark = [pytest.mark.benchmarks, pytest.mark.timeout(1200)]

PROGRAM = "build/astra_analytical/build/bin/AstraSim_Analytical_Congestion_Unaware"
NANOSECOND = 1000
SHAPES = {
    "ring": (("ring", 8, "100 GiB/s", "700 ns"),),
    "switches": (("switch", 4, "200 GiB/s", "700 ns"), ("switch", 4, "50 GiB/s", "2 us")),
    "three": (
        ("ring", 3, "300 GiB/s", "700 ns"), ("fully_connected", 3, "100 GiB/s", "500 ns"),
        ("switch", 4, "50 GiB/s", "1700 ns"),
    ),
}  # fmt: skip
CASES = [
    (shape, kind, policy, level)
    for shape in SHAPES
    for kind in ("all_reduce", "all_gather", "all_to_all")
    for policy in ("baseline", "themis+scf")
    for level in ("stage", "step")
    if level == "stage" or kind != "all_to_all"
]


@pytest.fixture(scope="module")
def checkout():
    folder = os.environ.get("THEMIS_OPT_ASTRA_SIM")
    if folder is None or shutil.which(Path(folder) / PROGRAM) is None:
        pytest.skip("needs a checkout of ASTRA-sim that was built in THEMIS_OPT_ASTRA_SIM")
    return Path(folder)


def simulated(checkout: Path, folder: Path) -> int:
    """Nanoseconds until the last NPU has finished."""
    sources = (checkout / "astra-sim").rglob("*.cc")
    if not any("implementation-custom" in path.read_text() for path in sources):
        text = (folder / SYSTEM).read_text()  # what it was called until the end of 2024
        (folder / SYSTEM).write_text(text.replace("-implementation-custom", "-implementation-chakra"))
    memory = next(checkout.glob("**/no_memory_expansion.json"))
    files = {"workload": "workload", "system": SYSTEM, "network": "network.yml", "remote-memory": memory}
    words = [checkout / PROGRAM, *(f"--{name}-configuration={file}" for name, file in files.items())]
    answer = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True).stdout
    cycles = re.findall(r"finished, (\d+) cycles", answer + (folder / "log" / "log.log").read_text())
    return max(map(int, cycles))


@pytest.mark.parametrize(("shape", "kind", "policy", "level"), CASES)
def test_the_simulator_takes_what_the_check_says(checkout, tmp_path, shape, kind, policy, level):
    fields = ("kind", "size", "bandwidth", "latency")
    dimensions = [dict(zip(fields, values, strict=True)) for values in SHAPES[shape]]
    collectives = [{"kind": kind, "size": "24 MiB", "chunks": 4}]
    document = {"network": {"dimensions": dimensions}, "collectives": collectives, "latency": "occupy"}
    instance = Instance.model_validate(document)
    schedule = simulate(instance, make_policy(policy)(instance))
    export(schedule, f"astra-sim:level={level}", tmp_path)
    facts = make_exporter(f"astra-sim:level={level}").check(schedule, tmp_path)
    (time,) = (fact for fact in facts if isinstance(fact, Replay))
    took = simulated(checkout, tmp_path)
    print(f"\n| {shape} | {kind} | {policy} | {level} | ASTRA-sim {took / 1e3:.3f} us", end=" | ")
    print(f"by its rules {time.took / 1e6:.3f} us | schedule {schedule.makespan / 1e6:.3f} us |")
    assert took == pytest.approx(time.took / NANOSECOND, abs=2)
    assert took == pytest.approx(schedule.makespan / NANOSECOND, rel=1e-3)

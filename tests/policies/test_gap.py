"""Gaps between policies and bounds, which may shrink but not grow.

``gaps.csv`` holds what is accepted.  After a change that is known to pay, record everything as it is now with

    PYTHONPATH=tests/support python tests/policies/test_gap.py
"""

import csv
import io
from functools import cache
from math import exp, log
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import pytest
from paper_networks import PAPER_NETWORKS
from planning import schedule_of
from samples import every

import themis_opt
from themis_opt.base.documents import write_atomically
from themis_opt.policies.registry import HEURISTICS, LAUNCHING
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension
from themis_opt.schedules.validation import validate
from themis_opt.solving.bounds import bounds

DATA = Path(__file__).with_name("gaps.csv")

SIZES_MIB, CHUNKS = (1, 100, 1000), (8, 64)
TESTED = {(1, 8), (100, 64)}
"""Sizes and chunks of all-reduces that tests look at; the others say much of the same."""

ITERATIONS = ("2d-sw_sw.dlrm", "3d-fc_ring_sw.dlrm", "4d-ring_fc_ring_sw.gnmt")

LAUNCHED = ("v100-256.resnet-50", "v100-256.bert-large")
"""Iterations of many tensors, on which launching policies differ."""

PARTICULAR = ("in-network", "rails")
"""The hetero network with a switch that sums, and with two rails of unequal latency, each in its first dimension."""

LAUNCHING_OF_ITERATIONS = "priority"  # the launching policy of iterations, with each heuristic for chunks
REFERENCE = "exact:seconds=0.2:workers=1:deterministic=true:cp_sat=false"
"""Work of 0.2 s on one core of 2020; about as long here."""

WITH_LAUNCHING = tuple(f"{launching}/themis+scf" for launching in LAUNCHING)

COLUMNS = ("network", "size_mib", "chunks", "policy", "makespan_ps", "bound_ps", "bound_name", "gap")

PROTOCOL = f"""\
All-reduce on the paper's six networks, equal chunks, latency: lag, ag_order: free; and iterations by the names of
their instances, with the bytes of all tensors and the launches of {LAUNCHING_OF_ITERATIONS}; where a policy names
its launches, of those; and the hetero network with in-network sums, and with rails.
makespan_ps is simulated and validated, for iterations the time of one; bound_ps is the best bound for equal chunks of
themis_opt.bounds;
gap = makespan_ps / bound_ps - 1.  The reference is {REFERENCE} (seed 0, no wall time).
Written by `PYTHONPATH=tests/support python tests/policies/test_gap.py`."""

HEURISTIC_NOISE, BOUND_NOISE = 1e-4, 1e-6
"""Relative tolerances: ties of heuristics may break in other ways, bounds come from floating-point solvers."""

REFERENCE_NOISE, MEAN_NOISE = 0.04, 0.003
"""The same for the reference, in one row and in the mean of all: seeds differ by up to 4.8 % and 0.24 %."""


class Case(NamedTuple):
    """An all-reduce on a network, or the iteration of that name."""

    network: str
    size_mib: int
    chunks: int

    def __str__(self) -> str:
        return f"{self.network} {self.size_mib} MiB {self.chunks} chunks"


class Row(NamedTuple):
    """What a policy reaches in a case, and what no schedule can beat."""

    case: Case
    policy: str
    makespan: int
    bound: float
    bound_name: str


CASES = [Case(*c) for c in ((n, s, k) for n in PAPER_NETWORKS for s in SIZES_MIB for k in CHUNKS)]


for name in (*ITERATIONS, *LAUNCHED):
    instance = themis_opt.load(name)
    CASES.append(
        Case(name, sum(exchange.size for exchange in instance.exchanges) // 2**20, instance.exchanges[0].chunks)
    )


CASES += [Case(name, 100, 16) for name in PARTICULAR]


def policies_of(case: Case) -> tuple[str, ...]:
    return WITH_LAUNCHING if case.network in LAUNCHED else (*HEURISTICS, REFERENCE)


def instance_of(case: Case) -> Instance:
    if case.network in (*ITERATIONS, *LAUNCHED):
        return themis_opt.load(case.network)
    if case.network in PARTICULAR:
        return particular(case.network).overridden(size=f"{case.size_mib} MiB", chunks=case.chunks)
    network = themis_opt.load(f"{case.network}.all_reduce.100MiB")
    return network.overridden(size=f"{case.size_mib} MiB", chunks=case.chunks)


def particular(name: str) -> Instance:
    """The hetero network, changed in its first dimension."""
    instance = themis_opt.load("3d-sw_sw_sw_hetero.all_reduce.100MiB")
    first, *others = instance.network.dimensions
    fields = first.model_dump(mode="json", exclude_unset=True)
    if name == "in-network":
        fields |= {"in_network": True}
    else:
        del fields["bandwidth"]
        shares = {"fast": (0.75, "0 s"), "late": (0.25, "5 us")}
        fields["rails"] = [
            {"name": rail, "bandwidth": share * first.bandwidth, "extra_latency": latency}
            for rail, (share, latency) in shares.items()
        ]
    return instance.replace(network=instance.network.replace(dimensions=(Dimension(**fields), *others)))


@cache
def makespan(case: Case, policy: str) -> int:
    """Picoseconds, of a valid schedule."""
    instance = instance_of(case)
    launched = case.network in ITERATIONS and policy != REFERENCE
    schedule = schedule_of(instance, f"{LAUNCHING_OF_ITERATIONS}/{policy}" if launched else policy)
    validate(schedule)
    return schedule.makespan


@cache
def best_bound(case: Case) -> tuple[float, str]:
    """Picoseconds, and the name of the bound."""
    proven = bounds(instance_of(case))
    name = max(proven, key=lambda name: proven[name])
    return round(proven[name], 3), name


def read() -> list[Row]:
    """The rows that are accepted."""
    lines = [line for line in DATA.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return [
        Row(Case(network, int(size), int(chunks)), policy, int(makespan), float(bound), name)
        for network, size, chunks, policy, makespan, bound, name, _ in csv.reader(lines[1:])
    ]


ACCEPTED = {(row.case, row.policy): row for row in read()}


def is_tested(case: Case) -> bool:
    """Whether a test looks at a case."""
    return case.network not in PAPER_NETWORKS or (case.size_mib, case.chunks) in TESTED


def worse_than_accepted(policy: str, noise: float) -> list[str]:
    """The cases in which a policy is worse, in words."""
    worse = []
    for case in (case for case in CASES if policy in policies_of(case) and is_tested(case)):
        accepted, now = ACCEPTED[case, policy].makespan, makespan(case, policy)
        if now > accepted * (1 + noise):
            worse.append(f"{case}: {now} ps, accepted are {accepted} ps")
    return worse


@pytest.mark.parametrize("policy", [*HEURISTICS, *WITH_LAUNCHING, REFERENCE])
def test_no_policy_got_worse(policy: str) -> None:
    assert worse_than_accepted(policy, REFERENCE_NOISE if policy == REFERENCE else HEURISTIC_NOISE) == []


def test_the_reference_got_no_worse_on_average() -> None:
    searched = [case for case in CASES if REFERENCE in policies_of(case) and is_tested(case)]
    change = exp(fmean(log(makespan(case, REFERENCE) / ACCEPTED[case, REFERENCE].makespan) for case in searched)) - 1
    assert change <= MEAN_NOISE


@pytest.mark.parametrize("network", [*every(3, PAPER_NETWORKS), *ITERATIONS, *LAUNCHED, *PARTICULAR])
def test_no_bound_got_looser(network: str) -> None:
    looser = []
    for case in [case for case in CASES if case.network == network and is_tested(case)]:
        accepted, (now, name) = ACCEPTED[case, policies_of(case)[-1]].bound, best_bound(case)
        if now < accepted * (1 - BOUND_NOISE):
            looser.append(f"{case}: {now:.3f} ps ({name}), accepted are {accepted:.3f} ps")
    assert looser == []


def test_no_bound_is_above_a_makespan() -> None:
    assert [row for row in read() if row.bound > row.makespan * (1 + 1e-9)] == []


def test_every_case_and_policy_is_recorded_once() -> None:
    recorded = [(row.case, row.policy) for row in read()]
    assert recorded == [(case, policy) for case in CASES for policy in policies_of(case)]


def record() -> None:
    """Write the data file as everything is now."""
    text = io.StringIO(newline="")
    text.writelines(f"# {line}\n" for line in PROTOCOL.splitlines())
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for case in CASES:
        bound, name = best_bound(case)
        for policy in policies_of(case):
            reached = makespan(case, policy)
            table.writerow([*case, policy, reached, f"{bound:.3f}", name, f"{reached / bound - 1:.6f}"])
    write_atomically(DATA, text.getvalue())


if __name__ == "__main__":
    record()

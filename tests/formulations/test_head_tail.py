"""Heads and tails: as strong as the linear programme with every window at once."""

import pytest
from hypothesis import given
from strategies import instances

from formulations.fluid import fluid_bound
from formulations.head_tail import LoadWindow, WindowProgramme, head_tail_proof, stages_by_machine
from formulations.lattice import JobClass
from themis_opt.problem.instance import Instance
from themis_opt.solving.lowering import job_class
from themis_opt.solving.makespan_bounds import chain


def classes(instance: Instance) -> tuple[list[JobClass], list[JobClass]]:
    """The collectives as a whole, and one of their equal chunks."""
    exchanges = instance.exchanges
    whole = [job_class(instance, exchange, exchange.size, "fluid") for exchange in exchanges]
    parts = [job_class(instance, exchange, exchange.size // exchange.chunks, "fluid") for exchange in exchanges]
    return whole, parts


def every_window(whole: list[JobClass], parts: list[JobClass], known: float) -> list[LoadWindow]:
    """Those that hold even if nothing is in them, and the whole machine."""
    return [
        LoadWindow(machine, head, tail)
        for machine, stages in stages_by_machine(whole, parts).items()
        for head in set(stages.heads.tolist())
        for tail in set(stages.tails.tolist())
        if head + tail <= known or (head, tail) == (stages.heads.min(), stages.tails.min())
    ]


@given(instance=instances(max_collectives=2, max_chunks=4))
def test_separation_misses_no_window_that_counts(instance: Instance) -> None:
    whole, parts = classes(instance)
    known = max(fluid_bound(whole), chain(instance))
    _, flow, limit = WindowProgramme(whole, stages_by_machine(whole, parts)).solved(every_window(whole, parts, known))
    if flow:
        assert head_tail_proof(whole, parts, known)[0] == pytest.approx(max(known, limit), rel=1e-3)

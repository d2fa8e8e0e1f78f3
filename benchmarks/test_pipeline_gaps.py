"""Gaps of pipelines: of the rules alone, and of the reference within its time limit.

Run it with ``-s``, which prints the mean and the worst gap of each set.
"""

import sys
from itertools import product
from pathlib import Path

import pytest

from formulations.limits import PROVEN_GAP, Limits
from themis_opt.pipelines.bounds import bound
from themis_opt.pipelines.comparison import compare
from themis_opt.pipelines.problem import Pipeline
from themis_opt.pipelines.steps import best_policy

sys.path.append(str(Path(__file__).parents[1] / "tests/pipelines"))
from pipeline_samples import random_pipeline

pytestmark = [pytest.mark.benchmarks, pytest.mark.timeout(0)]

TIMES = ((10, 11, 9, 1), (2, 2, 2, 1), (10, 20, 10, 2))
"""A forward pass, both halves of a backward pass, and a message."""

UNIT = (1, 1, 1, 0)
LIMITS = Limits(seconds=10.0, workers=2)


def pipeline(times, shape, stages, microbatches, room):
    """A pipeline with memory for `room` times as many microbatches as stages."""
    forward, inputs, weights, message = (f"{time} ps" for time in times)
    parts, placement = shape
    return Pipeline(
        stages=stages,
        microbatches=microbatches,
        parts=parts,
        placement=placement,
        forward=[forward],
        inputs=[inputs],
        weights=[weights],
        message=message,
        memory=int(stages * parts * room),
    )


def gaps_of_reference(pipelines, limits=LIMITS):
    """The proven gap of each pipeline, printed with the mean and the worst."""
    gaps = [compare(problem, ["exact"], limits).best.gap for problem in pipelines]
    open_ones = sum(gap > PROVEN_GAP for gap in gaps)
    print(f"\n{len(gaps)} pipelines: {open_ones} open, mean {sum(gaps) / len(gaps):.4f}, worst {max(gaps):.4f}")
    return gaps


def unequal():
    """162 pipelines with messages, most of them with passes of unequal length."""
    shapes = ((2, "interleaved"), (2, "v"), (4, "v"))
    return [pipeline(*setting) for setting in product(TIMES, shapes, (4, 8), (8, 16, 32), (1, 1.5, 2))]


def test_rules_alone_leave_few_gaps_above_five_per_cent():
    gaps = [best_policy(problem).value / bound(problem) - 1 for problem in unequal()]
    assert len(gaps) == 162
    assert sum(value > 0.05 for value in gaps) <= 15
    assert sum(gaps) / len(gaps) < 0.021


def test_passes_of_one_unit_meet_the_bound():
    shapes = ((1, "interleaved"), (2, "interleaved"), (2, "v"))
    settings = product([UNIT], shapes, (2, 4, 8, 16), (8, 16, 64), (1, 1.5, 2))
    gaps = gaps_of_reference(pipeline(*setting) for setting in settings)
    assert len(gaps) == 108
    assert max(gaps) <= PROVEN_GAP


@pytest.mark.parametrize(("stages", "microbatches", "units"), [(4, 8, 48), (4, 16, 96), (8, 16, 96), (8, 32, 192)])
def test_a_v_takes_what_its_paper_says(stages, microbatches, units):
    problem = pipeline(UNIT, (2, "v"), stages, microbatches, 1)
    assert compare(problem, ["zbv"]).best.schedule.value == units


def test_small_pipelines_are_solved_to_the_optimum():
    gaps = gaps_of_reference(random_pipeline(seed) for seed in range(240))
    assert max(gaps) <= PROVEN_GAP


@pytest.mark.parametrize("shape", [(2, "interleaved"), (2, "v")])
def test_sixteen_stages_take_half_a_minute(shape):
    problem = pipeline(TIMES[0], shape, 16, 64, 1.5)
    assert max(gaps_of_reference([problem], LIMITS.within(30.0))) <= 0.05


def test_messages_and_unequal_passes_leave_one_per_cent():
    gaps = gaps_of_reference(unequal())
    assert sum(gaps) / len(gaps) <= 0.01
    assert max(gaps) <= 0.05

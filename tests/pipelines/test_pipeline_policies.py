"""Policies of pipelines have the bubbles and the memory that their papers state."""

import pytest
from pipeline_samples import pipeline, random_pipeline

from themis_opt.base.errors import InputError
from themis_opt.pipelines.policies import PIPELINE_POLICIES
from themis_opt.pipelines.schedule import simulate
from themis_opt.pipelines.validation import validate

SHAPES = [(4, 8), (8, 16), (16, 64)]


def made(name, problem):
    schedule = simulate(problem, PIPELINE_POLICIES[name](problem))
    validate(schedule)
    return schedule


@pytest.mark.parametrize(("stages", "microbatches"), SHAPES)
@pytest.mark.parametrize(("name", "kept"), [("gpipe", 64), ("1f1b", 16)])
def test_whole_backward_passes_leave_a_bubble_of_all_stages_but_one(name, kept, stages, microbatches):
    schedule = made(name, pipeline(stages, microbatches))
    assert schedule.makespan == schedule.period == 3 * (microbatches + stages - 1)
    assert max(schedule.peaks()) == min(kept * stages // 16 if name == "1f1b" else microbatches, microbatches)


def test_what_messages_cost_is_no_bubble():
    schedule = made("1f1b", pipeline(4, 8, 2, 2, 2, message=1))
    free = made("1f1b", pipeline(4, 8, 2, 2, 2))
    assert (free.communication, free.bubble()) == (0, pytest.approx(18 / 66))
    assert schedule.communication == pytest.approx(1 - 66 / schedule.period)
    assert schedule.bubble() - schedule.communication == pytest.approx(18 / schedule.period)


@pytest.mark.parametrize(("stages", "microbatches"), SHAPES)
def test_interleaved_parts_divide_the_bubble(stages, microbatches):
    schedule = made("interleaved", pipeline(stages, microbatches, parts=2))
    assert schedule.period == 2 * 3 * microbatches + 3 * (stages - 1)


@pytest.mark.parametrize(("stages", "microbatches"), SHAPES)
def test_a_third_of_the_bubble_needs_no_more_memory(stages, microbatches):
    schedule = made("zb1p", pipeline(stages, microbatches))
    assert schedule.period == 3 * microbatches + stages - 1
    assert schedule.peaks() == (stages,) * stages


@pytest.mark.parametrize(("stages", "microbatches"), SHAPES)
def test_twice_the_memory_leaves_no_bubble(stages, microbatches):
    schedule = made("zb2p", pipeline(stages, microbatches))
    assert schedule.period == 3 * microbatches
    assert schedule.makespan == 3 * microbatches + stages - 1
    assert max(schedule.peaks()) <= 2 * stages - 1


@pytest.mark.parametrize(("stages", "microbatches"), [(4, 8), (4, 16), (8, 16), (8, 32)])
def test_two_parts_in_a_v_need_the_memory_of_1f1b_and_leave_no_bubble(stages, microbatches):
    schedule = made("zbv", pipeline(stages, microbatches, parts=2, placement="v"))
    assert schedule.period == 6 * microbatches
    assert max(schedule.peaks()) <= 2 * stages


@pytest.mark.parametrize(("stages", "microbatches"), [(2, 4), (4, 8), (8, 32)])
def test_both_directions_of_dualpipe_keep_one_pass_more_than_a_v(stages, microbatches):
    """Its authors state a bubble of (p - 1) (3 + 2 - 3) for passes of one unit; gradients leave sooner here."""
    schedule = made("dualpipe", pipeline(stages, microbatches, parts=2, placement="v"))
    assert 6 * microbatches < schedule.period <= 6 * microbatches + 2 * (stages - 1)
    assert max(schedule.peaks()) == 2 * stages + 1


def test_dualpipe_runs_a_stage_as_its_program_does():
    problem = pipeline(2, 4, parts=2, placement="v")
    _, order = PIPELINE_POLICIES["dualpipe"](problem)
    steps = [f"{action.kind}{problem.parts_of[1].index(action.part)}" for action in order]
    main = ["F0", "I1", "W1", "F1", "I0", "W0"]
    assert steps == ["F0", "F1", "F0", "F1", *main, *main, "I1", "W1", "I0", "W0", "I1", "I0", "W1", "W0"]


def test_a_v_with_fewer_microbatches_than_fill_it_runs_each_once():
    assert made("zbv", pipeline(4, 2, parts=2, placement="v")).period < made("gpipe", pipeline(4, 2)).period * 2


@pytest.mark.parametrize("seed", range(60))
def test_orders_are_legal_or_refused(seed):
    problem = random_pipeline(seed)
    particular = ("1f1b", "interleaved", "zb1p", "zbv", "dualpipe")
    for name in PIPELINE_POLICIES:
        schedule = None
        try:
            schedule = simulate(problem, PIPELINE_POLICIES[name](problem))
        except InputError:
            assert name in particular
        if schedule is not None and (problem.memory is None or max(schedule.peaks()) <= problem.memory):
            validate(schedule)
        else:
            assert name != "zb2p"

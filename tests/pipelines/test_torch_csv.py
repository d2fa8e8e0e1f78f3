"""Files for PyTorch take what was proven, as the clock runs their rows."""

from contextlib import suppress

import pytest
from pipeline_samples import pipeline, random_pipeline

from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.pipelines.policies import PIPELINE_POLICIES
from themis_opt.pipelines.problem import Action, ActionKind
from themis_opt.pipelines.schedule import simulate
from themis_opt.pipelines.torch_csv import torch_rows
from themis_opt.pipelines.validation import validate


def schedules_of(problem):
    for policy in PIPELINE_POLICIES.values():
        with suppress(InputError, InvalidSchedule):
            schedule = simulate(problem, policy(problem))
            validate(schedule)
            yield schedule


@pytest.mark.parametrize("seed", [*range(40), 122, 162])  # of the last two, joined messages would hold up others
def test_files_take_no_longer_than_the_schedule(seed):
    problem = random_pipeline(seed)
    for schedule in schedules_of(problem):
        assert simulate(problem, torch_rows(schedule)).makespan <= schedule.makespan


def test_halves_are_joined_where_nobody_waits_for_the_gradient():
    (row, *_) = torch_rows(simulate(problem := pipeline(2, 4), PIPELINE_POLICIES["1f1b"](problem)))
    assert ActionKind.BACKWARD in {action.kind for action in row}


def test_whole_backward_passes_delay_the_stage_before():
    """One microbatch after the other: the gradient of inputs is needed at once."""
    problem = pipeline(2, 8, 1, [3, 2], [1, 4], activation=2, memory=2, objective="makespan")
    schedule = min(schedules_of(problem), key=lambda one: one.makespan)
    rows = torch_rows(schedule)
    assert simulate(problem, rows).makespan == schedule.makespan
    kinds = (ActionKind.FORWARD, ActionKind.BACKWARD)
    whole = (rows[0], tuple(Action(kind, 1, microbatch) for microbatch in range(8) for kind in kinds))
    assert simulate(problem, whole).makespan == 96 > schedule.makespan

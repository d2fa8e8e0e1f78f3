"""Translation between plans of iterations and the constraint programme of one period."""

from itertools import product

import pytest
from layered_iterations import layers, scheduled
from ortools.sat.python import cp_model

from formulations.limits import Limits
from formulations.period import PeriodModel
from themis_opt.policies.registry import LAUNCHING
from themis_opt.problem.iteration import Split
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.solving.period_lowering import enforced_plan, period_data, period_times


def modelled(schedule: Schedule, tick: int) -> PeriodModel:
    """The model of a schedule, with the schedule as hint."""
    data = period_data(schedule.instance, schedule.plan, tick)
    model = PeriodModel(data.period, -(-schedule.makespan // tick))
    model.hint(period_times(data, schedule))
    return model


@pytest.mark.parametrize("launching", LAUNCHING)
@pytest.mark.parametrize(("ag_order", "latency"), list(product(["free", "reverse"], ["lag", "occupy"])))
@pytest.mark.parametrize("tick", [1, 997])
def test_a_simulated_schedule_is_feasible_in_ticks(launching: str, ag_order: str, latency: str, tick: int) -> None:
    model = modelled(scheduled(layers(3, ag_order=ag_order, latency=latency), launching), tick)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.fix_variables_to_their_hinted_value = True
    assert solver.solve(model.model) == cp_model.OPTIMAL


def test_a_schedule_on_a_shared_dimension_is_feasible_in_ticks() -> None:
    plain = layers(2)
    split = Split(dimension=plain.network.dimension_names[1], sizes=(2, 2), names=("near", "far"), shared=True)
    instance = plain.replace(iteration=plain.iteration.replace(splits=(split,)))
    model = modelled(scheduled(instance, "wait_free"), tick=997)
    solver = cp_model.CpSolver()
    solver.parameters.fix_variables_to_their_hinted_value = True
    assert len(model.stages) == 2
    assert solver.solve(model.model) == cp_model.OPTIMAL


@pytest.mark.parametrize("launching", LAUNCHING)
def test_a_schedule_comes_back_from_ticks_as_fast_as_it_was(launching: str) -> None:
    schedule = scheduled(layers(3), launching)
    data = period_data(schedule.instance, schedule.plan, tick=1)
    plan = enforced_plan(schedule.instance, schedule.plan, data, period_times(data, schedule))
    again = simulate(schedule.instance, plan)
    validate(again)
    assert again.makespan <= schedule.makespan


@pytest.mark.parametrize("tick", [1, 10**4, 10**7])
def test_the_optimum_in_ticks_bounds_the_schedules_of_the_same_launches(tick: int) -> None:
    instance = layers(2)
    schedules = [scheduled(instance, name) for name in ("wait_free", "priority")]
    data = period_data(instance, schedules[0].plan, tick)
    model = PeriodModel(data.period, -(-schedules[0].makespan // tick))
    outcome = model.solve(Limits(seconds=600.0, workers=1, gap=0.0), lambda period, bound: None)
    assert outcome.times is not None
    solution = simulate(instance, enforced_plan(instance, schedules[0].plan, data, outcome.times))
    assert data.bound(outcome.bound) <= min(s.makespan for s in (*schedules, solution))


def test_the_optimum_in_picoseconds_is_the_simulated_time() -> None:
    schedule = scheduled(layers(2), "wait_free")
    data = period_data(schedule.instance, schedule.plan, tick=1)
    outcome = modelled(schedule, tick=1).solve(Limits(seconds=600.0, workers=1, gap=0.0), lambda period, bound: None)
    assert outcome.times is not None
    solution = simulate(schedule.instance, enforced_plan(schedule.instance, schedule.plan, data, outcome.times))
    assert (outcome.status, solution.makespan) == ("optimal", outcome.bound)

"""The critical path and the time of each dimension."""

from collections.abc import Callable
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from strategies import schedules

from themis_opt.explanation import SINK, SOURCE, critical_path, disjunctive_graph, explain
from themis_opt.instance import Collective, CollectiveKind, Dimension, Instance, Kind, Network
from themis_opt.plan import Chunks, Plan
from themis_opt.schedule import Schedule
from themis_opt.simulator import simulate

MICROSECOND = 10**6
Run = Callable[[Instance, str], Schedule]


@given(schedules())
def test_the_longest_path_is_the_makespan(schedule: Schedule) -> None:
    assert nx.dag_longest_path_length(disjunctive_graph(schedule)) == schedule.makespan


@given(schedules())
def test_the_steps_of_the_critical_path_add_up_to_the_makespan(schedule: Schedule) -> None:
    """A step passes on its lag to the next one of its chunk, and only its busy time along a dimension."""
    steps = critical_path(schedule)
    waits = [following.waited_for == "data" for following in steps[1:]] + [True]
    passed = sum(step.busy + step.lag * with_lag for step, with_lag in zip(steps, waits, strict=True))
    assert steps[0].start + passed == schedule.makespan


@given(schedules())
def test_the_critical_path_begins_at_a_release(schedule: Schedule) -> None:
    first = critical_path(schedule)[0]
    stage = schedule.plan.stage_of(schedule.instance, first.stage)
    assert (first.waited_for, first.start) == ("release", schedule.instance.collectives[stage.collective].release)


@given(schedules())
def test_each_step_starts_when_what_it_waited_for_is_over(schedule: Schedule) -> None:
    for before, step in pairwise(critical_path(schedule)):
        times = schedule.ready if step.waited_for == "data" else schedule.end
        assert step.start == times[before.stage]


@given(schedules())
def test_busy_lag_and_idle_time_fill_the_makespan(schedule: Schedule) -> None:
    for time in explain(schedule).dimensions:
        assert time.busy + time.lag + time.idle == schedule.makespan
        assert min(time.busy, time.lag, time.idle) >= 0


@given(schedules())
def test_busy_time_is_what_the_stages_hold(schedule: Schedule) -> None:
    for k, time in enumerate(explain(schedule).dimensions):
        assert time.busy == schedule.costs.occupancy[schedule.plan.stage_dimensions == k].sum()


@given(schedules(latency="occupy"))
def test_without_lags_no_time_is_lag(schedule: Schedule) -> None:
    assert all(time.lag == 0 for time in explain(schedule).dimensions)


@pytest.fixture
def two_stages() -> Schedule:
    """An all-to-all of one chunk: 1 us on dim1, 3 us of lag, 1 us on dim2, 3 us of lag; dim3 is not used."""
    dimension = Dimension(kind=Kind.SWITCH, size=2, bandwidth="1 GB/s", latency="3 us")
    collective = Collective(kind=CollectiveKind.ALL_TO_ALL, size=2000, chunks=1, dimensions=("dim1", "dim2"))
    instance = Instance(network=Network(dimensions=(dimension,) * 3), collectives=(collective,))
    return simulate(instance, Plan((Chunks(np.array([2000]), np.array([[0, 1]])),)))


@pytest.mark.parametrize(("dimension", "times"), [(0, (1, 3, 4)), (1, (1, 6, 1)), (2, (0, 0, 8))])
def test_time_without_work_is_lag_while_data_are_on_their_way(
    two_stages: Schedule, dimension: int, times: tuple[int, ...]
) -> None:
    """dim2 waits 3 us for its input and ends with a lag of 3 us; before that it has nothing to wait for."""
    time = explain(two_stages).dimensions[dimension]
    assert tuple(t / MICROSECOND for t in (time.busy, time.lag, time.idle)) == times


def test_a_chain_of_data_is_its_own_critical_path(two_stages: Schedule) -> None:
    assert [step.waited_for for step in critical_path(two_stages)] == ["release", "data"]


def test_a_critical_path_names_its_stages(figure_5: Instance, run: Run) -> None:
    schedule = run(figure_5, "themis+scf")
    last = critical_path(schedule)[-1]
    assert last.label == schedule.plan.label(figure_5, int(np.argmax(schedule.ready)))


def test_the_graph_has_a_node_per_stage_and_two_ends(figure_5: Instance, run: Run) -> None:
    schedule = run(figure_5, "themis+scf")
    assert set(disjunctive_graph(schedule)) == {*range(schedule.plan.num_stages), SOURCE, SINK}

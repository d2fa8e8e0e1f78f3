import numpy as np
import pytest
from iteration_schedules import scheduled, with_and_without_compute, with_compute
from planning import schedule_of

from themis_opt.formats.timeline import last_iterations, last_periods
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Network
from themis_opt.schedules.schedule import Schedule


@pytest.fixture
def schedule() -> Schedule:
    dimensions = tuple(
        Dimension(kind="switch", size=4, bandwidth=bandwidth, latency="9 us")
        for bandwidth in ("2 GB/s", "1 GB/s", "7 GB/s")
    )
    collective = Collective(kind="all_reduce", size="1 MB", chunks=6, dimensions=("dim1", "dim2"))
    instance = Instance(network=Network(dimensions=dimensions), collectives=(collective,))
    return schedule_of(instance, "baseline+fifo")


@pytest.mark.parametrize("window", [last_iterations, last_periods])
def test_without_compute_all_is_shown(schedule, window):
    shown = window(schedule, 3)
    assert (shown.begin, shown.length, shown.iterations) == (0, schedule.makespan, range(1))
    for name in ("start", "end", "ready"):
        assert np.array_equal(getattr(shown, name), getattr(schedule, name))


@with_compute
def test_the_last_iterations_have_all_their_stages(schedule):
    last, num_stages = schedule.num_iterations - 1, schedule.plan.num_stages
    window = last_iterations(schedule, 2)
    assert window.iterations == range(last - 2, last)
    assert window.stage_iterations.tolist() == [last - 2] * num_stages + [last - 1] * num_stages
    assert window.stage_in_plan.tolist() == [*range(num_stages)] * 2
    begin = schedule.task_start[last - 2, 0]
    assert np.array_equal(window.start + begin, schedule.period.stage_start[last - 2 : last].ravel())


@with_compute
def test_the_length_of_periods_is_that_of_their_iterations(schedule):
    window = last_periods(schedule, 2)
    assert window.length == 2 * schedule.makespan
    assert np.diff(window.periods).tolist() == [schedule.makespan] * 2


def test_periods_show_stages_of_earlier_iterations_that_reach_into_them():
    """DeAR gathers in the next forward pass."""
    schedule = scheduled("dear:threshold=6MB/themis")
    window = last_periods(schedule, 1)
    lasting = window.stage_iterations[window.end > window.start]
    assert set(lasting) == {schedule.num_iterations - 3, schedule.num_iterations - 2}
    assert window.start.min() == 0
    assert window.ready.max() == window.length


@with_compute
def test_a_steady_period_holds_what_one_iteration_sends(schedule):
    window = last_periods(schedule, 1)
    for k in range(len(schedule.instance.fabric.dimensions)):
        held = schedule.costs.occupancy[schedule.plan.stage_dimensions == k].sum()
        assert (window.end - window.start)[window.stage_lanes == k].sum() == held


@with_and_without_compute
def test_busy_intervals_last_as_long_as_the_stages(schedule):
    window = last_periods(schedule, 2)
    for k in schedule.dimensions_in_use:
        held = (window.end - window.start)[window.stage_lanes == k].sum()
        assert np.diff(window.busy_intervals(k)).sum() == held


def mean_share(window):
    times, shares = window.busy_bandwidth
    return (shares * np.diff(np.append(times, window.length))).sum() / window.length


def test_the_mean_of_the_busy_bandwidth_is_the_utilisation(schedule):
    assert mean_share(last_periods(schedule, 1)) == pytest.approx(schedule.utilisation, rel=1e-9)


@with_compute
def test_the_mean_of_the_busy_bandwidth_of_a_period_is_what_is_sent(schedule):
    """Without overheads, dimensions are held only to send."""
    instance = schedule.instance
    bandwidth = sum(dict(zip(instance.links, instance.fabric.bandwidths, strict=True)).values())
    expected = schedule.costs.sent.sum() * 1e12 / bandwidth / schedule.makespan
    assert mean_share(last_periods(schedule, 1)) == pytest.approx(expected, rel=1e-4)

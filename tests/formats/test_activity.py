import numpy as np
import pytest

from themis_opt.formats.activity import busy_bandwidth, busy_intervals
from themis_opt.instance import Collective, Dimension, Instance, Network
from themis_opt.policies.registry import make_policy
from themis_opt.schedule import Schedule
from themis_opt.simulator import simulate


@pytest.fixture
def schedule() -> Schedule:
    dimensions = tuple(
        Dimension(kind="switch", size=4, bandwidth=bandwidth, latency="9 us")
        for bandwidth in ("2 GB/s", "1 GB/s", "7 GB/s")
    )
    collective = Collective(kind="all_reduce", size="1 MB", chunks=6, dimensions=("dim1", "dim2"))
    instance = Instance(network=Network(dimensions=dimensions), collectives=(collective,))
    return simulate(instance, make_policy("baseline+fifo")(instance))


def test_busy_intervals_last_as_long_as_the_stages(schedule):
    for k in schedule.dimensions_in_use:
        stages = schedule.sequence(k)
        assert np.diff(busy_intervals(schedule, k)).sum() == (schedule.end - schedule.start)[stages].sum()


def test_busy_intervals_are_maximal(schedule):
    for k in schedule.dimensions_in_use:
        intervals = busy_intervals(schedule, k)
        assert (intervals[1:, 0] > intervals[:-1, 1]).all()


def test_an_unused_dimension_is_never_busy(schedule):
    assert busy_intervals(schedule, 2).shape == (0, 2)


def test_the_mean_of_the_busy_bandwidth_is_the_utilisation(schedule):
    times, shares = busy_bandwidth(schedule)
    mean = (shares * np.diff(np.append(times, schedule.makespan))).sum() / schedule.makespan
    assert mean == pytest.approx(schedule.utilisation, rel=1e-9)


def test_the_busy_bandwidth_lists_changes_only(schedule):
    times, shares = busy_bandwidth(schedule)
    assert (np.diff(times) > 0).all()
    assert (np.diff(shares) != 0).all()

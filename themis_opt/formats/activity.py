"""When the dimensions are busy: the curves under a timeline."""

import numpy as np

from themis_opt.cost import FloatArray, IntArray
from themis_opt.schedule import Schedule


def busy_intervals(schedule: Schedule, dimension: int) -> IntArray:
    """Maximal intervals in which a dimension is held without a pause.

    Returns
    -------
    int64 array, shape (intervals, 2)
        Start and end in picoseconds, ascending.
    """
    stages = schedule.sequence(dimension)
    start, end = schedule.start[stages], schedule.end[stages]
    lasts = end > start
    start, end = start[lasts], end[lasts]
    pauses = np.flatnonzero(start[1:] > end[:-1])
    firsts, lasts_before = np.append(0, pauses + 1), np.append(pauses, len(end) - 1)
    return np.stack([start[firsts], end[lasts_before]], axis=1) if len(start) else np.empty((0, 2), np.int64)


def busy_bandwidth(schedule: Schedule) -> tuple[IntArray, FloatArray]:
    r"""Share of the bandwidth in use that belongs to busy dimensions, as a step function of time.

    At time `t` it is :math:`\sum_{k \text{ busy at } t} B_k / \sum_k B_k` over the dimensions in use.  Where
    dimensions are held only to send, its mean over the makespan is the utilisation.

    Returns
    -------
    times : int64 array
        Picoseconds, ascending, from 0 on.
    shares : float64 array, same shape
        Share from each time to the next, within 0..1; the last is 0.
    """
    used = schedule.dimensions_in_use
    intervals = [busy_intervals(schedule, k) for k in used]
    times = np.unique(np.concatenate([np.zeros(1, np.int64), *(both.ravel() for both in intervals)]))
    weights = np.array([schedule.instance.network.bandwidths[k] for k in used])
    busy = np.array([_is_busy(both, times) for both in intervals], dtype=np.float64)
    shares: FloatArray = np.clip(weights / weights.sum() @ busy, 0.0, 1.0)
    changes = np.append(True, shares[1:] != shares[:-1])
    return times[changes], shares[changes]


def _is_busy(intervals: IntArray, times: IntArray) -> IntArray:
    begun = np.searchsorted(intervals[:, 0], times, side="right")
    finished = np.searchsorted(intervals[:, 1], times, side="right")
    return begun - finished

r"""Shares of work and bandwidth for devices that compute what they receive: the last of them is done earliest.

Sets and data
    Devices :math:`k` that compute :math:`v_k` bytes of work per second, receive :math:`s_k` bytes per second for each
    byte per second of bandwidth, and hold at most :math:`m_k` bytes; :math:`L` bytes of work, bandwidth :math:`B`.

Variables
    :math:`l_k`, the work of device k; :math:`b_k`, its bandwidth.

Objective
    minimise :math:`T = \max_k \; l_k / v_k + l_k / (s_k b_k)`

Constraints
    :math:`\sum_k l_k = L`, :math:`\sum_k b_k = B`, :math:`0 \le l_k \le m_k`, :math:`b_k \ge 0`

Method: in a time T device k does :math:`\min(m_k, T f_k(b_k))` bytes, :math:`f_k(b) = v_k s_k b / (s_k b + v_k)`, a
concave function of its bandwidth.  So the most work of all devices in T has one price :math:`\lambda` of bandwidth, at
which each takes :math:`b_k = (v_k \sqrt{s_k T / \lambda} - v_k) / s_k`, or what its limit or 0 allows.  Bisection finds
the price for a time, and the least time in which the work is done.

The bound needs no tolerance of the bisections: by Lagrangian duality no shares do more work in T than
:math:`\lambda B + \sum_k \max_b (\min(m_k, T f_k(b)) - \lambda b)`, for every price; where that is less than L, T is
too short.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
HALVINGS = 200  # of an interval of doubles: more than it has digits


class DeviceShares(NamedTuple):
    """Seconds until the last device is done, and those that no shares beat; bytes and bytes per second of each."""

    time: float
    bound: float
    work: Floats
    bandwidth: Floats


def share(speeds: Floats, channels: Floats, limits: Floats, work: float, bandwidth: float) -> DeviceShares:
    """Divide work and bandwidth.

    Raises ValueError if the devices cannot hold the work.

    `speeds`, `channels`, `limits`: v, s and m of the devices, shape (devices,); a limit may be infinite.
    """
    if limits.sum() < work:
        raise ValueError(f"devices hold {limits.sum():.6g} bytes of {work:.6g}")
    devices = (speeds, channels, limits)
    least = most = work / _rates(speeds, channels, np.full(len(speeds), bandwidth)).sum()
    while _done(devices, _bandwidths(devices, most, bandwidth)[0], most).sum() < work:
        least, most = most, 2 * most
    for _ in range(HALVINGS):
        middle = (least + most) / 2
        enough = _done(devices, _bandwidths(devices, middle, bandwidth)[0], middle).sum() >= work
        least, most = (least, middle) if enough else (middle, most)
    bandwidths, _ = _bandwidths(devices, most, bandwidth)
    done = _done(devices, bandwidths, most)
    return DeviceShares(most, _bound(devices, most, work, bandwidth), done * (work / done.sum()), bandwidths)


def least_time(rates: Floats, limits: Floats, work: float) -> float:
    """Seconds until devices of given rates have done some work, none more than its limit."""
    full = limits / rates  # when each is at its limit, of which the first are at theirs before the others
    order = np.argsort(full)
    before = np.concatenate([[0.0], limits[order].cumsum()])[:-1]
    left = rates[order][::-1].cumsum()[::-1]
    times: Floats = (work - before) / left
    return float(times[np.argmax(times <= full[order])])


def _rates(speeds: Floats, channels: Floats, bandwidths: Floats) -> Floats:
    received = channels * bandwidths
    return speeds * received / (received + speeds)


def _done(devices: tuple[Floats, Floats, Floats], bandwidths: Floats, time: float) -> Floats:
    speeds, channels, limits = devices
    return np.minimum(limits, time * _rates(speeds, channels, bandwidths))


def _wanted(devices: tuple[Floats, Floats, Floats], time: float, price: float) -> Floats:
    """What each device takes of bandwidth at a price, no more than its limit has use for."""
    speeds, channels, limits = devices
    free = speeds * (np.sqrt(channels * time / price) - 1) / channels
    needed = np.full_like(speeds, np.inf)
    bounded = limits < time * speeds
    rates = limits[bounded] / time
    needed[bounded] = rates * speeds[bounded] / (channels[bounded] * (speeds[bounded] - rates))
    wanted: Floats = np.clip(free, 0.0, needed)
    return wanted


def _bandwidths(devices: tuple[Floats, Floats, Floats], time: float, bandwidth: float) -> tuple[Floats, float]:
    """The bandwidths that do the most work in a time, and the price of bandwidth."""
    low, high = 1e-300, float(np.max(devices[1])) * time
    for _ in range(HALVINGS):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if _wanted(devices, time, middle).sum() <= bandwidth else (middle, high)
    return _wanted(devices, time, high), high


def _bound(devices: tuple[Floats, Floats, Floats], time: float, work: float, bandwidth: float) -> float:
    """A time in which no shares do the work, as near to a given one as rounding allows."""
    for digits in range(14, 0, -1):
        shorter = time * (1 - 10.0**-digits)
        _, price = _bandwidths(devices, shorter, bandwidth)
        wanted = _wanted(devices, shorter, price)
        most = price * bandwidth + float((_done(devices, wanted, shorter) - price * wanted).sum())
        if most < work:
            return shorter
    return 0.0

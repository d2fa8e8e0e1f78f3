"""Costs of a dimension from measured times."""

import numpy as np
import pytest
from planning import schedule_of

from themis_opt.base.errors import InputError
from themis_opt.formats.calibration import Measurement, calibrate
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Kind, Network
from themis_opt.problem.phases import CollectiveKind

SIZES = tuple(2**k for k in range(10, 31))
US = 10**6
AR, AG, A2A = CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER, CollectiveKind.ALL_TO_ALL


def dimension(npus, *, launch="0 s"):
    return Dimension(kind=Kind.RING, size=npus, bandwidth="200 GB/s", latency="3 us", launch_overhead=launch)


def simulated(link, kind=AR, *, noise=0.0, seed=0, sizes=SIZES):
    """Times that the simulator gives, with relative noise."""
    generator = np.random.default_rng(seed)
    measurements = []
    for size in sizes:
        collective = Collective(kind=kind, size=size, chunks=1)
        instance = Instance(network=Network(dimensions=(link,)), collectives=(collective,))
        makespan = schedule_of(instance, "baseline").makespan
        measurements.append(Measurement(kind, size, link.size, makespan * (1 + noise * generator.standard_normal())))
    return measurements


def test_exact_times_give_the_costs_back():
    fit = calibrate(simulated(dimension(8)))
    assert fit.bandwidth == pytest.approx(200e9, rel=1e-6)
    assert fit.latency == pytest.approx(3 * US, rel=1e-6)
    assert fit.launch_overhead == 0
    assert fit.warnings == ()
    assert np.abs(fit.residuals).max() < 1e-6


@pytest.mark.parametrize("seed", range(3))
def test_noise_of_three_percent_moves_bandwidth_by_two_and_latency_by_ten_at_most(seed):
    places = [simulated(dimension(8), noise=0.03, seed=2 * seed + k) for k in range(2)]  # out of place, in place
    log = [*places[0], *places[1]]
    fit = calibrate(log)
    assert fit.bandwidth == pytest.approx(200e9, rel=0.02)
    assert fit.latency == pytest.approx(3 * US, rel=0.1)
    assert fit.warnings == ()


def test_outliers_count_little():
    measurements = simulated(dimension(8), noise=0.01)
    without = calibrate([measurement for number, measurement in enumerate(measurements) if number not in (3, 9, 15)])
    for number in (3, 9, 15):
        measurements[number] = measurements[number]._replace(time=5 * measurements[number].time)
    fit = calibrate(measurements)
    assert fit.bandwidth == pytest.approx(200e9, rel=0.02)
    assert fit.latency == pytest.approx(3 * US, rel=0.05)
    assert fit.bandwidth == pytest.approx(without.bandwidth, rel=1e-3)
    (warning,) = fit.warnings
    assert warning.startswith(f"3 of {len(measurements)} times are more than half off the fit")


def test_several_group_sizes_tell_launch_overhead_from_latency():
    measurements = [measurement for npus in (2, 4, 8) for measurement in simulated(dimension(npus, launch="10 us"))]
    fit = calibrate(measurements)
    assert fit.launch_overhead == pytest.approx(10 * US, rel=1e-3)
    assert fit.latency == pytest.approx(3 * US, rel=1e-3)


def test_one_group_size_puts_all_of_a_step_in_its_latency():
    fit = calibrate(simulated(dimension(8, launch="7 us")))
    assert fit.launch_overhead == 0
    assert fit.latency == pytest.approx((3 + 7 / 7) * US, rel=1e-6)


def test_all_to_all_on_a_ring_is_passed_on():
    """Sixteen of eight blocks, where an all-gather sends seven."""
    ring = dimension(8)
    fit = calibrate(simulated(ring, AG) + simulated(ring, A2A))
    assert fit.bandwidth == pytest.approx(200e9, rel=1e-3)


def protocols(size):
    """A ring of 8 GPUs with the constants of NCCL for LL, LL128 and Simple, which takes the fastest."""
    sent = 2 * size * 7 / 8
    return min(
        (6.6 + 14 * 0.6) * US + sent / 0.15, (14 + 14 * 1.9) * US + sent / 0.276, (8.4 + 14 * 3.4) * US + sent / 0.3
    )


def test_protocols_that_change_with_the_size_are_outside_the_model():
    fit = calibrate([Measurement(AR, size, 8, protocols(size)) for size in SIZES])
    assert any(text.startswith("outside the model: around ") for text in fit.warnings)


def test_the_dimension_has_the_costs_of_the_fit():
    fit = calibrate(simulated(dimension(8)))
    fitted = fit.dimension(32, name="nvlink")
    assert (fitted.size, fitted.name, fitted.latency) == (32, "nvlink", 3 * US)
    assert fitted.bandwidth == pytest.approx(200e9)


@pytest.mark.parametrize(
    ("measurements", "rule"),
    [
        ([], "must be at least 4"),
        ([Measurement(AR, 8, 2, 5.0)] * 9, "of two sizes or more"),
        ([Measurement(AR, 8, 2, -5.0)] * 9, "must have a positive time"),
        ([Measurement(AG, 8 * 2**k, 2, 8.0 / 2**k) for k in range(9)], "tell no bandwidth"),
    ],
)
def test_measurements_that_tell_nothing_are_refused(measurements, rule):
    with pytest.raises(InputError, match=rule):
        calibrate(measurements)

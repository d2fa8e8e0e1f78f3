"""Chunks that come late, and bytes that may be lost: what a tolerance gains in each way of using it."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from small_iterations import iteration, tensor

from themis_opt.base.errors import InputError
from themis_opt.policies.registry import make_policy
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.study.robustness import MOST_DELAY, ChunkDelay, Execution, loss_distributions, parse_chunk_delay
from themis_opt.study.tolerance import ToleranceEffect, tolerance_effect

US = 10**6
TOLERANCE = 0.2
CALM: dict[str, Any] = {"samples": 30, "bandwidth_spread": 0.0, "latency_jitter": 0.0}


def schedule(tolerance: float = TOLERANCE) -> Schedule:
    """Ten microseconds of compute, then an all-reduce of 100 in 20 chunks."""
    gradients = tensor("gradients", 100, "one", "one", tolerance=tolerance)
    instance = iteration({"one": 10.0}, [gradients], chunks=20)
    return simulate(instance, make_policy("wait_free/baseline+fifo")(instance))


@cache
def effect(delay: str, **more: Any) -> ToleranceEffect:
    return tolerance_effect(schedule(), **(CALM | more), chunk_delay=parse_chunk_delay(delay))


def gains(toleranced: ToleranceEffect) -> tuple[np.ndarray, np.ndarray]:
    """Of bytes never sent and of late bytes lost, over waiting for all, sample by sample."""
    waited, fewer, late = (distribution.makespans for distribution in toleranced.distributions)
    return waited / fewer, waited / late


@pytest.mark.parametrize("delay", ["", "exponential:5us", "lognormal:5us:2"])
@pytest.mark.parametrize("jitter", [0.0, 1.0])
def test_fewer_bytes_gain_at_most_their_share(delay: str, jitter: float) -> None:
    toleranced = effect(delay, latency_jitter=jitter, bandwidth_spread=0.1)
    fewer, _ = gains(toleranced)
    assert toleranced.most == pytest.approx(1.25)
    assert (fewer <= toleranced.most * (1 + 1e-6)).all()
    assert (fewer > 1).all()


def test_fewer_bytes_gain_less_the_later_chunks_are() -> None:
    medians = [np.median(gains(effect(delay))[0]) for delay in ("", "exponential:5us", "exponential:50us")]
    assert medians == sorted(medians, reverse=True)
    assert medians[0] > medians[-1] + 0.03


def test_losing_what_is_late_gains_nothing_where_nobody_is_late() -> None:
    assert gains(effect(""))[1].tolist() == [1.0] * CALM["samples"]


def test_losing_what_is_late_gains_more_the_longer_the_tail() -> None:
    late = [np.quantile(gains(effect(f"lognormal:5us:{sigma}"))[1], 0.99) for sigma in (0.0, 1.0, 2.5)]
    assert late == sorted(late)
    assert late[0] < 1.05
    assert late[-1] > 1.25


def test_rows_compare_quantiles_with_those_of_waiting_for_all() -> None:
    waited, fewer, late = effect("exponential:5us").rows()
    assert [row["way"] for row in (waited, fewer, late)] == ["all waited for", "never sent", "late is lost"]
    assert waited["p99_gain"] == 1
    assert fewer["p50_ns"] * fewer["p50_gain"] == pytest.approx(waited["p50_ns"])
    assert late["p50_ns"] <= waited["p50_ns"] <= waited["p99_ns"]


def test_an_iteration_waits_for_its_latest_chunk() -> None:
    """One chunk per tensor: the time is what it is without delays, and the delay of that chunk."""
    gradients = tensor("gradients", 100, "one", "one")
    instance = iteration({"one": 10.0}, [gradients], chunks=1)
    plan = make_policy("wait_free/baseline+fifo")(instance)
    many = CALM | {"samples": 500, "chunk_delay": ChunkDelay("exponential", US)}
    (distribution,) = loss_distributions(instance, {"it": Execution(plan)}, **many)
    late = distribution.makespans - simulate(instance, plan).makespan
    assert late.min() > 0
    assert late.mean() == pytest.approx(US, rel=0.15)


def test_halves_of_an_all_reduce_are_late_once() -> None:
    gradients = tensor("gradients", 100, "one", "one")
    instance = iteration({"one": 10.0}, [gradients], chunks=1)
    delay = ChunkDelay("lognormal", 3 * US)
    plans = {name: Execution(make_policy(f"{name}/baseline+fifo")(instance)) for name in ("wait_free", "dear")}
    calm, late = (loss_distributions(instance, plans, **CALM, chunk_delay=chunk_delay) for chunk_delay in (None, delay))
    assert [int(b.makespans[0] - a.makespans[0]) for a, b in zip(calm, late, strict=True)] == [3 * US] * 2


@pytest.mark.parametrize(("text", "mean"), [("exponential:2us", 2 * US), ("lognormal:2us:0.5", 2 * US * np.exp(0.125))])
def test_delays_have_the_mean_of_their_distribution(text: str, mean: float) -> None:
    delay = parse_chunk_delay(text)
    drawn = delay.draw(np.random.default_rng(0), 10**5)
    assert drawn.mean() == pytest.approx(mean, rel=0.02)
    assert drawn.max() <= MOST_DELAY * delay.scale


@pytest.mark.parametrize(
    "text", ["normal:1us", "exponential", "exponential:1us:2", "lognormal:1us", "exponential:fast", "lognormal:1us:-1"]
)
def test_other_delays_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="--chunk-delay = "):
        parse_chunk_delay(text)


def test_however_long_the_tail_no_delay_is_longer_than_a_thousand_scales() -> None:
    for scale in (0, 7):
        delays = ChunkDelay("lognormal", scale, sigma=1e3).draw(np.random.default_rng(0), 100)
        assert delays.min() >= 0
        assert delays.max() == MOST_DELAY * scale


def test_delays_that_outlast_the_clock_are_refused() -> None:
    with pytest.raises(InputError, match=r"chunk_delay.*may outlast the clock"):
        effect("exponential:1000s")

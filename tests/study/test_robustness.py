"""Plans in disturbed networks."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from iteration_strategies import iteration_instances, specifications
from samples import every
from small_iterations import iteration, tensor, two_layers
from strategies import enforced_plans, schedules

from themis_opt.base.errors import CyclicPlan, InputError, InvalidSchedule
from themis_opt.policies.registry import make_policy
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Kind, Network
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.plan import Chunks, Launch, Plan, TaskOf
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.study.robustness import (
    MOST_DELAY,
    WAYS,
    ChunkDelay,
    Execution,
    LossDistribution,
    ToleranceEffect,
    executions,
    loss_distributions,
    parse_chunk_delay,
    tolerance_effect,
)

Run = Callable[[Instance, str], Schedule]
US = 10**6
EXACT = {"bandwidth_spread": 0.0, "latency_jitter": 0.0}


def makespans(instance: Instance, execution: Execution, **options: Any) -> np.ndarray:
    (distribution,) = loss_distributions(instance, {"it": execution}, **options)
    return distribution.makespans


def two_dimensions(*collectives: Collective, latency: str = "0 ns", rule: str = "lag") -> Instance:
    """Each chunk of 2000 bytes of an all-to-all holds a dimension for 1 us."""
    dimension = Dimension(kind=Kind.SWITCH, size=2, bandwidth="1 GB/s", latency=latency)
    return Instance(network=Network(dimensions=(dimension, dimension)), collectives=collectives, latency=rule)


def all_to_all(chunks: int = 1) -> Collective:
    return Collective(kind=CollectiveKind.ALL_TO_ALL, size=2000 * chunks, chunks=chunks)


def chunks(*paths: tuple[int, ...]) -> Chunks:
    return Chunks(np.full(len(paths), 2000), np.array(paths))


def slower(instance: Instance, *, bandwidth: float = 1.0, latency: int = 1) -> Instance:
    """The instance with all bandwidths and latencies multiplied."""
    dimensions = [d.faster(bandwidth).replace(latency=f"{d.latency * latency} ps") for d in instance.network.dimensions]
    return instance.replace(network={"dimensions": [d.model_dump(mode="json") for d in dimensions]})


@given(schedules())
def test_without_disturbance_every_makespan_is_the_simulated_one(schedule: Schedule) -> None:
    for distribution in loss_distributions(schedule.instance, executions("it", schedule), samples=2, **EXACT):
        assert distribution.makespans.tolist() == [schedule.makespan] * 2
        assert distribution.nominal_makespan == schedule.makespan


@pytest.mark.parametrize(
    ("rule", "first_three"), [("lag", [492526643, 507534321, 497826987]), ("occupy", [931308666, 930421487, 905592207])]
)
def test_a_seed_gives_the_same_samples_for_ever(mixed: Instance, run: Run, rule: str, first_three: list[int]) -> None:
    schedule = run(mixed.replace(latency=rule), "themis+scf")
    execution = Execution(schedule.enforced_plan())
    assert makespans(schedule.instance, execution, samples=3, seed=5).tolist() == first_three


def test_sums_that_take_time_take_it_in_samples(mixed: Instance, run: Run) -> None:
    instance = mixed.replace(network=mixed.network.replace(reduction="10 GB/s"))
    schedule = run(instance, "themis+scf")
    assert schedule.makespan > run(mixed, "themis+scf").makespan
    assert makespans(instance, Execution(schedule.plan), samples=1, **EXACT).tolist() == [schedule.makespan]


@settings(max_examples=12)
@given(iteration_instances(), specifications)
def test_without_disturbance_an_iteration_takes_as_long_as_simulated(instance: Instance, policy: str) -> None:
    schedule = simulate(instance, make_policy(policy)(instance))
    assume(schedule.period.is_steady and not schedule.plan.sequences)
    enforced, dynamic = loss_distributions(instance, executions("it", schedule), samples=2, **EXACT)
    assert dynamic.makespans.tolist() == [dynamic.nominal_makespan] * 2 == [schedule.makespan] * 2
    assert enforced.makespans.tolist() == [simulate(instance, schedule.enforced_plan()).makespan] * 2


@settings(max_examples=12)
@given(iteration_instances(), specifications)
def test_no_sample_of_an_iteration_beats_its_bound(instance: Instance, policy: str) -> None:
    schedule = simulate(instance, make_policy(policy)(instance))
    distributions = loss_distributions(instance, executions("it", schedule), samples=3, compute_jitter=0.5)
    assert all(distribution.losses[0] >= -1e-9 for distribution in distributions)


def test_iterations_that_do_not_repeat_have_no_order_to_enforce() -> None:
    instance = two_layers()
    plan = make_policy("fused/baseline+fifo")(instance)
    assert set(executions("it", simulate(instance, plan, iterations=2))) == {"it, dynamic"}
    assert set(executions("it", simulate(instance, plan))) == {"it, enforced", "it, dynamic"}


def test_a_sample_runs_until_its_iterations_repeat_each_other() -> None:
    """The network fills up for five iterations, which take longer than those that follow."""
    tensors = [tensor("small", 20, "one", "two", needed_in="next"), tensor("large", 50, "three", "two")]
    instance = iteration({"one": 1.0, "two": 10.0, "three": 1.0}, tensors)
    plan = make_policy("wait_free/baseline+fifo")(instance)
    assert simulate(instance, plan, iterations=4).makespan > 71 * US
    assert makespans(instance, Execution(plan), samples=1, **EXACT).tolist() == [71 * US]


def test_tasks_are_slower_by_at_most_the_jitter_each_on_its_own() -> None:
    """Tasks of 10 and 30 us hide the communication: with separate factors they take 60 us on average."""
    instance = iteration({"one": 10.0, "two": 30.0}, [tensor("hidden", 1, "one", "one")])
    execution = Execution(make_policy("wait_free/baseline+fifo")(instance))
    (distribution,) = loss_distributions(
        instance, {"it": execution}, samples=100, bandwidth_spread=0.0, latency_jitter=0.0, compute_jitter=1.0
    )
    assert distribution.nominal_makespan == 40 * US
    assert 40 * US <= distribution.makespans.min() < 44 * US < 76 * US < distribution.makespans.max() <= 80 * US
    assert distribution.makespans.mean() == pytest.approx(60 * US, rel=0.03)
    assert np.corrcoef(distribution.makespans, distribution.bounds)[0, 1] == pytest.approx(1)


def test_jitter_of_compute_leaves_bandwidths_and_latencies_as_they_are(mixed: Instance, run: Run) -> None:
    execution = Execution(run(mixed, "themis+scf").enforced_plan())
    some = makespans(mixed, execution, samples=3, compute_jitter=1.0)
    assert some.tolist() == makespans(mixed, execution, samples=3).tolist()


def test_a_stage_is_disturbed_alike_whatever_launches_it() -> None:
    """An all-reduce as a whole, and in two halves one after the other, on a network that is all latency."""
    slow = {"kind": "switch", "size": 2, "bandwidth": "1000 TB/s", "latency": "1 s"}
    instance = iteration({"one": 1.0}, [tensor("gradients", 1, "one", "one")], network={"dimensions": [slow]})
    after, before = TaskOf(0, 0), TaskOf(0, 1)
    halves = (
        Launch("first", CollectiveKind.REDUCE_SCATTER, (0,), after, before, part="scatter"),
        Launch("second", CollectiveKind.ALL_GATHER, (0,), after, before, after_launches=(0,), part="gather"),
    )
    of_halves = Plan(tuple(Chunks(np.array([1000]), np.array([[0]])) for _ in halves), launches=halves)
    of_whole = Plan((Chunks(np.array([1000]), np.array([[0, 0]])),))
    one, other = (makespans(instance, Execution(plan), samples=20) for plan in (of_whole, of_halves))
    assert one.tolist() == other.tolist()
    assert len(set(one.tolist())) == 20


def test_both_parts_of_a_split_dimension_have_its_bandwidth() -> None:
    split = {"dimension": "dim1", "sizes": [2, 2], "names": ["near", "far"]}
    network = {"dimensions": [{"kind": "switch", "size": 4, "bandwidth": "1 GB/s"}]}
    tensors = [tensor(name, 100, "one", "one", dimensions=[name]) for name in ("near", "far")]
    instance = iteration({"one": 1.0}, tensors, network=network, splits=[split])
    execution = Execution(make_policy("wait_free/baseline+fifo")(instance))
    (distribution,) = loss_distributions(instance, {"it": execution}, samples=20, bandwidth_spread=0.5)
    assert distribution.losses == pytest.approx(0, abs=1e-4)


@given(enforced_plans())
def test_samples_stay_above_their_bounds_and_between_the_extreme_networks(case: tuple[Instance, Plan]) -> None:
    """Both extremes are simulated, so a stage that never started would show."""
    instance, plan = case
    fastest = simulate(slower(instance, bandwidth=1.1), plan).makespan
    slowest = simulate(slower(instance, bandwidth=0.9, latency=2), plan).makespan
    (distribution,) = loss_distributions(instance, {"it": Execution(plan)}, samples=3)
    assert distribution.losses[0] >= -1e-9
    assert fastest <= distribution.makespans.min()
    assert distribution.makespans.max() <= slowest


@pytest.mark.parametrize("rule", ["lag", "occupy"])
def test_latency_is_disturbed_whether_it_occupies_or_not(rule: str) -> None:
    instance = two_dimensions(all_to_all(), latency="10 us", rule=rule)
    plan = Plan((chunks((0, 1)),))
    sampled = makespans(instance, Execution(plan), samples=50, bandwidth_spread=0.0, latency_jitter=1.0)
    assert 22 * US < sampled.min() < 32 * US < sampled.max() < 42 * US


def test_bandwidths_are_off_by_at_most_the_spread() -> None:
    network = Network(dimensions=(Dimension(kind=Kind.SWITCH, size=2, bandwidth="1 GB/s"),))
    instance = Instance(network=network, collectives=(all_to_all(),))
    plan = Plan((chunks((0,)),))
    sampled = makespans(instance, Execution(plan), samples=200, bandwidth_spread=0.25)
    factors = 1 * US / sampled
    assert 0.75 <= factors.min() < 0.8
    assert 1.2 < factors.max() <= 1.25


def test_launch_overheads_and_releases_are_not_disturbed() -> None:
    dimension = Dimension(kind=Kind.SWITCH, size=2, bandwidth="1000 TB/s", launch_overhead="3 us")
    late = all_to_all().replace(release="5 us")
    instance = Instance(network=Network(dimensions=(dimension,)), collectives=(late,))
    sampled = makespans(instance, Execution(Plan((chunks((0,)),))), samples=5)
    assert sampled == pytest.approx(8 * US, rel=1e-5)


def test_all_policies_see_the_same_samples(mixed: Instance, run: Run) -> None:
    ours, theirs = executions("it", run(mixed, "themis+scf")), executions("other", run(mixed, "baseline+fifo"))
    together = loss_distributions(mixed, theirs | ours, samples=4)[2:]
    alone = loss_distributions(mixed, ours, samples=4)
    assert [d.makespans.tolist() for d in together] == [d.makespans.tolist() for d in alone]
    assert [d.bounds.tolist() for d in together] == [d.bounds.tolist() for d in alone]


@pytest.mark.parametrize("kind", CollectiveKind)
def test_a_stage_is_disturbed_alike_whatever_the_path_of_its_chunk(kind: CollectiveKind) -> None:
    """One chunk on two dimensions: its lags add up to the same in either order, and lags are all there is."""
    near, far = (Dimension(kind=Kind.SWITCH, size=2, bandwidth="1000 TB/s", latency=text) for text in ("1 s", "3 s"))
    instance = Instance(
        network=Network(dimensions=(near, far)), collectives=(Collective(kind=kind, size=2000, chunks=1),)
    )
    phases = len(kind.rule.phases)
    inwards, outwards = (
        makespans(instance, Execution(Plan((chunks(path * phases),))), samples=5) for path in ((0, 1), (1, 0))
    )
    assert inwards == pytest.approx(outwards, rel=1e-9)
    assert len(set(inwards.tolist())) == 5


def test_stages_are_disturbed_independently() -> None:
    """The later of two collectives that are all lag: their factors are uniform in [1, 2], the larger 5/3 on average."""
    dimension = Dimension(kind=Kind.SWITCH, size=2, bandwidth="1000 TB/s", latency="1 s")
    instance = Instance(network=Network(dimensions=(dimension,)), collectives=(all_to_all(), all_to_all()))
    sampled = makespans(instance, Execution(Plan((chunks((0,)), chunks((0,))))), samples=400)
    assert sampled.mean() / (10**6 * US) == pytest.approx(5 / 3, abs=0.04)


WAITING = Plan((chunks((0, 1), (1, 0)),)).enforcing((np.array([0, 3]), np.array([1, 2])))
"""The second dimension waits for the first chunk although the second one is ready at once."""


@pytest.mark.parametrize(("enforced", "makespan"), [(True, 4 * US), (False, 2 * US)])
def test_an_enforced_order_waits_and_in_a_dynamic_one_what_is_ready_overtakes(enforced: bool, makespan: int) -> None:
    sampled = makespans(two_dimensions(all_to_all(2)), Execution(WAITING, enforced=enforced), samples=1, **EXACT)
    assert sampled.tolist() == [makespan]


@pytest.mark.parametrize(("first", "makespan"), [("small", 5.0), ("large", 5.5)])
def test_a_dynamic_order_prefers_what_is_first_in_the_sequence(first: str, makespan: float) -> None:
    """A small and a large chunk pass a fast and a slow dimension; the slow one starts sooner with the small one."""
    fast, slow = (Dimension(kind=Kind.SWITCH, size=2, bandwidth=text) for text in ("1 GB/s", "500 MB/s"))
    instance = Instance(network=Network(dimensions=(fast, slow)), collectives=(all_to_all(2),))
    large_first = np.array([2, 0]), np.array([3, 1])
    small_first = np.array([0, 2]), np.array([1, 3])
    plan = Plan(
        (Chunks(np.array([1000, 3000]), np.array([[0, 1], [0, 1]])),),
        sequences=small_first if first == "small" else large_first,
    )
    assert makespans(instance, Execution(plan, enforced=False), samples=1, **EXACT).tolist() == [makespan * US]


def test_the_quantiles_of_losses() -> None:
    makespans = np.array([105, 101, 103, 104, 102])
    distribution = LossDistribution("it", 100, 80.0, makespans, np.full(5, 100.0))
    assert distribution.losses == pytest.approx([0.01, 0.02, 0.03, 0.04, 0.05])
    assert distribution.quantile(0.5) == pytest.approx(0.03)
    assert distribution.quantile(0.9) == pytest.approx(0.046)
    assert distribution.row() == pytest.approx(
        {
            "policy": "it",
            "nominal_makespan_ns": 0.1,
            "nominal_loss": 0.25,
            "mean_loss": 0.03,
            "median_loss": 0.03,
            "p95_loss": 0.048,
            "p99_loss": 0.0496,
            "max_loss": 0.05,
            "mean_slowdown": 0.03,
        }
    )


def test_every_sample_has_a_bound_of_its_own() -> None:
    instance = two_dimensions(all_to_all(2))
    (distribution,) = loss_distributions(instance, {"it": Execution(WAITING)}, samples=5)
    assert len(set(distribution.bounds.tolist())) == 5
    assert distribution.losses == pytest.approx(np.sort(distribution.makespans / distribution.bounds - 1))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("samples", 0),
        ("samples", -1),
        ("samples", 10**9),
        ("seed", -1),
        ("bandwidth_spread", -0.1),
        ("bandwidth_spread", 1.0),
        ("bandwidth_spread", float("nan")),
        ("latency_jitter", -0.1),
        ("latency_jitter", float("inf")),
        ("latency_jitter", float("nan")),
        ("compute_jitter", -0.1),
        ("compute_jitter", float("inf")),
    ],
)
def test_arguments_out_of_range_are_refused(field: str, value: float) -> None:
    with pytest.raises(InputError, match=field):
        makespans(two_dimensions(all_to_all(2)), Execution(WAITING), **{field: value})


@pytest.mark.parametrize(
    "factor",
    [
        {"latency_jitter": 1e300},
        {"bandwidth_spread": 1 - 1e-16},
        {"compute_jitter": 1e300},
        {"chunk_delay": ChunkDelay("exponential", 10**15)},
    ],
)
def test_disturbances_that_could_outlast_the_clock_are_refused(factor: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=rf"{next(iter(factor))}.*outlast the clock"):
        makespans(two_dimensions(all_to_all(2), latency="1 s"), Execution(WAITING), **factor)


@pytest.mark.parametrize(
    ("plan", "error"),
    [
        (WAITING.enforcing((np.array([3, 0]), np.array([1, 2]))), CyclicPlan),
        (Plan((chunks((0, 0), (1, 1)),)), InvalidSchedule),
    ],
)
def test_plans_that_cannot_be_run_are_refused(plan: Plan, error: type[Exception]) -> None:
    with pytest.raises(error):
        makespans(two_dimensions(all_to_all(2)), Execution(plan), samples=1)


TOLERANCE = 0.2
CALM: dict[str, Any] = {"samples": 15} | EXACT


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


@pytest.mark.parametrize("delay", every(2, ["", "exponential:5us", "lognormal:5us:2"]))
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
    assert tuple(row["way"] for row in (waited, fewer, late)) == WAYS
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

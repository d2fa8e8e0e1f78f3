"""The hourglass policy: its plans, and the parts it is made of."""

from collections import Counter
from itertools import permutations, product
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paper_networks import PAPER_NETWORKS
from strategies import instances

import themis_opt
from themis_opt.base.errors import InputError
from themis_opt.policies.baseline import Baseline
from themis_opt.policies.hourglass import policy as hourglass
from themis_opt.policies.hourglass.candidates import (
    SEARCH,
    Candidates,
    empty_candidates,
    improve,
    is_known,
    line_up,
    place,
    place_all,
)
from themis_opt.policies.hourglass.paths import Pool, choose_paths, empty_pool
from themis_opt.policies.hourglass.policy import USUAL_HOURGLASS, Hourglass, HourglassParams, balanced
from themis_opt.policies.hourglass.tables import (
    LOW_BITS,
    Tables,
    add_load,
    cheapest_path,
    dimension_at,
    least_lags,
    swapped,
    tables_of,
)
from themis_opt.policies.themis import Themis
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Network
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.event_loop import makespan_of
from themis_opt.schedules.plan import Chunks, Plan, equal_sizes
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.solving.makespan_bounds import fluid, order_count


def scheduled(instance: Instance, sizes: str = "equal") -> Schedule:
    return simulate(instance, Hourglass(sizes)(instance))  # type: ignore[arg-type]


def of_kind(instance: Instance, kind: CollectiveKind, chunks: int = 8) -> Instance:
    return instance.replace(collectives=(instance.collectives[0].replace(kind=kind, chunks=chunks),))


def chosen(instance: Instance, weight: float = 0.0) -> tuple[Tables, Pool, float]:
    """Paths balanced with lags as tails: the tables, the pool and the latest finish."""
    tables, count = tables_of(instance), len(instance.network.dimensions)
    pool, tail = empty_pool(tables, count, USUAL_HOURGLASS.paths), least_lags(tables, count) + tables.threshold[:, None]
    return tables, pool, choose_paths(tables, pool, tail, weight, USUAL_HOURGLASS.paths)


def makespan_of_hand(candidates: Candidates) -> int:
    """Makespan of the plan in hand."""
    return makespan_of(candidates.operations, candidates.workspace)


def encoded(path: tuple[int, ...]) -> int:
    return sum(local << 4 * position for position, local in enumerate(path))


@pytest.mark.parametrize("sizes", ["equal", "free"])
@pytest.mark.parametrize("ag_order", ["free", "reverse"])
def test_plans_of_several_collectives_are_valid(every_kind: Instance, ag_order: str, sizes: str) -> None:
    validate(scheduled(every_kind.overridden(chunks=3, ag_order=ag_order), sizes))


@settings(max_examples=40)
@given(instances(), st.sampled_from(["equal", "free"]))
def test_plans_of_random_instances_are_valid_and_never_worse_than_themis(instance: Instance, sizes: str) -> None:
    schedule = scheduled(instance, sizes)
    validate(schedule)
    assert schedule.makespan <= simulate(instance, Themis("scf")(instance)).makespan


@pytest.mark.parametrize("kind", CollectiveKind)
def test_chunks_are_equal_by_default(hetero: Instance, kind: CollectiveKind) -> None:
    assert scheduled(of_kind(hetero, kind, 7)).has_equal_sizes


def test_every_sequence_is_enforced(hetero: Instance) -> None:
    plan = Hourglass()(hetero.overridden(chunks=4))
    assert [s is not None for s in plan.sequences] == [True] * 3


def test_the_gather_order_is_reversed_where_it_has_to_be(hetero: Instance) -> None:
    (chunks,) = Hourglass()(hetero.overridden(chunks=16, ag_order="reverse")).chunks
    assert np.array_equal(chunks.paths, chunks.paths[:, ::-1])


def test_the_gather_order_is_not_reversed_where_that_is_better(hetero: Instance) -> None:
    (chunks,) = Hourglass()(hetero.overridden(chunks=16)).chunks
    assert not np.array_equal(chunks.paths, chunks.paths[:, ::-1])


def test_equal_instances_get_equal_plans(hetero: Instance) -> None:
    few = hetero.overridden(chunks=6)
    assert Hourglass()(few) == Hourglass()(few.replace(name="other"))


def test_free_sizes_take_no_more_chunks_than_allowed(mixed: Instance) -> None:
    instance = mixed.overridden(chunks=5)
    plan = Hourglass("free")(instance)
    assert all(len(chunks.sizes) <= 5 for chunks in plan.chunks)


def test_free_sizes_keep_to_whole_elements(hetero: Instance) -> None:
    (chunks,) = Hourglass("free")(hetero.overridden(chunks=6)).chunks
    assert (chunks.sizes % hetero.collectives[0].element_bytes == 0).all()


@pytest.mark.parametrize("network", PAPER_NETWORKS)
def test_free_sizes_beat_as_many_equal_chunks(network: str) -> None:
    instance = themis_opt.load(f"{network}.all_reduce.100MiB").overridden(chunks=8)
    assert scheduled(instance, "free").makespan < scheduled(instance).makespan


@pytest.mark.parametrize("network", PAPER_NETWORKS)
def test_free_sizes_are_no_worse_than_many_equal_chunks_as_dealt_out(network: str) -> None:
    instance = themis_opt.load(f"{network}.all_reduce.1000MiB")
    assert scheduled(instance, "free").makespan <= balanced(instance, HourglassParams(trials_per_stage=0)).makespan


def test_very_many_collectives_keep_equal_chunks_though_sizes_are_free() -> None:
    network = Network(dimensions=(Dimension(kind="ring", size=4, bandwidth="100 GB/s"),))
    one = Collective(kind="all_reduce", size="1 MiB", chunks=5)
    instance = Instance(network=network, collectives=tuple(one.replace(name=f"number {i}") for i in range(65)))
    assert scheduled(instance, "free").has_equal_sizes


@pytest.mark.parametrize("sizes", ["equal", "free"])
def test_the_best_usual_schedule_is_returned_where_it_is_better(
    hetero: Instance, monkeypatch: pytest.MonkeyPatch, sizes: str
) -> None:
    monkeypatch.setattr(hourglass, "plan_of", lambda instance, *_: Baseline("lifo")(instance))
    monkeypatch.setattr("themis_opt.solving.sizing.resized", lambda schedule: schedule)
    usual = (Themis("scf"), Themis("fifo"), Baseline())
    assert scheduled(hetero, sizes).makespan == min(simulate(hetero, policy(hetero)).makespan for policy in usual)


@pytest.mark.filterwarnings("error")
def test_a_clock_that_is_too_small_is_reported() -> None:
    slow = Network(dimensions=(Dimension(kind="ring", size=4, bandwidth="1 B/s"),))
    with pytest.raises(InputError):
        Hourglass()(Instance(network=slow, collectives=(Collective(kind="all_reduce", size="1 TiB"),)))


def test_twelve_dimensions_are_planned() -> None:
    dimensions = tuple(Dimension(kind="ring", size=2, bandwidth=f"{12 - k} GB/s") for k in range(12))
    collective = Collective(kind="all_reduce", size="1 MiB", chunks=2)
    validate(scheduled(Instance(network=Network(dimensions=dimensions), collectives=(collective,))))


@pytest.mark.parametrize("ag_order", ["free", "reverse"])
@pytest.mark.parametrize("network", PAPER_NETWORKS)
def test_64_chunks_come_within_a_hundredth_of_the_fluid_bound(network: str, ag_order: str) -> None:
    instance = themis_opt.load(f"{network}.all_reduce.100MiB").overridden(ag_order=ag_order)
    assert scheduled(instance).makespan <= 1.01 * fluid(instance)


@pytest.mark.parametrize(("chunks", "sizes", "least"), [(64, "equal", 0.99), (16, "equal", 0.97), (8, "free", 0.96)])
def test_mean_utilisation_on_the_paper_networks(chunks: int, sizes: str, least: float) -> None:
    loaded = [themis_opt.load(f"{network}.all_reduce.100MiB") for network in PAPER_NETWORKS]
    grid = [i.overridden(chunks=chunks, size=f"{size} MiB") for i in loaded for size in (100, 300, 1000)]
    assert fmean(scheduled(instance, sizes).utilisation for instance in grid) >= least


@pytest.mark.parametrize("kind", CollectiveKind)
def test_every_kind_is_planned_better_than_by_themis(hetero: Instance, kind: CollectiveKind) -> None:
    instance = of_kind(hetero, kind, 16)
    assert scheduled(instance).makespan < simulate(instance, Themis("scf")(instance)).makespan


def test_collectives_released_one_by_one_are_planned_near_the_fluid_bound(hetero: Instance) -> None:
    one = hetero.collectives[0].replace(chunks=32)
    several = tuple(one.replace(name=f"number {i}", release=f"{i * 200} us") for i in range(3))
    instance = hetero.replace(collectives=several)
    assert scheduled(instance).makespan <= 1.02 * fluid(instance)


@pytest.mark.parametrize("chunks", [1, 3])
def test_the_interpreted_search_finds_the_same_plan_as_the_compiled_one(
    mixed: Instance, monkeypatch: pytest.MonkeyPatch, chunks: int
) -> None:
    instance = mixed.overridden(chunks=chunks)
    monkeypatch.setattr(SEARCH, "patience", 0)
    compiled = balanced(instance)
    monkeypatch.setattr(SEARCH, "patience", 10**12)
    assert balanced(instance) == compiled


def test_compiling_waits_until_its_patience_is_used_up(figure_5: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Counter[str]()
    monkeypatch.setattr(SEARCH, "compiled", lambda *_: calls.update(["compiled"]))
    monkeypatch.setattr(SEARCH, "patience", 10**9)
    balanced(figure_5)
    assert not calls
    assert SEARCH.patience < 10**9


@given(st.permutations(range(6)), st.integers(0, 5), st.integers(0, 5))
def test_two_positions_of_a_path_are_swapped(path: list[int], one: int, two: int) -> None:
    changed = swapped(encoded(tuple(path)), one, two)
    path[one], path[two] = path[two], path[one]
    assert [dimension_at(changed, position) for position in range(6)] == path


def test_a_path_holds_any_local_dimension() -> None:
    assert dimension_at(swapped(LOW_BITS << 44, 11, 0), 0) == LOW_BITS


@pytest.mark.parametrize("ag_order", ["free", "reverse"])
@pytest.mark.parametrize("kind", CollectiveKind)
def test_the_cheapest_path_is_the_best_of_all_orders(hetero: Instance, kind: CollectiveKind, ag_order: str) -> None:
    tables = tables_of(of_kind(hetero, kind).overridden(ag_order=ag_order))
    price, least, choice = np.array([0.2, 0.5, 0.9]), np.zeros(8), np.zeros(8, dtype=np.int64)

    def cost(path: int) -> float:
        load = np.zeros(3)
        middle = add_load(tables, load, 0, 0, path)
        return float(load @ price) + 0.4 * middle

    path = cheapest_path(tables, 0, 0, price, 0.4, least, choice)
    assert cost(path) == pytest.approx(min(cost(encoded(path)) for path in permutations(range(3))))


def test_the_load_of_a_path_is_that_of_its_stages(hetero: Instance) -> None:
    instance = hetero.overridden(chunks=1)
    tables, (scatter, gather) = tables_of(instance), ((2, 0, 1), (1, 2, 0))
    load = np.zeros(3)
    for layer, path in enumerate((scatter, gather)):
        add_load(tables, load, 0, layer, encoded(path))
    plan = Plan((Chunks(equal_sizes(instance.exchanges[0]), np.array([scatter + gather])),))
    occupancy = plan.costs(instance).occupancy
    assert load.tolist() == np.bincount(scatter + gather, weights=occupancy).tolist()


def test_tails_are_the_least_lags_of_what_is_released_from_then_on(hetero: Instance) -> None:
    one = hetero.collectives[0]
    later = one.replace(name="later", dimensions=("dim2",), release="1 ms")
    instance = hetero.replace(collectives=(one, later))
    lags = least_lags(tables_of(instance), 3)
    assert (lags[0] > 0).tolist() == [True, True, True]
    assert (lags[1] > 0).tolist() == [False, True, False]


def test_thresholds_are_at_most_eight_releases_from_the_first_on(hetero: Instance) -> None:
    one = hetero.collectives[0]
    many = tuple(one.replace(name=f"number {i}", release=f"{i + 1} us") for i in range(20))
    threshold = tables_of(hetero.replace(collectives=many)).threshold
    assert len(threshold) == 8
    assert threshold[0] == 10**6
    assert set(threshold.tolist()) <= {(i + 1) * 10**6 for i in range(20)}


@pytest.mark.parametrize("network", PAPER_NETWORKS)
def test_chunks_are_balanced_almost_as_the_order_count_bound_allows(network: str) -> None:
    instance = themis_opt.load(f"{network}.all_reduce.100MiB").overridden(chunks=16)
    assert chosen(instance)[2] <= 1.03 * order_count(instance)


@pytest.mark.parametrize("weight", USUAL_HOURGLASS.weights)
def test_every_layer_gets_all_its_chunks(every_kind: Instance, weight: float) -> None:
    tables, pool, _ = chosen(every_kind.overridden(chunks=9), weight)
    dealt = Counter[tuple[int, int]]()
    for i in range(pool.size[0]):
        dealt[int(pool.collective[i]), int(pool.layer[i])] += int(pool.chunks[i])
    layers = [(c, layer) for c, phases in enumerate(tables.phases) for layer in range(phases)]
    assert dealt == Counter(dict.fromkeys(layers, 9))


def test_the_latest_finish_is_that_of_the_summed_loads(hetero: Instance) -> None:
    tables, pool, finish = chosen(hetero.overridden(chunks=5))
    load = sum(pool.chunks[i] * pool.load[i] for i in range(pool.size[0]))
    assert finish == pytest.approx(float((load + least_lags(tables, 3)[0]).max()))


def test_a_weight_shortens_the_middle_stages(hetero: Instance) -> None:
    pools = [chosen(hetero, weight)[1] for weight in (0.0, 0.5)]
    assert pools[1].total_middle[0] < pools[0].total_middle[0]


def test_more_chunks_than_batches_are_all_dealt_out(hetero: Instance) -> None:
    _, pool, finish = chosen(hetero.overridden(chunks=1001))
    assert pool.chunks[: pool.size[0]].sum() == 2 * 1001
    assert finish <= 1.02 * fluid(hetero.overridden(chunks=1001))


def test_chunks_are_lined_up_with_every_path_as_often_as_it_was_chosen(mixed: Instance) -> None:
    tables, pool, _ = chosen(mixed.overridden(chunks=7))
    candidates = empty_candidates(tables, 3, 1)
    line_up(tables, pool, candidates, 0)
    for i, layer in product(range(pool.size[0]), range(2)):
        if pool.layer[i] == layer:
            paths = candidates.candidate_path[0, candidates.collective == pool.collective[i], layer]
            assert (paths == pool.path[i]).sum() == pool.chunks[i]


def test_a_repeated_candidate_is_known(hetero: Instance) -> None:
    tables, pool, _ = chosen(hetero.overridden(chunks=4))
    candidates = empty_candidates(tables, 3, 2)
    line_up(tables, pool, candidates, 0)
    line_up(tables, pool, candidates, 1)
    assert is_known(candidates, 1)
    candidates.candidate_path[1, 0, 0] = swapped(candidates.candidate_path[1, 0, 0], 0, 1)
    assert not is_known(candidates, 1)


def test_a_first_scatter_waits_for_stages_in_the_middle_and_a_last_gather_for_both(hetero: Instance) -> None:
    tables, pool, _ = chosen(hetero.overridden(chunks=1))
    candidates = empty_candidates(tables, 3, 1)
    line_up(tables, pool, candidates, 0)
    place_all(tables, candidates, 0, 0)
    assert candidates.operations.major.tolist() == [1, 0, 0, 0, 0, 2]


def test_a_change_that_lengthens_the_makespan_is_taken_back(hetero: Instance) -> None:
    tables, pool, _ = chosen(hetero.overridden(chunks=4))
    candidates = empty_candidates(tables, 3, 1)
    line_up(tables, pool, candidates, 0)
    place_all(tables, candidates, 0, 0)
    makespan = makespan_of_hand(candidates)
    improve(tables, candidates, 0, makespan, 0, 200)
    for chunk in range(4):
        place(tables, candidates, chunk, 0)
    assert makespan_of_hand(candidates) <= makespan


def test_improving_ends_with_the_trials(hetero: Instance) -> None:
    tables, pool, _ = chosen(hetero.overridden(chunks=4))
    candidates = empty_candidates(tables, 3, 1)
    line_up(tables, pool, candidates, 0)
    place_all(tables, candidates, 0, 0)
    assert improve(tables, candidates, 0, makespan_of_hand(candidates), 0, 5) == 0


def test_improving_ends_at_the_target(hetero: Instance) -> None:
    tables, pool, _ = chosen(hetero.overridden(chunks=4))
    candidates = empty_candidates(tables, 3, 1)
    line_up(tables, pool, candidates, 0)
    place_all(tables, candidates, 0, 0)
    makespan = makespan_of_hand(candidates)
    assert improve(tables, candidates, 0, makespan, makespan, 5) == 5

"""The policy law: the statements of docs/law.md, and plans that follow them."""

import random
from fractions import Fraction

import numpy as np
import pytest
from law_statements import has_bandwidth_to_spare, random_network, violations
from paper_networks import PAPER_NETWORKS

import themis_opt
from themis_opt.policies.chunk_climb import climbed_block, shipped_starts
from themis_opt.policies.chunk_law import LawDimension, MirroredBlocks, best_block, equal_block, makespan, pair_block
from themis_opt.policies.law import Law
from themis_opt.policies.portions import Portions
from themis_opt.problem.instance import Instance
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.search.exact import Exact
from themis_opt.solving.makespan_bounds import fluid


def without_costs(network: str, kind: str, chunks: int = 64) -> Instance:
    instance = themis_opt.load(f"{network}.all_reduce.1000MiB")
    dimensions = tuple(dimension.replace(latency=0) for dimension in instance.network.dimensions)
    collective = instance.collectives[0].replace(kind=CollectiveKind(kind), chunks=chunks, size=2**33)
    return instance.replace(network=instance.network.replace(dimensions=dimensions), collectives=(collective,))


def scheduled(instance: Instance) -> Schedule:
    schedule = simulate(instance, Law()(instance))
    validate(schedule)
    return schedule


@pytest.mark.parametrize("seed", [*range(0, 96, 4), *range(1, 33, 4), 2, 6, 10, 14, 18])
def test_statements_hold_in_exact_fractions(seed: int) -> None:
    assert list(violations(seed)) == []


@pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter", "all_gather"])
@pytest.mark.parametrize("network", PAPER_NETWORKS)
def test_plans_meet_the_bound_on_the_networks_of_the_paper(network: str, kind: str) -> None:
    instance = without_costs(network, kind)
    assert scheduled(instance).makespan <= fluid(instance) * (1 + 1e-5)


@pytest.mark.parametrize(("network", "count"), list(zip(PAPER_NETWORKS, (3, 5, 5, 5, 7, 7), strict=True)))
def test_two_chunks_per_dimension_but_one_meet_the_bound_of_the_networks_of_the_paper(network: str, count: int) -> None:
    (chunks,) = Law()(without_costs(network, "all_reduce")).chunks
    assert len(chunks.sizes) == count


def test_few_chunks_meet_the_bound_where_bandwidth_is_to_spare() -> None:
    networks = [
        network for seed in range(120) if has_bandwidth_to_spare(network := random_network(seed)) and seed % 4 < 3
    ]
    blocks = [best_block(network, 2, 1e9) for network in networks]
    assert all(block.is_solid for block in blocks)
    more = [len(block.chunks) - 2 * len(network) for network, block in zip(networks, blocks, strict=True)]
    assert more.count(-1) >= 0.9 * len(more)


@pytest.mark.parametrize("seed", [241, 7697, 138])
def test_one_more_pair_meets_the_bound_where_no_path_of_the_table_suits(seed: int) -> None:
    network = random_network(seed)
    block = MirroredBlocks(network, rounding=0).block()
    assert block is not None
    assert len(block.chunks) == 2 * len(network) + 1
    least = Portions(network).least_time(tuple(range(len(network))))
    assert makespan(network, block, 2, Fraction(1)) == 2 * least
    assert MirroredBlocks(network, rounding=0).block(2 * len(network)) is None


@pytest.mark.parametrize(("most", "growth"), [(1, 2), (2, 4), (3, 6), (4, 10), (5, 14), (6, 22), (7, 30)])
def test_the_gap_halves_with_two_chunks_at_just_enough(most: int, growth: int) -> None:
    network = (LawDimension(8, Fraction(1, 400)), LawDimension(8, Fraction(1, 50)))
    time = makespan(network, pair_block(network, 2, most + 1), 2, Fraction(1))
    assert time / (2 * network[1].held(Fraction(1)) / 8) == 1 + Fraction(1, growth)


def test_nine_chunks_meet_the_bound_of_five_dimensions() -> None:
    network = [LawDimension(4, Fraction(1, bandwidth)) for bandwidth in (200, 200, 100, 100, 50)]
    paths = ["DABCE", "EDBCA", "BADCE", "BDECA", "BCADE", "EDABC", "EBCDA", "ECBAD", "BAEDC"]
    _, block = MirroredBlocks(network, rounding=0).tried([tuple(map("ABCDE".index, path)) for path in paths])
    assert block is not None
    assert len(block.chunks) == 9
    assert makespan(network, block, 2, Fraction(1)) == 2 * Fraction(1023, 1024) / 650


@pytest.mark.parametrize("latency", ["lag", "occupy"])
def test_few_chunks_suit_costs(latency: str) -> None:
    instance = themis_opt.load("3d-sw_sw_sw_hetero.all_reduce.100MiB").overridden(latency=latency)
    schedule = scheduled(instance)
    assert schedule.makespan <= 1.08 * fluid(instance)


def test_chunks_that_meet_the_bound_under_costs_are_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("themis_opt.policies.law.climbed_block")
    schedule = scheduled(themis_opt.load("4d-ring_fc_ring_sw.all_reduce.1000MiB").overridden(size="64GiB"))
    assert schedule.makespan <= 1.0001 * fluid(schedule.instance)


@pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter", "all_gather"])
def test_no_more_chunks_than_allowed_where_each_costs_something(kind: str) -> None:
    instance = themis_opt.load("4d-ring_sw_sw_sw.all_reduce.100MiB")
    collective = instance.collectives[0].replace(kind=CollectiveKind(kind), chunks=2)
    (chunks,) = scheduled(instance.replace(collectives=(collective,))).plan.chunks
    assert 1 <= len(chunks.sizes) <= 2


@pytest.mark.parametrize("width", [2, 3, 4])
def test_starts_are_chunks_that_visit_every_dimension_in_both_phases(width: int) -> None:
    starts = shipped_starts(width, 2)
    for number, paths, shares in zip(*starts, strict=True):
        assert np.sort(paths[:number].reshape(-1, width)).tolist() == [list(range(width))] * (2 * number)
        assert shares.min() >= 0 == shares[number:].sum()
        assert shares.sum() == pytest.approx(1)


def test_sixteen_dimensions_have_no_starts() -> None:
    assert shipped_starts(16, 2).number.size == 0


@pytest.mark.parametrize("seed", range(3))
def test_starts_shorten_a_climb_without_steps(seed: int) -> None:
    generator = random.Random(seed)
    network = [LawDimension(8, generator.uniform(0.01, 0.02), 3000, 1000) for _ in range(4)]
    equal = equal_block(network, 2, 1e8, 3)
    block = climbed_block(network, 2, 1e8, equal, 8, work=0)
    assert makespan(network, block, 2, 1e8) < 0.9 * makespan(network, equal, 2, 1e8)


def test_the_reference_ends_with_the_law_where_that_meets_the_bound() -> None:
    instance = without_costs("4d-ring_sw_sw_sw", "all_reduce")
    reference = Exact(seconds=30, workers=1, sizes="free").solve(instance, lower_bound=fluid(instance))
    assert reference.schedule.makespan == scheduled(instance).makespan


def test_no_more_chunks_than_the_instance_allows() -> None:
    (chunks,) = Law()(without_costs("4d-ring_sw_sw_sw", "all_reduce", chunks=16)).chunks
    assert len(chunks.sizes) <= 16


def test_several_collectives_are_planned_too(every_kind: Instance) -> None:
    scheduled(every_kind.overridden(chunks=3))


def test_the_closed_form_stays_where_latencies_hardly_count() -> None:
    instance = themis_opt.load("4d-ring_fc_ring_sw.all_reduce.1000MiB").overridden(size=64 * 2**30)
    assert simulate(instance, Law()(instance)).makespan < fluid(instance) * (1 + 2e-4)

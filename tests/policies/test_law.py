"""The policy law: the statements of docs/law.md, and plans that follow them."""

from fractions import Fraction

import pytest
from law_statements import violations
from paper_networks import PAPER_NETWORKS

import themis_opt
from themis_opt.policies.chunk_law import ChunkLaw, LawDimension, makespan
from themis_opt.policies.law import Law
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


def test_three_chunks_meet_the_bound_of_two_dimensions() -> None:
    (chunks,) = Law()(without_costs("2d-sw_sw", "all_reduce")).chunks
    assert len(chunks.sizes) == 3


@pytest.mark.parametrize(("most", "growth"), [(1, 2), (2, 4), (3, 6), (4, 10), (5, 14), (6, 22), (7, 30)])
def test_the_gap_halves_with_two_chunks_at_just_enough(most: int, growth: int) -> None:
    network = (LawDimension(8, Fraction(1, 400)), LawDimension(8, Fraction(1, 50)))
    blocks = ChunkLaw(network, most, rounding=0)
    time = makespan(network, blocks.block((0, 1), 2), 2, Fraction(1))
    assert time / (2 * blocks.least_time((1,)) / 8) == 1 + Fraction(1, growth)


def test_the_reference_ends_with_the_law_where_that_meets_the_bound() -> None:
    instance = without_costs("4d-ring_sw_sw_sw", "all_reduce")
    reference = Exact(seconds=30, workers=1, sizes="free").solve(instance, lower_bound=fluid(instance))
    assert reference.schedule.makespan == scheduled(instance).makespan


def test_no_more_chunks_than_the_instance_allows() -> None:
    (chunks,) = Law()(without_costs("4d-ring_sw_sw_sw", "all_reduce", chunks=16)).chunks
    assert len(chunks.sizes) <= 16


def test_several_collectives_are_planned_too(every_kind: Instance) -> None:
    scheduled(every_kind.overridden(chunks=3))

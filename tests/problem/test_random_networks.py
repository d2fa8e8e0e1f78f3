from itertools import pairwise

import pytest

from themis_opt.base.errors import InputError
from themis_opt.problem.catalog import MAX_SEED, load, random_instance
from themis_opt.problem.network import Kind
from themis_opt.problem.phases import CollectiveKind

SEEDS = range(300)


@pytest.fixture(scope="module")
def instances():
    return [random_instance(seed) for seed in SEEDS]


def test_seeds_give_different_instances(instances):
    assert len({instance.fingerprint for instance in instances}) == len(instances)


def test_one_instance_is_pinned():
    assert random_instance(17).fingerprint == load("random:17").fingerprint == "c3c0f49f4c3fae13460d71b297a0093b"


def test_all_numbers_of_dimensions_occur(instances):
    assert {len(instance.network.dimensions) for instance in instances} == {2, 3, 4, 5, 6}


def test_all_kinds_whose_links_are_used_evenly_occur(instances):
    assert {d.kind for instance in instances for d in instance.network.dimensions} == {
        Kind.RING,
        Kind.FULLY_CONNECTED,
        Kind.SWITCH,
    }


def test_ratios_of_neighbours_lie_in_the_documented_range(instances):
    bandwidths = [instance.network.bandwidths for instance in instances]
    ratios = [inner / outer for b in bandwidths for inner, outer in pairwise(b) if outer > 1e9]
    assert 0.249 < min(ratios) < 0.5
    assert 8 < max(ratios) < 16.1


def test_collectives_lie_in_the_documented_range(instances):
    collectives = [collective for instance in instances for collective in instance.collectives]
    assert {c.kind for c in collectives} == {CollectiveKind.ALL_REDUCE}
    assert all(4 <= c.chunks <= 256 and 2**20 <= c.size <= 2**30 for c in collectives)


def test_latencies_are_at_most_5_us(instances):
    assert max(d.latency for instance in instances for d in instance.network.dimensions) <= 5_000_000


@pytest.mark.parametrize("seed", [-1, MAX_SEED + 1])
def test_a_seed_outside_is_refused(seed):
    with pytest.raises(InputError, match="must be a seed from 0"):
        random_instance(seed)


@pytest.mark.parametrize("name", ["random:", "random:x", "random:-1", "random:1.5", "random:" + "9" * 5000])
def test_a_name_without_a_seed_is_refused(name):
    with pytest.raises(InputError):
        load(name)

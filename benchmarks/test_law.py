"""The statements of docs/law.md on random networks, in exact fractions: about an hour."""

from collections import Counter
from fractions import Fraction
from itertools import combinations_with_replacement, permutations, product

import pytest
from law_statements import has_bandwidth_to_spare, random_network, violations

from themis_opt.policies.chunk_law import LawDimension, MirroredBlocks, Path, best_block, makespan
from themis_opt.policies.portions import Portions

pytestmark = [pytest.mark.benchmarks, pytest.mark.timeout(0)]


@pytest.mark.parametrize("width", [2, 3, 4, 5])
def test_statements_hold_on_ten_thousand_networks(width: int) -> None:
    assert [violation for seed in range(width - 2, 10_000, 4) for violation in violations(seed)] == []


@pytest.mark.parametrize("width", [2, 3, 4])
def test_few_chunks_suit_nearly_all_networks_with_bandwidth_to_spare(width: int) -> None:
    spared = [
        network for seed in range(width - 2, 40_000, 4) if has_bandwidth_to_spare(network := random_network(seed))
    ]
    solid = Counter(best_block(network, 2, 1.0).is_solid for network in spared)
    print(f"{width} dimensions: {solid[True]} of {len(spared)}")
    assert solid[True] >= 0.9 * len(spared)


def test_some_mirrored_paths_suit_nearly_all_networks_of_three_dimensions() -> None:
    spared = [network for seed in range(1, 4_000, 4) if has_bandwidth_to_spare(network := random_network(seed))]
    suited = sum(any(is_solid(network, paths) for paths in all_paths()) for network in spared)
    print(f"{suited} of {len(spared)}")
    assert suited >= 0.95 * len(spared)


def all_paths() -> list[list[Path]]:
    """All scatters and gathers of two pairs and scatters of a last chunk, each once."""
    orders = list(permutations(range(3)))
    pairs = [pair for pair in product(orders, orders) if pair <= (pair[1][::-1], pair[0][::-1])]
    return [[*one, *two, last] for one, two in combinations_with_replacement(pairs, 2) for last in orders]


def is_solid(network: tuple[LawDimension, ...], paths: list[Path]) -> bool:
    """Whether the paths make a block, and if so, whether it meets the bound to the last digit."""
    floats = [LawDimension(dimension.npus, float(dimension.byte_time)) for dimension in network]
    if MirroredBlocks(floats).of_paths(paths) is None:
        return False
    block = MirroredBlocks(network, rounding=0).of_paths(paths)
    return block is not None and makespan(network, block, 2, Fraction(1)) == 2 * Portions(network).least_time((0, 1, 2))

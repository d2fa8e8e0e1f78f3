"""The statements of docs/law.md on random networks, in exact fractions: about an hour."""

import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, count, islice, permutations, product
from pathlib import Path

import pytest
from law_statements import has_bandwidth_to_spare, random_network, violations

from themis_opt.policies.chunk_law import LawDimension, MirroredBlocks, best_block, makespan
from themis_opt.policies.portions import Portions

pytestmark = [pytest.mark.benchmarks, pytest.mark.timeout(0)]


@pytest.mark.parametrize("width", [2, 3, 4, 5])
def test_statements_hold_on_ten_thousand_networks(width: int) -> None:
    assert [violation for seed in range(width - 2, 10_000, 4) for violation in violations(seed)] == []


@pytest.mark.parametrize("width", [2, 3, 4])
def test_few_chunks_suit_nearly_all_networks_with_bandwidth_to_spare(width: int) -> None:
    spared = list(islice(spared_networks(width), 400))
    solid = Counter(best_block(network, 2, 1.0).is_solid for network in spared)
    print(f"{width} dimensions: {solid[True]} of {len(spared)}")
    assert solid[True] >= 0.9 * len(spared)


def test_some_mirrored_paths_suit_nearly_all_networks_of_three_dimensions() -> None:
    spared = list(islice(spared_networks(3), 300))
    suited = sum(any(is_solid(network, paths) for paths in all_paths()) for network in spared)
    print(f"{suited} of {len(spared)}")
    assert suited >= 0.95 * len(spared)


@pytest.mark.parametrize(("width", "number"), [(3, 4_500), (4, 4_500), (5, 1_000)])
def test_a_climb_finds_mirrored_chunks_for_nearly_all_of_ten_thousand_networks(
    width: int, number: int, tmp_path: Path
) -> None:
    networks = list(islice(spared_networks(width), number))
    pairs = zip(networks, climbed_paths(networks, tmp_path), strict=True)
    suited = sum(len(paths) > 0 and is_solid(network, paths) for network, paths in pairs)
    print(f"{width} dimensions: {suited} of {number}")
    assert suited >= 0.98 * number


def spared_networks(width: int) -> Iterator[tuple[LawDimension, ...]]:
    """Random networks with bandwidth to spare, their dimensions from fast to slow."""
    for seed in count(width - 2, 4):
        network = random_network(seed)
        if has_bandwidth_to_spare(network):
            yield tuple(sorted(network, key=lambda dimension: dimension.held(1)))


def climbed_paths(networks: Sequence[tuple[LawDimension, ...]], folder: Path) -> Iterator[list[tuple[int, ...]]]:
    """Paths of a hill climb in C for each network, or none."""
    source = Path(__file__).with_suffix("").with_name("mirrored_paths.c")
    subprocess.run(["cc", "-std=c99", "-O2", "-o", folder / "climb", source, "-lm"], check=True)
    lines = [
        " ".join([str(len(network)), *(f"{dimension.npus} {float(dimension.byte_time)!r}" for dimension in network)])
        for network in networks
    ]
    process = subprocess.run([folder / "climb"], input="\n".join(lines), capture_output=True, text=True, check=True)
    for network, line in zip(networks, process.stdout.splitlines(), strict=True):
        digits, width = [] if line == "-" else [int(digit) for digit in line], len(network)
        yield [tuple(digits[place : place + width]) for place in range(0, len(digits), width)]


def all_paths() -> list[list[tuple[int, ...]]]:
    """All scatters and gathers of two pairs and scatters of a last chunk, each once."""
    orders = list(permutations(range(3)))
    pairs = [pair for pair in product(orders, orders) if pair <= (pair[1][::-1], pair[0][::-1])]
    return [[*one, *two, last] for one, two in combinations_with_replacement(pairs, 2) for last in orders]


def is_solid(network: tuple[LawDimension, ...], paths: Sequence[tuple[int, ...]]) -> bool:
    """Whether the paths make a block, and if so, whether it meets the bound to the last digit."""
    floats = [LawDimension(dimension.npus, float(dimension.byte_time)) for dimension in network]
    if MirroredBlocks(floats).of_paths(paths) is None:
        return False
    block = MirroredBlocks(network, rounding=0).of_paths(paths)
    return block is not None and makespan(network, block, 2, Fraction(1)) == 2 * Portions(network).least_time(
        tuple(range(len(network)))
    )

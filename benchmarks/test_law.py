"""The statements of docs/law.md on random networks, in exact fractions: about an hour."""

import random
import subprocess
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, count, islice, permutations, product
from pathlib import Path

import pytest
from law_statements import has_bandwidth_to_spare, random_network, violations

from themis_opt.policies.chunk_law import LawDimension, MirroredBlocks, best_block, makespan, pair_block, whole_sizes
from themis_opt.policies.portions import Portions

pytestmark = [pytest.mark.benchmarks, pytest.mark.timeout(0)]


@pytest.mark.parametrize("width", [2, 3, 4, 5])
def test_statements_hold_on_ten_thousand_networks(width: int) -> None:
    assert [violation for seed in range(width - 2, 10_000, 4) for violation in violations(seed)] == []


@pytest.mark.parametrize(("width", "least"), [(2, 200), (3, 193), (4, 189)])
def test_blocks_meet_the_bound_on_two_hundred_networks_with_bandwidth_to_spare(width: int, least: int) -> None:
    few = 0
    for network in islice(spared_networks(width), 200):
        block = best_block(network, 2, Fraction(1)) if width == 2 else MirroredBlocks(network, rounding=0).block()
        assert block is not None
        assert makespan(network, block, 2, Fraction(1)) == 2 * Portions(network).least_time(tuple(range(width)))
        few += width == 2 or len(block.chunks) == 2 * width - 1
        assert width == 2 or len(block.chunks) <= 2 * width + 1
    assert few >= least


@pytest.mark.parametrize(("width", "without"), [(3, 2), (4, 0)])
def test_mirrored_chunks_that_the_table_lacks_exist_for_nearly_all(width: int, without: int, tmp_path: Path) -> None:
    spared = islice(spared_networks(width), 200)
    networks = [network for network in spared if not MirroredBlocks(network).block(2 * width)]
    pairs = zip(networks, climbed_paths(networks, tmp_path), strict=True)
    lacking = [network for network, paths in pairs if not paths or not is_solid(network, paths)]
    assert len(lacking) == without
    assert not any(is_solid(network, paths) for network in lacking for paths in all_paths())


def test_just_enough_networks_take_the_time_of_the_law_to_a_byte() -> None:
    for seed in range(1000):
        generator = random.Random(seed)
        npus, others, size = generator.randint(2, 32), generator.randint(2, 32), generator.randrange(2**20, 2**30)
        first = LawDimension(npus, Fraction(1, generator.randint(1, 400)))
        network = (first, LawDimension(others, npus * first.held(1) * Fraction(others, others - 1)))
        for number in range(2, 9):
            block = pair_block(network, 2, number)
            with_other, without = (sum(2 ** min(j, n - 1 - j) for j in range(n)) for n in (number - 1, number))
            gap = min(Fraction(npus - 1, 1 + npus * with_other), Fraction(1, without))
            assert makespan(network, block, 2, Fraction(size)) == 2 * size * first.held(1) * (1 + gap)
            sizes = whole_sizes(block, size, 1)
            assert all(abs(whole - chunk.share * size) < 1 for whole, chunk in zip(sizes, block.chunks, strict=True))


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
    if MirroredBlocks(floats).tried(paths)[1] is None:
        return False
    block = MirroredBlocks(network, rounding=0).tried(paths)[1]
    return block is not None and makespan(network, block, 2, Fraction(1)) == 2 * Portions(network).least_time(
        tuple(range(len(network)))
    )

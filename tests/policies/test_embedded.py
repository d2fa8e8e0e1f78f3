"""The embedded header: the sizes and orders of the Python file, to the byte."""

import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from law_statements import random_network

from themis_opt.policies.chunk_law import LawDimension, best_block, whole_sizes

EMBEDDED = Path(__file__).parents[2] / "embedded"
Case = tuple[list[LawDimension], int, int, int]  # network, phases, units of 4 KiB, most chunks
PROGRAM = r"""
#include "hourglass.h"
#include <stdio.h>

static hg_workspace workspace;

int main(void) {
    int dimensions, phases, most;
    long long units;
    while (scanf("%d %d %lld %d", &dimensions, &phases, &units, &most) == 4) {
        hg_dimension network[HG_DIMENSIONS];
        for (int k = 0; k < dimensions; k++)
            if (scanf("%d %lf ", &network[k].npus, &network[k].byte_time) != 2
                || scanf("%lf %lf", &network[k].fixed, &network[k].lag) != 2) return 1;
        hourglass_plan(&workspace, network, dimensions, phases, units * 4096, 4096, most);
        for (int i = 0; i < workspace.best.num_chunks; i++) {
            printf("%lld ", workspace.best.chunks[i].size);
            for (int k = 0; k < dimensions * phases; k++) printf("%d ", workspace.best.chunks[i].path[k]);
        }
        for (int k = 0; k < dimensions; k++)
            for (int j = 0; j < workspace.best.num_stages[k]; j++) printf("%d ", workspace.best.stages[k][j]);
        printf("\n");
    }
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("embedded")
    (folder / "main.c").write_text(PROGRAM)
    flags = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic", "-ffp-contract=off", f"-I{EMBEDDED}"]
    subprocess.run([compiler, *flags, "-o", folder / "main", folder / "main.c", "-lm"], check=True)
    return folder / "main"


def random_case(seed: int, widest: int) -> Case:
    generator = random.Random(seed)
    fixed, lag = generator.choice(((0.0, 0.0), (2e6, 1e6), (0.0, 1e6)))
    network = [
        LawDimension(generator.choice((2, 3, 4, 8, 16)), 1e3 / generator.uniform(10, 400), fixed, lag)
        for _ in range(2 + seed % (widest - 1))
    ]
    return network, generator.choice((1, 2)), generator.randrange(100, 100_000), generator.choice((64, 64, 8, 1))


def numbers_of(case: Case) -> list[int]:
    network, phases, units, most = case
    block = best_block(network, phases, units * 4096, most)
    sizes = whole_sizes(block, units * 4096, 4096)
    chunks = [number for size, chunk in zip(sizes, block.chunks, strict=True) for number in (size, *chunk.path)]
    return chunks + [2 * number + phase for k in range(len(network)) for number, phase in block.orders[k]]


def assert_equal(program: Path, cases: list[Case]) -> None:
    lines = [
        f"{len(network)} {phases} {units} {most}\n" + "\n".join(" ".join(map(repr, dimension)) for dimension in network)
        for network, phases, units, most in cases
    ]
    process = subprocess.run([program], input="\n".join(lines), capture_output=True, text=True, check=True)
    assert [[int(number) for number in line.split()] for line in process.stdout.splitlines()] == [
        numbers_of(case) for case in cases
    ]


def test_plans_are_those_of_python(program: Path) -> None:
    assert_equal(
        program, [*(random_case(seed, 2) for seed in range(300)), *(random_case(seed, 5) for seed in range(12))]
    )


def test_plans_that_turn_on_what_is_tried_are_those_of_python(program: Path) -> None:
    seeds = (553, 569, 1181, 1614, 7697)
    networks = [[d._replace(byte_time=float(d.byte_time)) for d in random_network(seed)] for seed in seeds]
    assert_equal(program, [(network, 2, 100_000, most) for network in networks for most in (64, 6)])


@pytest.mark.benchmarks
@pytest.mark.timeout(0)
def test_plans_of_ten_thousand_networks_are_those_of_python(program: Path) -> None:
    assert_equal(program, [random_case(seed, 5) for seed in range(10_000)])


def test_the_python_file_needs_the_standard_library_alone() -> None:
    lines = [
        f"import sys; sys.path.insert(0, {str(EMBEDDED)!r})",
        "from hourglass import LawDimension, best_block",
        "print(len(best_block([LawDimension(4, 1), LawDimension(8, 1.5)], 2, 1e9).chunks))",
    ]
    command = [sys.executable, "-I", "-S", "-c", "\n".join(lines)]
    assert int(subprocess.run(command, capture_output=True, text=True, check=True).stdout) == 3

"""Whether tests notice when an operator of the source is a wrong one.

``python tests/benchmarks/mutants.py --count 120 --seed 1 -o rows.csv`` changes one operator in a copy of the tree, runs
the tests of the module until one fails, and goes on with the next; then those that live meet the tests of their folder
that import the module, directly or not. It appends a row per mutant and stage, and goes on where it stopped. At the end
it runs all tests that killed without a mutant: those that fail then have killed none.

Machine code that is kept is named after the text it is made from, so that no mutant meets that of another; the tests
keep it in a folder of the copy.
"""

import argparse
import ast
import csv
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NoReturn

import hypothesis.strategies
import networkx
import numba
import ortools.sat.python.cp_model
import pandas
import pydantic
import pytest
import typer

LOADED = (hypothesis.strategies, networkx, numba, ortools.sat.python.cp_model, pandas, pydantic, typer)
"""What tests import, so that each mutant need not."""

MIRRORS = 3  # test files that are tried before those of the folder
ROOT = Path(__file__).parents[2]

MUTATED = (
    "formulations",
    "themis_opt/search",
    "themis_opt/solving",
    "themis_opt/schedules/validation.py",
    "themis_opt/runtime/movement.py",
    "themis_opt/formats/msccl",
)
"""Folders and files of the source that are changed."""

FOLDERS = {
    "formulations": "tests/formulations tests/solving tests/search/test_refut tests/graphs tests/pipelines",
    "themis_opt/search": "tests/search tests/policies/test_gap.py",
    "themis_opt/solving": "tests/solving tests/search/test_refut tests/policies/test_gap.py",
    "themis_opt/schedules": "tests/schedules tests/project/test_paper.py",
    "themis_opt/runtime": "tests/runtime/test_program_runs.py tests/schedules tests/formats/test_msccl.py",
    "themis_opt/formats/msccl": "tests/formats/test_msccl.py tests/formats/test_mscclpp.py",
}
"""Tests of a folder, for mutants that those of the module leave alive."""

SKIPPED = ("hash_seed", "two_processes", "ctrl_c", "moving_launches_alone", "provenance")
"""Tests that take seconds and say nothing about a single operator, or look for the installed package."""

COPIED = ("formulations", "themis_opt", "tests", "instances", "reports", "docs")

TEST_SECONDS = 240  # of CPU time that a test may take, as the suite lets it take on the clock: then it has failed
WALL_SECONDS = 1800  # after which tests that wait, or have no share of a busy machine, are given up
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
"""An operator and what takes its place."""

FLIPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
}
"""A comparison and its opposite."""

EXTREMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}
"""Names of functions and methods that choose, and of their opposites."""


OUTCOMES = {0: "survived", 5: "survived", -signal.SIGKILL: "undecided"}
"""What exit codes of tests mean, 5 that there is none; others are failures, or the signal of the CPU limit."""

ENDLESS = "a test that does not end"

STAGES = ("alive", "survived")
"""What a mutant is that the tests of its module leave alive, and one that those of its folder do."""


@dataclass(frozen=True)
class Mutant:
    """One change of one file.

    Attributes
    ----------
    path : str
        The file, from the root of the tree.
    line : int
        Where the change is.
    change : str
        The text before and after it.
    text : str
        The whole file with the change.
    """

    path: str
    line: int
    change: str
    text: str


@dataclass(frozen=True)
class MutantRow:
    """What became of a mutant.

    It is `killed` (by `test`), `alive` until it meets the tests of its folder, `survived` those, or `undecided`, which
    counts for nothing, if the machine is too busy to say.
    """

    path: str
    line: int
    change: str
    outcome: str
    test: str
    seconds: float


Place = tuple[Path, int, int]  # a file, an expression by its number, and which of its replacements


def places_of(path: Path) -> list[Place]:
    """All that can be changed in a file, in the order of the syntax tree."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [
        (path, number, variant)
        for number, node in enumerate(expressions(tree))
        for variant in range(len(replacements(node)))
    ]


def mutant_at(place: Place) -> Mutant:
    """The change of a place."""
    path, number, variant = place
    tree = ast.parse(path.read_text(encoding="utf-8"))
    node = next(islice(expressions(tree), number, None))
    replacement = ast.copy_location(replacements(node)[variant], node)
    change = f"{ast.unparse(node)} -> {ast.unparse(replacement)}"
    return Mutant(str(path.relative_to(ROOT)), node.lineno, change, ast.unparse(_with(tree, node, replacement)))


def expressions(tree: ast.AST) -> Iterator[ast.expr]:
    """Expressions that compute: no annotations, no error texts, no constants of a module or defaults of fields."""
    for name, value in ast.iter_fields(tree):
        if name in {"annotation", "returns", "decorator_list"} or isinstance(tree, ast.Raise | ast.JoinedStr):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.expr):
                yield child
            if isinstance(child, ast.AST) and not _is_plain(tree, child):
                yield from expressions(child)


def _is_plain(parent: ast.AST, child: ast.AST) -> bool:
    """Whether a statement only gives a constant, a type or a field its value."""
    return isinstance(parent, ast.Module | ast.ClassDef) and isinstance(child, ast.Assign | ast.AnnAssign)


def replacements(node: ast.expr) -> list[ast.expr]:
    """What may stand in the place of an expression."""
    match node:
        case ast.Compare(left, [operator], others):
            kinds = [table[type(operator)] for table in (SWAPS, FLIPS) if type(operator) in table]
            return [ast.Compare(left, [kind()], others) for kind in kinds]  # type: ignore[list-item]
        case ast.BinOp(left, operator, right) if type(operator) in SWAPS and not _is_text(left, right):
            return [ast.BinOp(left, SWAPS[type(operator)](), right)]  # type: ignore[arg-type]
        case ast.BoolOp(operator, values):
            return [ast.BoolOp(SWAPS[type(operator)](), values)]  # type: ignore[arg-type]
        case ast.UnaryOp(ast.Not(), operand):
            return [operand]
        case ast.Call(ast.Name(name), arguments, keywords) if name in EXTREMES:
            return [ast.Call(ast.Name(EXTREMES[name], ast.Load()), arguments, keywords)]
        case ast.Call(ast.Attribute(value, name), arguments, keywords) if name in EXTREMES:
            return [ast.Call(ast.Attribute(value, EXTREMES[name], ast.Load()), arguments, keywords)]
        case ast.Constant(int() as value) if not isinstance(value, bool):
            return [ast.Constant(value + 1)]
        case ast.IfExp(test, body, orelse):
            return [ast.IfExp(ast.UnaryOp(ast.Not(), test), body, orelse)]
    return []


def _is_text(*operands: ast.expr) -> bool:
    return any(isinstance(one, ast.JoinedStr | ast.List | ast.Tuple) for one in operands)


def _with(tree: ast.AST, old: ast.expr, new: ast.expr) -> ast.AST:
    """The tree with one expression in the place of another."""

    class Replace(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            return new if node is old else self.generic_visit(node)

    return ast.fix_missing_locations(Replace().visit(tree))


def sample(count: int, seed: int, only: str = "") -> list[Mutant]:
    """As many mutants, all equally likely, of the files whose path contains `only`."""
    files = [file for name in MUTATED for file in sorted((ROOT / name).rglob("*.py")) or [ROOT / name]]
    every = [place for file in files if only in str(file) for place in places_of(file)]
    return [mutant_at(place) for place in random.Random(seed).sample(every, min(count, len(every)))]


def tests_of(path: str) -> tuple[list[str], list[str]]:
    """Tests that mirror a module, or else those of the nearest modules that import it; and others of its folder."""
    folder = next(folder for folder in FOLDERS if path.startswith(folder))
    nearest, tests = [path], list[str]()
    while nearest and not (tests := [test for name in nearest for test in _own_tests(name)]):
        nearest = [user for name in nearest for user in _users(name)]
    mirrors = list(dict.fromkeys(tests))[:MIRRORS]
    among = tuple(FOLDERS[folder].split())
    others = [name for name in _dependents(path) if name.startswith(among) and "/test_" in name]
    return mirrors, [name for name in others if name not in mirrors]


def _dependents(path: str) -> list[str]:
    """Modules and tests that import a module, then those that import one of these, and so on."""
    seen, new = list[str](), [path]
    while new:
        new = sorted({user for name in new for user in _users(name, "tests")} - {*seen})
        seen += new
    return seen


@cache
def _texts(folder: str) -> dict[str, str]:
    """All modules in a folder, from the root of the tree."""
    files = sorted((ROOT / folder).rglob("*.py"))
    return {str(file.relative_to(ROOT)): file.read_text(encoding="utf-8") for file in files}


@cache
def _users(path: str, *more: str) -> list[str]:
    """Modules of the source, and of other folders, that import a module."""
    module = path.removesuffix(".py").replace("/", ".")
    package, _, stem = module.rpartition(".")
    imports: tuple[str, ...] = (
        f"from {module} import ",
        f"from {package} import {stem}\n",
        f"from {package} import {stem},",
    )
    imports += (f"from {stem} import ",) if path.startswith("tests/") else (f'"{module}:', f"import {module}\n")
    every = _texts("formulations") | _texts("themis_opt")
    for folder in more:
        every = every | _texts(folder)
    return [name for name, text in every.items() if name != path and any(line in text for line in imports)]


def _own_tests(path: str) -> list[str]:
    """Tests named after a module, then those that import it, next to it first."""
    module, stem = path.removesuffix(".py").replace("/", "."), Path(path).stem
    tests = {name: text for name, text in _texts("tests").items() if "/test_" in name and "benchmarks" not in name}
    tests = {n: t for n, t in tests.items() if Path(n).stem == f"test_{stem}" or f"from {module} import" in t}
    return sorted(tests, key=lambda n: (stem not in Path(n).stem, Path(n).parent.name not in path, len(tests[n])))


def judge(mutant: Mutant, copy: Path, tests: Sequence[str]) -> MutantRow:
    """Run tests of a mutant in a copy of the tree, which is as before afterwards; without tests it survives."""
    if not tests:
        return MutantRow(mutant.path, mutant.line, mutant.change, "survived", "", 0.0)
    file, start = copy / mutant.path, time.monotonic()
    before = file.read_bytes()
    _replace(file, mutant.text.encode())
    try:
        status, text = _run(tests, copy)
    finally:
        _replace(file, before)
    failed = [ENDLESS] if status == -signal.SIGXCPU else _failed(text)
    seconds = round(time.monotonic() - start, 1)
    return MutantRow(mutant.path, mutant.line, mutant.change, OUTCOMES.get(status, "killed"), (*failed, "")[0], seconds)


def failing_tests(tests: Sequence[str], copy: Path) -> set[str]:
    """Those that fail without any mutant, so that their failing with one says nothing."""
    return set(_failed(_run(tests, copy, "--maxfail=0")[1])) if tests else set()


def _failed(output: str) -> list[str]:
    """The tests that a summary of pytest lists; their names may have spaces."""
    lines = [line.partition(" ") for line in output.splitlines()]
    return [text.split(" - ")[0] for word, _, text in lines if word in {"FAILED", "ERROR"}]


def _replace(file: Path, content: bytes) -> None:
    """Give a module another text, and let no byte code of the one before stand in for it."""
    file.write_bytes(content)
    for compiled in file.parent.glob(f"__pycache__/{file.stem}.*.pyc"):
        compiled.unlink()


def _run(tests: Sequence[str], copy: Path, *options: str) -> tuple[int, str]:
    """Exit code, below 0 for a time that is over, and output of tests in a process of their own.

    It is a fork of this one, which has loaded what takes seconds.
    """
    output = copy.parent / "output"
    child = os.fork()
    if child == 0:
        _become_pytest([*tests, *options], copy, output)
    end, status = time.monotonic() + WALL_SECONDS, 0
    while not (done := os.waitpid(child, os.WNOHANG))[0]:
        time.sleep(0.05)
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
            end = float("inf")
    status = os.waitstatus_to_exitcode(done[1])
    return status, output.read_text(encoding="utf-8", errors="replace")


def _become_pytest(words: Sequence[str], copy: Path, output: Path) -> NoReturn:
    status = 3
    try:
        os.setsid()
        file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(file, stream)
        os.chdir(copy)
        os.environ |= {"PYTHONPATH": str(copy), "NUMBA_CACHE_DIR": str(copy / "numba"), "COLUMNS": "200"}
        sys.path[:] = [str(copy), *(folder for folder in sys.path if not folder.startswith(str(ROOT / "tests")))]
        options = ("-x", "--timeout=0", "--tb=no", "-rfE", "-p", "no:cacheprovider", "--hypothesis-profile=unshrunk")
        status = int(pytest.main([*options, "-k", f"not ({' or '.join(SKIPPED)})", *words], [EndlessTests()]))
        sys.stdout.flush()
    finally:
        os._exit(status)


class EndlessTests:
    """Plugin of pytest that ends the process where a test takes too long, in machine code too."""

    def pytest_runtest_setup(self) -> None:
        """Limit what one more test takes."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        most = int(usage.ru_utime + usage.ru_stime) + TEST_SECONDS
        resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))  # SIGXCPU


def copied(folder: Path) -> Path:
    """A copy of the tree without what is made from it."""
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for file in (path for path in ROOT.iterdir() if path.is_file()):
        shutil.copy2(file, folder)
    return folder


def read_mutant_rows(path: Path) -> list[MutantRow]:
    """The rows of a file, none if there is no such file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [
            MutantRow(**row | {"line": int(row["line"]), "seconds": float(row["seconds"])})  # type: ignore[arg-type]
            for row in csv.DictReader(file)
        ]


def last_rows(path: Path) -> dict[tuple[str, int, str], MutantRow]:
    """The last row of each mutant."""
    return {(row.path, row.line, row.change): row for row in read_mutant_rows(path)}


def append_mutant_row(path: Path, row: MutantRow) -> None:
    """Write a row at the end of a file, which gets its head with the first one."""
    is_new = not path.exists()
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if is_new:
            writer.writerow([field.name for field in fields(MutantRow)])
        writer.writerow(astuple(row))


def main() -> None:
    """Judge a sample of mutants and print what survived."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="a part of the paths of the files to change")
    parser.add_argument("-o", "--output", type=Path, default=Path("mutants.csv"))
    options = parser.parse_args()
    left = sample(options.count, options.seed, options.only)
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(Path(folder) / "tree")
        for stage, alive in enumerate(STAGES):
            for mutant in left:
                before = last_rows(options.output).get((mutant.path, mutant.line, mutant.change))
                if before is None or (stage and before.outcome == STAGES[0]):
                    row = judge(mutant, copy, tests_of(mutant.path)[stage])
                    row = replace(row, outcome=alive) if row.outcome == "survived" else row
                    append_mutant_row(options.output, row)
                    print(*astuple(row), flush=True)
        rows = list(last_rows(options.output).values())
        unfit = failing_tests(sorted({row.test for row in rows if row.outcome == "killed"} - {ENDLESS, ""}), copy)
    rows = [replace(row, outcome="undecided") if row.test in unfit else row for row in rows]
    counts = Counter(row.outcome for row in rows)
    judged = counts["killed"] + counts["survived"]
    print(f"{counts['killed']} of {judged} killed ({counts['killed'] / max(judged, 1):.1%}); {dict(counts)}")
    print(*(f"{row.path}:{row.line} {row.change}" for row in rows if row.outcome == "survived"), sep="\n")


if __name__ == "__main__":
    main()

"""The search of two checkouts on the held-out set, at equal limits: gaps side by side.

``python benchmarks/compare_trees.py OLD NEW -o rows.csv`` solves each instance with both in turn, appends a row
per solve, goes on where it stopped, and prints a table.  Gaps are in percent of the best bound that either tree knows.
"""

import argparse
import csv
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from itertools import product
from pathlib import Path
from statistics import fmean, stdev

from held_out import FAMILIES, HeldOut, held_out
from solver_process import Limits, SolverProcess

from themis_opt.problem.catalog import instance_text

SIDES = ("old", "new")


@dataclass(frozen=True)
class Solve:
    """What was solved; a solve that stands in the file is not done again."""

    side: str
    commit: str
    family: str
    instance: str
    seed: int
    time_limit: float
    workers: int
    deterministic: bool


@dataclass(frozen=True)
class SolveRow(Solve):
    """What a solve came to, in picoseconds and seconds; `gap` is that to its bound, in percent."""

    makespan: float
    bound: float
    gap: float
    seconds: float


def read_rows(path: Path) -> list[SolveRow]:
    """The rows of a file, none if it is missing."""
    if not path.exists():
        return []
    converters = {field.name: field.type for field in fields(SolveRow)} | {"deterministic": "True".__eq__}
    with path.open(encoding="utf-8", newline="") as file:
        return [SolveRow(**{k: converters[k](text) for k, text in row.items()}) for row in csv.DictReader(file)]


def append_row(path: Path, row: SolveRow) -> None:
    """Write a row behind the others."""
    is_new = not path.exists()
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(SolveRow)], lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow(asdict(row))


def solves(
    members: Sequence[HeldOut], commits: dict[str, str], limits: Limits, seeds: Iterable[int]
) -> Iterator[tuple[Solve, HeldOut]]:
    """Every solve; the sides take turns at being the first, since a machine may be slower for a while."""
    for number, (seed, member) in enumerate(product(seeds, members)):
        for side in SIDES[:: 1 if number % 2 == 0 else -1]:
            spent = (seed, limits["time_limit"], limits["workers"], limits["deterministic"])
            yield Solve(side, commits[side], member.family, member.name, *spent), member


@dataclass(frozen=True)
class Pair:
    """The rows of both sides for one instance and seed."""

    old: SolveRow
    new: SolveRow

    def gap(self, side: str) -> float:
        """Makespan over the best bound of either side, minus 1, in percent."""
        row: SolveRow = getattr(self, side)
        return 100 * (row.makespan / max(self.old.bound, self.new.bound) - 1)


def pairs_of(rows: Iterable[SolveRow], old: str = SIDES[0], new: str = SIDES[1]) -> list[Pair]:
    """Rows of two sides that are alike in all else but the commit."""
    sides: dict[tuple[object, ...], dict[str, SolveRow]] = {}
    for row in rows:
        _, _, *key = astuple(row)[: len(fields(Solve))]
        sides.setdefault(tuple(key), {})[row.side] = row
    return [Pair(rows[old], rows[new]) for rows in sides.values() if old in rows and new in rows]


def changes_of(pairs: Iterable[Pair], change: Callable[[Pair], float]) -> dict[str, float]:
    """What changes on each instance, the mean over its seeds: seeds of one instance are no independent samples."""
    values: dict[str, list[float]] = {}
    for pair in pairs:
        values.setdefault(pair.new.instance, []).append(change(pair))
    return {instance: fmean(changes) for instance, changes in values.items()}


def mean_and_error(values: Collection[float]) -> tuple[float, float]:
    """The mean and its standard error, which is 0 for one value alone."""
    return fmean(values), stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


HEAD = """\
| class | solves | gap old, % | new | difference | worst | own gap old, % | new | difference | seconds old | new |
|---|---|---|---|---|---|---|---|---|---|---|
"""


def table(pairs: Sequence[Pair]) -> str:
    """One line per class, and one for all; differences are new minus old, with their standard errors."""
    families = (*dict.fromkeys(pair.old.family for pair in pairs), "all")
    groups = {family: [pair for pair in pairs if family in (pair.old.family, "all")] for family in families}
    return HEAD + "".join(table_line(family, members) for family, members in groups.items())


def table_line(family: str, pairs: Sequence[Pair]) -> str:
    """The line of one class."""
    changes = changes_of(pairs, lambda pair: pair.gap("new") - pair.gap("old"))
    worst = max(changes, key=changes.__getitem__)
    change, error = mean_and_error(changes.values())
    proven = changes_of(pairs, lambda pair: pair.new.gap - pair.old.gap)
    proven_change, proven_error = mean_and_error(proven.values())
    cells = [family, str(len(pairs)), *(f"{fmean(pair.gap(side) for pair in pairs):.3f}" for side in SIDES)]
    cells += [f"{change:+.3f} ± {error:.3f}", f"{changes[worst]:+.3f} {worst}"]
    cells += [f"{fmean(getattr(pair, side).gap for pair in pairs):.3f}" for side in SIDES]
    cells += [f"{proven_change:+.3f} ± {proven_error:.3f}"]
    cells += [f"{fmean(getattr(pair, side).seconds for pair in pairs):.1f}" for side in SIDES]
    return f"| {' | '.join(cells)} |\n"


def option_parser(description: str | None, *, seeds: Sequence[int], workers: int) -> argparse.ArgumentParser:
    """Options of programs that solve the held-out set, with the usual seeds and threads."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--class", dest="families", action="append", choices=FAMILIES, help="only these classes")
    parser.add_argument("--seconds", type=float, default=10.0, help="time limit of a solve")
    parser.add_argument("--seeds", type=int, nargs="+", default=seeds)
    parser.add_argument("--workers", type=int, default=workers, help="threads of a solve")
    parser.add_argument("--deterministic", action="store_true", help="limits count work in the place of time")
    parser.add_argument("-o", "--output", type=Path, required=True)
    return parser


def limits_of(arguments: argparse.Namespace, seed: int) -> Limits:
    """Limits of one solve."""
    return Limits(
        time_limit=arguments.seconds, workers=arguments.workers, seed=seed, deterministic=arguments.deterministic
    )


def solved_row(solver: SolverProcess, solve: Solve, member: HeldOut, limits: Limits, *options: str) -> SolveRow | None:
    """Solve an instance; nothing if the solver fails, which is printed."""
    outcome = solver.solve(instance_text(member.instance), member.sizes, limits, *options)
    if "error" in outcome:
        print(f"{solve.side} {solve.instance}: {outcome['error']}", flush=True)
        return None
    makespan, bound = outcome["makespan"], outcome["bound"]
    return SolveRow(*astuple(solve), makespan, bound, 100 * (makespan / bound - 1), round(outcome["seconds"], 2))


def main() -> None:
    """Solve what is missing in the file, and print the table."""
    parser = option_parser(__doc__, seeds=[0], workers=2)
    parser.add_argument("old", type=Path, help="a checkout of this project")
    parser.add_argument("new", type=Path, help="another one")
    parser.add_argument("--every", type=int, default=1, help="only every so many-th instance of a class")
    arguments = parser.parse_args()
    solvers = {"old": SolverProcess(arguments.old.resolve()), "new": SolverProcess(arguments.new.resolve())}
    commits = {side: solver.commit for side, solver in solvers.items()}
    members = held_out(arguments.families or (), every=arguments.every)
    wanted = list(solves(members, commits, limits_of(arguments, 0), arguments.seeds))
    known = {Solve(*astuple(row)[: len(fields(Solve))]): row for row in read_rows(arguments.output)}
    for solve, member in wanted:
        if solve in known:
            continue
        row = solved_row(solvers[solve.side], solve, member, limits_of(arguments, solve.seed))
        if row is None:
            continue
        print(f"{row.side} {row.instance}: {row.gap:.3f} % in {row.seconds} s", flush=True)
        append_row(arguments.output, row)
        known[solve] = row
    for solver in solvers.values():
        solver.close()
    pairs = pairs_of(known[solve] for solve, _ in wanted if solve in known)
    if pairs:
        print(table(pairs))


if __name__ == "__main__":
    main()

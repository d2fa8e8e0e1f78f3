"""Reports that cannot go stale: which are older than the code that they depend on, and rows of theirs made again.

    python reports/remake.py [REPORT...] [--jobs 2]     # makes the stale ones again, by default of all
    python reports/remake.py --list                     # says which are stale, how old they are and what they cost
    python reports/remake.py --numbers                  # writes numbers of reports into the pages that quote them
    python reports/remake.py --check --sample 30 --seed 7

A report is stale if a module that its rows depend on says something else than at the commit that made them: modules
are compared without docstrings and comments, and instances by their bytes.  What was made stays if the command is
stopped, and the next call goes on.  ``--check`` draws rows by seed and makes them again with the code of today; it ends
with code 1 if one differs.  Rows of searches that a clock ends, and times, are not drawn.  Pages quote numbers and
tables between ``<!--NAME-->`` and ``<!--/-->``; ``quoted.toml`` says what a name means.
"""

import argparse
import ast
import csv
import importlib
import inspect
import json
import os
import random
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, cached_property
from math import isclose
from pathlib import Path
from statistics import fmean, median
from threading import Lock
from typing import Any, Protocol

from themis_opt.batches.expansion import Run, expand
from themis_opt.batches.experiment import read_experiment
from themis_opt.batches.measured_run import code_version, execute
from themis_opt.batches.rows_file import read_csv_text

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent
COSTS = FOLDER / "costs.csv"
"""Seconds of the processor that each report took when it was made."""

INSTANCES = re.compile(r"instances/(?!library/).*\.(json|csv)")
"""Shipped files that rows may be of."""

NO_ROWS = ("cli", "reports", "runtime", "tuning")
"""Parts of the package that make no rows."""

NAMED = re.compile(r"(themis_opt|formulations)(\.\w+)+(:\w+)?")
"""Texts that name a module, as in registries that load it when it is asked for."""

DATA = re.compile(r"\w+\.(toml|txt|json|csv)")
"""Names of files of data beside the module that reads them."""

TIMES = ("_s", "_ms", " s", "seconds", "_power", "commit")
"""Ends of the names of columns that no second run repeats."""

RUN_COLUMNS = ("block", "instance", "policy", "size_bytes", "chunks", "latency", "launch_overhead_ns", "seed", "sizes")
"""Columns that say which run of an experiment a row is of."""

COMPARED = ("makespan_ns", "bound_ns", "bound_equal_ns")
"""Columns of runs that must come out again."""

FOLDS: dict[str, Callable[[Sequence[float]], float]] = {"largest": max, "mean": fmean, "median": median, "number": len}
"""What pages quote of the values of a column where more rows than one are meant."""

BESIDE = {
    "engines": ("engines/results.csv", "benchmarks/compare_engines.py"),
    "execution": ("execution/rows.csv.gz", "reports/execution/measure.py"),
    "references": ("references/references.csv", "benchmarks/test_references.py"),
    "references:gaps": ("references/gaps.csv.gz", "benchmarks/test_reference_gaps.py"),
    "references:ablation": ("references/ablation.csv.gz", "benchmarks/ablation.py"),
    "tuning:gains": ("tuning/tuning.csv", "benchmarks/test_tuning_gains.py"),
    "graphs:rails": ("graphs/rails.csv", "benchmarks/cluster_speed.py"),
}
"""Rows of times and of long searches, with the script that makes them: this command names them, and makes none."""

MARK = re.compile(r"<!--([a-z0-9.-]+)-->(.*?)<!--/-->", re.DOTALL)
Row = dict[str, Any]


class Report(Protocol):
    """A folder or table of rows."""

    name: str

    def commits(self) -> set[str]:
        """The commits that made the rows."""
        ...

    def entries(self) -> tuple[Path, ...]:
        """Files that the rows come from: modules, with all that these import, and others."""
        ...

    def drawable(self) -> Sequence[int]:
        """Numbers of the rows that a second run repeats."""
        ...

    def again(self, number: int) -> Iterator[tuple[str, str, str]]:
        """What a row is called, and what was and is measured, for every cell of a row."""
        ...

    def commands(self) -> tuple[list[Any], ...]:
        """Calls of Python that make all rows again, and the report of them."""
        ...


@dataclass(frozen=True)
class Experiment:
    """A folder with an experiment file, whose rows are runs."""

    name: str

    @property
    def folder(self) -> Path:
        """Where its files lie."""
        return FOLDER / self.name

    @cached_property
    def rows(self) -> list[Row]:
        """The rows as texts."""
        return read_rows(self.folder / "rows.csv.gz")

    @cached_property
    def runs(self) -> dict[tuple[str, ...], Run]:
        """The runs of the experiment by what tells them apart."""
        path = self.folder / "experiment.toml"
        return {_place(run.columns): run for run in expand(read_experiment(path), path)}

    def commits(self) -> set[str]:
        """The commit that the provenance names."""
        return {json.loads((self.folder / "provenance.json").read_text(encoding="utf-8"))["commit"]}

    def entries(self) -> tuple[Path, ...]:
        """The experiment, and what expands and runs it."""
        batches = ROOT / "themis_opt" / "batches"
        return (self.folder / "experiment.toml", batches / "expansion.py", batches / "measured_run.py")

    def drawable(self) -> Sequence[int]:
        """Rows without a time limit that did not fail."""
        return [number for number, row in enumerate(self.rows) if row["status"] == "ok" and not row.get("time_limit")]

    def again(self, number: int) -> Iterator[tuple[str, str, str]]:
        """Run it."""
        row = self.rows[number]
        run = self.runs.get(_place(row))
        what = " ".join(row[name] for name in RUN_COLUMNS if row[name])
        if run is None:
            yield what, "a row", "a run that the experiment has no more"
            return
        columns = execute(run.task, code_version())
        for name in COMPARED:
            if row.get(name):
                yield f"{what}: {name}", row[name], str(columns.get(name))

    def commands(self) -> tuple[list[Any], ...]:
        """The two commands of the front page."""
        program, folder = ["-m", "themis_opt"], self.folder.relative_to(ROOT)  # as the provenance is to name it
        return [*program, "batch", folder / "experiment.toml", "--jobs", "1"], [*program, "report", folder]


def _place(columns: Row) -> tuple[str, ...]:
    return tuple("" if columns.get(name) is None else str(columns.get(name)) for name in RUN_COLUMNS)


@dataclass(frozen=True)
class Table:
    """A table that a script makes."""

    name: str
    script: str  # file below `reports`
    rows_file: str  # CSV file below `reports`
    makes: Callable[[], Any]  # a function that yields the rows in order
    is_timed: bool = False  # whether searches end by a clock
    part: str = ""  # the rows of a file of many parts
    single: Callable[[int], Row] | None = None  # makes a row by its number
    cases: dict[int, Row] = field(default_factory=dict)

    @cached_property
    def rows(self) -> list[Row]:
        """The rows as texts."""
        rows = read_rows(FOLDER / self.rows_file)
        return [row for row in rows if not self.part or row["part"] == self.part]

    def commits(self) -> set[str]:
        """The commits in the column of rows, or that which stored them."""
        path = f"reports/{self.rows_file}"
        return {row.get("commit") or git("log", "-1", "--format=%H", "--", path).strip() for row in self.rows}

    def entries(self) -> tuple[Path, ...]:
        """The script, or that part of it which makes the rows."""
        return (Path(inspect.getfile(self.makes)) if self.part else FOLDER / self.script,)

    def drawable(self) -> Sequence[int]:
        """All, unless a clock ends searches."""
        return () if self.is_timed else range(len(self.rows))

    def again(self, number: int) -> Iterator[tuple[str, str, str]]:
        """Make the rows up to this one."""
        if self.single:
            self.cases[number] = self.single(number)
        while number not in self.cases:
            self.cases[len(self.cases)] = next(self._made)
        row, now = self.rows[number], self.cases[number]
        what = f"{self.name} {number + 1}"
        for name, value in now.items():
            if not name.endswith(TIMES):
                yield f"{what}: {name}", row.get(name) or "", "" if value is None else str(value)

    @cached_property
    def _made(self) -> Iterator[Row]:
        return iter(self.makes())

    def commands(self) -> tuple[list[Any], ...]:
        """Call the script."""
        return ([FOLDER / self.script, self.name.rpartition(":")[2]],)


def read_rows(path: Path) -> list[Row]:
    """Rows of a CSV file; of one with a line for each quantity, the rows that these make."""
    lines = list(csv.DictReader(read_csv_text(path).splitlines()))
    if not lines or set(lines[0]) != {"part", "row", "quantity", "value"}:
        return lines
    rows: dict[tuple[str, str], Row] = {}
    for line in lines:
        row = rows.setdefault((line["part"], line["row"]), {"part": line["part"]})
        row[line["quantity"]] = line["value"]
    return list(rows.values())


def _load(folder: str, module: str) -> Any:
    """A module of the scripts, which import their neighbours by name."""
    if str(FOLDER / folder) not in sys.path:
        sys.path.insert(0, str(FOLDER / folder))
    return importlib.import_module(module)


@cache
def reports() -> dict[str, Report]:
    """All reports by name."""
    every: list[Report] = [Experiment(file.parent.name) for file in sorted(FOLDER.glob("*/experiment.toml"))]
    systems = _load("rivals/systems", "measure")
    for part in systems.PARTS:
        name, rows = part.__name__, "rivals/systems/rows.csv.gz"
        every.append(Table(f"systems:{name}", "rivals/systems/measure.py", rows, part, part=name))
    for folder, module in (("graphs", "tables"), ("rivals", "problems")):
        script = _load(folder, module)
        for name, makes in script.TABLES.items():
            chosen: Row = {"is_timed": name in script.TIMED, "single": script.SINGLE.get(name)}
            every.append(Table(f"{folder}:{name}", f"{folder}/{module}.py", f"{folder}/{name}.csv", makes, **chosen))
    return {report.name: report for report in every}


def git(*call: str) -> str:
    """What git says."""
    return subprocess.run(["git", "-C", ROOT, *call], capture_output=True, text=True, check=True).stdout


def is_stale(report: Report) -> bool:
    """Whether what a report depends on has changed since the commit of one of its rows, or that is not known."""
    files = {file.relative_to(ROOT).as_posix() for entry in report.entries() for file in imported(entry)}
    for commit in report.commits():
        names = changed_since(commit)
        if names is None or any(map(INSTANCES.fullmatch, names)):
            return True
        if any(not name.endswith(".py") or has_another_meaning(name, commit) for name in sorted(files & names)):
            return True
    return False


@cache
def changed_since(commit: str) -> frozenset[str] | None:
    """Files that differ from those of a commit; None if git does not know that."""
    try:
        return frozenset(git("diff", "--name-only", commit.rstrip("+")).splitlines())
    except subprocess.CalledProcessError:
        return None


@cache
def has_another_meaning(name: str, commit: str) -> bool:
    """Whether a module says something else than at a commit."""
    try:
        before = git("show", f"{commit.rstrip('+')}:{name}")
    except subprocess.CalledProcessError:  # the file is new
        return True
    return meaning(before) != meaning((ROOT / name).read_text(encoding="utf-8"))


def meaning(text: str) -> str:
    """What a module does: its syntax tree without docstrings and other texts that stand alone."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [line for line in body if not _is_text(line)]  # type: ignore[attr-defined]
    return ast.dump(tree)


def _is_text(line: ast.AST) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)


@cache
def imported(entry: Path) -> frozenset[Path]:
    """A file, and all that it imports which may make rows, also in functions, through others and by name."""
    files, fresh = {entry}, [entry]
    while fresh:
        file = fresh.pop()
        more = set(_imports(file)) - files if file.suffix == ".py" else set()
        files |= more
        fresh += more
    return frozenset(files)


@cache
def _imports(file: Path) -> tuple[Path, ...]:
    names, beside = set(), set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if NAMED.fullmatch(node.value):
                names.add(node.value.partition(":")[0])
            elif DATA.fullmatch(node.value):
                beside.add(file.with_name(node.value))
    places = [folder / name.replace(".", "/") for name in sorted(names) for folder in (ROOT, file.parent)]
    paths = [path for place in places for path in (place.with_suffix(".py"), place / "__init__.py")] + sorted(beside)
    aside = [ROOT / "themis_opt" / part for part in NO_ROWS]
    return tuple(path for path in paths if path.is_file() and not any(part in path.parents for part in aside))


def costs() -> dict[str, float]:
    """Seconds of the processor by report."""
    rows = read_rows(COSTS) if COSTS.is_file() else []
    return {row["report"]: float(row["cpu_s"]) for row in rows}


def remake(names: Sequence[str], jobs: int) -> None:
    """Make reports again, the longest first; those that share a file follow each other."""
    known, lock = costs(), Lock()

    def make(group: Sequence[str]) -> None:
        for name in group:
            seconds = sum(map(_cpu_seconds, reports()[name].commands()))
            with lock:
                print(f"{name}: made in {seconds:.0f} s of the processor", flush=True)
                known[name] = seconds
                lines = [f"{report},{known[report]:.1f}" for report in reports() if report in known]
                COSTS.write_text("\n".join(["report,cpu_s", *lines, ""]), encoding="utf-8")

    by_file: dict[str, list[str]] = {}
    for name in names:
        by_file.setdefault(getattr(reports()[name], "rows_file", name), []).append(name)
    groups = sorted(by_file.values(), key=lambda group: -sum(known.get(name, 0.0) for name in group))
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(make, groups))


def _cpu_seconds(arguments: Sequence[Any]) -> float:
    """Call Python; the seconds of the processor that it and its children take."""
    process = subprocess.Popen([sys.executable, *map(str, arguments)], cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    return used.ru_utime + used.ru_stime


def check(sample: int, seed: int, names: Sequence[str]) -> int:
    """Make rows drawn by seed again; returns how many differ.  Every report is drawn from as often as any other."""
    chance = random.Random(seed)
    chosen = [reports()[name] for name in names] if names else list(reports().values())
    chosen = [report for report in chosen if report.drawable()]
    places = [(report, chance.choice(report.drawable())) for report in chance.choices(chosen, k=sample)]
    wrong = 0
    for report, number in sorted(places, key=lambda place: (place[0].name, place[1])):
        differing = [
            f"{what}: {before} stored, {now} now"
            for what, before, now in report.again(number)
            if not is_equal(before, now)
        ]
        print(f"{report.name}, row {number + 1}: {'; '.join(differing) or 'equal'}", flush=True)
        wrong += bool(differing)
    print(f"{sample - wrong} of {sample} rows drawn by seed {seed} come out again.")
    return wrong


def is_equal(before: str, now: str) -> bool:
    """Whether two cells say the same: numbers to six digits, of which files of rows keep seven."""
    try:
        return isclose(float(before), float(now), rel_tol=1e-6, abs_tol=1e-12)
    except ValueError:
        return before == now


def quoted() -> dict[str, str]:
    """The numbers that pages quote, by name.

    Raises ValueError if no row, or rows that differ, or no place of a text is meant.
    """
    quotes = tomllib.loads((FOLDER / "quoted.toml").read_text(encoding="utf-8"))
    return {name: _figures(name, quote) for name, quote in quotes.items()}


def _figures(name: str, quote: dict[str, Any]) -> str:
    if "column" not in quote and "pattern" not in quote:
        return _table([row for row in _rows_of(quote["file"]) if _has(row, quote.get("where", {}))], quote)
    if "pattern" in quote:
        match = re.search(quote["pattern"], (FOLDER / quote["file"]).read_text(encoding="utf-8"))
        if match is None:
            raise ValueError(f"quoted.toml: {name}: no such text in {quote['file']}")
        return match[1]
    rows, where = _rows_of(quote["file"]), quote["where"]
    axis = next((key for key, value in where.items() if isinstance(value, list) and "fold" not in quote), "")
    figures = []
    for place in where.get(axis, [None]):
        wanted = where | {axis: place} if axis else where
        values = [row[quote["column"]] for row in rows if _has(row, wanted)]
        cells = {str(FOLDS[quote["fold"]](list(map(float, values))))} if "fold" in quote else set(values)
        if len(cells) != 1:
            raise ValueError(f"quoted.toml: {name}: {len(cells)} values of {quote['column']} have {wanted}")
        figures.append(format(float(cells.pop()), quote["format"]))
    return ", ".join(figures)


def _table(rows: Sequence[Row], quote: dict[str, Any]) -> str:
    """Rows as a table in Markdown: some columns, by default all but the commit."""
    shown = quote.get("columns") or [name for name in rows[0] if name != "commit"]
    lines = [[name.replace("_", " ") for name in shown], ["---"] + ["---:"] * (len(shown) - 1)]
    lines += [[row.get(name) or "" for name in shown] for row in rows]
    return "\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n\n"


@cache
def _rows_of(file: str) -> list[Row]:
    return read_rows(FOLDER / file)


def _has(row: Row, values: dict[str, Any]) -> bool:
    lists = {key: value if isinstance(value, list) else [value] for key, value in values.items()}
    return all(key in row and any(is_equal(row[key], str(one)) for one in value) for key, value in lists.items())


def pages() -> Iterator[Path]:
    """Files that may quote."""
    yield ROOT / "README.md"
    yield from (FOLDER / "rivals/systems" / name for name in ("findings.md", "README.md"))
    yield from (page for name in ("graphs", "rivals") for page in sorted((FOLDER / name).glob("*.md")))
    yield from sorted((ROOT / "docs").rglob("*.md"))


def written(text: str, numbers: dict[str, str]) -> str:
    """A page with the numbers of today."""
    return MARK.sub(lambda mark: f"<!--{mark[1]}-->{numbers[mark[1]]}<!--/-->", text)


@cache
def _said(commit: str) -> str:
    return git("show", "-s", "--format=%h (%cr)", commit.rstrip("+")).strip()


def main(arguments: Sequence[str]) -> int:
    """Do what is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("report", nargs="*", help="names as --list says them")
    parser.add_argument("--list", action="store_true", help="say which are stale, and what they cost")
    parser.add_argument("--numbers", action="store_true", help="write numbers into the pages that quote them")
    parser.add_argument("--jobs", type=int, default=1, help="reports to make at once (1)")
    parser.add_argument("--check", action="store_true", help="make rows again")
    parser.add_argument("--sample", type=int, default=30, help="rows to make again (30)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the draw (0)")
    given = parser.parse_args(arguments)
    unknown = set(given.report) - set(reports())
    if unknown:
        parser.error(f"no report {', '.join(sorted(unknown))}: there are {', '.join(reports())}")
    if given.check:
        return min(check(given.sample, given.seed, given.report), 1)
    if not given.numbers:
        chosen, known = given.report or list(reports()), costs()
        stale = [name for name in chosen if is_stale(reports()[name])]
        for name in chosen:
            commits, cost = ", ".join(map(_said, sorted(reports()[name].commits()))), known.get(name)
            took = "" if cost is None else f", {cost:.0f} s of the processor"
            print(f"{name}: {'stale' if name in stale else 'as its code is'}, rows of {commits}{took}", flush=True)
        for name, (rows, script) in BESIDE.items() if given.list and not given.report else ():
            stored = _said(git("log", "-1", "--format=%H", "--", f"reports/{rows}").strip())
            print(f"{name}: made by {script} alone, rows stored by {stored}", flush=True)
        if not given.list:
            remake(stale, given.jobs)
    if not given.list:
        numbers = quoted()
        for page in pages():
            page.write_text(written(page.read_text(encoding="utf-8"), numbers), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

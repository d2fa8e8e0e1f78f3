"""The best schedules and bounds that are known of the instances of the library, each with what confirms it.

Rows stand in ``index.json``; solutions and certificates are files beside it.  ``check.py`` there, which shares no code
with this package, has the last word about both.
"""

import gzip
import importlib.util
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from formulations.limits import PROVEN_GAP
from themis_opt.base.documents import read_json, write_atomically
from themis_opt.base.errors import InputError
from themis_opt.base.units import format_percent, format_short_time
from themis_opt.formats.order_table import ORDER_FORMAT, order_table
from themis_opt.graphs.problem import GraphInstance
from themis_opt.graphs.schedule import GRAPH_ORDER_FORMAT, GraphSchedule
from themis_opt.problem.catalog import LIBRARY
from themis_opt.problem.documents import errors_of
from themis_opt.problem.fields import Model
from themis_opt.problem.instance import Instance
from themis_opt.schedules.schedule import Schedule

INDEX_FORMAT = "themis-opt/library/1"
TABLE_FORMATS = (ORDER_FORMAT, GRAPH_ORDER_FORMAT)  # of order tables, on dimensions and on graphs
CORE = ("all_reduce", "equal", "kinds", "costs", "several", "iteration", "graph")  # families of the first 200 instances
SizesOfRow = Literal["equal", "free"]
ProofClass = Literal["rule", "10 s", "10 min", "open"]
Positive = Annotated[int, Field(gt=0)]
ListedInstance = Instance | GraphInstance
LibrarySchedule = Schedule | GraphSchedule


class BestKnown(Model):
    """A row of the index: what is known of one instance where chunks are equal, or of any sizes.

    `core`: whether it is one of the 200 that were drawn first.
    `makespan_ps`: of the solution; with compute, of one iteration.
    `bound_ps`, `bound`: the best bound, and its kind; `proven_ps` the best one that needs no trust in a solver.
    `proven_in`: what it takes to prove the solution within 0.01 %, in seconds of one core for the reference.
    `solver`, `seconds`, `date`: where the solution comes from, and processor time.
    """

    name: str
    file: str
    sha256: str
    fingerprint: str
    sizes: SizesOfRow
    core: bool
    dimensions: int
    npus: Positive
    status: Literal["closed", "open"]
    proven_in: ProofClass
    makespan_ps: Positive
    bound_ps: Positive
    bound: str
    proven_ps: Positive
    solver: str
    seconds: float
    date: date
    solution: str
    certificate: str

    @property
    def gap(self) -> float:
        """Makespan over bound, minus 1."""
        return self.makespan_ps / self.bound_ps - 1

    @property
    def is_verified(self) -> bool:
        """Whether it is closed by bounds that ``check.py`` derives itself."""
        return self.makespan_ps <= self.proven_ps * (1 + PROVEN_GAP)

    @property
    def key(self) -> tuple[str, str]:
        """What no two rows have in common."""
        return self.fingerprint, self.sizes


@dataclass(frozen=True)
class Library:
    """A folder with instances, index, solutions and certificates."""

    folder: Path = LIBRARY

    @cached_property
    def rows(self) -> tuple[BestKnown, ...]:
        """The index, empty where there is none.  Raises InputError if it cannot be read, or holds a wrong row."""
        path = self.folder / "index.json"
        if not path.exists():
            return ()
        with errors_of(path):
            return TypeAdapter(tuple[BestKnown, ...]).validate_python(read_json(path).get("instances"))

    def named(self, name: str) -> tuple[BestKnown, ...]:
        """The rows of an instance. Raises InputError if it is not in the library."""
        rows = tuple(row for row in self.rows if row.name == name)
        if not rows:
            raise InputError("the library has no such instance; best-known list names all", field="name", value=name)
        return rows

    @cached_property
    def checker(self) -> ModuleType:
        """``check.py``."""
        spec = importlib.util.spec_from_file_location("themis_opt_library_check", self.folder / "check.py")
        if spec is None or spec.loader is None:
            raise InputError("has no check.py", source=str(self.folder))
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # its dataclasses look their module up
        spec.loader.exec_module(module)
        return module

    def submit(self, table: dict[str, Any], solver: str, seconds: float = 0.0) -> tuple[BestKnown, ...]:
        """Check an order table, and store it in every row that it improves, which are returned.

        Raises InputError if there is no row for its instance, it is no better than what is known, or the checker
        refuses it.

        `table`: as ``order.json``; on graphs as the solutions of the library.
        `solver`, `seconds`: where it comes from, and processor time.
        """
        source = {"solver": solver, "seconds": round(seconds, 2), "date": date.today()}
        changed, judged = self._improve(
            table,
            lambda row: (row.model_dump() | source, table, read_json(self.folder / row.certificate)),
            lambda new, old: new.makespan_ps < old.makespan_ps,
        )
        if not changed:
            best = min((row for row in self.rows if row.key in judged), key=lambda row: row.makespan_ps)
            makespan = judged[best.key].makespan_ps
            loss = format_percent(makespan / best.makespan_ps - 1)
            raise InputError(
                f"takes {format_short_time(makespan)}, and the best known schedule of {best.name} is "
                f"{'as fast' if makespan == best.makespan_ps else f'{loss} faster'}",
                field="makespan",
                value=f"{makespan} ps",
            )
        return changed

    def store(
        self,
        file: str,
        schedule: LibrarySchedule,
        proof: dict[str, Any],
        sizes: SizesOfRow,
        proven_in: ProofClass,
        solver: str,
        seconds: float,
    ) -> BestKnown:
        """Write a solution and a certificate of the instance in a file, and put their row into the index.

        Raises InputError if the checker refuses them.
        """
        instance, table = schedule.problem, solution_of(schedule)
        key, name = f"{fingerprint_of(instance)}.{sizes}", Path(file).name.removesuffix(".json")
        row = self._judged(
            {
                "name": name,
                "file": file,
                "sha256": sha256((self.folder / file).read_bytes()).hexdigest(),
                "fingerprint": fingerprint_of(instance),
                "sizes": sizes,
                "core": file == f"instances/{name}.json" and name.rpartition("-")[0] in CORE,
                "dimensions": 0 if isinstance(instance, GraphInstance) else len(instance.network.dimensions),
                "npus": instance.network.num_npus,
                "proven_in": proven_in,
                "solver": solver,
                "seconds": round(seconds, 2),
                "date": date.today(),
                "solution": f"solutions/{key}.json.gz",
                "certificate": f"certificates/{key}.json",
            },
            table,
            proof,
        )
        self._keep(row, table, proof)
        return row

    def certify(self, proof: dict[str, Any]) -> tuple[BestKnown, ...]:
        """Check a certificate, and store it in every row whose bounds it raises, which are returned.

        Raises InputError if there is no row for its instance, or it raises no bound, or the checker refuses it.
        """
        changed, judged = self._improve(
            proof,
            lambda row: (
                row.model_dump(),
                json.loads(gzip.decompress((self.folder / row.solution).read_bytes())),
                proof,
            ),
            lambda new, old: (
                new.bound_ps >= old.bound_ps
                and new.proven_ps >= old.proven_ps
                and (new.bound_ps, new.proven_ps) != (old.bound_ps, old.proven_ps)
            ),
        )
        if not changed:
            name = next(iter(judged.values())).name
            raise InputError("raises no bound of the library", field="bounds", value=name)
        return changed

    def _improve(
        self,
        document: dict[str, Any],
        candidate: Callable[[BestKnown], tuple[dict[str, Any], dict[str, Any], dict[str, Any]]],
        is_better: Callable[[BestKnown, BestKnown], bool],
    ) -> tuple[tuple[BestKnown, ...], dict[tuple[str, str], BestKnown]]:
        """Judge a document for each row of its instance, and store it where it is better.

        Raises InputError if there is no such row, or the checker refuses the document for all.

        `candidate`: fields of a row, solution and certificate.
        Returns the rows that changed, and all that were judged by their keys.
        """
        rows = [row for row in self.rows if row.fingerprint == document.get("fingerprint")]
        if not rows:
            known, fingerprint = "fingerprint" in document, document.get("fingerprint")
            rule = "the library has no such instance" if known else "required field is missing"
            raise InputError(rule, field="fingerprint", value=fingerprint)
        changed, judged, refusals = [], dict[tuple[str, str], BestKnown](), []
        for row in rows:
            fields, table, proof = candidate(row)
            try:
                new = judged[row.key] = self._judged(fields, table, proof)
            except InputError as error:
                refusals.append(error)
                continue
            if is_better(new, row):
                self._keep(new, table, proof)
                changed.append(new)
        if not judged:
            raise refusals[0]
        return tuple(changed), judged

    def _judged(self, fields: dict[str, Any], table: dict[str, Any], proof: dict[str, Any]) -> BestKnown:
        """The row of a solution and a certificate.  Raises InputError if the checker refuses them."""
        try:
            exact = self.checker.read(self.folder / fields["file"])
            verdict = self.checker.judge(exact, table, proof, equal=fields["sizes"] == "equal")
        except self.checker.Refused as error:
            raise InputError(f"check.py refuses it for {fields['file']}: {error}") from None
        except (KeyError, ValueError, TypeError, IndexError, ZeroDivisionError, RecursionError) as error:
            raise InputError(f"check.py cannot read it for {fields['file']}: {error!r}") from None
        best, proven_in = max(verdict.bounds, key=lambda bound: bound.picoseconds), fields["proven_in"]
        is_closed = verdict.makespan <= best.picoseconds * (1 + PROVEN_GAP)
        judged = {
            "status": "closed" if is_closed else "open",
            "proven_in": "10 min" if is_closed and proven_in == "open" else proven_in if is_closed else "open",
            "makespan_ps": verdict.makespan,
            "bound_ps": math.floor(best.picoseconds),
            "bound": best.kind,
            "proven_ps": math.floor(verdict.best(trusted=False)),
        }
        return BestKnown(**fields | judged)

    def _keep(self, row: BestKnown, table: dict[str, Any], proof: dict[str, Any]) -> None:
        for name in ("solutions", "certificates"):
            (self.folder / name).mkdir(exist_ok=True)
        packed = gzip.compress(json.dumps(table, separators=(",", ":")).encode(), mtime=0)
        (self.folder / row.solution).write_bytes(packed)
        write_atomically(self.folder / row.certificate, json.dumps(proof) + "\n")
        self.write([*(old for old in self.rows if old.key != row.key), row])

    def write(self, rows: Sequence[BestKnown]) -> None:
        """Write the index, one row per line, by name."""
        texts = [row.model_dump_json() for row in sorted(rows, key=lambda row: (row.file, row.sizes))]
        head = f'{{"format": "{INDEX_FORMAT}", "licence": "CC-BY-4.0", "instances": ['
        write_atomically(self.folder / "index.json", "\n".join([head, ",\n".join(texts), "]}\n"]))
        self.__dict__.pop("rows", None)


def shares(rows: Sequence[BestKnown]) -> tuple[str, ...]:
    """How many rows are closed, and of them by bounds that need no trust, of all rows and of the core."""
    texts = []
    for name, part in (("rows", rows), ("core rows", [row for row in rows if row.core])):
        closed, verified = sum(row.status == "closed" for row in part), sum(row.is_verified for row in part)
        texts += [f"{len(part)} {name}, {closed} closed, {verified} without trust in a solver"] if part else []
    return tuple(texts)


def fingerprint_of(instance: ListedInstance) -> str:
    """The key of an instance."""
    if isinstance(instance, Instance):
        return instance.fingerprint
    from themis_opt.graphs.certificates import graph_fingerprint  # slow to import, as below

    return graph_fingerprint(instance)


def solution_of(schedule: LibrarySchedule) -> dict[str, Any]:
    """The file of a solution: an order table, or the transfers on a graph and the order of each link."""
    if isinstance(schedule, Schedule):
        return order_table(schedule)
    from themis_opt.graphs.certificates import graph_order

    return graph_order(schedule)


def beside_best_known(schedule: Schedule, sizes: str, library: Library | None = None) -> str | None:
    """How a schedule compares with the best one known of its instance, in a sentence; None if none is known."""
    key = schedule.instance.fingerprint, sizes
    row = next((row for row in (library or Library()).rows if row.key == key), None)
    if row is None:
        return None
    known = f"the best schedule known of {row.name} ({format_short_time(row.makespan_ps)}, {row.date})"
    ratio = schedule.makespan / row.makespan_ps
    if abs(ratio - 1) <= PROVEN_GAP:  # what also counts as no gap to a bound
        return f"It is as fast as {known}."
    if ratio < 1:
        return f"It beats {known} by {format_percent(1 - ratio)}: themis-opt best-known submit takes its schedule.json."
    return f"It takes {format_percent(ratio - 1)} longer than {known}."

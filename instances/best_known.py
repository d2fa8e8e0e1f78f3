"""The best known schedules: a table of makespans, or iteration times, and bounds, each of which only ever improves.

``python instances/best_known.py`` takes what the rows of the reports say better.
"""

import csv
import datetime
import gzip
import io
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from themis_opt.base.documents import write_atomically
from themis_opt.base.errors import InputError
from themis_opt.base.units import PICOSECONDS_PER_NANOSECOND
from themis_opt.policies.registry import REFERENCE
from themis_opt.problem.fields import Model, located
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.validation import validate

if TYPE_CHECKING:
    from themis_opt.search.exact import Exact

TABLE = Path(__file__).with_suffix(".csv")  # the table beside this file
REPORT_FOLDER = Path(__file__).parents[1] / "reports"  # folders of reports, with their rows
NOISE = 1e-9  # fraction by which a floating-point bound may be too high; it is taken off before the bound is recorded
ALWAYS_TOLD = ("seconds", "workers", "seed")  # knobs of the reference that how names even if they have their defaults
SizesOfRecord = Literal["equal", "free"]
Positive = Annotated[int, Field(gt=0)]


class Record(Model):
    """A row: what is known of one instance for one rule of chunk sizes.

    `collective` is ``mixed`` where there are several kinds, and ``iteration`` where there is compute; `size_bytes` and
    `chunks` are summed over collectives, or over the tensors of the iteration, whose time is the makespan.  Makespan
    and bound are in picoseconds; `how_makespan` and `how_bound` name their origin, `date` when the row last improved.
    """

    network: str
    collective: str
    size_bytes: Positive
    chunks: Positive
    sizes: SizesOfRecord
    latency: Literal["lag", "occupy"]
    ag_order: Literal["free", "reverse"]
    fingerprint: str
    makespan_ps: Positive
    bound_ps: Positive
    bound_name: str
    how_makespan: str
    how_bound: str
    date: datetime.date

    @property
    def gap(self) -> float:
        """Makespan over bound, minus 1."""
        return self.makespan_ps / self.bound_ps - 1

    @property
    def key(self) -> tuple[str, str]:
        """What no two rows have in common: fingerprint and sizes."""
        return self.fingerprint, self.sizes

    @property
    def order(self) -> tuple[str | int, ...]:
        """By which rows are sorted."""
        what = (self.network, self.collective, self.size_bytes, self.chunks)
        return (*what, self.latency, self.ag_order, self.sizes, self.fingerprint)

    def with_makespan_of(self, other: "Record") -> "Record":
        """The row with the makespan of another if that is better."""
        better = other.makespan_ps < self.makespan_ps
        return self._taking(other, "makespan_ps", "how_makespan") if better else self

    def with_bound_of(self, other: "Record") -> "Record":
        """The row with the bound of another if that is better."""
        better = other.bound_ps > self.bound_ps
        return self._taking(other, "bound_ps", "bound_name", "how_bound") if better else self

    def _taking(self, other: "Record", *names: str) -> "Record":
        taken = {name: getattr(other, name) for name in names}
        return self.replace(**taken, date=max(self.date, other.date))


_FIELDS = tuple(Record.model_fields)
RECORD_COLUMNS = (*_FIELDS[: _FIELDS.index("how_makespan")], "gap", *_FIELDS[_FIELDS.index("how_makespan") :])
"""Of the file; `gap` is computed, and not read."""


@dataclass(frozen=True)
class Finding:
    """A schedule and a bound, and where they come from.

    Attributes
    ----------
    schedule : Schedule
        The row it belongs to is that of its instance.
    sizes : {"equal", "free"}
        The chunk sizes for which the bound holds.
    bound : float
        A proven lower bound on the makespan, in picoseconds.
    bound_name, how_bound, how_makespan : str
        Kind of the bound, and the origin of bound and schedule, such as :func:`how`.
    date : date
        When.
    """

    schedule: Schedule
    sizes: SizesOfRecord
    bound: float
    bound_name: str
    how_makespan: str
    how_bound: str
    date: datetime.date

    def record(self) -> Record:
        """The finding as a row.

        Raises
        ------
        InvalidSchedule
            If the schedule breaks a rule of the model.
        InputError
            If its sizes are not equal where they should be, or the bound is no time.
        """
        validate(self.schedule)
        if self.sizes == "equal" and not self.schedule.has_equal_sizes:
            raise InputError("must be free, the chunks are not equal", field="sizes", value=self.sizes)
        if not 1 < self.bound < math.inf:
            raise InputError("must be finite and more than 1 ps", field="bound", value=self.bound)
        instance = self.schedule.instance
        return Record(
            network=instance.network.name,
            collective=_collective(self.schedule),
            size_bytes=sum(collective.size for collective in instance.exchanges),
            chunks=sum(collective.chunks for collective in instance.exchanges),
            sizes=self.sizes,
            latency=instance.latency,
            ag_order=instance.ag_order,
            fingerprint=instance.fingerprint,
            makespan_ps=self.schedule.makespan,
            bound_ps=math.floor(self.bound * (1 - NOISE)),
            bound_name=self.bound_name,
            how_makespan=self.how_makespan,
            how_bound=self.how_bound,
            date=self.date,
        )


def _collective(schedule: Schedule) -> str:
    if schedule.has_period:
        return "iteration"
    kinds = {exchange.kind.value for exchange in schedule.instance.exchanges}
    return kinds.pop() if len(kinds) == 1 else "mixed"


def how(policy: "Exact") -> str:
    """The origin of a schedule or a bound: the specification of the reference, and the version."""
    knobs_set = (f for f in fields(policy) if f.name in ALWAYS_TOLD or getattr(policy, f.name) != f.default)
    knobs = (f"{f.name}={getattr(policy, f.name)}" for f in knobs_set)
    return f"{':'.join((REFERENCE, *knobs))} of themis_opt {version('themis-opt')}"


def improved(records: Iterable[Record], finding: Finding) -> tuple[Record, ...]:
    """The table with what a finding improves, sorted; makespans only go down, and bounds up.

    Equal chunks are a case of free sizes: the free row of an instance takes a better makespan of the equal row, and
    the equal row a better bound of the free one.

    Raises
    ------
    InvalidSchedule, InputError
        As :meth:`Finding.record`.
    ArithmeticError
        If a bound is above a makespan: one of them is wrong.
    """
    table, new = {record.key: record for record in records}, finding.record()
    table[new.key] = table.get(new.key, new).with_makespan_of(new).with_bound_of(new)
    equal, free = (table.get((new.fingerprint, sizes)) for sizes in ("equal", "free"))
    if equal is not None and free is not None:
        table[equal.key], table[free.key] = equal.with_bound_of(free), free.with_makespan_of(equal)
    for record in table.values():
        check_bound(record)
    return tuple(sorted(table.values(), key=lambda record: record.order))


def reported_rows(folder: Path = REPORT_FOLDER) -> Iterator[Mapping[str, str]]:
    """Rows of all batches behind the reports, which simulated and validated their schedules."""
    csv.field_size_limit(2**30)
    for path in sorted(folder.glob("*/rows.csv.gz")):
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            yield from (row for row in csv.DictReader(file) if row["status"] == "ok")


def with_reported(records: Iterable[Record], rows: Iterable[Mapping[str, str]]) -> tuple[Record, ...]:
    """The table with what rows of reports improve, sorted; instances that it does not have stay out.

    Schedules of equal chunks improve rows of free sizes too, and bounds on free sizes those on equal chunks.

    Raises
    ------
    ArithmeticError
        If a bound is above a makespan.
    """
    table = {record.key: record for record in records}
    keys = {fingerprint for fingerprint, _ in table}
    for row in (row for row in rows if row["fingerprint"] in keys):
        for sizes in ("equal", "free"):
            if (record := table.get((row["fingerprint"], sizes))) is not None:
                table[record.key] = _with_row(record, row)
    for record in table.values():
        check_bound(record)
    return tuple(sorted(table.values(), key=lambda record: record.order))


def _with_row(record: Record, row: Mapping[str, str]) -> Record:
    """The record with what a row of a report says better of its sizes."""
    changes: dict[str, object] = {"date": datetime.datetime.fromisoformat(row["started"]).date()}
    if row["makespan_ns"] and record.sizes in (row["sizes"], "free"):
        makespan = round(float(row["makespan_ns"]) * PICOSECONDS_PER_NANOSECOND)
        record = record.with_makespan_of(record.replace(**changes, makespan_ps=makespan, how_makespan=_origin(row)))
    is_search = row["policy"] != "bound"
    holds = {"bound_ns": record.sizes == "equal" or row["sizes"] == "free" or not is_search}
    holds |= {"bound_equal_ns": record.sizes == "equal"}
    for column in (column for column, is_valid in holds.items() if is_valid and row[column]):
        bound = math.floor(float(row[column]) * PICOSECONDS_PER_NANOSECOND * (1 - NOISE))
        changes |= {"bound_ps": bound, "bound_name": "cp_sat" if is_search else column, "how_bound": _origin(row)}
        record = record.with_bound_of(record.replace(**changes))
    return record


def _origin(row: Mapping[str, str]) -> str:
    """What :func:`how` says of a search, for a row of a report."""
    limits = {"seconds": row["time_limit"], "workers": row["workers"], "seed": row["seed"]}
    knobs = (f"{name}={value}" for name, value in limits.items() if value)
    return f"{':'.join((row['policy'], *knobs))} of themis_opt {row['code_version']}"


def check_bound(record: Record) -> None:
    """Raise an ArithmeticError that names both if the bound is above the makespan."""
    if record.bound_ps > record.makespan_ps:
        bound = f"bound {record.bound_ps} ps ({record.bound_name}, {record.how_bound})"
        makespan = f"makespan {record.makespan_ps} ps ({record.how_makespan})"
        raise ArithmeticError(f"{bound} is above {makespan} of {' '.join(map(str, record.order))}")


def read(path: Path = TABLE) -> tuple[Record, ...]:
    """Read a table.

    Raises
    ------
    InputError
        If the file cannot be read, or a row breaks a rule, stands twice, or has a bound above its makespan.
    """
    try:
        return _parsed(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", source=str(path)) from None
    except ValidationError as error:
        raise located(error).within(str(path)) from None
    except InputError as error:
        raise error.within(str(path)) from None
    except (UnicodeDecodeError, csv.Error, ArithmeticError) as error:
        raise InputError(str(error), source=str(path)) from None


def _parsed(text: str) -> tuple[Record, ...]:
    rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    if tuple(rows.fieldnames or ()) != RECORD_COLUMNS:
        raise InputError(f"must have the columns {','.join(RECORD_COLUMNS)}")
    plain = [{str(name): value for name, value in row.items() if name != "gap"} for row in rows]
    records = TypeAdapter(tuple[Record, ...]).validate_python(plain)
    for record in records:
        check_bound(record)
    for key, count in Counter(record.key for record in records).items():
        if count > 1:
            raise InputError("stands twice", field="fingerprint and sizes", value=" ".join(key))
    return records


def write(records: Iterable[Record], path: Path = TABLE) -> None:
    """Write a table, sorted, at once or not at all."""
    text = io.StringIO(newline="")
    table = csv.DictWriter(text, RECORD_COLUMNS, lineterminator="\n")
    table.writeheader()
    for record in sorted(records, key=lambda record: record.order):
        table.writerow(record.model_dump(mode="json") | {"gap": f"{record.gap:.8f}"})
    write_atomically(path, text.getvalue())


if __name__ == "__main__":
    write(with_reported(read(), reported_rows()))

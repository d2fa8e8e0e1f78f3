"""Rows of measured runs, read from the CSV file of a batch and checked."""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Json, ValidationError, model_validator

from themis_opt.base.errors import InputError
from themis_opt.batches.rows_file import BOUND, long_cells, read_csv_text

if TYPE_CHECKING:
    import pandas as pd


class RunRow(BaseModel):
    """One run, with the columns of the CSV that reports read; an empty cell is None, or an empty text.

    Times are nanoseconds where the name says so, else seconds; sizes are bytes, bandwidths bytes per second.
    `extra` is what the run recorded besides, such as ``trajectory``: a list of
    ``[seconds, makespan_ns, bound_ns]``.  Other columns of the file are kept as they are.
    """

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False, hide_input_in_errors=True)

    block: str = ""
    instance: str
    fingerprint: str
    network: str
    dimensions: int
    npus: int
    kind: str
    size_bytes: int
    chunks: int
    latency: str = ""
    ag_order: str = ""
    launch_overhead_ns: float | None = None
    packet: str = ""
    policy: str
    seed: int | None = None
    time_limit: float | None = None
    workers: int | None = None
    gap_asked: float | None = None
    sizes: str = "equal"
    status: Literal["ok", "failed", "interrupted"]
    error: str = ""
    makespan_ns: float | None = None
    utilisation: float | None = None
    algbw_bytes_per_s: float | None = None
    busbw_bytes_per_s: float | None = None
    bound_ns: float | None = None
    bound_equal_ns: float | None = None
    seconds: float | None = None
    simulate_seconds: float | None = None
    extra: Json[dict[str, Any]] = {}
    code_version: str = ""

    @model_validator(mode="after")
    def _has_its_result(self) -> Self:
        """Numbers have 64 bits, as those of a frame; a run that went well has a makespan, or a bound if it asked."""
        for column, value in self:
            if isinstance(value, int) and abs(value) >= 2**63:
                raise ValueError(f"column {column} must be a number of 64 bits")
        column = "bound_ns" if self.policy == BOUND else "makespan_ns"
        value = getattr(self, column)
        if self.status == "ok" and (value is None or value <= 0):
            raise ValueError(f"column {column} must be above 0 where status is ok")
        return self


# Columns without which a file holds no rows; others may be missing
REQUIRED_COLUMNS = (*(name for name, field in RunRow.model_fields.items() if field.is_required()), "makespan_ns")
# Columns of numbers of which some may not be known
NUMBERS = tuple(name for name, field in RunRow.model_fields.items() if field.annotation in (int | None, float | None))


@dataclass(frozen=True)
class RunRows:
    """The rows of a batch, in the order of their file."""

    runs: tuple[RunRow, ...]

    def __len__(self) -> int:
        return len(self.runs)

    def to_frame(self) -> "pd.DataFrame":
        """The rows as a data frame, with all columns of the file.

        What is not known is NaN in columns of numbers, and empty in columns of texts; ``extra`` holds mappings.
        """
        import pandas as pd  # takes long to import, and rows that are refused do without

        frame = pd.DataFrame([dict(run) for run in self.runs])
        others = {name: _typed(frame[name]) for name in frame if name not in RunRow.model_fields}
        return frame.astype(dict.fromkeys(NUMBERS, float)).assign(**others)


def _typed(cells: "pd.Series") -> "pd.Series":
    """The cells of a column that no rule is known of: as numbers if all are, else as they stand."""
    import pandas as pd

    numbers = pd.to_numeric(cells, errors="coerce")
    return numbers if numbers.notna().equals(cells.notna()) else cells.fillna("")


def read_rows(path: Path) -> RunRows:
    """Read the rows of a batch, at least one.

    Raises InputError if the file cannot be read or is no CSV, a column of :data:`REQUIRED_COLUMNS` is missing, or a
    cell breaks the rule of its column.
    """
    lines = _records(path)
    _, header = next(lines, (0, []))
    if not header:
        raise InputError("the file is empty", source=str(path))
    for name in REQUIRED_COLUMNS:
        if name not in header:
            raise InputError("is missing from the header", field=f"column {name}", source=str(path))
    for name in header:
        if header.count(name) > 1:
            raise InputError("stands twice in the header", field=f"column {name}", source=str(path))
    rows = tuple(_row(header, record, f"line {line}", path) for line, record in lines)
    if not rows:
        raise InputError("holds no rows, only a header", source=str(path))
    return RunRows(rows)


def _records(path: Path) -> Iterator[tuple[int, list[str]]]:
    try:
        with long_cells():
            reader = csv.reader(io.StringIO(read_csv_text(path), newline=""), strict=True)
            for record in reader:
                yield reader.line_num, record
    except csv.Error as error:
        raise InputError(f"not CSV: {error}", field=f"line {reader.line_num}", source=str(path)) from None


def _row(header: Sequence[str], record: Sequence[str], place: str, path: Path) -> RunRow:
    if len(record) != len(header):
        rule = f"must have {len(header)} cells as the header, has {len(record)}"
        raise InputError(rule, field=place, source=str(path))
    cells = {name: text for name, text in zip(header, record, strict=True) if text}
    try:
        return RunRow.model_validate(cells)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        column = str(first["loc"][0]) if first["loc"] else ""
        rule = "must not be empty" if first["type"] == "missing" else first["msg"].removeprefix("Value error, ")
        field = f"{place}, column {column}" if column else place
        raise InputError(rule, field=field, value=cells.get(column), source=str(path)) from None

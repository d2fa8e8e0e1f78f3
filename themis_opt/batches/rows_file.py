"""The file of the rows of a batch: CSV, packed with gzip where its name ends in ``.gz``."""

import csv
import gzip
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from themis_opt.base.documents import harmless, read_bytes, unpack, write_atomically
from themis_opt.base.errors import InputError

ROWS, PACKED, PROVENANCE = "rows.csv", ".gz", "provenance.json"
"""Names of files in the folder of an experiment, and the ending of what is packed."""

BOUND = "bound"  # the name, in the place of a policy, of runs that prove lower bounds and make no schedule
MAX_ROWS_BYTES = 64 * 2**20  # largest file of rows that is read, unpacked: its rows take ten times the memory
LONGEST_CELL = 2**31 - 1  # characters of a cell: trajectories may be longer than the 128 KiB that csv reads by default


def rows_of(folder: Path) -> Path:
    """The file of the rows in the folder of an experiment: ``rows.csv``, or ``rows.csv.gz`` where that is there."""
    packed = folder / (ROWS + PACKED)
    return packed if packed.exists() else folder / ROWS


def provenance_of(rows: Path) -> Path:
    """The file that says where rows come from: ``provenance.json`` beside ``rows.csv``, else named after the rows."""
    stem = rows.with_name(rows.name.removesuffix(PACKED)).stem
    return rows.parent / (PROVENANCE if stem == Path(ROWS).stem else f"{stem}.{PROVENANCE}")


def read_csv_text(path: Path) -> str:
    """The text of a file of rows.

    Raises InputError if the file cannot be read, is too large, packed or not, or is no UTF-8 text.
    """
    data = read_bytes(path, "CSV", MAX_ROWS_BYTES)
    try:
        text = unpack(data, str(path), MAX_ROWS_BYTES) if path.suffix == PACKED else data
        return text.decode().removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise InputError("not CSV: the file is not UTF-8 text", source=str(path)) from None


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows, at once or not at all; unknown values are empty cells.

    Times of the model are exact; what is derived from them, or measured, has seven digits.
    """
    text = io.StringIO(newline="")
    table = csv.DictWriter(text, list(columns), lineterminator="\n", extrasaction="ignore")
    table.writeheader()
    table.writerows({name: _cell(name, value) for name, value in row.items()} for row in rows)
    # Without a time in the header, equal rows give equal files.
    data = text.getvalue().encode()
    write_atomically(path, gzip.compress(data, mtime=0) if path.suffix == PACKED else data)


def _cell(name: str, value: Any) -> Any:
    return float(f"{value:.7g}") if isinstance(value, float) and not name.endswith("_ns") else harmless(value)


def num_rows(path: Path) -> int:
    """Rows of a CSV file; 0 if there is no file that can be read as one, and of pipes and devices."""
    if not path.is_file():
        return 0
    try:
        with long_cells():
            return max(sum(1 for _ in csv.reader(io.StringIO(read_csv_text(path), newline=""))) - 1, 0)
    except (InputError, csv.Error):
        return 0


@contextmanager
def long_cells() -> Iterator[None]:
    """Let :mod:`csv` read cells of any length."""
    before = csv.field_size_limit(LONGEST_CELL)
    try:
        yield
    finally:
        csv.field_size_limit(before)

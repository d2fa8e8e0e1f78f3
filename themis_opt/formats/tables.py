"""Schedules as flat tables, one row per stage or per task, and rows as CSV, Parquet and LaTeX."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from themis_opt.base.documents import harmless
from themis_opt.base.errors import InputError, printable
from themis_opt.base.units import PICOSECONDS_PER_NANOSECOND
from themis_opt.formats.timeline import last_iterations
from themis_opt.problem.phases import Phase
from themis_opt.schedules.schedule import Schedule

MAX_TABULATED_STAGES = 200_000
"""Stages of an iteration up to which they are written as tables; they would take a hundred megabytes for a million."""


LATEX_ESCAPES: Mapping[int, str] = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
    }
)


def task_rows(schedule: Schedule) -> list[dict[str, Any]]:
    """One row per task of the last complete iteration, times in ns from its start on."""
    start, end = ((times[0] / PICOSECONDS_PER_NANOSECOND).tolist() for times in last_iterations(schedule).tasks)
    return [
        {"task": task.name, "start_ns": begin, "end_ns": finish}
        for task, begin, finish in zip(schedule.instance.tasks, start, end, strict=True)
    ]


def phase_name(phase: Phase) -> str:
    """How files spell a phase, such as ``reduce_scatter``."""
    return phase.name.lower()


def phase_title(phase: Phase) -> str:
    """How legends spell a phase, such as ``reduce-scatter``."""
    return phase_name(phase).replace("_", "-")


def to_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows of equal fields as CSV (RFC 4180, lines end with a line feed); no rows, no text."""
    if not rows:
        return ""
    text = io.StringIO()
    writer, names = csv.writer(text, lineterminator="\n"), list(rows[0])
    writer.writerow(names)
    writer.writerows([harmless(row[name]) for name in names] for row in rows)
    return text.getvalue()


def to_parquet(rows: Sequence[Mapping[str, Any]], schema: Any = None) -> bytes:
    """Rows as a Parquet file, with the types of a schema of pyarrow if it is given."""
    pyarrow, parquet = load_pyarrow("--to")
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist([dict(row) for row in rows], schema=schema), buffer)
    return buffer.getvalue()


def load_pyarrow(field: str) -> tuple[Any, Any]:
    """The package and its module for Parquet. Raises InputError, which names the field, if it is not installed."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        rule = "needs the package pyarrow: pip install 'themis-opt[parquet]'"
        raise InputError(rule, field=field, value="parquet" if field == "--to" else None) from None
    return pyarrow, parquet


def stages_csv(schedule: Schedule) -> str | None:
    """The stages as the text of a file, unless there are more than spreadsheets hold."""
    return to_csv(schedule.stage_rows()) if is_tabulated(schedule) else None


def is_tabulated(schedule: Schedule) -> bool:
    """Whether tables of single stages are written beside a schedule; ``export --to csv`` writes any."""
    return schedule.plan.num_stages <= MAX_TABULATED_STAGES


def tasks_csv(schedule: Schedule) -> str | None:
    """The compute tasks as the text of a file, where there are any."""
    return to_csv(task_rows(schedule)) if schedule.has_period else None


def to_latex(headings: Sequence[str], rows: Sequence[Sequence[str]], note: str) -> str:
    """A table for LaTeX, by booktabs: the first column to the left, the others to the right, and `note` as a comment.

    Units stay in the cells, separated by thin spaces that do not break.
    """
    lines = [
        f"% {_plain(note)}",  # a line break would end the comment
        r"% needs \usepackage{booktabs}",
        rf"\begin{{tabular}}{{l{'r' * (len(headings) - 1)}}}",
        r"\toprule",
        _line(headings),
        r"\midrule",
        *(_line(row) for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return " & ".join(_cell(cell) for cell in cells) + r" \\"


def _cell(text: str) -> str:
    """A cell; only numbers are tied to what follows them."""
    words = _plain(text).translate(LATEX_ESCAPES)
    return words.replace(" ", r"\,") if words[:1].isdigit() else words


def _plain(text: str) -> str:
    """The text on one line, with other control characters spelled out."""
    return printable(" ".join(text.split()))

"""A report as one call: from the folder of an experiment to its files."""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from themis_opt.base.errors import InputError, suggestion
from themis_opt.base.registries import Registry, is_import_path
from themis_opt.batches.experiment import EXPERIMENT
from themis_opt.batches.rows_file import rows_of
from themis_opt.problem.catalog import INSTANCES
from themis_opt.problem.documents import errors_of
from themis_opt.reports.experiment import ExperimentHead, read_experiment, read_provenance
from themis_opt.reports.rendering.document import Column, Report, Section, Table
from themis_opt.reports.rendering.tables import plural

if TYPE_CHECKING:
    import pandas as pd


ReportFunction = Callable[["pd.DataFrame", ExperimentHead], Report]

REPORTS = Registry("themis_opt.reports", {"table": "themis_opt.reports.sections:table"})
"""The reports: functions of the frame of rows, and the experiment."""

DRAWINGS = next(p for p in (INSTANCES.parent / "papers", INSTANCES.parent / "reports") if (p / "drawing").is_dir())
"""The folder of the package `drawing` with the figures of papers: in an installed package, or in a source tree."""


def report_function(name: str, folder: Path | None = None) -> ReportFunction:
    """The report of a name, or of an import path such as ``my_report:draw``.

    Raises InputError if there is no such report, or it cannot be imported.

    `name`: of :data:`REPORTS`, or an import path.
    `folder`: folder of the experiment.  Modules are looked for beside its file, and in the folder above, which may hold
      the reports of several experiments, then in :data:`DRAWINGS`; only after all other places, so that they hide
      nothing.
    """
    if not is_import_path(name) and name not in REPORTS:
        rule = f"unknown report; use one of {', '.join(REPORTS)}, or module:function{suggestion(name, REPORTS)}"
        raise InputError(rule, field="report", value=name)
    if folder is not None and is_import_path(name):
        places = [str(place) for place in (folder.resolve(), folder.resolve().parent, DRAWINGS)]
        sys.path += [place for place in places if place not in sys.path]
    function: ReportFunction = REPORTS.load(name, "report")
    return function


HEADLINES = ("commit", "machine.processor", "command", "started")
"""Facts of a provenance that the short form of a report shows too."""


@dataclass(frozen=True)
class MadeReport:
    """A report that was written: which one, how many rows it shows, and its files."""

    name: str
    report: Report
    num_rows: int
    files: tuple[Path, ...]


def make_report(
    folder: str | Path, *, rows: Path | None = None, output: Path | None = None, html: bool = True
) -> MadeReport:
    """Write the report of an experiment: README.md, pictures as SVG, and report.html.

    Parameters
    ----------
    folder : path
        Of the experiment; it holds the experiment file, if there is one, and the rows.
    rows : Path, optional
        CSV file of the rows, by default ``rows.csv`` or ``rows.csv.gz`` in the folder; their provenance lies beside
        them.
    output : Path, optional
        Folder for the report, by default that of the experiment.
    html : bool
        Whether to write the HTML too.

    Raises
    ------
    InputError
        If the experiment or the rows break a rule, a file cannot be written, or another one is in its place.

    Examples
    --------
    >>> make_report("experiment", html=False)  # doctest: +SKIP
    """
    from themis_opt.reports.rows import read_rows

    folder = Path(folder)
    experiment = read_experiment(folder)
    path = rows or rows_of(folder)
    if rows is None and not path.exists():
        rule = f"holds no rows yet: 'themis-opt batch {folder / EXPERIMENT}' makes them, and goes on where it ended"
        raise InputError(rule, source=str(folder))
    provenance = read_provenance(path)
    read = read_rows(path)

    from themis_opt.reports.sections import verdict  # takes long to import, and rows that are refused do without

    with errors_of(folder / EXPERIMENT):
        function = report_function(experiment.report, folder)
    frame = read.to_frame()
    with errors_of(path):
        shown = function(frame, experiment)
        sections = (*shown.sections, _provenance(frame, provenance))
        counts = [provenance.get(name, 0) for name in ("runs", "rows", "failed")]
        said = shown.verdict or verdict(frame)
        if all(isinstance(count, int) for count in counts) and counts[1] + counts[2] < counts[0]:
            missing = (
                f"{counts[1]} of {counts[0]} runs: the others are missing, and the same 'batch' goes on with them."
            )
            said = f"{missing} {said}"
        made = replace(shown, description=experiment.description, sections=sections, verdict=said)

    from themis_opt.reports.rendering.page import write_report

    return MadeReport(experiment.report, made, len(read), tuple(write_report(made, output or folder, html=html)))


def _provenance(rows: "pd.DataFrame", provenance: Mapping[str, Any]) -> Section:
    """Where the numbers of a report come from."""
    counts = rows["status"].value_counts()
    states = ", ".join(f"{counts[status]} {status}" for status in ("ok", "failed", "interrupted") if status in counts)
    versions = sorted(set(rows["code_version"]) - {""})
    facts = [
        ("rows in this report", f"{len(rows)} ({states})"),
        *([("code version" if len(versions) == 1 else "code versions", ", ".join(versions))] if versions else []),
    ]
    columns = (Column("what"), Column("value"))
    every = list(_flat(provenance))
    first, rest = ([fact for fact in every if (fact[0] in HEADLINES) is chosen] for chosen in (True, False))
    tables = (Table(columns, (*facts, *first)), *([Table(columns, tuple(rest))] if rest else []))
    text = (f"The rows were made by {plural(len(versions), 'version')} of the code.",) if len(versions) > 1 else ()
    return Section("Provenance", text, tables)


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """The leaves of nested objects, each with its path as name."""
    for key, part in value.items():
        name = f"{prefix}{key}"
        if isinstance(part, Mapping):
            yield from _flat(part, f"{name}.")
        elif isinstance(part, list):
            yield name, " ".join(str(item) for item in part)
        elif part is not None:
            yield name, str(part)

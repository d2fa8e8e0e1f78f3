"""Where the numbers of a report come from, as its last section."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from themis_opt.reports.experiment import ExperimentHead
from themis_opt.reports.rendering.document import Column, Report, Section, Table
from themis_opt.reports.rendering.tables import plural

if TYPE_CHECKING:
    import pandas as pd


HEADLINES = ("commit", "machine.processor", "command", "started")
"""Facts of a provenance that the short form of a report shows too."""


def with_provenance(
    report: Report, rows: "pd.DataFrame", experiment: ExperimentHead, provenance: Mapping[str, Any]
) -> Report:
    """The report with the description of its experiment, and its provenance at the end."""
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
    section = Section("Provenance", text, tables)
    return replace(report, description=experiment.description, sections=(*report.sections, section))


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

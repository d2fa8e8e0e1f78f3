"""The tables and figures of the Themis paper (ISCA 2022), made again and set beside the published numbers."""

from collections.abc import Sequence

from themis_opt.reports.document import Report, Section
from themis_opt.reports.experiment import Experiment
from themis_opt.reports.paper_chunks import figure_9, figure_10
from themis_opt.reports.paper_iterations import figure_12
from themis_opt.reports.paper_parts import BEYOND, Maker, Part, error_table
from themis_opt.reports.paper_single import figure_4, figure_5, networks
from themis_opt.reports.paper_sizes import figure_8, figure_11
from themis_opt.reports.published import Published, published
from themis_opt.reports.results import results
from themis_opt.reports.rows import Row
from themis_opt.reports.sections import failures, warnings

MAKERS: tuple[Maker, ...] = (networks, figure_4, figure_5, figure_8, figure_9, figure_10, figure_11, figure_12)
"""Makers of the parts, in the order of the paper."""


def paper_reproduction(rows: Sequence[Row], experiment: Experiment) -> Report:
    """Set every table and figure beside what was published; blocks of the experiment are named after figures.

    Raises
    ------
    InputError
        If the published numbers, or what a run recorded, break a rule.
    """
    found, known = results(rows), published(experiment)
    done = [row for row in rows if row.status == "ok"]
    parts = [part for make in MAKERS if (part := make(found, done, known)) is not None]
    summary = [sentence for part in parts for sentence in part.said] or ["No figure of the paper is in the rows."]
    return Report(
        experiment.title,
        (*summary, *warnings(rows, found)),
        (_errors(parts, known), *(part.section for part in parts), *failures(rows)),
    )


def _errors(parts: Sequence[Part], published: Published) -> Section:
    text = (
        "Errors are relative to the published number. Rows of a figure are over all points that were published, as "
        f"numbers or as curves. {BEYOND} is not in the paper: its rows show what lies beyond.",
        *([f"Published: {published.source}."] if published.source else []),
    )
    return Section("Errors", text, (error_table(c for part in parts for c in part.compared),))

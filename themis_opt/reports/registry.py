"""Reports by name."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType

from themis_opt.errors import InputError
from themis_opt.reports.document import Report
from themis_opt.reports.experiment import Experiment
from themis_opt.reports.rows import Row

ReportFunction = Callable[[Sequence[Row], Experiment], Report]

REPORTS: Mapping[str, str] = MappingProxyType(
    {
        "table": "themis_opt.reports.table:table",
        "heuristic_gap": "themis_opt.reports.heuristic_gap:heuristic_gap",
        "random_networks": "themis_opt.reports.random_networks:random_networks",
        "scaling": "themis_opt.reports.scaling:scaling",
        "paper_reproduction": "themis_opt.reports.paper_reproduction:paper_reproduction",
        "chunk_tuning": "themis_opt.reports.chunk_tuning:chunk_tuning",
        "iterations": "themis_opt.reports.iterations:iterations",
    }
)
"""Import path of each report: a function of rows and experiment."""


def report_function(name: str) -> ReportFunction:
    """The report of a name.

    Raises
    ------
    InputError
        If there is no such report.
    """
    if name not in REPORTS:
        raise InputError(f"unknown report; use one of {', '.join(REPORTS)}", field="report", value=name)
    module, _, function = REPORTS[name].partition(":")
    found: ReportFunction = getattr(import_module(module), function)
    return found

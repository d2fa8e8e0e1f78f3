"""Reports by name."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from themis_opt.base.errors import InputError, suggestion
from themis_opt.base.registries import Registry
from themis_opt.reports.experiment import Experiment
from themis_opt.reports.rendering.document import Report

if TYPE_CHECKING:
    import pandas as pd

ReportFunction = Callable[["pd.DataFrame", Experiment], Report]

REPORTS = Registry(
    "themis_opt.reports",
    {
        "table": "themis_opt.reports.experiments.table:table",
        "heuristic_gap": "themis_opt.reports.experiments.heuristic_gap:heuristic_gap",
        "random_networks": "themis_opt.reports.experiments.random_networks:random_networks",
        "scaling": "themis_opt.reports.experiments.scaling:scaling",
        "paper_reproduction": "themis_opt.reports.experiments.paper_reproduction:paper_reproduction",
        "chunk_tuning": "themis_opt.reports.experiments.chunk_tuning:chunk_tuning",
        "iterations": "themis_opt.reports.experiments.iterations:iterations",
    },
)
"""The reports: functions of the frame of rows, and the experiment."""


def report_function(name: str) -> ReportFunction:
    """The report of a name.

    Raises
    ------
    InputError
        If there is no such report.
    """
    if name not in REPORTS:
        rule = f"unknown report; use one of {', '.join(REPORTS)}{suggestion(name, REPORTS)}"
        raise InputError(rule, field="report", value=name)
    function: ReportFunction = REPORTS.load(name)
    return function

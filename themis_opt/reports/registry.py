"""Reports by name."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from themis_opt.base.errors import InputError, suggestion
from themis_opt.base.registries import Registry, is_import_path
from themis_opt.reports.experiment import ExperimentHead
from themis_opt.reports.rendering.document import Report

if TYPE_CHECKING:
    import pandas as pd

ReportFunction = Callable[["pd.DataFrame", ExperimentHead], Report]

REPORTS = Registry("themis_opt.reports", {"table": "themis_opt.reports.table:table"})
"""The reports: functions of the frame of rows, and the experiment."""


def report_function(name: str, folder: Path | None = None) -> ReportFunction:
    """The report of a name, or of an import path such as ``my_report:draw``.

    Raises InputError if there is no such report, or it cannot be imported.

    `name`: of :data:`REPORTS`, or an import path.
    `folder`: folder of the experiment.  Modules are looked for beside its file, and in the folder above, which may hold
      the reports of several experiments; only after all other places, so that they hide nothing.
    """
    if not is_import_path(name) and name not in REPORTS:
        rule = f"unknown report; use one of {', '.join(REPORTS)}, or module:function{suggestion(name, REPORTS)}"
        raise InputError(rule, field="report", value=name)
    if folder is not None and is_import_path(name):
        places = [str(place) for place in (folder.resolve(), folder.resolve().parent)]
        sys.path += [place for place in places if place not in sys.path]
    function: ReportFunction = REPORTS.load(name)
    return function

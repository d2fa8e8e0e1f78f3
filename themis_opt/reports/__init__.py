"""Reports: rows of measured runs in, one Markdown and one HTML document out.

Data flow one way: ``rows.csv`` -> :class:`~themis_opt.reports.rows.RunRows` -> a data frame -> a report function of
:data:`~themis_opt.reports.making.REPORTS` -> :class:`~themis_opt.reports.rendering.document.Report` -> its files.
"""

from themis_opt.reports.making import MadeReport, make_report

__all__ = ["MadeReport", "make_report"]

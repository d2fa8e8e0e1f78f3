"""``themis-opt report``: rows of an experiment as Markdown and HTML."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from themis_opt.cli import options
from themis_opt.errors import InputError

if TYPE_CHECKING:
    from themis_opt.reports.registry import ReportFunction

ROWS = "rows.csv"


def report(
    folder: Annotated[Path, typer.Argument(help="Folder of the experiment.", metavar="FOLDER")],
    rows: Annotated[Path | None, typer.Option(help=f"CSV file of the rows, instead of {ROWS} in the folder.")] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder for the report, instead of the experiment's.")
    ] = None,
    html: Annotated[bool, typer.Option("--html/--no-html", help="Also write report.html, in one file.")] = True,
    as_json: options.Json = False,
) -> None:
    """Write the report of an experiment (README.md, pictures as SVG, report.html) and print its summary."""
    from themis_opt.reports.experiment import EXPERIMENT, read_experiment, read_provenance

    experiment = read_experiment(folder)
    function = _report_function(experiment.report, folder / EXPERIMENT)
    provenance = read_provenance(folder)

    from themis_opt.reports.provenance import with_provenance
    from themis_opt.reports.rows import read_rows

    path = rows or folder / ROWS
    found = read_rows(path)
    try:
        made = with_provenance(function(found, experiment), found, experiment, provenance)
    except InputError as error:
        raise error.within(str(path)) from None

    from themis_opt.cli.printing import print_json
    from themis_opt.reports.writing import write_report

    files = write_report(made, output or folder, html=html)
    if as_json:
        print_json({"report": experiment.report, "rows": len(found), "files": [str(file) for file in files]})
        return
    for line in (f"# {made.title}", *made.summary):
        typer.echo(line)
    for file in files:
        typer.echo(f"wrote {file}", err=True)


def _report_function(name: str, source: Path) -> "ReportFunction":
    from themis_opt.reports.registry import report_function

    try:
        return report_function(name)
    except InputError as error:
        raise error.within(str(source)) from None

"""``themis-opt report``: rows of an experiment as Markdown and HTML."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from themis_opt.cli import options


def report(
    folder: Annotated[Path, Argument(help="Folder of the experiment.", metavar="FOLDER")],
    rows: Annotated[Path | None, Option(help="CSV file of the rows, instead of rows.csv in the folder.")] = None,
    output: Annotated[
        Path | None,
        options.output("Folder for the report, instead of the experiment's.", "Files of reports alone are replaced."),
    ] = None,
    html: Annotated[bool, Option("--html/--no-html", help="Also write report.html, in one file.")] = True,
    as_json: options.Json = False,
) -> None:
    """Write the report of an experiment (README.md, pictures as SVG, report.html) and print its summary."""
    from themis_opt.base.errors import InputError
    from themis_opt.cli.printing import print_json, say, tell_files
    from themis_opt.reports.making import make_report

    if not folder.is_dir():
        rule = "must be the folder of an experiment, which 'themis-opt batch' fills with rows"
        raise InputError(rule, field="folder", value=str(folder))
    made = make_report(folder, rows=rows, output=output, html=html)
    if as_json:
        print_json({"report": made.name, "rows": made.num_rows, "files": [str(file) for file in made.files]})
        return
    for line in (f"# {made.report.title}", made.report.verdict, *made.report.summary):
        if line:
            say(line)
    tell_files(made.files)

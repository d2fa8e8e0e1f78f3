"""``themis-opt batch`` and ``report``: all runs of an experiment, kept in a store, exported as rows, and reported."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from themis_opt.base.errors import InputError
from themis_opt.cli import options
from themis_opt.cli.answers.answer import Reply, has_pictures
from themis_opt.cli.process import undisturbed

if TYPE_CHECKING:
    from themis_opt.batches.experiment_run import Finished


@options.grouped
def batch(
    experiment: Annotated[Path, Argument(help="Experiment file (TOML).", metavar="EXPERIMENT")],
    *,
    jobs: Annotated[int | None, Option(help="Threads to keep busy, by default one per core.", min=1, max=4096)] = None,
    output: Annotated[
        Path | None,
        options.output(
            "CSV file, packed if it ends in .gz; by default rows.csv beside the experiment.",
            "An existing file is replaced unless it holds more rows than are finished.",
        ),
    ] = None,
    store: Annotated[
        Path | None, Option(help="Store of finished runs, by default runs.sqlite beside the experiment.")
    ] = None,
    quick: Annotated[bool, Option("--quick", help="Run what the table [quick] of the experiment leaves.")] = False,
    changes: options.Changes,
    sizes: Annotated[options.SizeChoice | None, Option("--chunk-sizes", help="Instead of the experiment's.")] = None,
    as_json: options.Json = False,
) -> None:
    """Run an experiment, with its costs and sizes or others; what went well is kept and not run again."""
    given = changes.given() | ({} if sizes is None else {"chunk_sizes": sizes})
    from themis_opt.batches.experiment_run import run_experiment
    from themis_opt.cli.progress import batch_progress

    _check_report(experiment)
    given_options = {"--jobs": jobs, "-o": output, "--store": store}
    given_options |= {f"--{name.replace('_', '-')}": value for name, value in given.items()}
    given_options |= {"--quick": quick}
    with batch_progress() as report:
        finished = run_experiment(
            experiment,
            jobs=jobs,
            output=output,
            store=store,
            quick=quick,
            overrides=given,
            command=_command(experiment, given_options),
            report=report,
            undisturbed=undisturbed,
        )
    _conclude(finished).tell(as_json=as_json)


def _check_report(experiment: Path) -> None:
    """Refuse an experiment whose report does not exist before its runs are made; these need no pictures."""
    from themis_opt.batches.experiment import read_experiment
    from themis_opt.reports.making import report_function

    try:
        report = read_experiment(experiment).report
        if has_pictures():
            report_function(report, experiment.parent)
    except InputError as error:
        raise error if error.source else error.within(str(experiment)) from None


def _command(experiment: Path, given_options: dict[str, Any]) -> str:
    given = [
        part
        for name, value in given_options.items()
        if value
        for part in ([name] if value is True else [name, str(value)])
    ]
    return shlex.join(["themis-opt", "batch", experiment.as_posix(), *given])


def _conclude(finished: "Finished") -> Reply:
    state = finished.state
    summary = {name: finished.provenance[name] for name in ("runs", "rows", "failed", "seconds")}
    summary |= {"files": [str(file) for file in finished.files]}
    summary |= {"executed": state.executed, "interrupted": state.interrupted}
    sentence = "{rows} of {runs} rows, {failed} failed, {executed} run now, {seconds:.1f} s".format(**summary)
    return Reply(
        summary,
        [sentence],
        notes=[] if finished.files else [f"kept {finished.rows}, which holds more rows; -o names another file"],
        files=finished.files,
        is_met=not state.failed,
        interrupted=state.interrupted,
        kept="what is finished is kept, the same command goes on",
    )


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
    from themis_opt.reports.making import make_report

    if not folder.is_dir():
        rule = "must be the folder of an experiment, which 'themis-opt batch' fills with rows"
        raise InputError(rule, field="folder", value=str(folder))
    made = make_report(folder, rows=rows, output=output, html=html)
    document = {"report": made.name, "rows": made.num_rows, "files": [str(file) for file in made.files]}
    lines = (f"# {made.report.title}", made.report.verdict, *made.report.summary)
    Reply(document, list(filter(None, lines)), files=made.files).tell(as_json=as_json)

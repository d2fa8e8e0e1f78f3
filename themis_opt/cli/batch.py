"""``themis-opt batch``: all runs of an experiment, kept in a store, exported as rows."""

import json
import shlex
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer

from themis_opt.cli import exit_codes, options

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from themis_opt.batch import Outcome
    from themis_opt.executors import Site
    from themis_opt.expansion import Run
    from themis_opt.run_store import RunStore


def batch(
    experiment: Annotated[Path, typer.Argument(help="Experiment file (TOML).", metavar="EXPERIMENT")],
    jobs: Annotated[
        int | None, typer.Option(help="Threads to keep busy, by default one per core.", min=1, max=4096)
    ] = None,
    address: Annotated[
        str | None,
        typer.Option("--cluster", help="Dask scheduler whose workers run instead, such as tcp://host:8786."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="CSV file, by default rows.csv beside the experiment.")
    ] = None,
    store: Annotated[
        Path | None, typer.Option(help="Store of finished runs, by default runs.sqlite beside the experiment.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Run what the table [quick] of the experiment leaves.")
    ] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run again what failed before.")] = False,
    parquet: Annotated[bool, typer.Option("--parquet", help="Write the rows as a Parquet file too.")] = False,
    as_json: options.Json = False,
) -> None:
    """Run an experiment; what is finished is kept and not run again."""
    from themis_opt.experiment import read_experiment

    began, checked = monotonic(), read_experiment(experiment)
    from themis_opt.batch_output import check_parquet
    from themis_opt.documents import make_folder
    from themis_opt.expansion import expand

    rows = output or experiment.parent / "rows.csv"
    if parquet:
        check_parquet()
    runs = expand(checked, experiment, quick=quick)
    make_folder(rows.parent)
    from themis_opt.run_store import RunStore

    told = {"--jobs": jobs, "--cluster": address, "-o": output, "--quick": quick, "--retry-failed": retry_failed}
    with RunStore(store or experiment.parent / "runs.sqlite") as kept:
        try:
            outcome = _execute(runs, kept, jobs, address, retry_failed)
        finally:
            written = _export(runs, kept, rows, parquet, _command(experiment, told), began)
    _conclude(outcome, written, as_json)


def _execute(
    runs: "list[Run]", store: "RunStore", jobs: int | None, address: str | None, retry_failed: bool
) -> "Outcome":
    from themis_opt.batch import run_batch, unfinished
    from themis_opt.cli.batch_progress import batch_progress
    from themis_opt.executors import cluster, cores, processes

    left = len(unfinished(runs, store, retry_failed=retry_failed))
    site: AbstractContextManager[Site] = cluster(address, jobs) if address else processes(jobs or cores(), left)
    with site as place, batch_progress() as report:
        return run_batch(runs, store, place, retry_failed=retry_failed, report=report)


def _export(
    runs: "list[Run]", store: "RunStore", path: Path, parquet: bool, command: str, began: float
) -> dict[str, Any]:
    """Write rows and provenance; returns the latter, with the files."""
    from themis_opt.batch_output import finished_rows, provenance, write_csv, write_parquet
    from themis_opt.cli.interrupts import undisturbed
    from themis_opt.documents import write_atomically

    with undisturbed():
        rows = finished_rows(runs, store)
        files = [path, *([path.with_suffix(".parquet")] if parquet else []), path.parent / "provenance.json"]
        write_csv(path, rows)
        if parquet:
            write_parquet(path.with_suffix(".parquet"), rows)
        known = provenance(rows, len(runs), command, monotonic() - began)
        write_atomically(files[-1], json.dumps(known, indent=2) + "\n")
    return known | {"files": [str(file) for file in files]}


def _command(experiment: Path, told: dict[str, Any]) -> str:
    given = [
        part for name, value in told.items() if value for part in ([name] if value is True else [name, str(value)])
    ]
    return shlex.join(["themis-opt", "batch", experiment.as_posix(), *given])


def _conclude(outcome: "Outcome", written: dict[str, Any], as_json: bool) -> None:
    """Print what came of it, and leave with the exit code that says so."""
    from themis_opt.cli.printing import print_json
    from themis_opt.cli.progress import tell

    summary = {name: written[name] for name in ("runs", "rows", "failed", "seconds", "files")}
    summary |= {"executed": outcome.executed, "interrupted": outcome.interrupted}
    if as_json:
        print_json(summary)
    else:
        typer.echo("{rows} of {runs} rows, {failed} failed, {executed} run now, {seconds:.1f} s".format(**summary))
        for file in written["files"]:
            tell(f"wrote {file}")
    if outcome.interrupted:
        tell("interrupted: what is finished is kept, the same command goes on")
        raise typer.Exit(exit_codes.INTERRUPTED)
    if outcome.state.failed:
        raise typer.Exit(exit_codes.UNMET)

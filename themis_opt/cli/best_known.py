"""``themis-opt best-known``: the best schedules known of the instances of the library, and better ones."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from themis_opt.base.errors import InputError
from themis_opt.cli import options
from themis_opt.cli.answers.answer import Listing, Reply, columns

if TYPE_CHECKING:
    from themis_opt.study.best_known import BestKnown, Library


def best_known(
    action: Annotated[Literal["list", "show", "submit"], Argument(help="What to do.")],
    target: Annotated[
        str, Argument(help="show: an instance; submit: a schedule, an order table or a certificate.")
    ] = "",
    *,
    solver: Annotated[str, Option("--solver", help="What made the schedule that is submitted.")] = "unknown",
    only_open: Annotated[bool, Option("--open", help="list: those that are not proven, largest gaps first.")] = False,
    library: Annotated[Path | None, Option(help="Folder of the library; the shipped one by default.")] = None,
    as_json: options.Json = False,
) -> None:
    """List the best known schedules of the library, show one, or submit a better one.

    A schedule, order table or certificate that is submitted is checked by check.py, and stored if it is better.
    """
    if bool(target) == (action == "list"):
        needed = {"list": "takes none", "show": "must be an instance", "submit": "must be a schedule file"}
        raise InputError(needed[action], field="TARGET", value=target)
    from themis_opt.study.best_known import Library

    shelf = Library(library) if library else Library()
    if action == "submit":
        _submit(shelf, Path(target), solver, as_json=as_json)
        return
    rows = shelf.named(target) if action == "show" else shelf.rows
    chosen = [row for row in rows if not only_open or row.status == "open"]
    _print(sorted(chosen, key=lambda row: -row.gap) if only_open else chosen, whole=action == "show", as_json=as_json)


def _submit(library: "Library", path: Path, solver: str, *, as_json: bool) -> None:
    from themis_opt.base.documents import read_json
    from themis_opt.base.units import format_percent, format_short_time
    from themis_opt.solving.certificates import CERTIFICATE_FORMAT
    from themis_opt.study.best_known import TABLE_FORMATS, solution_of

    before, document = {row.key: row for row in library.rows}, read_json(path)
    is_proof = document.get("format") == CERTIFICATE_FORMAT
    try:
        if is_proof:
            rows = library.certify(document)
        elif document.get("format") in TABLE_FORMATS:
            rows = library.submit(document, solver)
        else:
            schedule: Any = options.load_solution(path)[0]
            rows = library.submit(solution_of(schedule), solver)
    except InputError as error:
        if error.field == "format":
            tables = " or ".join(f"'{name}'" for name in TABLE_FORMATS)
            error.rule = f"must be a schedule that 'solve' writes, an order table ({tables}) or '{CERTIFICATE_FORMAT}'"
        raise error.within(str(path)) from None
    sentences = []
    for row in rows:
        gain, gap = format_percent(1 - row.makespan_ps / before[row.key].makespan_ps), format_percent(row.gap)
        news = f"bound {format_short_time(row.bound_ps)}" if is_proof else f"{gain} shorter than what was known"
        sentences.append(f"{row.name}, chunk sizes {row.sizes}: {news}, gap {gap}")
    Reply([row.model_dump(mode="json") for row in rows], sentences).tell(as_json=as_json)


def _print(rows: "list[BestKnown]", *, whole: bool, as_json: bool) -> None:
    from themis_opt.base.units import format_percent, format_short_time
    from themis_opt.study.best_known import shares

    documents = [row.model_dump(mode="json") | {"gap": row.gap} for row in rows]
    if not whole:
        shown = columns("name", "sizes", "status", "proven_in", "makespan_ns", "gap")
        times = [row | {"makespan_ns": row["makespan_ps"] / 1000} for row in documents]
        Reply(documents, tables=[Listing("; ".join(shares(rows)), times, shown)]).tell(as_json=as_json)
        return
    sentences = []
    for row in rows:
        gap, proven = format_percent(row.gap), format_percent(row.makespan_ps / row.proven_ps - 1)
        sentences += [
            f"{row.name}, chunk sizes {row.sizes}: {row.status}, proven in: {row.proven_in}",
            f"makespan {format_short_time(row.makespan_ps)} by {row.solver}, {row.seconds} s, {row.date}",
            f"bound {format_short_time(row.bound_ps)} ({row.bound}), gap {gap}, {proven} certified",
            f"files {row.file}, {row.solution}, {row.certificate}",
        ]
    Reply(documents, sentences).tell(as_json=as_json)

"""``themis-opt import``: an instance from files of other tools."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from themis_opt.base.errors import InputError
from themis_opt.cli import options

if TYPE_CHECKING:
    from themis_opt.formats.readers.registry import Import
    from themis_opt.graphs.network import GraphInstance

MOST_ROWS = 12  # rows of a table that are shown without being asked for


def import_command(
    files: Annotated[
        list[str],
        Argument(
            help="A network, what else describes the machine, and what runs on it; FORMAT:FILE where the format is not "
            "to be recognized.",
            metavar="FILE...",
        ),
    ],
    collective: Annotated[
        str | None, Option(help="What is exchanged where the files describe a network alone, such as all_gather.")
    ] = None,
    size: Annotated[str | None, Option(help="Size of that collective, such as 1GiB.")] = None,
    chunks: Annotated[int | None, Option(help="Chunks of every collective instead of those of the files.")] = None,
    bandwidths: Annotated[
        str | None, Option(help="Of links, or dimensions, that files leave out, such as nvlink=450GB/s,pcie=64GB/s.")
    ] = None,
    time_unit: Annotated[
        str | None, Option(help="Of workloads of ASTRA-sim 1 and LIBRA, which state none: ns if left out, us, ms or s.")
    ] = None,
    output: Annotated[Path | None, options.output("Write the instance to this file.")] = None,
    whole: Annotated[bool, Option("--all", help="Every row of what the files hold beside the problem.")] = False,
    as_json: options.Json = False,
) -> None:
    """Read files of simulators, profilers and libraries, and put them together as one instance."""
    from pydantic import ValidationError

    from themis_opt.cli.printing import print_json, print_table, say, say_all, tell, tell_note
    from themis_opt.formats.readers.parts import Request
    from themis_opt.formats.readers.registry import import_files
    from themis_opt.graphs.network import GraphInstance
    from themis_opt.problem.description import headline
    from themis_opt.problem.fields import located
    from themis_opt.workloads.files import write_instance

    try:
        request = None
        if (collective, size, bandwidths) != (None, None, None):
            rates = dict(_rates(bandwidths))
            request = Request(kind=collective or Request.kind, size=size or Request.size, bandwidths=rates)
        imported = import_files(files, request=request, time_unit=time_unit)
        instance = imported.instance
        if isinstance(instance, GraphInstance):
            _tell_graph(imported, instance, chunks, output, as_json=as_json)
            return
        instance = instance.overridden(chunks=chunks)
    except ValidationError as error:
        raise located(error).within("command line") from None
    options.warn(instance.network, files[0])
    if output is not None:
        write_instance(instance, output)
    if as_json:
        print_json(imported.summary() | {"fingerprint": instance.fingerprint})
    else:
        from themis_opt.study.verdict import on_instance  # it loads a solver

        say_all(on_instance(instance))
        print_table("files", ("file", "format"), imported.formats)
        say(headline(instance.replace(description="")))
        for title, rows in imported.tables.items():
            if whole or len(rows) <= MOST_ROWS:
                print_table(title, tuple(rows[0]), [tuple(row.values()) for row in rows])
            else:
                tell_note(f"{title}: {len(rows)} rows, which --all shows")
    for note in imported.notes:
        tell_note(note)
    if output is not None:
        for path in imported.draw(output):
            tell(f"wrote {path}")
        tell(f"wrote {output}")


def _rates(text: str | None) -> Iterator[tuple[str, float]]:
    """Bandwidths by the names of links."""
    from themis_opt.base.units import parse_bandwidth

    for part in options.split(text) or ():
        name, _, rate = part.partition("=")
        try:
            yield name, parse_bandwidth(rate)
        except ValueError as error:
            raise InputError(str(error), field="--bandwidths", value=part) from None


def _tell_graph(
    imported: "Import", instance: "GraphInstance", chunks: int | None, output: Path | None, *, as_json: bool
) -> None:
    """Write and print a graph."""
    from themis_opt.base.documents import write_atomically
    from themis_opt.cli.printing import print_json, print_table, say, tell, tell_note
    from themis_opt.graphs.description import graph_headline, graph_tables
    from themis_opt.graphs.network import graph_text

    if chunks is not None:
        raise InputError("is not for graphs, whose chunks are chosen", field="--chunks", value=chunks)
    if output is not None:
        write_atomically(output, graph_text(instance))
    if as_json:
        print_json(imported.summary())
    else:
        print_table("files", ("file", "format"), imported.formats)
        say(graph_headline(instance.model_copy(update={"description": ""})))
        for title, rows in graph_tables(instance).items():
            print_table(title, tuple(rows[0]), [tuple(row.values()) for row in rows])
    for note in imported.notes:
        tell_note(note)
    if output is not None:
        tell(f"wrote {output}")

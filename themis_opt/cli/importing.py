"""``themis-opt import``: an instance from files of other tools."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from themis_opt.cli import options


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
    output: Annotated[Path | None, options.output("Write the instance to this file.")] = None,
    as_json: options.Json = False,
) -> None:
    """Read files of simulators, profilers and libraries, and put them together as one instance."""
    from pydantic import ValidationError

    from themis_opt.cli.printing import print_json, print_table, say, tell, tell_note
    from themis_opt.formats.readers.parts import Request
    from themis_opt.formats.readers.registry import import_files
    from themis_opt.problem.description import headline
    from themis_opt.problem.fields import located
    from themis_opt.workloads.files import write_instance

    try:
        request = None
        if collective is not None or size is not None:
            request = Request(kind=collective or Request.kind, size=size or Request.size)
        imported = import_files(files, request=request)
        instance = imported.instance.overridden(chunks=chunks)
    except ValidationError as error:
        raise located(error).within("command line") from None
    options.warn(instance.network, files[0])
    if output is not None:
        write_instance(instance, output)
    if as_json:
        print_json(imported.summary() | {"fingerprint": instance.fingerprint})
    else:
        print_table("files", ("file", "format"), imported.formats)
        say(headline(instance.replace(description="")))
        for title, rows in imported.tables.items():
            print_table(title, tuple(rows[0]), [tuple(row.values()) for row in rows])
    for note in imported.notes:
        tell_note(note)
    if output is not None:
        for path in imported.draw(output):
            tell(f"wrote {path}")
        tell(f"wrote {output}")

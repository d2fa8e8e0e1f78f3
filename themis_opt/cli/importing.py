"""``themis-opt import``: an instance from files of other tools."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from themis_opt.base.errors import InputError
from themis_opt.cli import options
from themis_opt.cli.answers.answer import ask


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
    output: Annotated[Path | None, options.output("Write the instance to this file.")] = None,
    whole: Annotated[bool, Option("--all", help="Every row of what the files hold beside the problem.")] = False,
    as_json: options.Json = False,
) -> None:
    """Read files of simulators, profilers and libraries, and put them together as one instance."""
    from themis_opt.cli.printing import tell
    from themis_opt.families.door import family_of, save
    from themis_opt.formats.readers.parts import Request
    from themis_opt.formats.readers.registry import import_files
    from themis_opt.problem.exchanges import Collective
    from themis_opt.problem.fields import ModelError

    try:
        request = None
        if (collective, size, bandwidths) != (None, None, None):
            rates = dict(_rates(bandwidths))
            request = Request(kind=collective or Request.kind, size=size or Request.size, bandwidths=rates)
            Collective(kind=request.kind, size=request.size)  # errors of options are not those of files
    except ModelError as error:
        raise error.within("command line") from None
    imported = import_files(files, request=request)
    family = family_of(imported.instance)
    problem = family.changed(imported.instance, {} if chunks is None else {"chunks": chunks})
    options.warn(family.doubts(problem), files[0])
    if output is not None:
        save(problem, output)
    ask("introduce", problem, problem, imported, whole=whole).tell(as_json=as_json)
    if output is not None:
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

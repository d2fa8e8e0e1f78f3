"""``themis-opt import`` and ``generate``: an instance from files of other tools, or one that is made."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from themis_opt.base.errors import reading
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
    answer = ask("introduce", problem, problem, imported, whole=whole)
    replace(answer, files=[] if output is None else [output]).tell(as_json=as_json)


def _rates(text: str | None) -> Iterator[tuple[str, float]]:
    from themis_opt.base.units import parse_bandwidth

    for part in options.split(text) or ():
        name, _, rate = part.partition("=")
        with reading("--bandwidths", part):
            yield name, parse_bandwidth(rate)


def generate(
    what: Annotated[Literal["cluster"], Argument(help="What is made: a cluster as it is built.")],
    kind: Annotated[
        str | None, Argument(help="h100, b200, nvl72, mi300x, tpu_v4 or dragonfly; left out with --seed.")
    ] = None,
    npus: Annotated[int, Option(help="GPUs or chips, 64 if nothing says how many.")] = 0,
    boxes: Annotated[int, Option(help="Boxes of 8 GPUs or racks of 72, instead of --npus.")] = 0,
    shape: Annotated[str, Option(help="Chips of a torus along each axis, such as 4x4x8, instead of --npus.")] = "",
    levels: Annotated[int, Option(help="2: leaves and spines; 3: cores above them.")] = 2,
    oversubscription: Annotated[int, Option(help="NICs of a leaf over its links to spines: 1, 2 or 4.")] = 1,
    seed: Annotated[int | None, Option(help="A random cluster and collective instead.", min=0)] = None,
    collective: Annotated[str, Option(help="What is exchanged, such as all_gather.")] = "all_reduce",
    size: Annotated[str, Option(help="Its size, such as 1MiB.")] = "1 GB",
    output: Annotated[Path | None, options.output("Write the instance to this file, as groups of equal nodes.")] = None,
    as_json: options.Json = False,
) -> None:
    """Make an instance on a cluster as it is built: boxes on rails, racks, tori, dragonflies."""
    from themis_opt.base.documents import laid_out, write_atomically
    from themis_opt.cli.answers.answer import Reply
    from themis_opt.families.calls import cluster

    asked = {"npus": npus, "boxes": boxes, "shape": shape, "levels": levels, "oversubscription": oversubscription}
    document, headline = cluster(kind, seed=seed, collective=collective, size=size, **asked)
    if output is not None:
        write_atomically(output, laid_out(document) + "\n")
    Reply(document, [headline], files=[] if output is None else [output]).tell(as_json=as_json)

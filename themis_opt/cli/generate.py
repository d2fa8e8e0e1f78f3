"""``themis-opt generate``: instances that are made."""

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from themis_opt.cli import options


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

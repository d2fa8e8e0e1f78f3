"""``themis-opt bound``: what no schedule can beat."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from themis_opt.base.errors import InputError
from themis_opt.cli import graphs, options, pipelines

if TYPE_CHECKING:
    from themis_opt.problem.instance import Instance


@options.grouped
def bound(
    source: options.InstanceArgument,
    *,
    changes: options.InstanceChanges,
    network: graphs.NetworkChanges,
    sizes: Annotated[
        str | None, Option("--chunk-sizes", help="equal or free: only the bounds that hold for them.")
    ] = None,
    output: Annotated[Path | None, options.output("With --lost each: a picture of what hurts most.")] = None,
    as_json: options.Json = False,
) -> None:
    """Print every proven lower bound on the makespan, or on the time of a training iteration."""
    if pipelines.is_pipeline(source):
        pipelines.refuse(
            {**changes.given(), "lost": network.lost, "slow": network.slow, "output": output and str(output)}
        )
        pipelines.bound(source, as_json=as_json)
        return
    graph = graphs.load(source, changes, network)
    if graph is not None:
        graphs.bound(graph, network, output, as_json=as_json)
        return
    if output is not None:
        raise InputError("is for --lost each, which has a picture", field="--output", value=str(output))
    instance = options.load_instance(source, changes)

    from themis_opt.cli.printing import print_json, print_rows
    from themis_opt.study.columns import objective
    from themis_opt.study.comparison import checked_sizes

    rows = _rows(instance, free=sizes is not None and checked_sizes(sizes) == "free")
    if as_json:
        print_json(rows)
        return
    shown = [row | {"sizes": "equal" if row["equal_sizes_only"] else "any"} for row in rows]
    print_rows(
        f"{instance.name or 'instance'}: lower bounds",
        shown,
        {
            "bound": ("bound", "text"),
            "bound_ns": (f"{objective(instance).title} >=", "time"),
            "exposed_ns": ("exposed >=", "time"),
            "sizes": ("chunk sizes", "text"),
            "scope": ("holds", "text"),
            "meaning": ("meaning", "text"),
        },
    )


def _rows(instance: "Instance", *, free: bool) -> list[dict[str, Any]]:
    """Name, value and meaning of every bound; beside compute also the exposed time that it leaves."""
    from themis_opt.base.units import nanoseconds
    from themis_opt.schedules.plan import has_launches
    from themis_opt.solving.bounds import bounds, bounds_of

    rows: list[dict[str, Any]] = []
    for name, value in bounds(instance).items():
        kind = bounds_of(instance)[name]
        if free and kind.equal_sizes_only:
            continue
        exposed = {"exposed_ns": nanoseconds(max(value - instance.compute, 0.0))} if has_launches(instance) else {}
        rows.append(
            {"bound": name, "bound_ns": nanoseconds(value)}
            | exposed
            | {"equal_sizes_only": kind.equal_sizes_only, "scope": kind.scope, "meaning": kind.meaning}
        )
    return rows

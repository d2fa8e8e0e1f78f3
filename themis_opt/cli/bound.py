"""``themis-opt bound``: what no schedule can beat."""

from typing import TYPE_CHECKING

from themis_opt.cli import options

if TYPE_CHECKING:
    from themis_opt.instance import Instance


def bound(
    source: options.InstanceSource,
    size: options.Size = None,
    chunks: options.NumChunks = None,
    latency: options.Latency = None,
    ag_order: options.AgOrder = None,
    as_json: options.Json = False,
) -> None:
    """Print every proven lower bound on the makespan, or on the time of a training iteration."""
    from themis_opt.instance import Instance

    problem = options.load_problem(source, size, chunks, latency, ag_order)
    if isinstance(problem, Instance):
        _print_bounds(problem, as_json)
    else:
        from themis_opt.cli.iteration_printing import print_iteration_bounds

        print_iteration_bounds(problem, as_json)


def _print_bounds(instance: "Instance", as_json: bool) -> None:
    from themis_opt.cli.printing import durations, print_json, print_table
    from themis_opt.lower_bounds import BOUNDS, bounds

    proven = bounds(instance)
    if as_json:
        rows = [
            {"bound": name, "bound_ns": value / 1000, "equal_sizes_only": BOUNDS[name].equal_sizes_only}
            for name, value in proven.items()
        ]
        print_json(rows)
        return
    cells = [
        (name, value, "equal" if BOUNDS[name].equal_sizes_only else "any", BOUNDS[name].meaning)
        for name, value in zip(proven, durations(list(proven.values())), strict=True)
    ]
    print_table(
        f"{instance.name or 'instance'}: lower bounds", ("bound", "makespan >=", "chunk sizes", "meaning"), cells
    )

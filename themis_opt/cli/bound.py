"""``themis-opt bound``: what no schedule can beat."""

from themis_opt.cli import options


def bound(
    source: options.InstanceSource,
    size: options.Size = None,
    chunks: options.NumChunks = None,
    latency: options.Latency = None,
    ag_order: options.AgOrder = None,
    as_json: options.Json = False,
) -> None:
    """Print every proven lower bound on the makespan."""
    instance = options.load_instance(source, size, chunks, latency, ag_order)

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

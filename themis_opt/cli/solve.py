"""``themis-opt solve``: the comparison with the reference, and its schedule on disk."""

from pathlib import Path
from typing import Annotated

import typer

from themis_opt.cli import options
from themis_opt.cli.problems import choose_policies


def solve(
    source: options.InstanceSource,
    size: options.Size = None,
    chunks: options.NumChunks = None,
    latency: options.Latency = None,
    ag_order: options.AgOrder = None,
    policies: options.Policies = None,
    time_limit: options.TimeLimit = 60.0,
    workers: options.Workers = 2,
    seed: options.Seed = 0,
    gap: options.Gap = None,
    sizes: options.Sizes = "free",
    deterministic: options.Deterministic = False,
    memory: options.Memory = 4.0,
    no_cache: options.NoCache = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder for the schedule and its pictures.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Find a near-optimal schedule, prove its gap, and write it with pictures.

    Compares the fixed order, Themis and hourglass with the reference of local search and CP-SAT, and writes the
    best schedule, its order table, a trace for Perfetto, a Gantt picture and CSV files.  Of a training iteration it
    compares what launches collectives when, and writes the same without an order table.
    """
    from themis_opt.policies.registry import HEURISTICS, REFERENCE

    problem = options.load_problem(source, size, chunks, latency, ag_order)
    specifications = choose_policies(problem, policies, (*HEURISTICS, REFERENCE))
    folder = output or Path(f"{Path(source).name.removesuffix('.json')}.solution")
    from themis_opt.cli.comparing import compare_problem, search_limits

    limits = search_limits(time_limit, workers, seed, gap, sizes, deterministic, memory)
    cached = not no_cache and not deterministic
    compare_problem(problem, specifications, limits, asked_gap=gap, cached=cached, folder=folder, as_json=as_json)

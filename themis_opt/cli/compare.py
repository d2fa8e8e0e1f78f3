"""``themis-opt compare``: all policies side by side."""

from pathlib import Path
from typing import Annotated

import typer

from themis_opt.cli import options
from themis_opt.cli.problems import choose_policies


def compare(
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
    sizes: options.Sizes = "equal",
    deterministic: options.Deterministic = False,
    memory: options.Memory = 4.0,
    no_cache: options.NoCache = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder for the best schedule and the table.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Run all policies on one instance, each against the best proven bound."""
    from themis_opt.policies.registry import every_policy

    problem = options.load_problem(source, size, chunks, latency, ag_order)
    specifications = choose_policies(problem, policies, every_policy())
    from themis_opt.cli.comparing import compare_problem, search_limits

    limits = search_limits(time_limit, workers, seed, gap, sizes, deterministic, memory)
    cached = not no_cache and not deterministic
    compare_problem(problem, specifications, limits, asked_gap=gap, cached=cached, folder=output, as_json=as_json)

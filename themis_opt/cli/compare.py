"""``themis-opt compare``: all policies side by side."""

from pathlib import Path
from typing import Annotated

import typer

from themis_opt.cli import options


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

    instance = options.load_instance(source, size, chunks, latency, ag_order)
    specifications = options.split_policies(policies, every_policy())
    from themis_opt.cli.comparing import run_comparison, search_limits
    from themis_opt.plan_cache import PlanCache

    limits = search_limits(time_limit, workers, seed, gap, sizes, deterministic, memory)
    cache = None if no_cache or deterministic else PlanCache()
    run_comparison(instance, specifications, limits, asked_gap=gap, cache=cache, folder=output, as_json=as_json)

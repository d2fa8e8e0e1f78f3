"""Every policy against proven bounds: on a grid of sizes and chunk counts, on random networks, and with costs."""

import pandas as pd

from drawing.grid import gap_tables, grid_sections, grid_summary
from drawing.random_networks import random_sections, random_summary
from themis_opt.base.errors import InputError
from themis_opt.reports.experiment import ExperimentHead
from themis_opt.reports.rendering.document import Report, Section
from themis_opt.reports.results import results
from themis_opt.reports.sections import coverage, failures, policy_tables, unbounded, warnings

RANDOM = "random:"  # how the names of random instances begin
COSTLY_BLOCKS = "with costs"  # how the names of blocks end in which every chunk costs something, whatever its size


def policies(rows: pd.DataFrame, experiment: ExperimentHead) -> Report:
    """Compare the gaps of all policies, on networks chosen by hand and on random ones.

    Raises
    ------
    InputError
        If no makespan has a bound, or a trajectory is none.
    """
    everything = results(rows)
    if not everything["gap"].notna().any():
        rule = "no makespan has a bound; run the policy 'bound' on the same instances"
        raise InputError(rule, field="column bound_ns")
    is_random = rows["instance"].str.startswith(RANDOM)
    # Apart, so that each part numbers its policies, and with them their colours, for itself.
    grid, random = results(rows[~is_random]), results(rows[is_random])
    summary: list[str] = []
    sections: list[Section] = []
    if len(grid := grid[grid["gap"].notna()]):
        cheap, costly = _by_costs(grid)
        summary += grid_summary(cheap)
        sections += [*grid_sections(cheap), *_costs_section(costly, "")]
    if len(random):
        cheap, costly = _by_costs(random)
        summary += random_summary(cheap)
        sections += [*random_sections(cheap), *_costs_section(costly, ", random networks")]
    summary += [*warnings(rows, everything), *unbounded(everything)]
    return Report(experiment.title, tuple(summary), (*sections, *failures(rows)))


def _by_costs(schedules: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The schedules whose stages cost nothing besides their bytes and latency, and the others."""
    is_costly = schedules["block"].str.endswith(COSTLY_BLOCKS)
    return schedules[~is_costly], schedules[is_costly]


def _costs_section(schedules: pd.DataFrame, where: str) -> tuple[Section, ...]:
    """Gaps where every chunk costs something whatever its size; nothing where nobody ran that."""
    if schedules.empty:
        return ()
    launches = ", ".join(f"{time / 1000:g} us" for time in sorted(schedules["launch_overhead_ns"].unique()))
    packets = " or ".join(sorted(schedules["packet"].unique()))
    text = (
        f"A launch takes {launches}, packets are of {packets}, and the latency of the steps lags or occupies the "
        "dimension, so that small chunks are costly. With free sizes the number of chunks is free too.",
        "Gaps are against bounds for the sizes of the run: equal chunks are judged by what as many equal chunks could "
        "do. Speed-ups compare all policies.",
        *coverage(schedules),
    )
    tables = (*policy_tables(schedules), *gap_tables(schedules, "latency", "text", "what latency does")[1:])
    return (Section(f"Where every chunk costs something{where}", text, tables),)

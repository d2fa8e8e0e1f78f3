"""Schedules on dimensions run by real processes."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from themis_opt.cli import options, ranks
from themis_opt.cli.answers.answer import Listing, Reply, columns, has_pictures

if TYPE_CHECKING:
    from themis_opt.base.units import Form
    from themis_opt.problem.instance import Instance
    from themis_opt.runtime.execution import ExecutionResult
    from themis_opt.schedules.schedule import Schedule

RUN_TIMES = ("predicted_s", "measured_s", "fastest_s", "slowest_s", "exposed_predicted_s", "exposed_measured_s")
"""Keys of rows that are times in seconds; exposed ones are those of iterations alone."""


def run(
    subject: "Instance | Schedule",
    name: str,
    policies: str | None,
    start: ranks.Start,
    *,
    pace: str | None = None,
    repeat: int = 1,
    seed: int = 0,
    local: str | None = None,
    transport: str = "tcp",
    output: Path | None = None,
    sizes: options.SizeChoice = "equal",
    dtype: str = "float32",
    reduction: str = "sum",
    in_flight: int = 1,
    iterations: int = 6,
    **costs: str,
) -> Reply:
    """A schedule and its usual policy, or policies alone, run with one process for each NPU."""
    from themis_opt.runtime.execution import execute
    from themis_opt.runtime.program import RunOptions

    schedules = _schedules(subject, name, local, pace, policies, costs, sizes)
    settings = RunOptions(dtype, reduction, in_flight, pace is not None, iterations)
    num_ranks = next(iter(schedules.values())).instance.fabric.num_npus
    with ranks.ranks(num_ranks, transport, start) as coordinator, ranks.run_progress() as progress:
        done = execute(schedules, coordinator, settings, repeat=repeat, seed=seed, progress=progress)
    files: list[Path] = []
    if output is not None:
        from themis_opt.runtime.execution import write_execution

        files = write_execution(output, done)
        if has_pictures():
            from themis_opt.base.documents import file_name
            from themis_opt.formats.plot import save_plot

            for executed in done.executed:
                stem = file_name(executed.name)
                if output / f"{stem}.trace.json" in files:
                    files.append(output / f"{stem}.svg")
                    save_plot(files[-1], executed.predicted, beside={"measured": executed.measured})
    return Reply(done.document(), [f"{done.verdict()}."], [times_table(done.rows()), _traffic_table(done)], files=files)


def _schedules(
    subject: "Instance | Schedule",
    name: str,
    local: str | None,
    pace: str | None,
    policies: str | None,
    costs: dict[str, str],
    sizes: options.SizeChoice,
) -> "dict[str, Schedule]":
    """The schedule of a file with the first usual policy before it, or policies alone, by name."""
    from themis_opt.policies.registry import usual_policies
    from themis_opt.runtime.local_network import on_network
    from themis_opt.schedules.schedule import Schedule
    from themis_opt.schedules.simulator import simulate

    planned = None
    if isinstance(subject, Schedule):
        planned = options.Replanning(options.Costs().filled({"latency": None, **costs})).apply(subject)
    instance = on_network(planned.instance if planned else cast("Instance", subject), local, pace)
    chosen = options.choose_policies(
        instance,
        policies,
        lambda made: usual_policies(made)[: 1 if planned is not None else None],
        sizes,
    )
    schedules = {policy: simulate(instance, planner(instance)) for policy, planner in chosen.items()}
    if planned is not None:
        schedules[name] = simulate(instance, planned.enforced_plan())
    return schedules


def times_table(rows: Sequence[dict[str, Any]]) -> Listing:
    """Predicted and measured times, and what was used where that is known."""
    shown: list[dict[str, Any]] = []
    for row in rows:
        times = {name.removesuffix("_s"): value * 1e9 for name, value in row.items() if name in RUN_TIMES}
        used = {}
        if "memory_bytes" in row:
            used = {"processors": f"{row['processors_busy']:.2f}", "memory": f"{row['memory_bytes'] / 2**20:.0f} MiB"}
        shown.append({**row, **times, **used})
    names = [name.removesuffix("_s") for name in RUN_TIMES]
    titles: dict[str, tuple[str, Form]] = {name: (name.replace("_", " "), "time") for name in names}
    ratios = ("error", "speedup_predicted", "speedup_measured")
    order = columns("policy", "chunks", *names, *ratios, "processors", "memory", **titles)
    return Listing(f"median of {rows[0]['runs']} runs", shown, order)


def _traffic_table(done: "ExecutionResult") -> Listing:
    dimensions = done.executed[0].predicted.instance.fabric.dimension_names
    rows = [
        {"policy": row["policy"], "dimension": name, "moved": f"{moved:.0f}", "expected": f"{expected:.0f}"}
        for row in done.rows()
        for name, moved, expected in zip(
            dimensions, row["bytes_per_dimension"], row["expected_bytes_per_dimension"], strict=True
        )
    ]
    return Listing.of_texts("bytes of the busiest rank", rows)

"""What commands answer about pipelines of microbatches."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from themis_opt.base.errors import InputError
from themis_opt.base.units import format_percent, format_short_size, format_short_time, nanoseconds
from themis_opt.cli import options
from themis_opt.cli.answers.answer import Listing, Reply, columns, write_page
from themis_opt.cli.answers.operations import bound_table, parts, path_table, resource_table
from themis_opt.cli.answers.operations import simulate as simulate
from themis_opt.cli.process import remaining

if TYPE_CHECKING:
    from themis_opt.cli.printing import ShownColumns
    from themis_opt.pipelines.comparison import PipelineComparison
    from themis_opt.pipelines.problem import Pipeline
    from themis_opt.pipelines.schedule import PipelineSchedule
    from themis_opt.reports.rendering.document import Section
    from themis_opt.schedules.envelope import Summary

TITLES: "ShownColumns" = {
    "makespan_ns": ("iteration", "time"),
    "bubble": ("bubble", "share"),
    "communication": ("messages", "share"),
    "kept": ("kept", "text"),
}


def show(pipeline: "Pipeline") -> Reply:
    """Stages and microbatches in a sentence, then every field."""
    from themis_opt.families.door import family_of

    sentence = f"{pipeline.name or 'pipeline'}: {family_of(pipeline).in_short(pipeline)}."
    fields = pipeline.model_dump(mode="json", exclude={"format", "name", "description"})
    texts = {name: str(value) for name, value in fields.items() if value is not None}
    rows = [{"field": name, "value": value} for name, value in texts.items()]
    document = texts | {"family": pipeline.family, "fingerprint": pipeline.fingerprint}
    return Reply(document, [sentence], [Listing.of_texts("pipeline", rows)])


def bound(pipeline: "Pipeline") -> Reply:
    """The bound of filling and draining, in any order of the microbatches."""
    from themis_opt.families.door import bounds

    rows = [{"bound": name, "bound_ns": nanoseconds(value)} for name, value in bounds(pipeline).items()]
    least = format_short_time(max(bounds(pipeline).values()))
    return Reply(rows, [f"an iteration takes {least} at least, in any order of the microbatches."])


def compare(
    pipeline: "Pipeline", policies: str | None, search: options.SearchOptions, folder: Path | None, usual: bool
) -> "PipelineComparison":
    """Policies and the reference within the limits of the command."""
    from formulations.limits import MIN_SECONDS, Limits
    from themis_opt.cli.progress import comparison_progress
    from themis_opt.pipelines import comparison
    from themis_opt.policies.registry import REFERENCE

    names, settings = options.split(policies), search.settings()
    seconds = max(remaining(settings.pop("time_limit")), MIN_SECONDS)
    limits = Limits(seconds, **{name: value for name, value in settings.items() if name != "sizes"})
    with comparison_progress("iteration", seconds) as report:

        def tell_value(value: float, proven: float) -> None:
            if value < math.inf:  # nothing is said before there is a schedule
                report(REFERENCE, value, proven)

        return comparison.compare(pipeline, names, limits, tell_value)


def tell(compared: "PipelineComparison", search: options.SearchOptions) -> Reply:
    """The verdict and the table of a comparison."""
    rows = [result.row() for result in compared.results]
    shown = columns("policy", *TITLES, "gap", "status", **TITLES)
    table = Listing(compared.problem.name or "pipeline", _shown(rows), shown)
    return Reply(rows, compared.verdict, [table], compared.notes)


def _shown(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with sizes as a person reads them."""
    return [{k: format_short_size(v) if k in ("kept", "memory") else v for k, v in row.items()} for row in rows]


def write(folder: Path, compared: "PipelineComparison", answer: Reply, search: options.SearchOptions) -> list[Path]:
    """The comparison, the best schedule with its picture and page, and the file that PyTorch runs."""
    from themis_opt.families.files import write_operations
    from themis_opt.pipelines.files import write_schedule
    from themis_opt.pipelines.torch_csv import TORCH, write_torch_csv
    from themis_opt.schedules.envelope import summary_of

    def draw() -> "tuple[Section, list[Path]]":
        from themis_opt.reports.pictures import pipeline_chart, write_picture

        return write_picture(folder, ("\n".join(compared.verdict), pipeline_chart(best.schedule)))

    best = compared.best
    paths = [folder / "schedule.json"]
    write_schedule(paths[0], best.schedule, summary_of(best, compared.bounds, search.settings()))
    if not best.schedule.offloads:  # of which PyTorch knows nothing
        paths.append(folder / f"{TORCH}.csv")
        write_torch_csv(paths[1], best.schedule)
    return [*paths, *write_operations(folder, compared), *write_page(folder, compared, answer, draw)]


def validate(schedule: "PipelineSchedule") -> Reply:
    """The time of a schedule that obeys all rules, and the memory that it needs."""
    kept = max(schedule.peaks())
    time, size = format_short_time(schedule.value), format_short_size(kept)
    document = {"valid": True, "makespan_ns": nanoseconds(schedule.value), "kept": kept}
    return Reply(document, [f"valid: an iteration takes {time}; a stage keeps {size} at most."])


def explain(schedule: "PipelineSchedule", summary: "Summary", *, steps: int) -> Reply:
    """How busy stages and links are, the critical path, and the bound."""
    from themis_opt.families.door import bounds
    from themis_opt.pipelines.comparison import waits
    from themis_opt.schedules.envelope import with_bounds_of

    explanation, proven = schedule.timed.explain(), with_bounds_of(summary, bounds(schedule.pipeline))
    times = {"makespan_ns": nanoseconds(schedule.value), "all_stages_ns": nanoseconds(schedule.makespan)}
    in_ns = {name: nanoseconds(value) for name, value in proven.items()}
    busiest, count = explanation.resources[0], len(explanation.resources)
    share = format_percent(busiest.busy / schedule.makespan)
    words = f"{busiest.name} is busiest, for {share} of the time"
    took = f"All stages end after {format_short_time(schedule.makespan)}; {words}; {waits(schedule)}."
    title = f"stages and links: the {min(steps, count)} busiest of {count}"
    tables = [resource_table(title, explanation, steps), path_table(explanation, steps, "action")]
    shares = {"bubble": schedule.bubble() - schedule.communication, "communication": schedule.communication}
    document = {**times, **shares, "bounds_ns": in_ns, **parts(explanation)}
    return Reply(document, [took], [*tables, bound_table(schedule.value, proven, "iteration")])


def plot(schedule: "PipelineSchedule", path: Path) -> Reply:
    """What stages and links do over time."""
    from themis_opt.pipelines.comparison import waits
    from themis_opt.reports.pictures import pipeline_chart
    from themis_opt.reports.rendering.charts import save

    name, time = schedule.pipeline.name or "pipeline", format_short_time(schedule.value)
    save(pipeline_chart(schedule), path, f"{name}: {time}; {waits(schedule)}")
    return Reply(None, files=[path])


def sweep(pipeline: "Pipeline", over: Sequence[str] | None) -> Reply:
    """What memory buys: the best iteration for every limit."""
    from themis_opt.base.units import parse_size
    from themis_opt.pipelines.comparison import curve

    text = ",".join(over or ())
    name, _, values = text.partition("=")
    if name != "memory" or not values:
        raise InputError("must be memory=SIZE,SIZE,.. for a pipeline", field="--over", value=text)
    results = curve(pipeline, [parse_size(value) for value in values.split(",")])
    rows = [{"memory": limit, **result.row()} for limit, result in results]
    return Reply(rows, tables=[Listing("what memory buys", _shown(rows), columns("memory", *TITLES, "gap", **TITLES))])

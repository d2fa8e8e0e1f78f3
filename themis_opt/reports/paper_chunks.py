"""What dimensions do over time, and what more chunks bring: figures 9 and 10 of the Themis paper."""

from collections.abc import Collection, Mapping, Sequence

from pydantic import BaseModel, ValidationError

from themis_opt.errors import InputError
from themis_opt.reports.cells import percent
from themis_opt.reports.document import Axis, Column, Figure, Section, Series, Table, Value
from themis_opt.reports.paper_parts import Compared, Part, compared, of_block
from themis_opt.reports.published import Published
from themis_opt.reports.results import Result, by_policy, grouped
from themis_opt.reports.rows import Row
from themis_opt.reports.statistics import spread


class Activity(BaseModel):
    """Share of every window of `window_ns` nanoseconds for which each dimension is held."""

    window_ns: float
    dimensions: tuple[tuple[float, ...], ...]


def figure_9(found: Sequence[Result], rows: Sequence[Row], published: Published) -> Part | None:
    """Activity of the dimensions over time."""
    known = [(run, activity) for run in of_block(found, "figure 9") if (activity := _activity(run)) is not None]
    if not known:
        return None
    figures = tuple(_timeline(number, run, activity) for number, (run, activity) in enumerate(known, 1))
    most = max(len(activity.dimensions) for _, activity in known)
    names = [f"dimension {number + 1}" for number in range(most)]
    columns = (Column("policy"), Column("time", "duration"), *(Column(name, "percent") for name in names))
    cells = tuple((run.policy, run.makespan_ns, *_held(run, activity, most)) for run, activity in known)
    text = "How much of the time each dimension is held; no numbers were published."
    return Part(Section("Fig. 9: activity over time", (text,), (Table(columns, cells),), figures))


def _activity(run: Result) -> Activity | None:
    recorded = run.row.extra.get("activity")
    if recorded is None:
        return None
    try:
        return Activity.model_validate(recorded)
    except ValidationError:
        rule = "activity must have window_ns, and in dimensions a list of shares for each dimension"
        raise InputError(rule, field="column extra", value=recorded) from None


def _timeline(number: int, run: Result, activity: Activity) -> Figure:
    series = tuple(
        Series(
            f"dimension {place + 1}",
            tuple(window * activity.window_ns for window in range(len(shares))),
            tuple(shares),
        )
        for place, shares in enumerate(activity.dimensions)
    )
    return Figure(
        f"figure-9-{number}",
        f"Activity with {run.policy} on {run.row.network}",
        "step",
        Axis("time", format="duration"),
        Axis("held", format="percent"),
        series,
    )


def _held(run: Result, activity: Activity, dimensions: int) -> tuple[Value, ...]:
    """Share of the makespan for which each dimension is held; the last window ends with the schedule."""
    means: list[Value] = []
    for shares in activity.dimensions:
        starts = [window * activity.window_ns for window in range(len(shares))]
        ends = [*starts[1:], run.makespan_ns]
        held = sum(share * (end - start) for share, start, end in zip(shares, starts, ends, strict=True))
        means.append(held / run.makespan_ns)
    return (*means, *[None] * (dimensions - len(means)))


def figure_10(found: Sequence[Result], rows: Sequence[Row], published: Published) -> Part | None:
    """Utilisation over the number of chunks."""
    runs = [run for run in of_block(found, "figure 10") if run.row.utilisation is not None]
    if not runs:
        return None
    means = {policy: _means(own, published.figure_10_networks) for policy, own in by_policy(runs).items()}
    known = published.figure_10_utilisation
    counts = sorted({run.row.chunks for run in runs})
    off: list[Compared] = []
    for count in counts:
        pairs = [(means.get(policy, {}).get(count), value) for policy, value in known.get(count, {}).items()]
        off += compared("Fig. 10", f"mean utilisation, {count} chunks", pairs)
    text = (
        "Means over the networks of the figure; the ends were published as numbers, and nothing here is fitted to "
        "them.",
        *_differences(means, published),
    )
    figures = tuple(_curves(n, own) for n, own in enumerate(grouped(runs, lambda r: r.row.network).values(), 1))
    section = Section("Fig. 10: utilisation by chunks", text, (_chunk_table(means, counts, published),), figures)
    return Part(section, tuple(off), tuple(_differences(means, published)))


def _means(runs: Sequence[Result], networks: Collection[str] = ()) -> dict[int, float]:
    """Mean utilisation by chunk count, where all of these networks ran."""
    groups = {
        count: own
        for count, own in grouped(runs, lambda run: run.row.chunks).items()
        if {run.row.network for run in own}.issuperset(networks)
    }
    values = {count: spread([run.row.utilisation or 0.0 for run in own]) for count, own in groups.items()}
    return {count: found.mean for count, found in sorted(values.items()) if found}


def _chunk_table(means: Mapping[str, Mapping[int, float]], counts: Sequence[int], published: Published) -> Table:
    columns = (Column("policy"), *(Column(str(count), "percent") for count in counts))
    rows: list[tuple[Value, ...]] = []
    for policy, own in means.items():
        rows.append((policy, *(own.get(count) for count in counts)))
        theirs = [published.figure_10_utilisation.get(count, {}).get(policy) for count in counts]
        if any(theirs):
            rows.append((f"{policy}, published", *theirs))
    return Table(columns, tuple(rows), "Mean utilisation by number of chunks.")


def _curves(number: int, runs: Sequence[Result]) -> Figure:
    series = []
    for policy, own in by_policy(runs).items():
        points = _means(own)
        series.append(Series(policy, tuple(points), tuple(points.values())))
    return Figure(
        f"figure-10-{number}",
        f"Utilisation by chunks on {runs[0].row.network}",
        "line",
        Axis("chunks", log=True, format="count"),
        Axis("utilisation", format="percent"),
        tuple(series),
    )


def _differences(means: Mapping[str, Mapping[int, float]], published: Published) -> list[str]:
    said = []
    for count, values in published.figure_10_utilisation.items():
        for policy, theirs in values.items():
            ours = means.get(policy, {}).get(count)
            if ours is not None:
                points = 100 * abs(ours - theirs)
                said.append(
                    f"Fig. 10, {policy} with {count} chunks: {percent(ours)} here, {percent(theirs)} published, "
                    f"{points:.1f} percentage points {'more' if ours >= theirs else 'less'}."
                )
    return said

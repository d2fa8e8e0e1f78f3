"""Every policy against proven bounds, from few chunks to many and from small messages to large ones."""

from collections.abc import Callable, Sequence

from themis_opt.reports.anytime import anytime_figure
from themis_opt.reports.cells import cell, percent, plural, tick
from themis_opt.reports.document import Axis, Column, Figure, Report, Section, Series, Table
from themis_opt.reports.experiment import Experiment
from themis_opt.reports.results import OPTIMAL, SEARCHES, Result, by_policy, gaps, grouped, policy_head, results
from themis_opt.reports.rows import Row
from themis_opt.reports.sections import (
    coverage,
    failures,
    gap_tables,
    optimal_sentence,
    policy_tables,
    require_bounds,
    unbounded,
    warnings,
)
from themis_opt.reports.statistics import share, spread
from themis_opt.units import format_size

LARGE = 16 * 2**20
"""Bytes from which bandwidth, not latency, decides on the networks of the paper."""

SMALLEST_GAP = 1e-5
"""Gaps below are drawn here, because the axes are logarithmic."""

GAP = Axis("mean gap to the best bound", log=True, format="percent")


def heuristic_gap(rows: Sequence[Row], experiment: Experiment) -> Report:
    """Compare the gaps of all policies by chunk count and by size, and over the seconds of a search.

    Raises
    ------
    InputError
        If no makespan has a bound.
    """
    everything = results(rows)
    require_bounds(everything)
    found = [result for result in everything if result.gap is not None]
    sections = (_overall(found), _chunks(found), _sizes(found), *_both(found), _optimal(found), *_anytime(found))
    return Report(experiment.title, (*_summary(rows, found), *unbounded(everything)), (*sections, *failures(rows)))


def _summary(rows: Sequence[Row], found: Sequence[Result]) -> list[str]:
    instances = {result.row.fingerprint for result in found}
    networks = {result.row.network for result in found}
    where = f"{plural(len(instances), 'instance')} of {plural(len(networks), 'network')}"
    said = [f"{plural(len(found), 'schedule')} on {where}."]
    for policy, runs in by_policy(found).items():
        gap = spread(gaps(runs))
        if gap:
            said.append(
                f"{policy}: median gap {percent(gap.median)}, mean {percent(gap.mean)}, largest {percent(gap.largest)}."
            )
    return [*said, optimal_sentence(found), *warnings(rows, found)]


def _overall(found: Sequence[Result]) -> Section:
    text = (
        *coverage(found),
        "A gap is makespan over the best proven lower bound that holds for the chunk sizes of the run, minus 1; "
        "it is at least as large as the distance to the best possible schedule. Speed-up is over the fixed order, "
        "as a geometric mean.",
    )
    return Section("All policies", text, policy_tables(found))


def _chunks(found: Sequence[Result]) -> Section:
    axis = Axis("chunks", log=True, format="count")
    small = [result for result in found if result.row.size_bytes < LARGE]
    large = [result for result in found if result.row.size_bytes >= LARGE]
    name = format_size(LARGE)
    classes = [(small, "small", f"messages below {name}"), (large, "large", f"messages of at least {name}")]
    figures = tuple(
        Figure(
            f"gap-by-chunks-{stem}",
            f"Gap by chunk count, {what}",
            "line",
            axis,
            GAP,
            _curves(part, lambda row: row.chunks),
            _FLOOR,
        )
        for part, stem, what in classes
        if part
    )
    tables = gap_tables(found, lambda row: row.chunks, "count", "chunk count, over all networks and sizes")
    return Section("By chunk count", coverage(found), tables, figures)


def _sizes(found: Sequence[Result]) -> Section:
    figure = Figure(
        "gap-by-size",
        "Gap by size of the collective",
        "line",
        Axis("size", log=True, format="size"),
        GAP,
        _curves(found, lambda row: row.size_bytes),
        f"Mean over networks and chunk counts. {_FLOOR}",
    )
    tables = gap_tables(found, lambda row: row.size_bytes, "size", "size, over all networks and chunk counts")
    return Section("By size", coverage(found), tables, (figure,))


_FLOOR = f"Gaps below {tick(SMALLEST_GAP, 'percent')} are drawn there."


def _curves(found: Sequence[Result], key: Callable[[Row], int]) -> tuple[Series, ...]:
    return tuple(_curve(policy, runs, key) for policy, runs in by_policy(found).items())


def _curve(policy: str, runs: Sequence[Result], key: Callable[[Row], int]) -> Series:
    """Mean gap over the values of `key`."""
    places = sorted(grouped(runs, lambda run: key(run.row)).items())
    means = [(place, found.mean) for place, part in places if (found := spread(gaps(part)))]
    return Series(policy, tuple(place for place, _ in means), tuple(max(mean, SMALLEST_GAP) for _, mean in means))


def _both(found: Sequence[Result]) -> tuple[Section, ...]:
    """Chunk count against size, for the policy with the smallest mean gap that answers at once."""
    means = {
        policy: numbers.mean
        for policy, runs in by_policy(found).items()
        if policy_head(policy) not in SEARCHES and (numbers := spread(gaps(runs)))
    }
    if not means:
        return ()
    policy = min(means, key=lambda name: means[name])
    figure = _heatmap([result for result in found if result.policy == policy], policy)
    text = (f"Of the policies that do not search, {policy} has the smallest mean gap: {percent(means[policy])}.",)
    return (Section("By chunk count and size", text, (), (figure,)),)


def _heatmap(runs: Sequence[Result], policy: str) -> Figure:
    chunks, sizes = sorted({run.row.chunks for run in runs}), sorted({run.row.size_bytes for run in runs})
    cells = grouped(runs, lambda run: (run.row.size_bytes, run.row.chunks))
    means = tuple(tuple(_mean(cells.get((size, count), [])) for count in chunks) for size in sizes)
    return Figure(
        "gap-by-chunks-and-size",
        f"Mean gap of {policy}",
        "heatmap",
        Axis("chunks", format="count"),
        Axis("size", format="size"),
        (Series("mean gap", tuple(chunks), tuple(sizes), cells=means),),
        f"Mean over networks. {_FLOOR}",
        Axis("gap", log=True, format="percent"),
    )


def _mean(runs: Sequence[Result]) -> float | None:
    """Mean gap as it is drawn."""
    found = spread(gaps(runs))
    return max(found.mean, SMALLEST_GAP) if found else None


def _optimal(found: Sequence[Result]) -> Section:
    policies = by_policy(found)
    values = sorted({result.row.chunks for result in found})
    names = ("all", *(cell(value, "count") for value in values))
    columns = (Column("policy"), *(Column(name, "percent") for name in names))
    rows = tuple(
        (policy, _share(runs), *(_share([run for run in runs if run.row.chunks == value]) for value in values))
        for policy, runs in policies.items()
    )
    text = ("Share of runs within 0.01 % of a proven bound, by chunk count.", *_stopped_early(found))
    return Section("Proven optimal", text, (Table(columns, rows),))


def _stopped_early(found: Sequence[Result]) -> tuple[str, ...]:
    """A sentence on searches that were not asked for so small a gap."""
    stopped = [
        run for run in found if run.row.gap_asked and run.gap is not None and OPTIMAL < run.gap <= run.row.gap_asked
    ]
    if not stopped:
        return ()
    asked = percent(max(run.row.gap_asked or 0.0 for run in stopped))
    return (
        f"{plural(len(stopped), 'search run')} ended on reaching the gap that was asked for, at most {asked}, "
        "and might have proven more.",
    )


def _share(runs: Sequence[Result]) -> float | None:
    return share(sum(run.is_optimal for run in runs), len(runs))


def _anytime(found: Sequence[Result]) -> tuple[Section, ...]:
    figure = anytime_figure(found, SMALLEST_GAP)
    return (Section("Over time", (), (), (figure,)),) if figure else ()

"""Time and utilisation of one all-reduce over its size: figures 8 and 11 of the Themis paper."""

from collections.abc import Callable, Sequence

from themis_opt.reports.cells import percent, plural
from themis_opt.reports.document import Axis, Column, Figure, Section, Series, Table
from themis_opt.reports.paper_parts import (
    Compared,
    Part,
    compared,
    error_sentence,
    mean_speedups,
    of_block,
    published_series,
    size_figure,
    speedups,
)
from themis_opt.reports.published import Curves, Published
from themis_opt.reports.results import Result, by_policy, gaps, grouped
from themis_opt.reports.rows import Row
from themis_opt.reports.statistics import spread

BLOCK = "figures 8 and 11"
MICROSECOND = 1000.0
"""Nanoseconds."""

DOTTED = "Dotted: published."
Value = Callable[[Result], float | None]


def figure_8(found: Sequence[Result], rows: Sequence[Row], published: Published) -> Part | None:
    """Time over size."""
    runs = of_block(found, BLOCK)
    if not runs:
        return None
    axis = Axis("time", format="duration")
    figures = _figures(runs, published, published.figure_8_us, "figure-8", "Time", axis, MICROSECOND, _time)
    off = _errors(runs, published, published.figure_8_us, "Fig. 8", "time", MICROSECOND, _time)
    means = mean_speedups(runs)
    overall = compared("Fig. 8", "mean speed-up", [(means.get(p), v) for p, v in published.figure_8_speedup.items()])
    text = (
        "Speed-up is over the fixed order, as a geometric mean over all networks and sizes; the gap is to the best "
        f"proven bound. Points were published of {plural(len(published.figure_8_us), 'network')}.",
    )
    section = Section("Fig. 8: time by size", text, (_speedup_table(runs, published),), figures)
    said = (*map(error_sentence, off), *_speedup_sentences(runs, published), *_coverage(runs, published))
    return Part(section, (*off, *overall), said)


def _coverage(runs: Sequence[Result], published: Published) -> list[str]:
    """A warning if published means are over more networks and sizes than were run."""
    ran = len({run.row.fingerprint for run in runs})
    points = len(published.table_2) * len(published.size_mib)
    return [f"Figs. 8 and 11: published means are over {points} points, those here over {ran}."] if ran < points else []


def figure_11(found: Sequence[Result], rows: Sequence[Row], published: Published) -> Part | None:
    """Utilisation over size."""
    runs = of_block(found, BLOCK)
    if not any(run.row.utilisation for run in runs):
        return None
    axis = Axis("utilisation", format="percent")
    curves = published.figure_11_utilisation
    figures = _figures(runs, published, curves, "figure-11", "Utilisation", axis, 1.0, _utilisation)
    off = _errors(runs, published, curves, "Fig. 11", "utilisation", 1.0, _utilisation)
    known = published.figure_11_mean_utilisation
    means = {policy: _mean_utilisation(own) for policy, own in by_policy(runs).items()}
    columns = (Column("policy"), Column("mean utilisation", "percent"), Column("published", "percent"))
    table = Table(columns, tuple((policy, mean, known.get(policy)) for policy, mean in means.items()))
    overall = compared("Fig. 11", "mean utilisation", [(means.get(policy), value) for policy, value in known.items()])
    shown = ", ".join(
        f"{policy} {percent(mean)}" + (f" ({percent(known[policy])} published)" if policy in known else "")
        for policy, mean in means.items()
        if mean is not None
    )
    text = "Means over all networks and sizes."
    section = Section("Fig. 11: utilisation by size", (text,), (table,), figures)
    return Part(section, (*off, *overall), (f"Fig. 11, mean utilisation: {shown}.",))


def _time(run: Result) -> float:
    return run.makespan_ns


def _utilisation(run: Result) -> float | None:
    return run.row.utilisation


def _mean_utilisation(runs: Sequence[Result]) -> float | None:
    found = spread([run.row.utilisation for run in runs if run.row.utilisation is not None])
    return found.mean if found else None


def _figures(
    runs: Sequence[Result],
    published: Published,
    curves: Curves,
    stem: str,
    title: str,
    axis: Axis,
    scale: float,
    of: Value,
) -> tuple[Figure, ...]:
    """One figure for each network; published points times `scale` are what `of` gives."""
    made = []
    for number, (network, own) in enumerate(grouped(runs, lambda run: run.row.network).items(), 1):
        series = [_series(policy, part, of) for policy, part in by_policy(own).items()]
        for policy in by_policy(own):
            points = published.by_size(curves, network, policy)
            series += published_series(policy, {size: point * scale for size, point in points.items()})
        caption = DOTTED if any(part.guide for part in series) else "No points were published."
        made.append(size_figure(f"{stem}-{number}", f"{title} on {network}", axis, series, caption))
    return tuple(made)


def _series(policy: str, runs: Sequence[Result], of: Value) -> Series:
    points = sorted((run.row.size_bytes, value) for run in runs if (value := of(run)) is not None)
    return Series(policy, tuple(size for size, _ in points), tuple(value for _, value in points))


def _errors(
    runs: Sequence[Result], published: Published, curves: Curves, figure: str, what: str, scale: float, of: Value
) -> tuple[Compared, ...]:
    """One comparison for each policy, over all networks."""
    off: list[Compared] = []
    for policy, own in by_policy(runs).items():
        pairs = [(of(run), _point(run, policy, published, curves, scale)) for run in own]
        off += compared(figure, f"{what}, {policy}", pairs)
    return tuple(off)


def _point(run: Result, policy: str, published: Published, curves: Curves, scale: float) -> float | None:
    point = published.by_size(curves, run.row.network, policy).get(run.row.size_bytes)
    return None if point is None else point * scale


def _speedup_table(runs: Sequence[Result], published: Published) -> Table:
    columns = (
        Column("policy"),
        Column("speed-up", "factor"),
        Column("published", "factor"),
        Column("largest", "factor"),
        Column("published", "factor"),
        Column("mean gap", "percent"),
    )
    means, ratios = mean_speedups(runs), speedups(runs)
    rows = tuple(
        (
            policy,
            means[policy],
            published.figure_8_speedup.get(policy),
            max(ratios[policy]),
            published.figure_8_most.get(policy),
            numbers.mean if (numbers := spread(gaps(own))) else None,
        )
        for policy, own in by_policy(runs).items()
        if policy in means
    )
    return Table(columns, rows)


def _speedup_sentences(runs: Sequence[Result], published: Published) -> list[str]:
    ratios, said = speedups(runs), []
    for policy, mean in mean_speedups(runs).items():
        known, most = published.figure_8_speedup.get(policy), published.figure_8_most.get(policy)
        theirs = "beyond the paper" if known is None else f"{known:.2f} published"
        largest = f"{max(ratios[policy]):.2f} at most" + (f" ({most:.2f} published)" if most else "")
        said.append(f"Fig. 8, speed-up of {policy} over the fixed order: {mean:.3f} ({theirs}), {largest}.")
    return said

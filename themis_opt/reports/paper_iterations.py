"""Training iterations: figure 12 of the Themis paper, on 24 panels of workload and network."""

from collections.abc import Mapping, Sequence

from themis_opt.reports.document import Axis, Column, Figure, Section, Series, Table, Value
from themis_opt.reports.iteration_runs import ideal_times, iteration_runs
from themis_opt.reports.paper_panels import Panel, mean_less_exposed, panels_of, policies_of, speedups
from themis_opt.reports.paper_parts import BEYOND, Compared, Part, compared, error_sentence, of_block
from themis_opt.reports.published import IDEAL, Published
from themis_opt.reports.results import Result, grouped, policy_head
from themis_opt.reports.rows import Row
from themis_opt.reports.statistics import geometric_mean

BLOCK = "figure 12"

THEMIS, LARGEST = "themis+scf", "themis+scf_largest"
"""Two readings of smallest chunk first: by the bytes before a stage, and by the larger side of it."""

PARTS = ("compute", "exposed data", "exposed model")


def figure_12(found: Sequence[Result], rows: Sequence[Row], published: Published) -> Part | None:
    """Iteration times relative to the fixed order, and what they are made of."""
    panels = panels_of(iteration_runs(of_block(found, BLOCK)), ideal_times(rows), published)
    if not panels:
        return None
    workloads = grouped(panels, lambda panel: panel.workload)
    tables = (_speedup_table(workloads, published), _exposed_table(panels, published))
    bars = tuple(_bar_table(workload, own) for workload, own in workloads.items())
    figures = [_bars(number, workload, own) for number, (workload, own) in enumerate(workloads.items(), 1)]
    figures += [_parts(number, workload, own) for number, (workload, own) in enumerate(workloads.items(), 1)]
    text = (
        "Iteration times over that of the fixed order. Compute is the same for all policies; the rest is communication "
        "that the NPUs wait for, of data parallelism or of model parallelism. The ideal uses all bandwidth.",
        f"{THEMIS} puts the chunk with the fewest bytes before its stage first, {LARGEST} the one whose larger side is "
        "least; the paper leaves both readings open.",
    )
    off = (*_total_errors(panels), *_mean_errors(workloads, panels, published))
    section = Section("Fig. 12: training iterations", text, (*tables, *bars), tuple(figures))
    return Part(section, off, (*map(error_sentence, _total_errors(panels)), *_said(workloads, panels, published)))


def _speedup_table(workloads: Mapping[str, Sequence[Panel]], published: Published) -> Table:
    columns = (
        Column("workload"),
        Column("policy"),
        Column("speed-up", "factor"),
        Column("published", "factor"),
        Column("largest", "factor"),
        Column("published", "factor"),
    )
    rows: list[tuple[Value, ...]] = []
    for workload, panels in workloads.items():
        for policy in policies_of(panels):
            ratios = speedups(panels, policy)
            if ratios and policy_head(policy) != "baseline":
                known = _published_speedup(policy, workload, published)
                most = published.figure_12_most.get(workload) if policy in (THEMIS, LARGEST) else None
                rows.append((workload, policy, geometric_mean(ratios), known, max(ratios), most))
    return Table(columns, tuple(rows), "Speed-up over the fixed order, as a geometric mean over networks.")


def _published_speedup(policy: str, workload: str, published: Published) -> float | None:
    if policy == IDEAL:
        return published.figure_12_ideal.get(workload)
    return published.figure_12_speedup.get(workload) if policy in (THEMIS, LARGEST) else None


def _exposed_table(panels: Sequence[Panel], published: Published) -> Table:
    columns = (Column("policy"), Column("less exposed", "factor"), Column("published", "factor"))
    rows = tuple(
        (policy, mean, published.figure_12_less_exposed.get(policy))
        for policy in policies_of(panels)
        if policy_head(policy) != "baseline" and (mean := mean_less_exposed(panels, policy))
    )
    return Table(columns, rows, "How many times less communication is exposed, as a geometric mean over all panels.")


def _bar_table(workload: str, panels: Sequence[Panel]) -> Table:
    columns = (
        Column("network"),
        Column("policy"),
        Column("time", "duration"),
        *(Column(name, "percent") for name in ("total", *PARTS, "published total")),
    )
    rows: list[tuple[Value, ...]] = []
    for panel in panels:
        whole = panel.baseline.total if panel.baseline else None
        for policy in policies_of([panel]):
            bar = panel.bars[policy]
            parts = (bar.total, bar.compute, bar.data, bar.model)
            shares = [part / whole if whole and part is not None else None for part in parts]
            rows.append((panel.network, policy, bar.total, *shares, panel.published.get(policy)))
    caption = f"{workload}: parts of the iteration, over that of the fixed order. The ideal's waits are not split."
    return Table(columns, tuple(rows), caption)


def _bars(number: int, workload: str, panels: Sequence[Panel]) -> Figure:
    policies = _with_mean({p: [(x.network, x.share(p)) for x in panels] for p in policies_of(panels)})
    theirs = _with_mean({p: [(x.network, x.published.get(p)) for x in panels] for p in (THEMIS, IDEAL)})
    series = [Series(policy, *places) for policy, places in policies.items()]
    series += [Series(f"{policy}, published", *places) for policy, places in theirs.items()]
    return Figure(
        f"figure-12-{number}",
        f"Iteration time of {workload}, relative to the fixed order",
        "bar",
        Axis(""),
        Axis("iteration time over baseline", format="percent"),
        tuple(series),
    )


def _with_mean(
    heights: Mapping[str, Sequence[tuple[str, float | None]]],
) -> dict[str, tuple[tuple[str, ...], tuple[float, ...]]]:
    """Places and heights of those bars that are known, with the geometric mean as the last."""
    bars = {}
    for policy, pairs in heights.items():
        known = [(name, height) for name, height in pairs if height]
        mean = geometric_mean([height for _, height in known])
        if mean:
            shown = [*known, ("geometric mean", mean)]
            bars[policy] = tuple(name for name, _ in shown), tuple(height for _, height in shown)
    return bars


def _parts(number: int, workload: str, panels: Sequence[Panel]) -> Figure:
    """What an iteration is made of, as means over the networks."""
    policies = [policy for policy in policies_of(panels) if policy != IDEAL]
    heights: dict[str, list[float]] = {name: [] for name in PARTS}
    for policy in policies:
        shares = [
            [part / panel.baseline.total for part in (bar.compute, bar.data, bar.model or 0.0)]
            for panel in panels
            if panel.baseline and (bar := panel.bars.get(policy))
        ]
        for name, values in zip(PARTS, zip(*shares, strict=True), strict=False):
            heights[name].append(sum(values) / len(values))
    series = tuple(Series(name, tuple(policies), tuple(values)) for name, values in heights.items())
    return Figure(
        f"figure-12-parts-{number}",
        f"Parts of an iteration of {workload}",
        "stack",
        Axis(""),
        Axis("over the baseline's iteration", format="percent"),
        series,
        "Means over the networks.",
    )


def _total_errors(panels: Sequence[Panel]) -> tuple[Compared, ...]:
    """Whole bars, and their compute; both readings are set beside the one that was published."""
    off: tuple[Compared, ...] = ()
    for policy, theirs in ((THEMIS, THEMIS), (LARGEST, THEMIS), (IDEAL, IDEAL)):
        totals = [(panel.share(policy), panel.published.get(theirs)) for panel in panels]
        off += compared("Fig. 12", f"time over baseline, {policy}", totals)
    compute = [(p.baseline.compute / p.baseline.total, p.published_compute) for p in panels if p.baseline]
    return off + compared("Fig. 12", "compute over baseline", compute)


def _mean_errors(
    workloads: Mapping[str, Sequence[Panel]], panels: Sequence[Panel], published: Published
) -> tuple[Compared, ...]:
    """Mean speed-ups of the workloads, and how much less is exposed."""
    off: tuple[Compared, ...] = ()
    for policy, theirs in ((THEMIS, THEMIS), (LARGEST, THEMIS), (IDEAL, IDEAL)):
        means = {workload: geometric_mean(speedups(own, policy)) for workload, own in workloads.items()}
        pairs = [(mean, _published_speedup(policy, workload, published)) for workload, mean in means.items()]
        off += compared("Fig. 12", f"mean speed-up, {policy}", pairs)
        exposed = (mean_less_exposed(panels, policy), published.figure_12_less_exposed.get(theirs))
        off += compared("Fig. 12", f"less exposed, {policy}", [exposed])
    return off


def _said(workloads: Mapping[str, Sequence[Panel]], panels: Sequence[Panel], published: Published) -> list[str]:
    said = []
    for workload, own in workloads.items():
        ratios, known = speedups(own, THEMIS), _published_speedup(THEMIS, workload, published)
        if ratios:
            largest, beyond = (geometric_mean(speedups(own, policy)) for policy in (LARGEST, BEYOND))
            said.append(
                f"Fig. 12, {workload}: {THEMIS} is {geometric_mean(ratios):.3f} times as fast as the fixed order"
                + (f" ({known:.2f} published)" if known else "")
                + (f", {LARGEST} {largest:.3f}" if largest else "")
                + (f", {BEYOND} {beyond:.3f}." if beyond else ".")
            )
    for policy in (THEMIS, LARGEST, BEYOND, IDEAL):
        mean, known = mean_less_exposed(panels, policy), published.figure_12_less_exposed.get(policy)
        if mean:
            theirs = f", {known:.2f} published" if known else ""
            said.append(f"Fig. 12, exposed communication: {mean:.3f} times less with {policy}{theirs}.")
    expected = len(published.table_2) * len(published.figure_12_speedup)
    if len(panels) < expected:
        said.append(f"Fig. 12: published means are over {expected} panels, those here over {len(panels)}.")
    return said

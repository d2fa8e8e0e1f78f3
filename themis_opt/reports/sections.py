"""Sections, tables and sentences that several reports share."""

from collections.abc import Callable, Mapping, Sequence

from themis_opt.errors import InputError
from themis_opt.reports.cells import cell, percent, plural
from themis_opt.reports.document import Column, Section, Table, Value
from themis_opt.reports.results import Result, baseline_makespans, by_policy, gaps, grouped
from themis_opt.reports.rows import Row
from themis_opt.reports.statistics import Spread, geometric_mean, share, spread

MOST_ROWS = 200
"""Rows of a table that would else grow with the experiment."""

Statistic = Callable[[Spread], float]

STATISTICS: Mapping[str, Statistic] = {
    "median": lambda found: found.median,
    "mean": lambda found: found.mean,
    "largest": lambda found: found.largest,
}
"""What tables of gaps show."""


def require_bounds(found: Sequence[Result]) -> None:
    """Refuse results of which none has a bound.

    Raises
    ------
    InputError
        Naming the column that is empty.
    """
    if not gaps(found):
        raise InputError(
            "no makespan has a bound; run the policy 'bound' on the same instances", field="column bound_ns"
        )


def policy_tables(found: Sequence[Result]) -> tuple[Table, ...]:
    """Every policy: its runs, its speed-up over the fixed order, its gaps.

    If the policies ran different instances, a second table has only those that all of them ran.
    """
    tables = [_policy_table(found)]
    common = _common(found)
    if 0 < len(common) < len({result.row.fingerprint for result in found}):
        shared = [result for result in found if result.row.fingerprint in common]
        caption = f"The same on the {plural(len(common), 'instance')} that all policies ran."
        tables.append(_policy_table(shared, caption))
    return tuple(tables)


def coverage(found: Sequence[Result]) -> tuple[str, ...]:
    """A sentence of warning if the policies ran different instances."""
    if len(_common(found)) == len({result.row.fingerprint for result in found}):
        return ()
    return ("Not every policy ran every instance; means are over those that it ran.",)


def _common(found: Sequence[Result]) -> set[str]:
    """Fingerprints of the instances that all policies ran."""
    instances = [{run.row.fingerprint for run in runs} for runs in by_policy(found).values()]
    return set.intersection(*instances) if instances else set()


def _policy_table(found: Sequence[Result], caption: str = "") -> Table:
    columns = (
        Column("policy"),
        Column("runs", "count"),
        Column("speed-up", "factor"),
        Column("median gap", "percent"),
        Column("mean gap", "percent"),
        Column("largest gap", "percent"),
        Column("proven optimal", "count"),
    )
    baseline = baseline_makespans(found)
    rows = tuple(_policy_row(policy, runs, baseline) for policy, runs in by_policy(found).items())
    return Table(columns, rows, caption)


def _policy_row(policy: str, runs: Sequence[Result], baseline: Mapping[str, float]) -> tuple[Value, ...]:
    gap = spread(gaps(runs))
    shown = (gap.median, gap.mean, gap.largest) if gap else (None, None, None)
    return (policy, len(runs), mean_speedup(runs, baseline), *shown, sum(run.is_optimal for run in runs))


def mean_speedup(runs: Sequence[Result], baseline: Mapping[str, float]) -> float | None:
    """Geometric mean, over the runs whose instance the fixed order ran too, of how much faster they are than it."""
    return geometric_mean([ratio for run in runs if (ratio := speedup(run, baseline)) is not None])


def speedup(run: Result, baseline: Mapping[str, float]) -> float | None:
    """How many times faster than the fixed order a run is."""
    makespan = baseline.get(run.row.fingerprint)
    return None if makespan is None else makespan / run.makespan_ns


def gap_tables(found: Sequence[Result], key: Callable[[Row], int], form: str, name: str) -> tuple[Table, ...]:
    """One table per statistic of the gaps: policies down, values of `key` across."""
    values = sorted({key(result.row) for result in found})
    columns = (Column("policy"), *(Column(cell(value, form), "percent") for value in values))
    tables = []
    for statistic, of in STATISTICS.items():
        rows = tuple(
            (policy, *(_statistic(cells.get(value, []), of) for value in values))
            for policy, cells in _cells(found, key).items()
        )
        tables.append(Table(columns, rows, f"{statistic.capitalize()} gap by {name}."))
    return tuple(tables)


def _cells(found: Sequence[Result], key: Callable[[Row], int]) -> dict[str, dict[int, list[Result]]]:
    return {policy: grouped(runs, lambda run: key(run.row)) for policy, runs in by_policy(found).items()}


def _statistic(runs: Sequence[Result], of: Statistic) -> float | None:
    found = spread(gaps(runs))
    return of(found) if found else None


def optimal_sentence(found: Sequence[Result]) -> str:
    """How many instances have a schedule that is proven optimal."""
    instances = {result.row.fingerprint for result in found}
    optimal = {result.row.fingerprint for result in found if result.is_optimal}
    portion = share(len(optimal), len(instances)) or 0.0
    counted = f"{len(optimal)} of {plural(len(instances), 'instance')} ({percent(portion)})"
    return f"{counted} have a schedule within 0.01 % of a proven bound."


def warnings(rows: Sequence[Row], found: Sequence[Result]) -> list[str]:
    """What a reader must know before trusting the numbers: contradictions, and runs that have no result."""
    below = sum(result.is_below_bound for result in found)
    counts = {status: sum(row.status == status for row in rows) for status in ("failed", "interrupted")}
    left_out = [plural(number, f"{status} run") for status, number in counts.items() if number]
    said = [f"Left out: {', '.join(left_out)}."] if left_out else []
    if below:
        said.append(f"{plural(below, 'makespan')} below a bound, which is a bug: these numbers cannot be trusted.")
    return said


def unbounded(found: Sequence[Result]) -> list[str]:
    """A sentence on makespans that have no gap, because nothing bounds them."""
    number = sum(result.gap is None for result in found)
    return [f"{plural(number, 'makespan')} without a bound: no gap is known."] if number else []


def failures(rows: Sequence[Row]) -> tuple[Section, ...]:
    """A section on runs that failed, if there are any."""
    failed = [row for row in rows if row.status == "failed"]
    if not failed:
        return ()
    columns = (
        Column("instance"),
        Column("chunks", "count"),
        Column("policy"),
        Column("seed", "count"),
        Column("error"),
    )
    shown = tuple((row.instance, row.chunks, row.policy, row.seed, row.error) for row in failed[:MOST_ROWS])
    more = (f"The first {MOST_ROWS} of {len(failed)}.",) if len(failed) > MOST_ROWS else ()
    return (Section("Failed runs", more, (Table(columns, shown),)),)

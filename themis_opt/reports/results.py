"""Rows judged: the gap of every makespan to the best bound that is valid for it."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from themis_opt.reports.rows import BOUND, Row

SEARCHES = ("exact", "search")
"""Policies that use their time limit."""

REFERENCE = "exact"
"""The policy that proves bounds of its own."""

OPTIMAL = 1e-4
"""Gap up to which a schedule counts as proven optimal."""

ROUNDING = 1e-9
"""Relative error of a bound."""

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")


@dataclass(frozen=True)
class Result:
    """A makespan and what it is worth.

    Parameters
    ----------
    row : Row
        The run.
    policy : str
        Its policy, with those settings in which runs of that policy differ.
    makespan_ns : float
        Its makespan.
    bound_ns : float or None
        Best bound on this instance that is valid for the chunk sizes of the run.
    """

    row: Row
    policy: str
    makespan_ns: float
    bound_ns: float | None

    @property
    def gap(self) -> float | None:
        """Makespan over the bound, minus 1."""
        return None if self.bound_ns is None else self.makespan_ns / self.bound_ns - 1

    @property
    def is_optimal(self) -> bool:
        """Whether the bound proves that nothing is faster."""
        return self.gap is not None and self.gap <= OPTIMAL

    @property
    def is_below_bound(self) -> bool:
        """Whether the makespan contradicts the bound, which would be a bug."""
        return self.gap is not None and self.gap < -ROUNDING


def policy_head(policy: str) -> str:
    """The name at the head of a specification or of its label, such as ``exact`` of ``exact, 10 s``."""
    return policy.partition(",")[0].partition("+")[0].partition(":")[0]


def results(rows: Sequence[Row]) -> tuple[Result, ...]:
    """All makespans of runs that went well, in the order of the rows."""
    bounds = {sizes: best_bounds(rows, sizes) for sizes in {row.sizes for row in rows}}
    labels = _labels(rows)
    return tuple(
        Result(row, labels(row), row.makespan_ns, bounds[row.sizes].get(row.fingerprint))
        for row in rows
        if row.status == "ok" and row.policy != BOUND and row.makespan_ns is not None
    )


def best_bounds(rows: Iterable[Row], sizes: str) -> dict[str, float]:
    """Best bound of every instance, by fingerprint, for schedules with these chunk sizes.

    Bounds of `bound` runs hold for any sizes, but for those in `bound_equal_ns`.  What a search proved about
    equal chunks says nothing about others.
    """
    best: dict[str, float] = {}
    for row in rows:
        for bound in _valid_bounds(row, sizes):
            best[row.fingerprint] = max(bound, best.get(row.fingerprint, bound))
    return best


def _valid_bounds(row: Row, sizes: str) -> list[float]:
    if row.status == "failed":
        return []
    is_equal = sizes == "equal"
    holds = row.policy == BOUND or row.sizes != "equal" or is_equal
    proven = [row.bound_ns if holds else None, row.bound_equal_ns if is_equal else None]
    return [bound for bound in proven if bound is not None and bound > 0]


def _labels(rows: Iterable[Row]) -> Callable[[Row], str]:
    """How to name the policy of a row: searches with other sizes or time limits are told apart."""
    searches = [row for row in rows if policy_head(row.policy) in SEARCHES]
    sizes = grouped(searches, lambda row: row.policy)
    several_sizes = {policy for policy, runs in sizes.items() if len({run.sizes for run in runs}) > 1}
    several_limits = {policy for policy, runs in sizes.items() if len({run.time_limit for run in runs}) > 1}

    def label(row: Row) -> str:
        parts = [row.policy]
        if row.policy in several_sizes:
            parts.append(f"{row.sizes} sizes")
        if row.policy in several_limits and row.time_limit is not None:
            parts.append(f"{row.time_limit:g} s")
        return ", ".join(parts)

    return label


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Items by their key, keys in the order in which they first come."""
    groups: defaultdict[Key, list[Item]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return dict(groups)


def by_policy(found: Iterable[Result]) -> dict[str, list[Result]]:
    """Results of each policy."""
    return grouped(found, lambda result: result.policy)


def gaps(found: Iterable[Result]) -> list[float]:
    """The gaps of those results that have a bound."""
    return [result.gap for result in found if result.gap is not None]


def baseline_makespans(found: Iterable[Result]) -> Mapping[str, float]:
    """Makespan of the fixed order on every instance, by fingerprint; that of the first dispatch rule that was run."""
    runs = grouped((r for r in found if policy_head(r.policy) == "baseline"), lambda result: result.policy)
    first = next(iter(runs.values()), [])
    return {result.row.fingerprint: result.makespan_ns for result in first}

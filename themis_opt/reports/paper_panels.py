"""The panels of figure 12 of the Themis paper: a workload on a network, with one bar for each policy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from themis_opt.reports.iteration_runs import IterationRun, chunk_policy
from themis_opt.reports.published import IDEAL, Published
from themis_opt.reports.results import grouped, policy_head
from themis_opt.reports.statistics import geometric_mean

COMPUTE = ("fwd", "bwd")
"""Published parts of a bar that are compute, which is the same in all bars of a panel."""


@dataclass(frozen=True)
class Bar:
    """One bar: the parts of an iteration, in nanoseconds."""

    policy: str
    compute: float
    data: float
    model: float | None

    @property
    def exposed(self) -> float:
        """Communication that the NPUs wait for."""
        return self.data + (self.model or 0.0)

    @property
    def total(self) -> float:
        """Iteration time."""
        return self.compute + self.exposed


@dataclass(frozen=True)
class Panel:
    """The bars of a workload on a network, by policy, with the totals and the compute that were published."""

    workload: str
    network: str
    bars: Mapping[str, Bar]
    published: Mapping[str, float]
    published_compute: float | None

    @property
    def baseline(self) -> Bar | None:
        """The bar of the fixed order."""
        return next((bar for name, bar in self.bars.items() if policy_head(name) == "baseline"), None)

    def share(self, policy: str) -> float | None:
        """Iteration time over that of the fixed order."""
        known = policy in self.bars and self.baseline
        return self.bars[policy].total / self.baseline.total if known and self.baseline else None

    def less_exposed(self, policy: str) -> float | None:
        """How many times less communication is exposed than with the fixed order."""
        if policy not in self.bars or self.baseline is None or self.bars[policy].exposed <= 0:
            return None
        return self.baseline.exposed / self.bars[policy].exposed


def panels_of(runs: Sequence[IterationRun], ideals: Mapping[str, float], published: Published) -> list[Panel]:
    """The panels of some runs, with the ideal as one more policy where its time is known, by fingerprint."""
    titles = {name.lower(): name for name in (*published.figure_12_parts, *published.figure_12_speedup)}
    panels = []
    for fingerprint, own in grouped(runs, lambda run: run.row.fingerprint).items():
        row = own[0].row
        name = row.instance.rpartition(".")[2]
        workload = titles.get(name, name)
        known = published.figure_12_parts.get(workload, {}).get(row.network, {})
        totals = {policy: sum(parts.values()) for policy, parts in known.items()}
        compute = [sum(parts.get(name, 0.0) for name in COMPUTE) for parts in known.values()]
        bars = _bars(own, ideals.get(fingerprint))
        panels.append(Panel(workload, row.network, bars, totals, compute[0] if compute else None))
    return panels


def _bars(runs: Sequence[IterationRun], ideal: float | None) -> dict[str, Bar]:
    """The bars of a panel; `ideal` is the time of the ideal in nanoseconds."""
    bars = {}
    for run in runs:
        extra, name = run.extra, chunk_policy(run.policy)
        bars[name] = Bar(name, extra.compute_ns, extra.exposed_data_ns, extra.exposed_model_ns)
    if ideal is not None:
        compute = runs[0].extra.compute_ns
        bars[IDEAL] = Bar(IDEAL, compute, ideal - compute, None)
    return bars


def policies_of(panels: Sequence[Panel]) -> list[str]:
    """Policies of the bars, the ideal last."""
    names = dict.fromkeys(name for panel in panels for name in panel.bars if name != IDEAL)
    return [*names, *([IDEAL] if any(IDEAL in panel.bars for panel in panels) else [])]


def speedups(panels: Sequence[Panel], policy: str) -> list[float]:
    """How many times faster than the fixed order a policy is, on every panel that has both."""
    return [1 / share for panel in panels if (share := panel.share(policy))]


def mean_less_exposed(panels: Sequence[Panel], policy: str) -> float | None:
    """Geometric mean, over all panels, of how many times less communication is exposed; None without panels."""
    return geometric_mean([ratio for panel in panels if (ratio := panel.less_exposed(policy))])

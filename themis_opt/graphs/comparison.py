"""Plans on a graph side by side."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from math import inf

from formulations.interruption import TimeUp
from formulations.limits import Limits
from themis_opt.base.allowance import SLACK, Allowance, cut_off
from themis_opt.base.errors import InputError, InvalidSchedule, suggestion
from themis_opt.base.units import format_duration, format_percent, nanoseconds
from themis_opt.graphs.bounds import GraphBound, best_bound, graph_bounds
from themis_opt.graphs.plan import GraphPlan, merged_plan
from themis_opt.graphs.problem import GraphInstance
from themis_opt.graphs.registry import EXACT, GRAPH_POLICIES, GRAPH_SEARCHES, is_search
from themis_opt.graphs.schedule import GraphSchedule, in_best_chunks
from themis_opt.graphs.validation import validate_graph
from themis_opt.schedules.status import status_of

WORTH_SEARCHING = 0.01
"""Gap above which the search is asked by default: pipelines of many chunks are nearer."""

ENOUGH = 1.002
"""Multiple of the bound at which no other number of chunks is tried."""

FALLBACK = "direct"
"""The policy whose plan is made soonest."""


@dataclass(frozen=True, eq=False)
class GraphResult:
    """A validated schedule beside the bound of its instance, and perhaps one on schedules with as many chunks."""

    policy: str
    schedule: GraphSchedule
    proof: GraphBound
    class_bound: GraphBound | None = None

    @property
    def makespan(self) -> int:
        """Picoseconds until the last byte has arrived."""
        return self.schedule.makespan

    @property
    def bound(self) -> float:
        """Picoseconds that any algorithm needs."""
        return float(self.proof.picoseconds)

    @property
    def gap(self) -> float:
        """Makespan over the bound, minus 1."""
        return self.makespan / self.bound - 1

    @property
    def status(self) -> str:
        """``optimal``, ``near-optimal`` or ``feasible``, by the gap."""
        return status_of(self.gap)

    def row(self) -> dict[str, object]:
        """Plain values of a row of the table."""
        plan = self.schedule.plan
        return {
            "policy": self.policy,
            "makespan_ns": nanoseconds(self.makespan),
            "bound_ns": nanoseconds(self.bound),
            "gap": self.gap,
            "status": self.status,
            "algorithm_bandwidth": self.schedule.algorithm_bandwidth,
            "pieces": sum(piece.elements > 0 for piece in plan.pieces),
            "chunks": self.schedule.chunks,
        }


@dataclass(frozen=True, eq=False)
class GraphComparison:
    """The results of one instance, the fastest first, and why other policies are not among them.

    `interrupted`: whether Ctrl-C ended it before all were tried.
    `beside`: the sentence that compares another network, if there is one.
    `left_out`: policies for which there was no time.
    """

    instance: GraphInstance
    results: tuple[GraphResult, ...]
    refused: Mapping[str, str]
    interrupted: bool = False
    beside: str = ""
    left_out: tuple[str, ...] = ()

    @property
    def problem(self) -> GraphInstance:
        """The instance."""
        return self.instance

    @property
    def bounds(self) -> dict[str, float]:
        """Bounds on any algorithm in picoseconds, by name."""
        bounds = graph_bounds(self.instance).items()
        return {name: float(one.picoseconds) for name, one in bounds if one.holds == "any algorithm"}

    @property
    def best(self) -> GraphResult:
        """The fastest."""
        return self.results[0]

    @property
    def verdict(self) -> tuple[str, ...]:
        """What to know before the table."""
        best, bound = self.best, self.best.proof
        trees = best_bound(self.instance, trees=True)
        first = (
            f"{best.policy} takes {format_duration(best.schedule.makespan)} for {self.instance.kinds}, "
            f"{format_percent(best.gap)} above what any algorithm needs ({bound.meaning})."
        )
        lines = [self.beside, first] if self.beside else [first]
        if best.schedule.makespan >= trees.picoseconds > bound.picoseconds * (1 + WORTH_SAYING):
            gap = best.schedule.makespan / float(trees.picoseconds) - 1
            lines.append(f"It is {format_percent(gap)} above what any trees need ({trees.meaning}).")
        if best.class_bound is not None:
            gap = best.schedule.makespan / float(best.class_bound.picoseconds) - 1
            lines.append(f"It is {format_percent(gap)} above what {best.class_bound.meaning} need.")
        rival = next((result for result in self.results if not result.policy.startswith("trees")), None)
        if rival is not None and rival is not best:
            ratio = rival.schedule.makespan / best.schedule.makespan
            lines.append(f"{rival.policy}, the fastest of the others, takes {ratio:.2f} times as long.")
        return tuple(lines)


WORTH_SAYING = 1e-6


def compare_graph(
    instance: GraphInstance, policies: Iterable[str] | None = None, limits: Limits | None = None
) -> GraphComparison:
    """Plan, simulate and validate policies, by default all that are for the kind of collective, within limits.

    Searches follow that are named; with `limits` and no names all of them do, as long as the others leave a gap.
    Policies for which there is no time are left out; if none is in time, direct sends in one chunk stand for all.

    Raises
    ------
    InputError
        If there is no policy of a name, or no policy has a legal plan.
    """
    names = tuple(GRAPH_POLICIES) if policies is None else tuple(policies)
    _check_names(names)
    searches = [name for name in names if is_search(name)]
    if policies is None and limits is not None:
        searches = [*GRAPH_SEARCHES, EXACT]
    clock = Allowance(limits.seconds, limits.deterministic) if limits else Allowance(inf)
    run = _GraphRun(instance, best_bound(instance), clock)
    interrupted = False
    try:
        for name in names:
            if not is_search(name):
                run.plan(name)
        run.search(searches, limits or Limits(), only_if_worth=policies is None)
    except KeyboardInterrupt:
        if not run.results:
            raise
        interrupted = True
    if not run.results and run.left_out:
        run.plan_at_once(FALLBACK if policies is None else run.left_out[0])
    if not run.results:
        reasons = "; ".join(run.refused.values()) or "searches take fewer nodes and chunks than this graph has"
        raise InputError(f"no policy has a plan: {reasons}", field="--policies", value=", ".join(names))
    ranked = sorted(run.results.values(), key=lambda result: result.schedule.makespan)
    return GraphComparison(instance, tuple(ranked), run.refused, interrupted, left_out=tuple(run.left_out))


def _check_names(names: Sequence[str]) -> None:
    if not names or len(set(names)) < len(names):
        raise InputError("must name one or more policies, each once", field="--policies", value=", ".join(names))
    known = (*GRAPH_POLICIES, *GRAPH_SEARCHES, EXACT)
    for name in names:
        if name not in known:
            rule = f"must be one of {', '.join(known)}{suggestion(name, known)}"
            raise InputError(rule, field="--policies", value=name)


@dataclass
class _GraphRun:
    """The results so far, why other policies have none, and those for which there was no time."""

    instance: GraphInstance
    bound: GraphBound
    clock: Allowance
    results: dict[str, GraphResult] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def plan(self, name: str) -> None:
        """Add the schedule of a policy, if it is in time."""
        if self.results and self.clock.left <= 0:
            self.left_out.append(name)
            return
        try:
            with cut_off(self.clock, SLACK):
                enough = ENOUGH * float(self.bound.picoseconds)
                self._add(name, lambda: self._planned(name, enough))
        except TimeUp:
            self.left_out.append(name)

    def plan_at_once(self, name: str) -> None:
        """Add the schedule of a policy in one chunk, whatever the time."""
        self.left_out = [one for one in self.left_out if one != name]
        self._add(name, lambda: self._planned(name, inf))

    def _planned(self, name: str, enough: float) -> GraphResult:
        schedule = in_best_chunks(_plan(name, self.instance), enough, self.clock)
        return GraphResult(name, schedule, self.bound)

    def _add(self, name: str, make: Callable[[], GraphResult | None]) -> None:
        """Add a valid result, if one is made, to the others, or the reason to those refused."""
        try:
            result = make()
            if result is not None:
                validate_graph(result.schedule)
                self.results[name] = result
        except (InputError, InvalidSchedule) as error:
            self.refused[name] = error.rule if isinstance(error, InputError) else str(error)
        except Exception as error:  # whatever a policy of another package dies of, the others go on
            self.refused[name] = f"{type(error).__name__}: {error}"

    def search(self, names: Sequence[str], limits: Limits, *, only_if_worth: bool) -> None:
        """Add the results of searches that are for the instance, each of which has an equal part of the time left."""
        enough = float(self.bound.picoseconds) * (1 + (WORTH_SEARCHING if only_if_worth else 0))
        names = [name for name in names if _is_for(name, self.instance)]
        for place, name in enumerate(names):
            left = limits.seconds if limits.deterministic else min(self.clock.left, limits.seconds)
            upper = min((result.schedule.makespan for result in self.results.values()), default=None)
            if (upper is not None and upper <= enough) or left <= 0:
                return
            share = limits.within(left / (len(names) - place))
            with suppress(TimeUp), cut_off(self.clock, SLACK):
                self._add(name, partial(_searched, name, self.instance, share, self.bound, enough, upper))


def _plan(name: str, instance: GraphInstance) -> GraphPlan:
    """The plan of a policy; of several collectives those of each, at once. Raises InputError if it sends nothing."""
    plans = [GRAPH_POLICIES[name](single) for single in instance.singles]
    if not all(plan.transfers for plan in plans):
        raise InputError(f"{name} has no routes on this graph", field="--policies", value=name)
    return plans[0] if len(plans) == 1 else merged_plan(instance, plans)


def _is_for(name: str, instance: GraphInstance) -> bool:
    """Whether a search is for the kinds and the size of an instance."""
    if len(instance.collectives) > 1:
        return False
    if name != EXACT:
        return GRAPH_SEARCHES[name].is_for(instance)
    from themis_opt.graphs.exact import takes

    return takes(instance)


def _searched(
    name: str, instance: GraphInstance, limits: Limits, bound: GraphBound, enough: float, upper: int | None
) -> GraphResult | None:
    """The result of one search; none if there is none, or the exact one finds nothing faster."""
    if name != EXACT:
        schedule = GRAPH_SEARCHES[name].find(instance, limits, enough)
        return None if schedule is None else GraphResult(name, schedule, bound)
    from themis_opt.graphs.exact import best_routing

    reference = best_routing(instance, limits, math.ceil(bound.picoseconds), upper)
    if reference is None:
        return None
    words = f"schedules of {reference.chunks} equal chunks of each share"
    class_bound = GraphBound("chunks", Fraction(reference.proven), "chunks of one size", words)
    return GraphResult(name, reference.schedule, bound, class_bound)

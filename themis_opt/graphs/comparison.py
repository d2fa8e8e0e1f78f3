"""Plans on a graph side by side."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from formulations.interruption import TimeUp
from formulations.limits import MAX_SECONDS, Limits
from themis_opt.base.allowance import SLACK, cut_off
from themis_opt.base.errors import InputError, check_choice
from themis_opt.base.units import format_percent, format_short_time, nanoseconds
from themis_opt.graphs.bounds import GraphBound, each_bound, load_bound
from themis_opt.graphs.plan import merged_plan
from themis_opt.graphs.problem import GraphInstance
from themis_opt.graphs.rails import boxes_of
from themis_opt.graphs.registry import GRAPH_POLICIES, GRAPH_SEARCHES, is_search
from themis_opt.graphs.schedule import GraphSchedule, chunked_schedules
from themis_opt.graphs.steps import GraphContest
from themis_opt.schedules.incumbent import take_turns
from themis_opt.schedules.results import PolicyComparison, PolicyResult

WORTH_SEARCHING = 0.01  # gap above which the search is asked by default: pipelines of many chunks are nearer
ENOUGH = 1.002  # multiple of the bound at which no other number of chunks is tried
NEXT_TIMES = 4  # times as long as a number of chunks the next one takes, with its validation
MOST_DIRECT = 64  # NPUs up to which the plan of direct sends is made soonest; of more, that of few trees
SHARE_OF_BOUNDS = 1 / 2  # share of the time for bounds: where it is over, those that are there stand for all


@dataclass(frozen=True, eq=False, repr=False)
class GraphResult(PolicyResult):
    """A schedule, the bound of any algorithm, and perhaps one on schedules with as many chunks."""

    schedule: GraphSchedule
    proof: GraphBound
    class_bound: GraphBound | None = None

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


@dataclass(frozen=True, eq=False, repr=False)
class GraphComparison(PolicyComparison[GraphResult]):
    """The results of one instance, the fastest first, and bounds on any algorithm.

    `proofs`: all bounds by name.
    `beside`: the sentence that compares another network, if there is one.
    `choices`: what NCCL can be told on a network that lost something, with what each keeps.
    """

    problem: GraphInstance
    proofs: Mapping[str, GraphBound]
    beside: str = ""
    choices: tuple[Mapping[str, object], ...] = ()

    @property
    def makespans(self) -> dict[str, int]:
        """Picoseconds of each policy."""
        return {result.policy: result.schedule.makespan for result in self.results}

    @property
    def verdict(self) -> tuple[str, ...]:
        """What to know before the table."""
        best, bound = self.best, self.best.proof
        trees = max(self.proofs.values(), key=lambda one: one.picoseconds)
        first = (
            f"{best.policy} takes {format_short_time(best.schedule.makespan)} for {self.problem.kinds}, "
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


WORTH_SAYING = 1e-6  # share of a bound by which another one must be above it


def compare_graph(
    instance: GraphInstance, policies: Iterable[str] | None = None, limits: Limits | None = None
) -> GraphComparison:
    """Plan, simulate and validate policies, by default all that are for the kind of collective, within limits.

    Searches follow that are named; with `limits` and no names all of them do, as long as the others leave a gap.
    Policies for which there is no time are left out; the one that is planned soonest is the first.

    Raises InputError if there is no policy of a name, or no policy has a legal plan.
    """
    names = tuple(GRAPH_POLICIES) if policies is None else tuple(policies)
    _check_names(names)
    searches = [name for name in names if is_search(name)]
    if policies is None and limits is not None:
        searches = list(GRAPH_SEARCHES)
    limits = limits or Limits(seconds=Limits.seconds if searches else MAX_SECONDS)
    contest = GraphContest(instance, limits, gap=WORTH_SEARCHING if policies is None else 0.0)
    proofs = _prove(contest)
    bounds = {name: float(one.picoseconds) for name, one in proofs.items() if one.holds == "any algorithm"}
    proof = proofs[max(bounds, key=bounds.__getitem__)]
    contest.raise_bound(float(proof.picoseconds))
    plans = [name for name in names if not is_search(name)]
    if policies is None:
        plans.sort(key=lambda name: name != _soonest(instance))
    contest.attempt_each(
        plans, lambda name: schedules_of(instance, name, contest.value), ENOUGH * contest.bound, NEXT_TIMES
    )
    if not contest.done:  # searches take a second to be loaded
        take_turns(contest, [GRAPH_SEARCHES[name] for name in searches])
    contest.expect_schedules("searches take fewer nodes and chunks than this graph has")
    ranked = sorted(contest.schedules.items(), key=lambda row: row[1].makespan)
    results = (
        GraphResult(name, one, float(proof.picoseconds), proof, contest.class_bounds.get(one)) for name, one in ranked
    )
    return GraphComparison(instance, tuple(results), bounds, proofs, **contest.ends)


def _prove(contest: GraphContest) -> dict[str, GraphBound]:
    """The bounds for which there is time, and where that is none, the worst of single cuts."""
    proofs = dict[str, GraphBound]()
    with (
        suppress(TimeUp),
        contest.allowance.turn(SHARE_OF_BOUNDS * contest.left),
        cut_off(contest.allowance, SLACK / 2),
    ):
        for bound in each_bound(contest.instance):
            proofs[bound.name] = bound
    if not proofs:
        bound = load_bound(contest.instance)
        proofs[bound.name] = bound
    return proofs


def _soonest(instance: GraphInstance) -> str:
    """The policy whose plan is made soonest."""
    count, demands_of = instance.network.num_npus, [one.demand for one in instance.singles]
    if 1 < len(boxes_of(instance.network)) < count:
        return "hierarchical"
    return "direct" if count <= MOST_DIRECT or any(demand.personal for demand in demands_of) else "shortest"


def _check_names(names: Sequence[str]) -> None:
    if not names or len(set(names)) < len(names):
        raise InputError("must name one or more policies, each once", field="--policies", value=", ".join(names))
    known = (*GRAPH_POLICIES, *GRAPH_SEARCHES)
    for name in names:
        check_choice(name, known, "--policies")


def schedules_of(instance: GraphInstance, name: str, rival: float = math.inf) -> Iterator[GraphSchedule]:
    """The schedules of a policy; of several collectives the plans of each, at once.

    `rival`: as that of :func:`themis_opt.graphs.schedule.chunked_schedules`.

    Raises InputError if the policy sends nothing.
    """
    plans = [GRAPH_POLICIES[name](single) for single in instance.singles]
    if not all(len(plan.hops.link) for plan in plans):
        raise InputError(f"{name} has no routes on this graph", field="--policies", value=name)
    yield from chunked_schedules(plans[0] if len(plans) == 1 else merged_plan(instance, plans), rival)

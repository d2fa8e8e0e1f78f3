"""Near-optimal schedules of small messages on small graphs, by CP-SAT, with a proof for chunks of one size."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

from formulations.chunk_routing import ChunkRouting, RoutedChunk, RoutingProblem, RoutingStep
from formulations.flow_network import reversed_arcs
from formulations.limits import Limits
from themis_opt.base.units import PICOSECONDS_PER_SECOND
from themis_opt.graphs.bounds import GraphBound
from themis_opt.graphs.matching import Match, OwnedChunk, greedy_matching, matched_plan
from themis_opt.graphs.plan import GraphPlan, demands, routes_between
from themis_opt.graphs.problem import GraphInstance
from themis_opt.graphs.schedule import GraphSchedule, simulate_graph
from themis_opt.graphs.steps import GraphContest, GraphStep

MOST_NODES, MOST_INTERVALS = 16, 12_000
"""Nodes of a graph that the reference takes, and intervals of a model: in a minute larger ones find nothing."""

REFERENCE_CHUNKS = (1, 2, 4, 8)  # chunks of each share that are tried


def takes(instance: GraphInstance) -> bool:
    """Whether a graph is small enough, and data are either summed or copied."""
    return len(instance.network.nodes) <= MOST_NODES and not instance.demand.sums_for_all


def routed_schedules(contest: GraphContest) -> Iterator[GraphSchedule]:
    """Schedules of chunks of one size, each faster than all before; of models that are small enough.

    Without a schedule to beat they must be faster than one message after the other.  Each number of chunks has an equal
    part of the time that is left.
    """
    instance, lower = contest.instance, math.ceil(contest.bound)
    upper = _one_by_one(instance) if contest.best is None else contest.best.makespan
    counts = [count for count in _counts(instance) if _Search(instance, contest.limits, lower, upper).fits(count)]
    for place, count in enumerate(counts):
        seconds = contest.left / (len(counts) - place)
        search = _Search(instance, contest.solver_limits(seconds), lower, upper)
        plan = matched_plan("exact", instance, count, search.match)
        contest.allowance.charge(seconds)
        if plan.transfers and (schedule := simulate_graph(plan)).makespan < upper:
            upper = schedule.makespan
            proven, words = (
                search.proven * _shortest(instance, plan),
                f"schedules of {count} equal chunks of each share",
            )
            if proven >= contest.bound:
                contest.class_bounds[schedule] = GraphBound("chunks", proven, "chunks of one size", words)
            yield schedule


def _shortest(instance: GraphInstance, plan: GraphPlan) -> Fraction:
    """What the smallest chunk holds an arc at least, as a share of what the largest one does.

    Sizes differ by an element where shares do not divide.  The model takes all chunks for the largest; a schedule of
    less data is no shorter than that share of one whose holds and latencies are all longer.
    """
    elements = {piece.elements for piece in plan.pieces}
    holds = [[hold_of(instance, size, arc) for size in (min(elements), max(elements))] for arc in instance.network.arcs]
    return min(Fraction(least, most) for least, most in holds)


def hold_of(instance: GraphInstance, elements: int, arc: tuple[int, int]) -> int:
    """Picoseconds for which so many elements hold an arc."""
    size = elements * instance.collective.element_bytes * PICOSECONDS_PER_SECOND
    return math.ceil(size / instance.network.arcs[arc])


GRAPH_SEARCH = GraphStep("exact", takes, routed_schedules, "cp_sat")


def _one_by_one(instance: GraphInstance) -> int:
    """Picoseconds of more messages than there can be."""
    network, collective = instance.network, instance.collective
    slowest = collective.size * PICOSECONDS_PER_SECOND / min(network.arcs.values()) + max(network.latencies.values())
    return math.ceil(slowest) * len(network.nodes) ** 2


def _counts(instance: GraphInstance) -> tuple[int, ...]:
    """Chunks of each share; a root has the whole buffer."""
    return tuple(4 * count for count in REFERENCE_CHUNKS) if instance.demand.rooted else REFERENCE_CHUNKS


@dataclass
class _Search:
    """A matching by the constraint programme."""

    instance: GraphInstance
    limits: Limits
    lower: int
    upper: int
    proven: int = field(default=0)

    def fits(self, count: int) -> bool:
        """Whether the model of so many chunks of each share is small enough."""
        network = self.instance.network
        intervals = sum(len(route) - 1 for route in routes_between(network.arcs, network.capacities.terminals))
        return len(demands(self.instance)) * count * intervals <= MOST_INTERVALS

    def match(self, chunks: Sequence[OwnedChunk], elements: int, turned: bool) -> list[Match]:
        """The order of steps in a schedule of least makespan, or of a greedy one if the search finds no better."""
        problem, tick = self._problem(chunks, elements, turned)
        lower = max(problem.least(), -(-self.lower // tick))
        steps = self._greedy_steps(problem, chunks, elements, turned)
        upper = max((step.starts[-1] + problem.lengths[step.route[-2], step.route[-1]] for step in steps), default=0)
        upper = min(upper or self.upper // tick, self.upper // tick)
        if lower < upper:
            model = ChunkRouting(problem, lower, upper)
            model.hint(steps)
            outcome = model.solve(self.limits, lambda *_: None)
            lower, steps = max(lower, outcome.bound), outcome.steps or steps
        self.proven = lower * tick
        return [(step.chunk, step.route) for step in steps]

    def _problem(self, chunks: Sequence[OwnedChunk], elements: int, turned: bool) -> tuple[RoutingProblem, int]:
        """Times are in the largest unit of which all are multiples."""
        network = self.instance.network
        hold = {arc: hold_of(self.instance, elements, arc) for arc in network.arcs}
        tick = math.gcd(*hold.values(), *network.latencies.values())
        hold_ticks, latency_ticks = (
            {arc: time // tick for arc, time in times.items()} for times in (hold, network.latencies)
        )
        routed = [
            RoutedChunk(
                chunk.owner,
                frozenset(network.capacities.terminals if chunk.target is None else (chunk.target,)) - {chunk.owner},
            )
            for chunk in chunks
        ]
        npus, arcs = network.capacities.terminals, reversed_arcs(network.arcs) if turned else network.arcs
        problem = RoutingProblem(
            len(network.nodes),
            routed,
            routes_between(arcs, npus),
            *(reversed_arcs(times) if turned else times for times in (hold_ticks, latency_ticks)),
        )
        return problem, tick

    def _greedy_steps(
        self, problem: RoutingProblem, chunks: Sequence[OwnedChunk], elements: int, turned: bool
    ) -> tuple[RoutingStep, ...]:
        """A greedy matching with its times; none for an all-to-all."""
        if self.instance.demand.personal:
            return ()
        return tuple(_timed(problem, greedy_matching(self.instance, self.limits.seed)(chunks, elements, turned)))


def _timed(problem: RoutingProblem, matches: Sequence[Match]) -> Iterator[RoutingStep]:
    """Matches one after the other as early as they can be."""
    free: dict[tuple[int, int], int] = {}
    arrival = {(number, chunk.source): 0 for number, chunk in enumerate(problem.chunks)}
    for chunk, route in matches:
        ready, starts = arrival[chunk, route[0]], list[int]()
        for arc in pairwise(route):
            starts.append(max(ready, free.get(arc, 0)))
            free[arc], ready = starts[-1] + problem.hold[arc], starts[-1] + problem.lengths[arc]
        arrival[chunk, route[-1]] = ready
        yield RoutingStep(chunk, route, tuple(starts))

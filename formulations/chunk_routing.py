r"""Chunk routing: over which links chunks of one size go and when, a constraint programme with latency.

Sets and data
    Terminals N, arcs e with the time :math:`d_e` that a chunk holds it and the latency :math:`a_e` after that; routes r
    from a terminal to a terminal over switches, with arcs :math:`e_{r1}, e_{r2}, \dots`.  Chunks k, each with a source
    and the terminals :math:`W_k` that want it.

Variables
    - :math:`x_{kr} \in \{0, 1\}`, whether chunk k goes over route r;
    - :math:`s_{krh} \ge 0`, when it starts on the h-th arc of it;
    - :math:`A_{kv}`, when terminal v has chunk k, 0 at its source;
    - :math:`T`, the objective.

Objective
    minimise :math:`T`

Constraints
    1. *delivery*: :math:`\sum_{r\ \text{to}\ v} x_{kr} = 1` for :math:`v \in W_k`; elsewhere it is at most 1, and
       at least :math:`x_{kr}` of every route from v but at the source;
    2. *order*: where :math:`x_{kr} = 1`, :math:`s_{kr1} \ge A_{kv}` for the begin v of r,
       :math:`s_{kr,h+1} \ge s_{krh} + d + a`, and :math:`A_{kw} \ge s + d + a` for its end w and last arc;
    3. *links*: what goes over an arc does not overlap;
    4. *objective*: :math:`T \ge A_{kv}` for :math:`v \in W_k`;
    5. *distance*: :math:`A_{kv}` is at least the distance from the source under :math:`d_e + a_e`;
    6. *loads*: what goes over an arc e that is used takes at most :math:`T - a_e` minus the least distance of a source
       to it; :math:`u_e \in \{0, 1\}` is at least every :math:`x_{kr}` of a route over e;
    7. *bounds*: :math:`L \le T \le H`.

The solver's bound holds for all schedules with chunks of this size that are received whole before they are passed on;
(5) and (6) are implied, and strengthen relaxations.  Sums into a terminal are such a schedule backwards, on the graph
turned around.  Models of this kind are those of SCCL (https://doi.org/10.1145/3437801.3441620) and TE-CCL
(https://doi.org/10.1145/3651890.3672249), which have rounds and epochs in the place of start times.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from ortools.sat.python import cp_model

from formulations.cp_sat import SolverProgress, search
from formulations.edge_splitting import Route
from formulations.flow_network import IntArray, distances, reversed_arcs
from formulations.limits import Limits


class RoutedChunk(NamedTuple):
    """A chunk: who has it, and who wants it."""

    source: int
    wants: frozenset[int]


class RoutingStep(NamedTuple):
    """A chunk by its number, a route, and when it starts on each arc of it."""

    chunk: int
    route: Route
    starts: tuple[int, ...]


@dataclass(frozen=True)
class RoutingProblem:
    """Chunks, routes, and picoseconds of arcs: those that a chunk holds it, and the latency."""

    num_nodes: int
    chunks: Sequence[RoutedChunk]
    routes: Sequence[Route]
    hold: Mapping[tuple[int, int], int]
    latency: Mapping[tuple[int, int], int]

    @property
    def lengths(self) -> dict[tuple[int, int], int]:
        """What a chunk takes over each arc."""
        return {arc: hold + self.latency[arc] for arc, hold in self.hold.items()}

    def least(self) -> int:
        """The longest distance of a chunk to who wants it."""
        return int(max(self.reach(chunk.source)[[*chunk.wants]].max() for chunk in self.chunks))

    def reach(self, source: int) -> IntArray:
        """The distance of each node from one."""
        return distances(self.num_nodes, self.lengths, [source])


@dataclass(frozen=True)
class RoutingOutcome:
    """Steps in the order of their starts (None without a solution), proven bound and status of the search."""

    steps: tuple[RoutingStep, ...] | None
    bound: int
    status: str


class ChunkRouting:
    """The model.

    `lower`, `upper`: a bound, and the makespan of some schedule.
    """

    def __init__(self, problem: RoutingProblem, lower: int, upper: int) -> None:
        self.problem, self._upper = problem, upper
        self.model = cp_model.CpModel()
        self.model.name = "chunk_routing"
        self.makespan = self.model.new_int_var(lower, upper, "makespan")  # (7)
        self._used: dict[tuple[int, Route], cp_model.IntVar] = {}
        self._starts: dict[tuple[int, Route], list[cp_model.IntVar]] = {}
        self._on_arc: dict[tuple[int, int], list[tuple[cp_model.IntVar, cp_model.IntervalVar]]] = {}
        self._reach = {chunk.source: problem.reach(chunk.source).tolist() for chunk in problem.chunks}
        self._arrivals = [self._arrivals_of(number) for number in range(len(problem.chunks))]
        for number in range(len(problem.chunks)):
            self._order(number)
            self._delivery(number)
        self._links()
        self.model.minimize(self.makespan)

    def solve(self, limits: Limits, report: SolverProgress) -> RoutingOutcome:
        """Search within limits; `report` hears of every better solution and bound."""
        variables = [*self._used.values(), *(start for starts in self._starts.values() for start in starts)]
        outcome = search(self.model, variables, limits, report)
        value = outcome.value
        if value is None:
            return RoutingOutcome(None, int(outcome.bound), outcome.status)
        steps = [
            RoutingStep(chunk, route, tuple(value[start.index] for start in self._starts[chunk, route]))
            for (chunk, route), used in self._used.items()
            if value[used.index]
        ]
        return RoutingOutcome(tuple(sorted(steps, key=lambda step: step.starts)), int(outcome.bound), outcome.status)

    def hint(self, steps: Sequence[RoutingStep]) -> None:
        """Suggest the steps of a schedule."""
        used = {(step.chunk, step.route): step.starts for step in steps}
        for key, variable in self._used.items():
            self.model.add_hint(variable, key in used)
            for start, value in zip(self._starts[key], used.get(key, ()), strict=False):
                self.model.add_hint(start, value)

    def _arrivals_of(self, number: int) -> dict[int, cp_model.IntVar]:
        """(4) and (5)."""
        chunk = self.problem.chunks[number]
        reach = self._reach[chunk.source]
        terminals = sorted({end for route in self.problem.routes for end in (route[0], route[-1])})
        arrivals = {
            node: self.model.new_int_var(reach[node], 0 if node == chunk.source else self._upper, f"a{number}_{node}")
            for node in terminals
            if reach[node] <= self._upper
        }
        for node in chunk.wants:
            self.model.add(self.makespan >= arrivals[node])
        return arrivals

    def _order(self, number: int) -> None:
        """(2), with the intervals of (3)."""
        arrivals, source = self._arrivals[number], self.problem.chunks[number].source
        beyond = self._beyond(number)
        for route in self.problem.routes:
            if route[0] not in arrivals or route[-1] not in arrivals or route[-1] == source:
                continue
            length = sum(self.problem.lengths[arc] for arc in pairwise(route))
            if self._reach[source][route[0]] + length + beyond[route[-1]] > self._upper:
                continue
            used = self.model.new_bool_var(f"x{number}_{route}")
            self._used[number, route] = used
            starts, ready = self._starts.setdefault((number, route), []), arrivals[route[0]]
            for arc in pairwise(route):
                start = self.model.new_int_var(0, self._upper, f"s{number}_{route}_{arc}")
                self.model.add(start >= ready).only_enforce_if(used)
                interval = self.model.new_optional_fixed_size_interval_var(start, self.problem.hold[arc], used, "")
                self._on_arc.setdefault(arc, []).append((used, interval))
                starts.append(start)
                ready = start + self.problem.lengths[arc]
            self.model.add(arrivals[route[-1]] >= ready).only_enforce_if(used)

    def _beyond(self, number: int) -> list[int]:
        """The distance of each node to the nearest terminal that wants a chunk: none is too late on the way there."""
        turned, wants = reversed_arcs(self.problem.lengths), self.problem.chunks[number].wants
        beyond: list[int] = distances(self.problem.num_nodes, turned, [*wants]).tolist()
        return beyond

    def _delivery(self, number: int) -> None:
        """(1)."""
        wants = self.problem.chunks[number].wants
        entering: dict[int, list[cp_model.IntVar]] = {}
        for (chunk, route), used in self._used.items():
            if chunk == number:
                entering.setdefault(route[-1], []).append(used)
        for node, variables in entering.items():
            if node in wants:
                self.model.add_exactly_one(variables)
            else:
                self.model.add_at_most_one(variables)
                for (chunk, route), used in self._used.items():
                    if chunk == number and route[0] == node:
                        self.model.add(used <= sum(variables))

    def _links(self) -> None:
        """(3) and (6)."""
        sources = {chunk.source for chunk in self.problem.chunks}
        for arc, uses in self._on_arc.items():
            self.model.add_no_overlap([interval for _, interval in uses])
            first = min(self._reach[source][arc[0]] for source in sources)
            load = sum(used for used, _ in uses) * self.problem.hold[arc]
            is_used = self.model.new_bool_var(f"arc {arc[0]} > {arc[1]} is used")
            self.model.add_max_equality(is_used, [used for used, _ in uses])
            self.model.add(load + (first + self.problem.latency[arc]) * is_used <= self.makespan)

r"""Order trees: proofs about the integer flow of :mod:`formulations.order_count` that are checked without a solver.

Sets and data
    Job classes j of :math:`C_j` equal jobs; stages, windows :math:`w` with their :math:`F_w, h_w, t_w`, and the known
    bound L as in :mod:`formulations.head_tail`, where :math:`d_s` is the integer duration of one job.
    A node has limits :math:`l_e \le x_e \le u_e` of some arcs e; heads and tails there know no arc with
    :math:`u_e = 0`.

Variables
    :math:`x_{jqe} \in \{0..C_j\}`, jobs of class j that take arc e in layer q; :math:`T`, the makespan.

Objective
    minimise :math:`T`

Constraints of a node
    1. each layer carries :math:`C_j` units of flow from the empty set to the full one; what goes around the lattice
       or back costs so much that a node without flow has a large bound;
    2. :math:`T \ge h_w + \sum_{s \in F_w} d_s x_{e(s)} + t_w` for windows as in (2) there;
    3. :math:`l_e \le x_e \le u_e`.

A node is divided at an arc into those with :math:`x_e \le n` and :math:`x_e \ge n + 1`, so the least bound of all
leaves holds for every integer flow.  That of a leaf is a Lagrangian relaxation: for weights :math:`\lambda_w \ge 0`
with sum 1, and any prices :math:`\mu_e`,

.. math:: T \ge \sum_w \lambda_w (h_w + t_w) + \sum_{jq} C_j \min_{paths} \Big(\sum_w \lambda_w d - \mu\Big)
          + \sum_e \min(\mu_e l_e, \mu_e u_e).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ortools.linear_solver import pywraplp

from formulations.head_tail import LoadWindow, MachineStages, Variable, WindowProgramme, stages_by_machine, violated
from formulations.lattice import Arc, JobClass, arcs
from formulations.linear import add_unit_flow

AROUND = 4.0  # what a job that takes no arc costs, in multiples of what is to be proven: any number above 1
ROUNDS = 8  # in which windows are added to a node: a child goes on where its parent stopped
WHOLE = 1e-6  # distance from a whole number at which a flow counts as one

ArcLimits = Mapping[Variable, tuple[int, int]]


@dataclass(frozen=True)
class Leaf:
    """Weights of windows, and prices of arcs with limits, which prove what is asked for."""

    weights: Mapping[LoadWindow, float]
    prices: Mapping[Variable, float]


@dataclass(frozen=True)
class Division:
    """A node: at most so many jobs take an arc, or more."""

    variable: Variable
    most: int
    fewer: "OrderTree"
    more: "OrderTree"


OrderTree = Leaf | Division


class TooLarge(Exception):
    """No tree of so many leaves proves it."""


class OrderTreeProof:
    """The search for a tree, the fewer side first.

    `jobs`: classes of jobs with integer durations, not mirrored.
    `known`: a bound known before.
    `target`: what is to be proven.
    `leaves`: most leaves.
    """

    def __init__(self, jobs: Sequence[JobClass], known: float, target: float, leaves: int) -> None:
        self._jobs, self._known, self._target, self._left = jobs, known, target, leaves
        self._count = {
            (j, q, arc): job.count
            for j, job in enumerate(jobs)
            for q in range(len(job.phases))
            for arc in arcs(job.machines)
        }

    def tree(self, limits: ArcLimits | None = None) -> OrderTree:
        """A tree below some limits.  Raises TooLarge."""
        limits = limits or {}
        leaf, flow = self._relaxed(limits)
        if leaf is not None:
            self._left -= 1
            return leaf
        if self._left <= 1:
            raise TooLarge
        variable, most = self._divided(flow, limits)
        low, high = limits.get(variable, (0, self._count[variable]))
        self._left -= 1  # for the other side
        fewer = self.tree({**limits, variable: (low, most)})
        self._left += 1
        return Division(variable, most, fewer, self.tree({**limits, variable: (most + 1, high)}))

    def _divided(self, flow: Mapping[Variable, float], limits: ArcLimits) -> tuple[Variable, int]:
        """The arc to divide at: with a flow that is not whole, else unused and not yet forbidden; outer ones first."""
        fractions = {variable: abs(value - round(value)) for variable, value in flow.items()}
        outer = [variable for variable in flow if self._is_outer(variable)]
        for pool in (outer, list(flow)):
            variable = max(pool, key=lambda each: round(fractions[each], 6))
            if fractions[variable] > WHOLE:
                return variable, math.floor(flow[variable])
        unused = [each for each in outer if round(flow[each]) == 0 and limits.get(each, (0, 1))[1] > 0]
        if not unused:
            raise TooLarge
        return unused[0], 0

    def _is_outer(self, variable: Variable) -> bool:
        """Whether an arc is the first of its job or the last."""
        j, layer, (visited, k) = variable
        job = self._jobs[j]
        return (layer == 0 and not visited) or (layer == len(job.phases) - 1 and (visited, k) == job.last_arc(k))

    def _relaxed(self, limits: ArcLimits) -> tuple[Leaf | None, dict[Variable, float]]:
        """A leaf if the node has one, else the flow of its relaxation."""
        stages = self._stages(limits)
        node = _NodeProgramme(self._jobs, stages, limits, self._target)
        windows = [LoadWindow(k, float(s.heads.min()), float(s.tails.min())) for k, s in sorted(stages.items())]
        flow: dict[Variable, float] = {}
        for _ in range(ROUNDS):
            bound, leaf, flow = node.bounded(windows)
            if bound >= self._target:
                return leaf, flow
            windows = [w for k, s in sorted(stages.items()) for w in violated(k, s, flow, bound, self._known)]
            if not windows:
                break
        return None, flow

    def _stages(self, limits: ArcLimits) -> dict[int, MachineStages]:
        """The stages that the limits allow."""
        forbidden = {variable for variable, (_, high) in limits.items() if not high}
        least = [_without(job, j, forbidden) for j, job in enumerate(self._jobs)]
        return {
            k: allowed for k, s in stages_by_machine(self._jobs, least).items() if (allowed := _allowed(s, forbidden))
        }


def _without(job: JobClass, j: int, forbidden: Iterable[Variable]) -> JobClass:
    """A class of jobs that cannot end an arc in finite time."""
    absent = {(layer, arc) for owner, layer, arc in forbidden if owner == j}
    phases = tuple(
        replace(phase, duration={arc: math.inf if (q, arc) in absent else d for arc, d in phase.duration.items()})
        for q, phase in enumerate(job.phases)
    )
    return replace(job, phases=phases)


def _allowed(stages: MachineStages, forbidden: Iterable[Variable]) -> MachineStages | None:
    """The stages that can be reached and left, if there are any."""
    forbidden = set(forbidden)
    places = [
        i
        for i, variable in enumerate(stages.variables)
        if variable not in forbidden and math.isfinite(stages.heads[i] + stages.tails[i])
    ]
    if not places:
        return None
    variables = tuple(stages.variables[i] for i in places)
    return MachineStages(stages.heads[places], stages.tails[places], stages.durations[places], variables)


class _NodeProgramme(WindowProgramme):
    """The linear programme of a node."""

    def __init__(
        self, jobs: Sequence[JobClass], stages: Mapping[int, MachineStages], limits: ArcLimits, target: float
    ) -> None:
        self._limits, self._target = limits, target
        super().__init__(jobs, stages, target)

    def add_flow(self, j: int, layer: int, job: JobClass) -> dict[Arc, pywraplp.Variable]:
        """(1) and (3), with what goes around the lattice, and back."""
        solver = self.programme.solver
        if not self.flow:
            self._around = self.programme.row(0)
        limits = {arc: self._limits.get((j, layer, arc), (0, solver.infinity())) for arc in arcs(job.machines)}
        flows, balance = add_unit_flow(solver, job, f"flow_{j}_{layer}", limits, job.count)
        for way, sign in (("around", +1), ("back", -1)):
            detour = solver.NumVar(0, solver.infinity(), f"{way}_{j}_{layer}")
            balance[0].SetCoefficient(detour, -sign)
            balance[job.everything].SetCoefficient(detour, sign)
            self._around.SetCoefficient(detour, -AROUND)
        return flows

    def bounded(self, windows: Iterable[LoadWindow]) -> tuple[float, Leaf, dict[Variable, float]]:
        """With these windows added: the bound, what proves it, and the flow."""
        self.add(windows)
        if self.programme.solver.Solve() != pywraplp.Solver.OPTIMAL:
            raise TooLarge
        weights = {window: row.dual_value() for window, row in self.rows.items() if row.dual_value() > 0}
        prices = {each: self.flow[each].reduced_cost() * self._target for each in self._limits}
        leaf = Leaf(weights, {each: price for each, price in prices.items() if price})
        return self.programme.makespan, leaf, self.values

r"""Heads and tails: the fluid relaxation where every stage also has to be reached, and to be followed by the rest.

Sets and data
    As in :mod:`formulations.fluid`.  A stage :math:`s` of class j on resource k starts no earlier than its head
    :math:`h_s`, the release of j and the least passage of one job through all stages before; after its end at least its
    tail :math:`t_s` goes by, the lag of the stage and the least passage through all stages after it.
    Windows :math:`w`: a resource :math:`k_w` and the set :math:`F_w` of its stages with :math:`h_s \ge h_w` and
    :math:`t_s \ge t_w`.

Variables
    :math:`x_{jqe} \ge 0`, the fraction of class j that takes arc e; :math:`T`, the makespan.

Objective
    minimise :math:`T`

Constraints
    1. each layer carries one unit of flow from the empty set to the full one;
    2. :math:`T \ge h_w + \sum_{s \in F_w} d_s x_{e(s)} + t_w` for every window w with :math:`h_w + t_w \le L`, where
       L is a bound known before.

It bounds every schedule from below: if a stage of :math:`F_w` is used, the first starts at :math:`h_w` or later, they
do not overlap, and after the last at least :math:`t_w` goes by; if none is, the right side is
:math:`h_w + t_w \le L`.
It is the one-machine bound of J. Carlier (1982, https://doi.org/10.1016/S0377-2217(82)80007-6), with the loads of
the fluid relaxation.  Windows are added where they are violated; the bound returned is a Lagrangian relaxation as
in :mod:`formulations.fluid`, and valid whichever windows are there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from ortools.linear_solver import pywraplp

from formulations.lattice import Arc, JobClass, arcs, cheapest_path, cheapest_paths
from formulations.linear import BoolArray, FloatArray, LoadProgramme, add_unit_flow

# Most rounds in which violated windows are added, should they never end: half as many give the same bounds
MAX_ROUNDS = 30
# Most heads that are tried for a window on one machine, so that many releases do not take more than seconds
MAX_HEADS = 64
# Violation, as a fraction of the makespan, from which a window is added: above the tolerance of the solver
LEAST_VIOLATION = 1e-7

Variable = tuple[int, int, Arc]  # class, layer and arc


@dataclass(frozen=True)
class MachineStages:
    """The stages on one resource, one entry each: heads, tails, durations, and the arcs that use them."""

    heads: FloatArray
    tails: FloatArray
    durations: FloatArray
    variables: tuple[Variable, ...]


@dataclass(frozen=True)
class LoadWindow:
    """A constraint of family (2)."""

    machine: int
    head: float
    tail: float

    def holds(self, stages: MachineStages) -> BoolArray:
        """Which stages of the machine are in the window."""
        inside: BoolArray = (stages.heads >= self.head) & (stages.tails >= self.tail)
        return inside


def head_tail_proof(
    jobs: Sequence[JobClass], least: Sequence[JobClass], known: float
) -> tuple[float, dict[LoadWindow, float]]:
    """Lower bound on the makespan, in the unit of the durations, and the weights of the windows that prove it.

    `jobs`: durations are those of a whole class.
    `least`: the same classes with the least durations and lags that one job can have; they make heads and tails.
    `known`: a bound known before, which no window proves.
    """
    on_machine = stages_by_machine(jobs, least)
    windows = [LoadWindow(k, float(s.heads.min()), float(s.tails.min())) for k, s in sorted(on_machine.items())]
    programme = WindowProgramme(jobs, on_machine)
    bound, proof = known, dict[LoadWindow, float]()
    for _ in range(MAX_ROUNDS):
        weights, flow, makespan = programme.solved(windows)
        if (proven := _weighted_bound(jobs, on_machine, weights)) > bound:
            bound, proof = proven, weights
        if not flow:
            break
        limit = makespan * (1 + LEAST_VIOLATION)
        windows = [w for k, s in sorted(on_machine.items()) for w in violated(k, s, flow, limit, known)]
        if not windows:
            break
    return bound, proof


def stages_by_machine(jobs: Sequence[JobClass], least: Sequence[JobClass]) -> dict[int, MachineStages]:
    """All stages, by the resource that they hold."""
    rows: dict[int, list[tuple[float, float, float, Variable]]] = {}
    for j, (job, one) in enumerate(zip(jobs, least, strict=True)):
        before, after = (
            [
                cheapest_paths(one.machines, partial(one.passage, number), 0.0, backwards=backwards)
                for number in range(len(one.phases))
            ]
            for backwards in (False, True)
        )
        whole = [passages[job.everything] for passages in before]
        for number, phase in enumerate(job.phases):
            for arc, duration in phase.duration.items():
                visited, k = arc
                head = job.release + sum(whole[:number]) + before[number][visited]
                tail = one.phases[number].lag[k] + after[number][visited | 1 << k] + sum(whole[number + 1 :])
                folded = job.mirrored and number == 1
                variable = (j, 0, job.mirror(arc)) if folded else (j, number, arc)
                rows.setdefault(phase.held(k), []).append((head, tail, duration, variable))
    stages: dict[int, MachineStages] = {}
    for k, on_machine in rows.items():
        heads, tails, durations, variables = zip(*on_machine, strict=True)
        stages[k] = MachineStages(np.array(heads, float), np.array(tails, float), np.array(durations, float), variables)
    return stages


def violated(
    machine: int, stages: MachineStages, flow: Mapping[Variable, float], limit: float, known: float
) -> list[LoadWindow]:
    """The window of the machine that the flow violates most, if it violates one."""
    load = stages.durations * np.array([flow[variable] for variable in stages.variables])
    order = np.argsort(-stages.tails, kind="stable")
    heads, tails, load = stages.heads[order], stages.tails[order], load[order]
    best, window = limit, None
    candidates = np.unique(heads)
    for head in candidates[:: -(-len(candidates) // MAX_HEADS)]:
        inside = (heads >= head) & (head + tails <= known * (1 + 1e-12))
        needed = np.where(inside, head + np.cumsum(load * (heads >= head)) + tails, 0.0)
        last = int(needed.argmax())
        if needed[last] > best:
            best, window = float(needed[last]), LoadWindow(machine, float(head), float(tails[last]))
    return [] if window is None else [window]


def _weighted_bound(
    jobs: Sequence[JobClass], on_machine: Mapping[int, MachineStages], weights: Mapping[LoadWindow, float]
) -> float:
    """A bound for any non-negative weights of the windows with sum 1."""
    bound = sum(weight * (window.head + window.tail) for window, weight in weights.items())
    costs = [[dict.fromkeys(arcs(job.machines), 0.0) for _ in job.layers(job.load)] for job in jobs]
    for window, weight in weights.items():
        stages = on_machine[window.machine]
        for i in np.flatnonzero(window.holds(stages)).tolist():
            j, layer, arc = stages.variables[i]
            costs[j][layer][arc] += weight * float(stages.durations[i])
    for job, layers in zip(jobs, costs, strict=True):
        bound += sum(cheapest_path(job.machines, layer) for layer in layers)
    return bound


class WindowProgramme:
    """The linear programme, to which windows are added."""

    def __init__(self, jobs: Sequence[JobClass], on_machine: Mapping[int, MachineStages]) -> None:
        longest = max(float(stages.durations.max()) for stages in on_machine.values())
        self._on_machine, self._programme = on_machine, LoadProgramme(longest or 1.0)
        self._rows: dict[LoadWindow, pywraplp.Constraint] = {}
        self._flow = {
            (j, layer, arc): flow
            for j, job in enumerate(jobs)
            for layer in range(job.num_layers)
            for arc, flow in add_unit_flow(self._programme.solver, job).items()  # (1)
        }

    def solved(self, windows: Iterable[LoadWindow]) -> tuple[dict[LoadWindow, float], dict[Variable, float], float]:
        """With these windows added: weights of all windows, flow and makespan; or equal weights and no flow."""
        for window in windows:
            self._add(window)
        weights, is_solved = self._programme.weights(self._rows)
        if not is_solved:
            return weights, {}, 0.0
        flow = {variable: column.solution_value() for variable, column in self._flow.items()}
        return weights, flow, self._programme.makespan

    def _add(self, window: LoadWindow) -> None:
        """(2)."""
        stages = self._on_machine[window.machine]
        row = self._rows[window] = self._programme.row(window.head + window.tail)
        for i in np.flatnonzero(window.holds(stages)).tolist():
            self._programme.load(row, self._flow[stages.variables[i]], float(stages.durations[i]))

r"""Way shares: how much of each demand goes which way, so that the last of it arrives early, a linear programme.

Sets and data
    Demands k, ways w of each, machines e (link directions).  A way uses machines: use u takes :math:`h_u` for the whole
    demand, begins :math:`\alpha_u` (its head) after the way at the earliest, and the way ends :math:`\beta_u` (its
    tail) after it.  :math:`L` is the length of the longest way, :math:`\alpha + \beta` at most.

Variables
    :math:`x_w \ge 0`, the share of way w; :math:`T`, the objective.

Objective
    minimise :math:`T`; of equal ones the solution of least total time of machines

Constraints
    1. :math:`\sum_{w\ \text{of}\ k} x_w = 1` for every demand;
    2. *windows*: :math:`\sum_{u\ \text{on}\ e,\ \alpha_u \ge r,\ \beta_u \ge q} h_u x_{w(u)} \le T - r - q` for every
       machine and all r, q that have such uses;
    3. :math:`T \ge L`.

What it says
    Heads and tails on one machine (J. Carlier, 1982, https://doi.org/10.1016/S0377-2217(82)80007-6): no schedule of
    these ways takes less, whatever their shares, as long as the longest is used.  It does not know that what waits at
    one machine comes late to the next one.

Method
    GLOP, with the rows of (2) that are violated added until there are none.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ortools.linear_solver import pywraplp

from formulations.linear import NO_CYCLING

MachineEnds = tuple[int, int]

WINDOW_VIOLATED, LEAST_USED = 1e-6, 1e-7
"""Share of the largest time by which a row must be violated, and the least that counts as used."""

MAX_WINDOW_ROUNDS, WORK_WEIGHT = 60, 1e-4
"""Most programmes that are solved, and what a unit of machine time costs of the objective."""


class MachineUse(NamedTuple):
    """What a way asks of a machine: head, tail, and the time for the whole demand."""

    machine: MachineEnds
    head: float
    tail: float
    hold: float


class DemandWay(NamedTuple):
    """A way of a demand by its number, its length and its uses of machines."""

    demand: int
    length: float
    uses: Sequence[MachineUse]


@dataclass(frozen=True)
class WayShares:
    """The optimum: its time, the share of each way, and how much of the time a unit of time on each machine costs."""

    time: float
    shares: list[float]
    prices: dict[MachineEnds, float]


class _Row(NamedTuple):
    """A window of a machine."""

    machine: MachineEnds
    head: float
    tail: float


def share_ways(ways: Sequence[DemandWay]) -> WayShares | None:
    """The best shares; None where the solver fails."""
    return _WayProgramme(ways).solve()


class _WayProgramme:
    """The linear programme and its rows, in units of the longest use."""

    def __init__(self, ways: Sequence[DemandWay]) -> None:
        self._ways, self._unit = ways, max(use.hold for way in ways for use in way.uses)
        self._uses: dict[MachineEnds, list[tuple[int, MachineUse]]] = defaultdict(list)
        for number, way in enumerate(ways):
            for use in way.uses:
                self._uses[use.machine].append((number, use))
        self.build(
            _Row(machine, min(use.head for _, use in uses), min(use.tail for _, use in uses))
            for machine, uses in self._uses.items()
        )

    def build(self, rows: Iterable[_Row]) -> None:
        """A programme with some windows."""
        self._solver = pywraplp.Solver.CreateSolver("GLOP")
        self._solver.SetSolverSpecificParametersAsString(NO_CYCLING)
        longest = max(way.length for way in self._ways) / self._unit  # (3)
        self._time = self._solver.NumVar(longest, self._solver.infinity(), "time")
        self._share = [self._solver.NumVar(0, self._solver.infinity(), f"share_{n}") for n in range(len(self._ways))]
        self.demand_rows()
        self.objective()
        self._rows: dict[_Row, pywraplp.Constraint] = {}
        for row in rows:
            self.window_row(row)

    def demand_rows(self) -> None:
        """(1) Everything goes some way."""
        of_demand: dict[int, list[pywraplp.Variable]] = defaultdict(list)
        for way, share in zip(self._ways, self._share, strict=True):
            of_demand[way.demand].append(share)
        for shares in of_demand.values():
            self._solver.Add(self._solver.Sum(shares) == 1)

    def objective(self) -> None:
        """Time, and a little for the work of machines."""
        objective = self._solver.Objective()
        objective.SetCoefficient(self._time, 1)
        for way, share in zip(self._ways, self._share, strict=True):
            work = sum(use.hold for use in way.uses) / self._unit / len(self._uses)
            objective.SetCoefficient(share, WORK_WEIGHT * work)
        objective.SetMinimization()

    def solve(self) -> WayShares | None:
        """Begin with one row for each machine, and add violated ones until there are none."""
        for _ in range(MAX_WINDOW_ROUNDS):
            if not self.is_solved():
                return None
            shares = [share.solution_value() for share in self._share]
            rows = [row for machine in self._uses if (row := self.worst_row(machine, shares))]
            if not rows:
                break
            for row in rows:
                self.window_row(row)
        prices: dict[MachineEnds, float] = defaultdict(float)
        for row, constraint in self._rows.items():
            prices[row.machine] += max(-constraint.dual_value(), 0.0)
        return WayShares(self._time.solution_value() * self._unit, shares, dict(prices))

    def is_solved(self) -> bool:
        """Whether there is a solution; the solver may fail from the basis before, and then begins anew."""
        if self._solver.Solve() == pywraplp.Solver.OPTIMAL:
            return True
        self.build(list(self._rows))
        return bool(self._solver.Solve() == pywraplp.Solver.OPTIMAL)

    def window_row(self, row: _Row) -> None:
        """(2) What has a late head and a long tail fits between them."""
        constraint = self._solver.Constraint(-self._solver.infinity(), -(row.head + row.tail) / self._unit)
        constraint.SetCoefficient(self._time, -1)
        holds: dict[int, float] = defaultdict(float)
        for number, use in self._uses[row.machine]:
            if use.head >= row.head and use.tail >= row.tail:
                holds[number] += use.hold / self._unit
        for number, hold in holds.items():
            constraint.SetCoefficient(self._share[number], hold)
        self._rows[row] = constraint

    def worst_row(self, machine: MachineEnds, shares: Sequence[float]) -> _Row | None:
        """The row of a machine that is violated most."""
        used = [(use, shares[number] * use.hold) for number, use in self._uses[machine] if shares[number] > LEAST_USED]
        heads, tails = {use.head for use, _ in used}, {use.tail for use, _ in used}
        worst, row = WINDOW_VIOLATED * self._unit, None
        for head in heads:
            late = [(use.tail, time) for use, time in used if use.head >= head]
            for tail in tails:
                load = sum(time for other, time in late if other >= tail)
                excess = load + head + tail - self._time.solution_value() * self._unit
                if load and excess > worst and (machine, head, tail) not in self._rows:
                    worst, row = excess, _Row(machine, head, tail)
        return row

r"""End counts: on which machines how many equal jobs begin and end, the cells into which a proof is divided.

Sets and data
    One class of n equal jobs, as in :mod:`formulations.order_count`, in whole ticks, and a horizon H.

Variables
    - :math:`x_{qe} \in \{0..n\}`, jobs that take arc e in layer q;
    - :math:`b_k, e_k \in \{0..n\}`, jobs whose first, or last, stage is on machine k: a **cell** is a value of b.

Constraints
    1. *loads*: (1) to (3) of :mod:`formulations.order_count` with :math:`T \le H`;
    2. *ends*: :math:`b_k` is the flow on the first arc of k, :math:`e_k` that on its last arc;
    3. *time runs both ways*: :math:`\sum_k b_k (n + 1)^k \ge \sum_k e_k (n + 1)^k`, where the class is reversible;
    4. *news*: no b that was met before.

Every schedule of the jobs with a makespan of at most H is in a cell, so **if none of the cells has a schedule, the
makespan is more than H**.  In each cell, :mod:`formulations.chunk_order` is asked with b fixed.  It refutes in
seconds what it does not refute in minutes as a whole: a stage on a machine takes longest where it is first or
last, so where jobs begin decides much of the loads; and jobs are told apart by where they begin, not by sorting.

A class of two phases is reversible if the second has the durations of the first in the reverse order of machines, and
the same lags: then a schedule that is read backwards, and on each machine shifted by its lag, is a schedule as well.
"""

from collections.abc import Iterator, Sequence

from ortools.sat.python import cp_model

from formulations.lattice import JobClass
from formulations.limits import Limits
from formulations.order_count import add_flow, add_load_bounds, end_flows

BeginCounts = tuple[int, ...]  # a cell: how many jobs begin on each machine, in the order of the machines of the class


def is_reversible(job: JobClass) -> bool:
    """Whether a schedule of the class can be read backwards."""
    if job.mirrored or len(job.phases) != 2:
        return False
    one, other = job.phases
    return one.lag == other.lag and all(
        other.duration[job.mirror(arc)] == duration for arc, duration in one.duration.items()
    )


def add_direction(
    model: cp_model.CpModel, count: int, begin: Sequence[cp_model.LinearExprT], end: Sequence[cp_model.LinearExprT]
) -> None:
    """(3), for the jobs that begin and end on each machine."""
    weights = [(count + 1) ** place for place in range(len(begin))]
    model.add(sum(weight * (b - e) for weight, b, e in zip(weights, begin, end, strict=True)) >= 0)


class EndCells:
    """The cells that a horizon leaves, each once.

    `job`: with integer durations, lags and release; `count` is the number of jobs.
    `horizon`: the makespan in question.
    `seconds`: work that the next one may take; if it takes more, it is not listed, and no others are.
    `work`: deterministic time of the solver so far.
    `are_all`: whether it is proven that there are no more than those met.
    """

    def __init__(self, job: JobClass, horizon: int, seconds: float = 5.0) -> None:
        self.work, self.are_all, self._seconds = 0.0, False, seconds
        self._model = cp_model.CpModel()
        self._model.name = "end counts"
        layers = [
            {arc: self._model.new_int_var(0, job.count, f"flow{q}_{arc[0]:b}_{arc[1]}") for arc in layer}
            for q, layer in enumerate(job.layers(job.load))
        ]
        for layer in layers:
            add_flow(self._model, job, layer)
        makespan = self._model.new_int_var(0, horizon, "makespan")
        add_load_bounds(self._model, [job], [layers], makespan)
        begin, end = zip(*(end_flows(job, layers, k) for k in job.machines), strict=True)
        if is_reversible(job):
            add_direction(self._model, job.count, begin, end)
        self._counts = [self._indicators(job.count, flow, f"begin{k}") for k, flow in enumerate(begin)]

    def __iter__(self) -> Iterator[BeginCounts]:
        """The cells, each once."""
        while not self.are_all:
            solver = Limits(workers=1, seconds=self._seconds, deterministic=True).solver()
            status = solver.solve(self._model)
            self.work += solver.response_proto.deterministic_time
            self.are_all = status == cp_model.INFEASIBLE
            if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
                return
            counts = tuple(self._value(solver, values) for values in self._counts)
            self._exclude(counts)
            yield counts

    @staticmethod
    def _value(solver: cp_model.CpSolver, values: Sequence[cp_model.IntVar]) -> int:
        return next(value for value, is_taken in enumerate(values) if solver.boolean_value(is_taken))

    def _indicators(self, count: int, flow: cp_model.LinearExprT, name: str) -> list[cp_model.IntVar]:
        """(2), one for each value."""
        values = [self._model.new_bool_var(f"{name}_{value}") for value in range(count + 1)]
        self._model.add_exactly_one(values)
        self._model.add(flow == sum(value * x for value, x in enumerate(values)))
        return values

    def _exclude(self, counts: Sequence[int]) -> None:
        """(4)."""
        self._model.add_bool_or([~values[count] for values, count in zip(self._counts, counts, strict=True)])

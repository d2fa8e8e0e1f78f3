"""Running CP-SAT: progress out, interruption in."""

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from time import monotonic
from typing import Any

from ortools.sat.python import cp_model
from psutil import Process

from formulations.interruption import INTERRUPTION, POLL_SECONDS, TimeUp
from formulations.limits import SECONDS_PER_PROPAGATION, Limits

SolverProgress = Callable[[float, float], None]
"""Called with the objective and the bound, whenever one of them improves."""

MEMORY_SHARE = 0.9  # share of the memory limit at which the solver is told to stop, since it goes on to take some
HINT_SECONDS = 60.0  # in which a solver says what hinted values are worth, or gives up
GRACE_SECONDS = 1.0  # how long past its limit the solver may wind up before it is told to stop


@dataclass(frozen=True)
class SearchOutcome:
    """The answer of the solver.

    `value` is that of each tracked variable by its index, None without a solution; `work` is deterministic time, in
    seconds of a core.
    """

    status: str
    bound: float
    value: dict[int, int] | None
    work: float


class _Tracker(cp_model.CpSolverSolutionCallback):  # type: ignore[misc]
    """Keeps the values of the best solution, so that an interruption cannot lose them."""

    def __init__(self, variables: Iterable[cp_model.IntVar], report: SolverProgress) -> None:
        super().__init__()
        self._variables = variables
        self._report = report
        self.values: dict[int, int] | None = None

    def on_solution_callback(self) -> None:
        """Keep and report a solution."""
        self.values = {variable.index: self.value(variable) for variable in self._variables}
        self._report(self.objective_value, self.best_objective_bound)


def search(
    model: cp_model.CpModel,
    variables: Iterable[cp_model.IntVar],
    limits: Limits,
    report: SolverProgress,
    *,
    propagates: bool = False,
) -> SearchOutcome:
    """Minimise `model` within `limits`; `propagates` as of :meth:`formulations.limits.Limits.solver`.

    The solver runs in a separate thread, so that Ctrl-C reaches this one; KeyboardInterrupt stops the solver
    and the best solution so far is returned with status ``interrupted``.  It is also stopped when it overruns its
    time, or when the process holds more memory than it may.
    """
    solver, interrupted, late = limits.solver(propagates=propagates), Event(), Event()
    tracker = _Tracker({v.index: v for v in variables}.values(), report)
    solver.best_bound_callback = lambda bound: report(float("inf"), bound)
    with ThreadPoolExecutor(max_workers=1) as executor:
        try:
            solving = executor.submit(_solve, model, tracker, solver, limits, (interrupted, late))
            _wait(solving, interrupted, late)
        except (KeyboardInterrupt, TimeUp):  # between two statements
            late.set()
            raise
    was_interrupted = interrupted.is_set() or INTERRUPTION.came
    status = "interrupted" if was_interrupted else solver.status_name(solving.result()).lower()
    bound = solver.best_objective_bound
    work = (SECONDS_PER_PROPAGATION if propagates else 1) * solver.response_proto.deterministic_time
    return SearchOutcome(status, bound if math.isfinite(bound) else 0.0, tracker.values, work)


def model_file(model: cp_model.CpModel, ending: str) -> bytes:
    """A model as the content of a file: a binary protocol buffer, or where the ending is ``txt`` its text."""
    with TemporaryDirectory() as folder:
        path = Path(folder, f"model.{ending}")
        if not model.export_to_file(str(path)):
            raise OSError(f"OR-Tools cannot write {path}")
        return path.read_bytes()


def hinted_objective(model: cp_model.CpModel) -> int | None:
    """The least objective of solutions with the hinted values; None if there is none, or the time ends before."""
    solver = Limits(seconds=HINT_SECONDS, workers=1, gap=0.0).solver()
    solver.parameters.fix_variables_to_their_hinted_value = True
    solved = solver.solve(model) in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    return int(solver.objective_value) if solved else None


def _wait(solving: Future[Any], interrupted: Event, late: Event) -> None:
    """Wait for the solver, whatever comes; Ctrl-C and the end of the time are left in events."""
    while not solving.done():
        try:
            wait([solving], timeout=POLL_SECONDS)
        except KeyboardInterrupt:
            interrupted.set()
        except TimeUp:
            late.set()


def _solve(
    model: cp_model.CpModel, tracker: _Tracker, solver: cp_model.CpSolver, limits: Limits, stops: Sequence[Event]
) -> Any:
    """Solve, watched by a thread beside this one, in neither of which Ctrl-C raises anything."""
    ended = Event()
    watcher = Thread(target=_watch, args=(ended, solver, limits, stops), daemon=True)
    watcher.start()
    try:
        return solver.solve(model, tracker)
    finally:
        ended.set()


def _watch(ended: Event, solver: cp_model.CpSolver, limits: Limits, stops: Sequence[Event]) -> None:
    """Tell the solver to stop when told to, after Ctrl-C, or when it overruns a limit; until it has."""
    process = Process()
    latest = math.inf if limits.deterministic else monotonic() + limits.seconds + GRACE_SECONDS
    most_bytes = MEMORY_SHARE * limits.memory * 2**30
    while not ended.wait(POLL_SECONDS):
        told = INTERRUPTION.came or any(stop.is_set() for stop in stops)
        if told or monotonic() > latest or process.memory_info().rss > most_bytes:
            solver.stop_search()

"""Data, solutions, windows and folded stages of :mod:`formulations.period`."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ortools.sat.python import cp_model

from formulations.job_model import JobVariables, PhaseVariables
from formulations.job_plans import JobPlans
from formulations.lattice import JobClass
from formulations.order_count import EndRow

Moment = tuple[int, int]  # a task, and whether it is that of the same period (0) or of the next one (1)


MAX_EVENTS = 16  # releases that begin windows, and needs that end them: the rows of more would slow the solver down


@dataclass(frozen=True)
class LaunchJobs:
    """One launch of every period.

    `jobs`: its chunks, in whole ticks and without releases.
    `after`, `before`: the task whose end releases it, and the one that waits for it.
    `after_launches`: launches of the same period whose results it waits for.
    `mirrors`: a launch with equally many jobs per class, whose paths the first phases of its jobs reverse.
    """

    jobs: tuple[JobClass, ...]
    after: Moment
    before: Moment
    after_launches: tuple[int, ...] = ()
    mirrors: int | None = None

    @property
    def may_wrap(self) -> bool:
        """Whether some stage may be under way when the period ends."""
        return self.after[1] == 0 and self.before[1] == 1 and self.before[0] > 0


@dataclass(frozen=True)
class PeriodJobs:
    """What one period holds.

    `tasks`: durations of the compute tasks, in the order they run.
    `chains`: tasks that are serial, those of each stage of a pipeline in their order; the first task of all is in the
      first. None stands for all tasks in the order they are listed.
    `waits`: tasks of different chains of which the second waits for the first.
    """

    tasks: tuple[int, ...]
    launches: tuple[LaunchJobs, ...]
    chains: tuple[tuple[int, ...], ...] = ()
    waits: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        if not self.chains:
            object.__setattr__(self, "chains", (tuple(range(len(self.tasks))),))

    @property
    def compute(self) -> int:
        """Duration of the longest chain."""
        return max(sum(self.tasks[task] for task in chain) for chain in self.chains)

    @property
    def chain_of(self) -> dict[int, int]:
        """The chain of every task."""
        return {task: number for number, chain in enumerate(self.chains) for task in chain}


@dataclass(frozen=True)
class PeriodTimes:
    """A schedule that repeats itself: the period, the starts of tasks, and per launch its jobs.

    Starts are counted from the start of the period that a task or job belongs to.
    """

    period: int
    tasks: tuple[int, ...]
    launches: tuple[JobPlans, ...]


@dataclass(frozen=True)
class PeriodOutcome:
    """Best schedule (None if there is none), proven bound on the period, status and work of the search."""

    times: PeriodTimes | None
    bound: int
    status: str
    work: float


@dataclass(frozen=True)
class LaunchVariables:
    """R, and the jobs per class."""

    ready: cp_model.IntVar
    classes: Sequence[Sequence[JobVariables]]

    @property
    def jobs(self) -> list[JobVariables]:
        """The jobs of all classes."""
        return [job for jobs in self.classes for job in jobs]


@dataclass(frozen=True)
class PeriodWindow:
    """Time between two events, the launches that lie in it, and the indicators of their load bounds."""

    length: cp_model.IntVar
    after: Moment
    before: Moment
    members: tuple[int, ...]
    rows: tuple[EndRow, ...]


def windows_of(period: PeriodJobs) -> Iterator[tuple[Moment, Moment, tuple[int, ...]]]:
    """Windows between a release and a need that hold launches different from those of narrower ones.

    Both are tasks of one chain, whose order is that of time.  Where there are many events, only some of them, evenly
    chosen, begin or end windows.
    """
    of_task, launches = period.chain_of, period.launches
    for chain in range(len(period.chains)):
        ends = ({of_task[launch.after[0]], of_task[launch.before[0]]} for launch in launches)
        yield from _windows_of_chain(launches, [n for n, chains in enumerate(ends) if chains == {chain}])


def _windows_of_chain(
    launches: Sequence[LaunchJobs], numbers: Sequence[int]
) -> Iterator[tuple[Moment, Moment, tuple[int, ...]]]:
    releases = {n: launches[n].after[::-1] for n in numbers}
    needs = {n: launches[n].before[::-1] for n in numbers}
    for after in _some(releases.values()):
        for before in _some(needs.values()):
            inside = [n for n in numbers if releases[n] >= after and needs[n] <= before]
            if min((releases[n] for n in inside), default=None) != after:
                continue
            if max((needs[n] for n in inside), default=None) == before:
                yield after[::-1], before[::-1], tuple(inside)


def _some(events: Iterable[Moment]) -> list[Moment]:
    distinct = sorted(set(events))
    few = min(len(distinct), MAX_EVENTS)
    return [distinct[number * len(distinct) // few] for number in range(few)]


@dataclass(frozen=True)
class FoldedStage:
    """A stage, and where in the period it stands: u, its end, and the same one period later.

    `wraps` is w, or its value where that is known; `copies` is empty where no stage of the resource can wrap.
    """

    start: cp_model.IntVar
    duration: cp_model.IntVar
    folded: cp_model.IntVar
    folded_end: cp_model.IntVar
    wraps: cp_model.IntVar | int
    copies: tuple[cp_model.IntVar, cp_model.IntVar] | None


def fold(
    model: cp_model.CpModel, period: cp_model.IntVar, launch: LaunchJobs, phase: PhaseVariables, machine: int
) -> FoldedStage:
    """(5) The stage of a phase on a machine, in its place; a new variable only where that is not its start."""
    start, duration, end = phase.start[machine], phase.duration[machine], phase.end[machine]
    later = launch.after[1]
    if not later and not launch.may_wrap:
        return FoldedStage(start, duration, start, end, wraps=0, copies=None)
    folded = model.new_int_var(0, _most(period), f"{start.name}_folded")
    folded_end = model.new_int_var(0, 2 * _most(period), f"{end.name}_folded")
    model.add(end == start + duration)  # the interval is the folded one, which ties these no longer
    model.add(folded <= period)
    model.add(folded_end == folded + duration)
    if later:
        model.add(start == folded + period)
        return FoldedStage(start, duration, folded, folded_end, wraps=1, copies=None)
    wraps = model.new_bool_var(f"{start.name}_wraps")
    model.add(start == folded).only_enforce_if(~wraps)
    model.add(start == folded + period).only_enforce_if(wraps)
    return FoldedStage(start, duration, folded, folded_end, wraps, copies=None)


def with_copies(model: cp_model.CpModel, period: cp_model.IntVar, stage: FoldedStage) -> FoldedStage:
    """The stage with the same interval one period later."""
    start = model.new_int_var(0, 2 * _most(period), f"{stage.start.name}_copy")
    end = model.new_int_var(0, 3 * _most(period), f"{stage.start.name}_copy_end")
    model.add(start == stage.folded + period)
    model.add(end == stage.folded_end + period)
    return replace(stage, copies=(start, end))


def _most(period: cp_model.IntVar) -> int:
    return int(period.domain.max())

"""Schedules as flexible job shop problems, in the text of benchmark sets, for solvers of operations research.

The first line holds the numbers of jobs and machines; each other line is a job: the number of its operations, and for
each of them the number of machines that can do it, with machine (from 1) and time on each.
Source: P. Brandimarte, *Routing and scheduling in a flexible job shop by tabu search* (1993), whose instances have
this form.

Given the path of every chunk, chunks are jobs, dimensions are machines and stages are operations that last as long as
they hold their dimension, in picoseconds.  On graphs links are machines, in pipelines stages and links.  The form has
no time between operations: what the latency adds where it does not hold the dimension is left out, so that the optimum
of the file bounds these paths from below.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from themis_opt.base.arrays import IntArray
from themis_opt.base.errors import InputError, reading
from themis_opt.base.sources import Source
from themis_opt.base.units import MAX_CLOCK, format_percent, format_short_time
from themis_opt.formats.exports import Fact, Replay
from themis_opt.formats.readers.parts import Part, Reader, only
from themis_opt.schedules.event_loop import Operations
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.schedule_file import read_schedule, schedule_document
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate

JOB_SHOP_FILE = "job_shop.fjs"
SOLVED = "schedule.json"
MAX_SHOP_OPERATIONS = 1_000_000  # operations of a job, and words of a line


class MachineChoice(NamedTuple):
    """A machine that can do an operation, from 0, and how long it takes."""

    machine: int
    time: int


@dataclass(frozen=True)
class JobShop:
    """A flexible job shop problem."""

    num_machines: int
    jobs: tuple[tuple[tuple[MachineChoice, ...], ...], ...]  # the machines to choose from for each operation in turn

    def text(self) -> str:
        """The text of a file."""
        lines: list[tuple[int, ...]] = [(len(self.jobs), self.num_machines)]
        for job in self.jobs:
            ways = ((len(choices), *(n for one in choices for n in (one.machine + 1, one.time))) for choices in job)
            lines.append((len(job), *chain.from_iterable(ways)))
        return "".join(f"{' '.join(map(str, line))}\n" for line in lines)


def read_job_shop(path: Path) -> JobShop:
    """Read a problem.

    Raises InputError if a line does not hold the numbers that it announces, or one of them is not allowed.
    """
    source = Source(path)
    lines = [(number, _numbers(source, number, line)) for number, line in source.lines]
    if not lines or len(lines[0][1]) not in (2, 3):
        raise source.error("must hold the numbers of jobs and machines", "line 1")
    count, machines = (source.whole(value, "line 1", least=1, most=10**6) for value in map(int, lines[0][1][:2]))
    if len(lines) - 1 != count:
        raise source.error(f"must be the number of lines that follow, {len(lines) - 1}", "line 1", count)
    return JobShop(machines, tuple(_job(source, number, machines, values) for number, values in lines[1:]))


def _numbers(source: Source, number: int, line: str) -> list[float]:
    words = line.split()
    if len(words) > MAX_SHOP_OPERATIONS:
        raise source.error("is too long", f"line {number}")
    with reading(f"line {number}", None, "must hold numbers", source):
        values = [int(word) if word.isdecimal() and len(word) < 20 else float(word) for word in words]
    if not all(0 <= value <= MAX_CLOCK for value in values):
        raise source.error(f"must hold numbers from 0 to {MAX_CLOCK}", f"line {number}")
    return values


def _job(source: Source, number: int, machines: int, values: Sequence[float]) -> tuple[tuple[MachineChoice, ...], ...]:
    rest = iter(values)
    field = f"line {number}"

    def take(least: int, most: int) -> int:
        value = next(rest, -1.0)
        if value != int(value):
            raise source.error("must hold whole numbers", field, value)
        return source.whole(int(value), field, least=least, most=most)

    job = tuple(
        tuple(MachineChoice(take(1, machines) - 1, take(0, MAX_CLOCK)) for _ in range(take(1, machines)))
        for _ in range(take(1, MAX_SHOP_OPERATIONS))
    )
    if next(rest, None) is not None:
        raise source.error("holds more numbers than it announces", field)
    return job


def chains(operations: Operations) -> list[list[int]]:
    """Operations as jobs: each waits for the one before it, and is in one job alone."""
    bounds, successors = operations.successor_start.tolist(), operations.successor.tolist()
    jobs, placed = list[list[int]](), [False] * len(operations.duration)
    for first in range(len(placed)):
        job, after = list[int](), [first]
        while (last := next((one for one in after if not placed[one]), None)) is not None:
            placed[last] = True
            job.append(last)
            after = successors[bounds[last] : bounds[last + 1]]
        if job:
            jobs.append(job)
    return jobs


def job_shop(schedule: Any) -> JobShop:
    """The problem of the paths of a schedule of any family.

    Raises InputError if there is compute, or something is released later than the start.
    """
    if getattr(schedule.problem, "tasks", ()):
        raise InputError("a job shop has no compute beside it: export its collectives one by one", field="iteration")
    operations = schedule.timed.operations
    if operations.release.any():
        raise InputError("a job shop has no releases: all collectives must start at 0", field="release")
    machine, time = operations.resource.tolist(), operations.duration.tolist()
    jobs = (tuple((MachineChoice(machine[one], time[one]),) for one in job) for job in chains(operations))
    return JobShop(max(machine) + 1, tuple(jobs))


def replayed(shop: JobShop, start: IntArray) -> int:
    """The makespan when every machine serves operations in the order of given starts, as soon as it can.

    `start`, shape (operations,): job by job.
    """
    ready = [0] * len(shop.jobs)
    free = [0] * shop.num_machines
    owner = [(job, operation) for job, operations in enumerate(shop.jobs) for operation in range(len(operations))]
    for number in np.argsort(start, kind="stable").tolist():
        job, operation = owner[number]
        choice = shop.jobs[job][operation][0]
        ready[job] = free[choice.machine] = max(ready[job], free[choice.machine]) + choice.time
    return max(ready)


def read_starts(path: Path, shop: JobShop) -> IntArray:
    """Read the answer of a solver, of a problem in which operations have one machine each.

    Raises InputError if there are other jobs or operations, an operation starts before the one before it ends, or while
    its machine is at work.

    Returns int64 array, shape (operations,): start times, job by job.
    """
    source = Source(path)
    lines = [(number, _numbers(source, number, line)) for number, line in source.lines]
    if len(lines) != len(shop.jobs):
        raise source.error(f"must have a line for each of {len(shop.jobs)} jobs", "lines", len(lines))
    on_machine: list[list[tuple[int, int, str]]] = [[] for _ in range(shop.num_machines)]
    starts: list[int] = []
    for (number, values), job in zip(lines, shop.jobs, strict=True):
        field, ready = f"line {number}", 0
        if len(values) != len(job):
            raise source.error(f"must have {len(job)} start times, one per operation", field, len(values))
        for value, (choice, *_) in zip(values, job, strict=True):
            start = source.whole(int(value) if value == int(value) else value, field, least=ready, most=MAX_CLOCK)
            ready = start + choice.time
            on_machine[choice.machine].append((start, ready, field))
            starts.append(start)
    for machine, served in enumerate(on_machine, start=1):
        for (_, end, _), (start, _, field) in pairwise(sorted(served)):
            if start < end:
                raise source.error(f"machine {machine} is at work until {end}", field, start)
    return np.array(starts, dtype=np.int64)


@dataclass(frozen=True)
class FlexibleJobShop:
    """A flexible job shop problem: chunks are jobs, dimensions machines, in picoseconds."""

    endings: ClassVar[tuple[str, ...]] = ("fjs", "json")

    starts: str = ""  # file with the answer of a solver, from which a schedule is written too

    def files(self, schedule: Any) -> Iterator[tuple[str, str | bytes]]:
        """The problem, and with an answer to it the schedule that follows it."""
        yield JOB_SHOP_FILE, job_shop(schedule).text()
        if self.starts:
            yield SOLVED, json.dumps(schedule_document(self._solved(schedule))) + "\n"

    def _solved(self, schedule: Any) -> Schedule:
        """The schedule with every dimension served in the order of a solver's start times."""
        if not isinstance(schedule, Schedule):
            raise InputError(
                "is for schedules of instances on dimensions", field="--to", value=f"fjsp:starts={self.starts}"
            )
        starts = read_starts(Path(self.starts), job_shop(schedule))
        return simulate(schedule.instance, schedule.plan.in_order_of(schedule.instance, starts))

    def notes(self, schedule: Any) -> Iterator[str]:
        """Costs that the form leaves out, and the worth of an answer."""
        operations = schedule.timed.operations
        if operations.lag.any():
            yield "Latencies that do not hold a dimension are left out: the optimum bounds these paths from below."
        if len(operations.successor) > len(operations.duration) - len(chains(operations)):
            yield "Jobs are chains, and other waits are left out: the optimum bounds this plan from below."
        if self.starts:
            makespan = self._solved(schedule).makespan
            gain = format_percent(makespan / schedule.makespan - 1)
            words = f"{format_short_time(makespan)}, {gain} beside {format_short_time(schedule.makespan)} before"
            yield f"in the order of {self.starts} the collectives take {words}"

    def check(self, schedule: Any, folder: Path) -> Iterator[Fact]:
        """Read the file again, and serve its operations in the order of the schedule.

        Raises InputError if the file is another problem, or takes longer than the schedule.
        """
        shop = read_job_shop(folder / JOB_SHOP_FILE)
        if shop != job_shop(schedule):
            raise InputError("is not the problem of this schedule", source=str(folder / JOB_SHOP_FILE))
        operations, start = schedule.timed.operations, schedule.timed.start
        makespan = replayed(shop, start[list(chain.from_iterable(chains(operations)))])
        if makespan > schedule.makespan:
            rule = f"takes {makespan} ps, longer than the schedule"
            raise InputError(rule, source=str(folder / JOB_SHOP_FILE), value=schedule.makespan)
        said = "at most as long as the schedule, which has latencies beside"
        said = said if operations.lag.any() else "no longer than the schedule"
        size = f"{len(shop.jobs)} jobs on {shop.num_machines} machines"
        yield f"{size}; in the order of the schedule they take {makespan} ps, {said}"
        yield Replay("job shops", makespan, schedule.makespan)
        if self.starts:
            validate(read_schedule(folder / SOLVED, schedule.instance))
            yield f"{SOLVED}: obeys every rule of the model"


def _recognizes(source: Source) -> bool:
    first = source.head.split("\n", 1)[0].split()
    return len(first) in (2, 3) and all(word.replace(".", "", 1).isdecimal() for word in first)


def _refuse(sources: Sequence[Source]) -> Part:
    """Check a file and refuse it: its times are free numbers, those of a collective follow from bytes and order."""
    source = only(sources, "job shop")
    shop = read_job_shop(source.path)
    rule = f"a job shop of {len(shop.jobs)} jobs on {shop.num_machines} machines is no collective, since its times do"
    answer = "a solver's answer to an exported one is read by 'export SCHEDULE --to fjsp:starts=FILE'"
    raise source.error(f"{rule} not follow from bytes; {answer}")


READER = Reader("flexible job shop problem: checked, and told that it is no collective", ("fjs",), _recognizes, _refuse)

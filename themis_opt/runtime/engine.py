"""The order of operations on a rank: compute in turn, and the stages of every dimension in theirs, side by side."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Condition, Thread
from time import monotonic, sleep

import numpy as np

from themis_opt.base.arrays import FloatArray
from themis_opt.runtime.program import Program

DoStage = Callable[[int, int], None]  # does the stage with a number among all operations, on a lane of its resource


@dataclass
class RunProgress:
    """How far a run is; read by others while it runs."""

    done: int = 0
    current: dict[int, int] = field(default_factory=dict)
    """Operation under way or waited for, per worker."""


class Engine:
    """One run of a program on one rank.

    Every resource has as many workers as stages may be in flight there.  They take the stages of its queue in turn and
    start them in that order, each as soon as all that it waits for is done.

    `move`: does one stage.
    `progress`: what others may look at.
    """

    def __init__(self, program: Program, move: DoStage, progress: RunProgress | None = None) -> None:
        self._program, self._move = program, move
        self.progress = progress or RunProgress()
        count = len(program.num_predecessors)
        self.start: FloatArray = np.full(count, np.nan)
        self.end: FloatArray = np.full(count, np.nan)
        self._waits = list(program.num_predecessors)
        self._begun = [0] * len(program.queues)
        self._changed = Condition()
        self._failure: BaseException | None = None
        self._origin = 0.0

    def run(self, origin: float | None = None) -> None:
        """Do everything; ``start`` and ``end`` then hold seconds of the monotonic clock.

        Raises the first failure of a worker; others may still wait for it.

        `origin`: when to begin, on the monotonic clock; now by default.
        """
        self._origin = monotonic() if origin is None else origin
        workers = [
            Thread(target=self._work, args=(resource, lane, queue[lane :: self._lanes(resource)]), daemon=True)
            for resource, queue in enumerate(self._program.queues)
            for lane in range(self._lanes(resource))
            if queue[lane:]
        ]
        for worker in workers:  # before the begin: where many ranks start threads at once, it takes milliseconds
            worker.start()
        for worker in workers:
            while worker.is_alive() and self._failure is None:
                worker.join(0.1)
        if self._failure is not None:
            raise self._failure

    def _lanes(self, resource: int) -> int:
        is_compute = resource == len(self._program.queues) - 1
        return 1 if is_compute else self._program.in_flight

    def _work(self, resource: int, lane: int, operations: Sequence[int]) -> None:
        worker, step = resource * self._program.in_flight + lane, self._lanes(resource)
        try:
            for place, operation in enumerate(operations):
                self.progress.current[worker] = operation
                if not self._begin(resource, lane + place * step, operation):
                    return
                self._do(operation, lane)
                self._finish(operation)
            self.progress.current.pop(worker, None)
        except BaseException as error:  # whatever it is, the run must end
            with self._changed:
                self._failure = self._failure or error
                self._changed.notify_all()

    def _begin(self, resource: int, place: int, operation: int) -> bool:
        """Wait until it is the turn of an operation; False if the run has failed."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._failure or (self._waits[operation] == 0 and self._begun[resource] == place)
            )
            if self._failure:
                return False
        sleep(max(self._origin + self._program.release[operation] - monotonic(), 0.0))
        self.start[operation] = monotonic()
        with self._changed:
            self._begun[resource] += 1
            if self._program.in_flight > 1:
                self._changed.notify_all()
        return True

    def _do(self, operation: int, lane: int) -> None:
        number = operation % self._program.num_operations
        if number < self._program.num_tasks:
            sleep(max(self.start[operation] + self._program.durations[number] - monotonic(), 0.0))
        else:
            self._move(operation, lane)
        self.end[operation] = monotonic()

    def _finish(self, operation: int) -> None:
        program = self._program
        first, last = program.successor_start[operation : operation + 2]
        with self._changed:
            for successor in program.successor[first:last]:
                self._waits[successor] -= 1
            self.progress.done += 1
            self._changed.notify_all()


def describe(program: Program, operation: int) -> str:
    """An operation in words, such as ``gradients chunk 3 stage 1``."""
    number = operation % program.num_operations
    if number < program.num_tasks:
        return f"task {number}"
    launch, chunk, position = program.stage_places[number - program.num_tasks]
    launched = program.launches[launch]
    return f"{launched.name} chunk {chunk} on {program.names[launched.paths[chunk][position]]}"

"""The runner of batches: runs go to an executor, rows come back into the store as they are finished."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import dataclass, replace
from statistics import fmean
from time import monotonic
from typing import Any

from formulations.interruption import INTERRUPTION
from themis_opt.base.errors import InputError
from themis_opt.batches.executors import Site
from themis_opt.batches.expansion import Run
from themis_opt.batches.measured_run import Columns, OtherVersion, code_version, execute, failure
from themis_opt.batches.store import RunStore

Like = tuple[str, str, float | None]
"""What runs have in common that take about equally long: policy, kind of collective (or iterations), time limit."""


def like(run: Run) -> Like:
    """What a run has in common with others that take about as long."""
    return run.task.policy, run.columns["kind"], run.task.knobs.get("seconds")


class RunEstimate:
    """Seconds that the runs without a row may take on some slots.

    `missing`: those without a row.
    `slots`: threads that work at once.
    `rows`: what is known of others, with ``policy``, ``kind`` and ``seconds``.
    """

    def __init__(self, missing: Iterable[Run], slots: int, rows: Iterable[Mapping[str, Any]] = ()) -> None:
        self.slots = slots
        self.missing = Counter((like(run), self._threads(run)) for run in missing)
        self.seconds: dict[Like, float] = {}
        for row in rows:
            if isinstance(row.get("seconds"), float):
                self._learn((row["policy"], row["kind"], row.get("time_limit")), row["seconds"])

    def finish(self, run: Run, seconds: float | None) -> None:
        """Take a run off, and learn how long it took, where that is known."""
        self.missing[like(run), self._threads(run)] -= 1
        if seconds is not None:
            self._learn(like(run), seconds)

    def seconds_left(self) -> float | None:
        """How long the rest takes: no less than its longest run, nor than all shared among the slots; None if unknown.

        Runs of a kind that nobody tried take their time limit, else as long as the others do on average.
        """
        left = {kind: count for kind, count in self.missing.items() if count > 0}
        if not left:
            return 0.0
        usual = fmean(self.seconds.values()) if self.seconds else None
        longest = busy = 0.0
        for (kind, threads), count in left.items():
            limit = kind[-1]
            seconds = self.seconds.get(kind, usual if limit is None else limit)
            if seconds is None:
                return None
            longest, busy = max(longest, seconds), busy + count * threads * seconds
        return max(longest, busy / self.slots)

    def _threads(self, run: Run) -> int:
        return min(run.task.threads, self.slots)

    def _learn(self, kind: Like, seconds: float) -> None:
        self.seconds[kind] = (self.seconds.get(kind, seconds) + seconds) / 2


DIED = "the process died in which it ran"


COMMIT_SECONDS, LARGEST_COMMIT = 0.2, 500  # rows wait at most so long until they are committed, and no more at once


@dataclass(frozen=True)
class BatchState:
    """How far a batch is."""

    total: int
    done: int = 0  # runs that have a row
    failed: int = 0  # those of them that failed
    running: int = 0  # runs that are being executed now
    seconds_left: float | None = None  # how long the rest may take; None where nothing is known yet
    executed: int = 0  # runs that were executed in this call
    interrupted: bool = False  # whether Ctrl-C ended it


BatchListener = Callable[[BatchState], None]


def unfinished(runs: Sequence[Run], store: RunStore) -> list[Run]:
    """The runs that have no row yet, or one that tells of a failure, each key once."""
    known = store.statuses(code_version())
    return list({run.key: run for run in runs if known.get(run.key) != "ok"}.values())


def run_batch(
    runs: Sequence[Run],
    store: RunStore,
    site: Site,
    *,
    report: BatchListener = lambda state: None,
    committed: Callable[[], None] = lambda: None,
    commit_seconds: float = COMMIT_SECONDS,
) -> BatchState:
    """Execute all runs that have no row yet, and those that failed before.

    Raises InputError if rows cannot be stored, or a worker has other code; rows before are kept.

    `runs`: where several have one key, one is executed.
    `report`: hears of the state.
    `committed`: called when rows were committed.
    `commit_seconds`: rows wait at most so long until they are committed.
    A run that failed, or whose process died, has a row that says so.
    """
    left, total = unfinished(runs, store), len({run.key for run in runs})
    state = BatchState(total, total - len(left))
    runner = _Runner(deque(left), store, site, report, committed, state, commit_seconds)
    if left:
        try:
            runner.run()
        except KeyboardInterrupt:
            return replace(runner.state, interrupted=True)
    return runner.state


@dataclass
class _Runner:
    """What is pending, running and finished but not committed."""

    pending: deque[Run]
    store: RunStore
    site: Site
    report: BatchListener
    committed: Callable[[], None]
    state: BatchState
    commit_seconds: float

    def __post_init__(self) -> None:
        self.running: dict[Future[Columns], Run] = {}
        self.rows: list[dict[str, Any]] = []
        self.free, self.committed_at = self.site.slots, monotonic()
        self.suspects: set[str] = set()
        self.is_told = False
        known = self.store.rows(code_version()) if self.pending else ()
        self.estimate = RunEstimate(self.pending, self.free, (row for row in known if row["status"] == "ok"))

    def run(self) -> None:
        """Execute everything; whatever ends it, what is finished is committed."""
        try:
            self.tell()
            while self.pending or self.running:
                INTERRUPTION.check()
                self.fill()
                done, _ = wait(self.running, timeout=self.commit_seconds, return_when=FIRST_COMPLETED)
                for future in done:
                    self.collect(future)
                if not self.is_told:
                    self.tell()
                if len(self.rows) >= LARGEST_COMMIT or monotonic() - self.committed_at >= self.commit_seconds:
                    self.commit()
        finally:
            for future in [future for future in self.running if future.done() and not future.cancelled()]:
                if future.exception() is None:
                    self.take(self.running[future], future.result())
            self.running = {}
            self.tell()
            self.commit()

    def fill(self) -> None:
        while self.pending and self.slots(self.pending[0]) <= self.free:
            run = self.pending.popleft()
            self.running[self.site.submit(execute, run.task, code_version())] = run
            self.free -= self.slots(run)
            self.is_told = False

    def slots(self, run: Run) -> int:
        """Slots that a run takes: its threads, or all if it may have brought down a process."""
        return self.site.slots if run.key in self.suspects else min(run.task.threads, self.site.slots)

    def collect(self, future: Future[Columns]) -> None:
        run = self.running.pop(future)
        self.free += self.slots(run)
        try:
            self.take(run, future.result())
        except OtherVersion as error:
            raise InputError(str(error)) from None
        except Exception as error:  # of the executor: runs tell of theirs in their results
            if run.key in self.suspects:  # what is lost alone has failed
                self.take(
                    run, failure(DIED if isinstance(error, BrokenExecutor) else f"{type(error).__name__}: {error}")
                )
                return
            self.suspects.add(run.key)
            self.pending.appendleft(run)

    def take(self, run: Run, result: Columns) -> None:
        if not self.rows:
            self.committed_at = monotonic()
        self.rows.append({"key": run.key} | run.columns | result)
        self.estimate.finish(run, result.get("seconds"))
        done, executed = self.state.done + 1, self.state.executed + 1
        failed = self.state.failed + (result["status"] == "failed")
        self.state = replace(self.state, done=done, executed=executed, failed=failed)
        self.is_told = False

    def tell(self) -> None:
        self.state = replace(self.state, running=len(self.running), seconds_left=self.estimate.seconds_left())
        self.report(self.state)
        self.is_told = True

    def commit(self) -> None:
        """Put the rows that wait into the store."""
        self.committed_at = monotonic()
        if self.rows:
            self.store.add(self.rows)
            self.rows = []
            self.committed()

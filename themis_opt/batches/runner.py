"""The runner of batches: runs go to an executor, rows come back into the store as they are finished."""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from dataclasses import dataclass
from time import monotonic
from typing import Any

from themis_opt.base.errors import InputError
from themis_opt.batches.executors import Site
from themis_opt.batches.expansion import Run
from themis_opt.batches.measured_run import Columns, OtherVersion, code_version, execute, failure
from themis_opt.batches.store import RunStore

DIED = "the process died in which it ran"


@dataclass(frozen=True)
class RunnerParams:
    """What is sent and committed at once; neither changes what the rows hold.

    Attributes
    ----------
    group_seconds : float
        Short runs are sent together until they take about so long, because each message takes about a millisecond.
    largest_group : int
        Most runs sent together.
    commit_seconds : float
        Rows wait at most so long until they are committed.
    largest_commit : int
        Rows that are not made to wait.
    """

    group_seconds: float = 0.1
    largest_group: int = 64
    commit_seconds: float = 0.2
    largest_commit: int = 500


USUAL = RunnerParams()


@dataclass(frozen=True)
class State:
    """How far a batch is: runs that have a row, those of them that failed, and all.

    `seconds_left` is how long the rest may take, 0 if nothing is known yet.
    """

    done: int
    failed: int
    total: int
    seconds_left: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """How a batch ended: its state, the runs that were executed now, and whether Ctrl-C ended it."""

    state: State
    executed: int
    interrupted: bool


Report = Callable[[State], None]


def unfinished(runs: Sequence[Run], store: RunStore, *, retry_failed: bool = False) -> list[Run]:
    """The runs that have no row yet, each key once; with `retry_failed` also those whose row tells of a failure."""
    known = store.statuses(code_version())
    kept = {"ok"} if retry_failed else {"ok", "failed"}
    return list({run.key: run for run in runs if known.get(run.key) not in kept}.values())


def run_batch(
    runs: Sequence[Run],
    store: RunStore,
    site: Site,
    *,
    retry_failed: bool = False,
    report: Report = lambda state: None,
    params: RunnerParams = USUAL,
) -> Outcome:
    """Execute all runs that have no row yet.

    Parameters
    ----------
    runs : sequence of Run
        Where several have one key, one is executed.
    store : RunStore
        Gets the rows.
    site : Site
        Where the runs are executed.
    retry_failed : bool
        Whether to execute again what failed before.
    report : callable, optional
        Hears of the state.
    params : RunnerParams
        What is sent and committed at once.

    Returns
    -------
    Outcome
        A run that failed, or whose process died, has a row that says so.

    Raises
    ------
    InputError
        If rows cannot be stored, the cluster is lost, or a worker has other code; rows before are kept.
    """
    left = unfinished(runs, store, retry_failed=retry_failed)
    known, keys = store.statuses(code_version()), {run.key for run in runs}
    todo = {run.key for run in left}
    failed = sum(known.get(key) == "failed" for key in keys - todo)
    runner = _Runner(left, store, site, report, State(len(keys) - len(todo), failed, len(keys)), params)
    interrupted = False
    if left:
        try:
            runner.run()
        except KeyboardInterrupt:
            interrupted = True
    return Outcome(runner.state, runner.executed, interrupted)


class _Runner:
    """What is pending, running and finished but not committed."""

    def __init__(
        self, runs: Sequence[Run], store: RunStore, site: Site, report: Report, state: State, params: RunnerParams
    ) -> None:
        self.pending, self.store, self.site, self.report, self.state = deque(runs), store, site, report, state
        self.params = params
        self.running: dict[Future[list[Columns]], list[Run]] = {}
        self.rows: list[dict[str, Any]] = []
        self.free, self.executed, self.committed_at = site.slots, 0, monotonic()
        self.suspects: set[str] = set()
        self.seconds: dict[tuple[str, str], float] = {}
        self.missing = Counter((_like(run), self.threads(run), run.task.limits.time_limit) for run in runs)

    def run(self) -> None:
        """Execute everything; whatever ends it, what is finished is committed."""
        try:
            self.report(self.state)
            while self.pending or self.running:
                self.fill()
                done, _ = wait(self.running, timeout=self.params.commit_seconds, return_when=FIRST_COMPLETED)
                for future in done:
                    self.collect(future)
                if (
                    len(self.rows) >= self.params.largest_commit
                    or monotonic() - self.committed_at >= self.params.commit_seconds
                ):
                    self.commit()
        finally:
            for future in [future for future in self.running if future.done() and not future.cancelled()]:
                if future.exception() is None:
                    self.take(self.running[future], future.result())
            self.commit()

    def fill(self) -> None:
        """Send runs while there are free slots."""
        while self.pending and self.slots(self.pending[0]) <= self.free:
            group = self.next_group()
            self.running[self.site.submit(execute, [run.task for run in group], code_version())] = group
            self.free -= self.slots(group[0])

    def slots(self, run: Run) -> int:
        """Slots that a run takes: its threads, or all if it may have brought down a process."""
        return self.site.slots if run.key in self.suspects else self.threads(run)

    def threads(self, run: Run) -> int:
        """Slots that the threads of a run take."""
        return min(run.task.limits.workers or 1, self.site.slots)

    def next_group(self) -> list[Run]:
        """The next run, with those after it if they are short."""
        group, most = (
            [self.pending.popleft()],
            min(self.params.largest_group, 1 + len(self.pending) // (2 * self.site.slots)),
        )
        expected = self.expected(group[0])
        while self.pending and len(group) < most and expected < self.params.group_seconds:
            expected += self.expected(self.pending[0])
            if expected >= self.params.group_seconds:
                break
            group.append(self.pending.popleft())
        return group

    def expected(self, run: Run) -> float:
        """Seconds that a run may take, from the last ones of its policy and kind; many if nothing is known."""
        searches = run.task.limits.workers is not None or run.key in self.suspects
        return self.params.group_seconds if searches else self.seconds.get(_like(run), self.params.group_seconds)

    def seconds_left(self) -> float:
        """How long the runs without a row take, if those of a kind never tried take their time limit or no time."""
        busy = sum(
            count * slots * self.seconds.get(like, limit or 0.0) for (like, slots, limit), count in self.missing.items()
        )
        return busy / self.site.slots

    def collect(self, future: Future[list[Columns]]) -> None:
        """Take the results of a group."""
        group = self.running.pop(future)
        self.free += self.slots(group[0])
        try:
            results = future.result()
        except CancelledError:
            raise InputError("the connection to the scheduler was lost; the rows before are kept") from None
        except OtherVersion as error:
            raise InputError(str(error)) from None
        except BrokenExecutor:
            self.suspect(group, DIED)
        except Exception as error:  # of the executor: runs tell of theirs in their results
            self.suspect(group, f"{type(error).__name__}: {error}")
        else:
            self.take(group, results)

    def suspect(self, group: Sequence[Run], reason: str) -> None:
        """Run those of a group that was lost once more, one at a time; one that is lost alone has failed."""
        if len(group) == 1 and group[0].key in self.suspects:
            self.take(group, [failure(reason)])
            return
        self.suspects.update(run.key for run in group)
        self.pending.extendleft(reversed(group))

    def take(self, group: Sequence[Run], results: Sequence[Columns]) -> None:
        """Keep results for the next commit."""
        if not self.rows:
            self.committed_at = monotonic()
        for run, result in zip(group, results, strict=True):
            self.rows.append({"key": run.key} | run.columns | result)
            self.missing[_like(run), self.threads(run), run.task.limits.time_limit] -= 1
            if "seconds" in result:
                before = self.seconds.get(_like(run), result["seconds"])
                self.seconds[_like(run)] = (before + result["seconds"]) / 2
        failed = sum(result["status"] == "failed" for result in results)
        self.executed += len(group)
        done = self.state.done + len(group)
        self.state = State(done, self.state.failed + failed, self.state.total, self.seconds_left())
        self.report(self.state)

    def commit(self) -> None:
        """Put the rows that wait into the store."""
        if self.rows:
            self.store.add(self.rows)
            self.rows = []
        self.committed_at = monotonic()


def _like(run: Run) -> tuple[str, str]:
    """What runs have in common that take about equally long: policy and kind of collective, or iterations."""
    return run.task.policy, run.columns["kind"]

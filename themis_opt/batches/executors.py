"""Where the runs of a batch are executed: processes of this machine.

The runner knows futures alone; what it needs besides is in :class:`Site`.
"""

import multiprocessing
import os
import resource
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any

from themis_opt.base.compiled import compile_at_once

# Environment of workers: libraries start no threads, since the pool fills the cores
ONE_THREAD: Mapping[str, str] = {
    f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB_MAXIMUM", "NUMBA")
}


@dataclass(frozen=True)
class Site:
    """A place to execute runs."""

    slots: int  # threads that may be busy at once
    submit: Callable[..., Future[Any]]  # calls a function there, as Executor.submit does


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def processes(jobs: int) -> Iterator[Site]:
    """Processes, started when they are needed, and afresh, not forked, so that they share no state with this one.

    Each is a separate pool: one that dies takes no other along, and the runs it had are known.

    `jobs`: threads that may be busy at once.
    """
    with suppress(ValueError):  # each keeps eight pipes open, and many systems allow 1024 at first
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft + 9 * jobs, hard), hard))
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    latest: dict[Executor, Future[Any]] = {}

    def submit(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        for worker in [worker for worker, future in latest.items() if future.done()]:
            try:
                latest[worker] = worker.submit(function, *arguments)
                return latest[worker]
            except BrokenExecutor:
                del latest[worker]
        worker = ProcessPoolExecutor(1, mp_context=context, initializer=prepare_worker)
        with _deaf():
            latest[worker] = worker.submit(function, *arguments)
        return latest[worker]

    try:
        yield Site(jobs, submit)
    finally:
        for worker in latest:
            worker.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - others:
            child.kill()


@contextmanager
def _deaf() -> Iterator[None]:
    """Keep Ctrl-C from processes that are started inside; this one hears of it afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def prepare_worker() -> None:
    """Make this process a worker: one thread, deaf to Ctrl-C, which the parent handles, and gone with its parent."""
    os.environ.update(ONE_THREAD)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    from themis_opt.batches import measured_run  # noqa: F401 - now, not in the first run

    compile_at_once()  # all rows of a worker are timed alike


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)

"""Where the runs of a batch are executed: processes of this machine, or a Dask cluster.

The runner knows futures alone; what it needs besides is in :class:`Site`.
"""

import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import wait
from typing import Any

from themis_opt.base.compiled import compile_at_once
from themis_opt.base.errors import InputError

CLUSTER_SECONDS = 5  # how long to wait for the scheduler of a cluster
# How long to wait for an answer of the scheduler, and for the end of a connection that was lost
ANSWER_SECONDS, LOST_SECONDS = 3, 1
# Environment of workers: libraries start no threads, since the pool fills the cores
ONE_THREAD: Mapping[str, str] = {
    f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB_MAXIMUM", "NUMBA")
}


@dataclass(frozen=True)
class Site:
    """A place to execute runs."""

    slots: int  # threads that may be busy at once
    submit: Callable[..., Future[Any]]  # calls a function there, as Executor.submit does
    check: Callable[[], None] = lambda: None  # raises an InputError if it is lost; called every few seconds


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
    with suppress(ImportError, ValueError):  # each keeps eight pipes open, and many systems allow 1024 at first
        import resource

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
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
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


@contextmanager
def cluster(address: str, jobs: int | None = None, *, patience: float = CLUSTER_SECONDS) -> Iterator[Site]:
    """The workers of a Dask scheduler; it runs what a lost worker had once more on another.

    Raises InputError if the package is missing, or the scheduler does not answer.

    `address`: of the scheduler, such as ``tcp://host:8786``.
    `jobs`: threads to use, by default all that its workers have now.
    `patience`: seconds to wait for the scheduler, and for its first worker.
    """
    try:
        from distributed import Client
        from distributed.comm import parse_address, parse_host_port
    except ImportError:
        rule = "needs the package distributed: pip install 'themis-opt[cluster]'"
        raise InputError(rule, field="--cluster", value=address) from None
    for logger in ("distributed", "distributed.client", "tornado", "asyncio"):  # what went wrong is said in one line
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    try:
        parse_host_port(parse_address(address)[1])
    except ValueError:
        rule = "must be the address of a scheduler, such as tcp://host:8786"
        raise InputError(rule, field="--cluster", value=address) from None
    try:
        client: Any = Client(address, timeout=patience, set_as_default=False)
    except (OSError, ValueError, ImportError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"no scheduler answers: {reason}", field="--cluster", value=address) from None
    is_lost = True
    try:
        threads = sum(client.nthreads().values()) or _threads_of_a_worker(client, address, patience)
        yield Site(jobs or threads, client.get_executor(pure=False).submit, partial(_check_scheduler, client, address))
        is_lost = False
    finally:
        client.close(timeout=LOST_SECONDS if is_lost else patience)


def _check_scheduler(client: Any, address: str) -> None:
    """Refuse to wait for a scheduler that has stopped: its connection stays open, and nothing comes."""
    try:
        client.sync(client.scheduler.identity, callback_timeout=ANSWER_SECONDS)
    except (OSError, TimeoutError):
        rule = f"the scheduler has not answered for {ANSWER_SECONDS} s; the rows before are kept"
        raise InputError(rule, field="--cluster", value=address) from None


def _threads_of_a_worker(client: Any, address: str, patience: float) -> int:
    """Threads of the first workers that report to a scheduler that has none yet."""
    try:
        client.wait_for_workers(1, timeout=patience)
    except TimeoutError:
        rule = f"the scheduler has no worker, and none came in {patience} s; start one: dask worker {address}"
        raise InputError(rule, field="--cluster", value=address) from None
    threads: int = sum(client.nthreads().values())
    return threads

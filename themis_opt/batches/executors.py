"""Where the runs of a batch are executed: processes of this machine, or a Dask cluster.

The runner knows :class:`concurrent.futures.Executor` alone; what it needs besides is in :class:`Site`.
"""

import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import wait
from types import MappingProxyType
from typing import Any

from themis_opt.errors import InputError

CONNECT_SECONDS = 5
"""How long to wait for the scheduler of a cluster."""

ONE_THREAD: Mapping[str, str] = MappingProxyType(
    {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB_MAXIMUM", "NUMBA")}
)
"""Environment of workers: libraries take no threads of their own, since the pool fills the cores."""


@dataclass(frozen=True)
class Site:
    """A place to execute runs.

    Attributes
    ----------
    slots : int
        Threads that may be busy at once.
    start : callable
        Makes an executor; called again when one broke.
    stop : callable
        Ends an executor at once, with whatever it is doing.
    """

    slots: int
    start: Callable[[], Executor]
    stop: Callable[[Executor], None]


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def processes(jobs: int, most: int) -> Iterator[Site]:
    """A pool of processes, started afresh and not forked, so that they share no state with this one.

    Parameters
    ----------
    jobs : int
        Threads that may be busy at once.
    most : int
        Runs to come: no more processes are started.
    """
    num_processes = max(1, min(jobs, most))
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())

    def start() -> Executor:
        executor = ProcessPoolExecutor(num_processes, mp_context=context, initializer=prepare_worker)
        with _deaf():
            for _ in range(num_processes):
                executor.submit(int)
        return executor

    def stop(executor: Executor) -> None:
        executor.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - others:
            child.kill()

    yield Site(jobs, start, stop)


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
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    from themis_opt import kernel
    from themis_opt.batches import measured_run  # noqa: F401 - now, not in the first run
    from themis_opt.policies import hourglass_search

    # A worker lives long: what is compiled pays at once, and all its rows are timed alike.
    kernel.INTERPRETED_BUDGET = hourglass_search.INTERPRETED_BUDGET = 0


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


@contextmanager
def cluster(address: str, jobs: int | None = None) -> Iterator[Site]:
    """The workers of a Dask scheduler; it runs what a lost worker had once more on another.

    Parameters
    ----------
    address : str
        Of the scheduler, such as ``tcp://host:8786``.
    jobs : int, optional
        Threads to use, by default all that its workers have now.

    Raises
    ------
    InputError
        If the package is missing, or the scheduler does not answer.
    """
    try:
        from distributed import Client
        from distributed.comm import parse_address, parse_host_port
    except ImportError:
        rule = "needs the package distributed: pip install 'themis-opt[cluster]'"
        raise InputError(rule, field="--cluster", value=address) from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        parse_host_port(parse_address(address)[1])
    except ValueError:
        rule = "must be the address of a scheduler, such as tcp://host:8786"
        raise InputError(rule, field="--cluster", value=address) from None
    try:
        client: Any = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, ImportError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"no scheduler answers: {reason}", field="--cluster", value=address) from None
    try:
        threads = sum(client.nthreads().values()) or _threads_of_a_worker(client, address)
        yield Site(
            jobs or threads,
            start=lambda: client.get_executor(pure=False),
            stop=lambda executor: executor.shutdown(wait=False),
        )
    finally:
        client.close(timeout=CONNECT_SECONDS)


def _threads_of_a_worker(client: Any, address: str) -> int:
    """Threads of the first workers that report to a scheduler that has none yet."""
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
    except TimeoutError:
        rule = f"the scheduler has no worker, and none came in {CONNECT_SECONDS} s; start one: dask worker {address}"
        raise InputError(rule, field="--cluster", value=address) from None
    threads: int = sum(client.nthreads().values())
    return threads

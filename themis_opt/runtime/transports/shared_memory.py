"""Shared memory of MPI on one machine: its names would stay where ranks are killed."""

import os
from contextlib import suppress
from pathlib import Path

FOLDER, PREFIXES = Path("/dev/shm"), ("mpich_shm", "ucx_shm")
"""Where the names are, and how those of MPICH and of its UCX begin; other systems keep such memory elsewhere."""


def unlink_shared_memory_after_this_process() -> None:
    """Start a process that waits for the end of this one, and then unlinks names that are new and in nobody's use.

    It must be called before MPI begins, by a process with one thread.  However ranks end, the last one leaves nothing.
    """
    if not FOLDER.is_dir():
        return
    before = _names()
    read, _held_open_until_the_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()  # mpiexec and terminals signal groups, and the coordinator kills all descendants
        if os.fork() == 0:
            _wait_for_end(read)
            for name in _names() - before - _in_use():
                (FOLDER / name).unlink(missing_ok=True)
        os._exit(0)
    os.close(read)
    os.waitpid(child, 0)


def _wait_for_end(read: int) -> None:
    """Hold nothing but one end of a pipe, whose other end closes with the process that is waited for."""
    os.dup2(read, 3)
    os.closerange(4, os.sysconf("SC_OPEN_MAX"))
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    os.read(3, 1)


def _names() -> set[str]:
    return {path.name for path in FOLDER.iterdir() if path.name.startswith(PREFIXES)}


def _in_use() -> set[str]:
    """Names that a process of this user holds."""
    names: set[str] = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with suppress(OSError):
            words = maps.read_text(errors="replace").split()
            names |= {Path(word).name for word in words if word.startswith(str(FOLDER))}
    return names

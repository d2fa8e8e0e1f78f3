"""Ranks that others have started, such as torchrun, mpiexec and srun."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from themis_opt.base.errors import InputError
from themis_opt.runtime.control import TOKEN_VARIABLE
from themis_opt.runtime.coordinator import Coordinator
from themis_opt.runtime.worker import LOST, serve

WORLD_VARIABLES = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)
"""Where torchrun, Open MPI, MPICH and Slurm say which rank a process is, and of how many."""


def is_whole(text: str) -> bool:
    """Whether a text is a whole number from 0 on, of as many digits as a number of ranks or a port may have."""
    return text.isdecimal() and len(text) <= 9


def own_world() -> tuple[int, int]:
    """Rank of this process, and how many there are.

    Raises InputError if nobody says so, or what is said are no numbers.
    """
    for rank, size in WORLD_VARIABLES:
        if rank in os.environ and size in os.environ:
            wrong = [name for name in (rank, size) if not is_whole(os.environ[name])]
            if wrong:
                raise InputError("must be a number", field=wrong[0], value=os.environ[wrong[0]])
            return int(os.environ[rank]), int(os.environ[size])
    rule = "needs a process started by torchrun, mpiexec or srun, which say its rank in the environment"
    raise InputError(rule, field="--join")


@contextmanager
def joined(place: str, num_ranks: int, transport: str, address: str) -> Iterator[Coordinator]:
    """The coordinator of a world that others started; only the process of rank 0 comes here, twice.

    Every process is one rank; that of rank 0 makes a copy of itself, which coordinates.  So the context is entered in
    the copy alone, and in all others the process ends with the code of its rank.

    `place`: host and port where rank 0 coordinates.
    `address`: the address of this process, for the other ranks.
    """
    rank, world = own_world()
    host, _, port = place.rpartition(":")
    if not host or not is_whole(port) or int(port) >= 2**16:
        raise InputError("must be a host and a port, such as 10.0.0.1:29600", field="--join", value=place)
    if world != num_ranks:
        raise InputError(f"is {world}, the network has {num_ranks} NPUs", field="number of processes")
    token = os.environ.get(TOKEN_VARIABLE)
    if not token:
        raise InputError("must hold the same random text for all ranks", field=TOKEN_VARIABLE)
    child = os.fork() if rank == 0 else -1
    if child == 0:
        with Coordinator(num_ranks, lambda _host, _token: (), host, int(port), token) as coordinator:
            yield coordinator
        return
    code = serve(rank, (host, int(port)), address, transport, token)
    if code == LOST:
        rule = f"the coordinator at {place} is gone, or {TOKEN_VARIABLE} differs there"
        print(f"error: rank {rank}: {rule}", file=sys.stderr)
    if child > 0:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    raise SystemExit(code)

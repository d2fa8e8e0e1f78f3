"""Small schedules to run."""

from planning import schedule_of

from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Network
from themis_opt.runtime.program import Program, RunOptions, compile_program
from themis_opt.schedules.schedule import Schedule

KINDS = {"r": "ring", "f": "fully_connected", "s": "switch"}


def network(words, bandwidth="1 GB/s"):
    """The network of words such as ``s4 r2``: kind and size of each dimension."""
    dimensions = tuple(Dimension(kind=KINDS[w[0]], size=int(w[1:]), bandwidth=bandwidth) for w in words.split())
    return Network(dimensions=dimensions)


def instance(words, kind="all_reduce", size=20_014, chunks=5, bandwidth="1 GB/s", **settings):
    return Instance(
        network=network(words, bandwidth), collectives=(Collective(kind=kind, size=size, chunks=chunks),), **settings
    )


def schedule(words, kind="all_reduce", policy="themis+scf", **settings) -> Schedule:
    problem = instance(words, kind, **settings)
    return schedule_of(problem, policy)


def program(words, kind="all_reduce", policy="themis+scf", options=None, **settings) -> Program:
    return compile_program(schedule(words, kind, policy, **settings), options or RunOptions(paced=False))

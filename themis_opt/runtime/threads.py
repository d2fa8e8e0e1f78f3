"""All ranks of a program as threads of this process: exact results without a network, for checks and tests."""

from threading import Thread

from themis_opt.runtime.engine import Engine
from themis_opt.runtime.layout import group_of
from themis_opt.runtime.movement import Mover, PacedLink, Pacer
from themis_opt.runtime.program import Program, kind_of
from themis_opt.runtime.reference import fill, first_difference
from themis_opt.runtime.transports.memory import Mailboxes


def prepare(mover: Mover, program: Program, rank: int, seed: int) -> None:
    """Fill the buffers of a rank with the data of a run, and make its messages."""
    mover.clear()
    mover.prepare()
    for (iteration, number), buffer in mover.buffers.items():
        members = len(group_of(rank, program.sizes, program.launches[number].span))
        fill(buffer, _seed(seed, iteration, number), rank, members, program.dtype)


def wrong_element(mover: Mover, program: Program, rank: int, seed: int, skipped: frozenset[int]) -> str | None:
    """The first wrong element of a rank, in words.

    `skipped`: operations that were not run; launches of which one was not are not checked.
    """
    incomplete = {
        (operation // program.num_operations, program.stage_places[place][0])
        for operation in skipped
        if (place := operation % program.num_operations - program.num_tasks) >= 0
    }
    for (iteration, number), buffer in mover.buffers.items():
        launch = program.launches[number]
        group = group_of(rank, program.sizes, launch.span)
        if (iteration, number) in incomplete:
            continue
        difference = first_difference(
            buffer, kind_of(launch), _seed(seed, iteration, number), group.index(rank), group, program.dtype,
            program.reduction,
        )  # fmt: skip
        if difference:
            row, column, held, right = difference
            return f"{launch.name}: element ({row}, {column}) of rank {rank} is {held}, must be {right}"
    return None


def never_run(program: Program) -> frozenset[int]:
    """Operations that wait for an iteration after the last."""
    return frozenset(range(len(program.num_predecessors))) - {
        operation for queue in program.queues for operation in queue
    }


def _seed(seed: int, iteration: int, launch: int) -> int:
    return (seed * 1009 + iteration) * 1013 + launch


def run_in_threads(program: Program, seed: int = 0, patience: float = 20.0) -> str | None:
    """Run a program with one thread per rank and worker; returns the first wrong element in words, or None.

    Raises RankFailure if a rank waits longer than `patience` for a message, or gets a wrong one.
    """
    shared = Mailboxes(patience)
    movers, engines, failures = [], [], []
    for rank in range(program.num_ranks):
        channels = {
            (k, lane): PacedLink(shared.link(rank, k * program.in_flight + lane), pacer)
            for k, pacer in enumerate(pacers(program))
            for lane in range(program.in_flight)
        }
        movers.append(Mover(program, rank, channels))
        engines.append(Engine(program, movers[-1]))
        prepare(movers[-1], program, rank, seed)

    def run(engine: Engine) -> None:
        try:
            engine.run()
        except Exception as error:
            failures.append(error)
            shared.abort()

    ranks = [Thread(target=run, args=(engine,), daemon=True) for engine in engines]
    for thread in ranks:
        thread.start()
    for thread in ranks:
        thread.join()
    if failures:
        raise failures[0]
    skipped = never_run(program)
    wrong = (wrong_element(mover, program, rank, seed, skipped) for rank, mover in enumerate(movers))
    return next((words for words in wrong if words), None)


def pacers(program: Program) -> list[Pacer]:
    """One per dimension: lanes of a dimension share its bandwidth."""
    return [Pacer() for _ in program.sizes]

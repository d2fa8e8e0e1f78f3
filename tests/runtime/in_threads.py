"""All ranks of a program as threads of this process: exact results without a network."""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from threading import Condition, Thread
from time import monotonic, sleep

from themis_opt.runtime.engine import Engine
from themis_opt.runtime.links import Frame, Incoming, Outgoing, RankFailure
from themis_opt.runtime.movement import Mover, PacedLink, Pacer
from themis_opt.runtime.program import Program


class Mailboxes:
    """The messages under way, by receiver, sender and channel; a wait without any message fails after `patience`."""

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self._arrived = Condition()
        self._frames: dict[tuple[int, int, int], deque[Frame]] = defaultdict(deque)
        self._aborted = False

    def put(self, receiver: int, sender: int, channel: int, frame: Frame) -> None:
        with self._arrived:
            self._frames[receiver, sender, channel].append(frame)
            self._arrived.notify_all()

    def take(self, receiver: int, sender: int, channel: int) -> Frame:
        with self._arrived:
            frames = self._frames[receiver, sender, channel]  # making one outside the lock may lose that of a sender
            if not self._arrived.wait_for(lambda: frames or self._aborted, self.patience):
                raise RankFailure(sender, f"sent nothing for {self.patience:g} s")
            if not frames:
                raise RankFailure(sender, "was stopped")
            return frames.popleft()

    def abort(self) -> None:
        """End all waits."""
        with self._arrived:
            self._aborted = True
            self._arrived.notify_all()


class MemoryLink:
    """The link of a rank on a channel."""

    def __init__(self, shared: Mailboxes, rank: int, channel: int) -> None:
        self._shared, self._rank, self._channel = shared, rank, channel

    def exchange(self, outgoing: Sequence[Outgoing], incoming: Sequence[Incoming]) -> None:
        for message in outgoing:
            sleep(max(message.due - monotonic(), 0.0))
            self._shared.put(message.peer, self._rank, self._channel, message.pack())
        for expected in incoming:
            frame = self._shared.take(self._rank, expected.peer, self._channel)
            expected.check(frame)
            expected.unpack(frame)


def run_in_threads(
    program: Program, seed: int = 0, patience: float = 20.0, others: Mapping[int, Program] | None = None
) -> list[Mover]:
    """Run a program with one thread per rank and worker; `others` are programs that some ranks follow instead."""
    shared, movers, engines, failures = Mailboxes(patience), [], [], []
    for rank in range(program.num_ranks):
        followed = (others or {}).get(rank, program)
        channels = {
            (k, lane): PacedLink(MemoryLink(shared, rank, k * program.in_flight + lane), pacer)
            for k, pacer in enumerate([Pacer() for _ in program.sizes])
            for lane in range(program.in_flight)
        }
        movers.append(Mover(followed, rank, channels))
        engines.append(Engine(followed, movers[-1]))
        movers[-1].prepare(seed)

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
    return movers


def first_fault(program: Program, seed: int = 0, **settings) -> str | None:
    """The first wrong element that a run ends with, in words; None if all are right."""
    wrong = (mover.wrong_element(seed) for mover in run_in_threads(program, seed, **settings))
    return next((words for words in wrong if words), None)

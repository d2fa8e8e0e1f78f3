"""Ranks as threads of one process: no network at all, for checks of results and for tests."""

from collections import defaultdict, deque
from collections.abc import Sequence
from threading import Condition
from time import monotonic, sleep

from themis_opt.runtime.links import Frame, Incoming, Outgoing, RankFailure


class Mailboxes:
    """Shared by the threads: the messages under way, by receiver, sender and channel.

    `patience`: seconds without any message after which a wait fails.
    """

    def __init__(self, patience: float = 20.0) -> None:
        self.patience = patience
        self._arrived = Condition()
        self._frames: dict[tuple[int, int, int], deque[Frame]] = defaultdict(deque)
        self._aborted = False

    def link(self, rank: int, channel: int) -> "MemoryLink":
        """The link of a rank on a channel; messages stay within their channel."""
        return MemoryLink(self, rank, channel)

    def put(self, receiver: int, sender: int, channel: int, frame: Frame) -> None:
        """Deliver a message."""
        with self._arrived:
            self._frames[receiver, sender, channel].append(frame)
            self._arrived.notify_all()

    def take(self, receiver: int, sender: int, channel: int) -> Frame:
        """The next message, as soon as it is there."""
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
    """A link between threads."""

    def __init__(self, shared: Mailboxes, rank: int, channel: int) -> None:
        self._shared, self._rank, self._channel = shared, rank, channel

    def exchange(self, outgoing: Sequence[Outgoing], incoming: Sequence[Incoming]) -> None:
        """Send and receive; see :class:`~themis_opt.runtime.links.Link`."""
        for message in outgoing:
            sleep(max(message.due - monotonic(), 0.0))
            self._shared.put(message.peer, self._rank, self._channel, message.pack())
        for expected in incoming:
            frame = self._shared.take(self._rank, expected.peer, self._channel)
            expected.check(frame)
            expected.unpack(frame)

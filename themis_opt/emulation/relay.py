"""Cables on which a signal takes its time: frames between two TAP devices, held until they are due.

Networks that hold packets back by themselves need the module netem, which many kernels lack; TAP devices are part of
almost all.  Frames that leave an NPU are held, those that come to it are not, so a message takes the delay once.
"""

import fcntl
import os
import select
import struct
from collections import deque
from collections.abc import Sequence
from time import monotonic
from typing import NamedTuple

TUN_DEVICE = "/dev/net/tun"

_SET_INTERFACE = 0x400454CA  # TUNSETIFF
_TAP, _NO_HEADER = 0x0002, 0x1000  # IFF_TAP, IFF_NO_PI

LONGEST_FRAME = 2**16

LONGEST_QUEUE = 2**24
"""Bytes under way on a cable at most; what comes beyond is dropped, as by a network with short queues."""


class Cable(NamedTuple):
    """A cable between the device of an NPU and that of a bridge."""

    inner: int  # file of the device of the NPU
    outer: int  # file of that of the bridge
    delay: float  # seconds from the inner to the outer end


def tap(name: str) -> int:
    """A new TAP device in the network namespace of this process; it ends with the last process that holds the file."""
    try:
        file = os.open(TUN_DEVICE, os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(file, _SET_INTERFACE, struct.pack("16sH22x", name.encode(), _TAP | _NO_HEADER))
    except OSError as error:
        rule = f"{TUN_DEVICE}, which holds packets back, cannot be used: {error.strerror}"
        raise OSError(error.errno, rule) from None
    return file


def relay(cables: Sequence[Cable]) -> None:
    """Carry frames for ever."""
    lines = {cable.inner: _DelayLine(cable) for cable in cables}
    back = {cable.outer: cable.inner for cable in cables}
    while True:
        due = min((line.due for line in lines.values() if line.frames), default=None)
        wait = None if due is None else max(due - monotonic(), 0.0)
        ready, _, _ = select.select([*lines, *back], (), (), wait)
        for file in ready:
            if file in lines:
                lines[file].take()
            else:
                for frame in _frames(file):
                    _write(back[file], frame)
        for line in lines.values():
            line.deliver()


class _DelayLine:
    """One direction of a cable, and the frames on it."""

    def __init__(self, cable: Cable) -> None:
        self._cable, self._bytes = cable, 0
        self.frames: deque[tuple[float, bytes]] = deque()

    @property
    def due(self) -> float:
        return self.frames[0][0]

    def take(self) -> None:
        for frame in _frames(self._cable.inner):
            if self._bytes + len(frame) <= LONGEST_QUEUE:
                self.frames.append((monotonic() + self._cable.delay, frame))
                self._bytes += len(frame)

    def deliver(self) -> None:
        now = monotonic()
        while self.frames and self.due <= now:
            _, frame = self.frames.popleft()
            self._bytes -= len(frame)
            _write(self._cable.outer, frame)


def _frames(file: int) -> list[bytes]:
    frames = []
    try:
        while True:
            frames.append(os.read(file, LONGEST_FRAME))
    except OSError:  # none is left, or the device is down
        return frames


def _write(file: int, frame: bytes) -> None:
    try:
        os.write(file, frame)
    except OSError:
        return  # lost, as on a cable that is unplugged

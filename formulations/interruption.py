"""What ends work in the middle: time that is up, and Ctrl-C, which is not lost where Python drops its exception."""

import atexit
import math
import signal
from collections.abc import Callable, Collection
from contextvars import ContextVar
from threading import Thread
from time import monotonic
from types import FrameType

POLL_SECONDS = 0.1
"""Longest wait of the main thread, which alone handles signals, and does not wake if another thread takes one."""

RETURN_SECONDS = 0.05  # of the processor, after which Ctrl-C comes again where it had to wait
INTERRUPTING = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGVTALRM") if hasattr(signal, name)
)  # the last one brings those before again
IMPORTS = ("importlib", "_frozen_importlib")  # packages whose frames stand below every module that is not yet whole


class TimeUp(BaseException):
    """The end of work whose time is up; no Exception, since the work may handle those."""


METER: ContextVar[Callable[[float], None] | None] = ContextVar("METER", default=None)
"""Hears of the work of this thread in seconds of any core, and may raise :class:`TimeUp`."""


SECONDS_LEFT: ContextVar[Callable[[], float] | None] = ContextVar("SECONDS_LEFT", default=None)
"""What is left of the time of this thread, for solvers, which hear of no signal."""


def count_work(seconds: float) -> None:
    """Tell of so many seconds of work, where somebody counts them."""
    if meter := METER.get():
        meter(seconds)


class Interruption:
    """What a handler of signals leaves behind, for every loop that looks whether to go on.

    Python drops an exception that a signal raises within a callback or a finaliser.

    `came`: whether Ctrl-C came, whether or not its exception was heard.
    """

    def __init__(self) -> None:
        self.came = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Remember the signal and interrupt what runs; no lock is taken, since the frame may hold any.

        An import ends before, since a package that is half there fails whatever needs it next.
        """
        self.came = True
        if is_within(frame, IMPORTS) and hasattr(signal, "setitimer"):
            signal.signal(signal.SIGVTALRM, self.handle)
            atexit.register(self._disarm)  # a timer that outlives the handlers ends the process
            signal.setitimer(signal.ITIMER_VIRTUAL, RETURN_SECONDS)
            return
        self.check()

    def check(self) -> None:
        """Raise KeyboardInterrupt where one was due, for loops that heard nothing of it."""
        if self.came:
            self._disarm()
            raise KeyboardInterrupt

    def _disarm(self) -> None:
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)


INTERRUPTION = Interruption()  # that of this process, where the command line listens to it; otherwise none ever came


def is_over(thread: Thread, seconds: float | None) -> bool:
    """Whether a thread ends within some seconds (None: however long it takes), in which signals are handled."""
    end = math.inf if seconds is None else monotonic() + seconds
    while thread.is_alive() and (left := end - monotonic()) > 0:
        thread.join(min(left, POLL_SECONDS))
    return not thread.is_alive()


def is_within(frame: FrameType | None, packages: Collection[str], functions: Collection[str] = ()) -> bool:
    """Whether a frame, or one that waits for it, belongs to one of some packages or functions."""
    while frame is not None:
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        if package in packages or frame.f_code.co_name in functions:
            return True
        frame = frame.f_back
    return False

"""When this process began."""

from time import monotonic

PROCESS_START = monotonic()


def remaining(time_limit: float) -> float:
    """Seconds left of a limit that counts from the start of the process."""
    return max(time_limit - (monotonic() - PROCESS_START), 0.0)

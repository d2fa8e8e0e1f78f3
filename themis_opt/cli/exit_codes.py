"""Exit codes of the command line."""

UNMET = 1
"""A request was not met: the asked gap was not reached."""

BAD_INPUT = 2
INTERRUPTED = 130

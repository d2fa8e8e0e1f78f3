"""Schedules of collective communication on multi-dimensional networks, with proven gaps."""

__version__ = "0.1.0"

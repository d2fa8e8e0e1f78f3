"""Fixtures that several test modules share."""

from fixtures import *  # noqa: F403

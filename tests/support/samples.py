"""Samples of the cases of a test: the suite runs some, ``-m benchmarks`` the others."""

from collections.abc import Iterable

import pytest


def every(step: int, values: Iterable[object]) -> list[object]:
    """Return all values, of which the suite runs the first and each that follows ``step`` places later."""
    return [
        value if number % step == 0 else rare(*(value if isinstance(value, tuple) else (value,)))
        for number, value in enumerate(values)
    ]


def rare(*values: object, **options: str) -> object:
    """Return a case that the suite leaves to ``-m benchmarks``."""
    return pytest.param(*values, marks=pytest.mark.benchmarks, **options)

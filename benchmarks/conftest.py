"""Fixtures that several benchmarks share."""

import pytest
from fixtures import *  # noqa: F403

import themis_opt
from themis_opt.base.compiled import compile_at_once
from themis_opt.policies.hourglass.policy import Hourglass
from themis_opt.schedules.simulator import simulate


@pytest.fixture
def always_compiled() -> None:
    """Compile before anything is measured, and never interpret."""
    compile_at_once()
    instance = themis_opt.load("fig5.all_reduce.256MB")
    simulate(instance, Hourglass()(instance))

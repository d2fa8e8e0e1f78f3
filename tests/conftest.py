"""Fixtures that several test modules share, and what happens once before several workers start."""

import gc
import os
import subprocess
import sys

import pytest
from fixtures import *  # noqa: F403

gc.disable()  # until tests are collected: thousands of them, and none is garbage

COMPILING = (
    "from themis_opt.search import annealing, refuter; [m.is_ready(None) for m in (annealing, refuter)]",
    "import themis_opt; from themis_opt.base import compiled; from themis_opt.pipelines import order_search;"
    "order_search.is_ready(None); compiled.compile_at_once();"
    "instance = themis_opt.load('fig5.all_reduce.256MB').overridden(chunks=64);"
    "themis_opt.simulate(instance, themis_opt.make_policy('hourglass')(instance))",
)
"""Programs that compile what searches need, which takes half a minute on a machine that has not done so."""


def pytest_configure(config: pytest.Config) -> None:
    """Compile once, or every worker does so; processes that tests start keep the bytecode of the modules."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if not hasattr(config, "workerinput") and (config.getoption("numprocesses", None) or 0) > 1:
        for process in [subprocess.Popen([sys.executable, "-c", program]) for program in COMPILING]:
            process.wait()


def pytest_collection_finish() -> None:
    """Let garbage collections skip the tests themselves, which are there to the end."""
    gc.collect()
    gc.freeze()
    gc.enable()

"""The checker of the library beside the simulator, on THEMIS_OPT_LIBRARY_CHECKS random schedules, 10,000 by default."""

import os

import pytest
from library_schedules import FAMILIES, judged, random_schedule

from themis_opt.formats.order_table import order_table

pytestmark = pytest.mark.benchmarks

COUNT = int(os.environ.get("THEMIS_OPT_LIBRARY_CHECKS", "10000"))


def test_every_makespan_agrees() -> None:
    compared, seed = 0, 10_000
    while compared < COUNT:
        seed += 1
        document, schedule = random_schedule(FAMILIES[seed % len(FAMILIES)], seed)
        if schedule.has_period and not schedule.period.is_steady:
            continue  # the simulator says what it takes at most
        assert judged(document, order_table(schedule)).makespan == schedule.makespan, (seed, document)
        compared += 1

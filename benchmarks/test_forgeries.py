"""Every forgery on every row of the library, and damaged files.

``python -m pytest -m benchmarks benchmarks/test_forgeries.py -s`` takes some minutes.

THEMIS_OPT_FUZZ says how many damaged files there are, 100,000 by default.
"""

import copy
import os
import random
from contextlib import suppress
from typing import Any

import pytest
from forgeries import CERTIFICATES, SOLUTIONS, forged
from library import check

from themis_opt.problem.catalog import LIBRARY

pytestmark = [pytest.mark.benchmarks, pytest.mark.timeout(7200)]

ODD: tuple[Any, ...] = (None, True, -1, 0, 0.5, 10**40, "", "x", "1e99", [], {}, [[]], [None], {"a": 1}, "-3 GB")
"""Values that stand where others are expected."""


def documents(row: dict[str, Any]) -> list[Any]:
    return [check.read(LIBRARY / row[field]) for field in ("file", "solution", "certificate")]


def test_no_forgery_is_accepted() -> None:
    tried, accepted = 0, []
    for row in check.read(LIBRARY / "index.json")["instances"]:
        instance, *others = documents(row)
        for place, forgeries in enumerate((SOLUTIONS, CERTIFICATES)):
            for forgery in forgeries:
                if (cheat := forged(others[place], forgery)) is None:
                    continue
                tried += 1
                solution, certificate = (cheat, None) if place == 0 else (None, cheat)
                try:
                    verdict = check.judge(instance, solution, certificate, equal=row["sizes"] == "equal")
                except check.Refused:
                    continue
                is_faster = verdict.makespan is not None and verdict.makespan < row["makespan_ps"]
                if is_faster or verdict.best(trusted=True) > row["makespan_ps"]:
                    accepted.append((row["name"], forgery.__name__))
    print(f"{tried} forgeries, {len(accepted)} accepted")
    assert accepted == []


def damage(value: Any, chance: random.Random) -> Any:
    """The value with one part replaced, left out or doubled."""
    if not isinstance(value, dict | list) or not value or chance.random() < 0.2:
        return chance.choice(ODD)
    key = chance.choice(list(value) if isinstance(value, dict) else range(len(value)))
    what = chance.random()
    if what < 0.15:
        del value[key]
    elif what < 0.3 and isinstance(value, list):
        value.append(copy.deepcopy(value[key]))
    else:
        value[key] = damage(value[key], chance)
    return value


def test_damaged_files_end_in_no_traceback() -> None:
    chance = random.Random(7)
    rows = check.read(LIBRARY / "index.json")["instances"]
    small = sorted(rows, key=lambda row: (LIBRARY / row["solution"]).stat().st_size)[:60]
    whole = [(row, documents(row)) for row in small]
    for _ in range(int(os.environ.get("THEMIS_OPT_FUZZ", "100000"))):
        row, files = chance.choice(whole)
        damaged = copy.deepcopy(files)
        place = chance.randrange(3)
        damaged[place] = damage(damaged[place], chance)
        with suppress(check.Refused):
            check.judge(*damaged, equal=row["sizes"] == "equal")

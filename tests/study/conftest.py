from pathlib import Path

import pytest

from themis_opt.problem.instance import Instance
from themis_opt.study.plan_cache import PlanCache


@pytest.fixture
def cache(tmp_path: Path) -> PlanCache:
    return PlanCache(tmp_path / "plans")


@pytest.fixture
def few(hetero: Instance) -> Instance:
    """An all-reduce of 100 MiB in 8 chunks."""
    return hetero.overridden(chunks=8)

"""The key of the plan cache: which instances share plans."""

from pathlib import Path
from typing import Any

import pytest
from cached_plans import cached_files, scheduled

from themis_opt.instance import Instance
from themis_opt.plan_cache import PlanCache
from themis_opt.plan_entry import plan_key


@pytest.fixture
def cache(tmp_path: Path) -> PlanCache:
    return PlanCache(tmp_path / "plans")


@pytest.fixture
def few(hetero: Instance) -> Instance:
    """An all-reduce of 100 MiB in 8 chunks."""
    return hetero.overridden(chunks=8)


def test_names_are_not_in_the_key(cache: PlanCache, few: Instance) -> None:
    cache.keep(scheduled(few), "equal", 0.1, 1.0)
    network = few.network
    dimensions = tuple(d.replace(name=f"other{k}", source="elsewhere") for k, d in enumerate(network.dimensions))
    renamed = few.replace(
        name="renamed",
        description="in other words",
        network=network.replace(name="another", dimensions=dimensions, source="hearsay"),
        collectives=tuple(c.replace(name="weights") for c in few.collectives),
    )
    found = cache.recall(renamed, "equal")
    assert found is not None
    assert found.exact


def test_no_name_is_written(cache: PlanCache, few: Instance) -> None:
    secret = few.replace(name="secret", network=few.network.replace(name="secret"))
    cache.keep(scheduled(secret), "equal", 0.1, 1.0)
    (file,) = cached_files(cache)
    assert "secret" not in f"{file.relative_to(cache.root)}{file.read_text()}"


def test_the_usual_algorithm_is_the_same_named_or_not(few: Instance) -> None:
    dimensions = tuple(d.replace(algorithm=d.basic_algorithm) for d in few.network.dimensions)
    assert plan_key(few.replace(network=few.network.replace(dimensions=dimensions))) == plan_key(few)


@pytest.mark.parametrize(
    "change",
    [
        {"size": 4},
        {"kind": "ring"},
        {"bandwidth": "1 GB/s"},
        {"latency": "1 us"},
        {"algorithm": "direct"},
        {"in_network": True},
        {"packet": {"payload": 4096, "header": 64}},
        {"launch_overhead": "1 us"},
        {"compression": 2.0},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_network_that_differs_in_a_figure_misses(cache: PlanCache, few: Instance, change: dict[str, Any]) -> None:
    cache.keep(scheduled(few), "equal", 0.1, 1.0)
    first, *others = few.network.dimensions
    other = few.replace(network=few.network.replace(dimensions=(first.replace(**change), *others)))
    assert cache.recall(other, "equal") is None


@pytest.mark.parametrize(
    "change",
    [{"kind": "all_gather"}, {"element_bytes": 4}, {"release": "1 us"}, {"dimensions": ("dim1", "dim3")}],
    ids=lambda change: next(iter(change)),
)
def test_a_collective_that_differs_misses(cache: PlanCache, few: Instance, change: dict[str, Any]) -> None:
    cache.keep(scheduled(few), "equal", 0.1, 1.0)
    assert few.network.dimension_names == ("dim1", "dim2", "dim3")
    other = few.replace(collectives=(few.collectives[0].replace(**change),))
    assert cache.recall(other, "equal") is None


@pytest.mark.parametrize("rule", [{"latency": "occupy"}, {"ag_order": "reverse"}], ids=lambda rule: next(iter(rule)))
def test_another_rule_misses(cache: PlanCache, few: Instance, rule: dict[str, str]) -> None:
    cache.keep(scheduled(few), "equal", 0.1, 1.0)
    assert cache.recall(few.overridden(**rule), "equal") is None


def test_only_the_ratios_of_sizes_are_in_the_key(mixed: Instance) -> None:
    first, *others = mixed.collectives
    doubled = mixed.replace(collectives=tuple(c.replace(size=2 * c.size) for c in mixed.collectives))
    uneven = mixed.replace(collectives=(first.replace(size=2 * first.size), *others))
    assert plan_key(doubled) == plan_key(mixed) != plan_key(uneven)

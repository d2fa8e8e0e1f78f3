"""Other packages add kinds of dimensions, algorithms, bounds and models by entry points; each keeps its contract."""

import pytest

import themis_opt
from themis_opt.base.errors import InputError
from themis_opt.graphs.conversion import to_graph
from themis_opt.problem.wiring import Algorithm, Kind
from themis_opt.solving.makespan_bounds import MAKESPAN_BOUNDS
from themis_opt.workloads.models import MODELS

MODULE = """
from fractions import Fraction
from themis_opt.problem.wiring import ALGORITHM_RULES, Algorithm, KindRule
from themis_opt.schedules.messages import PATTERNS
from themis_opt.solving.makespan_bounds import Bound
from themis_opt.workloads.layers import TrainingModel
from themis_opt.workloads.image_models import vgg16
from dataclasses import replace
from functools import partial

HYPERCUBE = KindRule(
    (Algorithm.HALVING_DOUBLING, Algorithm("two_trees")), lambda size: Fraction(1),
    flaw=lambda size: f"{size} NPUs make no cube" if size & (size - 1) else None,
)
TWO_TREES = replace(ALGORITHM_RULES[Algorithm.HALVING_DOUBLING], patterns=PATTERNS[Algorithm.HALVING_DOUBLING])
ONE_TICK = Bound(lambda instance: 1.0, False, "a picosecond")
TINY = TrainingModel("Tiny", "made up", partial(vgg16, 32, 10))
"""
ENTRIES = """
[themis_opt.kinds]
hypercube = cubes:HYPERCUBE
[themis_opt.algorithms]
two_trees = cubes:TWO_TREES
[themis_opt.bounds]
one_tick = cubes:ONE_TICK
[themis_opt.models]
tiny = cubes:TINY
"""


@pytest.fixture(autouse=True)
def package(tmp_path, monkeypatch):
    """A package with one entry in each group."""
    info = tmp_path / "cubes-1.0.dist-info"
    info.mkdir()
    (tmp_path / "cubes.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cubes\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(tmp_path)
    registries = (MAKESPAN_BOUNDS, MODELS)
    for registry in registries:
        registry.__dict__.pop("_others", None)
    yield
    for registry in registries:
        registry.__dict__.pop("_others", None)
    for names in (Kind, Algorithm):
        for name in ("hypercube", "two_trees"):
            names._value2member_map_.pop(name, None)


def instance(kind="hypercube", **others):
    dimension = {"kind": kind, "size": 8, "bandwidth": "50 GB/s", "latency": "1 us", **others}
    collective = {"kind": "all_reduce", "size": "8 MB", "chunks": 2}
    return themis_opt.Instance.model_validate({"network": {"dimensions": [dimension]}, "collectives": [collective]})


@pytest.mark.parametrize("algorithm", [None, "two_trees"])
def test_a_kind_and_an_algorithm_take_as_long_as_those_with_their_rules(algorithm):
    cube = instance(**({"algorithm": algorithm} if algorithm else {}))
    schedule = themis_opt.compare(cube, ["baseline"]).best.schedule
    assert schedule.makespan == themis_opt.compare(instance("switch"), ["baseline"]).best.makespan
    themis_opt.verify(schedule)
    assert cube.model_dump(mode="json")["network"]["dimensions"][0]["kind"] == "hypercube"
    with pytest.raises(InputError, match="kind = 'hypercube': has no wires on graphs"):
        to_graph(cube.network)


def test_a_kind_states_what_it_refuses():
    with pytest.raises(ValueError, match="6 NPUs make no cube"):
        instance(size=6)


def test_a_bound_and_a_model_are_taken():
    assert themis_opt.bounds(instance())["one_tick"] == 1
    assert themis_opt.workload("tiny", instance()).iteration.tasks

"""Kinds that a family does not know are refused by name: none stands for another."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest
from graph_samples import shipped

from themis_opt.base.errors import InputError
from themis_opt.graphs import bounds, conversion
from themis_opt.graphs.plan import demands
from themis_opt.graphs.problem import GraphInstance
from themis_opt.graphs.trees import tree_plan

QUESTIONS: dict[str, Callable[[GraphInstance], object]] = {
    "demands": demands,
    "trees": tree_plan,
    "volume": lambda instance: list(bounds._volume_bounds(instance)),
    "arrivals": lambda instance: list(bounds._arrival_sides(instance.demand)),
    "loads": lambda instance: bounds._elements_out(instance, {0}),
}


@pytest.fixture
def made_up() -> GraphInstance:
    """A collective whose kind no table of graphs has."""
    instance = shipped("dgx1")
    collective = instance.collective.model_copy(update={"kind": "scan"})
    return instance.model_copy(update={"collectives": (collective,)})


@pytest.mark.parametrize("question", QUESTIONS)
def test_graphs_refuse_a_made_up_collective_by_name(question: str, made_up: GraphInstance) -> None:
    with pytest.raises(InputError, match=r"scan.*is not for graphs"):
        QUESTIONS[question](made_up)


def test_graphs_refuse_a_made_up_kind_of_dimension_by_name() -> None:
    dimension = SimpleNamespace(kind="hypercube", size=4, name="x")
    with pytest.raises(InputError, match=r"hypercube.*has no wires"):
        list(conversion._wires(dimension, ["a", "b", "c", "d"], "s"))

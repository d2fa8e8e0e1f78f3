"""Schedules that are pushed to their end and begin again."""

import pytest

from themis_opt.graphs.problem import load_graph
from themis_opt.graphs.registry import GRAPH_POLICIES
from themis_opt.graphs.schedule import justified, simulate_graph
from themis_opt.graphs.validation import validate_graph
from themis_opt.problem.catalog import shipped_graphs


@pytest.mark.parametrize(
    ("name", "kind", "policy", "before", "after"),
    [
        ("a100_x2", "all_to_all", "direct", 2_621_440, 1_966_080),
        ("boxes_5_3", "all_reduce", "greedy", 8_840_640, 8_259_840),
        ("dgx1", "all_gather", "trees", None, None),
    ],
)
def test_justified_schedules_are_valid_and_faster(
    name: str, kind: str, policy: str, before: int | None, after: int | None
) -> None:
    instance = load_graph(next(path for file, path in shipped_graphs().items() if file.startswith(f"{name}.")))
    collective = instance.collective.replace(kind=kind, size="64 KiB")
    schedule = simulate_graph(GRAPH_POLICIES[policy](instance.model_copy(update={"collectives": (collective,)})))
    better = justified(schedule)
    validate_graph(better)
    if before is None:
        assert better is schedule
    else:
        assert (schedule.makespan, better.makespan) == (before, after)

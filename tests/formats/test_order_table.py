import json

import numpy as np
import pytest

from themis_opt.formats.order_table import FORMAT, order_rows, order_table
from themis_opt.instance import Collective, Dimension, Instance, Network
from themis_opt.policies.registry import make_policy
from themis_opt.schedule import Schedule
from themis_opt.simulator import simulate


@pytest.fixture
def schedule() -> Schedule:
    """Every kind of collective on three dimensions, one of which is unused."""
    dimensions = tuple(
        Dimension(kind="switch", size=4, bandwidth=bandwidth, name=name)
        for name, bandwidth in (("node", "2 GB/s"), ("rail", "3 GB/s"), ("pod", "1 GB/s"))
    )
    used = {"dimensions": ("node", "pod"), "size": "256 MB"}
    collectives = (
        Collective(kind="all_reduce", chunks=4, name="gradients", **used),
        Collective(kind="reduce_scatter", chunks=2, name="shards", **used),
        Collective(kind="all_gather", chunks=2, name="parameters", **used),
        Collective(kind="all_to_all", chunks=3, name="tokens", **used),
    )
    instance = Instance(name="mixed", network=Network(dimensions=dimensions), collectives=collectives)
    return simulate(instance, make_policy("random:seed=3+scf")(instance))


def test_the_table_names_its_format_and_instance(schedule):
    table = order_table(schedule)
    assert (table["format"], table["name"]) == (FORMAT, "mixed")
    assert table["fingerprint"] == schedule.instance.fingerprint


def test_the_table_survives_json(schedule):
    assert json.loads(json.dumps(order_table(schedule))) == order_table(schedule)


def test_chunks_have_an_order_for_each_phase_of_their_collective(schedule):
    keys = {c["name"]: set(c["chunks"][0]) - {"index", "bytes"} for c in order_table(schedule)["collectives"]}
    assert keys == {
        "gradients": {"rs_order", "ag_order"},
        "shards": {"rs_order"},
        "parameters": {"ag_order"},
        "tokens": {"a2a_order"},
    }


def test_the_bytes_of_the_chunks_add_up(schedule):
    for collective in order_table(schedule)["collectives"]:
        assert sum(chunk["bytes"] for chunk in collective["chunks"]) == collective["bytes"] == 256_000_000


def test_the_orders_give_the_paths_back(schedule):
    index = {name: k for k, name in enumerate(schedule.instance.network.dimension_names)}
    for collective, chunks in zip(order_table(schedule)["collectives"], schedule.plan.chunks, strict=True):
        for row, path in zip(collective["chunks"], chunks.paths.tolist(), strict=True):
            legs = (row.get(key, []) for key in ("rs_order", "ag_order", "a2a_order"))
            assert [index[name] for leg in legs for name in leg] == path


def test_the_issue_orders_give_the_sequences_back(schedule):
    labels = {label: i for i, label in enumerate(schedule.instance.labels)}
    names = schedule.instance.network.dimension_names
    number = {
        (s.collective, s.chunk, s.phase.name.lower(), names[s.dimension]): i
        for i, s in enumerate(schedule.plan.stages(schedule.instance))
    }
    for k, dimension in enumerate(order_table(schedule)["dimensions"]):
        sequence = [
            number[labels[issue["collective"]], issue["chunk"], issue["phase"], dimension["name"]]
            for issue in dimension["issue_order"]
        ]
        np.testing.assert_array_equal(sequence, schedule.sequence(k))


def test_an_unused_dimension_issues_nothing(schedule):
    rail = order_table(schedule)["dimensions"][1]
    assert rail == {"name": "rail", "size": 4, "issue_order": []}


def test_rows_repeat_the_issue_orders(schedule):
    rows = order_rows(schedule)
    for dimension in order_table(schedule)["dimensions"]:
        own = [row for row in rows if row["dimension"] == dimension["name"]]
        assert [row["position"] for row in own] == list(range(len(own)))
        kept = ("collective", "chunk", "phase")
        assert [{key: row[key] for key in kept} for row in own] == dimension["issue_order"]


def test_rows_carry_the_bytes_of_the_chunk(schedule):
    assert {row["bytes"] for row in order_rows(schedule) if row["collective"] == "gradients"} == {64_000_000}

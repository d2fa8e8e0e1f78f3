"""Fingerprints, copies and the way through JSON."""

import json
from typing import Any

import pytest
from hypothesis import given
from layered_iterations import layers
from strategies import instances

import themis_opt
from themis_opt.problem.cost_overrides import with_costs
from themis_opt.problem.fields import ModelError
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Kind, Network
from themis_opt.problem.phases import CollectiveKind

DIMENSION: dict[str, Any] = {"kind": "switch", "size": 4, "bandwidth": "48 GB/s"}
COLLECTIVE: dict[str, Any] = {"kind": "all_reduce", "size": "256 MB"}

FULL = Instance.model_validate(
    {
        "network": {"dimensions": [DIMENSION | {"latency": "1 us"}, DIMENSION]},
        "collectives": [COLLECTIVE, COLLECTIVE | {"kind": "reduce_scatter"}],
    }
)


def with_dimension(**changes: object) -> Instance:
    first, second = FULL.network.dimensions
    return FULL.replace(network=FULL.network.replace(dimensions=(first.replace(**changes), second)))


def with_collective(**changes: object) -> Instance:
    first, second = FULL.collectives
    return FULL.replace(collectives=(first.replace(**changes), second))


@pytest.mark.parametrize(
    "other",
    [
        FULL.replace(name="other"),
        FULL.replace(description="other"),
        FULL.replace(network=FULL.network.replace(name="other")),
        FULL.replace(network=FULL.network.replace(source="other")),
        with_dimension(name="other"),
        with_dimension(source="other"),
        with_dimension(algorithm="halving_doubling"),
        with_dimension(bandwidth="384 Gb/s"),
        with_dimension(latency="0.000001 s"),
        with_dimension(launch_overhead=0),
        with_collective(name="other"),
        with_collective(dimensions=("dim2", "dim1")),
        with_collective(size="256000 kB"),
        with_collective(chunks=64),
        FULL.replace(latency="lag"),
    ],
)
def test_the_fingerprint_ignores_names_sources_and_spelling(other: Instance) -> None:
    assert other.fingerprint == FULL.fingerprint


@pytest.mark.parametrize(
    "other",
    [
        with_dimension(kind="ring"),
        with_dimension(size=5),
        with_dimension(bandwidth="48.000000001 GB/s"),
        with_dimension(latency="1000001 ps"),
        with_dimension(algorithm="ring"),
        with_dimension(in_network=True),
        with_dimension(packet={"payload": "4 kB", "header": "0 B"}),
        with_dimension(packet={"payload": "4 kB", "header": "1 B"}),
        with_dimension(launch_overhead="1 ps"),
        with_dimension(compression=1.0000001),
        with_dimension(reduction="200 GB/s"),
        FULL.replace(network=FULL.network.replace(reduction="200 GB/s")),
        with_collective(kind="all_gather"),
        with_collective(size="256000002 B"),
        with_collective(chunks=63),
        with_collective(dimensions=("dim1",)),
        with_collective(release="1 ps"),
        with_collective(element_bytes=4),
        FULL.replace(collectives=FULL.collectives[::-1]),
        FULL.replace(collectives=FULL.collectives[:1]),
        FULL.replace(network=FULL.network.replace(dimensions=FULL.network.dimensions[::-1])),
        FULL.replace(latency="occupy"),
        FULL.replace(ag_order="reverse"),
    ],
)
def test_the_fingerprint_changes_with_what_decides_the_schedule(other: Instance) -> None:
    assert other.fingerprint != FULL.fingerprint


def test_fingerprints_stay_what_schedule_files_and_caches_hold() -> None:
    one, other = themis_opt.load("fig5.all_reduce.256MB"), themis_opt.load("2d-sw_sw.dlrm")
    assert one.fingerprint == "d3ab3fa1a23b8ce1b7215087ff2022c3"
    assert other.fingerprint == "66853c9cda6468bc22200b9f4ff75d40"


def test_the_reduction_of_the_network_is_that_of_dimensions_without_their_own() -> None:
    shared = {"reduction": "200 GB/s", "dimensions": [DIMENSION, DIMENSION | {"reduction": "100 GB/s"}]}
    written_out = {"dimensions": [DIMENSION | {"reduction": "200 GB/s"}, DIMENSION | {"reduction": "100 GB/s"}]}
    one, other = (Instance.model_validate({"network": n, "collectives": [COLLECTIVE]}) for n in (shared, written_out))
    assert one.fingerprint == other.fingerprint
    assert one.network.dimensions == other.network.dimensions


def test_a_dimension_may_sum_at_no_cost_where_the_others_do_not() -> None:
    dimensions = [DIMENSION, DIMENSION | {"reduction": None}]
    network = Network.model_validate({"reduction": "200 GB/s", "dimensions": dimensions})
    assert [d.reduction for d in network.dimensions] == [200e9, None]
    assert [d.reduction for d in Network.model_validate_json(network.model_dump_json()).dimensions] == [200e9, None]


@given(instances())
def test_an_instance_survives_json(instance: Instance) -> None:
    assert Instance.model_validate(json.loads(instance.model_dump_json())) == instance


@given(instances())
def test_the_fingerprint_survives_json(instance: Instance) -> None:
    assert Instance.model_validate_json(instance.model_dump_json()).fingerprint == instance.fingerprint


@pytest.mark.parametrize("field", ["latency", "launch_overhead", "bandwidth"])
def test_the_largest_quantity_that_is_accepted_can_be_printed(field: str) -> None:
    try:
        dimension = Dimension.model_validate(DIMENSION | {field: 1e30})
    except ModelError:
        return
    assert dimension.model_dump_json()


def test_overriding_size_and_chunks_reaches_every_collective() -> None:
    changed = FULL.overridden(size="1 MB", chunks=5)
    assert [(c.size, c.chunks, c.kind) for c in changed.collectives] == [
        (10**6, 5, CollectiveKind.ALL_REDUCE),
        (10**6, 5, CollectiveKind.REDUCE_SCATTER),
    ]


@pytest.mark.parametrize(
    "bad", [{"chunks": 0}, {"size": "1 B"}, {"latency": "no"}, {"ag_order": "no"}, {"chunks": 10**9}]
)
def test_overriding_is_checked(bad: dict[str, Any]) -> None:
    with pytest.raises(ModelError):
        FULL.overridden(**bad)


def test_what_changes_nothing_gives_the_instance_itself() -> None:
    """It need not be checked, compared or costed anew."""
    instance = layers(3)
    assert instance.overridden(chunks=instance.chunks, latency=instance.latency) is instance
    assert with_costs(instance) is instance


def test_replacing_keeps_quantities_to_the_last_bit() -> None:
    dimension = Dimension(kind=Kind.RING, size=4, bandwidth=1e9 / 3, latency=1 / 3)
    assert dimension.replace(size=5).bandwidth == dimension.bandwidth

"""Instances: every field is checked at the border."""

import math
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import PlainSerializer, ValidationError

from formulations.interruption import TimeUp
from themis_opt.base.errors import InputError
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.fields import MAX_BYTES, MAX_CHUNKS, MAX_DIMENSIONS, MAX_NPUS, Model, ModelError
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Algorithm, Dimension, Network, Packet

DIMENSION: dict[str, Any] = {"kind": "switch", "size": 4, "bandwidth": "48 GB/s"}
COLLECTIVE: dict[str, Any] = {"kind": "all_reduce", "size": "256 MB"}
TWO = {"dimensions": [DIMENSION, DIMENSION | {"kind": "ring"}]}
INSTANCE: dict[str, Any] = {"network": TWO, "collectives": [COLLECTIVE]}


def refusal(model: type[Dimension | Collective | Packet | Network | Instance], document: dict[str, Any]) -> str:
    """The message for a document that has to be refused."""
    with pytest.raises(ModelError) as caught:
        model.model_validate(document)
    return str(caught.value)


@pytest.mark.parametrize(
    ("kind", "algorithm"),
    [
        ("ring", Algorithm.RING),
        ("fully_connected", Algorithm.DIRECT),
        ("switch", Algorithm.HALVING_DOUBLING),
        ("line", Algorithm.LINE),
        ("mesh2d", Algorithm.MESH2D),
    ],
)
def test_the_algorithm_follows_from_the_kind(kind: str, algorithm: Algorithm) -> None:
    """Themis (ISCA 2022), table 1."""
    assert Dimension.model_validate(DIMENSION | {"kind": kind}).basic_algorithm is algorithm


def test_a_given_algorithm_beats_the_usual_one() -> None:
    assert Dimension.model_validate(DIMENSION | {"algorithm": "direct"}).basic_algorithm is Algorithm.DIRECT


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("size", value) for value in (-1, 0, 1, 2.0, 2.5, "4", True, None, math.nan, MAX_NPUS + 1, 10**400)),
        *(
            ("bandwidth", value)
            for value in (0, -1, "0 GB/s", "-1 GB/s", math.nan, math.inf, "1 GB", "GB/s", None, True)
        ),
        *(("latency", value) for value in (-1, "-1 ns", math.nan, math.inf, "1 B", None, False)),
        *(("reduction", value) for value in (0, -1, "0 B/s", "1 B", math.nan, math.inf)),
        *(("launch_overhead", value) for value in (-1, "-1 ns", math.nan, math.inf, "1 B", None)),
        *(("compression", value) for value in (0, 0.5, -2, math.nan, math.inf, "much", None)),
        *(("kind", value) for value in ("torus", "", None, 1)),
        *(("algorithm", value) for value in ("tree", "", 1)),
        *(("in_network", value) for value in ("perhaps", None, 2)),
        *(("packet", value) for value in ({}, {"payload": "1 kB"}, "4 kB")),
        ("bandwith", 1),
    ],
)
def test_a_bad_value_of_a_dimension_is_refused(field: str, value: object) -> None:
    assert refusal(Dimension, DIMENSION | {field: value}).startswith(field)


@pytest.mark.parametrize(
    ("field", "value"), [("payload", 0), ("payload", -1), ("payload", "0.5 B"), ("header", -1), ("header", math.nan)]
)
def test_a_bad_value_of_a_packet_is_refused(field: str, value: object) -> None:
    assert refusal(Packet, {"payload": "4 kB", "header": "64 B"} | {field: value}).startswith(field)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("size", value) for value in (0, -2, "0 B", "1.5 B", math.nan, math.inf, MAX_BYTES + 2, "1 s", None)),
        *(("chunks", value) for value in (0, -1, 1.0, "4", True, None, MAX_CHUNKS + 1, 10**9)),
        *(("release", value) for value in (-1, "-1 ns", math.nan, math.inf, "1e8 s", None)),
        *(("element_bytes", value) for value in (0, -1, 2.0, "2", None)),
        *(("kind", value) for value in ("barrier", None)),
        *(("dimensions", value) for value in ([], "dim1", [1])),
        ("colour", "red"),
    ],
)
def test_a_bad_value_of_a_collective_is_refused(field: str, value: object) -> None:
    assert refusal(Collective, COLLECTIVE | {field: value}).startswith(field)


@pytest.mark.parametrize("count", [0, MAX_DIMENSIONS + 1, 40])
def test_the_number_of_dimensions_is_limited(count: int) -> None:
    assert refusal(Network, {"dimensions": [DIMENSION] * count}).startswith("dimensions")


def test_the_number_of_npus_is_limited() -> None:
    assert refusal(Network, {"dimensions": [DIMENSION | {"size": 2**20}] * 3}).startswith("must have at most")


def test_a_name_may_not_be_that_of_an_unnamed_dimension() -> None:
    assert "must differ" in refusal(Network, {"dimensions": [DIMENSION | {"name": "dim2"}, DIMENSION]})


def test_dimensions_of_a_collective_must_exist() -> None:
    document = INSTANCE | {"collectives": [COLLECTIVE | {"dimensions": ["dim1", "dim3"]}]}
    assert refusal(Instance, document) == "collectives[0].dimensions names 'dim3', the network has dim1, dim2"


def test_dimensions_of_a_collective_may_not_repeat() -> None:
    document = INSTANCE | {"collectives": [COLLECTIVE | {"dimensions": ["dim1", "dim1"]}]}
    assert refusal(Instance, document) == "collectives[0].dimensions repeats a dimension"


@pytest.mark.parametrize(
    ("field", "value"),
    [("latency", "block"), ("ag_order", "random"), ("collectives", []), ("format", "other"), ("x", 1)],
)
def test_a_bad_value_of_an_instance_is_refused(field: str, value: object) -> None:
    assert refusal(Instance, INSTANCE | {field: value}).startswith(field)


def test_a_model_is_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Dimension.model_validate(DIMENSION).size = 8


@pytest.mark.parametrize(
    "make", [Dimension.model_validate(DIMENSION).replace, Dimension.model_validate(DIMENSION).varied]
)
def test_a_bad_change_is_an_input_error(make: Callable[..., Dimension]) -> None:
    with pytest.raises(InputError, match="Dimension: size = 0: ") as caught:
        make(size=0)
    assert (caught.value.field, caught.value.value) == ("size", 0)


def test_unnamed_dimensions_are_numbered_from_one() -> None:
    network = Network.model_validate({"dimensions": [DIMENSION, DIMENSION | {"name": "pod"}, DIMENSION]})
    assert network.dimension_names == ("dim1", "pod", "dim3")


def test_a_collective_spans_all_dimensions_unless_told() -> None:
    assert Instance.model_validate(INSTANCE).exchanges[0].span == (0, 1)


def test_a_span_is_sorted_from_the_innermost_outwards() -> None:
    collective = COLLECTIVE | {"dimensions": ["dim2", "dim1"]}
    assert Instance.model_validate(INSTANCE | {"collectives": [collective]}).exchanges[0].span == (0, 1)


def test_unnamed_collectives_are_called_by_kind_and_number() -> None:
    both = [COLLECTIVE | {"name": "gradients"}, COLLECTIVE]
    names = [exchange.name for exchange in Instance.model_validate(INSTANCE | {"collectives": both}).exchanges]
    assert names == ["gradients", "all_reduce2"]


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"kind": "line", "algorithm": "ring"}, "algorithm"),
        ({"kind": "line", "algorithm": "halving_doubling"}, "algorithm"),
        ({"kind": "ring", "algorithm": "line"}, "algorithm"),
        ({"kind": "line", "in_network": True}, "in_network"),
        ({"kind": "mesh2d", "algorithm": "direct"}, "algorithm"),
        ({"kind": "mesh2d", "in_network": True}, "in_network"),
        ({"kind": "mesh2d", "size": 7}, "size"),
    ],
)
def test_lines_and_grids_are_refused_what_they_have_no_links_for(fields: dict[str, Any], where: str) -> None:
    message = refusal(Dimension, DIMENSION | fields)
    assert where in message
    assert "line" in message or "mesh2d" in message


@pytest.mark.parametrize("kind", [KeyboardInterrupt, TimeUp])
@pytest.mark.parametrize("method", ["model_dump", "model_dump_json"])
def test_an_interruption_while_a_model_is_written_is_no_error(method: str, kind: type[BaseException]) -> None:
    def interrupt(_: object) -> str:
        raise kind

    class Interrupted(Model):
        field: Annotated[str, PlainSerializer(interrupt)] = ""

    with pytest.raises(kind):
        getattr(Interrupted(), method)()

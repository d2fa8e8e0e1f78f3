"""Plans: stages, numbers, labels and equality."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import instances, plans

from themis_opt.problem.exchanges import Collective, Exchange
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Kind, Network
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.plan import Chunks, Plan, equal_sizes, fixed_path


@pytest.fixture
def instance() -> Instance:
    """An all-reduce on both dimensions, then an all-to-all on the second."""
    dimension = {"kind": Kind.SWITCH, "size": 2, "bandwidth": 1e9}
    return Instance(
        network=Network(dimensions=(Dimension(**dimension), Dimension(**dimension, name="pod"))),
        collectives=(
            Collective(kind=CollectiveKind.ALL_REDUCE, size=20, chunks=2),
            Collective(kind=CollectiveKind.ALL_TO_ALL, size=10, chunks=3, dimensions=("pod",), name="experts"),
        ),
    )


@pytest.fixture
def plan() -> Plan:
    return Plan(
        (
            Chunks(np.array([12, 8]), np.array([[0, 1, 1, 0], [1, 0, 1, 0]])),
            Chunks(np.array([4, 4, 2]), np.array([[1], [1], [1]])),
        )
    )


def test_stages_are_numbered_by_collective_chunk_and_position(instance: Instance, plan: Plan) -> None:
    assert [(s.launch, s.chunk, s.position) for s in plan.stages(instance)] == [
        *((0, chunk, position) for chunk in range(2) for position in range(4)),
        *((1, chunk, 0) for chunk in range(3)),
    ]


@pytest.mark.parametrize(
    ("number", "label"), [(0, "all_reduce1 chunk 0 reduce_scatter on dim1"), (10, "experts chunk 2 all_to_all on pod")]
)
def test_a_label_names_collective_chunk_phase_and_dimension(
    instance: Instance, plan: Plan, number: int, label: str
) -> None:
    assert plan.label(instance, number) == label


def test_equal_plans_are_equal(plan: Plan) -> None:
    assert plan == Plan(tuple(Chunks(c.sizes.copy(), c.paths.copy()) for c in plan.chunks))


@pytest.mark.parametrize(
    "change",
    [
        lambda p: Plan(p.chunks, "scf"),
        lambda p: Plan(p.chunks[:1]),
        lambda p: Plan((Chunks(p.chunks[0].sizes[::-1].copy(), p.chunks[0].paths), p.chunks[1])),
        lambda p: Plan((Chunks(p.chunks[0].sizes, p.chunks[0].paths[::-1].copy()), p.chunks[1])),
        lambda p: p.enforcing((np.array([0, 3, 5, 7]), np.array([1, 2, 4, 6, 8, 9, 10]))),
        lambda p: None,
    ],
)
def test_different_plans_differ(plan: Plan, change: object) -> None:
    assert plan != change(plan)  # type: ignore[operator]


@pytest.mark.parametrize("name", ["sizes", "paths"])
def test_chunks_are_read_only(plan: Plan, name: str) -> None:
    with pytest.raises(ValueError, match="read-only"):
        getattr(plan.chunks[0], name)[0] = 1


@given(st.integers(1, 10**6), st.integers(1, 100), st.sampled_from([1, 2, 4]))
def test_equal_sizes_sum_up_and_differ_by_one_element_at_most(elements: int, chunks: int, element_bytes: int) -> None:
    size = (elements + chunks) * element_bytes
    collective = Exchange("", CollectiveKind.ALL_REDUCE, size, chunks, (0,), element_bytes)
    sizes = equal_sizes(collective)
    assert (len(sizes), sizes.sum()) == (chunks, size)
    assert sizes[0] - sizes[-1] in (0, element_bytes)


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("all_reduce", (0, 1, 2, 2, 1, 0)),
        ("reduce_scatter", (0, 1, 2)),
        ("all_gather", (2, 1, 0)),
        ("all_to_all", (0, 1, 2)),
        ("broadcast", (0, 1, 2, 2, 1, 0)),
        ("reduce", (0, 1, 2, 2, 1, 0)),
    ],
)
def test_the_fixed_order_scatters_outwards_and_gathers_inwards(kind: str, path: tuple[int, ...]) -> None:
    """Scatter from dim1 outwards, gather back inwards."""
    assert fixed_path(Exchange("", CollectiveKind(kind), 128, 1, (0, 1, 2))) == path


@given(st.data())
def test_every_stage_is_found_by_its_number(data: st.DataObject) -> None:
    instance = data.draw(instances())
    plan = data.draw(plans(instance))
    dimensions = [stage.dimension for stage in plan.stages(instance)]
    assert dimensions == plan.stage_dimensions.tolist()

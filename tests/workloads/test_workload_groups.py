"""Groups of NPUs over the innermost dimensions."""

import pytest

from themis_opt.base.errors import InputError
from themis_opt.problem.network import Dimension, Kind, Network
from themis_opt.workloads.groups import divide

NETWORK = Network(dimensions=tuple(Dimension(kind=Kind.SWITCH, size=n, bandwidth="1 GB/s") for n in (4, 6, 8)))


@pytest.mark.parametrize(
    ("size", "inside", "across"),
    [
        (1, (), ("dim1", "dim2", "dim3")),
        (2, ("dim1_model",), ("dim1_data", "dim2", "dim3")),
        (4, ("dim1",), ("dim2", "dim3")),
        (12, ("dim1", "dim2_model"), ("dim2_data", "dim3")),
        (24, ("dim1", "dim2"), ("dim3",)),
        (96, ("dim1", "dim2", "dim3_model"), ("dim3_data",)),
        (192, ("dim1", "dim2", "dim3"), ()),
    ],
)
def test_groups_fill_dimensions_from_the_innermost_one(
    size: int, inside: tuple[str, ...], across: tuple[str, ...]
) -> None:
    groups = divide(NETWORK, size)
    assert (groups.inside, groups.across) == (inside, across)
    assert groups.size * groups.copies == NETWORK.num_npus


@pytest.mark.parametrize("size", [3, 5, 10, 16, 384, 1920])
def test_groups_that_do_not_fit_are_refused(size: int) -> None:
    with pytest.raises(InputError, match="must fill dimensions of 4 x 6 x 8"):
        divide(NETWORK, size)


def test_parts_of_a_split_share_bandwidth() -> None:
    (split,) = divide(NETWORK, 12).splits
    assert (split.dimension, split.sizes, split.shared) == ("dim2", (3, 2), True)


def test_gradients_span_the_whole_network_where_no_model_is_shared() -> None:
    assert divide(NETWORK, 1).replicas is None

"""What certificates write down, by hand."""

import pytest
from small_iterations import iteration, tensor

from formulations.head_tail import LoadWindow
from themis_opt.problem.instance import Instance
from themis_opt.solving import certificates
from themis_opt.solving.period_bounds import inside_window


@pytest.fixture
def instance() -> Instance:
    """Three tensors, two of which are one collective."""
    kinds = ("all_reduce", "all_gather", "all_reduce")
    tensors = [tensor(f"x{n}", n, "a", "a", kind=kind) for n, kind in enumerate(kinds, start=1)]
    return iteration({"a": 10.0}, tensors, dimensions=2)


def test_tensors_of_a_kind_are_one_collective_of_all_their_bytes(instance: Instance) -> None:
    together = certificates._together(instance, instance.exchanges)
    assert [(one.kind.value, one.size) for one in together.collectives] == [("all_reduce", 4000), ("all_gather", 2000)]


def test_times_of_windows_are_rounded_down_and_rows_of_no_weight_left_out(instance: Instance) -> None:
    weights = {LoadWindow(0, 0.0, 7.9): 0.5, LoadWindow(1, 3.2, 0.4): 0.25, LoadWindow(1, 9.0, 9.0): 1e-30}
    unit, (first, second) = certificates.WEIGHT_UNIT, instance.resource_names
    assert certificates._rows(instance, weights) == [
        {"resource": first, "head": 0, "tail": 6, "weight": unit / 2},
        {"resource": second, "head": 2, "tail": 0, "weight": unit / 4},
    ]


@pytest.mark.parametrize(
    ("after", "before", "names"), [(0, 1, "x"), (0, 2, "xy"), (1, 2, "y"), (1, 3, "xy"), (2, 3, "x")]
)
def test_tensors_lie_in_windows_of_two_periods(after: int, before: int, names: str) -> None:
    """From the end of a task to the begin of one of the same period or of the next."""
    tensors = [tensor("x", 1, "a", "b"), tensor("y", 1, "b", "a")]
    steps = iteration({"a": 10.0, "b": 10.0}, tensors)
    assert "".join(one.exchange.name for one in inside_window(steps, after, before)) == names

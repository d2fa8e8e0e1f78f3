"""Entries into parts: by hand on boxes with latencies, and without these."""

from fractions import Fraction

import pytest

from formulations.flow_network import CapacityGraph
from formulations.part_entries import entry_times

BOXES, GPUS, NIC, NEAR, FAR = 4, 3, 2, 7, 10
HUBS, LEAVES = range(12, 16), range(16, 19)
PAIRS = [(npu, HUBS[npu // GPUS], NEAR) for npu in range(12)] + [(npu, LEAVES[npu % GPUS], FAR) for npu in range(12)]
LATENCIES = {arc: lag for npu, switch, lag in PAIRS for arc in ((npu, switch), (switch, npu))}
GRAPH = CapacityGraph(19, tuple(range(12)), {arc: NIC if lag == FAR else 9 for arc, lag in LATENCIES.items()})
PARTS = [{HUBS[box], *range(GPUS * box, GPUS * box + GPUS)} for box in range(BOXES)]


def windows(time: float) -> float:
    """What NICs can bring into boxes: of the box of the root, then of those that pass on what entered them."""
    starts = [0, *[2 * NEAR] * 2, *[2 * FAR, *[2 * FAR + 2 * NEAR] * 2] * 3]
    late = [max(time - start - 2 * FAR, 0) for start in starts]
    return NIC * sum((GPUS - 1) * max(one - 2 * NEAR, 0) + one for one in late)


@pytest.mark.parametrize("amount", [1, 30, 100, 1000])
def test_boxes_have_the_data_when_nics_could_bring_it(amount: int) -> None:
    time = next(entry_times(GRAPH, LATENCIES, PARTS, (0,), Fraction(amount)))
    needed = (BOXES - 1) * GPUS * amount
    assert windows(time - 1) < needed <= windows(time + 2)


def test_without_latencies_all_links_bring_data_at_once() -> None:
    at_once = next(entry_times(GRAPH, dict.fromkeys(LATENCIES, 0), PARTS, (0,), Fraction(10**6)))
    assert at_once == pytest.approx(10**6 * 3 / (12 * NIC), rel=1e-5)
    assert next(entry_times(GRAPH, LATENCIES, PARTS, (0,), Fraction(0))) == pytest.approx(2 * FAR, abs=1)

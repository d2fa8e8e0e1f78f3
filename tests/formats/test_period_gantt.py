from itertools import pairwise

import pytest
from iteration_schedules import scheduled, texts, with_compute
from matplotlib.collections import PolyCollection

from themis_opt.formats.gantt import gantt


def boxes(figure, row):
    """Left and right of every bar in a row that has a length."""
    bars = [c for c in figure.axes[1].collections if isinstance(c, PolyCollection)]
    corners = [path.vertices[:4] for collection in bars for path in collection.get_paths()]
    ends = [(c[:, 0].min(), c[:, 0].max()) for c in corners if abs(c[:, 1].mean() - row) < 1e-6]
    return sorted(end for end in ends if end[1] > end[0])


@with_compute
def test_tasks_and_waits_fill_the_row_of_compute(schedule):
    drawn = boxes(gantt(schedule), 0)
    assert drawn[0][0] == 0
    assert all(a[1] == pytest.approx(b[0]) for a, b in pairwise(drawn))


@with_compute
def test_bars_lie_inside_two_periods(schedule):
    right = gantt(schedule).axes[0].get_xlim()[1]
    drawn = [box for row in (1, 2) for box in boxes(gantt(schedule), row)]
    assert min(box[0] for box in drawn) >= 0
    assert max(box[1] for box in drawn) <= right * (1 + 1e-9)


@with_compute
def test_both_steady_periods_look_alike(schedule):
    assert schedule.period.is_steady
    period = gantt(schedule).axes[0].get_xlim()[1] / 2
    drawn = boxes(gantt(schedule), 1)
    first, second = (
        sum(max(min(right, end) - max(left, begin), 0) for left, right in drawn)
        for begin, end in ((0, period), (period, 2 * period))
    )
    assert first == pytest.approx(second)


def test_legend_tells_kinds_of_parallelism_apart():
    shown = texts(gantt(scheduled()))
    assert "model parallel: rows" in shown
    assert "data parallel: w2" in shown

from itertools import pairwise

import numpy as np
import pytest
from iteration_schedules import SHARED, layers, scheduled
from matplotlib.collections import PolyCollection
from matplotlib.image import imread

from themis_opt.formats.gantt import save_figure
from themis_opt.formats.iteration_colours import RAMPS, is_backward, launch_ramps, parallelism_of
from themis_opt.formats.iteration_gantt import COMPUTE_ROW, iteration_gantt
from themis_opt.formats.iteration_span import last_periods

POLICIES = ("fused/baseline", "wait_free/themis+scf", "dear/hourglass")


def texts(figure):
    figure.draw_without_rendering()
    labels = [t for axes in figure.axes for t in (*axes.texts, *axes.get_yticklabels(), axes.xaxis.label)]
    legends = [t for legend in figure.legends for t in legend.get_texts()]
    return "\n".join(t.get_text() for t in (*figure.texts, *labels, *legends))


def boxes(figure, row):
    """Left and right of every bar in a row that has a length."""
    bars = [c for c in figure.axes[1].collections if isinstance(c, PolyCollection)]
    corners = [path.vertices[:4] for collection in bars for path in collection.get_paths()]
    ends = [(c[:, 0].min(), c[:, 0].max()) for c in corners if abs(c[:, 1].mean() - row) < 1e-6]
    return sorted(end for end in ends if end[1] > end[0])


def test_a_png_holds_a_picture(tmp_path):
    save_figure(iteration_gantt(scheduled()), tmp_path / "gantt.png")
    assert np.ptp(imread(tmp_path / "gantt.png")) > 0.5


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_equal_schedules_give_equal_files(tmp_path, suffix):
    paths = [tmp_path / f"{n}{suffix}" for n in "ab"]
    for path in paths:
        save_figure(iteration_gantt(scheduled()), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize("policy", POLICIES)
def test_tasks_and_waits_fill_the_row_of_compute(policy):
    found = boxes(iteration_gantt(scheduled(policy)), COMPUTE_ROW)
    assert found[0][0] == 0
    assert all(a[1] == pytest.approx(b[0]) for a, b in pairwise(found))


@pytest.mark.parametrize("policy", POLICIES)
def test_bars_lie_inside_two_periods(policy):
    schedule = scheduled(policy)
    right = iteration_gantt(schedule).axes[0].get_xlim()[1]
    found = [box for row in (0, 1) for box in boxes(iteration_gantt(schedule), row)]
    assert min(box[0] for box in found) >= 0
    assert max(box[1] for box in found) <= right * (1 + 1e-9)


@pytest.mark.parametrize("policy", POLICIES)
def test_both_steady_periods_look_alike(policy):
    schedule = scheduled(policy)
    assert schedule.is_steady
    period = iteration_gantt(schedule).axes[0].get_xlim()[1] / 2
    found = boxes(iteration_gantt(schedule), 0)
    first, second = (
        sum(max(min(right, end) - max(left, begin), 0) for left, right in found)
        for begin, end in ((0, period), (period, 2 * period))
    )
    assert first == pytest.approx(second)


def test_the_length_of_the_picture_is_two_iterations():
    schedule = scheduled()
    assert last_periods(schedule, 2).length == 2 * schedule.iteration_time


def test_the_heading_says_what_an_iteration_takes():
    shown = texts(iteration_gantt(scheduled("fused/baseline")))
    assert all(word in shown for word in ("iteration ", "exposed communication", "overlap", "utilisation"))


def test_periods_are_numbered():
    schedule = scheduled()
    assert f"iteration {schedule.num_iterations - 1}: " in texts(iteration_gantt(schedule))


def test_legend_tells_kinds_of_parallelism_apart():
    shown = texts(iteration_gantt(scheduled()))
    assert "model parallel: rows" in shown
    assert "data parallel: w2" in shown


def test_legend_counts_the_launches_it_does_not_name():
    assert "3 more" in texts(iteration_gantt(scheduled(instance=layers(5))))


def test_launches_have_the_colours_of_their_parallelism():
    schedule = scheduled()
    for number, ramp in enumerate(launch_ramps(schedule)):
        kind = parallelism_of(schedule, number)
        ends = {pair[0] for pair in RAMPS[kind]}
        assert "#{:02x}{:02x}{:02x}".format(*(round(255 * x) for x in ramp(0.0)[:3])) in ends


@pytest.mark.parametrize(("name", "backward"), [("fc_forward", False), ("fc.input_gradient", True), ("bwd1", True)])
def test_the_pass_of_a_task_is_known_by_its_name(name, backward):
    assert is_backward(name) is backward


def test_names_with_dollars_are_drawn_as_they_are(tmp_path):
    save_figure(iteration_gantt(scheduled(), "a $price$ of $x_"), tmp_path / "gantt.png")


def test_mean_busy_bandwidth_over_a_period_is_what_is_sent():
    """Without overheads, dimensions are held only to send."""
    schedule = scheduled()
    times, shares = last_periods(schedule, 1).busy_bandwidth
    mean = (shares[:-1] * np.diff(times)).sum() / schedule.iteration_time
    bandwidth = sum(schedule.instance.fabric.bandwidths)
    assert mean == pytest.approx(schedule.costs.sent.sum() * 1e12 / bandwidth / schedule.iteration_time, rel=1e-4)


def test_dimensions_that_are_one_resource_can_use_all_bandwidth():
    schedule = scheduled("fused/baseline", layers(**SHARED))
    _, shares = last_periods(schedule, 2).busy_bandwidth
    assert shares.max() == pytest.approx(1.0)

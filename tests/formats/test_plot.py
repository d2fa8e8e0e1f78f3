"""Compact pictures: every stage in its row, other schedules below, the bound, and given axes."""

import shutil

import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

import themis_opt
from themis_opt import compare, make_policy, plot, simulate
from themis_opt.base.errors import InputError
from themis_opt.formats.plot import PAPER_WIDTH, save_figure
from themis_opt.schedules.schedule import Schedule


def scheduled(policy: str, name: str = "3d-sw_sw_sw_hetero.all_reduce.100MiB") -> Schedule:
    instance = themis_opt.load(name).overridden(chunks=4)
    return simulate(instance, make_policy(policy)(instance))


def boxes(axes) -> np.ndarray:
    """Left, right and row of every bar, sorted."""
    drawn = [c for c in axes.collections if isinstance(c, PolyCollection)]
    paths = [path.vertices[:4] for collection in drawn for path in collection.get_paths()]
    return np.array(sorted((p[:, 0].min(), p[:, 0].max(), round(p[:, 1].mean())) for p in paths))


def expected(schedule: Schedule, first: int) -> np.ndarray:
    times = np.stack([schedule.start / 1e9, schedule.end / 1e9, schedule.plan.stage_dimensions + first], axis=1)
    return np.array(sorted(map(tuple, times)))


def test_every_stage_is_drawn_and_other_schedules_below() -> None:
    one, other = scheduled("themis"), scheduled("baseline")
    axes = plot(one, beside={"baseline": other}, bound=one.makespan / 2)
    drawn, both = boxes(axes), np.concatenate([expected(one, 0), expected(other, 3)])
    np.testing.assert_allclose(drawn, both[np.lexsort(both.T[::-1])])
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        *(f"dim{k}" for k in (1, 2, 3)), *(f"baseline dim{k}" for k in (1, 2, 3))
    ]  # fmt: skip
    assert axes.lines[0].get_xdata() == pytest.approx([one.makespan / 2e9] * 2)
    assert axes.figure.get_figwidth() == PAPER_WIDTH
    assert axes.get_legend() is None


def test_it_draws_on_axes_of_ones_own() -> None:
    axes = Figure().add_subplot()
    assert plot(scheduled("themis"), axes) is axes
    assert axes.collections


def test_an_iteration_has_a_row_for_compute() -> None:
    axes = plot(scheduled("ddp", "v100-256.resnet-50"))
    assert axes.get_yticklabels()[0].get_text() == "compute"
    assert {row for _, _, row in boxes(axes)} == {0, 1, 2}


def test_a_comparison_shows_its_times_and_bound() -> None:
    comparison = compare(scheduled("themis").instance, ["baseline", "themis"])
    axes = comparison.plot()
    widths = [bar.get_width() for bar in axes.patches]
    assert widths == pytest.approx([result.makespan / 1e9 for result in comparison.results])
    assert axes.lines[0].get_xdata()[0] == pytest.approx(max(comparison.bounds.values()) / 1e9)


@pytest.mark.skipif(shutil.which("xelatex") is not None, reason="LaTeX is installed")
def test_pgf_without_latex_is_one_clear_error(tmp_path) -> None:
    with pytest.raises(InputError, match="needs LaTeX"):
        save_figure(plot(scheduled("themis")).figure, tmp_path / "a.pgf")

from xml.etree import ElementTree

import numpy as np
import pytest
from iteration_schedules import texts, with_and_without_compute
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.image import imread

from themis_opt.base.errors import InputError
from themis_opt.formats.gantt import gantt, save_figure
from themis_opt.policies.registry import make_policy
from themis_opt.problem.exchanges import Collective, Tensor
from themis_opt.problem.instance import Instance
from themis_opt.problem.iteration import ComputeTask, Iteration
from themis_opt.problem.network import Dimension, Network
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate


def scheduled(*collectives: Collective, **rules: str) -> Schedule:
    dimensions = tuple(
        Dimension(kind="switch", size=4, bandwidth=bandwidth, latency="1700 ns") for bandwidth in ("2 GB/s", "1 GB/s")
    )
    instance = Instance(network=Network(dimensions=dimensions), collectives=collectives, **rules)
    return simulate(instance, make_policy("themis+scf")(instance))


def all_reduce(name: str = "gradients", chunks: int = 4) -> Collective:
    return Collective(kind="all_reduce", size="256 MB", chunks=chunks, name=name)


def bars(figure: Figure) -> list[PolyCollection]:
    return [c for c in figure.axes[1].collections if isinstance(c, PolyCollection)]


def corners(figure: Figure) -> np.ndarray:
    """Left, right and row of every bar."""
    paths = [path.vertices for collection in bars(figure) for path in collection.get_paths()]
    return np.array(sorted((p[:, 0].min(), p[:, 0].max(), p[:, 1].mean().round()) for p in (q[:4] for q in paths)))


@with_and_without_compute
def test_a_png_holds_a_picture(tmp_path, schedule):
    save_figure(gantt(schedule), tmp_path / "gantt.png")
    assert np.ptp(imread(tmp_path / "gantt.png")) > 0.5


@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf"])
def test_equal_schedules_give_equal_files(tmp_path, suffix):
    schedule = scheduled(all_reduce())
    paths = [tmp_path / f"{n}{suffix}" for n in "ab"]
    for path in paths:
        save_figure(gantt(schedule), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_stages_of_a_pipeline_that_lag_behind_are_cut_off(tmp_path):
    tasks = (ComputeTask(name="t0", duration="1 us"), ComputeTask(name="t1", duration="1 us", stage=1, after=("t0",)))
    tensor = Tensor(name="g", size="1 MB", ready_after="t1", needed_before="t1")
    network = Network(dimensions=(Dimension(kind="ring", size=2, bandwidth="1 GB/s"),))
    instance = Instance(network=network, iteration=Iteration(tasks=tasks, tensors=(tensor,)), chunks=1)
    figure = gantt(simulate(instance, make_policy("fused/themis+scf")(instance)))
    assert corners(figure)[:, 1].max() <= figure.axes[0].get_xlim()[1]
    save_figure(figure, tmp_path / "gantt.png")


def test_control_characters_of_names_leave_the_svg_readable(tmp_path):
    save_figure(gantt(scheduled(all_reduce()), title="red \x1b[31m\x00"), tmp_path / "gantt.svg")
    ElementTree.parse(tmp_path / "gantt.svg")


@pytest.mark.parametrize("name", ["gantt.gif", "gantt"])
def test_other_suffixes_are_refused(tmp_path, name):
    with pytest.raises(InputError, match=r"pictures end in \.png, \.svg, \.pdf, \.pgf"):
        save_figure(gantt(scheduled(all_reduce())), tmp_path / name)
    assert not (tmp_path / name).exists()


def test_every_stage_is_a_bar_at_its_time_in_the_row_of_its_dimension():
    schedule = scheduled(all_reduce())
    milliseconds = np.stack([schedule.start / 1e9, schedule.end / 1e9, schedule.plan.stage_dimensions], axis=1)
    expected = np.array(sorted(map(tuple, milliseconds)))
    np.testing.assert_allclose(corners(gantt(schedule)), expected)


def test_the_title_is_drawn_literally(tmp_path):
    figure = gantt(scheduled(all_reduce()), title="cost $$ { of $x_")
    assert r"cost \$\$ { of \$x_" in texts(figure)
    save_figure(figure, tmp_path / "gantt.png")


def test_gathering_bars_have_a_hatch_and_scattering_bars_none():
    hatches = {collection.get_hatch() for collection in bars(gantt(scheduled(all_reduce()))) if collection.get_paths()}
    assert hatches == {None, "////"}


def test_the_legend_names_phases_and_collectives():
    tokens = Collective(kind="all_to_all", size="1 MB", chunks=2, name="tokens")
    shown = texts(gantt(scheduled(all_reduce(), tokens)))
    for part in ("reduce-scatter", "all-gather", "all-to-all", "chunks 0 to 3 of gradients", "chunks 0 to 1 of tokens"):
        assert part in shown


def test_an_unused_dimension_keeps_its_row():
    schedule = scheduled(Collective(kind="reduce_scatter", size="1 MB", chunks=2, dimensions=("dim1",)))
    shown = texts(gantt(schedule))
    assert "dim2\n4 × 1 GB/s" in shown
    assert "unused" in shown


def test_many_bars_become_an_image_inside_the_svg(tmp_path):
    save_figure(gantt(scheduled(all_reduce(chunks=3000))), tmp_path / "gantt.svg")
    assert "data:image/png" in (tmp_path / "gantt.svg").read_text(encoding="utf-8")

"""Results in a notebook: short texts, tables, and pictures on given axes."""

from html import unescape

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from planning import schedule_of

import themis_opt
from themis_opt.base.errors import InputError
from themis_opt.policies.baseline import Baseline
from themis_opt.study.comparison import compare
from themis_opt.tuning import tune

NAME = "fig5.all_reduce.256MB"
STEP = "3d-fc_ring_sw.resnet-50"


def outwards(instance):
    """A policy of a user."""
    return Baseline()(instance)


@pytest.fixture(scope="module")
def results():
    """A schedule, one with compute, its period, a comparison with a function, and a tuning."""
    instance, step = themis_opt.load(NAME), themis_opt.load(STEP)
    trained = schedule_of(step, "ddp/baseline")
    return {
        "schedule": schedule_of(instance, "themis+scf"),
        "trained": trained,
        "period": trained.period,
        "comparison": compare(instance, ["baseline", outwards]),
        "tuning": tune(instance, trials=2),
    }


EVERY = ("schedule", "trained", "period", "comparison", "tuning")


@pytest.mark.parametrize("name", EVERY)
def test_texts_are_short_and_say_what_it_is(results, name):
    text = repr(results[name])
    assert len(text) < 160
    assert text[0] == "<"
    assert ("ResNet-50" if name in ("trained", "period") else "fig5") in text


@pytest.mark.parametrize("name", ["comparison", "tuning"])
def test_pictures_are_drawn_on_axes_that_are_given_or_new(results, name):
    axes = Figure().add_subplot()
    assert results[name].plot(axes) is axes
    assert axes.has_data()
    assert isinstance(results[name].plot(), Axes)


@pytest.mark.parametrize("name", EVERY)
def test_frames_have_rows(results, name):
    frame = results[name].to_frame()
    assert len(frame) > 0
    assert len(frame.columns) > 1


@pytest.mark.parametrize("name", ["schedule", "trained", "comparison", "tuning"])
def test_notebooks_show_them_as_html(results, name):
    text = results[name]._repr_html_()
    assert text.startswith("<")
    assert "<table" in text


def test_problems_are_shown_by_their_dimensions():
    text = themis_opt.load(NAME)._repr_html_()
    assert "<td>24 GB/s</td>" in text
    assert repr(themis_opt.load(NAME)) == "<Instance fig5 all_reduce 256 MB: 16 NPUs (4x4), 1 collective>"
    assert repr(themis_opt.load(STEP)).endswith("(8x16x8), 2 tasks, 1 tensor>")


@pytest.mark.parametrize("name", ["comparison", "tuning"])
def test_verdicts_stand_above_the_table(results, name):
    assert results[name].verdict[0] in unescape(results[name]._repr_html_())


def test_broken_rules_of_constructors_are_input_errors():
    with pytest.raises(InputError, match="kind = 'torus'") as caught:
        themis_opt.Dimension(kind="torus", size=4, bandwidth="1 GB/s")
    assert "http" not in str(caught.value)


def test_a_period_waits_as_long_as_it_is_exposed(results):
    assert results["period"].to_frame()["length"].sum() == results["period"].exposed

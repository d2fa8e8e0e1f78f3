"""The page of a comparison: what its bars say, and what is left out where a browser could not show it."""

import re
from itertools import pairwise

import pytest
from layered_iterations import layers

import themis_opt
from themis_opt.formats.timeline import PICTURED_PERIODS
from themis_opt.reports import solution
from themis_opt.reports.solution import schedule_section
from themis_opt.study.comparison import Comparison, compare


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    instance = themis_opt.load("3d-sw_sw_sw_hetero.all_reduce.100MiB").overridden(chunks=16)
    return compare(instance, ["baseline+fifo", "themis+scf"])


def bars_of(comparison: Comparison) -> list[dict]:
    """The bars of the picture, as the browser gets them."""
    (figure,) = schedule_section(comparison).figures
    chart = figure.chart.to_dict()
    bars: list[dict] = chart["datasets"][chart["layer"][0]["data"]["name"]]
    return bars


def test_the_best_schedule_stands_above_the_baseline(comparison: Comparison) -> None:
    rows = list(dict.fromkeys(bar["row"] for bar in bars_of(comparison)))
    assert rows == [f"{policy} · dim{k}" for policy in ("themis+scf", "baseline+fifo") for k in (1, 2, 3)]


def test_bars_are_the_stages(comparison: Comparison) -> None:
    bars = [bar for bar in bars_of(comparison) if bar["row"].startswith("themis")]
    drawn = sorted((round(bar["start"] * 1e3), round(bar["end"] * 1e3), bar["phase"]) for bar in bars)
    stages = comparison.best.schedule.to_frame().to_dict("records")
    written = [(round(s["start_ns"]), round(s["end_ns"]), s["phase"].replace("_", "-")) for s in stages]
    assert drawn == sorted(written)


def test_a_bar_says_how_long_its_chunk_waited(comparison: Comparison) -> None:
    stages = comparison.best.schedule.to_frame().to_dict("records")
    waited = {
        (after["chunk"], after["phase"], after["dimension"])
        for before, after in pairwise(stages)
        if after["position"] and after["start_ns"] > before["ready_ns"]
    }
    bars = [bar for bar in bars_of(comparison) if bar["row"].startswith("themis")]
    said = {
        (int(bar["chunk"].split()[0]), bar["phase"].replace("-", "_"), bar["row"].split()[-1])
        for bar in bars
        if bar["waited"] != "0"
    }
    assert said == waited != set()


@pytest.mark.parametrize(("most", "shown"), [(192, 2), (191, 1), (95, 0)])
def test_too_many_stages_are_left_out(
    comparison: Comparison, monkeypatch: pytest.MonkeyPatch, most: int, shown: int
) -> None:
    monkeypatch.setattr(solution, "MOST_BARS", most)
    section = schedule_section(comparison)
    assert len({bar["row"].split()[0] for bar in bars_of(comparison)} if section.figures else set()) == shown
    assert bool(section.text) == (shown == 0)


def test_an_iteration_has_its_compute_and_the_ends_of_its_periods() -> None:
    compared = compare(themis_opt.load("v100-256.resnet-50"), ["ddp"])
    (figure,) = schedule_section(compared).figures
    text = figure.chart.to_json()
    assert "ddp · compute" in text
    assert len(re.findall(r'"label": "period"', text)) == PICTURED_PERIODS


@pytest.mark.parametrize(("most", "is_shown"), [(500, True), (400, False)])
def test_tasks_are_bars_too(monkeypatch: pytest.MonkeyPatch, most: int, is_shown: bool) -> None:
    monkeypatch.setattr(solution, "MOST_BARS", most)
    compared = compare(layers(100, chunks=1), ["fused/baseline"])
    section = schedule_section(compared)
    assert bool(section.figures) == is_shown

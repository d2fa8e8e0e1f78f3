"""The report on the Themis paper, on made-up rows and published numbers that can be worked out by hand."""

import json
from pathlib import Path

import pytest
from drawing.paper_reproduction import paper_reproduction
from drawing.published import published
from report_rows import MIB, bound, drawn, frame, panel_rows, row, write_experiment

from themis_opt.base.errors import InputError
from themis_opt.reports.experiment import ExperimentHead, read_experiment

THREE = ("baseline+fifo", "themis+fifo", "themis+scf")  # the policies of figures 8 and 11
FOLDER = Path(__file__).parents[2] / "reports" / "paper_reproduction"


def made(rows, **numbers):
    known = {"source": "made up"} | numbers
    return paper_reproduction(frame(rows), ExperimentHead("made_up", "Made up", published=known))


def section(report, heading):
    (part,) = [section for section in report.sections if section.heading.startswith(heading)]
    return part


def errors(report):
    """Points, mean absolute, largest and mean error by figure and quantity."""
    return {cells[:2]: cells[2:] for cells in section(report, "Errors").tables[0].rows}


def sizes(policy, *makespans, utilisation=0.5):
    """Runs of a policy at 100 and 150 MiB."""
    return [
        row(block="figures 8 and 11", network="net", fingerprint=f"s{number}", size_bytes=(100 + 50 * number) * MIB,
            policy=policy, makespan_ns=makespan, utilisation=utilisation)
        for number, makespan in enumerate(makespans)
    ]  # fmt: skip


TWO_SIZES = [*sizes("baseline+fifo", 4000, 8000), *sizes("themis+scf", 2000, 2000), *sizes("hourglass", 1000, 2000)]
POINTS = {"size_mib": [100, 150], "figure_8_us": {"net": {"themis+scf": [2.5, 1.6]}}}


def test_errors_are_means_over_the_points_that_were_published():
    points, mean, largest, bias = errors(made(TWO_SIZES, **POINTS))["Fig. 8", "time, themis+scf"]
    assert points == 2
    assert (mean, largest, bias) == pytest.approx(((0.2 + 0.25) / 2, 0.25, (-0.2 + 0.25) / 2))


def test_published_points_are_drawn_beside_ours_in_the_same_unit():
    curves = drawn(made(TWO_SIZES, **POINTS), "figure-8-1")
    assert curves["themis+scf"].y == (2000, 2000)
    assert curves["themis+scf, published"].y == pytest.approx((2500, 1600))
    assert curves["themis+scf, published"].guide


def test_the_policy_beyond_the_paper_has_a_speedup_and_no_published_one():
    cells = {
        c[0]: c[1:] for c in section(made(TWO_SIZES, figure_8_speedup={"themis+scf": 2.5}), "Fig. 8").tables[0].rows
    }
    assert cells["themis+scf"][:2] == pytest.approx((8**0.5, 2.5))
    assert cells["hourglass"][:2] == (pytest.approx(4), None)


def five(**makespans):
    return [row(block="figure 5", policy=policy, makespan_ns=makespan) for policy, makespan in makespans.items()]


def test_figure_5_is_in_units_of_which_the_baseline_takes_eight():
    rows = [*five(**{"baseline+fifo": 16, "themis+scf": 14}), bound(block="figure 5", bound_ns=13, bound_equal_ns=14)]
    report = made(rows, figure_5_units={"baseline+fifo": 8, "themis+scf": 7})
    assert errors(report)["Fig. 5", "units"] == (1, 0, 0, 0)
    assert "Fig. 5: the best schedule, of 7 units, is proven optimal for equal chunks." in report.summary


def test_the_last_window_of_activity_ends_with_the_schedule():
    extra = json.dumps({"activity": {"window_ns": 400, "dimensions": [[1, 1, 0.5], [0.5, 0, 0]]}})
    report = made([row(block="figure 9", makespan_ns=1000, extra=extra)])
    assert section(report, "Fig. 9").tables[0].rows == (("themis+scf", 1000, pytest.approx(0.9), pytest.approx(0.2)),)
    assert drawn(report, "figure-9-1")["dimension 1"].x == (0, 400, 800)


PANEL = panel_rows("2d-sw_sw.gnmt", "figure 12", "2D-SW_SW")
"""Iterations of 1000 ns compute: baseline 2020, Themis 1620, hourglass 1520, ideal 1350."""


def test_speedups_of_iterations_are_over_the_fixed_order():
    report = made(PANEL, figure_12_speedup={"GNMT": 1.3}, figure_12_ideal={"GNMT": 1.5})
    cells = {c[1]: c[2:4] for c in section(report, "Fig. 12").tables[0].rows}
    assert cells["themis+scf"] == pytest.approx((2020 / 1620, 1.3))
    assert cells["themis+scf_largest"] == pytest.approx((2020 / 1630, 1.3))
    assert cells["ideal"] == pytest.approx((2020 / 1350, 1.5))
    assert cells["exact"] == (pytest.approx(2020 / 1400), None)


def test_an_unknown_published_field_is_refused():
    with pytest.raises(InputError, match=r"published.json: figure_99.*unknown field"):
        made([row()], figure_99=1)


def test_published_numbers_lie_beside_the_experiment(tmp_path):
    folder = write_experiment(tmp_path / "paper", "paper_reproduction", [row()])
    (folder / "published.json").write_text('{"source": "somewhere"}')
    assert read_experiment(folder).published == {"source": "somewhere"}


def test_a_copied_experiment_is_set_beside_all_points_of_the_paper(tmp_path):
    known = published(read_experiment(write_experiment(tmp_path / "copied", "paper_reproduction", [row()])))
    assert known == published(read_experiment(FOLDER))
    assert known.by_size(known.figure_8_us)["2D-SW_SW", "themis+scf", 100 * MIB] == 818.2
    for curves in (known.figure_8_us, known.figure_11_utilisation):
        assert curves.keys() == known.table_2.keys()
        for policies in curves.values():
            assert {policy: len(curve) for policy, curve in policies.items()} == dict.fromkeys(THREE, 19)
    panels = known.figure_12_parts
    assert panels.keys() == known.figure_12_speedup.keys()
    assert all(networks.keys() == known.table_2.keys() for networks in panels.values())
    bars = [policies["baseline+fifo"] for networks in panels.values() for policies in networks.values()]
    assert len(bars) == 24
    assert all(sum(bar.values()) == pytest.approx(1, abs=1e-4) for bar in bars)

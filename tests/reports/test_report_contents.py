"""What the reports say about rows whose numbers can be worked out by hand."""

import json

import pytest
from report_rows import bound, draw, drawn, frame, row

from themis_opt.base.errors import InputError
from themis_opt.reports.experiment import ExperimentHead
from themis_opt.reports.sections import verdict

EXPERIMENT = ExperimentHead("made_up", "Made up")


def made(name, rows):
    return draw(name, frame(rows), EXPERIMENT)


def summary(name, rows):
    return " ".join(made(name, rows).summary)


def table(report, heading, number=0):
    (section,) = [section for section in report.sections if section.heading == heading]
    return {cells[0]: cells[1:] for cells in section.tables[number].rows}


def instance(name, least, **makespans):
    """Rows of one instance: its bound, and makespans of the baseline (b), Themis (t), hourglass (h), search (e)."""
    policies = {"b": "baseline+fifo", "t": "themis+scf", "h": "hourglass", "e": "exact"}
    place = {"instance": name, "fingerprint": name}
    runs = [row(**place, policy=policies[key], makespan_ns=makespan) for key, makespan in makespans.items()]
    return [bound(**place, bound_ns=least), *runs]


TWO = [*instance("one", 100, b=400, t=200, h=100), *instance("two", 100, b=110, t=110, h=120)]
"""Two instances: hourglass is proven optimal on the first, and beaten on the second."""


def test_the_speedup_is_a_geometric_mean_over_instances():
    rows = table(made("table", TWO), "Policies")
    assert rows["themis+scf"][1] == pytest.approx(2**0.5)
    assert rows["hourglass"][1] == pytest.approx((4 * 110 / 120) ** 0.5)
    assert rows["baseline+fifo"][1] == pytest.approx(1)


def test_the_gaps_of_a_policy_are_those_of_its_runs():
    runs, _, median, mean, largest, optimal = table(made("table", TWO), "Policies")["hourglass"]
    assert (runs, optimal) == (2, 1)
    assert (median, mean, largest) == pytest.approx((0.1, 0.1, 0.2))


def test_policies_are_also_compared_on_the_instances_that_all_ran():
    report = made("table", [*TWO, *instance("three", 100, t=300, h=300)])
    assert table(report, "Policies", 0)["hourglass"][0] == 3
    common = table(report, "Policies", 1)
    assert {policy: cells[0] for policy, cells in common.items()} == {
        "baseline+fifo": 2,
        "themis+scf": 2,
        "hourglass": 2,
    }
    assert common["hourglass"][4] == pytest.approx(0.2)


def test_the_best_policy_of_every_instance_is_named():
    rows = table(made("table", TWO), "Best policy on every instance")
    assert rows["one"][2:4] == ("hourglass", 100)
    assert rows["two"][2:4] == ("baseline+fifo", 110)
    assert rows["one"][5:] == pytest.approx((4, 0))


def test_the_verdict_names_the_policy_that_is_nearest_to_the_bound():
    searched = instance("three", 100, b=200, e=101)
    said = verdict(frame([*TWO, *searched]))
    assert said == (
        "Of the policies that do not search, hourglass is nearest to the bound, 10.0 % above it in the median of "
        "2 instances; of those that search, exact is nearest to the bound, 1.00 % above it on 1 instance."
    )


def test_without_bounds_the_verdict_is_about_speed():
    said = verdict(frame([row(policy="baseline+fifo", makespan_ns=300.0), row(policy="hourglass", makespan_ns=100.0)]))
    assert said.endswith("hourglass is fastest: 3.00 times as fast as the fixed order on 1 instance.")


def test_the_summary_of_a_table_has_its_numbers():
    text = summary("table", TWO)
    assert "6 schedules by 3 policies on 2 instances." in text
    assert "hourglass is fastest: 1.915 times as fast" in text
    assert "hourglass has the shortest makespan on 1 instance." in text
    assert "1 of 2 instances (50.0 %) have a schedule within 0.01 % of a proven bound." in text
    assert "The largest gap of a best schedule is 10.0 %." in text


def test_failed_runs_are_listed_with_their_errors():
    report = made("table", [*TWO, row(instance="three", status="failed", error="out of memory", makespan_ns="")])
    assert "Left out: 1 failed run." in report.summary
    assert table(report, "Failed runs")["three"] == (4, "themis+scf", None, "out of memory")


def test_interrupted_runs_are_left_out():
    cut = row(instance="one", fingerprint="one", policy="exact", status="interrupted", makespan_ns=50)
    report = made("table", [*TWO, cut, cut])
    assert "Left out: 2 interrupted runs." in report.summary
    assert "exact" not in table(report, "Policies")


@pytest.mark.parametrize("name", ["table", "policies"])
def test_makespans_without_a_bound_are_counted(name):
    assert "1 makespan without a bound: no gap is known." in made(name, [*TWO, row()]).summary


def test_a_makespan_below_its_bound_is_reported_as_a_bug():
    assert "1 makespan below a bound, which is a bug" in summary("table", instance("one", 100, t=90))


def test_gaps_are_averaged_by_chunk_count():
    rows = [cells | {"chunks": 4} for cells in instance("one", 100, t=110)]
    rows += [cells | {"chunks": 8} for cells in instance("two", 100, t=130) + instance("three", 100, t=150)]
    report = made("policies", rows)
    for number, expected in enumerate([(0.1, 0.4), (0.1, 0.4), (0.1, 0.5)]):  # median, mean, largest
        assert table(report, "By chunk count", number)["themis+scf"] == pytest.approx(expected)
    curve = drawn(report, "gap-by-chunks-small")["themis+scf"]
    assert curve.x == (4, 8)
    assert curve.y == pytest.approx((0.1, 0.4))


def searched(name, trajectory, **changes):
    place = {"instance": name, "fingerprint": name}
    extra = json.dumps({"trajectory": trajectory})
    return [bound(**place, bound_ns=100), row(**place, policy="exact", makespan_ns=110, extra=extra, **changes)]


def test_anytime_curves_show_median_and_range():
    paths = [[[1, 150, 90], [10, 110, 90]], [[1, 160, 90], [10, 120, 90]], [[1, 180, 90], [10, 110, 90]]]
    rows = [cells for number, path in enumerate(paths) for cells in searched(f"n{number}", path)]
    curve = drawn(made("policies", rows), "anytime")["exact"]
    assert (curve.x[0], curve.x[-1]) == pytest.approx((1, 10), rel=1e-3)
    assert (curve.y[0], curve.low[0], curve.high[0]) == pytest.approx((0.6, 0.5, 0.8))
    assert (curve.y[-1], curve.low[-1], curve.high[-1]) == pytest.approx((0.1, 0.1, 0.2))


@pytest.mark.parametrize("trajectory", [7, [1, 2], [[1]], [["x", "y", "z"]]])
def test_a_broken_trajectory_is_refused(trajectory):
    with pytest.raises(InputError, match=r"column extra = .*trajectory must be a list of"):
        made("policies", searched("one", trajectory))


def test_gaps_without_bounds_are_refused():
    with pytest.raises(InputError, match="column bound_ns: no makespan has a bound"):
        made("policies", [row()])


@pytest.mark.parametrize(
    ("prefix", "heading"),
    [("", "Where every chunk costs something"), ("random:", "Where every chunk costs something, random networks")],
)
def test_runs_with_costs_stand_apart(prefix, heading):
    costs = {"block": "reference with costs", "launch_overhead_ns": 2000.0, "packet": "4 KiB/30 B"}
    cheap = [cells | {"instance": f"{prefix}{cells['instance']}"} for cells in TWO]
    costly = [cells | costs for cells in instance(f"{prefix}costly", 100, b=300, t=250, h=200)]
    without, both = made("policies", cheap), made("policies", [*cheap, *costly])
    assert both.summary == without.summary
    headings = [section.heading for section in without.sections]
    assert [section.heading for section in both.sections] == [*headings, heading]
    assert table(both, heading)["hourglass"][2:5] == pytest.approx((1.0, 1.0, 1.0))
    assert "2 us" in both.sections[-1].text[0]


RANDOM = [
    *instance("random:1", 100, t=200, h=125, e=100),
    *instance("random:2", 100, t=140, h=140, e=120),
    *instance("random:3", 100, t=150, h=160),
    *instance("random:4", 100, t=100.1, h=100.05, e=100),
]
"""Four networks: Themis loses 100 % and 16.7 % to the best known on the first two, too little on the last."""


def test_remaining_loss_is_counted_where_themis_loses_and_a_search_ran():
    rows = table(made("policies", RANDOM), "What remains of the loss of themis+scf")
    networks, median, mean, _, largest = rows["hourglass"]
    assert networks == 2
    assert (median, mean, largest) == pytest.approx((0.625, 0.625, 1))
    assert rows["themis+scf"][1] == pytest.approx(1)


def timed(chunks, seconds, **changes):
    return row(chunks=chunks, fingerprint=str(chunks), simulate_seconds=seconds / 4, seconds=seconds, **changes)


def test_exponents_are_fitted():
    report = made("scaling", [timed(chunks, chunks**2 / 100) for chunks in (4, 8, 16)])
    assert table(report, "By chunks")["themis+scf"][:5] == pytest.approx((4, 0.12, 16, 1.92, 2))
    assert "time grows as stages to the power of 2.00" in report.summary[1]


def test_the_seconds_of_a_policy_are_without_the_simulation_and_those_of_a_search_with_it():
    rows = [timed(chunks, 8, policy=policy) for chunks in (4, 8) for policy in ("hourglass", "exact")]
    seconds = table(made("scaling", rows), "By chunks")
    assert (seconds["simulation"][1], seconds["hourglass"][1], seconds["exact"][1]) == (2, 6, 8)


def test_growth_is_measured_against_n_log_n():
    rows = [timed(chunks, 4 * chunks * chunks.bit_length()) for chunks in (2**k for k in range(2, 9))]
    last = table(made("scaling", rows), "By stages")["simulation"][5]  # 4 chunks are 16 stages
    assert last == pytest.approx((256 * 9 / (4 * 3)) / (1024 * 10 / (16 * 4)))


def test_a_block_with_the_name_of_an_axis_gives_its_rows():
    rows = [timed(4, 1, block="chunks"), timed(8, 2, block="chunks"), timed(16, 99, block="dimensions")]
    assert drawn(made("scaling", rows), "seconds-by-chunks")["simulation"].x == (4, 8)


def test_a_search_with_several_limits_is_no_policy_that_answers_at_once():
    rows = [*instance("one", 100, b=400, h=120), *instance("two", 100, b=400, h=120)]
    rows += [
        row(instance=name, fingerprint=name, policy="exact", makespan_ns=101, time_limit=limit, gap_asked=0.05)
        for name, limit in (("one", 10), ("two", 60))
    ]
    report = made("policies", rows)
    (section,) = [section for section in report.sections if section.heading == "By chunk count and size"]
    assert "hourglass has the smallest mean gap: 20.0 %" in section.text[0]
    (optimal,) = [section for section in report.sections if section.heading == "Proven optimal"]
    assert "2 search runs ended on reaching the gap that was asked for, at most 5.00 %" in optimal.text[1]

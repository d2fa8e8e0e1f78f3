"""The report on training iterations, on rows whose numbers can be worked out by hand."""

import pytest
from drawing.iterations import iterations
from report_rows import bucket_rows, frame, iteration, panel_rows, workload_rows

from themis_opt.base.errors import InputError
from themis_opt.reports.experiment import ExperimentHead


def made(rows):
    return iterations(frame(rows), ExperimentHead("made_up", "Made up"))


def table(rows, number=0):
    return made(rows).sections[0].tables[number].rows


PANEL = panel_rows("v100-256.resnet-50", "overlap")
"""Iterations of 1000 ns compute: fixed order 2020, ddp 1420, reference 1400, bound 1370."""


def test_policies_are_judged_by_the_same_bound():
    cells = {c[0]: c[1:] for c in table(PANEL)}
    assert cells["ddp/hourglass"][5:] == pytest.approx((2020 / 1420, 1420 / 1370 - 1, 420 / 370))
    assert cells["exact"][6:] == pytest.approx((1400 / 1370 - 1, 400 / 370))


def test_the_fastest_policy_is_one_that_does_not_search():
    (said,) = made(PANEL).summary
    assert said == (
        "v100-256.resnet-50: of the policies that do not search, ddp/hourglass is fastest, 3.65 % above the bound."
    )


SWEEP = {"1MiB": 1500, "25MiB": 1300, "400MiB": 1600}


def test_an_optimum_between_the_ends_is_inside_the_range():
    (said,) = made(bucket_rows(SWEEP)).summary
    assert said == "The best buckets are inside the range in 1 of 1 sweep."


def test_the_gap_of_exposed_communication_leaves_out_compute():
    rows = [r for name in ("a.gnmt", "b.gnmt") for r in panel_rows(name, "panels", policies=("fused/hourglass",))]
    gap, whole = 520 / 370 - 1, 1520 / 1370 - 1
    assert table(rows)[0] == ("gnmt", "fused/hourglass", 2, *map(pytest.approx, (gap, gap, whole, whole)), 0)


SKIPPED = workload_rows(
    "skipped synchronisation", [{"accumulate": k} for k in (4, 1)], [(4000, 600), (1000, 1000)], model="resnet-50"
)


def test_a_step_is_set_beside_its_estimate():
    once, rarely = table(SKIPPED)
    assert once[2:] == (1, 2000, 2000, 0)
    assert rarely[2:] == (4, 1150, 1250, pytest.approx(-0.08))
    assert "is off by 8.00 % at most" in made(SKIPPED).summary[0]


GROUPS = [{"group": 1, "npus": 8, "memory": 1000}, {"group": 4, "npus": 8, "memory": 400}]


def splitbrain(**changes):
    return [r | changes for r in workload_rows("splitbrain", GROUPS, [(1000, 600), (1000, 250)])]


def test_the_speedup_over_one_machine_counts_all_samples():
    assert [cells[5:] for cells in table(splitbrain())] == [(5, 0.625), (6.4, 0.8)]


def test_memory_is_relative_to_one_machine_and_beside_the_closed_form():
    _, cells = table(splitbrain(), 1)
    assert cells[:3] == ("vgg-16-cifar", 4, 0.4)
    assert 0.25 < cells[3] < 1
    assert cells[4] == pytest.approx(0.6)


def test_rows_without_a_known_block_are_refused():
    with pytest.raises(InputError, match="column block: no run of an iteration"):
        made([iteration(1, 1, block="other")])

"""The report on steps of training, on rows whose numbers can be worked out by hand."""

import pytest
from drawing.training import training
from report_rows import bound, frame, iteration, workload_rows

from themis_opt.base.errors import InputError
from themis_opt.reports.experiment import ExperimentHead


def made(rows):
    return training(frame(rows), ExperimentHead("made_up", "Made up"))


def bucket_rows(times):
    place = {"block": "buckets", "instance": "step", "fingerprint": "step"}
    runs = [iteration(1000, time - 1000, **place, policy=policy) for policy, time in times.items()]
    return [*runs, bound(**place, kind="iteration", bound_ns=1050.0, extra="{}")]


TIMES = {"blocks/baseline": 1100, "wait_free/baseline": 1320, "inductor/baseline": 1540, "exact": 1080}


def test_buckets_stand_beside_published_ratios():
    report = made(bucket_rows(TIMES))
    cells = {c[0]: c[-3:] for c in report.sections[0].tables[0].rows}
    assert cells["inductor/baseline"] == pytest.approx((1540 / 1100, 10_535 / 7852, 12.22 / 10.47))
    assert cells["exact"] == (pytest.approx(1080 / 1100), None, None)
    assert "have the order of the public comparison" in report.summary[0]
    assert "have another order" in made(bucket_rows(TIMES | {"inductor/baseline": 1200})).summary[0]


def test_tensor_parallelism_stands_beside_published_ratios():
    times = {"blocks/baseline": 1100, "wait_free/baseline": 1155}
    report = made([row | {"block": "tensor"} for row in bucket_rows(times)])
    assert report.sections[0].tables[0].rows[1][-3:] == pytest.approx((1.05, 2489 / 1885, 9.09 / 6.72))
    assert "2 policies differ by 5.00 %" in report.summary[0]
    assert "published up to 1.32 times" in report.summary[0]


def test_rules_stand_beside_the_best_schedule():
    rules = {"blocks/baseline": 200, "fsdp2/baseline": 100, "exact": 50}
    rows = [
        row
        for policy, exposed in rules.items()
        for row in workload_rows("sizes", [{"parallelism": "fsdp"}], [(1000, exposed)], policy, "llama-3-8b")
    ]
    (line,) = made(rows).sections[0].tables[0].rows
    assert line[:-1] == ("llama-3-8b fsdp", 8, 1000, 1200, 1100, "exact", 1050)


def test_a_published_step_lies_between_compute_and_the_pipeline_or_does_not():
    place = ("wait_free/baseline", "llama-3-405b")
    inside = workload_rows("set-ups", [{"npus": 8192}], [(10e9, 10e9)], *place)
    outside = workload_rows("set-ups", [{"npus": 16_384}], [(1e9, 1e9)], *place)
    report = made(inside + outside)
    assert "Of 2 published steps 1 lie" in report.summary[0]
    measured = report.sections[2].tables[0].rows
    assert [round(row[-1], 3) for row in measured[:2]] == [0.9, 0.915]


def test_rows_of_other_blocks_are_refused():
    with pytest.raises(InputError, match="no run of an iteration in any of the blocks buckets, tensor, sizes, set-ups"):
        made(workload_rows("elsewhere", [{}], [(1000, 100)]))

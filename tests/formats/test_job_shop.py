"""Schedules as flexible job shop problems."""

import pytest

from themis_opt.base.errors import InputError
from themis_opt.formats.exports import export, make_exporter
from themis_opt.formats.job_shop import FILE, Choice, JobShop, job_shop, read_job_shop
from themis_opt.policies.registry import make_policy
from themis_opt.problem.catalog import load
from themis_opt.schedules.simulator import simulate


def schedule(latency="occupy", policy="themis+scf"):
    instance = load("3d-sw_sw_sw_hetero.all_reduce.100MiB").overridden(chunks=8, latency=latency)
    return simulate(instance, make_policy(policy)(instance))


def test_what_is_written_is_read_again(tmp_path):
    own = schedule()
    assert export(own, "fjsp", tmp_path) == [tmp_path / FILE]
    shop = read_job_shop(tmp_path / FILE)
    assert shop == job_shop(own)
    assert (len(shop.jobs), shop.num_machines, {len(job) for job in shop.jobs}) == (8, 3, {6})


def test_latency_that_holds_the_dimension_replays_to_the_picosecond(tmp_path):
    own = schedule()
    export(own, "fjsp", tmp_path)
    (said,) = make_exporter("fjsp").check(own, tmp_path)
    assert f"they take {own.makespan} ps, no longer" in said


def test_latency_beside_the_dimension_is_left_out_and_said(tmp_path):
    own = schedule("lag")
    export(own, "fjsp", tmp_path)
    assert len(list(make_exporter("fjsp").notes(own))) == 1
    (said,) = make_exporter("fjsp").check(own, tmp_path)
    assert "which has latencies beside" in said


def test_another_schedule_is_told_apart(tmp_path):
    export(schedule(), "fjsp", tmp_path)
    with pytest.raises(InputError, match="is not the problem of this schedule"):
        list(make_exporter("fjsp").check(schedule(policy="baseline+fifo"), tmp_path))


def test_benchmark_files_with_choices_are_read(tmp_path):
    path = tmp_path / "mk.fjs"
    path.write_text("2 3 1.5\n2 2 1 5 3 4 1 2 6\n1 1 1 7\n", encoding="utf-8")
    shop = read_job_shop(path)
    assert shop == JobShop(3, (((Choice(0, 5), Choice(2, 4)), (Choice(1, 6),)), ((Choice(0, 7),),)))
    path.write_text(shop.text(), encoding="utf-8")
    assert read_job_shop(path) == shop


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "must hold the numbers of jobs and machines"),
        ("2 3\n1 1 1 7\n", "line 1 = 2: must be the number of lines that follow, 1"),
        ("1 3\n1 1 4 7\n", "line 2 = 4: must be at least 1 and at most 3"),
        ("1 3\n2 1 1 7\n", "line 2 = -1: must be at least 1"),
        ("1 3\n1 1 1 7 9\n", "line 2: holds more numbers than it announces"),
        ("1 3\n1 1 1 x\n", "line 2: must hold numbers"),
        ("1 3\n1 1 1 1.5\n", "line 2 = 1.5: must hold whole numbers"),
    ],
)
def test_files_that_break_a_rule_are_refused(tmp_path, text, rule):
    (tmp_path / "x.fjs").write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as refused:
        read_job_shop(tmp_path / "x.fjs")
    assert rule in str(refused.value)


def test_an_iteration_is_refused(tmp_path):
    instance = load("v100-256.resnet-50")
    with pytest.raises(InputError, match="a job shop has no compute beside it"):
        export(simulate(instance, make_policy("fused/baseline")(instance)), "fjsp", tmp_path)

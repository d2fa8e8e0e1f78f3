"""Schedules as flexible job shop problems."""

from dataclasses import replace

import pytest
from planning import schedule_of

from themis_opt.base.errors import InputError
from themis_opt.base.units import format_short_time
from themis_opt.formats.exports import export, make_exporter
from themis_opt.formats.job_shop import JOB_SHOP_FILE, JobShop, MachineChoice, job_shop, read_job_shop, read_starts
from themis_opt.formats.readers.registry import load
from themis_opt.schedules.schedule_file import read_schedule
from themis_opt.schedules.simulator import simulate


def schedule(latency="occupy", policy="themis+scf"):
    instance = load("3d-sw_sw_sw_hetero.all_reduce.100MiB").overridden(chunks=8, latency=latency)
    return schedule_of(instance, policy)


def test_what_is_written_is_read_again(tmp_path):
    scheduled = schedule()
    assert export(scheduled, "fjsp", tmp_path) == [tmp_path / JOB_SHOP_FILE]
    shop = read_job_shop(tmp_path / JOB_SHOP_FILE)
    assert shop == job_shop(scheduled)
    assert (len(shop.jobs), shop.num_machines, {len(job) for job in shop.jobs}) == (8, 3, {6})


def test_latency_that_holds_the_dimension_replays_to_the_picosecond(tmp_path):
    scheduled = schedule()
    export(scheduled, "fjsp", tmp_path)
    said, time = make_exporter("fjsp").check(scheduled, tmp_path)
    assert time.took == time.planned == scheduled.makespan
    assert f"they take {scheduled.makespan} ps, no longer" in said


def test_latency_beside_the_dimension_is_left_out_and_said(tmp_path):
    scheduled = schedule("lag")
    export(scheduled, "fjsp", tmp_path)
    assert len(list(make_exporter("fjsp").notes(scheduled))) == 1
    said, time = make_exporter("fjsp").check(scheduled, tmp_path)
    assert time.took < time.planned == scheduled.makespan
    assert "which has latencies beside" in said


def test_another_schedule_is_told_apart(tmp_path):
    export(schedule(), "fjsp", tmp_path)
    with pytest.raises(InputError, match="is not the problem of this schedule"):
        list(make_exporter("fjsp").check(schedule(policy="baseline+fifo"), tmp_path))


def test_benchmark_files_with_choices_are_read(tmp_path):
    path = tmp_path / "mk.fjs"
    path.write_text("2 3 1.5\n2 2 1 5 3 4 1 2 6\n1 1 1 7\n", encoding="utf-8")
    shop = read_job_shop(path)
    assert shop == JobShop(
        3, (((MachineChoice(0, 5), MachineChoice(2, 4)), (MachineChoice(1, 6),)), ((MachineChoice(0, 7),),))
    )
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


def answer(path, shop, starts):
    """A solver's answer: one line per job."""
    path.write_text("\n".join(" ".join(map(str, row)) for row in starts.reshape(len(shop.jobs), -1).tolist()))


@pytest.mark.parametrize("latency", ["occupy", "lag"])
def test_the_answer_of_a_solver_becomes_a_schedule(tmp_path, latency):
    slow, fast = schedule(latency, "baseline+fifo"), schedule(latency, "hourglass")
    shop = job_shop(fast)
    answer(tmp_path / "starts.txt", shop, fast.start)
    given = simulate(fast.instance, replace(fast.plan, sequences=(), dispatch="lifo"))
    to = f"fjsp:starts={tmp_path / 'starts.txt'}"
    assert [path.name for path in export(given, to, tmp_path)] == [JOB_SHOP_FILE, "schedule.json"]
    solved = read_schedule(tmp_path / "schedule.json")
    assert solved.makespan == fast.makespan < slow.makespan
    assert f"{format_short_time(fast.makespan)}, " in list(make_exporter(to).notes(given))[-1]
    assert list(make_exporter(to).check(given, tmp_path))[-1] == "schedule.json: obeys every rule of the model"


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda lines: lines[1:], "must have a line for each of 8 jobs"),
        (lambda lines: [lines[0] + " 7", *lines[1:]], "line 1 = 7: must have 6 start times"),
        (lambda lines: ["0 0 0 0 0 0", *lines[1:]], "line 1 = 0: must be at least"),
        (lambda lines: [lines[0].replace(" ", " 0.5 ", 1).rsplit(" ", 1)[0], *lines[1:]], "must be a whole number"),
    ],
)
def test_answers_that_break_a_rule_are_refused(tmp_path, change, rule):
    scheduled = schedule()
    path = tmp_path / "starts.txt"
    answer(path, job_shop(scheduled), scheduled.start)
    path.write_text("\n".join(change(path.read_text().splitlines())))
    with pytest.raises(InputError, match=rule):
        export(scheduled, f"fjsp:starts={path}", tmp_path / "out")


def test_a_machine_does_one_operation_at_a_time(tmp_path):
    shop = JobShop(1, (((MachineChoice(0, 5),),), ((MachineChoice(0, 4),),)))
    path = tmp_path / "starts.txt"
    path.write_text("4\n0\n")
    assert read_starts(path, shop).tolist() == [4, 0]
    path.write_text("3\n0\n")
    with pytest.raises(InputError, match="line 1 = 3: machine 1 is at work until 4"):
        read_starts(path, shop)


def test_a_job_shop_is_no_instance(tmp_path):
    path = tmp_path / "mk.fjs"
    path.write_text("2 3 1.5\n2 2 1 5 3 4 1 2 6\n1 1 1 7\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"mk\.fjs: a job shop of 2 jobs on 3 machines is no collective"):
        load(path)
    path.write_text("2 3 1.5\n2 2 1 5 3 4 1 2 6\n", encoding="utf-8")
    with pytest.raises(InputError, match="line 1 = 2: must be the number of lines that follow, 1"):
        load(path)


def test_an_iteration_is_refused(tmp_path):
    instance = load("v100-256.resnet-50")
    with pytest.raises(InputError, match="a job shop has no compute beside it"):
        export(schedule_of(instance, "fused/baseline"), "fjsp", tmp_path)

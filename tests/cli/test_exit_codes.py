"""Exit codes 0, 1 and 130; bad input (2) is in other modules."""

import json
import signal

import pytest

from themis_opt.study import bundle, comparison, robust

NAME = "fig5.all_reduce.256MB"
QUICK = ("--time-limit", 5, "--workers", 1, "--no-cache")


@pytest.mark.parametrize("command", ["solve", "compare"])
def test_unmet_gap_is_1(invoke, tmp_path, command):
    result = invoke(command, NAME, *QUICK, "--policies", "baseline", "--gap", 0.01, "-o", tmp_path)
    assert result.exit_code == 1


def test_unmet_gap_is_said(invoke, tmp_path):
    result = invoke("solve", NAME, *QUICK, "--policies", "baseline", "--gap", 0.01, "-o", tmp_path)
    assert result.stderr.splitlines()[-1] == "the gap of 1.00 % was not reached: 14.29 %"


def test_unmet_gap_does_not_lose_the_schedule(invoke, succeed, tmp_path):
    invoke("solve", NAME, *QUICK, "--policies", "baseline", "--gap", 0.01, "-o", tmp_path)
    assert succeed("validate", tmp_path / "schedule.json")


@pytest.mark.parametrize("gap", [0.001, 0.15, 1, "inf"])
def test_reached_gap_is_0(invoke, tmp_path, gap):
    result = invoke("solve", NAME, *QUICK, "--policies", "baseline,themis+scf", "--gap", gap, "-o", tmp_path)
    assert result.exit_code == 0


def test_without_a_gap_any_schedule_is_0(invoke, tmp_path):
    assert invoke("solve", NAME, *QUICK, "--policies", "baseline", "-o", tmp_path).exit_code == 0


@pytest.fixture
def interrupted(monkeypatch):
    """Ctrl-C when the given policy reports."""

    def at(policy):
        compare = comparison.compare

        def compare_and_interrupt(*arguments, **options):
            def progress(reporting, makespan, bound):
                if reporting == policy:
                    raise KeyboardInterrupt

            return compare(*arguments, **(options | {"progress": progress}))

        monkeypatch.setattr(comparison, "compare", compare_and_interrupt)

    return at


@pytest.mark.parametrize("policy", ["baseline+fifo", "themis+fifo", "exact"])
def test_interruption_is_130(invoke, interrupted, tmp_path, policy):
    interrupted(policy)
    assert invoke("solve", NAME, *QUICK, "-o", tmp_path).exit_code == 130


def test_interruption_prints_what_there_is(invoke, interrupted, tmp_path):
    interrupted("themis+fifo")
    rows = json.loads(invoke("solve", NAME, *QUICK, "-o", tmp_path, "--json").stdout)
    assert [row["policy"] for row in rows] == ["baseline+fifo", "themis+fifo"]


def test_interruption_writes_a_valid_schedule(invoke, succeed, interrupted, tmp_path):
    interrupted("exact")
    invoke("solve", NAME, *QUICK, "-o", tmp_path)
    assert succeed("validate", tmp_path / "schedule.json")


@pytest.fixture
def impatient(monkeypatch):
    """Ctrl-C when the results are about to be written."""
    write = bundle.write_comparison

    def interrupt_and_write(*arguments):
        signal.raise_signal(signal.SIGINT)
        return write(*arguments)

    monkeypatch.setattr(bundle, "write_comparison", interrupt_and_write)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("impatient")
def test_second_interruption_does_not_lose_the_schedule(invoke, succeed, interrupted, tmp_path):
    interrupted("exact")
    assert invoke("solve", NAME, *QUICK, "-o", tmp_path).exit_code == 130
    assert succeed("validate", tmp_path / "schedule.json")


@pytest.mark.usefixtures("impatient")
def test_interruption_while_writing_waits(invoke, tmp_path):
    assert invoke("solve", NAME, *QUICK, "--policies", "baseline", "-o", tmp_path).exit_code == 0


def test_interruption_is_said(invoke, interrupted, tmp_path):
    interrupted("exact")
    assert "interrupted" in invoke("solve", NAME, *QUICK, "-o", tmp_path).stderr.splitlines()[-1]


def test_interruption_among_disturbed_networks_keeps_the_schedule(invoke, succeed, monkeypatch, tmp_path):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(robust, "choose_robust", interrupt)
    assert invoke("solve", NAME, *QUICK, "--policies", "baseline", "--robust", "-o", tmp_path).exit_code == 130
    assert succeed("validate", tmp_path / "schedule.json")


def test_interruption_before_any_schedule_is_130(invoke, monkeypatch, tmp_path):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(comparison, "compare", interrupt)
    result = invoke("solve", NAME, *QUICK, "-o", tmp_path / "out")
    assert result.exit_code == 130
    assert result.stderr == "interrupted: there is no result yet\n"

"""Exit codes 0, 1 and 130; bad input (2) is in other modules."""

import json
import signal
import sys

import pytest

from themis_opt.study import comparison, sweep

NAME = "fig5.all_reduce.256MB"
QUICK = ("--time-limit", 5, "--workers", 1)


def test_unmet_gap_is_1_and_keeps_the_schedule(invoke, succeed, tmp_path):
    result = invoke("solve", NAME, *QUICK, "--policies", "baseline", "--gap", 0.01, "-o", tmp_path)
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == "the gap of 1.00 % was not reached: 14.29 %"
    assert succeed("validate", tmp_path / "schedule.json")


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


@pytest.mark.parametrize(("policy", "policies"), [("themis+fifo", 3), ("exact", 5)])
def test_interruption_is_130_and_keeps_what_there_is(invoke, succeed, interrupted, tmp_path, policy, policies):
    interrupted(policy)
    result = invoke("solve", NAME, *QUICK, "-o", tmp_path, "--json")
    assert result.exit_code == 130
    assert "interrupted" in result.stderr.splitlines()[-1]
    assert len(json.loads(result.stdout)) == policies
    assert succeed("validate", tmp_path / "schedule.json")


@pytest.fixture
def impatient(monkeypatch):
    """Ctrl-C when the results are about to be written."""
    write = comparison.write_comparison

    def interrupt_and_write(*arguments):
        signal.raise_signal(signal.SIGINT)
        return write(*arguments)

    monkeypatch.setattr(comparison, "write_comparison", interrupt_and_write)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_interrupted_sweep_keeps_the_places_that_are_done(invoke, monkeypatch, tmp_path):
    values = iter([1, 2])

    def compare_and_interrupt(*arguments, **options):
        if next(values) == 2:
            raise KeyboardInterrupt
        return comparison.compare(*arguments, **options)

    monkeypatch.setattr(sweep, "compare", compare_and_interrupt)
    result = invoke("sweep", NAME, "--over", "size=1MB,2MB", "--policies", "baseline", "-o", tmp_path)
    assert result.exit_code == 130
    assert len((tmp_path / "sweep.csv").read_text(encoding="utf-8").splitlines()) == 2
    assert result.stderr.splitlines()[-1] == "interrupted: the best schedules so far are kept"


@pytest.mark.usefixtures("impatient")
def test_second_interruption_does_not_lose_the_schedule(invoke, succeed, interrupted, tmp_path):
    interrupted("exact")
    assert invoke("solve", NAME, *QUICK, "-o", tmp_path).exit_code == 130
    assert succeed("validate", tmp_path / "schedule.json")


def test_interruption_before_any_schedule_is_130(invoke, monkeypatch, tmp_path):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(comparison, "compare", interrupt)
    result = invoke("solve", NAME, *QUICK, "-o", tmp_path / "out")
    assert result.exit_code == 130
    assert result.stderr == "interrupted: there is no result yet\n"


def test_pictures_are_left_out_where_packages_are_missing(invoke, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    for name in [name for name in sys.modules if name.startswith("themis_opt.reports")]:
        monkeypatch.delitem(sys.modules, name)
    result = invoke("demo", "-o", tmp_path)
    assert result.exit_code == 0
    assert result.stdout.endswith("order.json\n")
    assert result.stderr.count("no pictures: needs altair: pip install 'themis-opt[pictures]'") == 1
    assert (tmp_path / "schedule.json").exists()
    assert not (tmp_path / "gantt.svg").exists()
    runs = 'name = "a"\n[[runs]]\ninstances = ["fig5.all_reduce.256MB"]\npolicies = ["baseline"]\n'
    (tmp_path / "experiment.toml").write_text(runs, encoding="utf-8")
    assert "1 of 1 rows" in invoke("batch", tmp_path / "experiment.toml").stdout
    refused = invoke("plot", tmp_path / "schedule.json", "-o", tmp_path / "a.svg")
    assert (refused.exit_code, refused.stderr) == (2, "error: needs altair: pip install 'themis-opt[pictures]'\n")

"""Tuning: the search and its outcomes."""

import time

import pytest

import themis_opt
from themis_opt.base import clock as clocks
from themis_opt.base.errors import InputError
from themis_opt.policies.registry import make_policy, specify
from themis_opt.schedules.validation import validate
from themis_opt.tuning import tune, tuner
from themis_opt.tuning.space import Space, TrialMeasurement
from themis_opt.tuning.tuner import Trial, best_of

NAME = "2d-sw_sw.all_reduce.100MiB"
COSTLY = {"launch_overhead": "2 us", "packet": "4096B/30B", "latency": "occupy"}
OPTIONS = COSTLY | {"trials": 25, "max_chunks": 32}


@pytest.fixture(scope="module")
def instance():
    return themis_opt.load(NAME)


@pytest.fixture(scope="module")
def tuned(instance):
    return tune(instance, **OPTIONS)


def settings(tuned):
    return [(t.number, t.choice, t.state, t.measurement, t.repeats) for t in tuned.trials]


def trial(number, makespan, pieces, **fields):
    return Trial(number, {"chunks": pieces}, "complete", TrialMeasurement(makespan, 1.0, pieces), **fields)


def test_the_best_has_the_least_makespan_then_the_fewest_pieces():
    trials = [trial(0, 30, 1), trial(1, 20, 9), trial(2, 20, 4), trial(3, 20, 4), trial(4, 10, 1, repeats=3)]
    assert best_of(trials).number == 2
    assert best_of([Trial(0, {}, "failed")]) is None


class TestTune:
    def test_the_best_beats_the_default_and_is_valid(self, tuned):
        for schedule in (tuned.schedule, tuned.default_schedule):
            validate(schedule)
        assert tuned.schedule.makespan < tuned.default_schedule.makespan
        assert tuned.gain == pytest.approx(1 - tuned.schedule.makespan / tuned.default_schedule.makespan)

    def test_no_trial_beats_what_is_proven(self, tuned):
        proven = tuned.space.proven
        assert all(t.measurement.makespan >= proven * (1 - 1e-9) for t in tuned.trials if t.measurement)
        assert tuned.gap == tuned.best.measurement.makespan / proven - 1

    def test_every_trial_names_a_policy_that_can_be_made(self, instance, tuned):
        for row in tuned.trial_rows():
            make_policy(specify(row["specification"], instance))

    def test_equal_seeds_give_equal_trials(self, instance, tuned):
        assert settings(tune(instance, **OPTIONS)) == settings(tuned)

    def test_the_default_of_the_paper_is_tried_first(self, instance):
        tuned = tune(instance, **OPTIONS | {"trials": 1})
        assert tuned.trials[0].choice["chunks"] == 32  # the most that is allowed
        assert tuned.policy == "themis+scf"
        assert tuned.default_schedule.plan.chunks[0].sizes.tolist() == [100 * 2**20 // 64] * 64

    def test_a_small_space_is_tried_as_a_whole(self, instance):
        tuned = tune(instance, trials=100, policies=("hourglass",), profiles=("equal",), max_chunks=4, **COSTLY)
        assert sorted(t.choice["chunks"] for t in tuned.trials) == [1, 2, 3, 4]

    def test_equal_settings_are_simulated_once(self, monkeypatch, instance):
        measured, measure = [], Space.measure
        monkeypatch.setattr(Space, "measure", lambda self, c: measured.append(self.key(c)) or measure(self, c))
        tuned = tune(instance, trials=15, policies=("hourglass",), max_chunks=6, **COSTLY)
        assert len(measured) == len(set(measured)) == tuned.num_run > 5

    def test_settings_that_fail_are_recorded_and_the_others_tried(self, instance, monkeypatch):
        measure = Space.measure

        def failing(self, choice):
            if choice["chunks"] == 2:
                raise InputError("two is bad luck")
            return measure(self, choice)

        monkeypatch.setattr(Space, "measure", failing)
        tuned = tune(instance, policies=("hourglass",), profiles=("equal",), max_chunks=3, **COSTLY)
        assert [(t.choice["chunks"], t.state, t.error) for t in tuned.trials if t.error] == [
            (2, "failed", "two is bad luck")
        ]
        assert len(tuned.trials) == 3

    def test_no_success_is_an_error_that_says_why(self, instance, monkeypatch):
        def failing(self, choice):
            raise InputError("nothing works")

        monkeypatch.setattr(Space, "measure", failing)
        with pytest.raises(InputError, match="no trial succeeded: nothing works"):
            tune(instance, trials=2)

    def test_a_lost_ctrl_c_ends_the_search(self, instance, loses_ctrl_c):
        tuned = tune(instance, trials=50, progress=loses_ctrl_c, **COSTLY)
        assert tuned.interrupted
        assert len(tuned.trials) == 1

    @pytest.mark.parametrize("loaded", ["make_space", "load_machine_code"])
    def test_no_limit_counts_what_is_loaded_before_the_first_trial(self, instance, monkeypatch, loaded):
        load = getattr(tuner, loaded)

        def late(*arguments, **settings):
            clock[0] += 10.0
            return load(*arguments, **settings)

        clock = [time.monotonic()]
        monkeypatch.setattr(clocks, "monotonic", lambda: clock[0])
        monkeypatch.setattr(tuner, loaded, late)
        assert tune(instance, trials=5, time_limit=5.0).num_run == 5

    @pytest.mark.parametrize(("limits", "first"), [({}, "measured"), ({"time_limit": 100.0}, "loaded")])
    def test_machine_code_is_loaded_before_the_first_trial_of_a_limited_search(
        self, instance, limits, first, monkeypatch
    ):
        events, measure = [], Space.measure
        monkeypatch.setattr(tuner, "load_machine_code", lambda: events.append("loaded"))
        monkeypatch.setattr(Space, "measure", lambda *of: events.append("measured") or measure(*of))
        tune(instance, trials=1, **limits)
        assert events[0] == first

    def test_a_trial_whose_time_is_up_is_cut_off_and_counts_as_not_tried(self, instance, monkeypatch):
        measure, begun = Space.measure, []

        def endless_after_the_first(space, choice):
            begun.append(choice)
            while len(begun) > 1:
                time.sleep(0.01)
            return measure(space, choice)

        monkeypatch.setattr(Space, "measure", endless_after_the_first)
        tuned = tune(instance, trials=5, time_limit=1.5)
        assert len(begun) == 2
        assert tuned.num_run == 1
        assert [trial.number for trial in tuned.trials] == [0]

    def test_a_first_trial_that_does_not_end_is_cut_off(self, instance, monkeypatch):
        def endless(*arguments):
            while True:
                pass

        monkeypatch.setattr(tuner, "FIRST_OVERTIME", 0.05)
        monkeypatch.setattr(Space, "measure", endless)
        with pytest.raises(InputError, match="no trial was finished within the time limit"):
            tune(instance, trials=5, time_limit=0.05)

    def test_the_limit_is_spent_on_trials(self, instance, monkeypatch):
        measure, clock = Space.measure, [time.monotonic()]

        def slow(space, choice):
            clock[0] += 3.0
            return measure(space, choice)

        monkeypatch.setattr(clocks, "monotonic", lambda: clock[0])
        monkeypatch.setattr(Space, "measure", slow)
        tuned = tune(instance, trials=50, time_limit=10.0, **COSTLY)
        assert tuned.num_run == 4  # the last begins at 9 s

    @pytest.mark.parametrize(("field", "value"), [("trials", 0), ("max_chunks", 0)])
    def test_bad_arguments_are_refused(self, instance, field, value):
        with pytest.raises(InputError, match=field.replace("_", "-")):
            tune(instance, **{field: value})


def test_a_killed_search_goes_on_and_ends_as_if_it_had_not_been(tuned, instance, tmp_path, monkeypatch):
    """Of a file with a torn last line; what another instance left is not used."""
    journal = tmp_path / "measured.jsonl"
    tune("fig5.all_reduce.256MB", trials=2, journal=journal)
    tune(instance, **OPTIONS | {"trials": 10}, journal=journal)
    kept = len(journal.read_text().splitlines())
    journal.write_text(journal.read_text()[:-9])
    measured = []
    measure = Space.measure
    monkeypatch.setattr(Space, "measure", lambda space, choice: measured.append(choice) or measure(space, choice))
    again = tune(instance, **OPTIONS, journal=journal)
    assert settings(again) == settings(tuned)
    assert len(measured) == tuned.num_run - (kept - 2)

"""Tuning: the search, studies and outcomes."""

import math
import subprocess
import sys
import time

import pytest
from background import read_until
from six_layers import iteration
from small_iterations import two_layers

import themis_opt
from themis_opt.base import clock as clocks
from themis_opt.base.allowance import Allowance
from themis_opt.base.errors import InputError
from themis_opt.policies.registry import make_policy, specify
from themis_opt.problem.cost_overrides import with_costs
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.tuning import tune, tuner
from themis_opt.tuning.options import make_space
from themis_opt.tuning.space import Space, TrialMeasurement
from themis_opt.tuning.storage import StorageError, Trial, best_of, fresh, open_storage, open_study, sqlite_url
from themis_opt.tuning.tuner import Search

NAME = "2d-sw_sw.all_reduce.100MiB"
ENDLESS = Allowance(math.inf)
COSTLY = {"launch_overhead": "2 us", "packet": "4096B/30B", "latency": "occupy"}
PROBLEMS = {
    "collectives": (themis_opt.load(NAME), COSTLY | {"trials": 25, "max_chunks": 32}),
    "iteration": (iteration(), {"launch_overhead": "10 us", "trials": 25, "max_chunks": 8}),
}


@pytest.fixture(scope="module")
def instance():
    return themis_opt.load(NAME)


@pytest.fixture(scope="module", params=PROBLEMS)
def problem(request):
    """An instance, and options of a search in it with every kind of choice."""
    return PROBLEMS[request.param]


@pytest.fixture(scope="module")
def tuned(problem):
    return tune(problem[0], **problem[1])


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

    def test_every_trial_names_a_policy_that_can_be_made(self, problem, tuned):
        for row in tuned.trial_rows():
            make_policy(specify(row["specification"], problem[0]))

    def test_equal_seeds_give_equal_trials(self, problem, tuned):
        assert settings(tune(problem[0], **problem[1])) == settings(tuned)

    def test_the_default_of_the_paper_is_tried_first(self, instance):
        tuned = tune(instance, **PROBLEMS["collectives"][1] | {"trials": 1})
        assert tuned.trials[0].choice["chunks"] == 32  # the most that is allowed
        assert tuned.policy == "themis+scf"
        assert tuned.default_schedule.plan.chunks[0].sizes.tolist() == [100 * 2**20 // 64] * 64

    def test_the_default_of_pytorch_is_tried_first(self):
        tuned = tune(iteration(), trials=1, launch_overhead="10 us")
        costly = with_costs(iteration(), launch_overhead="10 us")
        assert tuned.policy == "ddp/baseline+fifo"
        assert tuned.schedule.makespan == simulate(costly, make_policy(tuned.policy)(costly)).makespan

    def test_a_small_space_is_tried_as_a_whole(self, instance):
        tuned = tune(instance, trials=100, policies=("hourglass",), profiles=("equal",), max_chunks=4, **COSTLY)
        assert sorted(t.choice["chunks"] for t in tuned.trials) == [1, 2, 3, 4]

    @pytest.mark.parametrize(
        ("instance", "options"),
        [
            (themis_opt.load(NAME), COSTLY | {"policies": ("hourglass",), "max_chunks": 6}),
            (iteration((1, 2)), {"policies": ("baseline",), "max_chunks": 1}),
        ],
        ids=PROBLEMS,
    )
    def test_equal_settings_are_simulated_once(self, monkeypatch, instance, options):
        measured, measure = [], Space.measure
        monkeypatch.setattr(Space, "measure", lambda self, c: measured.append(self.key(c)) or measure(self, c))
        tuned = tune(instance, trials=15, **options)
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

    def test_what_it_takes_to_make_the_space_counts(self, instance, monkeypatch):
        def late(*arguments, **settings):
            clock[0] += 10.0
            return make_space(*arguments, **settings)

        clock = [time.monotonic()]
        monkeypatch.setattr(clocks, "monotonic", lambda: clock[0])
        monkeypatch.setattr(tuner, "make_space", late)
        assert tune(instance, trials=5, time_limit=5.0).num_run == 1

    def test_a_trial_whose_time_is_up_is_cut_off_and_counts_as_not_tried(self, instance, monkeypatch):
        measure, begun = Space.measure, []

        def endless_after_the_first(space, choice):
            begun.append(choice)
            while len(begun) > 1:
                time.sleep(0.01)
            return measure(space, choice)

        monkeypatch.setattr(Space, "measure", endless_after_the_first)
        tuned = tune(instance, trials=5, time_limit=0.5)
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

    def test_choices_are_only_listed_and_compared_once_the_first_is_measured(self, instance, monkeypatch):
        events = []
        measure, every = Space.measure, tuner.every_choice
        monkeypatch.setattr(Space, "measure", lambda *of: events.append("measured") or measure(*of))
        monkeypatch.setattr(tuner, "every_choice", lambda of: events.append("listed") or every(of))
        tune(instance, trials=2, **COSTLY)
        assert events == ["measured", "listed", "measured"]

    def test_time_is_left_for_files_of_many_pieces(self, instance, monkeypatch):
        measure, clock = Space.measure, [time.monotonic()]

        def slow(space, choice):
            clock[0] += 3.0
            return measure(space, choice)

        monkeypatch.setattr(clocks, "monotonic", lambda: clock[0])
        monkeypatch.setattr(tuner, "SECONDS_PER_PIECE", 3 / 64)
        monkeypatch.setattr(Space, "measure", slow)
        tuned = tune(instance, trials=50, time_limit=10.0, **COSTLY)
        assert tuned.num_run == 3  # the next would begin at 9 s, and files of 64 pieces take three
        assert tuned.allowance.left == pytest.approx(1.0)

    @pytest.mark.parametrize(("field", "value"), [("trials", 0), ("max_chunks", 0)])
    def test_bad_arguments_are_refused(self, instance, field, value):
        with pytest.raises(InputError, match=field.replace("_", "-")):
            tune(instance, **{field: value})


class TestStudies:
    def test_a_resumed_study_goes_on_as_if_it_had_never_ended(self, problem, tuned, tmp_path):
        instance, options = problem
        storage = f"journal:{tmp_path / 'study.log'}"
        tune(instance, **options | {"trials": 9}, study="one", storage=storage)
        assert settings(tune(instance, **options, study="one", storage=storage)) == settings(tuned)

    def test_processes_that_share_a_study_try_nothing_twice(self, instance, tmp_path):
        """One searches while the other one is at a trial, as on two machines."""
        space, url = make_space(instance, **COSTLY), f"journal:{tmp_path / 'study.log'}"
        one, other = (Search(open_study(url, "one", "", space.identity), space, 0, url) for _ in range(2))
        other.run(24, ENDLESS, lambda run, *_: one.run(min(24, run + 1), ENDLESS, lambda *_: None))
        one.run(24, ENDLESS, lambda *_: None)
        keys = [space.key(trial.choice) for trial in fresh(one.trials)]
        assert len(set(keys)) == len(keys) == 24

    @pytest.mark.parametrize(
        ("changes", "part"),
        [
            ({"launch_overhead": "3 us"}, "instance"),
            ({"max_chunks": 8}, "space"),
            ({"profiles": ("free",)}, "space"),
            ({"min_chunk": "64KiB"}, "space"),
        ],
    )
    def test_a_study_about_something_else_is_refused(self, instance, tmp_path, changes, part):
        url = sqlite_url(tmp_path / "study.db")
        tune(instance, trials=1, study="one", storage=url, **COSTLY)
        with pytest.raises(InputError) as caught:
            tune(instance, trials=2, study="one", storage=url, **COSTLY | changes)
        assert f"study = 'one': belongs to another {part}" in str(caught.value)

    def test_a_study_of_another_program_is_refused(self, instance, tmp_path):
        import optuna

        url = sqlite_url(tmp_path / "study.db")
        foreign = optuna.create_study(storage=url, study_name="theirs")
        foreign.optimize(lambda asked: asked.suggest_float("x", 0, 1), n_trials=1)
        with pytest.raises(InputError, match="was not made by themis-opt tune"):
            tune(instance, trials=1, study="theirs", storage=url)

    def test_a_killed_search_keeps_its_trials_and_goes_on(self, instance, tmp_path):
        url = sqlite_url(tmp_path / "study.db")
        arguments = (f"trials=400, study='one', storage={url!r}, launch_overhead='2 us', packet='4096B/30B', "
                     "latency='occupy', progress=lambda run, total, trial: print(run, flush=True)")  # fmt: skip
        code = f"import themis_opt; from themis_opt.tuning import tune; tune(themis_opt.load({NAME!r}), {arguments})"
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        read_until("6", process.stdout)
        process.kill()
        process.wait()
        process.stdout.close()
        tuned = tune(instance, trials=9, study="one", storage=url, **COSTLY)
        whole = tune(instance, trials=6, **COSTLY)
        assert settings(tuned)[:6] == settings(whole)[:6]
        assert tuned.num_run >= 9

    @pytest.mark.parametrize(
        ("url", "said"),
        [
            ("sqlite:////no/such/folder/study.db", "unable to open database file"),
            ("journal:/no/such/folder/study.log", "No such file or directory"),
            ("nonsense", "must be a storage URL"),
            ("nodialect://host/name", "must be a storage URL"),
            ("oracle://user:secret@127.0.0.1:1/name", "needs a database driver that is not installed"),
        ],
    )
    def test_a_storage_that_cannot_be_opened_is_one_line(self, url, said):
        with pytest.raises(StorageError) as caught:
            open_storage(url)
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)
        assert "secret" not in str(caught.value)

    @pytest.mark.parametrize(
        "url",
        [
            "postgresql+psycopg://user:secret@127.0.0.1:1/name",
            "postgresql+psycopg://127.0.0.1:1/name?user=me&password=secret",
            "postgresql+psycopg://user:se%40cret@127.0.0.1:1/name?application_name=se%40cret",
            "postgresql+psycopg2://user:a:secret@127.0.0.1:1/name",
            "mysql://user:secret@127.0.0.1:1/name",
            "redis://:secret@127.0.0.1:1/0",
            "nodialect://user:secret@host?sslpassword=secret",
        ],
    )
    def test_no_error_holds_a_secret_of_the_storage(self, url):
        """Whichever drivers are installed."""
        with pytest.raises(StorageError) as caught:
            open_storage(url)
        assert "cret" not in str(caught.value) + repr(caught.value) + repr(caught.value.__dict__)

    @pytest.mark.parametrize("content", [b"no database at all", b"SQLite format 3\0" + b"\xff" * 4096])
    def test_a_damaged_database_is_one_line(self, tmp_path, content):
        path = tmp_path / "study.db"
        path.write_bytes(content)
        with pytest.raises(StorageError, match="storage = "):
            open_storage(sqlite_url(path))
        assert path.read_bytes() == content

    @pytest.mark.parametrize("content", ['{"op_code": nonsense\n{"a": 1}\n', '{"op_code": 77}\n'])
    def test_a_damaged_journal_is_one_line(self, instance, tmp_path, content):
        path = tmp_path / "study.log"
        path.write_text(content, encoding="utf-8")
        with pytest.raises(StorageError, match="cannot be read"):
            tune(instance, trials=1, storage=f"journal:{path}")
        assert path.read_text(encoding="utf-8") == content


@pytest.mark.parametrize(("kind", "is_offered"), [("all_reduce", True), ("reduce_scatter", False)])
def test_lines_to_paste_are_for_gradients_in_buckets(kind, is_offered):
    """Where gradients are reduced and scattered, there is no DistributedDataParallel with buckets."""
    verdict = tune(
        two_layers(40_000, 40_000, kind), launching=("ddp",), launch_overhead="9 ms", trials=12, max_chunks=1
    ).verdict
    assert any(sentence.startswith("Paste") for sentence in verdict) is is_offered

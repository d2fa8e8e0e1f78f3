"""The schedule that loses least on disturbed networks."""

import json

import pytest

from themis_opt.base.allowance import Allowance
from themis_opt.policies.registry import make_policy
from themis_opt.problem.catalog import load
from themis_opt.schedules.simulator import simulate
from themis_opt.study import robustness
from themis_opt.study.comparison import compare
from themis_opt.study.robustness import FEWEST_SAMPLES, SAMPLES, choose_robust, executions, num_samples, pool


def test_what_loses_least_is_preferred(figure_5):
    compared = compare(figure_5, ("baseline", "hourglass", "cyclic+fifo"))
    choice = choose_robust(compared, samples=30)
    losses = [distribution.quantile(0.95) for distribution in choice.distributions]
    assert losses == sorted(losses)
    assert len(losses) == 2 * len(compared.results)
    assert choice.chosen is choice.distributions[0]
    assert choice.chosen.policy.startswith(f"{choice.preferred}, ")


def test_a_fragile_plan_is_not_preferred_though_it_is_fastest():
    """With the best sizes for one order a plan gains little, and loses that where latencies are late."""
    instance = load("fig5.all_reduce.256MB")
    compared = compare(instance, ("themis+scf", "hourglass"))
    choice = choose_robust(compared, samples=50, seed=1)
    sentence = choice.verdict
    lost = f"{100 * choice.nominal.quantile(0.95):.2f} % on a disturbed network (95th percentile)"
    assert lost in sentence
    assert sentence.endswith("it is preferred.") is (choice.chosen is choice.nominal)
    assert choice.preferred in choice.chosen.policy


def test_large_plans_have_fewer_samples(figure_5):
    schedule = simulate(figure_5, make_policy("baseline")(figure_5))
    small = executions("plan", schedule)
    assert num_samples(small) == SAMPLES
    many = {str(number): small["plan, dynamic"] for number in range(100_000)}
    assert num_samples(many) == FEWEST_SAMPLES


def test_the_command_chooses_among_more_plans(succeed, tmp_path):
    options = ("--time-limit", 100_000, "--workers", 1, "--chunk-sizes", "equal", "-o", tmp_path)  # from process start
    text = succeed("solve", "fig5.all_reduce.256MB", "--robust", "--policies", "baseline", *options)
    assert " on a disturbed network (95th percentile)" in text.splitlines()[0]
    assert all(specification in text for specification in pool(load("fig5.all_reduce.256MB")))
    assert "# 200 disturbed networks" in text
    chosen = json.loads((tmp_path / "schedule.json").read_text(encoding="utf-8"))["summary"]["policy"]
    first = text.partition("policy, as it is run")[2].splitlines()[1]
    assert first.startswith(chosen)


class Countdown(Allowance):
    """An allowance that ends when it was asked for the given number of times."""

    def __init__(self, asked):
        super().__init__(asked, counts_work=True)

    @property
    def left(self):
        self.charge(1)
        return super().left + 1


@pytest.mark.parametrize("whole", [1, 4])
def test_sampling_ends_with_its_allowance_after_whole_samples(figure_5, whole):
    compared = compare(figure_5, ("baseline", "cyclic+fifo"))
    free = choose_robust(compared, samples=whole)
    preparing = 2 * len(free.distributions)  # and running each undisturbed
    asked = preparing + whole * len(free.distributions) + 1  # a run of another sample, which is dropped
    choice = choose_robust(compared, samples=100, allowance=Countdown(asked))
    for distribution, other in zip(choice.distributions, free.distributions, strict=True):
        assert distribution.makespans.tolist() == other.makespans.tolist()
        assert distribution.bounds.tolist() == other.bounds.tolist()


@pytest.mark.parametrize("asked", [0, 3, 7, 11])
def test_without_one_whole_sample_nothing_is_chosen(figure_5, asked):
    compared = compare(figure_5, ("baseline", "cyclic+fifo"))
    assert choose_robust(compared, allowance=Countdown(asked)) is None


def test_without_time_for_disturbed_networks_the_fastest_is_kept(invoke, tmp_path, monkeypatch):
    monkeypatch.setattr(robustness, "choose_robust", lambda *_, **__: None)
    result = invoke("solve", "fig5.all_reduce.256MB", "--robust", "--policies", "baseline,hourglass", "-o", tmp_path)
    assert "no disturbed network was simulated within --time-limit" in result.stderr
    assert "disturbed networks, the same for all" not in result.stdout
    assert (tmp_path / "schedule.json").exists()

"""The study of parameters and of mechanisms: what it varies, and what it says of differences."""

from typing import Any

import pytest
from ablation import mechanisms, number_variations, taken_out, verdict
from parameters import numbers, scaled, varied

from themis_opt.policies.hourglass.policy import USUAL_HOURGLASS, Hourglass
from themis_opt.problem.instance import Instance


@pytest.mark.parametrize(
    ("path", "value", "changed"),
    [
        (("trials_per_stage",), 3, lambda params: params.trials_per_stage),
        (("weights", "0"), 0.7, lambda params: params.weights[0]),
        (("paths", "steepness"), 4, lambda params: params.paths.steepness),
    ],
)
def test_one_number_is_varied(path: tuple[str, ...], value: float, changed: Any) -> None:
    params = varied(USUAL_HOURGLASS, path, value)
    assert changed(params) == value
    pairs = zip(numbers(USUAL_HOURGLASS), numbers(params), strict=True)
    assert [name for (name, before), (_, after) in pairs if before != after] == [path]


def test_counts_stay_whole_and_positive() -> None:
    assert scaled((16, 24), 2.0) == (32, 48)
    assert scaled(1, 0.5) == 1
    assert scaled(0.5, 0.5) == 0.25


@pytest.mark.parametrize("name", mechanisms())
def test_every_mechanism_can_be_taken_out_of_the_search_as_it_is(name: str) -> None:
    with taken_out(name):
        pass


def test_a_number_is_varied_within_the_block_alone(hetero: Instance) -> None:
    assert "hourglass.trials_per_stage x 0.5" in number_variations()
    instance = hetero.overridden(chunks=9, size="1 MiB")
    usual = Hourglass()(instance)
    with taken_out("hourglass: mirrored paths"):
        assert Hourglass()(instance) != usual
    assert Hourglass()(instance) == usual


@pytest.mark.parametrize(
    ("change", "error", "others", "words"),
    [(0.3, 0.1, 4, "**costs**"), (-0.3, 0.1, 4, "gains"), (0.1, 0.1, 4, "chance"), (0.0, 0.0, 0, "nothing")],
)
def test_a_difference_of_two_standard_errors_counts(change: float, error: float, others: int, words: str) -> None:
    assert verdict(change, error, others, num_instances=9) == words


def test_a_single_instance_says_nothing_of_its_noise() -> None:
    assert verdict(0.3, 0.0, others=1, num_instances=1) == "too few"

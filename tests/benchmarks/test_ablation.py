"""The study of mechanisms: what it takes out, and what it says of differences."""

import pytest
from ablation import MECHANISMS, taken_out, verdict
from held_out import HeldOut, Sizes

from themis_opt.policies.hourglass.policy import Hourglass
from themis_opt.problem.instance import Instance
from themis_opt.search import exact
from themis_opt.search.table import STEPS


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_can_be_taken_out_of_the_search_as_it_is(name: str) -> None:
    with taken_out(name):
        pass


@pytest.mark.parametrize("name", ["hourglass: mirrored paths", "hourglass: changes of paths"])
def test_a_mechanism_is_out_within_the_block_alone(name: str, hetero: Instance) -> None:
    instance = hetero.overridden(chunks=9, size="1 MiB")
    usual = Hourglass()(instance)
    with taken_out(name):
        assert Hourglass()(instance) != usual
    assert Hourglass()(instance) == usual


def test_a_line_of_the_table_is_left_out() -> None:
    with taken_out(next(name for name in MECHANISMS if name.startswith("step 1 "))):
        assert STEPS[1:] == exact.STEPS


def test_the_annealings_of_a_search_have_the_other_moves(hetero: Instance) -> None:
    instance = hetero.overridden(chunks=11)

    def makespans() -> list[float]:
        improved: list[float] = []
        limits = exact.Exact(seconds=0.5, deterministic=True, cp_sat=False)
        limits.solve(instance, progress=lambda makespan, bound: improved.append(makespan))
        return improved

    usual = makespans()
    with taken_out("exchange of phases"):
        assert makespans() != usual
    assert makespans() == usual


@pytest.mark.parametrize(("sizes", "concerned"), [("equal", False), ("free", True)])
def test_a_mechanism_of_a_step_concerns_the_instances_to_which_the_step_applies(
    sizes: Sizes, concerned: bool, hetero: Instance
) -> None:
    member = HeldOut("hetero", "costs", hetero.overridden(chunks=8, latency="occupy"), sizes)
    assert MECHANISMS["interval loads"].concerns(member) == concerned


@pytest.mark.parametrize(
    ("change", "error", "others", "words"),
    [(0.3, 0.1, 4, "**costs**"), (-0.3, 0.1, 4, "gains"), (0.1, 0.1, 4, "chance"), (0.0, 0.0, 0, "nothing")],
)
def test_a_difference_of_two_standard_errors_counts(change: float, error: float, others: int, words: str) -> None:
    assert verdict(change, error, others, num_instances=9) == words


def test_a_single_instance_says_nothing_of_its_noise() -> None:
    assert verdict(0.3, 0.0, others=1, num_instances=1) == "too few"

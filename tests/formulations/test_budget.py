"""How the limits of a search become parameters of CP-SAT."""

import pytest

from formulations.limits import SOLVER_SEARCHES, Limits, Relaxation


@pytest.mark.parametrize("relaxation", ["mixed", "none"])
def test_threads_search_as_asked(relaxation: Relaxation) -> None:
    parameters = Limits(workers=3).solver(relaxation).parameters
    assert tuple(parameters.subsolvers)[:3] == SOLVER_SEARCHES[relaxation][:3]


@pytest.mark.parametrize("budget", [Limits(workers=1), Limits(workers=4, deterministic=True)])
def test_a_single_thread_is_no_mixture(budget: Limits) -> None:
    assert not budget.solver("mixed").parameters.subsolvers
    assert budget.solver("none").parameters.linearization_level == 0


def test_the_usual_search_is_left_to_cp_sat() -> None:
    assert not Limits(workers=2).solver().parameters.subsolvers

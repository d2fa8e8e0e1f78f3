"""How the limits of a search become parameters of CP-SAT."""

from time import sleep

import pytest
from ortools.sat.python import cp_model

from formulations import cp_sat
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


@pytest.mark.parametrize(("memory", "is_proven"), [(1e-3, False), (1e4, True)])
def test_a_solver_is_stopped_where_the_process_holds_too_much(
    memory: float, is_proven: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it has proven anything, for every solution is looked at for longer than the memory is not."""
    monkeypatch.setattr(cp_sat, "POLL_SECONDS", 0.001)
    model = cp_model.CpModel()
    numbers = [model.new_int_var(0, 50, f"x{n}") for n in range(8)]
    model.add_all_different(numbers)
    model.add(sum(n * number for n, number in enumerate(numbers, start=3)) == 1234)
    model.minimize(sum(n % 3 * number for n, number in enumerate(numbers)))
    outcome = cp_sat.search(
        model, numbers, Limits(seconds=20.0, workers=1, gap=0.0, memory=memory), lambda *_: sleep(0.02)
    )
    assert (outcome.status == "optimal") == is_proven

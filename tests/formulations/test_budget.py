"""How the limits of a search become parameters of CP-SAT."""

from time import sleep

import pytest
from ortools.sat.python import cp_model

from formulations import cp_sat
from formulations.limits import Limits


@pytest.mark.parametrize("budget", [Limits(workers=3), Limits(workers=1)])
def test_only_a_search_that_propagates_does_without_relaxations(budget: Limits) -> None:
    usual, propagating = (budget.solver(propagates=propagates).parameters for propagates in (False, True))
    assert not usual.subsolvers
    assert (tuple(propagating.subsolvers)[:2], propagating.linearization_level) == (("no_lp", "quick_restart_no_lp"), 0)


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

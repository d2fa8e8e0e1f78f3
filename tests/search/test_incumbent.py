"""What a search knows, on figures that are set by hand; and when its steps end."""

import math
from dataclasses import replace

import pytest

from formulations.limits import Limits
from themis_opt.policies.registry import make_policy
from themis_opt.problem.instance import Instance
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.search import anneal
from themis_opt.search.anneal import PATIENCE, WORK_PER_SECOND, Anneal
from themis_opt.search.annealing import Annealing
from themis_opt.search.incumbent import Incumbent
from themis_opt.search.orders import Orders
from themis_opt.solving.lowering import num_arcs

DETERMINISTIC = Limits(seconds=10.0, workers=1, gap=0.1, deterministic=True)


@pytest.fixture(scope="module")
def start(figure_5: Instance) -> Schedule:
    return simulate(figure_5, make_policy("baseline+fifo")(figure_5))


def test_a_makespan_within_the_gap_above_the_bound_is_enough(start: Schedule) -> None:
    known = Incumbent(DETERMINISTIC, start, start.makespan / 1.2)
    assert known.enough == pytest.approx(start.makespan * 1.1 / 1.2)
    assert not known.done
    known.raise_bound(start.makespan / 1.3)
    assert known.bound == start.makespan / 1.2
    known.raise_bound(start.makespan / 1.05)
    assert known.done


def test_a_makespan_at_the_bound_is_enough_without_a_gap(start: Schedule) -> None:
    known = Incumbent(Limits(seconds=10.0, workers=1, gap=0.0, deterministic=True), start, start.makespan)
    assert known.done


def test_equal_schedules_are_not_kept(start: Schedule) -> None:
    reported = list[tuple[float, float]]()
    known = Incumbent(DETERMINISTIC, start, report=lambda *figures: reported.append(figures))
    assert not known.offer(start)
    assert known.offer(simulate(start.instance, make_policy("themis+scf")(start.instance)))
    assert known.best.makespan < start.makespan
    assert reported == [(start.makespan, 0.0), (known.best.makespan, 0.0)]


def test_solvers_get_what_is_left_or_less(start: Schedule) -> None:
    known = Incumbent(DETERMINISTIC, start)
    assert known.solver_limits().seconds == 10.0
    assert known.solver_limits(3.0).seconds == 3.0
    known.allowance.charge(8.0)
    assert known.solver_limits(3.0).seconds == pytest.approx(2.0)
    assert [known.next_seed() for _ in range(3)] == [(0, 0), (0, 1), (0, 2)]


def test_arcs_of_all_chunks_are_counted(start: Schedule) -> None:
    """Four chunks with two phases on two dimensions, where one of two may come first or second."""
    assert num_arcs(start) == 4 * 2 * 4


def test_orders_and_sizes_that_no_longer_gain_end_their_step(start: Schedule) -> None:
    """Long before the time is over, at the 6.67 ms of full bandwidth or little above."""
    known = Incumbent(Limits(seconds=0.5, workers=1, gap=0.1, deterministic=True), start, free_sizes=True)
    Orders().run(known)
    assert known.left > 0.4
    assert known.best.makespan < 7.1e9


def waves(
    known: Incumbent,
    monkeypatch: pytest.MonkeyPatch,
    *schedules: Schedule,
    work: float = 1.0,
    most_work: float = 3.5 * WORK_PER_SECOND,
) -> list[float]:
    """The work that each wave may do, where they offer these schedules, one each, and then none."""
    most, offered = list[float](), iter(schedules)

    def wave(known: Incumbent, tasks: list[anneal.Task], most_work: float) -> float:
        most.append(most_work)
        if (schedule := next(offered, None)) is not None:
            known.offer(schedule)
        return work

    monkeypatch.setattr(anneal, "run_wave", wave)
    Anneal(most_work=most_work).run(known)
    return most


def test_waves_end_some_after_the_last_that_gains(start: Schedule, monkeypatch: pytest.MonkeyPatch) -> None:
    better = simulate(start.instance, make_policy("themis+scf")(start.instance))
    assert len(waves(Incumbent(DETERMINISTIC, start), monkeypatch)) == PATIENCE
    assert len(waves(Incumbent(DETERMINISTIC, start), monkeypatch, start, better)) == 2 + PATIENCE
    assert not waves(Incumbent(DETERMINISTIC, start, start.makespan), monkeypatch)


def test_waves_do_no_more_work_than_they_may(start: Schedule, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 3.5 seconds of work, and 10 that the search has, a wave takes 2; where it has but 3, these are the limit."""
    known = Incumbent(DETERMINISTIC, start)
    assert waves(known, monkeypatch, work=2.0 * WORK_PER_SECOND) == [3.5 * WORK_PER_SECOND, 1.5 * WORK_PER_SECOND]
    assert known.left == 6.0
    known.allowance.charge(3.0)
    assert waves(known, monkeypatch, work=2.0 * WORK_PER_SECOND) == [3.0 * WORK_PER_SECOND, 1.0 * WORK_PER_SECOND]


def test_a_wave_takes_what_the_time_left_allows_at_the_pace_of_the_last(
    start: Schedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work of a first wave takes no time here, which counts as 20 ms."""
    known = Incumbent(replace(DETERMINISTIC, seconds=600.0, deterministic=False), start)
    most = waves(known, monkeypatch, work=1000.0, most_work=math.inf)
    pace = 0.9 * 1000 / 0.02
    assert most == pytest.approx([600 * WORK_PER_SECOND, 600 * pace, 600 * pace], rel=0.01)


def test_an_annealing_takes_the_work_it_may(start: Schedule) -> None:
    """In slices of a tenth of a second, and all that is left where too little would remain for one more."""
    second = float(WORK_PER_SECOND)
    for work, most, expected in ((0.2, 1.0, 0.2), (0.2, 0.3, 0.3)):
        _, taken = anneal._anneal(start, 0, 1e-2, work * second, False, most * second, lambda _: False)
        assert taken == pytest.approx(expected * second, rel=0.01)
    _, taken = anneal._anneal(start, 0, 1e-2, 0.2 * second, False, second, lambda _: True)
    assert taken == pytest.approx(0.1 * second, rel=0.01)
    _, taken = anneal._anneal(start, 0, 1e-2, 1.0, False, second, lambda _: False)
    assert taken == Annealing(start, 0).step_work

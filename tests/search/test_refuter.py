"""The bisection over horizons, with cells and oracles that are known."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from formulations.limits import Limits
from themis_opt.problem.instance import Instance
from themis_opt.schedules.schedule import Schedule
from themis_opt.search.incumbent import Incumbent
from themis_opt.search.refuter import Answer, Refuter
from themis_opt.search.start import starting_schedule

GAP = 0.01


@pytest.fixture(scope="module")
def start() -> Schedule:
    """Any schedule: its makespan is what the horizons are measured by."""
    dimensions = [{"kind": "switch", "size": 4, "bandwidth": bandwidth} for bandwidth in ("100 GB/s", "25 GB/s")]
    collectives = [{"kind": "all_reduce", "size": "4 MiB", "chunks": 4}]
    return starting_schedule(
        Instance.model_validate({"network": {"dimensions": dimensions}, "collectives": collectives})
    )


def incumbent(start: Schedule, seconds: float = 10.0, workers: int = 1) -> Incumbent:
    limits = Limits(seconds=seconds, workers=workers, gap=GAP, deterministic=workers == 1)
    return Incumbent(limits, start, start.makespan / 2)


@dataclass
class Knowing:
    """Refutes all horizons that are below the best makespan of a cell."""

    best: Mapping[str, float]
    work: float = 0.01
    asked: list[tuple[str, float]] = field(default_factory=list)

    def __call__(self, cell: str, horizon: float, limits: Limits) -> Answer[str]:
        self.asked.append((cell, horizon))
        return Answer({cell: horizon} if horizon < self.best.get(cell, 0.0) else {}, None, self.work)


def test_the_least_of_all_cells_is_proven(start: Schedule) -> None:
    known = incumbent(start)
    best = {name: start.makespan * share for name, share in (("a", 0.9), ("b", 0.8), ("c", 0.95))}
    Refuter(known, tuple(best), [Knowing(best)], precision=1.0).run()
    assert 0.75 * start.makespan < known.bound < best["b"]


def test_a_slow_oracle_raises_what_a_fast_one_leaves(start: Schedule) -> None:
    known, fast, slow = incumbent(start), *(Knowing({"a": start.makespan * share}) for share in (0.8, 0.95))
    Refuter(known, "a", [fast, slow], precision=1.0).run()
    assert 0.93 * start.makespan < known.bound < 0.95 * start.makespan
    assert all(horizon > 0.75 * start.makespan for _, horizon in slow.asked)


def test_what_an_oracle_learns_beside_the_question_counts(start: Schedule) -> None:
    """It answers about one cell, and refutes a longer horizon of both than was asked about."""

    def learns(cell: str, horizon: float, limits: Limits) -> Answer[str]:
        return Answer(dict.fromkeys("ab", 0.9 * start.makespan))

    known = incumbent(start)
    Refuter(known, "ab", [learns], precision=1.0, known={"a": 0.7 * start.makespan}).run()
    assert known.bound == pytest.approx(0.9 * start.makespan)


def test_cells_that_took_long_come_first(start: Schedule) -> None:
    """The work of a cell is the most that an answer about it took."""
    known, cells, work = incumbent(start, seconds=1000.0), list[str](), {"a": 0.1, "b": 0.3, "c": 0.2}

    def tells(cell: str, horizon: float, limits: Limits) -> Answer[str]:
        cells.append(cell)
        took = work[cell] / (1 if len(cells) <= 3 else 100)
        return Answer({cell: horizon}, None, took)

    Refuter(known, "abc", [tells], precision=0.01 * start.makespan).run()
    assert cells[:9] == [*"abc", *"bca", *"bca"]


def test_cells_of_which_nobody_knows_prove_nothing_and_it_ends(start: Schedule) -> None:
    known = incumbent(start)
    Refuter(known, "a", [Knowing({})], precision=1.0).run()
    assert known.bound == start.makespan / 2


def test_it_stops_when_the_time_is_over(start: Schedule) -> None:
    known, knowing = incumbent(start, seconds=1.0), Knowing({"a": float(start.makespan)}, work=0.3)
    Refuter(known, "a", [knowing], precision=1.0).run()
    assert known.left <= 0
    assert 1 < len(knowing.asked) <= 4
    assert start.makespan / 2 < known.bound < start.makespan


def test_ctrl_c_ends_it_and_what_is_proven_stays(start: Schedule) -> None:
    def interrupted(cell: str, horizon: float, limits: Limits) -> Answer[str]:
        if horizon > 0.8 * start.makespan:
            raise KeyboardInterrupt
        return Answer({cell: horizon})

    known = incumbent(start)
    Refuter(known, "a", [interrupted], precision=1.0).run()
    assert known.allowance.interrupted
    assert start.makespan / 2 < known.bound <= 0.8 * start.makespan


def test_an_oracle_that_needs_more_time_gets_more_and_one_that_gave_up_early_is_not_asked_again(
    start: Schedule,
) -> None:
    """One spends all that it may, and knows with a tenth of the time; the other has no use for more."""
    known, horizons = incumbent(start, seconds=1000.0), list[float]()

    def needs_time(cell: str, horizon: float, limits: Limits) -> Answer[str]:
        enough = limits.seconds >= 150 and horizon < 0.9 * start.makespan
        return Answer({cell: horizon} if enough else {}, None, limits.seconds)

    def gives_up(cell: str, horizon: float, limits: Limits) -> Answer[str]:
        horizons.append(horizon)
        return Answer({}, None, limits.seconds / 4)

    Refuter(known, "a", [gives_up, needs_time], precision=1.0).run()
    assert known.bound > 0.7 * start.makespan
    assert all(later < earlier for earlier, later in pairwise(horizons[:3]))
    assert len(horizons) == len({*horizons})

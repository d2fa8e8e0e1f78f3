"""Waves of local search on several threads."""

from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import replace
from time import sleep
from typing import Any, ClassVar

import numpy as np
import pytest

from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.validation import validate
from themis_opt.search import local_search, population
from themis_opt.search.annealing import Annealing, is_ready
from themis_opt.search.annealing_state import MoveParams
from themis_opt.search.limits import Allowance
from themis_opt.search.local_search import LocalSearch, LocalSearchParams
from themis_opt.search.starts import usual_schedule
from themis_opt.solving.sizing import granule

WORK = 2.0**18
"""Stages per thread and wave, for some hundredths of a second."""

SHORT_STARTS = LocalSearchParams(start_work=2**18)
"""Starts of free sizes take no second either."""

UNITS = 10**9
"""Picoseconds of a unit of time of figure 5."""


@pytest.fixture(autouse=True, scope="module")
def _compiled_before(figure_5: Instance) -> None:
    is_ready(None)


def never(makespan: float) -> bool:
    return False


def at_once(makespan: float) -> bool:
    return True


def searched(instance: Instance, num_waves: int = 2, free_sizes: bool = False, **options: Any) -> LocalSearch:
    """A search after some waves."""
    free_start = usual_schedule if free_sizes else None
    search = LocalSearch(usual_schedule(instance), free_start=free_start, params=SHORT_STARTS, **options)
    for _ in range(num_waves):
        search.wave(WORK, never)
    return search


@pytest.fixture
def num_slices(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many slices of annealing have run so far."""
    slices: list[int] = []
    run = Annealing.run

    def counted(self: Annealing, steps: int, hot: float, cold: float, **options: bool) -> None:
        slices.append(steps)
        run(self, steps, hot, cold, **options)

    monkeypatch.setattr(Annealing, "run", counted)
    return lambda: len(slices)


class Idle:
    """An annealing that only notes its seed and its steps."""

    seeds: ClassVar[list[int]] = []
    steps: ClassVar[list[int]] = []
    heats: ClassVar[list[float]] = []
    starts: ClassVar[list[Schedule]] = []

    def __init__(self, start: Schedule, seed: int, moves: MoveParams, *, resizes: bool, pairs: int | None) -> None:
        self.start, self.step_work = start, start.plan.num_stages
        self.makespan, self.cost = start.makespan, 1.0
        self.seeds.append(seed)
        self.starts.append(start)

    def run(self, steps: int, hot: float, cold: float, *, keeps_sizes: bool) -> None:
        assert not keeps_sizes
        self.steps.append(steps)
        self.heats.append(hot)

    def best(self) -> Schedule:
        return self.start


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> type[Idle]:
    """Annealings that do nothing."""
    Idle.seeds, Idle.steps, Idle.heats, Idle.starts = [], [], [], []
    monkeypatch.setattr(population, "Annealing", Idle)
    return Idle


@pytest.mark.parametrize("free_sizes", [False, True])
@pytest.mark.parametrize("workers", [1, 3])
def test_equal_seeds_and_workers_give_equal_schedules(hetero: Instance, free_sizes: bool, workers: int) -> None:
    few = hetero.overridden(chunks=20)
    one, other = (searched(few, workers=workers, seed=5, free_sizes=free_sizes).best for _ in range(2))
    assert one == other


def test_the_order_in_which_threads_finish_does_not_matter(hetero: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = searched(hetero, workers=3).best
    best, delays = Annealing.best, iter([0.2, 0.1, 0.0, 0.0, 0.1, 0.2])

    def late(self: Annealing) -> Schedule:
        sleep(next(delays))
        return best(self)

    monkeypatch.setattr(Annealing, "best", late)
    assert searched(hetero, workers=3).best == expected


def test_another_seed_finds_another_schedule(hetero: Instance) -> None:
    assert searched(hetero, 1, seed=1).best != searched(hetero, 1, seed=2).best


def test_every_thread_of_every_wave_has_a_seed_of_its_own(hetero: Instance, idle: type[Idle]) -> None:
    searched(hetero, num_waves=3, workers=4)
    assert len(set(idle.seeds)) == 12


def test_annealings_start_at_several_temperatures_in_turn(hetero: Instance, idle: type[Idle]) -> None:
    searched(hetero, num_waves=3, workers=2)
    usual = LocalSearchParams()
    assert sorted(idle.heats) == pytest.approx(sorted(2 * [heat * usual.hot for heat in usual.heats]))


def test_every_other_one_of_the_longest_waves_begins_anew(hetero: Instance, idle: type[Idle]) -> None:
    first = usual_schedule(hetero.overridden(chunks=8))
    num_stages = first.plan.num_stages  # 48: the longest wave has 4 * 48 times the steps of the first one
    search = LocalSearch(first, params=LocalSearchParams(first_work=num_stages, growth=2.0, steps_per_stage=4))
    search.best = replace(first)
    for _ in range(11):
        search.wave(1e12, never)
    assert [start is first for start in idle.starts] == 8 * [False] + [True, False, True]


def test_a_wave_ends_as_soon_as_the_best_is_enough(hetero: Instance, num_slices: Callable[[], int]) -> None:
    search = searched(hetero, num_waves=0)
    offered: list[Schedule] = []
    search.run(Allowance(60.0), 60.0, 5, float(search.best.makespan), offered.append)
    assert num_slices() == len(offered) == 1


def test_the_best_of_all_threads_is_kept(hetero: Instance) -> None:
    alone = searched(hetero, num_waves=1, workers=1).best
    assert searched(hetero, num_waves=1, workers=3).best.makespan <= alone.makespan


@pytest.mark.parametrize("free_sizes", [False, True])
def test_no_wave_makes_it_worse(mixed: Instance, free_sizes: bool) -> None:
    search = searched(mixed, num_waves=0, free_sizes=free_sizes)
    makespans = [search.best.makespan]
    for _ in range(3):
        search.wave(WORK, never)
        makespans.append(search.best.makespan)
    assert makespans == sorted(makespans, reverse=True)
    assert makespans[-1] < makespans[0]


@pytest.mark.parametrize("free_sizes", [False, True])
@pytest.mark.parametrize("latency", ["lag", "occupy"])
@pytest.mark.parametrize("ag_order", ["free", "reverse"])
def test_schedules_are_valid(every_kind: Instance, free_sizes: bool, latency: str, ag_order: str) -> None:
    instance = every_kind.overridden(chunks=6, latency=latency, ag_order=ag_order)
    best = searched(instance, num_waves=1, free_sizes=free_sizes).best
    validate(best)
    assert best.instance is instance


@pytest.mark.parametrize("free_sizes", [False, True])
@pytest.mark.parametrize("kind", CollectiveKind)
def test_every_kind_of_collective_gets_shorter(hetero: Instance, free_sizes: bool, kind: CollectiveKind) -> None:
    instance = hetero.replace(collectives=(Collective(kind=kind, size="100 MiB", chunks=9),))
    best = searched(instance, num_waves=1, free_sizes=free_sizes).best
    validate(best)
    assert best.makespan < usual_schedule(instance).makespan


def test_equal_chunks_stay_equal(hetero: Instance) -> None:
    assert searched(hetero).best.has_equal_sizes


@pytest.mark.parametrize("chunks", [3, 16, 20, 64])
def test_free_sizes_are_whole_granules_of_no_more_chunks_than_allowed(hetero: Instance, chunks: int) -> None:
    best = searched(hetero.overridden(chunks=chunks), free_sizes=True).best
    (own,) = best.plan.chunks
    assert (own.sizes % granule(hetero, hetero.exchanges[0]) == 0).all()
    assert (own.sizes > 0).all()
    assert len(own.sizes) <= chunks
    assert not best.has_equal_sizes


IMPROVED, MELTED, THAWED = "_improve_sizes", "_anneal_sizes", "_thaw_sizes"


@pytest.mark.parametrize(
    ("bad", "later"),
    [("none", [MELTED, THAWED, THAWED]), (MELTED, [THAWED] * 3), (THAWED, [MELTED] * 3)],
)
def test_later_starts_of_many_chunks_anneal_orders_and_sizes_in_two_ways(
    hetero: Instance, monkeypatch: pytest.MonkeyPatch, bad: str, later: list[str]
) -> None:
    """In one of them alone, once the other is far worse."""
    turns, better = [], searched(hetero.overridden(chunks=16)).best
    for name in (IMPROVED, MELTED, THAWED):

        def noted(start: Schedule, *_: Any, name: str = name) -> tuple[Schedule, float]:
            turns.append(name)
            return (start if name == bad else better), 1.0

        monkeypatch.setattr(local_search, name, noted)
    search = searched(better.instance, num_waves=0, free_sizes=True)
    for _ in range(7):
        search.wave(WORK, never)
    first = [IMPROVED, MELTED, THAWED, MELTED if bad == THAWED else THAWED]
    assert turns == [*first, *later]


def test_first_starts_say_nothing_of_sizes_that_change_at_once(
    hetero: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, better = [], searched(hetero.overridden(chunks=16)).best
    for name in (IMPROVED, MELTED, THAWED):

        def noted(start: Schedule, *_: Any, name: str = name) -> tuple[Schedule, float]:
            turns.append(name)
            return (start if turns == [IMPROVED] * 2 else better), 1.0

        monkeypatch.setattr(local_search, name, noted)
    search = searched(hetero.overridden(chunks=24), num_waves=0, free_sizes=True)
    for _ in range(5):
        search.wave(WORK, never)
    assert turns == [*[IMPROVED] * 2, *[THAWED] * 2, MELTED]


def test_threads_of_a_later_wave_do_not_wait_for_each_other(hetero: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    works = []

    def noted(start: Schedule, work: float, *_: Any) -> tuple[Schedule, float]:
        works.append(work)
        return start, work

    for name in (MELTED, THAWED):
        monkeypatch.setattr(local_search, name, noted)
    search = searched(hetero.overridden(chunks=24), num_waves=0, free_sizes=True, workers=3)
    for _ in range(3):
        search.wave(1e9, never)
    waves = [set(works[first : first + 3]) for first in range(len(works) % 3, len(works), 3)]
    assert all(len(wave) == 1 for wave in waves)
    assert max(waves[-1]) == SHORT_STARTS.growth * max(waves[-2])


@pytest.mark.parametrize(("melting", "left"), [(None, 1.9), (False, 7.9)])
def test_a_later_wave_takes_what_is_left_if_that_is_little_more(
    hetero: Instance, monkeypatch: pytest.MonkeyPatch, melting: bool | None, left: float
) -> None:
    """More of it where no other kind of start has a turn."""
    works = []

    def noted(start: Schedule, work: float, *_: Any) -> tuple[Schedule, float]:
        works.append(work)
        return start, work

    monkeypatch.setattr(local_search, THAWED, noted)
    search = searched(hetero.overridden(chunks=16), num_waves=2, free_sizes=True)
    search._melting = melting
    search.wave(left * SHORT_STARTS.start_work, never)
    assert works == [left * SHORT_STARTS.start_work]


def test_long_annealings_of_sizes_that_thaw_cool_several_plans(
    hetero: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = []

    class Noted(population.Population):
        def __init__(self, *arguments: Any, count: int = 1, **options: Any) -> None:
            counts.append(count)
            super().__init__(*arguments, count=count, **options)

    monkeypatch.setattr(local_search, "Population", Noted)
    start = usual_schedule(hetero.overridden(chunks=16))
    params = replace(SHORT_STARTS, work_each=2**16, slice_work=2**14)
    for work in (2**14, 3 * 2**16, 2**20):
        found, done = local_search._thaw_sizes(start, work, 0, params, never)
        assert done == pytest.approx(work, rel=0.1)
        assert found.makespan < start.makespan
        validate(found)
    assert counts == [1, 3, local_search.LARGEST_POPULATION]


def test_free_sizes_obey_the_limit_of_every_collective(mixed: Instance) -> None:
    limits = (2, 3, 20, 1)
    some = [c.replace(chunks=limit) for c, limit in zip(mixed.collectives, limits, strict=True)]
    best = searched(mixed.replace(collectives=some), free_sizes=True).best
    validate(best)
    assert all(len(own.sizes) <= limit for own, limit in zip(best.plan.chunks, limits, strict=True))


def test_free_sizes_reach_the_optimum_of_figure_5(figure_5: Instance) -> None:
    """Themis (ISCA 2022), figure 5: 20/3 units when sizes are free, 7 when they are equal."""
    assert searched(figure_5, free_sizes=True).best.makespan == pytest.approx(20 / 3 * UNITS, rel=1e-6)
    assert searched(figure_5).best.makespan == 7 * UNITS


@pytest.mark.parametrize("free_sizes", [False, True])
def test_one_chunk_on_one_dimension_is_left_as_it_is(free_sizes: bool) -> None:
    ring = {"kind": "ring", "size": 4, "bandwidth": "1 GB/s"}
    instance = Instance(network={"dimensions": [ring]}, collectives=[{"kind": "all_reduce", "size": 4000, "chunks": 1}])
    assert searched(instance, free_sizes=free_sizes).best == usual_schedule(instance)


def test_waves_count_the_stages_that_they_simulate(hetero: Instance) -> None:
    search = searched(hetero, num_waves=0)
    assert search.wave(WORK, never) == pytest.approx(WORK, rel=1e-2)


def test_a_wave_is_four_times_as_long_as_the_one_before(hetero: Instance, idle: type[Idle]) -> None:
    search = searched(hetero, num_waves=0)
    works = [search.wave(1e12, never) for _ in range(3)]
    assert works[1:] == pytest.approx([4 * works[0], 16 * works[0]], rel=1e-2)


def test_a_wave_takes_no_more_work_than_allowed(hetero: Instance, idle: type[Idle]) -> None:
    search = searched(hetero, num_waves=0)
    search.wave(WORK, never)
    assert sum(idle.steps) * search.best.plan.num_stages <= WORK


@pytest.mark.parametrize("free_sizes", [False, True])
def test_a_wave_stops_when_told(hetero: Instance, num_slices: Callable[[], int], free_sizes: bool) -> None:
    search = searched(hetero, num_waves=0, free_sizes=free_sizes)
    search.wave(100.0 * SHORT_STARTS.slice_work, at_once)
    assert num_slices() == 1


def interrupt_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Ctrl-C come while the first wave is waited for."""
    signals = iter([KeyboardInterrupt])

    def interrupted(running: list[Future[Any]]) -> None:
        for signal in signals:
            raise signal
        wait(running)

    monkeypatch.setattr(local_search, "wait", interrupted)


@pytest.mark.parametrize("free_sizes", [False, True])
def test_an_interrupted_wave_ends_early(
    hetero: Instance, monkeypatch: pytest.MonkeyPatch, num_slices: Callable[[], int], free_sizes: bool
) -> None:
    interrupt_first(monkeypatch)
    search = searched(hetero, num_waves=0, free_sizes=free_sizes, workers=2)
    search.wave(100.0 * SHORT_STARTS.slice_work, never)
    assert search.interrupted
    assert num_slices() <= 2


@pytest.mark.parametrize("free_sizes", [False, True])
def test_an_interrupted_wave_keeps_the_best(
    hetero: Instance, monkeypatch: pytest.MonkeyPatch, free_sizes: bool
) -> None:
    interrupt_first(monkeypatch)
    best = searched(hetero, num_waves=1, free_sizes=free_sizes).best
    validate(best)
    assert best.makespan < usual_schedule(hetero).makespan


def test_a_limit_of_chunks_spares_collectives_that_have_fewer(mixed: Instance) -> None:
    before = [c.chunks for c in mixed.collectives]
    after = [c.chunks for c in mixed.at_most(9).collectives]
    assert after == np.minimum(before, 9).tolist()

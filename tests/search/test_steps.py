"""Contracts of the steps of a search: each line of both tables keeps them."""

from collections.abc import Iterator
from functools import cache
from signal import SIGINT, raise_signal
from threading import Timer
from typing import Any

import pytest
from layered_iterations import layers
from planning import schedule_of
from samples import rare

import themis_opt
from formulations.limits import Limits
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Packet
from themis_opt.schedules.incumbent import Step, take_turns
from themis_opt.schedules.plan import has_launches
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.validation import validate
from themis_opt.search.exact import Exact
from themis_opt.search.incumbent import Incumbent
from themis_opt.search.table import PERIOD_STEPS, STEPS

COSTS = {"launch_overhead": 2_000_000, "packet": Packet(payload=4096, header=30)}


def small_instances() -> Iterator[tuple[str, Instance, bool]]:
    """Instances of which some step makes something, and whether their sizes are free."""
    hetero = themis_opt.load("3d-sw_sw_sw_hetero.all_reduce.100MiB")
    for chunks in (3, 8, 24, 100):
        yield f"{chunks} equal", hetero.overridden(chunks=chunks), False
    yield "80 equal on two dimensions", themis_opt.load("2d-sw_sw.all_reduce.100MiB").overridden(chunks=80), False
    for chunks in (4, 16):
        yield f"{chunks} free", hetero.overridden(chunks=chunks), True
    costly = hetero.overridden(chunks=6, size="16 MiB", latency="occupy")
    yield "6 costly", costly.replace(network=costly.network.with_costs(COSTS)), True
    yield "two collectives", themis_opt.load("release_and_subset.mixed.8MB"), False
    yield "iteration", layers(6), False
    yield "iteration of short tasks", layers(6, task=5), False
    yield "iteration of long tasks", layers(3, task=1000), False


INSTANCES = {name: (instance, free_sizes) for name, instance, free_sizes in small_instances()}

SIMILAR = {"8 equal", "24 equal", "80 equal on two dimensions", "4 free", "iteration of short tasks"}
"""Instances that add little to the others."""


def start_of(instance: Instance) -> Schedule:
    policy = "wait_free/themis+fifo" if has_launches(instance) else "baseline+fifo"
    return schedule_of(instance, policy)


def incumbent_of(name: str, seconds: float = 0.1, **limits: object) -> Incumbent:
    """A weak start, and work of so many seconds on two threads."""
    instance, free_sizes = INSTANCES[name]
    known = {"workers": 2, "deterministic": True} | limits
    return Incumbent(Limits(seconds, **known), start_of(instance), free_sizes=free_sizes)  # type: ignore[arg-type]


def ran(name: str, step: Step, seconds: float = 0.1) -> Incumbent:
    """The incumbent after a turn of a step."""
    incumbent = incumbent_of(name, seconds)
    step.run(incumbent)
    return incumbent


def all_cases() -> Iterator[object]:
    """Every line of both tables, on every instance to which it applies."""
    for name, (instance, _) in INSTANCES.items():
        for number, step in enumerate(PERIOD_STEPS if has_launches(instance) else STEPS):
            if step.applies(incumbent_of(name)):
                case = rare if name in SIMILAR else pytest.param
                yield case(name, step, id=f"{name}-{number}-{type(step).__name__}")


CASES = list(all_cases())


@cache
def reached(name: str) -> int:
    """The makespan of a longer search."""
    instance, free_sizes = INSTANCES[name]
    policy = Exact(seconds=0.2, workers=1, deterministic=True, sizes="free" if free_sizes else "equal")
    return policy.solve(instance).schedule.makespan


ANNEALED = {
    "3 equal": 689604613,
    "8 equal": 580369010,
    "24 equal": 561593539,
    "100 equal": 562845310,
    "80 equal on two dimensions": 787912470,
    "4 free": 568623626,
    "16 free": 560435738,
    "6 costly": 137672882,
    "two collectives": 7000000000,
    "iteration": 1843389440,
    "iteration of short tasks": 571434560,
    "iteration of long tasks": 9043389440,
}
FIGURES: dict[str, dict[str, Any]] = {
    "Anneal": ANNEALED,
    "Launches": {
        "iteration": (1841457280, 0.0868),
        "iteration of short tasks": (677602880, 0.08995),
        "iteration of long tasks": (9041457280, 0.097225),
    },
}
"""What steps without solvers make of an instance, in picoseconds, and perhaps what is left of a tenth of a second."""


@pytest.mark.parametrize(("name", "step"), CASES)
def test_a_step_offers_valid_schedules_and_bounds_and_repeats_itself(name: str, step: Step) -> None:
    one, other = (ran(name, step) for _ in range(2))
    validate(one.best)
    assert one.best.instance is INSTANCES[name][0]
    assert one.best.makespan <= start_of(one.instance).makespan
    assert one.bound <= min(reached(name), one.best.makespan) * (1 + 1e-9)
    assert (one.best, one.bound, one.left) == (other.best, other.bound, other.left)
    match FIGURES.get(type(step).__name__, {}).get(name):
        case (makespan, left):
            assert (one.best.makespan, round(one.left, 9)) == (makespan, left)
        case makespan if makespan:
            assert one.best.makespan == makespan


@pytest.mark.parametrize(("name", "step"), CASES)
def test_a_step_of_no_time_leaves_everything_as_it_is(name: str, step: Step) -> None:
    incumbent = incumbent_of(name)
    incumbent.allowance.charge(0.1)
    take_turns(incumbent, [step])
    assert incumbent.best == start_of(incumbent.instance)
    assert incumbent.left == 0.0


@pytest.mark.usefixtures("heeds_ctrl_c")
@pytest.mark.parametrize(("name", "step"), CASES)
def test_ctrl_c_ends_a_step_and_keeps_its_best(name: str, step: Step) -> None:
    """Without it some steps would go on for ten minutes."""
    incumbent = incumbent_of(name, 600.0, deterministic=False, gap=0.0)
    timer = Timer(0.1, raise_signal, [SIGINT])
    try:
        timer.start()  # inside, as a busy machine may come back from it late
        take_turns(incumbent, [step])
        timer.join()
    except KeyboardInterrupt:  # the step was over before
        return
    validate(incumbent.best)


def test_every_step_applies_somewhere() -> None:
    """Else the contracts above say nothing of it."""
    for steps, is_period in ((STEPS, False), (PERIOD_STEPS, True)):
        names = [name for name, (instance, _) in INSTANCES.items() if has_launches(instance) == is_period]
        for step in steps:
            assert any(step.applies(incumbent_of(name)) for name in names), step


def test_steps_take_turns_and_the_last_one_has_what_is_left() -> None:
    turns: list[tuple[str, float]] = []

    class Noted:
        engine = ""

        def __init__(self, name: str, applies: bool = True) -> None:
            self.name, self.is_useful = name, applies

        def applies(self, incumbent: Incumbent) -> bool:
            return self.is_useful

        def run(self, incumbent: Incumbent) -> None:
            turns.append((self.name, incumbent.left))
            incumbent.allowance.charge(1.0)

    incumbent = incumbent_of("3 equal", 8.0, gap=0.0)
    take_turns(incumbent, [Noted("a"), Noted("b", applies=False), Noted("c")])
    assert turns == [("a", 4.0), ("c", 7.0)]

"""The parts of the reference policy: repeatable, limited, and each of them optional."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from threading import Event
from types import ModuleType
from typing import Any

import pytest
from background import PATIENCE
from hypothesis import given, settings
from layered_iterations import layers, scheduled
from sharded_iterations import sharded
from small_iterations import MICROSECOND, PAIR
from strategies import instances

from formulations import cp_sat
from themis_opt.base import allowance
from themis_opt.policies.hourglass.policy import balanced
from themis_opt.policies.registry import LAUNCHING
from themis_opt.problem.instance import Instance
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.validation import validate
from themis_opt.search import anneal, exact, start
from themis_opt.search.exact import Exact, Reference
from themis_opt.search.incumbent import Incumbent
from themis_opt.search.start import starting_schedule, usual_schedule
from themis_opt.solving.makespan_bounds import fluid
from themis_opt.solving.sizing import granule

SHORT = Exact(seconds=0.1, workers=2, deterministic=True)  # work of a tenth of a second
LONG = 600.0  # seconds that no test waits for
MILLISECOND = 10**9

PROGRAM = """
import themis_opt
from themis_opt.search.exact import Exact

for sizes in ("equal", "free"):
    instance = themis_opt.load("3d-sw_sw_sw_hetero.mixed.100MiB").overridden(chunks=4)
    policy = Exact(seconds=0.03, workers=2, deterministic=True, sizes=sizes)
    schedule = policy.solve(instance).schedule
    plan = schedule.enforced_plan()
    print(schedule.makespan, [c.sizes.tolist() for c in plan.chunks], [c.paths.tolist() for c in plan.chunks])
    print([s.tolist() for s in plan.sequences], schedule.start.tolist())
"""


class Idle:
    """A step that finds nothing."""

    engine = ""

    def applies(self, incumbent: Incumbent) -> bool:
        return False

    def run(self, incumbent: Incumbent) -> None:
        raise AssertionError


@pytest.fixture
def weak_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search starts without hourglass, so that there is something to find."""
    monkeypatch.setattr(exact, "starting_schedule", lambda instance, _, **options: usual_schedule(instance))


def never_used(*_: Any, **__: Any) -> None:
    raise AssertionError("this part was not asked for")


def output_with_hash_seed(seed: int) -> str:
    environment = os.environ | {"PYTHONHASHSEED": str(seed)}
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout


def test_deterministic_searches_do_not_depend_on_the_hash_seed() -> None:
    first = output_with_hash_seed(1)
    assert first.count("\n") == 4
    assert output_with_hash_seed(2) == first


def test_deterministic_searches_do_not_look_at_the_clock(hetero: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allowance.SEARCH_CLOCK, "now", never_used)
    validate(SHORT.solve(hetero.overridden(chunks=8)).schedule)


@pytest.mark.usefixtures("weak_start")
def test_another_seed_finds_another_schedule(hetero: Instance) -> None:
    one, other = (Exact(seconds=0.1, seed=seed, deterministic=True, cp_sat=False) for seed in (1, 2))
    assert one.solve(hetero).schedule != other.solve(hetero).schedule


@settings(max_examples=12)
@given(instances(max_collectives=2, max_chunks=4))
def test_bounds_never_exceed_makespans_of_valid_schedules(instance: Instance) -> None:
    reference = SHORT.solve(instance, fluid(instance))
    validate(reference.schedule)
    assert reference.bound <= reference.schedule.makespan * (1 + 1e-9)


@pytest.mark.parametrize("sizes", ["equal", "free"])
@pytest.mark.parametrize(
    ("part", "module", "function", "seconds"),
    [("local_search", anneal, "run_wave", 0.4), ("cp_sat", cp_sat, "search", 0.1)],
)
def test_a_part_that_is_switched_off_is_never_used(
    hetero: Instance,
    monkeypatch: pytest.MonkeyPatch,
    sizes: str,
    part: str,
    module: ModuleType,
    function: str,
    seconds: float,
) -> None:
    monkeypatch.setattr(module, function, never_used)
    options: dict[str, Any] = {"sizes": sizes, part: False}
    policy = Exact(seconds=seconds, workers=1, deterministic=True, **options)
    few = hetero.overridden(chunks=5)
    schedule = policy.solve(few).schedule
    validate(schedule)
    assert schedule.makespan < starting_schedule(few).makespan


def test_without_cp_sat_nothing_is_proven(hetero: Instance) -> None:
    policy = Exact(seconds=0.1, workers=1, deterministic=True, cp_sat=False)
    assert policy.solve(hetero, lower_bound=12345.0).bound == 12345.0


def test_cp_sat_has_its_turn_where_local_search_is_not_compiled(
    figure_5: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Themis (ISCA 2022), figure 5: seven units are optimal."""
    monkeypatch.setattr(anneal, "is_ready", lambda *_: False)
    monkeypatch.setattr(anneal, "run_wave", never_used)
    assert Exact(seconds=LONG, workers=1).solve(figure_5).bound == pytest.approx(7 * MILLISECOND, rel=1e-4)


@pytest.mark.parametrize("memory", [1e-5])
@pytest.mark.parametrize("sizes", ["equal", "free"])
def test_little_memory_stops_cp_sat_and_keeps_a_valid_schedule(hetero: Instance, sizes: str, memory: float) -> None:
    """Without a stop the search would go on for ten minutes."""
    few = hetero.overridden(chunks=4)
    reference = Exact(seconds=LONG, sizes=sizes, memory=memory, local_search=False).solve(few)  # type: ignore[arg-type]
    validate(reference.schedule)
    assert reference.schedule.makespan <= starting_schedule(few).makespan
    assert reference.status == "finished"


@pytest.mark.parametrize(("sizes", "deterministic"), [("equal", False), ("free", True)])
def test_a_tiny_budget_leaves_a_valid_schedule(every_kind: Instance, sizes: str, deterministic: bool) -> None:
    policy = Exact(seconds=1e-6, workers=1, deterministic=deterministic, sizes=sizes)  # type: ignore[arg-type]
    schedule = policy.solve(every_kind).schedule
    validate(schedule)
    assert schedule.makespan <= usual_schedule(every_kind).makespan


def test_a_schedule_at_hand_starts_a_search_that_has_no_time_for_another(
    hetero: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a core plans and simulates in the time that is left is counted in stages."""
    start_schedule = usual_schedule(hetero)
    monkeypatch.setattr(exact, "starting_schedule", never_used)
    stages = start_schedule.plan.num_stages
    late = 0.9 * stages / exact.STARTED_PER_SECOND
    assert Exact(seconds=late, workers=1).solve(hetero, start=start_schedule, steps=[Idle()]).schedule == start_schedule
    with pytest.raises(AssertionError):
        Exact(seconds=LONG, workers=1).solve(hetero, start=start_schedule, steps=[Idle()])


def test_hourglass_is_not_begun_where_it_has_no_time(hetero: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tables have a duration for each of 8 sets of dimensions, 3 dimensions and 2 phases."""
    monkeypatch.setattr(start, "balanced", never_used)
    assert starting_schedule(hetero, 0.99 * 2 * 8 * 3 * start.SECONDS_PER_DURATION) == usual_schedule(hetero)


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [(CollectiveKind.ALL_REDUCE, "equal"), (CollectiveKind.ALL_REDUCE, "free"), (CollectiveKind.ALL_TO_ALL, "free")],
)
def test_one_dimension_serves_one_chunk_after_another(kind: CollectiveKind, sizes: str) -> None:
    """Three chunks of one direct step each: a third of 3 MB * 3/4 per ms, twice where there are two phases."""
    network = {"dimensions": [{"kind": "fully_connected", "size": 4, "bandwidth": "3 GB/s"}]}
    collective = {"kind": kind.value, "size": "12 MB", "chunks": 3}
    instance = Instance(network=network, collectives=[collective])  # type: ignore[arg-type]
    policy = Exact(seconds=0.05, workers=1, deterministic=True, sizes=sizes)  # type: ignore[arg-type]
    schedule = policy.solve(instance).schedule
    validate(schedule)
    assert schedule.makespan == 3 * len(kind.rule.phases) * MILLISECOND


@pytest.mark.parametrize("chunks", [5, 20])
def test_free_sizes_are_whole_granules_of_no_more_chunks_than_allowed(hetero: Instance, chunks: int) -> None:
    policy = Exact(seconds=0.1, workers=1, deterministic=True, sizes="free")
    (chunk_sizes,) = policy.solve(hetero.overridden(chunks=chunks)).schedule.plan.chunks
    assert len(chunk_sizes.sizes) <= chunks
    assert (chunk_sizes.sizes % granule(hetero, hetero.exchanges[0]) == 0).all()


@pytest.mark.usefixtures("weak_start")
def test_a_given_start_is_used_if_it_is_better(hetero: Instance) -> None:
    good = Exact(seconds=0.2, workers=1, deterministic=True).solve(hetero).schedule
    assert Exact(local_search=False, cp_sat=False).solve(hetero, start=good).schedule is good


@pytest.mark.parametrize("deterministic", [False, True])
def test_the_search_starts_from_hourglass_where_that_is_best(hetero: Instance, deterministic: bool) -> None:
    policy = Exact(seconds=LONG, local_search=False, cp_sat=False, deterministic=deterministic)
    makespan = policy.solve(hetero).schedule.makespan
    assert makespan == balanced(hetero).makespan < usual_schedule(hetero).makespan


def test_the_start_does_not_wait_for_hourglass_beyond_its_time(
    figure_5: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = Event()

    def compiling(instance: Instance) -> Schedule:
        compiled.wait()
        return balanced(instance)

    monkeypatch.setattr(start, "balanced", compiling)
    assert starting_schedule(figure_5, seconds=0.01) == usual_schedule(figure_5)
    compiled.set()


def test_the_start_leaves_hourglass_out_where_its_tables_are_too_large(
    hetero: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "MAX_DURATIONS", 47)
    monkeypatch.setattr(start, "balanced", never_used)
    assert starting_schedule(hetero) == usual_schedule(hetero)


@pytest.mark.parametrize("sizes", ["equal", "free"])
def test_the_search_ends_at_the_asked_gap(hetero: Instance, sizes: str) -> None:
    """Without that it would go on for ten minutes."""
    bound = fluid(hetero)
    reference = Exact(seconds=LONG, gap=0.01, sizes=sizes).solve(hetero, bound)  # type: ignore[arg-type]
    assert reference.schedule.makespan <= 1.01 * bound


def test_better_makespans_are_reported(hetero: Instance) -> None:
    heard: list[float] = []
    policy = Exact(seconds=0.2, workers=1, deterministic=True, cp_sat=False)
    reference = policy.solve(hetero, progress=lambda makespan, bound: heard.append(makespan))
    assert heard[0] == starting_schedule(hetero).makespan
    assert heard == sorted(set(heard), reverse=True)
    assert heard[-1] == reference.schedule.makespan


def interrupting(monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
    """Let Ctrl-C come while a module waits for its threads for the first time."""
    signals, wait = iter([KeyboardInterrupt]), module.wait

    def interrupted(running: Sequence[Any], *arguments: Any, **keywords: Any) -> Any:
        for signal in signals:
            raise signal
        return wait(running, *arguments, **keywords)

    monkeypatch.setattr(module, "wait", interrupted)


@pytest.mark.usefixtures("weak_start")
@pytest.mark.parametrize(("sizes", "deterministic"), [("equal", True), ("free", False)])
def test_ctrl_c_ends_local_search_and_keeps_its_best(
    hetero: Instance, monkeypatch: pytest.MonkeyPatch, sizes: str, deterministic: bool
) -> None:
    interrupting(monkeypatch, anneal)
    policy = Exact(seconds=LONG, sizes=sizes, deterministic=deterministic)  # type: ignore[arg-type]
    reference: Reference = policy.solve(hetero)
    validate(reference.schedule)
    assert reference.status == "interrupted"
    assert reference.schedule.makespan < usual_schedule(hetero).makespan


@pytest.mark.parametrize("sizes", ["equal", "free"])
def test_ctrl_c_ends_cp_sat(hetero: Instance, monkeypatch: pytest.MonkeyPatch, sizes: str) -> None:
    interrupting(monkeypatch, cp_sat)
    policy = Exact(seconds=LONG, workers=1, sizes=sizes, local_search=False)  # type: ignore[arg-type]
    reference = policy.solve(hetero.overridden(chunks=8))
    validate(reference.schedule)
    assert reference.status == "interrupted"


def test_ctrl_c_between_the_start_and_the_steps_keeps_the_start(
    hetero: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the import of the steps, which is slow, has just ended."""

    def interrupt(name: str) -> Any:
        raise KeyboardInterrupt

    table = ModuleType("themis_opt.search.table")
    monkeypatch.setattr(table, "__getattr__", interrupt, raising=False)
    monkeypatch.setitem(sys.modules, table.__name__, table)
    reference = Exact(seconds=LONG).solve(hetero)
    assert reference.status == "interrupted"
    assert reference.schedule.makespan == starting_schedule(hetero).makespan


@pytest.mark.parametrize(("module", "other"), [(anneal, "cp_sat"), (cp_sat, "local_search")])
def test_a_lost_ctrl_c_ends_the_search(
    hetero: Instance, monkeypatch: pytest.MonkeyPatch, module: Any, other: str, loses_ctrl_c: Callable[..., None]
) -> None:
    """Without it the search would go on for ten minutes, though nobody heard of the exception."""
    wait = module.wait

    def losing(running: Sequence[Any], *arguments: Any, **keywords: Any) -> Any:
        loses_ctrl_c()
        return wait(running, *arguments, **keywords)

    monkeypatch.setattr(module, "wait", losing)
    policy = Exact(seconds=LONG, gap=0.0, workers=1, **{other: False})  # type: ignore[arg-type]
    reference = policy.solve(hetero.overridden(chunks=12))
    validate(reference.schedule)
    assert reference.status == "interrupted"


@pytest.mark.parametrize(("deterministic", "given"), [(True, None), (False, 300.0)])
def test_a_start_takes_half_of_the_time_at_most(
    figure_5: Instance, deterministic: bool, given: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float | None] = []

    def noted(instance: Instance, seconds: float | None, **options: Any) -> Schedule:
        asked.append(seconds)
        return usual_schedule(instance)

    monkeypatch.setattr(exact, "starting_schedule", noted)
    policy = Exact(seconds=600.0, workers=1, deterministic=deterministic)
    policy.solve(figure_5, steps=[Idle()])
    assert asked == [given if given is None else pytest.approx(given, rel=0.1)]


def test_a_search_of_launches_starts_from_the_best_launching_policy() -> None:
    instance = layers(6, task=50)
    best = min(scheduled(instance, launching).makespan for launching in LAUNCHING)
    assert Exact(seconds=1e-9, deterministic=True).solve(instance).schedule.makespan <= best


@pytest.mark.parametrize(("memory", "microseconds"), [(None, 656), ("500 kB", 696)])
def test_launches_whose_time_is_up_leave_early_in_few_chunks_and_fit(memory: str | None, microseconds: int) -> None:
    network = {"dimensions": [PAIR | {"latency": "2 us"}]}
    instance = sharded(*[20, 120] * 3, task=50, memory=memory, network=network, latency="occupy", chunks=16)
    given = scheduled(instance, "fsdp2")
    schedule = Exact(seconds=0.0).solve(instance, start=given).schedule
    validate(schedule)
    assert schedule.makespan <= microseconds * MICROSECOND < given.makespan * 0.6

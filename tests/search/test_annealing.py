"""Annealing of plans on the simulator."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from iteration_strategies import iteration_instances, specifications
from small_iterations import iteration, tensor
from strategies import schedules

import themis_opt
from themis_opt.policies.registry import make_policy
from themis_opt.problem.catalog import random_instance
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Packet
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.plan import Chunks
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.search import annealing_loop
from themis_opt.search.annealing import Annealing, can_anneal
from themis_opt.search.annealing_state import CURRENT, MoveParams, State, duration_of
from themis_opt.solving.makespan_bounds import fluid
from themis_opt.solving.sizing import granule

RAILS = [
    {"name": "r0", "bandwidth": "1 GB/s", "extra_launch_overhead": "500 ns"},
    {"name": "r1", "bandwidth": "2 GB/s", "extra_latency": "100 ns"},
]

Run = Callable[[Instance, str], Schedule]

HOT, COLD = 2e-2, 1e-3  # hot enough to accept many worse plans


@st.composite
def repeated(draw: st.DrawFn) -> Schedule:
    """A schedule of iterations that repeat each other soon."""
    instance = draw(iteration_instances())
    schedule = simulate(instance, make_policy(draw(specifications))(instance))
    assume(can_anneal(schedule))
    return schedule


STARTS = st.one_of(schedules(), repeated())


def annealed(start: Schedule, steps: int = 300, seed: int = 0) -> Annealing:
    """An annealing after some steps, in two calls."""
    annealing = Annealing(start, seed)
    annealing.run(steps, HOT, COLD)
    annealing.run(steps, COLD, COLD)
    return annealing


def state_of(annealing: Annealing) -> State:
    return annealing._state


def current_schedule(annealing: Annealing, start: Schedule) -> Schedule:
    """The current plan, its sequences enforced, simulated."""
    state = state_of(annealing)
    chunks, starts = [], []
    for number, (launch, exchange) in enumerate(zip(start.plan.chunks, start.launched, strict=True)):
        span = np.array(exchange.span)
        stages = slice(start.plan.offsets[number], start.plan.offsets[number + 1])
        local = state.current.path[stages].reshape(len(launch.sizes), -1, len(span))
        keys = state.current.key[stages].reshape(local.shape)
        chunks.append(Chunks(launch.sizes, span[local].reshape(launch.paths.shape)))
        starts.append(np.take_along_axis(keys, local, axis=2).ravel())
    later, place = np.divmod(np.concatenate(starts), int(state.makespans[CURRENT]) if start.has_period else np.inf)
    plan = replace(start.plan, chunks=tuple(chunks), keys=None)
    return simulate(start.instance, plan.in_order_of(start.instance, place, later.astype(np.int64)))


@given(STARTS)
def test_the_best_schedule_is_valid_never_worse_than_the_start_and_keeps_chunk_sizes(start: Schedule) -> None:
    best = annealed(start).best()
    validate(best)
    assert best.makespan <= start.makespan
    for before, after in zip(start.plan.chunks, best.plan.chunks, strict=True):
        assert np.array_equal(before.sizes, after.sizes)


@given(schedules())
def test_makespans_are_those_of_the_best_schedule_and_of_the_current_plan(start: Schedule) -> None:
    annealing = annealed(start)
    assert annealing.makespan == annealing.best().makespan
    assert state_of(annealing).makespans[CURRENT] == current_schedule(annealing, start).makespan


@given(repeated())
def test_a_repeated_plan_takes_no_longer_than_its_annealing_says_and_keeps_its_launches(start: Schedule) -> None:
    annealing = annealed(start)
    best = annealing.best()
    assert best is start or best.makespan <= annealing.makespan
    assert best.plan.launches == start.plan.launches


@given(STARTS)
def test_equal_seeds_and_calls_give_equal_schedules(start: Schedule) -> None:
    assert annealed(start, seed=7).best() == annealed(start, seed=7).best()


def test_no_steps_leave_the_start(hetero: Instance, run: Run) -> None:
    start = run(hetero, "themis+scf")
    annealing = annealed(start, steps=0)
    assert annealing.makespan == start.makespan
    assert annealing.best() is start


@pytest.mark.parametrize(
    ("name", "policy", "milliseconds"),
    [
        ("fig5.all_reduce.256MB", "baseline+fifo", 7),
        ("two_equal_dims.all_reduce.8MB", "baseline+fifo", 6),
        ("one_ring.all_reduce.4MB", "baseline+fifo", 6.03),
        ("release_and_subset.mixed.8MB", "baseline+fifo", 7),
    ],
)
def test_toys_reach_the_optimum_found_by_hand(run: Run, name: str, policy: str, milliseconds: float) -> None:
    """Themis (ISCA 2022), figure 5, and the other instances that state their answer."""
    instance = themis_opt.load(name)
    assert annealed(run(instance, policy), steps=5000).makespan == round(milliseconds * 1e9)


def test_most_of_the_gap_of_the_fixed_order_is_closed(paper_instance: Instance, run: Run) -> None:
    few = paper_instance.overridden(chunks=16)
    start, bound = run(few, "baseline+fifo"), fluid(few)
    annealing = Annealing(start)
    annealing.run(5_000, 5e-3, 2e-4)
    assert annealing.makespan - bound < (start.makespan - bound) / 4


@pytest.mark.parametrize("kind", CollectiveKind)
def test_every_kind_of_collective_gets_shorter(hetero: Instance, run: Run, kind: CollectiveKind) -> None:
    start = run(hetero.replace(collectives=(Collective(kind=kind, size="100 MiB", chunks=16),)), "baseline+fifo")
    best = annealed(start, steps=3000).best()
    validate(best)
    assert best.makespan < start.makespan


def test_gather_orders_mirror_scatter_orders_where_the_instance_asks_for_it(hetero: Instance, run: Run) -> None:
    start = run(hetero.overridden(chunks=16, ag_order="reverse"), "baseline+fifo")
    (chunks,) = annealed(start, steps=2000).best().plan.chunks
    assert np.array_equal(chunks.paths, chunks.paths[:, ::-1])
    assert len(np.unique(chunks.paths, axis=0)) > 1


@pytest.fixture
def layers() -> Instance:
    """Six layers, the last of which the next iteration needs last, make gradients that take longer than compute."""
    sizes = (4, 40, 40, 60, 60, 80)
    tasks = {f"forward{n}": 10.0 for n in range(6)} | {f"backward{n}": 20.0 for n in reversed(range(6))}
    tensors = [tensor(f"gradients{n}", size, f"backward{n}", f"forward{n}") for n, size in enumerate(sizes)]
    network = {"dimensions": [{"kind": "ring", "size": 4, "bandwidth": text} for text in ("2 GB/s", "700 MB/s")]}
    return iteration(tasks, tensors, network=network, chunks=4)


@pytest.mark.parametrize(
    ("launching", "gain"), [("wait_free", 0.1), ("ddp:first_cap=1B:cap=100kB", 0.01), ("dear:threshold=50kB", 0.0)]
)
@pytest.mark.parametrize("ag_order", ["free", "reverse"])
def test_iterations_get_shorter(layers: Instance, run: Run, launching: str, gain: float, ag_order: str) -> None:
    start = run(layers.overridden(ag_order=ag_order), f"{launching}/baseline+fifo")
    annealing = Annealing(start)
    annealing.run(3000, 1e-4, 1e-6)
    best = annealing.best()
    validate(best)
    assert best.makespan <= annealing.makespan <= start.makespan * (1 - gain)


def test_moving_launches_alone_finds_their_order(layers: Instance, run: Run) -> None:
    """The first to be ready is needed last."""
    start, right = (run(layers, f"{name}/hourglass") for name in ("wait_free", "priority"))
    assert right.makespan < start.makespan
    annealing = Annealing(start, moves=MoveParams(launch=1.0))
    annealing.run(2000, 1e-5, 1e-6)
    assert annealing.makespan <= right.makespan
    assert annealing.best().plan.chunks == start.plan.chunks


def test_iterations_that_do_not_repeat_each_other_soon_are_left_alone(layers: Instance) -> None:
    plan = make_policy("wait_free/hourglass")(layers)
    assert can_anneal(simulate(layers, plan))
    assert not can_anneal(simulate(layers, plan, iterations=2))
    assert not can_anneal(simulate(layers, plan, iterations=16))


def test_sizes_that_change_stay_whole(hetero: Instance, run: Run) -> None:
    start = run(hetero.overridden(chunks=16), "themis+scf")
    (exchange,) = hetero.exchanges
    annealing = Annealing(start, 1, resizes=True)
    annealing.run(5000, HOT, COLD)
    sizes = state_of(annealing).current.size
    assert (sizes % granule(hetero, exchange) == 0).all()
    assert sizes.sum() == exchange.size
    assert len(np.unique(sizes)) > 1


@pytest.mark.parametrize("rails", [[], RAILS])
def test_stages_take_what_they_cost_and_nothing_without_bytes(
    every_kind: Instance, run: Run, rails: list[dict[str, str]]
) -> None:
    first, *others = every_kind.network.dimensions
    first = first.replace(rails=rails, bandwidth="3 GB/s") if rails else first
    network = every_kind.network.replace(dimensions=(first, *others)).with_costs(
        {"launch_overhead": 2_000_000, "latency": 1_000_000, "packet": Packet(payload=4096, header=30)}
    )
    start = run(every_kind.replace(network=network, latency="occupy").overridden(chunks=3), "themis+scf")
    problem = Annealing(start, 0, resizes=True)._problem
    durations = start.end - start.start
    for number, (launch, exchange) in enumerate(zip(start.plan.chunks, start.launched, strict=True)):
        for chunk, (size, path) in enumerate(zip(launch.sizes.tolist(), launch.paths.tolist(), strict=True)):
            place, visited = start.plan.offsets[number] + chunk * len(path), 0
            for step, k in enumerate(path):
                phase, local = step // len(exchange.span), exchange.span.index(k)
                visited = visited if step % len(exchange.span) else 0
                chunks_before = sum(len(one.sizes) for one in start.plan.chunks[:number])
                stage = problem, chunks_before + chunk, phase, visited, local
                assert duration_of(*stage, size) == pytest.approx(durations[place + step], abs=1)
                assert duration_of(*stage, 0.0) == 0
                visited |= 1 << local


def test_interpreted_no_index_leaves_its_array(every_kind: Instance, run: Run) -> None:
    """Compiled code does not check indices."""
    annealing = Annealing(run(every_kind.overridden(chunks=2, ag_order="reverse"), "themis+scf"))
    state, start = state_of(annealing), annealing.makespan
    annealing_loop.anneal(annealing._problem, state, 300, HOT * start, COLD * start, 0)
    assert set(state.touched.tolist()) <= set(range(2 * len(every_kind.collectives)))
    assert annealing.makespan == annealing.best().makespan


def best_total(start: Schedule, steps: int, *, resizes: bool = False) -> int:
    """Sum of the best makespans of five seeds after some steps, in picoseconds."""
    annealings = [Annealing(start, seed, resizes=resizes) for seed in range(5)]
    for annealing in annealings:
        annealing.run(steps, HOT, HOT / 4)
    return sum(annealing.makespan for annealing in annealings)


TOLERANCE = 1.01
"""Moves may be made in another way, but annealing must not come less far."""


@pytest.mark.parametrize(
    ("ag_order", "resizes", "costs", "reached"),
    [
        ("free", False, False, 3467644911),
        ("free", True, False, 3538671088),
        ("reverse", False, False, 3327489096),
        ("reverse", True, False, 3462082632),
        ("free", True, True, 4191670404),
    ],
)
def test_annealing_comes_as_far_as_before(
    every_kind: Instance, run: Run, ag_order: str, resizes: bool, costs: bool, reached: int
) -> None:
    instance = every_kind.overridden(chunks=3, ag_order=ag_order)
    if costs:
        fields = {"launch_overhead": 3_000_000, "packet": Packet(payload=4096, header=30)}
        instance = instance.replace(network=instance.network.with_costs(fields), latency="occupy")
    assert best_total(run(instance, "baseline+fifo"), 400, resizes=resizes) <= TOLERANCE * reached


def test_annealing_comes_as_far_as_before_on_six_dimensions(run: Run) -> None:
    assert best_total(run(random_instance(0), "themis+scf"), 400) <= TOLERANCE * 745377279


@pytest.mark.parametrize(
    ("launching", "ag_order", "reached"),
    [
        ("wait_free", "free", 1161924197),
        ("wait_free", "reverse", 1162937500),
        ("dear:threshold=1B", "reverse", 1321339325),
    ],
)
def test_annealing_comes_as_far_as_before_between_tasks(
    layers: Instance, run: Run, launching: str, ag_order: str, reached: int
) -> None:
    start = run(layers.overridden(ag_order=ag_order), f"{launching}/baseline+fifo")
    assert best_total(start, 300) <= TOLERANCE * reached

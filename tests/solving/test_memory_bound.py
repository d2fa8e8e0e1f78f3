"""The bound on iterations whose gathers memory holds back."""

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st
from sharded_iterations import sharded

from themis_opt.base.errors import CyclicPlan
from themis_opt.policies.baseline import Baseline
from themis_opt.policies.launching.common import delayed, of_runs
from themis_opt.policies.planning import plan_launches
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Launch
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.search.exact import Exact
from themis_opt.solving.bounds import bounds


def with_passes(instance: Instance, forward: float, backward: float) -> Instance:
    """The instance with other times of its passes, in microseconds."""
    document = instance.model_dump(mode="json", exclude_unset=True)
    for task in document["iteration"]["tasks"]:
        for name, duration in (("forward", forward), ("backward", backward)):
            if task["name"].startswith(name):
                task["duration"] = f"{duration} us"
    return Instance.model_validate(document)


def scheduled(instance: Instance, distances: list[int], order: str) -> Schedule | None:
    """Gathers that leave so many tasks before their use, in turn; None if they wait for each other."""
    launches: list[Launch] = []
    for number, launch in enumerate(of_runs(instance, ())):
        is_gather = launch.kind == "all_gather"
        launches.append(delayed(instance, launch, distances[number % len(distances)]) if is_gather else launch)
    try:
        return simulate(instance, plan_launches(instance, launches, order, Baseline()))  # type: ignore[arg-type]
    except CyclicPlan:
        return None


def test_less_memory_raises_the_bound_where_the_backward_pass_is_short() -> None:
    instance = with_passes(sharded(20, 20, 20, 20), 50, 1)
    free, limited = (max(bounds(i).values()) for i in (instance, instance.replace(memory="40 kB")))
    assert limited > free * 1.02


@given(
    st.lists(st.integers(1, 30), min_size=2, max_size=5),
    st.tuples(*[st.sampled_from([1.0, 5.0, 30.0])] * 2),
    st.lists(st.integers(0, 6), min_size=1, max_size=4),
    st.sampled_from(["ready", "layer", "newest"]),
)
@settings(max_examples=15, deadline=None)
def test_no_bound_is_above_a_schedule_whose_peak_is_the_limit(
    sizes: list[int], passes: tuple[float, float], distances: list[int], order: str
) -> None:
    instance = with_passes(sharded(*sizes), *passes)
    schedule = scheduled(instance, distances, order)
    if schedule is not None:
        limited = instance.replace(memory=f"{schedule.memory_peak} B")
        assert max(bounds(limited).values()) <= schedule.makespan * (1 + 1e-9)


def test_the_reference_is_no_slower_than_any_distances_under_the_limit() -> None:
    instance = with_passes(sharded(8, 12, 6, memory="34 kB"), 5, 8)
    best = min(
        schedule.makespan
        for distances in product(range(4), repeat=3)
        for schedule in [scheduled(instance, list(distances), "layer")]
        if schedule is not None and schedule.fits
    )
    schedule = Exact(seconds=0.5, workers=1, deterministic=True).solve(instance).schedule
    validate(schedule)
    assert schedule.makespan <= best

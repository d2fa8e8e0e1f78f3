"""Every rule of the model, broken once in an otherwise valid schedule."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from planning import schedule_of

from themis_opt.base.errors import InvalidSchedule
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Chunks, Plan, default_launches
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.validation import VALIDATION_RULES, validate


@pytest.fixture(scope="module")
def valid(figure_5: Instance) -> Schedule:
    """Figure 5 with a lag, a release, `reverse` and two links side by side, every sequence enforced."""
    slower = [d.replace(latency="10 us", launch_overhead="5 us") for d in figure_5.network.dimensions]
    slower[0] = slower[0].replace(rails=[{"name": name, "bandwidth": slower[0].bandwidth / 2} for name in "ab"])
    instance = figure_5.replace(
        network=figure_5.network.replace(dimensions=tuple(slower)),
        collectives=(figure_5.collectives[0].replace(release="1 ms"),),
        ag_order="reverse",
    )
    schedule = schedule_of(instance, "themis+scf")
    return replace(schedule, plan=schedule.enforced_plan())


def changed(schedule: Schedule, **changes: np.ndarray) -> Schedule:
    """The schedule with other sizes, paths or sequences, at the same times."""
    plan = schedule.plan
    sequences = changes.pop("sequences", plan.sequences)
    arrays = {"sizes": plan.chunks[0].sizes, "paths": plan.chunks[0].paths} | changes
    return replace(schedule, plan=Plan((Chunks(**arrays),), plan.dispatch, sequences))  # type: ignore[arg-type]


def shifted(schedule: Schedule, stage: int, by: int, *names: str) -> Schedule:
    """The schedule with some times of one stage moved."""
    times = {name: getattr(schedule, name).copy() for name in names}
    for array in times.values():
        array[stage] += by
    return replace(schedule, **times)


def with_entry(array: np.ndarray, place: object, value: object) -> np.ndarray:
    """A copy with one entry replaced."""
    copy = array.copy()
    copy[place] = value
    return copy


def a_dimension_visited_twice(schedule: Schedule) -> Schedule:
    paths = schedule.plan.chunks[0].paths
    return changed(schedule, paths=with_entry(paths, (1, 0), paths[1, 1]))


def gather_in_scatter_order(schedule: Schedule) -> Schedule:
    paths = schedule.plan.chunks[0].paths
    return changed(schedule, paths=with_entry(paths, (2, slice(2, None)), paths[2, :2]))


def sizes_whose_sum_wraps_around(schedule: Schedule) -> Schedule:
    """The sum overflows 64 bits and ends at the right total, in whole elements."""
    total, huge = schedule.instance.collectives[0].size, 2**63 - 2
    sizes = np.array([huge, huge, 2, total + 2])
    assert sizes.sum() == total
    return changed(schedule, sizes=sizes)


def held_too_long(schedule: Schedule) -> Schedule:
    return shifted(schedule, 3, 1, "end", "ready")


def with_parts(schedule: Schedule, rail_bytes: dict[int, np.ndarray]) -> Schedule:
    """The schedule with other bytes on its rails, which follow from all else unless they are known."""
    copy = replace(schedule)
    copy.__dict__["rail_bytes"] = rail_bytes
    return copy


def a_little_more_on_one_rail(schedule: Schedule) -> Schedule:
    """As much as it carries while a stage is launched."""
    more = schedule.instance.fabric.dimensions[0].rails[0].bandwidth * 5e-6 * np.array([1, -1])
    return with_parts(schedule, {k: carried + more for k, carried in schedule.rail_bytes.items()})


def start_before_input(schedule: Schedule, place: int) -> Schedule:
    """The stage at this place on the path of the first chunk begins a picosecond before the one before it is ready."""
    early = int(schedule.ready[place - 1] - schedule.start[place]) - 1
    return shifted(schedule, place, early, "start", "end", "ready")


def two_stages_at_once(schedule: Schedule) -> Schedule:
    first, second = next(
        (a, b)
        for k in (0, 1)
        for a, b in zip(schedule.sequence(k)[:-1], schedule.sequence(k)[1:], strict=True)
        if b % 4 == 0 and schedule.start[b] == schedule.end[a]
    )
    assert schedule.start[first] < schedule.start[second]
    return shifted(schedule, second, -1, "start", "end", "ready")


def another_sequence_served(schedule: Schedule) -> Schedule:
    swapped = schedule.plan.sequences[0].copy()  # type: ignore[union-attr]
    swapped[:2] = swapped[1::-1]
    return changed(schedule, sequences=(swapped, schedule.plan.sequences[1]))  # type: ignore[arg-type]


def a_stage_listed_twice(schedule: Schedule) -> Schedule:
    repeated = with_entry(schedule.plan.sequences[0], 0, schedule.plan.sequences[0][1])  # type: ignore[arg-type,index]
    return changed(schedule, sequences=(repeated, schedule.plan.sequences[1]))  # type: ignore[arg-type]


def a_collective_carried_twice(schedule: Schedule) -> Schedule:
    (launch,) = default_launches(schedule.instance)
    launches = (replace(launch, tensors=(0, 0)),)
    return replace(schedule, plan=replace(schedule.plan, launches=launches))


def half_of_the_times(schedule: Schedule) -> dict[str, np.ndarray]:
    return {name: getattr(schedule, name)[:8] for name in ("start", "end", "ready")}


CORRUPTIONS: tuple[tuple[str, str, Callable[[Schedule], Schedule]], ...] = (
    ("shape", "one time too few", lambda s: replace(s, ready=s.ready[:-1])),
    ("shape", "no group of chunks", lambda s: replace(s, plan=replace(s.plan, chunks=()))),
    ("shape", "one size too few", lambda s: changed(s, sizes=s.plan.chunks[0].sizes[1:])),
    ("stages", "a dimension visited twice", a_dimension_visited_twice),
    (
        "stages",
        "a dimension left out",
        lambda s: replace(changed(s, paths=s.plan.chunks[0].paths[:, :2]), **half_of_the_times(s)),
    ),
    ("ag_order", "gather in scatter order", gather_in_scatter_order),
    ("coverage", "a collective carried twice", a_collective_carried_twice),
    ("complete", "a stage without time", lambda s: replace(s, start=with_entry(s.start, 3, -1))),
    ("sizes", "a byte too much", lambda s: changed(s, sizes=with_entry(s.plan.chunks[0].sizes, 0, 64_000_002))),
    ("sizes", "half an element", lambda s: changed(s, sizes=s.plan.chunks[0].sizes + np.array([1, -1, 0, 0]))),
    ("sizes", "an empty chunk", lambda s: changed(s, sizes=np.array([128_000_000, 0, 64_000_000, 64_000_000]))),
    ("sizes", "sizes whose sum wraps around", sizes_whose_sum_wraps_around),
    ("duration", "held too long", held_too_long),
    (
        "rails",
        "a part lost on a rail",
        lambda s: with_parts(s, {k: with_entry(carried, (1, 1), 0.0) for k, carried in s.rail_bytes.items()}),
    ),
    (
        "rails",
        "all bytes on one rail",
        lambda s: with_parts(s, {k: carried * [2, 0] for k, carried in s.rail_bytes.items()}),
    ),
    ("rails", "a little more on one rail", a_little_more_on_one_rail),
    ("lag", "result too early", lambda s: shifted(s, 3, -1, "ready")),
    ("release", "start before release", lambda s: shifted(s, int(np.argmin(s.start)), -1, "start", "end", "ready")),
    *(("precedence", f"start {n} before input", partial(start_before_input, place=n)) for n in (1, 2, 3)),
    ("no_overlap", "two stages at once", two_stages_at_once),
    ("sequence", "another sequence served", another_sequence_served),
    ("sequence", "a stage listed twice", a_stage_listed_twice),
)


def test_schedules_that_wait_or_enforce_nothing_are_valid_too(valid: Schedule) -> None:
    validate(valid)
    validate(shifted(valid, int(np.argmax(valid.start)), 1000, "start", "end", "ready"))
    validate(changed(valid, sequences=(None, None)))  # type: ignore[arg-type]


@pytest.mark.parametrize(("rule", "corrupt"), [(r, c) for r, _, c in CORRUPTIONS], ids=[w for _, w, _ in CORRUPTIONS])
def test_a_broken_rule_is_named(valid: Schedule, rule: str, corrupt: Callable[[Schedule], Schedule]) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        validate(corrupt(valid))
    assert caught.value.rule == rule


def test_every_rule_is_broken_by_some_corruption() -> None:
    of_compute = {"mirrored_halves", "serial_compute", "needs", "memory"}
    assert {rule for rule, _, _ in CORRUPTIONS} == set(VALIDATION_RULES) - of_compute


def test_the_message_names_the_stage_that_breaks_the_rule(valid: Schedule) -> None:
    with pytest.raises(InvalidSchedule, match="gradients chunk 0 all_gather on dim"):
        validate(held_too_long(valid))


def test_gathering_in_any_order_is_valid_where_the_instance_leaves_it_free(valid: Schedule) -> None:
    assert (
        VALIDATION_RULES["ag_order"](
            replace(gather_in_scatter_order(valid), instance=valid.instance.replace(ag_order="free"))
        )
        is None
    )


@pytest.mark.parametrize("late", ["extra_latency", "extra_launch_overhead"])
def test_a_rail_that_is_late_carries_no_more_than_it_has_time_for(valid: Schedule, late: str) -> None:
    dimension = valid.instance.network.dimensions[0]
    rails = [rail.replace(**({late: "20 us"} if rail.name == "b" else {})) for rail in dimension.rails]
    network = valid.instance.network.varied(
        dimensions=(dimension.replace(rails=rails), *valid.instance.network.dimensions[1:])
    )
    instance = valid.instance.varied(network=network)
    schedule = schedule_of(instance, "themis+scf")
    validate(schedule)
    more = rails[0].bandwidth * 10e-6 * np.array([-1, 1])  # half of what it carries while it is late
    with pytest.raises(InvalidSchedule, match="its rails take"):
        validate(with_parts(schedule, {0: schedule.rail_bytes[0] + more}))


def test_a_stage_that_starts_at_once_has_no_input_either(figure_5: Instance) -> None:
    schedule = schedule_of(figure_5, "themis+scf")
    with pytest.raises(InvalidSchedule, match=r"precedence.*starts at 0 ps"):
        validate(shifted(schedule, 1, -int(schedule.start[1]), "start", "end", "ready"))


def test_an_enforced_sequence_is_broken_by_a_picosecond(valid: Schedule) -> None:
    first, second = valid.plan.sequences[0][:2]  # type: ignore[index]
    late = valid.start[second] - valid.start[first]
    assert VALIDATION_RULES["sequence"](shifted(valid, second, -late, "start")) is None
    assert VALIDATION_RULES["sequence"](shifted(valid, second, -late - 1, "start")) is not None


@pytest.mark.parametrize("kind", ["broadcast", "reduce"])
def test_whatever_is_scattered_and_gathered_may_have_to_gather_in_reverse(valid: Schedule, kind: str) -> None:
    document = valid.instance.model_dump(mode="json")
    document["collectives"][0]["kind"] = kind
    rooted = replace(valid, instance=Instance.model_validate(document))
    validate(rooted)
    assert VALIDATION_RULES["ag_order"](gather_in_scatter_order(rooted)) is not None

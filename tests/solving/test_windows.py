"""Windows of an iteration and the longest path through them, one by one."""

import random
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from sharded_iterations import random_step
from small_iterations import iteration, tensor

from themis_opt.problem.instance import Instance
from themis_opt.solving import period_bounds

SEEDS = range(40)


def random_windows(seed: int) -> period_bounds._Windows:
    """Windows of three to eight tasks, some of which lose something."""
    chance = random.Random(seed)
    tasks, count = chance.randint(3, 8), chance.randint(1, 12)
    ends = [chance.randrange(tasks) for _ in range(count)]
    starts = [end + chance.randint(1, tasks) for end in ends]
    order = sorted(range(count), key=lambda number: (starts[number], ends[number]))
    gain = np.array([float(chance.randint(-3, 20)) for _ in range(count)])
    end, start = (np.array([events[number] for number in order]) for events in (ends, starts))
    return period_bounds._Windows(tasks, [], end, start, np.zeros((count, 0), np.int64), 0 * gain, gain, 0 * gain)


def most_gained(windows: period_bounds._Windows) -> float:
    """By paths from every task, one by one."""
    tasks, most = windows.num_tasks, 0.0
    rows = [*zip(windows.end.tolist(), windows.start.tolist(), windows.gain.tolist(), strict=True)]
    for origin in range(tasks):
        gained = dict.fromkeys(range(origin, origin + tasks + 1), 0.0)
        for task in range(origin + 1, origin + tasks + 1):
            ways = [
                gained[end + later] + gain
                for end, start, gain in rows
                for later in (0, tasks)
                if start + later == task and end + later >= origin
            ]
            gained[task] = max([gained[task - 1], *ways])
        most = max(most, gained[origin + tasks])
    return most


@pytest.mark.parametrize("seed", SEEDS)
def test_the_longest_path_is_that_of_all(seed: int) -> None:
    windows = random_windows(seed)
    gained, path = period_bounds._longest_path(windows)
    assert gained == most_gained(windows) == sum(windows.gain[path])
    lengths = windows.start[path] - windows.end[path]
    assert lengths.sum() <= windows.num_tasks
    ahead = path[::-1]
    begins = windows.end[ahead[1:] + ahead[:1]] - windows.start[ahead]  # of each one's next, by tasks after its end
    assert lengths.sum() + (begins % windows.num_tasks).sum() == windows.num_tasks * bool(path)


def random_tensors(seed: int) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """Tasks, and when tensors of two groups are ready and needed, with their sizes."""
    chance = random.Random(seed)
    tasks, count = chance.randint(3, 9), chance.randint(1, 12)
    ready = [chance.randrange(tasks) for _ in range(count)]
    needed = [begin + chance.randint(1, tasks) for begin in ready]
    sizes = np.zeros((count, 2), np.int64)
    sizes[range(count), [chance.randrange(2) for _ in ready]] = [chance.randint(1, 9) for _ in ready]
    return tasks, np.array(ready), np.array(needed), sizes


def inside(end: int, start: int, ready: np.ndarray, needed: np.ndarray, sizes: np.ndarray, tasks: int) -> list[int]:
    """Bytes of each group in one window."""
    rows = [
        size
        for one, other, size in zip(ready.tolist(), needed.tolist(), sizes, strict=True)
        for later in (0, tasks)
        if one + later >= end and other + later <= start
    ]
    total: list[int] = sum(rows, np.zeros(2, np.int64)).tolist()
    return total


@pytest.mark.parametrize("most", [1000, 4])
@pytest.mark.parametrize("seed", SEEDS)
def test_windows_hold_what_is_ready_and_needed_in_them(seed: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of a few events, or windows between some of them and those of single tensors, taken in blocks."""
    monkeypatch.setattr(period_bounds, "MAX_WINDOW_EVENTS", most)
    tasks, ready, needed, sizes = random_tensors(seed)
    ends, starts, held = period_bounds._grid(ready, ready, needed, sizes, tasks)
    every_end, every_start = sorted(set(ready.tolist())), sorted(set((needed % tasks).tolist()))
    assert (ends.ravel()[0], ends.ravel()[-1]) == (every_end[0], every_end[-1])
    assert len(ends) == min(len(every_end), most)
    assert starts.size == 2 * min(len(every_start), most)
    assert set(starts.ravel().tolist()) <= {*every_start, *(task + tasks for task in every_start)}
    for (i, end), (j, start) in product(enumerate(ends.ravel().tolist()), enumerate(starts.ravel().tolist())):
        assert held[i, j].tolist() == inside(end, start, ready, needed, sizes, tasks)
    alone = period_bounds._around_tensors(ready, needed, sizes, tasks)
    assert {(end, start) for end, start in zip(*map(np.ndarray.tolist, alone[:2]), strict=True)} == {
        *zip(ready.tolist(), needed.tolist(), strict=True)
    }
    for end, start, content in zip(*map(np.ndarray.tolist, alone), strict=True):
        assert content == inside(end, start, ready, needed, sizes, tasks)


@pytest.mark.parametrize("seed", range(6))
def test_the_most_that_windows_inside_gain(seed: int) -> None:
    gain = np.random.default_rng(seed).integers(0, 50, (5, 6)).astype(float)
    most = period_bounds._most_inside(gain)
    for i, j in product(range(5), range(6)):
        others = [gain[k, m] for k in range(i, 5) for m in range(j + 1) if (k, m) != (i, j)]
        assert most[i, j] == max(others, default=-np.inf)


def ends_of_tasks(instance: Instance) -> list[int]:
    """When the tasks of three periods end, with nothing between them."""
    return np.cumsum([task.duration for task in instance.tasks * 3]).tolist()


def holdings(instance: Instance) -> Iterator[tuple[int, int, int]]:
    """Task at whose end bytes are held, or begin to be needed, task at whose end they are freed, and how many."""
    for number, task in enumerate(instance.tasks):
        if task.freed_after is not None:
            yield number, instance.task_index[task.freed_after], task.activation_bytes
    for exchange in instance.exchanges:
        if exchange.freed_task >= 0:
            yield exchange.needed_task, exchange.freed_task, exchange.size


def limited_steps() -> Iterator[Instance]:
    """Iterations whose gathers are not all held at once."""
    for seed in range(40):
        instance = random_step(np.random.default_rng(seed), 4)
        yield instance.replace(memory=f"{max(exchange.size for exchange in instance.exchanges) * 3} B")


def test_the_room_at_the_end_of_a_task_is_what_others_leave() -> None:
    rooms = 0
    for instance in limited_steps():
        room, tasks, ends = period_bounds._room(instance), len(instance.tasks), ends_of_tasks(instance)
        if room is None:
            continue
        rooms += 1
        assert instance.memory is not None
        for task in range(tasks):
            held = instance.parameter_bytes
            for begin, freed, size in holdings(instance):
                last = freed + tasks * (freed < begin)
                for now in (task, task + tasks):
                    held += size * (begin <= now < last and ends[now] < ends[last])
            assert room[task] == instance.memory - held
    assert rooms > 20


@pytest.mark.parametrize("seed", SEEDS)
def test_what_has_no_room_lies_in_windows(seed: int) -> None:
    """Of what is given up and needed in a window all but what is ready in it anyway, and what fits before."""
    tasks, ready, needed, given_up = random_tensors(seed)
    ends, starts, surely = period_bounds._grid(ready, ready, needed, given_up, tasks)
    room = np.random.default_rng(seed).integers(-5, 15, tasks)
    beyond = period_bounds._beyond(room, ends, starts, surely, needed % tasks, given_up)
    for (i, end), (j, start) in product(enumerate(ends.ravel().tolist()), enumerate(starts.ravel().tolist())):
        if end < start <= end + tasks:
            wanted = sum(
                (
                    size
                    for task, size in zip((needed % tasks).tolist(), given_up, strict=True)
                    for later in (0, tasks)
                    if end < task + later <= start
                ),
                np.zeros(2, np.int64),
            )
            expected = np.maximum(wanted - surely[i, j] - max(int(room[end]), 0), 0)
            assert beyond[i, j].tolist() == expected.tolist()


def test_the_least_loads_are_those_of_the_best_places_on_paths() -> None:
    """An all-reduce of 8 kB on 4 NPUs at 1 GB/s and 2 at 4 GB/s: each dimension last, with what the other leaves."""
    dimensions = [{"kind": "ring", "size": size, "bandwidth": f"{rate} GB/s"} for size, rate in ((4, 1), (2, 4))]
    instance = iteration({"a": 1.0}, [tensor("x", 8, "a", "a")], network={"dimensions": dimensions})
    groups, _ = period_bounds._groups(instance)
    least = period_bounds._least_loads(instance, groups, np.array([8000]))
    assert (least * 8000)[0].tolist() == pytest.approx([6_000_000.0, 500_000.0])


def gains(windows: period_bounds._Windows) -> dict[tuple[int, int], float]:
    """What each window gains by its bytes or by its loads, whichever is more."""
    most = np.maximum(windows.gain, windows.load_gain)
    return dict(zip(zip(windows.end.tolist(), windows.start.tolist(), strict=True), most.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(4))
def test_of_many_windows_those_are_left_out_that_gain_no_more_than_one_inside(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    tasks = {f"t{n}": 1.0 for n in range(8)}
    tensors = [
        tensor(f"x{n}", chance.randint(2, 9), f"t{chance.randrange(8)}", f"t{chance.randrange(8)}") for n in range(9)
    ]
    instance = iteration(tasks, tensors)
    every = gains(period_bounds._windows(instance, "bare"))
    monkeypatch.setattr(period_bounds, "MANY_WINDOWS", 0)
    few = gains(period_bounds._windows(instance, "bare"))
    alone = {(e.ready_task, e.needed_task + 8 * e.needed_later) for e in instance.exchanges}
    expected = {
        (end, start)
        for (end, start), gain in every.items()
        if (end, start) in alone
        or all(gain > other for (e, s), other in every.items() if end <= e and s <= start and (e, s) != (end, start))
    }
    assert set(few) == expected
    assert len(few) < len(every)

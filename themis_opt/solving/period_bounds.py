r"""Lower bounds on the time of an iteration, whatever is fused, split, reordered or overlapped.

*compute*: tasks are serial.  *communication*: in every period each dimension carries all tensors, so the load of the
busiest one, with the bytes split over orders as well as can be, is a bound; steps of latency may overlap.

*critical path*: between the end of task a and the start of task b lies at least the time :math:`W(a, b)` that a network
otherwise idle needs for all tensors made by a or later and needed before b or earlier.  It is the fluid bound of one
collective per kind and span, or the one with heads and tails, neither of which knows how tensors are fused or cut.
The longest path through tasks and windows from one start of a task to its next start is a bound.

*memory*: what an NPU holds at the end of task a limits the gathers that were launched before.  Of those that later
tasks need and give up, at most :math:`M - H(a)` bytes have left by then, where :math:`H(a)` is what is held whatever is
launched when; the others lie in each window that begins there and ends where they are needed.

In a pipeline tasks
are serial within a stage: a window holds the tensors of one stage, and the longest path through all stages counts every
tensor as if it were alone.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import numpy as np

from themis_opt.base.arrays import FloatArray, IntArray
from themis_opt.base.registries import Registry
from themis_opt.problem.exchanges import Exchange
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Network
from themis_opt.solving.cut import ExchangeGroup, collectives_of, group_sizes, worst_across
from themis_opt.solving.lowering import chunk_overhead, job_class, without_fixed
from themis_opt.solving.makespan_bounds import MAKESPAN_BOUNDS, Bound
from themis_opt.solving.piece_classes import Waiting, window_time

MAX_WINDOW_EVENTS = 1000
"""Tasks that may begin or end a window of several tensors, for time and memory: of more some are left out."""

WINDOWS_AT_ONCE = 250  # windows of single tensors whose contents are summed at once
MAX_PATHS = 80  # longest paths that are looked at, should they never end
FEW_WINDOWS, MANY_WINDOWS = 32, 1000
"""Windows up to which all are looked at with heads, tails and latency, on the longest path or not; and above which one
is left out that gains no more than another one inside it, though its contents could."""

WindowMeasure = Literal["ideal", "head_tail", "bare", "load"]
"""A bound of collectives, or the fluid one: without latency and overheads, or what it says of loads alone."""


def compute(instance: Instance) -> float:
    """Tasks one after the other, and in a pipeline the bubble that an infinitely fast network leaves."""
    return float(instance.compute + instance.bubble)


def cut(instance: Instance) -> float:
    """Tasks one after the other, or what crosses the worst cut in one period (:mod:`themis_opt.solving.cut`)."""
    return max(compute(instance), *(worst_across(instance, exchanges).time for exchanges in _by_stage(instance)))


def ideal(instance: Instance) -> float:
    """Longest path of tasks and of exchanges at full bandwidth."""
    return critical_path(instance, "ideal")


def communication(instance: Instance) -> float:
    """Load of the busiest dimension in one period."""
    return max(_time(instance, group_sizes(exchanges), "load") for exchanges in _by_stage(instance))


def critical_path(instance: Instance, measure: Literal["ideal", "head_tail"] = "head_tail") -> float:
    """Longest path of tasks and windows over one period, with a bound of collectives as the length of windows.

    In a pipeline, those of each stage alone, and the longest path through all stages (:func:`_precedence`).
    """
    longest = 0.0
    if instance.num_stages > 1 or any(exchange.after for exchange in instance.exchanges):
        longest = _precedence(instance, measure)
    if instance.num_stages == 1:
        return max(longest, _serial_path(instance, measure))
    return max([longest, *(_serial_path(stage, measure) for stage in _stages_alone(instance))])


def _serial_path(instance: Instance, measure: Literal["ideal", "head_tail"]) -> float:
    """Longest path of tasks that are serial, and windows between them."""
    _, _, gained = _searched_path(instance, measure)
    return instance.compute + gained


def pieces(instance: Instance) -> float:
    """The longest path where every chunk costs something, with what suitable chunks cost in windows of several tensors.

    Of a chunk that tensors share all have to be ready, and many chunks have many start-ups.
    """
    if instance.num_stages > 1 or not chunk_overhead(instance) or not instance.ports.is_plain:
        return compute(instance)
    windows, path, gained = _searched_path(instance, "head_tail")
    seen = set[int]()
    while len(seen) < MAX_PIECE_WINDOWS and (rest := [window for window in path if window not in seen]):
        window = max(rest, key=lambda number: windows.gain[number])
        seen.add(window)
        known = float(windows.covered[window] + windows.gain[window])
        inside = inside_window(instance, int(windows.end[window]), int(windows.start[window]))
        if len(inside) > 1:
            windows.gain[window] = window_time(instance, inside, known) - windows.covered[window]
            gained, path = _longest_path(windows)
    return instance.compute + gained


MAX_PIECE_WINDOWS = 4
"""Windows that are looked at with the start-ups of all chunks, which takes a tenth of a second each."""


def inside_window(instance: Instance, end: int, start: int) -> list[Waiting]:
    """The tensors in a window, with the time of tasks before they are ready, and after they are needed."""
    tasks = len(instance.tasks)
    clock = np.cumsum([0.0, *(float(task.duration) for task in instance.tasks * 2)])
    inside = []
    for exchange in instance.exchanges:
        need = exchange.needed_task + tasks * exchange.needed_later
        for later in (0, tasks):
            if exchange.ready_task + later >= end and need + later <= start:
                head = clock[exchange.ready_task + later + 1] - clock[end + 1]
                inside.append(Waiting(exchange, float(head), float(clock[start] - clock[need + later])))
    return inside


def critical_spans(instance: Instance) -> list[tuple[int, int]]:
    """The windows on the longest path: the task after which one begins, and that before which it ends."""
    windows, path, _ = _searched_path(instance, "head_tail")
    return sorted((int(windows.end[window]), int(windows.start[window])) for window in path)


def _searched_path(instance: Instance, measure: Literal["ideal", "head_tail"]) -> "tuple[_Windows, list[int], float]":
    """The windows, those on the longest path, and what they gain.

    Windows have at first the most time that a single group needs in them; those on the longest path get what all of
    their contents need, until nothing changes.  Few windows get it at once.  Then all get what their contents need of
    any one resource, and those on the path more again.
    """
    windows = _windows(instance, "ideal" if measure == "ideal" else "bare")
    time = _timer(instance, windows.groups, measure)
    is_precise = np.zeros(len(windows.end), dtype=bool)
    gained, path = 0.0, list(range(len(windows.end)))
    if len(path) > FEW_WINDOWS:
        gained, path = _longest_path(windows)
    has_loads = False
    for _ in range(MAX_PATHS):
        rough = [window for window in path if not is_precise[window]]
        for window in rough:
            least = time(tuple(windows.held[window].tolist()))
            windows.gain[window] = max(windows.gain[window], least - windows.covered[window])
        if not rough and has_loads:
            break
        if not rough:
            np.maximum(windows.gain, windows.load_gain, out=windows.gain)
            has_loads = True
        is_precise[rough] = True
        gained, path = _longest_path(windows)
    return windows, path, gained


@dataclass(frozen=True)
class _Windows:
    """Windows of one period that last longer than the tasks in them; arrays of shape (windows,), sorted by `start`.

    `num_tasks`: tasks of one period; those of the next one are counted on.
    `groups`: groups of tensors.
    `end`, `start`: the task of the first period after which a window begins, and the task before which it ends, less
      than a period later.
    `held`, shape (windows, groups): bytes of each group inside.
    `covered`, `gain`: picoseconds of the tasks between, and how much longer the window lasts at least.
    `load_gain`: the latter by the loads of resources.
    """

    num_tasks: int
    groups: list[ExchangeGroup]
    end: IntArray
    start: IntArray
    held: IntArray
    covered: FloatArray
    gain: FloatArray
    load_gain: FloatArray


def _windows(instance: Instance, measure: WindowMeasure) -> _Windows:
    """The window of each tensor, and of several tensors all those that gain more than every window inside."""
    tasks, (groups, sizes) = len(instance.tasks), _groups(instance)
    ready = np.array([exchange.ready_task for exchange in instance.exchanges])
    needed = np.array([exchange.needed_task + tasks * exchange.needed_later for exchange in instance.exchanges])
    whole = sizes.sum(axis=0)
    pace = np.array(
        [_time(instance, {g: size}, measure) / size for g, size in zip(groups, whole.tolist(), strict=True)]
    )
    least = _least_loads(instance, groups, whole)
    clock = np.cumsum([0.0, *(float(task.duration) for task in instance.tasks * 2)])
    parts = []
    room = _room(instance)
    events = ready if room is None else np.concatenate([ready, (needed - 1) % tasks])
    grid_end, grid_start, inside = _grid(events, ready, needed, sizes, tasks)
    if room is not None:
        given_up = sizes * np.array([exchange.freed_task >= 0 for exchange in instance.exchanges])[:, None]
        _, _, surely = _grid(events, ready, needed, given_up, tasks)
        inside = inside + _beyond(room, grid_end, grid_start, surely, needed % tasks, given_up)
    for end, start, held in ((grid_end, grid_start, inside), _around_tensors(ready, needed, sizes, tasks)):
        covered = clock[start] - clock[end + 1]
        is_window = (start > end) & (start - end <= tasks)
        lengths = (held * pace).max(axis=-1), (held @ least).max(axis=-1)
        gains = [np.where(is_window, length - covered, -np.inf) for length in lengths]
        kept = np.maximum(*gains) > 0
        if kept.ndim > 1 and kept.sum() > MANY_WINDOWS:
            kept &= np.logical_or(*(gain > _most_inside(gain) for gain in gains))
        ends, starts = (np.broadcast_to(events, kept.shape)[kept] for events in (end, start))
        parts.append((ends, starts, held[kept], covered[kept], *(gain[kept] for gain in gains)))
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.lexsort((columns[0], columns[1]))  # of equal windows the longest first, whose contents may need more
    return _Windows(tasks, groups, *(column[order] for column in columns))


def _least_loads(instance: Instance, groups: Sequence[ExchangeGroup], whole: IntArray) -> FloatArray:
    """Least picoseconds for which a byte of each group holds each resource, shape (groups, resources)."""
    least = np.zeros((len(groups), instance.num_resources))
    exchanges = {(exchange.kind, exchange.span): exchange for exchange in instance.exchanges}
    for number, (group, size) in enumerate(zip(groups, whole.tolist(), strict=True)):
        exchange = replace(exchanges[group], size=size)
        fixed = job_class(instance, exchange, 0, "fluid")
        for phase in without_fixed(job_class(instance, exchange, size, "fluid"), fixed).phases:
            for k in exchange.span:
                time = min(duration for (_, machine), duration in phase.duration.items() if machine == k)
                least[number, phase.held(k)] += time / size
    return least


def _room(instance: Instance) -> IntArray | None:
    """Bytes that are left at the end of every task to gathers that later ones need, shape (tasks,).

    None where nothing limits them, or where the uses of a gather take no time, in which it may not be seen.
    """
    if instance.memory is None:
        return None
    tasks, durations = len(instance.tasks), [task.duration for task in instance.tasks]
    clock = np.cumsum([0, *durations, *durations, *durations])
    room = np.full(tasks, instance.memory - instance.parameter_bytes, dtype=np.int64)
    holdings = [
        (number, instance.task_index[task.freed_after], task.activation_bytes)
        for number, task in enumerate(instance.tasks)
        if task.freed_after is not None and task.activation_bytes
    ]
    for exchange in instance.exchanges:
        if exchange.freed_task >= 0:
            holdings.append((exchange.needed_task, exchange.freed_task, exchange.size))
            later = exchange.freed_task + tasks * (exchange.freed_task < exchange.needed_task)
            if clock[later + 1] == clock[exchange.needed_task]:
                return None
    for begin, freed, size in holdings:
        last = freed + tasks * (freed < begin)
        over = np.arange(begin, last)  # tasks at whose end it is still held, if what follows takes time
        room[over[clock[last + 1] > clock[over + 1]] % tasks] -= size
    return room


def _beyond(
    room: IntArray, end: IntArray, start: IntArray, surely: IntArray, needed: IntArray, given_up: IntArray
) -> IntArray:
    """Bytes of gathers in windows that memory keeps from leaving before these begin, beside those ready later.

    `surely`: those that are ready later, shape (ends, starts, groups); `given_up`: all, shape (tensors, groups).
    """
    by_task = np.zeros((len(room), given_up.shape[1]), dtype=np.int64)
    np.add.at(by_task, needed, given_up)
    until = np.concatenate([by_task, by_task]).cumsum(axis=0)
    wanted = until[start] - until[end]
    beyond: IntArray = np.maximum(wanted - surely - np.maximum(room[end], 0)[..., None], 0)
    return beyond


def _grid(
    events: IntArray, ready: IntArray, needed: IntArray, sizes: IntArray, tasks: int
) -> tuple[IntArray, IntArray, IntArray]:
    """All windows that begin at some events: their ends (ends, 1), their starts (1, starts), and the bytes inside.

    Bytes are counted once at their events, and summed over later ends and earlier starts.
    """
    ends = _thinned(np.unique(events))
    starts = _thinned(np.unique(needed % tasks))
    starts = np.concatenate([starts, starts + tasks])
    held = np.zeros((len(ends) + 1, len(starts) + 1, sizes.shape[1]), dtype=np.int64)
    for later in (0, tasks):
        rows = np.searchsorted(ends, ready + later, side="right")  # the last end that is not later
        columns = np.searchsorted(starts, needed + later)
        np.add.at(held, (rows, columns), sizes)
    inside = held[::-1].cumsum(axis=0)[::-1][1:].cumsum(axis=1)[:, :-1]
    return ends[:, None], starts[None], inside


def _around_tensors(
    ready: IntArray, needed: IntArray, sizes: IntArray, tasks: int
) -> tuple[IntArray, IntArray, IntArray]:
    """The window of each tensor, with all bytes inside."""
    end, start = np.unique(np.stack([ready, needed]), axis=1)
    begin, until = (np.concatenate([events, events + tasks]) for events in (ready, needed))
    twice, contents = np.concatenate([sizes, sizes]), []
    for block in np.array_split(np.arange(len(end)), len(end) // WINDOWS_AT_ONCE + 1):
        near = (begin >= end[block[0]]) & (until <= start[block].max())
        inside = (begin[near] >= end[block, None]) & (until[near] <= start[block, None])
        contents.append(inside @ twice[near])
    return end, start, np.concatenate(contents)


def _most_inside(gain: FloatArray) -> FloatArray:
    """Most that a window gains within each window of a grid, other than itself; arrays of shape (ends, starts)."""
    best = np.maximum.accumulate(np.maximum.accumulate(gain[::-1], axis=0)[::-1], axis=1)
    inside = np.full(gain.shape, -np.inf)
    inside[:-1] = best[1:]
    inside[:, 1:] = np.maximum(inside[:, 1:], best[:, :-1])
    return inside


def _thinned(events: IntArray) -> IntArray:
    if len(events) <= MAX_WINDOW_EVENTS:
        return events
    kept: IntArray = events[np.linspace(0, len(events) - 1, MAX_WINDOW_EVENTS).astype(np.int64)]
    return kept


def _longest_path(windows: _Windows) -> tuple[float, list[int]]:
    """Most picoseconds that windows gain on a path from a start of a task to its next start, and the windows on it.

    Paths from several origins are followed at once through two periods; only at `events` can they gain.
    """
    tasks, origins = windows.num_tasks, _origins(windows)
    events = np.unique(np.concatenate([origins, origins + tasks, windows.start, windows.start + tasks]))
    end, start = (np.concatenate([tasks_of, tasks_of + tasks]) for tasks_of in (windows.end, windows.start))
    order = np.argsort(start, kind="stable")
    number, end, start = order % len(windows.start), np.searchsorted(events, end[order], side="right") - 1, start[order]
    bounds = np.searchsorted(start, np.append(events, events[-1] + 1)).tolist()
    gained = np.full((len(events) + 1, len(origins)), -np.inf)  # the last row is that before all events
    for event, task in enumerate(events.tolist()):
        first, last = bounds[event : event + 2]
        gained[event] = np.where(origins == task, 0.0, gained[event - 1])
        if last > first:
            reached = gained[end[first:last]] + windows.gain[number[first:last], None]
            np.maximum(gained[event], reached.max(axis=0), out=gained[event])
    arrived = gained[np.searchsorted(events, origins + tasks), np.arange(len(origins))]
    best = int(arrived.argmax())
    event, begun = (int(np.searchsorted(events, origins[best] + later)) for later in (tasks, 0))
    path = list[int]()
    while event > begun:
        first, last = bounds[event : event + 2]
        reached = gained[end[first:last], best] + windows.gain[number[first:last]]
        if len(reached) and reached.max() == gained[event, best]:
            place = first + int(reached.argmax())
            path.append(int(number[place]))
            event = int(end[place])
        else:
            event -= 1
    return float(arrived[best]), path


def _origins(windows: _Windows) -> IntArray:
    """Tasks from whose starts paths are followed: one path through a whole period is the longest of all.

    A path on which no window goes across some task may as well begin there, and any other one where such a window ends.
    The task is the one across which windows of fewest ends go.
    """
    tasks = windows.num_tasks
    ends, of_window = np.unique(windows.start % tasks, return_inverse=True)
    longest = np.zeros(len(ends), dtype=np.int64)
    np.maximum.at(longest, of_window, windows.start - windows.end)
    changes = np.zeros(2 * tasks + 1, dtype=np.int64)
    np.add.at(changes, ends + tasks - longest + 1, 1)
    np.add.at(changes, ends + tasks, -1)
    across = changes[:-1].cumsum().reshape(2, tasks).sum(axis=0)
    task = int(across.argmin())
    ahead = (ends - task) % tasks
    return np.append(ends[(ahead > 0) & (ahead < longest)], task)


def _stage(instance: Instance, exchange: Exchange) -> int:
    return instance.tasks[exchange.ready_task].stage


def _by_stage(instance: Instance) -> Iterable[list[Exchange]]:
    """Tensors that leave by the dimensions of one stage."""
    stages: dict[int, list[Exchange]] = {}
    for exchange in instance.exchanges:
        stages.setdefault(_stage(instance, exchange), []).append(exchange)
    return stages.values()


def _stages_alone(instance: Instance) -> Iterator[Instance]:
    """For each stage the iteration of its tasks and of the tensors that it makes and needs itself, if there are any."""
    if instance.iteration is None:
        return
    for stage, chain in enumerate(instance.chains):
        tasks = tuple(instance.tasks[task].model_copy(update={"after": (), "stage": 0}) for task in chain)
        tensors = tuple(
            tensor.model_copy(update={"after": ()})
            for tensor, exchange in zip(instance.iteration.tensors, instance.exchanges, strict=True)
            if _stage(instance, exchange) == stage and exchange.needed_task in chain
        )
        if tensors:
            alone = instance.varied(iteration=instance.iteration.varied(tasks=tasks, tensors=tensors))
            whole = instance.ports.against[stage * len(alone.links) :]
            if all(together or not apart for together, apart in zip(whole, alone.ports.against, strict=False)):
                yield alone  # else its stages may take longer than in the whole


def _precedence(instance: Instance, measure: Literal["ideal", "head_tail"]) -> float:
    """Longest path from the start of a task to its next start, through tasks, tensors and windows of a stage.

    A tensor takes at least as long as alone on an idle network.  Between a task that makes a tensor and the one of the
    same stage that needs it lie all tensors that are made no earlier and needed no later.
    """
    groups, sizes = _groups(instance)
    time = _timer(instance, groups, measure)
    windows = dict[tuple[int, int, int], float]()
    for chain in instance.chains if instance.num_stages > 1 else ():
        place = {task: number for number, task in enumerate(chain)}
        inside = [n for n, e in enumerate(instance.exchanges) if e.ready_task in place and e.needed_task in place]
        if not inside:
            continue
        exchanges = [instance.exchanges[number] for number in inside]
        ready = np.array([place[exchange.ready_task] for exchange in exchanges])
        needed = np.array([place[one.needed_task] + len(chain) * one.needed_later for one in exchanges])
        ends, starts, held = _around_tensors(ready, needed, sizes[inside], len(chain))
        for end, start, contents in zip(ends.tolist(), starts.tolist(), held.tolist(), strict=True):
            windows[chain[end], chain[start % len(chain)], start // len(chain)] = time(tuple(contents))
    return instance.least_period([time(tuple(row)) for row in sizes.tolist()], windows)


def _groups(instance: Instance) -> tuple[list[ExchangeGroup], IntArray]:
    """The groups, and the bytes of every tensor in its own, shape (tensors, groups)."""
    group_of = [(exchange.kind, exchange.span) for exchange in instance.exchanges]
    groups = list(dict.fromkeys(group_of))
    sizes = np.zeros((len(group_of), len(groups)), dtype=np.int64)
    sizes[np.arange(len(group_of)), list(map(groups.index, group_of))] = [one.size for one in instance.exchanges]
    return groups, sizes


def _timer(
    instance: Instance, groups: Sequence[ExchangeGroup], measure: WindowMeasure
) -> Callable[[tuple[int, ...]], float]:
    """The :func:`_time` of the bytes of each group, which is computed once."""
    return cache(
        lambda held: _time(instance, {group: size for group, size in zip(groups, held, strict=True) if size}, measure)
    )


def _time(instance: Instance, held: Mapping[ExchangeGroup, int], measure: WindowMeasure) -> float:
    """Least picoseconds for the bytes of some groups on an idle network.

    Launches of a group may have more than `MAX_CHUNKS` chunks together; of all bounds only the one of a single chunk
    depends on it, and that is far below the load of so many.  A switch that sums, and whose directions are one resource
    in the whole instance, has a dimension without sums on the same link, which makes them one here.
    """
    dimensions = list(instance.fabric.dimensions)
    if measure == "bare":
        dimensions = [dimension.replace(latency=0, launch_overhead=0) for dimension in dimensions]
    elif measure == "load" and instance.latency == "lag":
        dimensions = [dimension.replace(latency=0) for dimension in dimensions]
    used = sorted({k for _, span in held for k in span})
    names = instance.fabric.dimension_names
    first = {instance.links[k]: names[k] for k in reversed(used)}
    shares = {k: first[instance.links[k]] for k in used if first[instance.links[k]] != names[k]}
    joined = {k for k in used if dimensions[k].in_network and not instance.ports.against[k] and k not in shares}
    mates = [
        dimensions[k].replace(name=f"{names[k]} both ways", shares=names[k], in_network=False) for k in sorted(joined)
    ]
    dimensions = [dimensions[k].replace(name=names[k], shares=shares.get(k)) for k in used]
    network = Network(dimensions=(*dimensions, *mates))
    problem = Instance(network=network, collectives=collectives_of(instance, held), latency=instance.latency)
    return MAKESPAN_BOUNDS[measure if measure in MAKESPAN_BOUNDS else "fluid"].compute(problem)


PERIOD_BOUNDS: Mapping[str, Bound] = Registry(
    "themis_opt.period_bounds",
    {
        "compute": Bound(compute, False, "tasks one after the other, and the bubble of a pipeline"),
        "communication": Bound(communication, False, "what the busiest dimension has to carry in one period"),
        "ideal": Bound(ideal, False, "longest path of compute and of exchanges at full bandwidth"),
        "critical_path": Bound(critical_path, False, "the same, with latency and the first and last step of exchanges"),
        "pieces": Bound(pieces, False, "the same, with the start-ups of all chunks that pay", is_slow=True),
        "cut": Bound(cut, False, "compute, or bytes between groups of NPUs over their links", any_algorithm=True),
    },
)
"""The bounds on the iteration time by name."""

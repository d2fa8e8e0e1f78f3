r"""Lower bounds on the time of an iteration, whatever is fused, split, reordered or overlapped.

*compute*: tasks are serial.  *communication*: in every period each dimension carries all tensors, so the load of the
busiest one, with the bytes split over orders as well as can be, is a bound; steps of latency may overlap.

*critical path*: between the end of task a and the start of task b lies at least the time :math:`W(a, b)` that a network
otherwise idle needs for all tensors made by a or later and needed before b or earlier.  It is the fluid bound of one
collective per kind and span, or the one with heads and tails, neither of which knows how tensors are fused or cut.
The longest path through tasks and windows from one start of a task to its next start is a bound.  In a pipeline tasks
are serial within a stage: a window holds the tensors of one stage, and the longest path through all stages counts every
tensor as if it were alone.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from itertools import pairwise
from types import MappingProxyType
from typing import Literal

import numpy as np

from themis_opt.base.arrays import FloatArray, IntArray
from themis_opt.problem.exchanges import Collective, Exchange
from themis_opt.problem.fields import MAX_CHUNKS
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Network
from themis_opt.solving.cut import ExchangeGroup, time_across
from themis_opt.solving.makespan_bounds import MAKESPAN_BOUNDS, Bound

MAX_WINDOW_EVENTS = 200
"""Tasks that may begin or end a window, for time and memory: more are thinned out, which keeps the bound valid.

Half as many weaken the bound of one in ten shipped iterations, by 0.3 %; twice as many strengthen none.
"""

MAX_PATH_ROUNDS = 40
"""Most windows on the longest path that are looked at again with heads, tails and latency, should they never end."""

WindowMeasure = Literal["ideal", "head_tail", "bare", "load"]
"""A bound of collectives, or the fluid one: without latency and overheads, or what it says of loads alone."""


def compute(instance: Instance) -> float:
    """Tasks one after the other."""
    return float(instance.compute)


def cut(instance: Instance) -> float:
    """Tasks one after the other, or what crosses the worst cut in one period (:mod:`themis_opt.solving.cut`)."""
    return max(compute(instance), *(time_across(instance, exchanges) for exchanges in _by_stage(instance)))


def ideal(instance: Instance) -> float:
    """Longest path of tasks and of exchanges at full bandwidth."""
    return critical_path(instance, "ideal")


def communication(instance: Instance) -> float:
    """Load of the busiest dimension in one period."""
    return max(_time(instance, _held(exchanges), "load") for exchanges in _by_stage(instance))


def _held(exchanges: Iterable[Exchange]) -> dict[ExchangeGroup, int]:
    """Bytes of every group."""
    held = Counter[ExchangeGroup]()
    for exchange in exchanges:
        held[exchange.kind, exchange.span] += exchange.size
    return held


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
    windows = _windows(instance, "ideal" if measure == "ideal" else "bare")
    longest, precise = 0.0, set[tuple[int, int]]()
    for _ in range(MAX_PATH_ROUNDS):
        longest, path = _longest_path(instance, windows)
        rough = [window for window in path if window not in precise]
        if not rough:
            break
        for window in rough:
            contained = windows.contents(*window)
            windows.weight[window] = max(windows.weight[window], _time(instance, contained, measure))
            precise.add(window)
    return longest


@dataclass(frozen=True)
class _Windows:
    """Windows between tasks of two periods in a row.

    Attributes
    ----------
    ends, starts : int64 arrays
        Tasks, counted through both periods, after which windows begin and before which they end.
    bytes_of : mapping of int64 arrays, shape (ends, starts)
        Per group the bytes of the tensors inside.
    weight : float64 array, shape (ends, starts)
        A lower bound on the length in picoseconds; 0 where nothing is inside.
    """

    ends: IntArray
    starts: IntArray
    bytes_of: Mapping[ExchangeGroup, IntArray]
    weight: FloatArray = field(repr=False)

    def contents(self, end: int, start: int) -> dict[ExchangeGroup, int]:
        """Bytes of every group inside a window."""
        return {group: int(held[end, start]) for group, held in self.bytes_of.items() if held[end, start]}


def _windows(instance: Instance, measure: WindowMeasure) -> _Windows:
    """Windows with the most time that a single group needs in them, in proportion to its bytes."""
    tasks = len(instance.tasks)
    ready = np.array([exchange.ready_task for exchange in instance.exchanges])
    needed = np.array([exchange.needed_task + tasks * exchange.needed_later for exchange in instance.exchanges])
    ready, needed = (np.concatenate([a, a + tasks]) for a in (ready, needed))
    ends, starts = _thinned(ready), _thinned(needed[needed <= 2 * tasks])
    inside = (ready[None, None] >= ends[:, None, None]) & (needed[None, None] <= starts[None, :, None])
    inside &= ((starts[None] - ends[:, None]) <= tasks)[..., None]
    sizes = np.tile([tensor.size for tensor in instance.exchanges], 2)
    groups, of_tensor = _groups(instance)
    sizes_of_group = [sizes * (np.tile(of_tensor, 2) == number) for number in range(len(groups))]
    bytes_of = {group: inside @ part for group, part in zip(groups, sizes_of_group, strict=True)}
    weight = np.zeros(inside.shape[:2])
    for group, part in zip(groups, sizes_of_group, strict=True):
        whole = int(part.sum()) // 2
        weight = np.maximum(weight, bytes_of[group] * (_time(instance, {group: whole}, measure) / whole))
    return _Windows(ends, starts, bytes_of, weight)


def _thinned(events: IntArray) -> IntArray:
    distinct = np.unique(events)
    if len(distinct) <= MAX_WINDOW_EVENTS:
        return distinct
    kept: IntArray = distinct[np.linspace(0, len(distinct) - 1, MAX_WINDOW_EVENTS).astype(np.int64)]
    return kept


def _longest_path(instance: Instance, windows: _Windows) -> tuple[float, list[tuple[int, int]]]:
    """Length of the longest path from a start of a task to its next start, and its windows.

    Paths from all tasks that end a window are followed at once.
    """
    tasks = len(instance.tasks)
    origins = np.unique(windows.starts % tasks)
    duration = [float(task.duration) for task in instance.tasks] * 2
    end = np.full((len(origins), len(windows.ends)), -np.inf)
    through: dict[int, IntArray] = {}
    column = {int(task): number for number, task in enumerate(windows.starts)}
    row = {int(task): number for number, task in enumerate(windows.ends)}
    clock = np.full(len(origins), -np.inf)
    arrival = np.zeros(len(origins))
    starts_at: dict[int, FloatArray] = {}
    for task in range(2 * tasks + 1):
        clock = np.where(origins == task, 0.0, clock)
        if task in column:
            reach = end + windows.weight[:, column[task]]
            better = reach.max(axis=1) > clock
            through[task] = np.where(better, reach.argmax(axis=1), -1)
            clock = np.where(better, reach.max(axis=1), clock)
        starts_at[task] = clock
        arrival = np.where(origins + tasks == task, clock, arrival)
        if task < 2 * tasks:
            clock = clock + duration[task]
            if task in row:
                end[:, row[task]] = clock
    best = int(arrival.argmax())
    return float(arrival[best]), _traced(windows, through, column, best, int(origins[best]), tasks)


def _traced(
    windows: _Windows, through: Mapping[int, IntArray], column: Mapping[int, int], path: int, origin: int, tasks: int
) -> list[tuple[int, int]]:
    """The windows on a path, backwards from its end."""
    used: list[tuple[int, int]] = []
    task = origin + tasks
    while task > origin:
        window = int(through[task][path]) if task in through else -1
        if window >= 0:
            used.append((window, column[task]))
            task = int(windows.ends[window])
        else:
            task -= 1
    return used


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
            yield instance.varied(iteration=instance.iteration.varied(tasks=tasks, tensors=tensors))


def _precedence(instance: Instance, measure: Literal["ideal", "head_tail"]) -> float:
    """Longest path from the start of a task to its next start, through tasks and tensors that wait for each other.

    A tensor takes at least as long as alone on an idle network.  Nodes are tasks, then tensors, of two periods.
    """
    held = [((exchange.kind, exchange.span), exchange.size) for exchange in instance.exchanges]
    alone = {(group, size): _time(instance, {group: size}, measure) for group, size in dict.fromkeys(held)}
    durations = [float(task.duration) for task in instance.tasks] + [alone[load] for load in held]
    tasks, count = len(instance.tasks), len(durations)
    before: dict[int, set[int]] = {node: set() for node in range(2 * count)}
    for row in (0, count):
        for chain in instance.chains:
            for one, other in pairwise(chain):
                before[row + other].add(row + one)
        for one, other in instance.waits:
            before[row + other].add(row + one)
        for number, exchange in enumerate(instance.exchanges, start=tasks):
            before[row + number] = {row + exchange.ready_task, *(row + tasks + source for source in exchange.after)}
            if row + count * exchange.needed_later <= count:
                before[row + count * exchange.needed_later + exchange.needed_task].add(row + number)
    for chain in instance.chains:
        before[count + chain[0]].add(chain[-1])
    order = tuple(TopologicalSorter(before).static_order())
    return max(_longest_from(chain[0], chain[0] + count, order, before, durations) for chain in instance.chains)


def _longest_from(
    origin: int, goal: int, order: Iterable[int], before: Mapping[int, set[int]], durations: Sequence[float]
) -> float:
    """Length of the longest path from the start of one node to that of another."""
    count = len(durations)
    start = dict.fromkeys(order, -np.inf)
    start[origin] = 0.0
    for node in order:
        for other in before[node]:
            start[node] = max(start[node], start[other] + durations[other % count])
    return float(start[goal])


def _groups(instance: Instance) -> tuple[list[ExchangeGroup], list[int]]:
    """The groups, and which of them each tensor belongs to."""
    group_of = [(exchange.kind, exchange.span) for exchange in instance.exchanges]
    groups = list(dict.fromkeys(group_of))
    return groups, [groups.index(group) for group in group_of]


def _time(instance: Instance, held: Mapping[ExchangeGroup, int], measure: WindowMeasure) -> float:
    """Least picoseconds for the bytes of some groups on an idle network.

    Launches of a group may have more than `MAX_CHUNKS` chunks together; of all bounds only the one of a single chunk
    depends on it, and that is far below the load of so many.
    """
    dimensions = list(instance.fabric.dimensions)
    if measure == "bare":
        dimensions = [dimension.replace(latency=0, launch_overhead=0) for dimension in dimensions]
    elif measure == "load" and instance.latency == "lag":
        dimensions = [dimension.replace(latency=0) for dimension in dimensions]
    used = sorted({k for _, span in held for k in span})
    names = instance.fabric.dimension_names
    dimensions = [dimensions[k].replace(name=names[k]) for k in used]
    collectives = tuple(
        Collective(
            name=f"group{number}",
            kind=kind,
            size=size,
            chunks=min(size, MAX_CHUNKS),
            dimensions=tuple(names[k] for k in span),
            element_bytes=1,
        )
        for number, ((kind, span), size) in enumerate(held.items())
    )
    network = Network(dimensions=tuple(dimensions))
    problem = Instance(network=network, collectives=collectives, latency=instance.latency)
    return MAKESPAN_BOUNDS[measure if measure in MAKESPAN_BOUNDS else "fluid"].compute(problem)


PERIOD_BOUNDS: Mapping[str, Bound] = MappingProxyType(
    {
        "compute": Bound(compute, False, "tasks one after the other"),
        "communication": Bound(communication, False, "what the busiest dimension has to carry in one period"),
        "ideal": Bound(ideal, False, "longest path of compute and of exchanges at full bandwidth"),
        "critical_path": Bound(critical_path, False, "the same, with latency and the first and last step of exchanges"),
        "cut": Bound(cut, False, "compute, or bytes between groups of NPUs over their links", any_algorithm=True),
    }
)
"""The bounds on the iteration time by name."""

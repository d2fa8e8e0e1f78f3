"""When the actions of a plan run."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count
from pathlib import Path

import numpy as np

from themis_opt.base.errors import CyclicPlan
from themis_opt.base.units import format_short_time
from themis_opt.pipelines.problem import TRANSFERS, Action, ActionKind, Pipeline, StageOrders
from themis_opt.schedules.kernel import Operations, start_times, waiting_operations
from themis_opt.schedules.timed import TimedOperations

Times = dict[Action, int]
BACKWARD_HALVES = (ActionKind.INPUTS, ActionKind.WEIGHTS)


@dataclass(frozen=True)
class PipelineSchedule:
    """Start times of a plan, in picoseconds."""

    pipeline: Pipeline
    orders: StageOrders
    start: Times

    @property
    def problem(self) -> Pipeline:
        """The pipeline."""
        return self.pipeline

    def save(self, path: str | Path) -> None:
        """Write the schedule to a file, which :func:`themis_opt.load` reads.

        Raises InputError if the file cannot be written.
        """
        from themis_opt.pipelines.files import write_schedule

        write_schedule(Path(path), self)

    def __repr__(self) -> str:
        what = f"{len(self.start)} actions of {self.pipeline.name or 'a pipeline'}"
        return f"<Schedule of {what}: {format_short_time(self.makespan)}>"

    @cached_property
    def timed(self) -> TimedOperations:
        """The operations of the schedule, messages after actions: these leave as soon as their link is free."""
        actions, operations = lower(self.pipeline, self.orders)
        start = [self.start[action] for action in actions]
        giver = {
            int(successor): number
            for number in range(len(actions))
            for successor in operations.successor[slice(*operations.successor_start[number : number + 2])]
        }
        free = Counter[int]()
        labels = [name_of(action) for action in actions]
        for number in range(len(actions), len(operations.resource)):
            link = int(operations.resource[number])
            start.append(max(free[link], self.end(actions[giver[number]])))
            free[link] = start[-1] + self.pipeline.message
            labels.append(f"message of {labels[giver[number]]}")
        return TimedOperations(
            operations, np.array(start, dtype=np.int64), labels.__getitem__, resource_names(self.pipeline)
        )

    def end(self, action: Action) -> int:
        """When an action has ended."""
        return self.start[action] + self.pipeline.duration(action.kind, action.part)

    @cached_property
    def result(self) -> Times:
        """When the result of each action is there; that of a whole backward pass counts for both halves."""
        ends = {action: self.end(action) for action in self.start}
        return ends | {half: end for action, end in ends.items() for half in halves(action)}

    @cached_property
    def period(self) -> int:
        """The longest time of a stage from its first action to its last."""
        return max(max(map(self.end, order)) - min(map(self.start.__getitem__, order)) for order in self.orders)

    @cached_property
    def makespan(self) -> int:
        """When all stages have ended."""
        return max(map(self.end, self.start))

    @property
    def value(self) -> int:
        """What the objective of the pipeline asks for."""
        return self.period if self.pipeline.objective == "period" else self.makespan

    def bubble(self) -> float:
        """The share of the value in which the busiest stage waits."""
        work = max(map(self.pipeline.work, range(self.pipeline.stages)))
        return 1 - work / self.value

    @cached_property
    def communication(self) -> float:
        """The share of the value that the same orders save where links take no time; other waits are bubble."""
        pipeline = self.pipeline
        if not pipeline.message and not self.offloads:
            return 0.0
        free = pipeline.replace(message=0, offload=None if pipeline.offload is None else 0)
        return 1 - simulate(free, self.orders).value / self.value

    @cached_property
    def offloads(self) -> int:
        """Activations that go to the host and back."""
        return sum(action.kind is ActionKind.OFFLOAD for action in self.start)

    def peaks(self) -> tuple[int, ...]:
        """The most bytes that each stage keeps."""
        return tuple(max(held) for held in map(self.pipeline.held, self.orders))


def lower(pipeline: Pipeline, orders: StageOrders) -> tuple[list[Action], Operations]:
    """The plan as the clock sees it: the actions of each stage, and a message for each result that another stage needs.

    Stages and, in each direction, links are resources that serve in an enforced order: messages leave in the order
    of the stage that sends them.  So do activations for the host.

    Returns
    -------
    list of Action
        The actions of the first operations; messages follow.
    Operations
    """
    actions = list(chain.from_iterable(orders))
    links = {link: pipeline.stages + number for number, link in enumerate(sorted(pipeline.links()))}
    to_host = pipeline.stages + len(links)
    resource = [
        to_host + 2 * stage + TRANSFERS.index(action.kind) if action.kind in TRANSFERS else stage
        for stage, order in enumerate(orders)
        for action in order
    ]
    duration = [pipeline.duration(action.kind, action.part) for action in actions]
    source = {half: number for number, action in enumerate(actions) for half in (action, *halves(action))}
    message_of = dict[int, int]()
    for number, action in enumerate(actions):
        for to in {pipeline.stage_of[after.part] for after in pipeline.after(action)} - {resource[number]}:
            message_of[number] = len(resource)
            resource.append(links[resource[number], to])
            duration.append(pipeline.message)
    served, turns = Counter[int](), list[int]()
    for one in resource:
        turns.append(served[one])
        served[one] += 1
    edges = list(message_of.items())
    for number, action in enumerate(actions):
        need = pipeline.before(action)
        if need is not None:
            giver = source.get(need, number)  # an action whose input nobody makes waits for itself for ever
            stays = action.kind in (ActionKind.WEIGHTS, *TRANSFERS)
            edges.append((giver if stays else message_of.get(giver, giver), number))
        load = source.get(action._replace(kind=ActionKind.LOAD))
        if load is not None and action.kind in (ActionKind.BACKWARD, ActionKind.INPUTS):
            edges.append((load, number))
    edges += _waits_for_host(orders)
    enforced = np.ones(len(resource_names(pipeline)), dtype=np.bool_)
    held, durations = np.array(resource, dtype=np.int64), np.array(duration, dtype=np.int64)
    return actions, waiting_operations(edges, held, durations, 0 * held, np.array(turns, dtype=np.float64), enforced)


def _waits_for_host(orders: StageOrders) -> Iterator[tuple[int, int]]:
    """Actions wait for activations to leave that stand before them in the order, and those that return for actions."""
    numbers = count()
    for order in orders:
        leaving, last = list[int](), None
        for action, number in zip(order, numbers, strict=False):
            if action.kind is ActionKind.OFFLOAD:
                leaving.append(number)
                continue
            yield from ((left, number) for left in leaving)
            if action.kind is not ActionKind.LOAD:
                leaving, last = [], number
            elif last is not None:
                yield last, number


def resource_names(pipeline: Pipeline) -> list[str]:
    """Names of the stages, of the links behind them, and of those to hosts."""
    links = [f"stage {one} > stage {other}" for one, other in sorted(pipeline.links())]
    hosts = [name for s in range(pipeline.stages) for name in (f"stage {s} > host", f"host > stage {s}")]
    hosts = [] if pipeline.offload is None else hosts
    return [*(f"stage {number}" for number in range(pipeline.stages)), *links, *hosts]


def simulate(pipeline: Pipeline, orders: StageOrders) -> PipelineSchedule:
    """Run every action as soon as its order and its input allow.

    Raises CyclicPlan if actions wait for each other.
    """
    actions, operations = lower(pipeline, orders)
    start = dict(zip(actions, start_times(operations).tolist(), strict=False))
    stuck = [action for action, time in start.items() if time < 0]
    if stuck:
        raise CyclicPlan(f"actions wait for each other: {name_of(stuck[0])} never runs")
    return PipelineSchedule(pipeline, orders, start)


def halves(action: Action) -> tuple[Action, ...]:
    """What a whole backward pass stands for; nothing more for other actions."""
    if action.kind is not ActionKind.BACKWARD:
        return ()
    return tuple(action._replace(kind=half) for half in BACKWARD_HALVES)


def steps_of(pipeline: Pipeline, action: Action) -> tuple[Action, ...]:
    """The halves of a whole backward pass where these may run apart, else the action itself."""
    return (halves(action) if pipeline.split else ()) or (action,)


def name_of(action: Action) -> str:
    """An action in words."""
    return f"{action.kind}{action.microbatch} of part {action.part}"

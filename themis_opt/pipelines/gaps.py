"""Orders that fill the gaps of others: stages that wait for a message run what they would have run later.

Forward passes and gradients of inputs stay in their order, which keeps its steady state.  Where the next one is not
there yet, a stage runs gradients of weights that it put off, or else the next forward pass of its first part, if all
passes before it still have memory.  So memory that an order leaves idle hides messages while a pipeline fills and
drains.
"""

import math
from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush

from themis_opt.pipelines.problem import Action, ActionKind, Pipeline, StageOrders
from themis_opt.pipelines.schedule import PipelineSchedule, simulate, steps_of

PATIENCES = (0, 1, 2, 4)  # messages for which a stage waits rather than to run another pass


def filled(pipeline: Pipeline, orders: StageOrders) -> Iterator[PipelineSchedule]:
    """The orders with gaps filled that are longer than some messages."""
    for messages in PATIENCES[: None if pipeline.message else 1]:
        yield simulate(pipeline, fill_gaps(pipeline, orders, messages * pipeline.message))


def fill_gaps(pipeline: Pipeline, orders: StageOrders, patience: int) -> StageOrders:
    """The orders, which fit into the memory, with gaps filled that are longer than a patience in picoseconds."""
    stages = [_StageOrder(pipeline, number, order) for number, order in enumerate(orders)]
    arrival = {Action(ActionKind.FORWARD, 0, i): 0 for i in range(pipeline.microbatches)}
    following = [stage.next_pass(arrival, patience) for stage in stages]
    heap = sorted((pair[0], number, pair[1]) for number, pair in enumerate(following) if pair)
    while heap:
        begin, number, action = heappop(heap)
        if following[number] != (begin, action):
            continue
        end, changed = stages[number].run(begin, action), {number}
        for after in pipeline.after(action):
            to = pipeline.stage_of[after.part]
            arrival[after] = end + (pipeline.message if to != number else 0)
            changed.add(to)
        for other in changed:
            following[other] = pair = stages[other].next_pass(arrival, patience)
            if pair is not None:
                heappush(heap, (pair[0], other, pair[1]))
    return tuple(tuple(stage.order) for stage in stages)


class _StageOrder:
    """What a stage has to run, gradients of weights that it can run, its order so far, and the time and memory then."""

    def __init__(self, pipeline: Pipeline, number: int, order: tuple[Action, ...]) -> None:
        self._pipeline, self._first = pipeline, pipeline.parts_of[number][0]
        self._memory = math.inf if pipeline.memory is None else pipeline.memory
        steps = (step for action in order for step in steps_of(pipeline, action))
        self._passes = deque(step for step in steps if step.kind is not ActionKind.WEIGHTS)
        self._weights, self.order = deque[Action](), list[Action]()
        self._free = self._held = 0

    def next_pass(self, arrival: dict[Action, int], patience: int) -> tuple[int, Action] | None:
        """What runs next, and when; None while that is not known."""
        begin, action = None, self._passes[0] if self._passes else None
        if (
            action
            and action in arrival
            and self._held + max(self._pipeline.change_of_memory(action.kind), 0) <= self._memory
        ):
            begin = max(arrival[action], self._free)
        if begin is None or begin > self._free + patience:
            if self._weights:
                return self._free, self._weights[0]
            early = self._early()
            if early is not None and arrival.get(early, self._free + 1) <= self._free:
                return self._free, early
        return None if begin is None or action is None else (begin, action)

    def run(self, begin: int, action: Action) -> int:
        """Run a pass; when it ends."""
        (self._weights if action.kind is ActionKind.WEIGHTS else self._passes).remove(action)
        if action.kind is ActionKind.INPUTS:
            self._weights.append(action._replace(kind=ActionKind.WEIGHTS))
        self.order.append(action)
        self._held += self._pipeline.change_of_memory(action.kind)
        self._free = begin + self._pipeline.duration(action.kind, action.part)
        return self._free

    def _early(self) -> Action | None:
        """The next forward pass of the first part, if it and all passes before it have memory."""
        activation = self._pipeline.activation
        held = self._held + activation
        for action in self._passes:
            if held > self._memory:
                return None
            if action.kind is ActionKind.FORWARD and action.part == self._first:
                return action
            held += activation if action.kind is ActionKind.FORWARD else -activation
        return None

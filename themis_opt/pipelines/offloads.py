"""Which activations go to the host and back, for orders that keep more than fits into the memory.

Activations in memory are pages: where the next action of a stage has no room, those leave whose backward pass comes
last (L. A. Belady, IBM Systems Journal 5, 1966).  The most recent ones may be spared, since their transfer has hardly
begun.  Activations come back as early as there is room.
"""

from collections.abc import Sequence

from themis_opt.base.errors import InvalidSchedule
from themis_opt.pipelines.problem import Action, ActionKind, Pipeline, StageOrders


def with_offloads(pipeline: Pipeline, orders: StageOrders, spared: int = 0) -> StageOrders:
    """The same passes with the transfers to the host and back with which each stage keeps no more than its memory.

    `spared`: forward passes of a stage, the most recent ones, whose activations stay if others can leave.

    Raises InvalidSchedule if gradients alone exceed the memory, or the pipeline has no link to hosts.
    """
    if pipeline.memory is None:
        return orders
    return tuple(_earlier(pipeline, _with_transfers(pipeline, order, spared)) for order in orders)


def _with_transfers(pipeline: Pipeline, order: Sequence[Action], spared: int) -> list[Action]:
    """Transfers right before the actions that need them."""
    memory = max((pipeline.memory or 0) - spared * pipeline.activation, pipeline.parts * pipeline.activation)
    is_backward = {kind: kind in (ActionKind.INPUTS, ActionKind.BACKWARD) for kind in ActionKind}
    due = {action[1:]: place for place, action in enumerate(order) if is_backward[action.kind]}
    result, here, away, held = list[Action](), list[tuple[int, int]](), set[tuple[int, int]](), 0
    late, early = list[Action](), set[Action]()  # gradients of weights that can run, and those that had to
    for action in order:
        place = action[1:]
        if action in early:
            continue
        loads = place in away and is_backward[action.kind]
        needed = pipeline.activation if loads or action.kind is ActionKind.FORWARD else 0
        while held + needed > memory:
            if not here and late and pipeline.offload is not None:
                early.add(late[0])
                held += pipeline.change_of_memory(ActionKind.WEIGHTS)
                result.append(late.pop(0))
                continue
            if not here or pipeline.offload is None:
                raise InvalidSchedule("memory", f"a stage keeps {held + needed} of {memory} bytes")
            leaving = max(here[: len(here) - spared] or here, key=due.__getitem__)
            here.remove(leaving)
            away.add(leaving)
            held -= pipeline.activation
            result.append(Action(ActionKind.OFFLOAD, *leaving))
        if loads:
            result.append(Action(ActionKind.LOAD, *place))
            held += pipeline.activation
        elif is_backward[action.kind]:
            here.remove(place)
        elif action.kind is ActionKind.FORWARD:
            here.append(place)
        elif action in late:
            late.remove(action)
        if action.kind is ActionKind.INPUTS:
            late.append(action._replace(kind=ActionKind.WEIGHTS))
        held += pipeline.change_of_memory(action.kind)
        result.append(action)
    return result


def _earlier(pipeline: Pipeline, order: list[Action]) -> tuple[Action, ...]:
    """Activations come back earlier, one after the other, as long as there is room and they have left."""
    memory, during = pipeline.memory or 0, pipeline.held(order)
    for number, action in enumerate(order):
        place = number
        while action.kind is ActionKind.LOAD and place:
            before = order[place - 1]
            left = (Action(kind, *action[1:]) for kind in (ActionKind.OFFLOAD, ActionKind.FORWARD))
            if before in left or before.kind is ActionKind.LOAD:
                break
            if during[place - 1] + pipeline.activation > memory:
                break
            order[place], during[place] = before, during[place - 1] + pipeline.activation
            place -= 1
        order[place] = action
    return tuple(order)

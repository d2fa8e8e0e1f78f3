"""The file that ``torch.distributed.pipelining`` loads as a compute-only schedule, and how long it takes there.

Each part of the model is a stage of PyTorch, and each stage a rank with a row of actions.  A whole backward pass,
``B``, is one call of autograd: PyTorch sends its gradient after all of it.  So a gradient of weights right behind its
gradient of inputs is joined with it only where the stage before does not wait for the gradient of inputs.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from themis_opt.base.documents import write_atomically
from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.pipelines.files import text_of
from themis_opt.pipelines.problem import Action, ActionKind, Pipeline
from themis_opt.pipelines.schedule import PipelineSchedule

TORCH = "torch-pipeline"  # its name among the formats of exports

Rows = Sequence[Sequence[Action]]


def write_torch_csv(path: Path, schedule: PipelineSchedule) -> None:
    """Write a row of actions for each rank."""
    rows = [",".join(map(text_of, row)) for row in torch_rows(schedule)]
    write_atomically(path, "\r\n".join(rows) + "\r\n")


def torch_rows(schedule: PipelineSchedule) -> list[list[Action]]:
    """The actions of each rank; halves of backward passes are joined where nothing is later for it.

    Raises InputError if activations go to the host, for which PyTorch's schedules have no action.
    """
    if schedule.offloads:
        raise InputError("cannot send activations to the host; leave out 'offload'", field="--to", value=TORCH)
    return [list(_joined(schedule, order)) for order in schedule.orders]


def _joined(schedule: PipelineSchedule, order: Sequence[Action]) -> Iterator[Action]:
    rest = iter(order)
    action = next(rest, None)
    while action is not None:
        following = next(rest, None)
        if following == action._replace(kind=ActionKind.WEIGHTS) != action and _may_join(schedule, action):
            action, following = action._replace(kind=ActionKind.BACKWARD), next(rest, None)
        yield action
        action = following


def _may_join(schedule: PipelineSchedule, inputs: Action) -> bool:
    """Whether the gradient of inputs may leave after that of weights without making anything later."""
    pipeline = schedule.pipeline
    waiting = [action for action in pipeline.after(inputs) if action.kind is not ActionKind.WEIGHTS]
    if not waiting:
        return True
    hop = pipeline.hop(inputs.part - 1)
    there = schedule.start[inputs] + pipeline.duration(ActionKind.BACKWARD, inputs.part) + hop
    queues = pipeline.messages_queue and hop > 0  # a later message may hold up others
    return not queues and all(schedule.start[action] >= there for action in waiting)


def replay(pipeline: Pipeline, rows: Rows) -> int:
    """Picoseconds that ranks take which run their rows as soon as they can, by the rules of PyTorch.

    Raises InvalidSchedule if ranks wait for each other.
    """
    place, free = [0] * len(rows), [0] * len(rows)
    there: dict[Action, int] = {}  # when the result of an action is where it is needed
    links: dict[tuple[int, int], int] = {}
    is_moving = True
    while is_moving:
        is_moving = False
        for rank, row in enumerate(rows):
            while place[rank] < len(row):
                action = row[place[rank]]
                halves = {ActionKind.BACKWARD: ActionKind.INPUTS} if pipeline.split else {}
                name = action._replace(kind=halves.get(action.kind, action.kind))
                needed = None if action.kind is ActionKind.WEIGHTS else pipeline.before(name)
                if needed is not None and needed.kind in (ActionKind.INPUTS, ActionKind.BACKWARD):
                    needed = needed._replace(kind=pipeline.kinds[1])
                if needed is not None and needed not in there:
                    break
                begin = max(free[rank], 0 if needed is None else there[needed])
                free[rank] = begin + pipeline.duration(action.kind, action.part)
                there[name] = _arrival(pipeline, name, free[rank], links)
                place[rank], is_moving = place[rank] + 1, True
    if any(done < len(row) for done, row in zip(place, rows, strict=True)):
        raise InvalidSchedule("order", "ranks wait for each other")
    return max(free)


def _arrival(pipeline: Pipeline, action: Action, ready: int, links: dict[tuple[int, int], int]) -> int:
    """When the result of an action is there: a link sends one message at a time."""
    other = action.part + (1 if action.kind is ActionKind.FORWARD else -1)
    if action.kind is ActionKind.WEIGHTS or not 0 <= other < pipeline.num_parts:
        return ready
    ends = pipeline.stage_of[action.part], pipeline.stage_of[other]
    if ends[0] == ends[1]:
        return ready
    links[ends] = max(ready, links.get(ends, 0)) + pipeline.message
    return links[ends]

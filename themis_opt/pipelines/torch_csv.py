"""The file that ``torch.distributed.pipelining`` loads as a compute-only schedule.

Each part of the model is a stage of PyTorch, and each stage a rank with a row of actions.  A whole backward pass,
``B``, is one call of autograd: PyTorch sends its gradient after all of it.  So a gradient of weights right behind its
gradient of inputs is joined with it only where the stage before does not wait for the gradient of inputs.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from themis_opt.base.documents import write_atomically
from themis_opt.base.errors import InputError
from themis_opt.pipelines.files import text_of
from themis_opt.pipelines.problem import Action, ActionKind, StageOrders
from themis_opt.pipelines.schedule import PipelineSchedule

TORCH = "torch-pipeline"  # its name among the formats of exports


def write_torch_csv(path: Path, schedule: PipelineSchedule) -> None:
    """Write a row of actions for each rank."""
    rows = [",".join(map(text_of, row)) for row in torch_rows(schedule)]
    write_atomically(path, "\r\n".join(rows) + "\r\n")


def torch_rows(schedule: PipelineSchedule) -> StageOrders:
    """The actions of each rank; halves of backward passes are joined where nothing is later for it.

    Ranks that run them as soon as they can take what :func:`themis_opt.pipelines.schedule.simulate` says of them.

    Raises InputError if activations go to the host, for which PyTorch's schedules have no action.
    """
    if schedule.offloads:
        raise InputError("cannot send activations to the host; leave out 'offload'", field="--to", value=TORCH)
    return tuple(tuple(_joined(schedule, order)) for order in schedule.orders)


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

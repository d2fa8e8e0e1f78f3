"""What launching policies share: buckets of tensors, and launches made of them."""

from collections.abc import Iterable, Sequence

from themis_opt.iteration_instance import IterationInstance
from themis_opt.iterations.plan import Launch, TaskOf

Bucket = tuple[int, ...]


def fusible(instance: IterationInstance) -> list[Bucket]:
    """Data-parallel tensors needed in the next iteration, in one bucket per kind, span and element.

    Others are left out.  Within a bucket they stand in the order they become ready.
    """
    groups: dict[object, list[int]] = {}
    for number, tensor in enumerate(instance.iteration.tensors):
        if tensor.parallelism == "data" and instance.needed_later[number]:
            key = (tensor.kind, instance.spans[number], tensor.element_bytes)
            groups.setdefault(key, []).append(number)
    return [tuple(sorted(own, key=lambda t: (instance.ready_task[t], t))) for own in groups.values()]


def launches_alone(instance: IterationInstance) -> list[Launch]:
    """One launch for each tensor that is not fusible: model-parallel ones, and those needed in the same iteration."""
    fused = {tensor for bucket in fusible(instance) for tensor in bucket}
    rest = [number for number in range(len(instance.iteration.tensors)) if number not in fused]
    return [whole(instance, (number,)) for number in rest]


def capped(instance: IterationInstance, tensors: Iterable[int], cap: int, first_cap: int | None = None) -> list[Bucket]:
    """Tensors in buckets, in the order given; a bucket is closed once it holds `cap` bytes, the first `first_cap`."""
    buckets: list[Bucket] = []
    held: list[int] = []
    size = 0
    for tensor in tensors:
        held.append(tensor)
        size += instance.iteration.tensors[tensor].size
        if size >= (first_cap if first_cap is not None and not buckets else cap):
            buckets.append(tuple(held))
            held, size = [], 0
    return [*buckets, tuple(held)] if held else buckets


def whole(
    instance: IterationInstance, tensors: Sequence[int], *, ready: int | None = None, before: TaskOf | None = None
) -> Launch:
    """One launch for some tensors, released by the task that makes the last of them, or by task `ready`.

    The first task that needs one of them waits for it, unless `before` says which.
    """
    own = instance.iteration.tensors
    return Launch(
        name="+".join(dict.fromkeys((own[tensors[0]].name, own[tensors[-1]].name))),
        kind=own[tensors[0]].kind,
        tensors=tuple(tensors),
        after=TaskOf(max(instance.ready_task[t] for t in tensors) if ready is None else ready, 0),
        before=before or first_need(instance, tensors),
    )


def first_need(instance: IterationInstance, tensors: Sequence[int]) -> TaskOf:
    """The first task that needs one of some tensors."""
    later, task = min((instance.needed_later[t], instance.needed_task[t]) for t in tensors)
    return TaskOf(task, later)


NEXT_ITERATION = TaskOf(0, 1)
"""The first task of the next iteration: what waits for it ends the iteration."""

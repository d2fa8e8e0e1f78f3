"""Whether a schedule obeys the rules of its pipeline, from the rules alone."""

from collections.abc import Sequence
from itertools import accumulate, pairwise

from themis_opt.base.errors import InvalidSchedule
from themis_opt.pipelines.problem import TRANSFERS, Action, ActionKind
from themis_opt.pipelines.schedule import BACKWARD_HALVES, PipelineSchedule, halves, name_of


def validate(schedule: PipelineSchedule) -> None:
    """Check a schedule against the rules, whatever made it.

    Raises InvalidSchedule if an action is missing, comes before its input, shares a stage or a link, or exceeds the
    memory.
    """
    pipeline = schedule.pipeline
    for stage, order in enumerate(schedule.orders):
        if not pipeline.split and any(action.kind in BACKWARD_HALVES for action in order):
            raise InvalidSchedule("actions", f"stage {stage} runs half of a backward pass, which is one action here")
        passes = [action for action in order if action.kind not in TRANSFERS]
        done = [half for action in passes for half in (halves(action) or [action])]
        if sorted(done) != sorted(half for a in pipeline.actions_of(stage) for half in (halves(a) or [a])):
            raise InvalidSchedule("actions", f"stage {stage} does not run each of its actions once")
        out, back = ([action for action in order if action.kind is kind] for kind in TRANSFERS)
        _check_transfers(schedule, out, back)
        for row in (passes, out, back):
            for one, following in pairwise(row):
                if schedule.start[following] < schedule.end(one):
                    raise InvalidSchedule("stage", f"{name_of(following)} begins before {name_of(one)} has ended")
        kept = _kept(schedule, order)
        if pipeline.memory is not None and kept > pipeline.memory:
            raise InvalidSchedule("memory", f"a stage keeps {kept} of {pipeline.memory} bytes")
    _check_inputs(schedule)


def _check_transfers(schedule: PipelineSchedule, out: list[Action], back: list[Action]) -> None:
    """What goes to the host comes back once, before its backward pass."""
    places = [sorted(action[1:] for action in row) for row in (out, back)]
    if places[0] != places[1] or len(set(places[0])) < len(places[0]):
        raise InvalidSchedule("host", "activations that go to the host have to come back once")
    if out and schedule.pipeline.offload is None:
        raise InvalidSchedule("host", f"{name_of(out[0])} has no time in this pipeline")
    for action in back:
        whole, half = (action._replace(kind=kind) for kind in (ActionKind.BACKWARD, ActionKind.INPUTS))
        if schedule.start[whole if whole in schedule.start else half] < schedule.end(action):
            raise InvalidSchedule("host", f"the backward pass begins before {name_of(action)} has ended")


def _kept(schedule: PipelineSchedule, order: Sequence[Action]) -> int:
    """The most bytes that a stage keeps: an action takes them when it begins, and gives them back when it ends."""
    changes = []
    for action in order:
        change = schedule.pipeline.change_of_memory(action.kind)
        changes.append((schedule.start[action] if change > 0 else schedule.end(action), change))
    return max(accumulate(change for _, change in sorted(changes)))


def _check_inputs(schedule: PipelineSchedule) -> None:
    """Inputs arrive in time, although each link carries one message after the other, as they are ready."""
    pipeline = schedule.pipeline
    messages: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for action, start in schedule.start.items():
        before = pipeline.before(action)
        if before is None:
            continue
        link = (pipeline.stage_of[before.part], pipeline.stage_of[action.part])
        hop = pipeline.message if link[0] != link[1] else 0
        if start < schedule.result[before] + hop:
            raise InvalidSchedule("input", f"{name_of(action)} begins before the result of {name_of(before)} is there")
        if hop:
            messages.setdefault(link, []).append((schedule.result[before], start))
    for link, windows in messages.items():
        now = 0
        for ready, due in sorted(windows):
            now = max(now, ready) + pipeline.message
            if now > due:
                raise InvalidSchedule("link", f"stage {link[0]} sends two messages to stage {link[1]} at once")

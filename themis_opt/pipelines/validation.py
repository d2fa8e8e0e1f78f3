"""Whether a schedule obeys the rules of its pipeline, from the rules alone."""

from itertools import pairwise

from themis_opt.base.errors import InvalidSchedule
from themis_opt.pipelines.schedule import BACKWARD_HALVES, PipelineSchedule, halves, name_of


def validate(schedule: PipelineSchedule) -> None:
    """Check a schedule against the rules, whatever made it.

    Raises
    ------
    InvalidSchedule
        If an action is missing, comes before its input, shares a stage or a link, or exceeds the memory.
    """
    pipeline = schedule.pipeline
    for stage, order in enumerate(schedule.orders):
        if not pipeline.split and any(action.kind in BACKWARD_HALVES for action in order):
            raise InvalidSchedule("actions", f"stage {stage} runs half of a backward pass, which is one action here")
        done = [half for action in order for half in (halves(action) or [action])]
        if sorted(done) != sorted(half for a in pipeline.actions_of(stage) for half in (halves(a) or [a])):
            raise InvalidSchedule("actions", f"stage {stage} does not run each of its actions once")
        for one, following in pairwise(order):
            if schedule.start[following] < schedule.end(one):
                raise InvalidSchedule("stage", f"{name_of(following)} begins before {name_of(one)} has ended")
    _check_inputs(schedule)
    if pipeline.memory is not None and max(schedule.peaks()) > pipeline.memory:
        raise InvalidSchedule("memory", f"a stage keeps {max(schedule.peaks())} of {pipeline.memory} bytes")


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

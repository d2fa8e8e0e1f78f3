"""The order in which stages of a pipeline run the passes of microbatches.

``gpipe`` runs all forward passes of a stage and then the backward ones (Y. Huang et al.,
https://arxiv.org/abs/1811.06965).  ``1f1b`` runs one backward pass after every forward pass as soon as it can
(D. Narayanan et al., https://arxiv.org/abs/2104.04473, section 2.2); where a stage has several parts of the model, it
runs each of them for as many microbatches as there are stages in turn, the interleaved schedule of that section.  With
``v`` the second half of the parts runs back through the stages, in the order of P. Qi et al.
(https://arxiv.org/abs/2405.15362), whose stages keep no more than those of 1F1B.  ``dualpipe`` is 1F1B with twice as
many forward passes ahead, so that what a pass exchanges hides behind the pass of another microbatch (DeepSeek-AI,
https://arxiv.org/abs/2412.19437, section 3.2.1, of whose two directions this is one).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeVar, get_args

from themis_opt.base.errors import InputError, check_choice

MicrobatchSchedule = Literal["gpipe", "1f1b", "v", "dualpipe"]


Turn = TypeVar("Turn")


class MicrobatchPass(NamedTuple):
    """A microbatch that goes through a part of the model, both counted from 0."""

    part: int
    microbatch: int
    backward: bool


def stage_of_parts(stages: int, parts: int, schedule: MicrobatchSchedule) -> list[int]:
    """The stage of each part, of which every stage has as many."""
    there = list(range(stages))
    return there + there[::-1] if schedule == "v" else there * parts


def check_order(stages: int, parts: int, microbatches: int, schedule: str) -> None:
    """Refuse orders that there are not. Raises InputError with the option that says so."""
    check_choice(schedule, get_args(MicrobatchSchedule), "--schedule")
    if schedule == "v" and parts != 2:
        raise InputError("must be 2 with --schedule v", field="--virtual-stages", value=parts)
    if schedule == "dualpipe" and parts != 1:
        raise InputError("must be 1 with --schedule dualpipe", field="--virtual-stages", value=parts)
    if schedule == "1f1b" and parts > 1 and microbatches % stages:
        rule = f"must be a multiple of the {stages} stages with --virtual-stages and 1f1b"
        raise InputError(rule, field="--microbatches", value=microbatches)


def passes_by_stage(
    stages: int, parts: int, microbatches: int, schedule: MicrobatchSchedule
) -> list[list[MicrobatchPass]]:
    """What each stage runs, in its order."""
    if schedule == "v":
        return list(_in_a_v(stages, microbatches))
    return [list(_of_stage(stage, stages, parts, microbatches, schedule)) for stage in range(stages)]


def _of_stage(
    stage: int, stages: int, parts: int, microbatches: int, schedule: MicrobatchSchedule
) -> Iterator[MicrobatchPass]:
    group = stages if schedule == "1f1b" and parts > 1 else microbatches
    visits = [
        (turn, first + place)
        for first in range(0, microbatches, group)
        for turn in range(parts)
        for place in range(group)
    ]
    ahead = len(visits)
    if schedule == "1f1b":
        ahead = stages - stage - 1 if parts == 1 else 2 * (stages - stage - 1) + (parts - 1) * stages
    elif schedule == "dualpipe":
        ahead = 2 * (stages - stage - 1) + 1
    forward = [MicrobatchPass(stage + turn * stages, i, False) for turn, i in visits]
    backward = [MicrobatchPass(stage + (parts - 1 - turn) * stages, i, True) for turn, i in visits]
    yield from in_turn(forward, backward, ahead)


def in_turn(forward: Sequence[Turn], backward: Sequence[Turn], ahead: int) -> Iterator[Turn]:
    """Some forward passes, then one more and one backward in turn, then what is left."""
    yield from forward[:ahead]
    for number, one in enumerate(backward):
        yield from forward[ahead + number : ahead + number + 1]
        yield one


def _in_a_v(stages: int, microbatches: int) -> Iterator[list[MicrobatchPass]]:
    """Passes by stage, each backward pass as a whole."""
    for stage in range(stages):
        parts, steps = (stage, 2 * stages - 1 - stage), numbered(v_steps(stage, stages, microbatches), microbatches)
        yield [MicrobatchPass(parts[turn], i, kind == "I") for kind, turn, i in steps if kind != "W"]


def v_steps(stage: int, stages: int, microbatches: int) -> Iterator[tuple[str, int]]:
    """Forward passes (F) and both halves of backward ones (I, W) of a stage, and whether down (0) or up the V (1)."""
    behind, microbatches = stages - stage, max(microbatches, 2 * stages - 1)
    down, up = ((("I", turn), ("W", turn)) for turn in (0, 1))
    yield from [("F", 0)] * (2 * behind - 1)
    yield from [("F", 1), ("F", 0)] * stage
    yield from [("F", 1), *up] * behind
    for number in range(stages, microbatches):
        if number + behind <= microbatches:
            yield "F", 0
        yield from (*down, ("F", 1), *up)
    yield from [("I", 0), ("I", 1)] * stage
    yield from down * behind
    yield from [("W", 1), ("W", 0)] * stage


def numbered(steps: Iterable[tuple[str, int]], microbatches: int) -> Iterator[tuple[str, int, int]]:
    """The i-th of equal steps is that of microbatch i; those that a short pipeline needs to fill are left out."""
    counts = Counter[tuple[str, int]]()
    for step in steps:
        if counts[step] < microbatches:
            yield *step, counts[step]
        counts[step] += 1


def in_order(
    stages: int, parts: int, microbatches: int, schedule: MicrobatchSchedule
) -> Iterator[tuple[int, MicrobatchPass]]:
    """The stage and the pass of all, each after those that it waits for."""
    waiting = [orders[::-1] for orders in passes_by_stage(stages, parts, microbatches, schedule)]
    done: set[MicrobatchPass] = set()
    while any(waiting):
        for stage, orders in enumerate(waiting):
            while orders and _may_run(orders[-1], stages * parts, done):
                done.add(orders[-1])
                yield stage, orders.pop()


def _may_run(one: MicrobatchPass, parts: int, done: set[MicrobatchPass]) -> bool:
    """Whether the pass of another part that a pass waits for has run."""
    before = one.part + 1 if one.backward else one.part - 1
    return not 0 <= before < parts or one._replace(part=before) in done


def most_kept(orders: Sequence[MicrobatchPass], sizes: Sequence[int]) -> int:
    """The most that a stage keeps of microbatches between their passes, from what each part keeps of one."""
    now = most = 0
    for one in orders:
        now += -sizes[one.part] if one.backward else sizes[one.part]
        most = max(most, now)
    return most

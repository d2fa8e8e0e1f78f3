"""A pipeline as a scheduling problem: parts of a model on stages, microbatches through them, memory for activations."""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, StrictBool, model_validator

from themis_opt.base.documents import digest
from themis_opt.base.units import Bytes, Picoseconds
from themis_opt.problem.fields import MAX_BYTES, Count, FieldError, Model

PIPELINE_FORMAT: Literal["themis-opt/pipeline/1"] = "themis-opt/pipeline/1"

MAX_STAGES, MAX_PARTS_OF_A_STAGE, MAX_MICROBATCHES = 256, 16, 4096
MAX_ACTIONS = 200_000  # actions of all stages: policies plan so many in a few seconds


class ActionKind(StrEnum):
    """What a stage does with a microbatch; the letters are those of PyTorch's files."""

    FORWARD = "F"
    BACKWARD = "B"
    """A whole backward pass."""
    INPUTS = "I"
    """The half of it that the stage before waits for."""
    WEIGHTS = "W"
    """The half that nobody waits for."""
    OFFLOAD = "O"
    """Activations go to the host; actions behind it in an order wait until they have left."""
    LOAD = "L"
    """They come back, from the end of the action before it in an order on."""


TRANSFERS = (ActionKind.OFFLOAD, ActionKind.LOAD)


class Action(NamedTuple):
    """One pass of a microbatch through a part of the model; both are counted from 0."""

    kind: ActionKind
    part: int
    microbatch: int


StageOrders = tuple[tuple[Action, ...], ...]  # per stage its actions in the order in which they run: a plan

Durations = Annotated[tuple[Annotated[Picoseconds, Field(gt=0)], ...], Field(min_length=1)]


class Pipeline(Model):
    """Parts of a model in a row, which microbatches pass forward and then backward.

    Parameters
    ----------
    stages : int
        Groups of NPUs, each of which does one thing at a time.
    parts : int
        Parts of the model on each stage, so that ``stages * parts`` follow each other.
    placement : {"interleaved", "v"}
        Part q lies on stage ``q % stages``, or, with ``"v"``, every other round of parts runs backward through the
        stages, so that neighbouring parts share a stage where it turns.
    microbatches : int
        Parts of the batch.
    forward, inputs, weights : times
        How long a forward pass takes and both halves of a backward pass, for gradients of inputs and of weights; one
        time for all parts, or one for each.
    split : bool
        Whether the halves may run apart; otherwise a backward pass is one action.
    message : time
        Of activations, and of their gradients, from one stage to the next; each direction of a link carries one at a
        time.
    activation : bytes
        What a part keeps of a microbatch from its forward pass until its gradients of inputs are there.
    gradient : bytes
        What it keeps from then on until those of its weights are there; as much as `activation` unless said otherwise.
    memory : bytes, optional
        What each stage can keep.
    offload : time, optional
        Of the activations of a part and a microbatch from a stage to its host, or back; the link carries one at a time
        in each direction.  A plan chooses which leave; without a time none do.
    objective : {"period", "makespan"}
        The longest time that a stage needs from its first action to its last, after which it may begin the next
        iteration, or the time until all stages have ended.

    Examples
    --------
    >>> import themis_opt
    >>> themis_opt.load("p4_m8").stages
    4
    """

    format: Literal["themis-opt/pipeline/1"] = PIPELINE_FORMAT
    name: str = ""
    description: str = ""
    stages: Annotated[Count, Field(ge=2, le=MAX_STAGES)]
    parts: Annotated[Count, Field(ge=1, le=MAX_PARTS_OF_A_STAGE)] = 1
    placement: Literal["interleaved", "v"] = "interleaved"
    microbatches: Annotated[Count, Field(ge=1, le=MAX_MICROBATCHES)]
    forward: Durations
    inputs: Durations
    weights: Durations
    split: StrictBool = True
    message: Annotated[Picoseconds, Field(ge=0)] = 0
    activation: Annotated[Bytes, Field(gt=0, le=MAX_BYTES)] = 1
    gradient: Annotated[Bytes, Field(ge=0, le=MAX_BYTES)] | None = None
    memory: Annotated[Bytes, Field(gt=0, le=MAX_BYTES)] | None = None
    offload: Annotated[Picoseconds, Field(ge=0)] | None = None
    objective: Literal["period", "makespan"] = "period"

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        for name in ("forward", "inputs", "weights"):
            if len(getattr(self, name)) not in (1, self.num_parts):
                raise FieldError(f"must have one time, or one for each of {self.num_parts} parts", name)
        if (self.gradient or 0) > self.activation:
            raise FieldError("must be at most the activation", "gradient")
        if self.num_parts * self.microbatches * len(self.kinds) > MAX_ACTIONS:
            raise FieldError(f"must be at most {MAX_ACTIONS} actions in all", "microbatches")
        if self.memory is not None and self.memory < self.parts * self.activation:
            rule = f"must be at least {self.parts * self.activation} bytes, what a microbatch keeps on a stage"
            raise FieldError(rule, "memory")
        return self

    def __repr__(self) -> str:
        name, parts = self.name or "without a name", f" of {self.parts} parts" if self.parts > 1 else ""
        return f"<Pipeline {name}: {self.stages} stages{parts}, {self.microbatches} microbatches>"

    @property
    def family(self) -> str:
        """The kind of problem: a pipeline."""
        return "pipeline"

    @cached_property
    def fingerprint(self) -> str:
        """Hash of everything that decides which schedules are legal, and how long they take."""
        return digest(self.model_dump(mode="json", exclude={"name", "description"}))

    @property
    def num_parts(self) -> int:
        """Parts of the model, on all stages."""
        return self.stages * self.parts

    @property
    def kinds(self) -> tuple[ActionKind, ...]:
        """What is done with a microbatch on each part, in this order."""
        halves = (ActionKind.INPUTS, ActionKind.WEIGHTS) if self.split else (ActionKind.BACKWARD,)
        return (ActionKind.FORWARD, *halves)

    @cached_property
    def stage_of(self) -> tuple[int, ...]:
        """The stage of each part."""
        rounds = [list(range(self.stages)) for _ in range(self.parts)]
        if self.placement == "v":
            rounds = [stages[::-1] if number % 2 else stages for number, stages in enumerate(rounds)]
        return tuple(stage for stages in rounds for stage in stages)

    @cached_property
    def parts_of(self) -> tuple[tuple[int, ...], ...]:
        """The parts of each stage, in the order of the model."""
        return tuple(tuple(q for q, s in enumerate(self.stage_of) if s == stage) for stage in range(self.stages))

    def duration(self, kind: ActionKind, part: int) -> int:
        """Picoseconds of an action."""
        if kind in TRANSFERS:
            return self.offload or 0
        if kind is ActionKind.BACKWARD:
            return self.duration(ActionKind.INPUTS, part) + self.duration(ActionKind.WEIGHTS, part)
        times = {ActionKind.FORWARD: self.forward, ActionKind.INPUTS: self.inputs, ActionKind.WEIGHTS: self.weights}
        return times[kind][part if len(times[kind]) > 1 else 0]

    def change_of_memory(self, kind: ActionKind) -> int:
        """Bytes that an action takes when it begins, or, below zero, gives back when it ends."""
        kept = self.activation if self.gradient is None else self.gradient
        if kind in (ActionKind.FORWARD, ActionKind.LOAD):
            return self.activation
        return {
            ActionKind.OFFLOAD: -self.activation,
            ActionKind.BACKWARD: -self.activation,
            ActionKind.INPUTS: kept - self.activation,
        }.get(kind, -kept)

    def held(self, order: Iterable[Action]) -> list[int]:
        """Bytes that a stage keeps while each of its actions runs."""
        now, during = 0, []
        for action in order:
            change = self.change_of_memory(action.kind)
            during.append(now + max(change, 0))
            now += change
        return during

    def hop(self, part: int) -> int:
        """Picoseconds of a message between a part and the one after it: none within a stage."""
        return self.message if self.stage_of[part] != self.stage_of[part + 1] else 0

    def before(self, action: Action) -> Action | None:
        """The action whose result another one needs, None for the first of a microbatch.

        A whole backward pass stands under the name of its first half.
        """
        kind, part, microbatch = action
        if kind is ActionKind.WEIGHTS:
            return Action(ActionKind.INPUTS, part, microbatch)
        if kind in TRANSFERS:
            return Action(ActionKind.FORWARD if kind is ActionKind.OFFLOAD else ActionKind.OFFLOAD, part, microbatch)
        if kind is ActionKind.FORWARD:
            return Action(kind, part - 1, microbatch) if part else None
        if part + 1 == self.num_parts:
            return Action(ActionKind.FORWARD, part, microbatch)
        return Action(ActionKind.INPUTS, part + 1, microbatch)

    def after(self, action: Action) -> Iterator[Action]:
        """Actions that need the result of another one, of those that an iteration consists of."""
        kind, part, microbatch = action
        forward, back, *rest = self.kinds
        if kind is forward:
            is_last = part + 1 == self.num_parts
            yield Action(back, part, microbatch) if is_last else Action(forward, part + 1, microbatch)
        elif kind not in (ActionKind.WEIGHTS, *TRANSFERS):
            if kind is back:
                yield from (Action(other, part, microbatch) for other in rest)
            if part:
                yield Action(back, part - 1, microbatch)

    def actions_of(self, stage: int) -> Iterator[Action]:
        """All actions of a stage, by part and microbatch."""
        for part in self.parts_of[stage]:
            for microbatch in range(self.microbatches):
                yield from (Action(kind, part, microbatch) for kind in self.kinds)

    def work(self, stage: int) -> int:
        """Picoseconds of all actions of a stage."""
        times = (self.duration(kind, part) for part in self.parts_of[stage] for kind in self.kinds)
        return self.microbatches * sum(times)

    def round_trip(self, first: int, last: int) -> int:
        """The least time from the start of a forward pass of part `first` to the start of the backward one of `last`.

        `first` is at most `last`; the microbatch goes on to the end of the model and back.
        """
        forward = sum(self.duration(ActionKind.FORWARD, part) for part in range(first, self.num_parts))
        back = sum(self.duration(self.kinds[1], part) for part in range(last + 1, self.num_parts))
        hops = sum(map(self.hop, range(first, self.num_parts - 1))) + sum(
            map(self.hop, range(last, self.num_parts - 1))
        )
        return forward + back + hops

    def begin_alone(self, kind: ActionKind, part: int) -> int:
        """When a microbatch that is alone in the pipeline begins a forward pass, or gradients of inputs."""
        if kind is ActionKind.FORWARD:
            return self.round_trip(0, part) - self.round_trip(part, part)
        return self.round_trip(0, part)

    @cached_property
    def messages_queue(self) -> bool:
        """Whether messages of a link may wait for each other: not if none takes longer than a pass that sends one."""
        passes = (self.duration(kind, part) for kind in self.kinds[:2] for part in range(self.num_parts))
        return self.message > min(passes)

    def links(self) -> set[tuple[int, int]]:
        """Pairs of stages that send to each other, in both directions."""
        pairs = {(one, other) for one, other in pairwise(self.stage_of) if one != other}
        return pairs | {(other, one) for one, other in pairs}

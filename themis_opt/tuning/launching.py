"""What a training iteration launches when, as parameters of a search."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, get_args

from themis_opt.base.units import PICOSECONDS_PER_MICROSECOND, format_size
from themis_opt.policies.launching.common import fusible
from themis_opt.policies.registry import make_policy
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Launch, Order

ParameterValue = int | str

Choice = Mapping[str, ParameterValue]  # values by the names of their parameters


@dataclass(frozen=True)
class TunedParameter:
    """One thing to choose.

    `values`: what it may be; numbers ascend, are positive, and count as near where their ratio is near 1.
    `when`: values of earlier parameters under which it matters; empty if it always does.
    """

    name: str
    values: tuple[ParameterValue, ...]
    when: Mapping[str, tuple[ParameterValue, ...]] = field(default_factory=dict)

    @property
    def is_number(self) -> bool:
        """Whether the values are numbers."""
        return all(isinstance(value, int) for value in self.values)

    def matters(self, choice: Choice) -> bool:
        """Whether it has to be chosen, given what was chosen before."""
        return all(choice.get(name) in values for name, values in self.when.items())

    def nearest(self, value: ParameterValue) -> ParameterValue:
        """The value itself if it is allowed, else the nearest number, or the first text."""
        if value in self.values:
            return value
        if not isinstance(value, int) or not self.is_number:
            return self.values[0]
        return min(self.values, key=lambda v: abs(math.log(int(v) / value)))


def every_choice(parameters: Sequence[TunedParameter]) -> Iterator[dict[str, ParameterValue]]:
    """All combinations of values, without parameters that do not matter."""
    return _completed({}, tuple(parameters))


def _completed(
    choice: dict[str, ParameterValue], parameters: tuple[TunedParameter, ...]
) -> Iterator[dict[str, ParameterValue]]:
    if not parameters:
        yield choice
        return
    first, *others = parameters
    if not first.matters(choice):
        yield from _completed(choice, tuple(others))
        return
    for value in first.values:
        yield from _completed(choice | {first.name: value}, tuple(others))


def nearest_choice(parameters: Sequence[TunedParameter], wanted: Choice) -> dict[str, ParameterValue]:
    """The combination nearest to a wanted one that may lie outside."""
    choice: dict[str, ParameterValue] = {}
    for parameter in parameters:
        if parameter.matters(choice):
            choice[parameter.name] = parameter.nearest(wanted.get(parameter.name, parameter.values[0]))
    return choice


STEPS_PER_DOUBLING = 2  # sizes of buckets to choose from between one and its double
# Values of the knobs that policies have by themselves
USUAL_KNOBS: Mapping[str, ParameterValue] = {
    "first_cap": 2**20, "cap": 25 * 2**20, "buffer": 128 * 2**20, "cycle_us": 1000, "threshold": 25 * 10**6,
    "order": "ready",
}  # fmt: skip
# The knobs of every launching policy that has some, besides the order
LAUNCHING_KNOBS: Mapping[str, tuple[str, ...]] = {
    "ddp": ("first_cap", "cap"),
    "horovod": ("buffer", "cycle_us"),
    "dear": ("threshold",),
}
# The buckets of PyTorch DistributedDataParallel
DEFAULT: Mapping[str, ParameterValue] = {
    "launching": "ddp",
    **{name: USUAL_KNOBS[name] for name in LAUNCHING_KNOBS["ddp"]},
}


def launching_parameters(instance: Instance, names: Sequence[str]) -> tuple[TunedParameter, ...]:
    """Launching policies to choose from, their knobs, and the order in which dimensions serve collectives."""
    values = {
        name: bucket_sizes(instance, int(USUAL_KNOBS[name])) for name in USUAL_KNOBS.keys() - {"cycle_us", "order"}
    }
    values["cycle_us"] = cycles(instance)
    offered = {policy: knobs for policy, knobs in LAUNCHING_KNOBS.items() if policy in names}
    ordered = tuple(name for name in names if name != "priority")
    return (
        TunedParameter("launching", tuple(names)),
        *(TunedParameter(n, values[n], {"launching": (policy,)}) for policy, knobs in offered.items() for n in knobs),
        TunedParameter("order", get_args(Order), {"launching": ordered}),
    )


def launches_of(instance: Instance, choice: Choice) -> tuple[Launch, ...]:
    """What a choice launches."""
    return _launches(instance, launching_specification(choice))


def effect_of(instance: Instance, choice: Choice) -> str:
    """Equal for choices that launch the same in the same order, whatever they are called."""
    launches = launches_of(instance, choice)
    order = "layer" if choice["launching"] == "priority" else choice.get("order", USUAL_KNOBS["order"])
    traits = [(one.kind, one.tensors, one.after, one.before, one.after_launches, one.part) for one in launches]
    return repr((traits, "" if _is_alone(launches) else order))


@lru_cache(maxsize=2**12)
def _launches(instance: Instance, specification: str) -> tuple[Launch, ...]:
    policy: Any = make_policy(specification)
    launches: tuple[Launch, ...] = policy.launching(instance)
    return launches


def _is_alone(launches: tuple[Launch, ...]) -> bool:
    """Whether there is one launch, over before that of the next iteration begins: none can overtake another."""
    (first, *others) = launches
    if others or first.before is None or first.after is None:
        return False
    return first.before.later == 0 or first.before.task <= first.after.task


def bucket_sizes(instance: Instance, usual: int) -> tuple[int, ...]:
    """Sizes in geometric progression, from the smallest tensor to all of them in one bucket, and the usual size."""
    numbers = [t for group in fusible(instance) for t in group] or range(len(instance.exchanges))
    tensors = [instance.exchanges[t].size for t in numbers]
    least, most = min(tensors), sum(tensors) + 1  # DeAR closes a group before it reaches the threshold
    sizes, number = {least, most}, 1
    while (size := round(least * 2 ** (number / STEPS_PER_DOUBLING))) < most:
        sizes.add(size)
        number += 1
    return tuple(sorted(sizes | {usual}))


def cycles(instance: Instance) -> tuple[int, ...]:
    """Microseconds of a cycle of Horovod: the usual ones, fractions of the compute, and more than all of it."""
    compute = instance.compute // PICOSECONDS_PER_MICROSECOND
    fractions = {compute // count for count in (2**n for n in range(1, 10)) if count <= compute}
    return tuple(sorted(fractions | {int(USUAL_KNOBS["cycle_us"]), compute + 1}))


def launching_specification(choice: Choice) -> str:
    """The chosen launching policy as it is written on the command line, without knobs that are as usual."""
    launching = str(choice["launching"])
    knobs = [
        name
        for name in (*LAUNCHING_KNOBS.get(launching, ()), "order")
        if choice.get(name, USUAL_KNOBS[name]) != USUAL_KNOBS[name]
    ]
    return ":".join([launching, *(_knob(name, choice[name]) for name in knobs)])


def _knob(name: str, value: ParameterValue) -> str:
    if name == "order":
        return f"order={value}"
    if name == "cycle_us":
        return f"cycle={value}us"
    return f"{name}={format_size(int(value)).replace(' ', '')}"

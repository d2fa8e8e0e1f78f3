"""Launching policies and their knobs as parameters of a search."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import get_args

from themis_opt.iteration_instance import IterationInstance
from themis_opt.iterations.launching.common import fusible
from themis_opt.iterations.plan import Order
from themis_opt.iterations.registry import LAUNCHING
from themis_opt.tuning.parameters import Choice, Parameter, Value

STEPS_PER_DOUBLING = 2
"""Sizes of buckets to choose from between one and its double."""

CYCLES_OF_COMPUTE = tuple(2**n for n in range(1, 10))
"""How many cycles of Horovod one iteration of compute may have."""

PICOSECONDS_PER_MICROSECOND = 10**6

USUAL: Mapping[str, Value] = MappingProxyType(
    {"first_cap": 2**20, "cap": 25 * 2**20, "buffer": 64 * 2**20, "cycle_us": 3500, "threshold": 25 * 10**6,
     "order": "ready"}
)  # fmt: skip
"""Values of the knobs that policies have by themselves."""

KNOBS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"ddp": ("first_cap", "cap"), "horovod": ("buffer", "cycle_us"), "dear": ("threshold",)}
)
"""The knobs of every launching policy that has some, besides the order."""


def launching_parameters(instance: IterationInstance) -> tuple[Parameter, ...]:
    """Launching policy, its knobs, and the order in which dimensions serve collectives."""
    values = {name: sizes(instance, int(USUAL[name])) for name in ("first_cap", "cap", "buffer", "threshold")}
    values["cycle_us"] = cycles(instance)
    knobs = [Parameter(name, values[name], {"launching": (own,)}) for own, names in KNOBS.items() for name in names]
    ordered = tuple(name for name in LAUNCHING if name != "priority")
    return Parameter("launching", tuple(LAUNCHING)), *knobs, Parameter("order", get_args(Order), {"launching": ordered})


def sizes(instance: IterationInstance, usual: int) -> tuple[int, ...]:
    """Sizes of buckets in geometric progression, from the smallest tensor to all of them in one, and the usual size."""
    numbers = [t for own in fusible(instance) for t in own] or range(len(instance.iteration.tensors))
    tensors = [instance.iteration.tensors[t].size for t in numbers]
    least, most = min(tensors), sum(tensors) + 1  # DeAR closes a group before it reaches the threshold
    found, number = {least, most}, 1
    while (size := round(least * 2 ** (number / STEPS_PER_DOUBLING))) < most:
        found.add(size)
        number += 1
    return tuple(sorted(found | {min(max(usual, least), most)}))


def cycles(instance: IterationInstance) -> tuple[int, ...]:
    """Microseconds of a cycle of Horovod: the usual ones, fractions of the compute, and more than all of it."""
    compute = instance.compute // PICOSECONDS_PER_MICROSECOND
    fractions = {compute // count for count in CYCLES_OF_COMPUTE if count <= compute}
    return tuple(sorted(fractions | {int(USUAL["cycle_us"]), compute + 1}))


def launching_specification(choice: Choice) -> str:
    """The chosen launching policy as it is written on the command line, without knobs that are as usual."""
    launching = str(choice["launching"])
    told = [name for name in (*KNOBS.get(launching, ()), "order") if choice.get(name, USUAL[name]) != USUAL[name]]
    return ":".join([launching, *(_knob(name, choice[name]) for name in told)])


def _knob(name: str, value: Value) -> str:
    if name == "order":
        return f"order={value}"
    if name == "cycle_us":
        return f"cycle={value}us"
    return f"{name}={_bytes(int(value))}"


def _bytes(size: int) -> str:
    """Exact, in the largest binary unit that divides it."""
    for unit, name in ((2**20, "MiB"), (2**10, "KiB")):
        if size % unit == 0:
            return f"{size // unit}{name}"
    return f"{size}B"

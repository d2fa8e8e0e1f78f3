"""Policies of training iterations by name, and the specifications that choose them on the command line.

A specification is ``launching[:knob=value...]/chunk policy``, such as ``ddp:cap=10MiB/themis+scf``; the chunk policy is
one of :mod:`themis_opt.policies.registry` and may be left out, or stand alone with everything fused.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from themis_opt.iteration_instance import IterationInstance
from themis_opt.iterations.plan import IterationPlan, Launch, Order
from themis_opt.iterations.planning import planned
from themis_opt.policies.registry import POLICIES, Policy, imported, knobs_of, make_policy, unknown_policy

LAUNCHING: Mapping[str, str] = MappingProxyType(
    {
        "fused": "themis_opt.iterations.launching.fused:Fused",
        "wait_free": "themis_opt.iterations.launching.wait_free:WaitFree",
        "ddp": "themis_opt.iterations.launching.ddp:Ddp",
        "horovod": "themis_opt.iterations.launching.horovod:Horovod",
        "dear": "themis_opt.iterations.launching.dear:Dear",
        "priority": "themis_opt.iterations.launching.priority:Priority",
    }
)
"""Import path of each launching policy: a frozen dataclass whose fields are its knobs."""

USUAL_CHUNK_POLICY = "hourglass"
REFERENCE = "exact"

BASELINE = "fused/baseline+fifo"
"""What the speedup of every row is relative to."""

COMPARED = (
    BASELINE,
    "fused/themis+scf",
    *(f"{launching}/{USUAL_CHUNK_POLICY}" for launching in LAUNCHING),
    REFERENCE,
)
"""What is compared by default."""


@dataclass(frozen=True)
class IterationPolicy:
    """A launching policy combined with a chunk policy."""

    launching: Callable[[IterationInstance], tuple[Launch, ...]]
    chunk_policy: Policy
    order: Order

    def __call__(self, instance: IterationInstance) -> IterationPlan:
        """Plan `instance`."""
        return planned(instance, self.launching(instance), self.order, self.chunk_policy)


def make_iteration_policy(specification: str, **defaults: Any) -> IterationPolicy:
    """The policy that a specification describes; `defaults` are knobs of its chunk policy.

    Raises
    ------
    InputError
        If a name, a knob or its value is unknown.
    """
    head, chunk = parted(specification)
    name, *settings = head.split(":")
    if name not in LAUNCHING:
        raise unknown_policy(name, f"{', '.join(LAUNCHING)}, or one of {', '.join(POLICIES)}")
    made = imported(LAUNCHING[name])
    launching = made(**knobs_of(made, specification, settings))
    return IterationPolicy(launching, make_policy(chunk, **defaults), launching.order)


def parted(specification: str) -> tuple[str, str]:
    """The launching and the chunk part of a specification."""
    head, slash, chunk = specification.partition("/")
    if slash:
        return head, chunk
    if head.partition("+")[0].partition(":")[0] in POLICIES:
        return "fused", head
    return head, USUAL_CHUNK_POLICY

"""Policies by name, and the specifications that choose them on the command line.

A chunk policy cuts each collective operation in chunks, and gives them paths and sequences; its specification is
``policy[:knob=value...][+dispatch]``, such as ``baseline``, ``themis+scf`` or
``themis:initial_loads=latency:threshold_divisor=8+fifo``.

Where there is compute, a launching policy says which exchanges are fused, and when they are launched:
``launching[:knob=value...]/chunk policy``, such as ``ddp:cap=10MiB/themis+scf``.  There the chunk policy may be left
out, or stand alone with everything fused.

In the place of a name may stand the import path of any policy, a dataclass or a function of the instance:
``my_module:MyPolicy:knob=value+scf``.
"""

from dataclasses import MISSING, fields, is_dataclass
from inspect import isfunction
from typing import Any, cast

from themis_opt.base.errors import InputError, suggestion
from themis_opt.base.registries import Registry, is_import_path
from themis_opt.policies.planning import Combined
from themis_opt.policies.planning import Policy as Policy
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Kind
from themis_opt.schedules.dispatch import DISPATCH
from themis_opt.schedules.plan import has_launches

# The chunk policies: frozen dataclasses whose fields are their knobs
POLICIES = Registry(
    "themis_opt.policies",
    {
        "baseline": "themis_opt.policies.baseline:Baseline",
        "cyclic": "themis_opt.policies.cyclic:Cyclic",
        "hierarchical": "themis_opt.policies.hierarchical:Hierarchical",
        "nccl": "themis_opt.policies.nccl:Nccl",
        "themis": "themis_opt.policies.themis:Themis",
        "hourglass": "themis_opt.policies.hourglass.policy:Hourglass",
        "law": "themis_opt.policies.law:Law",
        "search": "themis_opt.search.annealed:Annealed",
        "random": "themis_opt.policies.random_orders:RandomOrders",
        "exact": "themis_opt.search.exact:Exact",
    },
)
# The launching policies, frozen dataclasses too
LAUNCHING = Registry(
    "themis_opt.launching",
    {
        "fused": "themis_opt.policies.launching.fused:Fused",
        "wait_free": "themis_opt.policies.launching.wait_free:WaitFree",
        "ddp": "themis_opt.policies.launching.ddp:Ddp",
        "horovod": "themis_opt.policies.launching.horovod:Horovod",
        "dear": "themis_opt.policies.launching.dear:Dear",
        "priority": "themis_opt.policies.launching.wait_free:Priority",
        "blocks": "themis_opt.policies.launching.blocks:BlockBuckets",
        "fsdp2": "themis_opt.policies.launching.blocks:Fsdp2",
        "one_stream": "themis_opt.policies.launching.blocks:OneStream",
        "stream_per_domain": "themis_opt.policies.launching.blocks:StreamPerDomain",
        "inductor": "themis_opt.policies.launching.inductor:Inductor",
    },
)

USUAL_LAUNCHING, USUAL_CHUNK_POLICY = "fused", "hourglass"

HEURISTICS = ("baseline+fifo", "themis+fifo", "themis+scf", "hourglass")
"""What `exact` is compared with by default; speedups are relative to the first."""

REFERENCE = "exact"  # the policy that proves how good it is
NCCL_NODE = 72  # NPUs of the largest domain of NVLink
LAUNCHED = (
    "ddp/baseline+fifo",
    "fused/themis+scf",
    "fused/hourglass",
    "wait_free/hourglass",
    "ddp/hourglass",
    "horovod/hourglass",
    "dear/hourglass",
    "priority/hourglass",
)
"""The same where there is compute: the first is what most run today, unless the instance says what it comes from."""


def usual_policies(instance: Instance) -> tuple[str, ...]:
    """What `exact` is compared with on an instance by default; speedups are relative to the first."""
    if has_launches(instance):
        launching = instance.iteration.launching if instance.iteration else ""
        return tuple(dict.fromkeys((launching or LAUNCHED[0], *LAUNCHED)))
    return (HEURISTICS[0], "nccl", *HEURISTICS[1:]) if is_served_by_nccl(instance) else HEURISTICS


def is_served_by_nccl(instance: Instance) -> bool:
    """Whether NCCL, or RCCL, would run on such a network: a node, and perhaps a network of switches between nodes."""
    node, *between = instance.network.dimensions
    inside = node.kind in (Kind.SWITCH, Kind.FULLY_CONNECTED) and node.size <= NCCL_NODE
    return inside and len(between) <= 1 and all(dimension.kind is Kind.SWITCH for dimension in between)


def every_policy(instance: Instance) -> tuple[str, ...]:
    """Specifications of all policies for an instance, `exact` last.

    They are all chunk policies, with all dispatch rules if they take one; where there is compute, all launching
    policies with the usual chunks, and what `exact` is usually compared with.
    """
    if has_launches(instance):
        launched = (f"{name}/{USUAL_CHUNK_POLICY}" for name in LAUNCHING)
        return (*dict.fromkeys((*LAUNCHED, *launched)), REFERENCE)
    dispatched = [name for name in POLICIES if takes_dispatch(name)]
    others = [name for name in POLICIES if name not in (*dispatched, REFERENCE)]
    return (*(f"{name}+{rule}" for name in dispatched for rule in DISPATCH), *others, REFERENCE)


def takes_dispatch(name: str) -> bool:
    """Whether a chunk policy leaves the order on dimensions to a dispatch rule, in the place of enforcing sequences."""
    return "dispatch" in {f.name for f in fields(_load(POLICIES, name))}


def make_policy(specification: str, **defaults: Any) -> Policy:
    """The policy that a specification describes.

    Parameters
    ----------
    specification : str
        Name, knobs and dispatch rule of a chunk policy, with a launching policy and a slash before it or not.
    **defaults
        Values for those knobs of the chunk policy that the specification does not set; knobs it does not have are
        ignored.

    Raises
    ------
    InputError
        If a name, a knob or its value is unknown.
    """
    launching, chunk = split_specification(specification)
    made = _make_chunk_policy(chunk, specification, defaults)
    if not launching:
        return made
    name = _name(launching)
    settings = launching.removeprefix(name).split(":")[1:]
    if name not in LAUNCHING and not is_import_path(name):
        raise _unknown(name, launching=True)
    kind = _load(LAUNCHING, name)
    return Combined(_with_knobs(kind, specification, knobs_of(kind, specification, settings)), made)


def specify(specification: str, instance: Instance) -> str:
    """A specification with what an instance lets one leave out: a chunk policy alone fuses all that can be.

    Raises InputError if it says what is launched when, and the instance has nothing to launch at other times.
    """
    launching, chunk = split_specification(specification)
    if launching and not has_launches(instance):
        raise InputError("launching policies are for training iterations", field="policy", value=specification)
    if launching or not has_launches(instance) or _name(chunk) == REFERENCE:
        return specification
    if not _is_known(_name(chunk)):
        raise _unknown(_name(chunk), launching=True)
    return f"{USUAL_LAUNCHING}/{chunk}"


def split_specification(specification: str) -> tuple[str, str]:
    """The launching part of a specification, empty where it has none, and the chunk part, the usual one without it.

    Raises InputError if a slash stands first.
    """
    head, slash, chunk = specification.partition("/")
    if slash and not head:
        raise _unknown(head, launching=True)
    if slash:
        return head, chunk
    if _name(head) in LAUNCHING:
        return head, USUAL_CHUNK_POLICY
    return "", head


def _make_chunk_policy(chunk: str, specification: str, defaults: dict[str, Any]) -> Policy:
    policy, name = _load(POLICIES, policy_name(chunk)), _name(chunk)
    head, plus, dispatch = chunk.partition("+")
    settings = head.removeprefix(name).split(":")[1:]
    if not is_dataclass(policy):
        if settings or plus:
            raise InputError("a function takes neither knobs nor a dispatch rule", field="policy", value=specification)
        return cast(Policy, policy)
    known = {f.name for f in fields(policy)}
    knobs = {name: value for name, value in defaults.items() if name in known}
    knobs |= knobs_of(policy, specification, settings)
    if plus:
        knobs["dispatch"] = _known_dispatch(policy, specification, dispatch)
    made: Policy = _with_knobs(policy, specification, knobs)
    return made


def _load(registry: Registry, name: str) -> Any:
    policy = registry.load(name)
    if not is_dataclass(policy) and not (is_import_path(name) and isfunction(policy)):
        raise InputError(f"must be a dataclass, is not in {registry.origin(name)}", field="policy", value=name)
    return policy


def _with_knobs(policy: Any, specification: str, knobs: dict[str, Any]) -> Any:
    """A policy with knobs set; shipped ones all have defaults."""
    missing = [f.name for f in fields(policy) if f.name not in knobs and f.default is f.default_factory is MISSING]
    if missing:
        raise InputError(f"knob {missing[0]} must be set", field="policy", value=specification)
    return policy(**knobs)


def policy_name(specification: str) -> str:
    """The name at the head of the specification of a chunk policy, without importing the policy.

    Raises InputError if there is no such policy.
    """
    name = _name(specification)
    if not _is_known(name):
        raise _unknown(name)
    return name


def _is_known(name: str) -> bool:
    return name in POLICIES or is_import_path(name)


def _name(specification: str) -> str:
    """What stands before knobs and dispatch rule: a name, or an import path, which has a colon too."""
    name, *settings = specification.partition("+")[0].split(":")
    if name not in (*POLICIES, *LAUNCHING) and settings and settings[0].isidentifier():
        return f"{name}:{settings[0]}"
    return name


def _unknown(name: str, *, launching: bool = False) -> InputError:
    """The error about a name that is no policy, where launching policies may stand too or not."""
    known = ", ".join(POLICIES)
    if launching:
        known = f"{', '.join(LAUNCHING)}, or one of {known}"
    stray = "; knobs follow their policy after colons, as in search:evaluations=1000:seed=1" if "=" in name else ""
    near = suggestion(name.partition("=")[0], [*POLICIES, *(LAUNCHING if launching else ())])
    return InputError(f"unknown policy; use one of {known}{stray}{near}", field="policy", value=name)


def _known_dispatch(policy: Any, specification: str, dispatch: str) -> str:
    if dispatch not in DISPATCH:
        rule = f"unknown dispatch rule; use one of {', '.join(DISPATCH)}{suggestion(dispatch, DISPATCH)}"
        raise InputError(rule, field="policy", value=specification)
    if "dispatch" not in {f.name for f in fields(policy)}:
        raise InputError("takes no dispatch rule", field="policy", value=specification)
    return dispatch


def knobs_of(policy: Any, specification: str, settings: list[str], field: str = "policy") -> dict[str, Any]:
    """The knobs of a policy that texts such as ``name=value`` set, checked against the types of its fields.

    Errors name `field`, which is another one where knobs of something else are set. Raises InputError if a knob is
    unknown, set twice, or its value is not allowed.
    """
    from pydantic import TypeAdapter, ValidationError

    types: dict[str, Any] = {f.name: f.type for f in fields(policy) if f.name != "dispatch"}
    knobs: dict[str, Any] = {}
    for setting in settings:
        name, _, text = setting.partition("=")
        if name in knobs:
            raise InputError(f"sets knob '{name}' twice", field=field, value=specification)
        if name not in types:
            raise InputError(
                f"unknown knob '{name}'; use one of {', '.join(types) or 'none'}{suggestion(name, types)}",
                field=field,
                value=specification,
            )
        try:
            knobs[name] = TypeAdapter[Any](types[name]).validate_python(text)
        except ValidationError as error:
            rule = error.errors()[0]["msg"]
            raise InputError(f"knob {name}: {rule}", field=field, value=specification) from None
    return knobs

"""Policies by name, and the specifications that choose them on the command line.

A specification is ``policy[:knob=value...][+dispatch]``, such as ``baseline``, ``themis+scf`` or
``themis:initial_loads=latency:threshold_divisor=8+fifo``.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from importlib import import_module
from types import MappingProxyType
from typing import Any

from themis_opt.dispatch import DISPATCH
from themis_opt.errors import InputError
from themis_opt.instance import Instance
from themis_opt.plan import Plan

Policy = Callable[[Instance], Plan]

POLICIES: Mapping[str, str] = MappingProxyType(
    {
        "baseline": "themis_opt.policies.baseline:Baseline",
        "themis": "themis_opt.policies.themis:Themis",
        "hourglass": "themis_opt.policies.hourglass:Hourglass",
        "search": "themis_opt.policies.search:Search",
        "random": "themis_opt.policies.random_orders:RandomOrders",
        "exact": "themis_opt.policies.exact:Exact",
    }
)
"""Import path of each policy: a frozen dataclass whose fields are its knobs."""

HEURISTICS = ("baseline+fifo", "themis+fifo", "themis+scf", "hourglass")
"""What the reference schedule is compared with by default."""

REFERENCE = "exact"
"""The policy that proves how good it is."""

ENFORCED = ("hourglass", "search", REFERENCE)
"""Policies that enforce their sequences and take no dispatch rule."""


def every_policy() -> tuple[str, ...]:
    """Specifications of all policies with all dispatch rules, the reference last."""
    heuristics = [f"{name}+{rule}" for name in POLICIES if name not in ENFORCED for rule in DISPATCH]
    return (*heuristics, *ENFORCED)


def make_policy(specification: str, **defaults: Any) -> Policy:
    """The policy that a specification describes.

    Parameters
    ----------
    specification : str
        Name, knobs and dispatch rule.
    **defaults
        Values for those of its knobs that the specification does not set; knobs it does not have are ignored.

    Raises
    ------
    InputError
        If a name, a knob or its value is unknown.
    """
    policy = imported(POLICIES[policy_name(specification)])
    head, plus, dispatch = specification.partition("+")
    _, *settings = head.split(":")
    known = {f.name for f in fields(policy)}
    knobs = {name: value for name, value in defaults.items() if name in known}
    knobs |= knobs_of(policy, specification, settings)
    if plus:
        knobs["dispatch"] = _known_dispatch(policy, specification, dispatch)
    return policy(**knobs)  # type: ignore[no-any-return]


def policy_name(specification: str) -> str:
    """The name at the head of a specification, without importing the policy.

    Raises
    ------
    InputError
        If there is no such policy.
    """
    name = specification.partition("+")[0].partition(":")[0]
    if name not in POLICIES:
        raise unknown_policy(name, ", ".join(POLICIES))
    return name


def unknown_policy(name: str, known: str) -> InputError:
    """The error about a name that is no policy, when those `known` are."""
    stray = "; knobs follow their policy after colons, as in search:evaluations=1000:seed=1" if "=" in name else ""
    return InputError(f"unknown policy; use one of {known}{stray}", field="policy", value=name)


def imported(path: str) -> Any:
    """What an import path such as ``package.module:name`` names."""
    module, _, attribute = path.partition(":")
    return getattr(import_module(module), attribute)


def _known_dispatch(policy: Any, specification: str, dispatch: str) -> str:
    if dispatch not in DISPATCH:
        raise InputError(
            f"unknown dispatch rule; use one of {', '.join(DISPATCH)}", field="policy", value=specification
        )
    if "dispatch" not in {f.name for f in fields(policy)}:
        raise InputError("takes no dispatch rule", field="policy", value=specification)
    return dispatch


def knobs_of(policy: Any, specification: str, settings: list[str]) -> dict[str, Any]:
    """The knobs of a policy that texts such as ``name=value`` set, checked against the types of its fields.

    Raises
    ------
    InputError
        If a knob is unknown, set twice, or its value is not allowed.
    """
    from pydantic import TypeAdapter, ValidationError

    types: dict[str, Any] = {f.name: f.type for f in fields(policy) if f.name != "dispatch"}
    knobs: dict[str, Any] = {}
    for setting in settings:
        name, _, text = setting.partition("=")
        if name in knobs:
            raise InputError(f"sets knob '{name}' twice", field="policy", value=specification)
        if name not in types:
            raise InputError(
                f"unknown knob '{name}'; use one of {', '.join(types) or 'none'}",
                field="policy",
                value=specification,
            )
        try:
            knobs[name] = TypeAdapter[Any](types[name]).validate_python(text)
        except ValidationError as error:
            rule = error.errors()[0]["msg"]
            raise InputError(f"knob {name}: {rule}", field="policy", value=specification) from None
    return knobs

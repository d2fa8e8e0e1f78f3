"""Costs of every chunk, whatever its size, in place of those of an instance."""

from typing import Any

from pydantic import TypeAdapter, ValidationError

from themis_opt.base.errors import InputError, check_choice
from themis_opt.problem.cost import check_clock
from themis_opt.problem.cost_terms import COST_TERMS
from themis_opt.problem.fields import ModelError, located
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import cost_type


def with_costs(instance: Instance, *, latency: str | None = None, **costs: str | float | None) -> Instance:
    """The instance with other costs on all its dimensions.

    Raises InputError if one of them breaks a rule, or the clock cannot hold the times.

    `latency`: whether step latencies occupy the dimension.
    `**costs`: values of :data:`~themis_opt.problem.cost_terms.COST_TERMS`; a number is in SI units.
    """
    given = {name: _read(name, value) for name, value in costs.items() if value is not None}
    try:
        result = instance.overridden(latency=latency)
    except ModelError as error:
        raise InputError(error.rule, field="--latency", value=latency) from None
    if given:
        result = result.replace(network=instance.network.with_costs(given))
    check_clock(result)
    return result


def _read(name: str, value: str | float) -> Any:
    check_choice(name, COST_TERMS, "cost")
    try:
        return TypeAdapter(cost_type(name)).validate_python(value)
    except ValidationError as error:
        raise InputError(located(error).rule, field=f"--{name.replace('_', '-')}", value=value) from None


def is_free_to_cut(instance: Instance) -> bool:
    """Whether nothing makes a small chunk dearer, so that more chunks always look better."""
    dimensions = instance.fabric.dimensions
    headers = any(d.packet is not None and d.packet.header for d in dimensions)
    return instance.latency == "lag" and not headers and not any(d.launch_overhead or d.rails for d in dimensions)

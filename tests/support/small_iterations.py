"""Training iterations that can be solved by hand: one byte more on the wire takes 1 ns, so 1 kB takes 1 us."""

from typing import Any

from themis_opt.policies.registry import make_policy
from themis_opt.problem.instance import Instance
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate

MICROSECOND = 10**6  # picoseconds
PAIR: dict[str, Any] = {"kind": "switch", "size": 2, "bandwidth": "1 GB/s"}
"""A dimension of two NPUs: an all-reduce of S kB on it alone takes S us, half of it a reduce-scatter."""


def tensor(name: str, kilobytes: float, ready: str, needed: str, **more: Any) -> dict[str, Any]:
    """A tensor as a document, an all-reduce if nothing else is said."""
    return {"name": name, "size": f"{kilobytes} kB", "ready_after": ready, "needed_before": needed} | more


def iteration(tasks: dict[str, float], tensors: list[dict[str, Any]], dimensions: int = 1, **fields: Any) -> Instance:
    """An instance with tasks of some microseconds, on equal dimensions, each collective in one chunk."""
    splits = fields.pop("splits", [])
    network = fields.pop("network", {"dimensions": [PAIR] * dimensions})
    computed = [{"name": name, "duration": f"{duration} us"} for name, duration in tasks.items()]
    document = {"network": network, "iteration": {"tasks": computed, "tensors": tensors, "splits": splits}, "chunks": 1}
    return Instance.model_validate(document | fields)


FOUR_TASKS = {"forward1": 10.0, "forward2": 10.0, "backward2": 10.0, "backward1": 10.0}


def two_layers(kilobytes1: float = 4, kilobytes2: float = 10, kind: str = "all_reduce", **fields: Any) -> Instance:
    """Two layers of 10 us per pass, with gradients of some kB."""
    gradients = [
        tensor("gradients2", kilobytes2, "backward2", "forward2", kind=kind),
        tensor("gradients1", kilobytes1, "backward1", "forward1", kind=kind),
    ]
    return iteration(FOUR_TASKS, gradients, **fields)


def run(instance: Instance, specification: str = "wait_free/hourglass", iterations: int | None = None) -> Schedule:
    """Plan, simulate and validate."""
    schedule = simulate(instance, make_policy(specification)(instance), iterations)
    validate(schedule)
    return schedule


def microseconds(picoseconds: int) -> float:
    """The time in microseconds."""
    return picoseconds / MICROSECOND

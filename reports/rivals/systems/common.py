"""Networks and helpers that the comparisons of systems share."""

from collections.abc import Callable
from typing import Any

from themis_opt import load
from themis_opt.policies.registry import make_policy
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Network
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.solving.bounds import bounds
from themis_opt.workloads.layers import Layer
from themis_opt.workloads.models import find_model
from themis_opt.workloads.parallelisms import make_workload
from themis_opt.workloads.setup import Setup
from themis_opt.workloads.timing import LayerTimes, Rate

V100 = load("v100-256.resnet-50").network
RATE = Rate(15_700_000_000_000, 0.6)
NODES = Network(
    name="8x4 GPUs",
    dimensions=(
        Dimension(kind="ring", size=4, bandwidth="150 GB/s", latency="1.9 us", name="nvlink"),
        Dimension(kind="switch", size=8, bandwidth="25 Gb/s", latency="4 us", name="adapter"),
    ),
)
SITES = load("sites-48.resnet-101").network
Row = dict[str, Any]
BUSY = "priority/hourglass"


def made(model: str, network: Network, parallelism: str = "data", chunks: int = 4, **choices: Any) -> Instance:
    """A workload in FP32 on GPUs that reach 60 % of 15.7 TFLOP/s, unless said otherwise."""
    sequence = choices.pop("sequence", None)
    given: Row = {"timing": RATE, "batch": 8, "element_bytes": 4} | choices
    chosen = find_model(model)
    layers = chosen.layers(sequence)
    return make_workload(chosen, layers, Setup(network=network, **given), parallelism=parallelism, chunks=chunks)


def run(instance: Instance, policy: str = BUSY) -> Schedule:
    """A validated schedule."""
    schedule = simulate(instance, make_policy(policy)(instance))
    validate(schedule)
    return schedule


def measured(what: str, instance: Instance, policy: str = BUSY, **more: Any) -> Row:
    """Times of one batch, in milliseconds, and the gap to the bound of the instance."""
    schedule, steps = run(instance, policy), instance.steps
    least = max(bounds(instance).values())
    assert schedule.makespan >= least * (1 - 1e-9), what
    return {
        "workload": what,
        "policy": policy,
        "batch ms": schedule.makespan / steps / 1e9,
        "exposed ms": schedule.period.exposed / steps / 1e9,
        "gap %": 100 * (schedule.makespan / least - 1),
        **more,
    }


def bisect(reaches: Callable[[float], bool], low: float, high: float) -> float:
    """The value from which on a condition holds, to a part in a million."""
    while high / low > 1 + 1e-6:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high


class Fixed:
    """Equal times of all layers that add up to those of an iteration."""

    def __init__(self, total: float, layers: tuple[Layer, ...]) -> None:
        self.flops, self.total = sum(layer.flops for layer in layers), total

    def __str__(self) -> str:
        return f"{self.total:g} s of compute"

    def __call__(self, layer: Layer, batch: int) -> LayerTimes:
        """The share of a layer by its operations, in each of three passes."""
        time = f"{round(self.total / 3 * layer.flops / self.flops * 1e12)} ps"
        return LayerTimes(forward=time, weight_gradient=time, input_gradient=time)

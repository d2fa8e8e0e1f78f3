r"""Changes of a finished iteration: fewer bytes, bytes that need not arrive, and the compute that this costs.

AdaTopK of FusionLLM (Z. Tang et al., https://arxiv.org/abs/2410.12707) compresses at the slowest links alone.  Here
dimension k gets the ratio :math:`r_k = \max(1, 3 r R_k / \max_l R_l)`, with :math:`R_k` the time for which it would
send without compression if every tensor took the fixed order: the slowest one sends a 3r-th, and those 3r times
as fast send everything.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import get_args

import numpy as np

from themis_opt.base.errors import InputError, reading
from themis_opt.base.units import parse_time
from themis_opt.problem.cost import path_costs
from themis_opt.problem.exchanges import Parallelism, Tensor
from themis_opt.problem.instance import Instance
from themis_opt.problem.iteration import ComputeTask, Iteration
from themis_opt.problem.phases import Data


@dataclass(frozen=True)
class Compression:
    """Values above a threshold travel with their places, the others stay.

    V. Gupta et al., *Training Recommender Systems at Scale: Communication-Efficient Model and Data Parallelism* (DCT),
    https://arxiv.org/abs/2010.08899.  What compression does to convergence is outside of the model.

    `ratios`: values per value that is sent, at least 1, for tensors between data-parallel and model-parallel NPUs.
    `index_bytes`: bytes of the place of a value.
    """

    ratios: Mapping[Parallelism, Fraction] = field(default_factory=lambda: MappingProxyType({}))
    index_bytes: int = 4

    def __post_init__(self) -> None:
        if self.index_bytes < 0:
            raise InputError("must be 0 or more", field="--index-bytes", value=self.index_bytes)

    def __str__(self) -> str:
        ratios = ", ".join(f"{kind} {float(ratio):g}" for kind, ratio in self.ratios.items())
        return f"compressed {ratios} with {self.index_bytes} bytes per index"

    def __call__(self, tensor: Tensor) -> Tensor:
        """The tensor with the bytes that are sent; as it was where its values alone are no more."""
        values = -(-tensor.size // tensor.element_bytes / self.ratios.get(tensor.parallelism, Fraction(1)))
        size = -(-values * (tensor.element_bytes + self.index_bytes) // tensor.element_bytes) * tensor.element_bytes
        return tensor.varied(size=min(int(size), tensor.size))


NO_COMPRESSION = Compression()  # everything travels as it is


def parse_compression(text: str, index_bytes: int) -> Compression:
    """Compression of a text such as ``"data=100,model=20"``; nothing is compressed without one.

    Raises InputError if a kind is unknown or stands twice, or a ratio is no number of at least 1.
    """
    ratios: dict[Parallelism, Fraction] = {}
    for part in filter(None, text.split(",")):
        kind, _, number = (word.strip() for word in part.partition("="))
        known: dict[str, Parallelism] = {name: name for name in get_args(Parallelism)}
        if kind not in known or known[kind] in ratios:
            raise InputError("must name data, model or both, each once", field="--compress", value=text)
        rule = "must be ratios of at least 1, such as data=100,model=20"
        with reading("--compress", text, rule):
            ratios[known[kind]] = Fraction(number)
        if ratios[known[kind]] < 1:
            raise InputError(rule, field="--compress", value=text)
    return Compression(MappingProxyType(ratios), index_bytes)


def parse_refresh(text: str) -> int:
    """Picoseconds in each iteration of what happens every so many of them, such as ``"50 ms/1000"``.

    Raises InputError if it is no time, or no whole number of iterations follows the slash.
    """
    time, slash, count = text.partition("/")
    with reading("--refresh", text):
        iterations = int(count) if slash else 1
        if iterations < 1:
            raise ValueError("must be a time, or a time over 1 iteration or more, such as 50 ms/1000")
        return round(Fraction(parse_time(time.strip()), iterations))


def transformed(iteration: Iteration, compression: Compression, refresh: int, tolerance: float) -> Iteration:
    """The iteration with smaller tensors.

    Raises InputError if the tolerance is not at least 0 and less than 1, or there is nothing to refresh.

    `iteration`: what is exchanged without compression and loss.
    `refresh`: picoseconds of a task that comes first, for what compression has to compute.
    `tolerance`: fraction of the bytes of gradients and parameters between data-parallel NPUs that may be lost.
    """
    if not 0 <= tolerance < 1:
        raise InputError("must be at least 0 and less than 1", field="--tolerance", value=tolerance)
    if refresh and not compression.ratios:
        raise InputError("needs --compress", field="--refresh", value=f"{refresh} ps")
    if compression.ratios:
        iteration = iteration.varied(tensors=tuple(map(compression, iteration.tensors)))
    if tolerance:
        iteration = iteration.varied(
            tensors=tuple(t.varied(tolerance=tolerance) if t.parallelism == "data" else t for t in iteration.tensors)
        )
    if refresh:
        task = ComputeTask(name="refresh", duration=f"{refresh} ps")
        iteration = iteration.varied(tasks=(task, *iteration.tasks))
    return iteration


def adapted(instance: Instance, ratio: float) -> Instance:
    """The instance with compression on the dimensions that are slow. Raises InputError if the ratio is less than 1.

    `ratio`: r: the slowest dimension is compressed by three times as much.
    """
    if ratio < 1:
        raise InputError("must be 1 or more", field="--adaptive", value=ratio)
    times = sending_times(instance)
    slowest = max(times.values())
    dimensions = tuple(
        dimension.model_copy(
            # Three times as in the source, for places that travel with values.
            update={"compression": dimension.compression * max(1.0, 3 * ratio * times[name] / slowest)}
        )
        for name, dimension in zip(instance.network.dimension_names, instance.network.dimensions, strict=True)
    )
    return instance.varied(network=instance.network.varied(dimensions=dimensions))


def sending_times(instance: Instance) -> dict[str, float]:
    """Picoseconds for which each dimension of the network sends what an iteration exchanges, in the fixed order."""
    splits = instance.iteration.splits if instance.iteration else ()
    parts = {part: split.dimension for split in splits for part in split.names}
    names = [name.partition("@")[0] for name in instance.fabric.dimension_names]
    times = dict.fromkeys(instance.network.dimension_names, 0.0)
    for exchange in instance.exchanges:
        outwards, inwards = exchange.span, exchange.span[::-1]
        orders = (inwards if phase.rule.data is Data.GROW else outwards for phase in exchange.kind.rule.phases)
        path = np.array([[dimension for order in orders for dimension in order]])
        costs = path_costs(instance, exchange.kind, np.array([exchange.size]), path)
        for k, held in zip(path[0].tolist(), costs.occupancy[0].tolist(), strict=True):
            name = parts.get(names[k], names[k])
            if name in times:
                times[name] += held
    return times

r"""Compression where the network is slow: each dimension by as much as it holds up the others.

AdaTopK of FusionLLM (Z. Tang et al., https://arxiv.org/abs/2410.12707) compresses at the slowest links alone.  Here
dimension k gets the ratio :math:`r_k = \max(1, 3 r R_k / \max_l R_l)`, with :math:`R_k` the time for which it would
send without compression if every tensor took the fixed order: the slowest one sends a 3r-th, and those 3r times
as fast send everything.
"""

import numpy as np

from themis_opt.base.errors import InputError
from themis_opt.problem.cost import path_costs
from themis_opt.problem.instance import Instance
from themis_opt.problem.phases import Data


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

"""How far training scales at a bandwidth, if all of it is used, and if data are smaller.

After Z. Zhang et al., *Is Network the Bottleneck of Distributed Training?* (NetAI 2020,
https://arxiv.org/abs/2006.10103): the scaling factor is the throughput of n NPUs over n times that of one, here the
compute of an iteration over its time as simulated.  Utilisation multiplies every bandwidth, compression divides the
bytes on the wire.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil

from themis_opt.base.errors import InputError
from themis_opt.base.units import PICOSECONDS_PER_SECOND, nanoseconds
from themis_opt.policies.planning import Policy
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Network
from themis_opt.schedules.simulator import simulate
from themis_opt.solving.bounds import bounds

MOST_COMPRESSION = 10_000.0
"""Beyond it, latency decides: more compression is no answer."""

PRECISION = 1.001
"""Ratio between the least compression that is found and one that is known to be too little."""

Maker = Callable[[Network], Instance]
"""Makes the training iteration on a network."""


@dataclass(frozen=True)
class Scaling:
    """One training on so many NPUs.

    Attributes
    ----------
    npus : int
    utilisation, compression : float
        Share of every bandwidth that is used, and bytes over those on the wire.
    exchanged : int
        Bytes of the tensors of an iteration.
    compute, time : int
        Picoseconds of an iteration.
    bound : float
        Picoseconds that no schedule can beat.
    """

    npus: int
    utilisation: float
    compression: float
    exchanged: int
    compute: int
    time: int
    bound: float

    @property
    def factor(self) -> float:
        """The scaling factor: 1 where nothing is waited for."""
        return self.compute / self.time

    def row(self) -> dict[str, float | int]:
        """Plain values, times in nanoseconds."""
        return {
            "npus": self.npus,
            "utilisation": self.utilisation,
            "compression": self.compression,
            "exchanged_bytes": self.exchanged,
            "compute_ns": nanoseconds(self.compute),
            "iteration_ns": nanoseconds(self.time),
            "exposed_ns": nanoseconds(self.time - self.compute),
            "scaling_factor": self.factor,
            "gap": self.time / self.bound - 1,
        }


def resized(network: Network, npus: int) -> Network:
    """The innermost part of a network with so many NPUs; the last of its dimensions may be smaller.

    Raises
    ------
    InputError
        If they do not fill dimensions from the innermost one, but for the last, or are not 2 at least.
    """
    dimensions, rest = [], npus
    for name, own in zip(network.dimension_names, network.dimensions, strict=True):
        size = min(rest, own.size)
        if rest % size:
            break
        if size > 1:
            dimensions.append(own.model_copy(update={"size": size, "name": name}))
        rest //= size
    if rest != 1 or not dimensions:
        sizes = " x ".join(map(str, network.sizes))
        rule = f"must be 2 or more, and fill dimensions of {sizes} from the innermost one, but for the last"
        raise InputError(rule, field="--npus", value=npus)
    return Network(name=network.name, dimensions=tuple(dimensions), source=network.source)


def varied(network: Network, utilisation: float, compression: float) -> Network:
    """The network with a share of every bandwidth, and smaller data on the wire.

    Raises
    ------
    InputError
        If the share is not within 0 and 1, or the compression is less than 1.
    """
    if not 0 < utilisation <= 1:
        raise InputError("must be more than 0 and at most 1", field="--utilisation", value=utilisation)
    if compression < 1:
        raise InputError("must be 1 or more", field="--compress", value=compression)
    dimensions = tuple(
        own.faster(utilisation).model_copy(update={"compression": own.compression * compression})
        for own in network.dimensions
    )
    return network.varied(dimensions=dimensions)


def scaling(
    make: Maker,
    network: Network,
    policy: Callable[[Instance], Policy],
    *,
    npus: Sequence[int],
    utilisations: Sequence[float] = (1.0,),
    compressions: Sequence[float] = (1.0,),
) -> list[Scaling]:
    """The trainings of all combinations.

    Parameters
    ----------
    make : callable
        Makes the training iteration on a network.
    network : Network
        The largest one.
    policy : callable
        The policy for an instance.
    npus : sequence of int
        Numbers of NPUs; 1 trains alone.

    Raises
    ------
    InputError
        If one of the values does not fit.
    """
    return [
        _measured(make, network, policy, count, utilisation, compression)
        for count in npus
        for utilisation in utilisations
        for compression in compressions
    ]


def least_compression(
    make: Maker,
    network: Network,
    policy: Callable[[Instance], Policy],
    *,
    npus: int,
    utilisation: float = 1.0,
    target: float = 0.95,
) -> float | None:
    """The least compression with which training reaches a scaling factor, to 0.1 %; None if none does.

    Raises
    ------
    InputError
        If the target is not within 0 and 1.
    """
    if not 0 < target < 1:
        raise InputError("must be more than 0 and less than 1", field="--target", value=target)

    def reaches(compression: float) -> bool:
        return _measured(make, network, policy, npus, utilisation, compression).factor >= target

    little, enough = 1.0, MOST_COMPRESSION
    if reaches(little):
        return little
    if not reaches(enough):
        return None
    while enough / little > PRECISION:
        middle = (enough * little) ** 0.5
        little, enough = (little, middle) if reaches(middle) else (middle, enough)
    return enough


def efficiency(overhead: float, npus: int) -> float:
    r"""Share of linear speed-up where a part of the work is not divided: :math:`(1 + R) / (1 + G R)`.

    With the overhead R in units of the work that is (Amdahl's law in the form of P. Goldsborough et al.,
    https://arxiv.org/abs/1709.06622, lemma 3.1).
    """
    return (1 + overhead) / (1 + npus * overhead)


def parameter_servers(size: int, workers: int, bandwidth: float, compute: int) -> int:
    r"""Parameter servers that hide their traffic behind compute: :math:`N \ge 2 S W / (B T)`, the same source.

    Parameters
    ----------
    size : int
        Bytes of the parameters, S.
    workers : int
        Workers, W.
    bandwidth : float
        Bytes per second of one server, B.
    compute : int
        Picoseconds of one iteration of a worker, T.
    """
    return max(1, ceil(2 * size * workers * PICOSECONDS_PER_SECOND / (bandwidth * compute)))


def _measured(
    make: Maker,
    network: Network,
    policy: Callable[[Instance], Policy],
    npus: int,
    utilisation: float,
    compression: float,
) -> Scaling:
    changed = varied(network, utilisation, compression)
    instance = make(resized(changed, max(npus, 2)))
    exchanged = sum(own.size for own in instance.exchanges)
    if npus == 1:
        compute = instance.compute
        return Scaling(1, utilisation, compression, 0, compute, compute, float(compute))
    time = simulate(instance, policy(instance)(instance)).makespan
    least = max(bounds(instance).values())
    return Scaling(npus, utilisation, compression, exchanged, instance.compute, time, least)

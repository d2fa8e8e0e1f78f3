"""How far training scales on a network, with a share of its bandwidths and with smaller data on the wire.

After Z. Zhang et al., *Is Network the Bottleneck of Distributed Training?* (NetAI 2020,
https://arxiv.org/abs/2006.10103): the scaling factor is the throughput of n NPUs over n times that of one, here the
compute of an iteration over its time as simulated.  What is varied is what :mod:`themis_opt.study.sweep` varies of a
network; every NPU has the same share of the work whatever their number (data parallelism).
"""

from collections.abc import Sequence
from itertools import product
from math import ceil, inf

from themis_opt.base.errors import InputError
from themis_opt.base.units import PICOSECONDS_PER_SECOND, nanoseconds
from themis_opt.policies.registry import make_policy
from themis_opt.problem.instance import Instance
from themis_opt.schedules.simulator import simulate
from themis_opt.study.columns import Value
from themis_opt.study.sweep import sweep, varied


def scaling(
    instance: Instance,
    policy: str,
    *,
    npus: Sequence[int],
    utilisations: Sequence[float] = (1.0,),
    compressions: Sequence[float] = (1.0,),
    overhead: float = 0.0,
) -> list[dict[str, Value]]:
    """Rows of all combinations: times are in nanoseconds, and the scaling factor is 1 where nothing is waited for.

    Raises InputError if one of the values does not fit.

    `npus`: numbers of NPUs, from the innermost dimension outwards; 1 trains alone.
    `utilisations`, `compressions`: shares of every bandwidth that are used, and bytes over those on the wire.
    `overhead`: work that is not divided, over work that is: the efficiency by Amdahl's law is stated too.
    """
    if not 0 <= overhead < inf:
        raise InputError("must be 0 or more", field="overhead", value=overhead)
    rows: list[dict[str, Value]] = []
    for count in npus:
        if count == 1:
            rows += [_alone(instance, *place) for place in product(utilisations, compressions)]
            continue
        over = {"npus": [count], "share": utilisations, "compression": compressions}
        rows += [_scaled(instance, row) for row in sweep(instance, over, [policy])]
    return [row | _guidelines(instance, row, overhead) for row in rows]


def _guidelines(instance: Instance, row: dict[str, Value], overhead: float) -> dict[str, Value]:
    """What rules of thumb say of the same training."""
    npus, size = int(row["npus"]), sum(exchange.size for exchange in instance.exchanges)
    bandwidth = instance.network.bandwidths[-1] * float(row["utilisation"])
    servers = parameter_servers(size, npus, bandwidth, instance.compute)
    return {"amdahl": efficiency(overhead, npus), "parameter_servers": servers}


def _scaled(instance: Instance, row: dict[str, Value]) -> dict[str, Value]:
    compute, iteration = nanoseconds(instance.compute), float(row["iteration_ns"])
    return {
        "npus": row["npus"],
        "utilisation": row["share"],
        "compression": row["compression"],
        "exchanged_bytes": sum(exchange.size for exchange in instance.exchanges),
        "compute_ns": compute,
        "iteration_ns": iteration,
        "exposed_ns": iteration - compute,
        "scaling_factor": compute / iteration,
        "gap": row["gap"],
    }


def _alone(instance: Instance, utilisation: float, compression: float) -> dict[str, Value]:
    """The row of one NPU, which waits for nobody."""
    place: dict[str, Value] = {"npus": 1, "share": utilisation, "compression": compression}
    varied(instance, {"share": utilisation, "compression": compression})  # refuses what does not fit
    row = _scaled(instance, place | {"iteration_ns": nanoseconds(instance.compute), "gap": 0.0})
    return row | {"exchanged_bytes": 0}


def least_compression(
    instance: Instance, policy: str, *, npus: int, utilisation: float = 1.0, target: float = 0.95
) -> float | None:
    """The least compression with which training reaches a scaling factor, to 0.1 %; None if none does.

    Raises InputError if the target is not within 0 and 1.
    """
    if not 0 < target < 1:
        raise InputError("must be more than 0 and less than 1", field="target", value=target)

    def reaches(compression: float) -> bool:
        smaller = varied(instance, {"npus": npus, "share": utilisation, "compression": compression})
        return instance.compute >= target * simulate(smaller, make_policy(policy)(smaller)).makespan

    little, enough = 1.0, 10_000.0  # beyond it, latency decides: more compression is no answer
    if reaches(little):
        return little
    if not reaches(enough):
        return None
    while enough / little > 1.001:
        middle = (enough * little) ** 0.5
        little, enough = (little, middle) if reaches(middle) else (middle, enough)
    return enough


def efficiency(overhead: float, npus: int) -> float:
    r"""Share of linear speed-up where a part of the work is not divided: :math:`(1 + R) / (1 + G R)`.

    With the overhead R in units of the work that is (Amdahl's law in the form of P. Goldsborough et al.,
    https://arxiv.org/abs/1709.06622, lemma 3.1).
    """
    return (1 + overhead) / (1 + npus * overhead)


def parameter_servers(size: int, workers: int, bandwidth: float, compute: float) -> int:
    r"""Parameter servers that hide their traffic behind compute: :math:`N \ge 2 S W / (B T)`, the same source.

    `size`: bytes of the parameters, S.
    `workers`: workers, W.
    `bandwidth`: bytes per second of one server, B.
    `compute`: picoseconds of one iteration of a worker, T.
    """
    return max(1, ceil(2 * size * workers * PICOSECONDS_PER_SECOND / (bandwidth * compute)))

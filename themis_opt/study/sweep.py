"""What-if questions: policies and bounds over message sizes, chunk counts, and figures of single dimensions.

Of training iterations rows say how far they scale: the scaling factor is the throughput of n NPUs over n times that of
one, here the compute of an iteration over its time, as every NPU has the same share of the work whatever their number
(Z. Zhang et al., *Is Network the Bottleneck of Distributed Training?*, NetAI 2020, https://arxiv.org/abs/2006.10103).

A projection goes on to more NPUs than were measured.  Compute comes from the instance, whose layers may be measured.
One number is fitted: the share of every bandwidth with which the step on the fewest NPUs takes as long as measured.
Steps on more NPUs are held back and predicted, which is the accuracy that ParaDL states for its projections (A. Kahira
et al., https://arxiv.org/abs/2104.09075, section 5).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise, product
from typing import Any, NamedTuple

from themis_opt.base.errors import InputError, check_choice, reading
from themis_opt.base.units import (
    BANDWIDTH_UNITS,
    PICOSECONDS_PER_SECOND,
    SIZE_UNITS,
    TIME_UNITS,
    format_bandwidth,
    format_percent,
    format_size,
    format_time,
    nanoseconds,
    parse_bandwidth,
    parse_quantity,
    parse_size,
    parse_time,
)
from themis_opt.policies.registry import make_policy, usual_policies
from themis_opt.problem.cost import check_clock
from themis_opt.problem.fields import ModelError
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Network
from themis_opt.schedules.simulator import simulate
from themis_opt.study.columns import Value, result_row
from themis_opt.study.comparison import compare

OF_ALL = ("size", "chunks")  # what is varied of every collective
OF_NETWORK = ("npus", "share", "compression")  # what is varied of the whole network
OF_DIMENSION = ("bandwidth", "latency", "launch_overhead", "size")
"""What is varied of one dimension; its name and a dot stand before."""

MOST_POINTS = 10_000  # combinations of values
NEAR_LARGEST = 0.9  # share of the largest bandwidth from which on it is near it
KNEE = 0.5  # change of the time over that of what varies, both in logarithms, below which it changes little


class Quantity(NamedTuple):
    """How a quantity is read, and how it is written; ranges of those that are `whole` hold no fractions."""

    read: Callable[[Any], float]
    units: Mapping[str, Decimal]
    base: str
    write: Callable[[Any], str]
    whole: bool = True


_PLAIN: Mapping[str, Decimal] = {"": Decimal(1)}


def _read_ratio(value: object) -> float:
    return float(parse_quantity(value, _PLAIN, ""))


_TIME = Quantity(parse_time, TIME_UNITS, "s", format_time)
_RATIO = Quantity(_read_ratio, _PLAIN, "", "{:.4g}".format, whole=False)

QUANTITIES: Mapping[str, Quantity] = {
    "size": Quantity(parse_size, SIZE_UNITS, "B", format_size),
    "bandwidth": Quantity(parse_bandwidth, BANDWIDTH_UNITS, "B/s", lambda value: format_bandwidth(float(value))),
    "latency": _TIME,
    "launch_overhead": _TIME,
    "share": _RATIO,
    "compression": _RATIO,
}
"""What has a unit or a fraction; all else that is varied is a whole number."""


def sweep(
    instance: Instance,
    over: Mapping[str, Sequence[Any]],
    policies: Sequence[str] | None = None,
    *,
    overhead: float = 0.0,
    **limits: Any,
) -> Iterator[dict[str, Value]]:
    """Run policies on every combination of varied values.

    Parameters
    ----------
    over : mapping
        Values by what is varied: ``size`` and ``chunks`` of every collective; ``npus`` of the whole network, the
        ``share`` of every bandwidth that is used, and the ``compression``, bytes over those on the wire; and
        ``NAME.bandwidth``, ``NAME.latency``, ``NAME.launch_overhead`` and ``NAME.size`` (NPUs) of the dimension of a
        name.  Quantities are texts with units or plain numbers in SI units.  The bandwidth of a dimension with rails is
        that of all of them, in the proportions that they have; ``NAME.RAIL.bandwidth`` is that of one.
    policies : sequence of str, optional
        Specifications; the usual ones without the reference by default.
    overhead : float
        Of iterations, work that is not divided among NPUs, over work that is; rows state the efficiency that
        Amdahl's law leaves.
    **limits
        As of :func:`themis_opt.compare`, for each combination.

    Yields
    ------
    dict
        One row per combination and policy, policies inside: the varied values as plain numbers (bytes, bytes per
        second, picoseconds), then the columns of a result; of iterations also ``scaling_factor``, ``amdahl`` and
        ``parameter_servers``.  One NPU, ``npus`` of 1, trains alone and waits for nobody.

    Raises
    ------
    InputError
        If what is varied is unknown, a value breaks a rule, or there are too many combinations.
    """
    names = list(over)
    if not 0 <= overhead < math.inf:
        raise InputError("must be 0 or more", field="overhead", value=overhead)
    if not names or not all(over.values()):
        raise InputError("must vary something, with one or more values", field="over")
    points = math.prod(len(values) for values in over.values())
    if points > MOST_POINTS:
        raise InputError(f"must have at most {MOST_POINTS} combinations, has {points}", field="over")
    for values in product(*(over[name] for name in names)):
        point = dict(zip(names, values, strict=True))
        if instance.tasks and point.get("npus") == 1:
            made = [_alone(instance, point, policy) for policy in policies or usual_policies(instance)]
        else:
            changed = varied(instance, point)
            results = compare(changed, policies or usual_policies(changed), **limits).results
            made = [result_row(result) for result in results]
        place = {name: plain(name, value) for name, value in point.items()}
        yield from [place | row | _scaling(instance, point, row, overhead) for row in made]


def _alone(instance: Instance, point: Mapping[str, Any], policy: str) -> dict[str, Value]:
    varied(instance, {name: value for name, value in point.items() if name != "npus"})  # refuses what does not fit
    compute = nanoseconds(instance.compute)
    times: dict[str, Value] = {"makespan_ns": compute, "compute_ns": compute, "exposed_ns": 0.0, "bound_ns": compute}
    return {"policy": policy, **times, "gap": 0.0, "status": "optimal"}


def _scaling(instance: Instance, point: Mapping[str, Any], row: Mapping[str, Any], overhead: float) -> dict[str, Value]:
    """How far a training iteration scales, and what rules of thumb say of it."""
    if not instance.tasks:
        return {}
    npus, size = int(point.get("npus", instance.network.num_npus)), sum(e.size for e in instance.exchanges)
    bandwidth = instance.network.bandwidths[-1] * _read_ratio(point.get("share", 1))
    servers = parameter_servers(size, npus, bandwidth, instance.compute)
    factor = nanoseconds(instance.compute) / time_of(row)
    return {"scaling_factor": factor, "amdahl": efficiency(overhead, npus), "parameter_servers": servers}


def least_compression(instance: Instance, policy: str, target: float = 0.95, **point: Any) -> float | None:
    """The least compression with which training reaches a scaling factor, to 0.1 %; None if none does.

    Raises InputError if the target is not within 0 and 1.

    `point`: other values that vary, such as ``npus`` and ``share``.
    """
    if not 0 < target < 1:
        raise InputError("must be more than 0 and less than 1", field="target", value=target)

    def reaches(compression: float) -> bool:
        smaller = varied(instance, point | {"compression": compression})
        return instance.compute >= target * simulate(smaller, make_policy(policy)(smaller)).makespan

    if reaches(1.0):
        return 1.0
    return _first(reaches, 1.0, MOST_COMPRESSION) if reaches(MOST_COMPRESSION) else None


def measured_share(instance: Instance, policy: str, measured: int, **point: Any) -> float | None:
    """The share of every bandwidth with which training takes the time that was measured, to 0.1 %.

    None if a share of 1 is slower, or the least share is faster. Raises InputError if the compute alone takes longer
    than what was measured.

    `measured`: picoseconds of one iteration.
    `point`: other values that vary, such as ``npus`` and ``compression``.
    """
    if measured < instance.compute:
        rule = f"must be at least the compute, {format_time(instance.compute)}"
        raise InputError(rule, field="measured", value=format_time(measured))

    def is_as_fast(share: float) -> bool:
        slower = varied(instance, point | {"share": share})
        return simulate(slower, make_policy(policy)(slower)).makespan <= measured

    if is_as_fast(LEAST_USE) or not is_as_fast(1.0):
        return None
    return _first(is_as_fast, LEAST_USE, 1.0)


def _first(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The least value for which a condition holds, which holds for `high` and not for `low`, to 0.1 %."""
    while high / low > 1.001:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


LEAST_USE = 0.001  # share of bandwidths below which a measurement says something else than a slow network
MOST_COMPRESSION = 10_000.0  # bytes over those on the wire beyond which latency decides: more is no answer


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
    return max(1, math.ceil(2 * size * workers * PICOSECONDS_PER_SECOND / (bandwidth * compute)))


def best_by_value(rows: Sequence[Mapping[str, Any]], name: str) -> dict[float, Mapping[str, Any]]:
    """The fastest row of every value of what varied first, where all else that varied has its first value."""
    columns = list(rows[0])
    others = {other: rows[0][other] for other in columns[: columns.index("policy")] if other != name}
    best: dict[float, Mapping[str, Any]] = {}
    for row in rows:
        if all(row[other] == value for other, value in others.items()):
            value, time = row[name], time_of(row)
            if value not in best or time < time_of(best[value]):
                best[value] = row
    return dict(sorted(best.items()))


def time_of(row: Mapping[str, Any]) -> float:
    """Nanoseconds that a row is about."""
    return float(row["makespan_ns"])


def knee_of(best: Mapping[float, Mapping[str, Any]], name: str) -> float:
    """The value from which on more changes little: less than half of what it would if the time followed it.

    Of message sizes it is where nine tenths of the largest bus bandwidth are reached.
    """
    values = list(best)
    if name == "size":
        rates = [float(best[value]["busbw_bytes_per_s"]) for value in values]
        return next(value for value, rate in zip(values, rates, strict=True) if rate >= NEAR_LARGEST * max(rates))
    for value, following in pairwise(values):
        changed = abs(math.log(time_of(best[value]) / time_of(best[following])))
        if value > 0 and changed < KNEE * math.log(following / value):
            return value
    return values[-1]


def varied(instance: Instance, point: Mapping[str, Any]) -> Instance:
    """An instance with some values changed.

    Raises InputError if a name is unknown, or the instance breaks a rule then.
    """
    try:
        for name, value in point.items():
            instance = _changed(instance, name, value)
        check_clock(instance)
    except ModelError as error:
        where = ", ".join(f"{name}={value}" for name, value in point.items())
        raise error.within(where) from None
    return instance


def plain(name: str, value: Any) -> Value:
    """A varied value as a number."""
    quantity = _quantity(name)
    return int(value) if quantity is None else quantity.read(value)


def in_words(name: str, value: Any) -> str:
    """A varied value, as a number, in words."""
    quantity = _quantity(name)
    return str(value) if quantity is None else quantity.write(value)


def read_values(name: str, text: str) -> list[Any]:
    """Values in a text: with commas between, and ranges such as ``64KiB..1GiB`` or ``64KiB..1GiB:4``.

    A range goes up by factors of two, or of what stands behind the colon, to its end at most. Raises InputError if a
    range has no end in reach.
    """
    values: list[Any] = []
    for part in (part.strip() for part in text.split(",") if part.strip()):
        if ".." not in part:
            values.append(_whole(name, part) if _quantity(name) is None else part)
            continue
        ends, _, factor = part.partition(":")
        low, high = ends.split("..", 1)
        values += _range(name, low, high, factor or "2")
    return values


def _range(name: str, low: str, high: str, factor: str) -> list[Any]:
    quantity = _quantity(name)
    try:
        start, end = (
            float(_whole("", text) if quantity is None else parse_quantity(text.strip(), quantity.units, quantity.base))
            for text in (low, high)
        )
        step = float(factor)
    except (ValueError, InputError) as error:
        rule = error.rule if isinstance(error, InputError) else str(error)
        raise InputError(rule, field=name, value=f"{low}..{high}") from None
    if not 0 < start <= end or not 1.001 <= step < math.inf:
        raise InputError("must rise from more than 0 by a factor above 1", field=name, value=f"{low}..{high}:{factor}")
    values, value = [], start
    while value <= end * (1 + 1e-12):  # rounding must not lose the last one
        exact = value if quantity is not None and not quantity.whole else round(value)
        values.append(exact if quantity is None else quantity.write(exact))
        value *= step
    return values


def _whole(name: str, text: str) -> int:
    with reading(name, text, "must be a whole number"):
        return int(text)


def _quantity(name: str) -> Quantity | None:
    """The quantity that a name stands for; None for whole numbers, among them the size of a dimension."""
    return None if name.endswith(".size") else QUANTITIES.get(name.rpartition(".")[2])


def _changed(instance: Instance, name: str, value: Any) -> Instance:
    if name in OF_ALL:
        return instance.overridden(**{name: value})
    if name in OF_NETWORK:
        return instance.replace(network=_of_network(instance.network, name, value))
    check_name(instance, name)
    number, field, rail = _figures(instance)[name]
    dimensions = list(instance.network.dimensions)
    try:
        dimensions[number] = _dimension(dimensions[number], field, rail, value)
    except ModelError as error:
        raise InputError(error.rule, field=name, value=value) from None
    return instance.replace(network=instance.network.replace(dimensions=tuple(dimensions)))


def check_name(instance: Instance, name: str) -> None:
    """Raise InputError if there is nothing of a name that can be varied."""
    check_choice(name, [*OF_ALL, *OF_NETWORK, *_figures(instance)], "over")


def _of_network(network: Network, name: str, value: Any) -> Network:
    """A network with other NPUs, a share of every bandwidth, or smaller data on the wire."""
    if name == "npus":
        return resized(network, int(value))
    with reading(name, value, "must be a number"):
        factor = _read_ratio(value)
    if name == "share":
        if not 0 < factor <= 1:
            raise InputError("must be more than 0 and at most 1", field=name, value=value)
        return network.varied(dimensions=tuple(dimension.faster(factor) for dimension in network.dimensions))
    if factor < 1:
        raise InputError("must be 1 or more", field=name, value=value)
    smaller = (d.model_copy(update={"compression": d.compression * factor}) for d in network.dimensions)
    return network.varied(dimensions=tuple(smaller))


def resized(network: Network, npus: int) -> Network:
    """The innermost part of a network with so many NPUs; the last of its dimensions may be smaller.

    Raises InputError if they do not fill dimensions from the innermost one, but for the last, or are not 2 at least.
    """
    dimensions, rest = [], npus
    for name, dimension in zip(network.dimension_names, network.dimensions, strict=True):
        size = min(rest, dimension.size)
        if size < 1 or rest % size:
            break
        if size > 1:
            dimensions.append(dimension.model_copy(update={"size": size, "name": name}))
        rest //= size
    if rest != 1 or not dimensions:
        sizes = " x ".join(map(str, network.sizes))
        rule = f"must be 2 or more, and fill dimensions of {sizes} from the innermost one, but for the last"
        raise InputError(rule, field="npus", value=npus)
    return Network(name=network.name, dimensions=tuple(dimensions), source=network.source)


def _figures(instance: Instance) -> dict[str, tuple[int, str, str | None]]:
    """Number of the dimension, field and perhaps rail of every figure that can be varied, by name."""
    figures: dict[str, tuple[int, str, str | None]] = {}
    for number, dimension in enumerate(instance.network.dimensions):
        name = instance.network.dimension_names[number]
        figures |= {f"{name}.{field}": (number, field, None) for field in OF_DIMENSION}
        figures |= {f"{name}.{rail.name}.bandwidth": (number, "bandwidth", rail.name) for rail in dimension.rails}
    return figures


def _dimension(dimension: Dimension, field: str, rail: str | None, value: Any) -> Dimension:
    """A dimension with one figure changed; the bandwidth of one with rails is that of all, in the same proportions."""
    if field != "bandwidth" or not dimension.rails:
        return dimension.replace(**{field: value})
    if rail is None:
        factor = dimension.rails[0].replace(bandwidth=value).bandwidth / dimension.bandwidth
        rails = [each.replace(bandwidth=each.bandwidth * factor) for each in dimension.rails]
    else:
        rails = [each.replace(bandwidth=value) if each.name == rail else each for each in dimension.rails]
    others = dimension.model_dump(mode="json", exclude_unset=True, exclude={"bandwidth", "rails"})
    return Dimension(**others, rails=tuple(rails))


@dataclass(frozen=True)
class Projection:
    """The share of bandwidths that was fitted, on how many NPUs, and predicted over measured steps, minus 1."""

    share: float
    fitted: int
    errors: Mapping[int, float]

    def __str__(self) -> str:
        held_back = ", ".join(f"{100 * error:+.2f} % on {npus}" for npus, error in self.errors.items())
        words = f"Fitted on {self.fitted} NPUs, the network gives {format_percent(self.share)} of its bandwidths"
        return f"{words}; steps that were held back err by {held_back or 'nothing: none was held back'}."


def project(instance: Instance, policy: str, measured: Mapping[int, int]) -> Projection:
    """Fit a policy to the measured step on the fewest NPUs, in picoseconds, and predict the others.

    Raises InputError if the instance has no compute, or no share of the bandwidths explains the first step.
    """
    if not instance.tasks or not measured:
        raise InputError("needs a training iteration and measured steps", field="measured", value=len(measured))
    fitted = min(measured)
    share = measured_share(instance, policy, measured[fitted], npus=fitted)
    if share is None:
        rule = "is explained by no share of the bandwidths: state other times of compute"
        raise InputError(rule, field="measured", value=f"{fitted}={format_time(measured[fitted])}")
    errors = {}
    for npus in sorted(measured.keys() - {fitted}):
        changed = varied(instance, {"npus": npus, "share": share})
        errors[npus] = simulate(changed, make_policy(policy)(changed)).makespan / measured[npus] - 1
    return Projection(share, fitted, errors)

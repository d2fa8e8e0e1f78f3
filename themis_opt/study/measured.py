"""Measured beside proven: what a library takes, what the best known schedule would, and what any algorithm needs."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from themis_opt.base.errors import InputError
from themis_opt.base.units import PICOSECONDS_PER_SECOND, format_percent, format_short_size, format_short_time
from themis_opt.formats.calibration import Measurement
from themis_opt.formats.measured_times import MeasuredStep, MeasuredTime
from themis_opt.formats.readers.parts import dimensions_by_size
from themis_opt.policies.registry import make_policy, specify, usual_policies
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.schedules.simulator import simulate
from themis_opt.solving.bounds import bounds_of
from themis_opt.solving.narrowest import too_slow
from themis_opt.study.columns import Value

TELLING = 10  # times the bound below which the best schedule is worth comparing with it
LEAST_WON = 0.001  # share of a time below which nothing is said to be won


@dataclass(frozen=True)
class Beside:
    """A measured time beside what is known of its problem; times are in picoseconds.

    `by`: who took it.
    `policy`, `best`: the fastest schedule that is known, and its makespan or iteration time.
    `today`: what the usual order takes in the model, that of NCCL where it would run.
    `needed`: what no algorithm can beat.
    """

    by: str
    instance: Instance
    time: float
    policy: str
    best: int
    today: int
    needed: float

    @property
    def won(self) -> float:
        """Share of the measured time that order alone wins: of the time in the model where that is less."""
        return max(1 - self.best / min(self.time, self.today), 0.0)

    @property
    def is_telling(self) -> bool:
        """Whether the bound of any algorithm says much: small messages wait for latency, of which it knows nothing."""
        return self.best < TELLING * self.needed

    @property
    def size(self) -> int:
        """Bytes of the collective; of a step those of all tensors."""
        return sum(exchange.size for exchange in self.instance.exchanges)

    def bus_bandwidth(self, time: float) -> float:
        """*busbw* of nccl-tests, in bytes per second, if it took some picoseconds."""
        (exchange,) = self.instance.exchanges
        npus = math.prod(self.instance.fabric.sizes[k] for k in exchange.span)
        return float(exchange.size * exchange.kind.rule.bus_share(npus)) * PICOSECONDS_PER_SECOND / time

    def sentence(self) -> str:
        """What is lost, and what of it could be won."""
        if self.instance.tasks:
            place, means = f"{self.by[:1].upper()}{self.by[1:]} takes", "launches and order"
        else:
            place, means = f"At {format_short_size(self.size)} {self.by} takes", "order"
        taken, slow = format_short_time(self.time), self.too_slow()
        if slow:
            return f"{place} {taken}, less than the {format_short_time(self.needed)} that any algorithm needs: {slow}."
        won = format_percent(self.won) if self.won >= LEAST_WON else "nothing"
        if not self.is_telling:
            return (
                f"{place} {taken}, the best schedule {format_short_time(self.best)}; {won} of it can be won by {means}."
            )
        above = format_percent(self.time / self.needed - 1)
        return f"{place} {taken}, {above} above what any algorithm needs; {won} of it can be won by {means}."

    def too_slow(self) -> str:
        """What is wrong with the description of the network; empty if nothing is."""
        (wide, *_) = (kind for kind in bounds_of(self.instance).values() if kind.any_algorithm)
        return too_slow(self.instance, wide.compute, self.time)

    def row(self) -> dict[str, Value]:
        """Plain values: times in ns, bandwidths in bytes per second, fractions 0..1."""
        values: dict[str, Value] = {"measured": self.by, "size_bytes": self.size, "measured_ns": self.time / 1000}
        if not self.instance.tasks:
            values |= {"collective": self.instance.exchanges[0].kind.value}
            values |= {"busbw_bytes_per_s": self.bus_bandwidth(self.time)}
        values |= {"policy": self.policy, "best_ns": self.best / 1000, "bound_ns": self.needed / 1000}
        return values | {"above_bound": self.time / self.needed - 1, "won_by_order": self.won}


def beside_times(
    instance: Instance, times: Sequence[MeasuredTime], policies: Sequence[str] | None = None
) -> list[Beside]:
    """One row for each size that was measured, of the median time.

    Raises InputError if a group of NPUs fills no dimensions of the network.

    `instance`: its network and rules; what it exchanges does not matter but for the number of chunks.
    `policies`: specifications of those that are tried; the usual ones if not given.
    """
    groups: dict[tuple[str, Measurement], list[float]] = defaultdict(list)
    for by, measurement in times:
        groups[by, measurement._replace(time=0.0)].append(measurement.time)
    known: dict[Instance, Beside] = {}
    rows = []
    for (by, measurement), taken in groups.items():
        problem = _problem(instance, measurement)
        if problem not in known:
            known[problem] = _beside(problem, policies)
        rows.append(_timed(known[problem], by, median(taken)))
    return sorted(rows, key=lambda row: (row.instance.exchanges[0].kind.value, row.by, row.size))


def beside_steps(instance: Instance, steps: Sequence[MeasuredStep], policies: Sequence[str] | None) -> list[Beside]:
    """One row for each measured step of a training iteration."""
    known = _beside(instance, policies)
    return [_timed(known, by, time) for by, time in steps]


def verdict(rows: Sequence[Beside]) -> tuple[str, ...]:
    """A sentence for each that was measured, at its largest size; one alone if the network is described too slow."""
    fastest = max(rows, key=lambda row: row.needed / row.time)
    if fastest.too_slow():
        return (fastest.sentence(),)
    largest = {(row.by, row.instance.exchanges[0].kind, row.instance.exchanges[0].span): row for row in rows}
    return tuple(row.sentence() for row in largest.values())


def _problem(instance: Instance, measurement: Measurement) -> Instance:
    """What was measured, as a separate problem on the network."""
    network, npus, size = instance.network, measurement.num_npus, measurement.size
    dimensions = None if npus == network.num_npus else dimensions_by_size(npus, network)
    if dimensions is None and npus != network.num_npus:
        shape = " x ".join(map(str, network.sizes))
        raise InputError(f"{npus} NPUs fill no dimensions of the network of {shape}", field="--measured", value=npus)
    element = 1 if size % 2 else 2
    chunks = min(instance.exchanges[0].max_chunks, size // element)
    collective = Collective(
        kind=measurement.kind, size=size, chunks=chunks, dimensions=dimensions, element_bytes=element
    )
    rules = {"latency": instance.latency, "ag_order": instance.ag_order}
    return Instance(name=instance.name, network=network, collectives=(collective,), **rules)


def _beside(instance: Instance, policies: Sequence[str] | None) -> Beside:
    """What is known of a problem, with no time measured."""
    usual = usual_policies(instance)
    today = "nccl" if "nccl" in usual else usual[0]
    names = dict.fromkeys([today, *(specify(name, instance) for name in policies or usual)])
    times = {name: simulate(instance, make_policy(name)(instance)).makespan for name in names}
    best = min(times, key=times.__getitem__)
    needed = max(kind.compute(instance) for kind in bounds_of(instance).values() if kind.any_algorithm)
    return Beside("", instance, 0.0, best, times[best], times[today], needed)


def _timed(known: Beside, by: str, time: float) -> Beside:
    return Beside(by, known.instance, time, known.policy, known.best, known.today, known.needed)

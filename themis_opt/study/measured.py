"""Measured beside proven: what a library takes, what the best known schedule would, and what any algorithm needs."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median_low
from typing import Any

from themis_opt.base.errors import InputError
from themis_opt.base.units import PICOSECONDS_PER_SECOND, format_percent, format_short_size, format_short_time
from themis_opt.formats.calibration import Measurement
from themis_opt.formats.measured_times import MeasuredStep, MeasuredTime
from themis_opt.graphs.comparison import GraphResult, compare_graph
from themis_opt.graphs.problem import GraphInstance
from themis_opt.policies.registry import make_policy, specify, usual_policies
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension
from themis_opt.problem.wiring import Algorithm
from themis_opt.schedules.simulator import simulate
from themis_opt.solving.bounds import bounds_of
from themis_opt.solving.narrowest import too_slow
from themis_opt.study.columns import Value
from themis_opt.study.parts import NetworkPart, part_in_words, part_of, problem_of
from themis_opt.study.rival_trees import trees_beside
from themis_opt.study.step_plan import with_gathers

TELLING = 10  # times the bound below which the best schedule is worth comparing with it
LEAST_WON = 0.001  # share of a time below which nothing is said to be won or lost
SAME_TIME = 0.01  # by how much times in place and out of place differ for both to be told
SAME_SIZE = 0.01  # by how much bytes of a step and an iteration may differ to be the same
IN_PLACE = "in place"


@dataclass(frozen=True)
class Beside:
    """A measured time beside what is known of its problem; times are in picoseconds.

    `by`: who took it, where and in which file.
    `part`: the part of the network in words, empty where it is the whole.
    `policy`, `best`: the fastest schedule that is known, and its makespan or iteration time.
    `today`: what the usual order takes in the model, that of NCCL where it would run.
    `needed`: what no algorithm can beat.
    `moved`: bytes of the step that was measured, 0 where they are those of the instance.
    """

    by: str
    instance: Instance
    time: float
    policy: str
    best: int
    today: int
    needed: float
    part: str = ""
    moved: int = 0

    @property
    def won(self) -> float:
        """Share of the measured time that order alone wins: of the time in the model where that is less.

        It is negative where what was measured is faster than the best schedule.
        """
        return 1 - self.best / min(self.time, self.today)

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
            if self.moved and abs(self.moved / self.size - 1) > SAME_SIZE:
                return self._of_another_step()
            place = f"{self.by[:1].upper()}{self.by[1:]} takes"
            means = f"launches and order{with_gathers(self.instance)}"
        else:
            on = f" on {self.part}" if self.part else ""
            place, means = f"At {format_short_size(self.size)} {self.by}{on} takes", "order"
        taken, sums = format_short_time(self.time), self.summing()
        less = f"{place} {taken}, less than the {format_short_time(self.needed)} that any algorithm needs"
        if sums:
            dimensions = " and ".join(name for name, one in zip(*_dimensions(sums), strict=True) if one.in_network)
            with_sums = format_short_time(_needed(sums))
            return (
                f"{less} if switches do not sum: with NVLS it needs {with_sums}; in_network of {dimensions} says "
                "that its switch sums."
            )
        if slow := self.too_slow():
            return f"{less}: {slow}."
        if self.won < -LEAST_WON:
            faster = format_percent(1 - self.time / self.best)
            above = f", and {format_percent(self.time / self.needed - 1)} above what any algorithm needs"
            known = f"{faster} less than {self.policy}, the best schedule known here"
            return f"{place} {taken}, {known}{above if self.is_telling else ''}."
        won = format_percent(self.won) if self.won >= LEAST_WON else "nothing"
        if not self.is_telling:
            return (
                f"{place} {taken}, the best schedule {format_short_time(self.best)}; {won} of it can be won by {means}."
            )
        above = format_percent(self.time / self.needed - 1)
        return f"{place} {taken}, {above} above what any algorithm needs; {won} of it can be won by {means}."

    def _of_another_step(self) -> str:
        moved, size = format_short_size(self.moved), format_short_size(self.size)
        taken, best = format_short_time(self.time), format_short_time(self.best)
        return (
            f"{self.by[:1].upper()}{self.by[1:]} moves {moved} in {taken}, the iteration {size} in {best}: these are "
            "two steps, which do not compare. 'import' makes an iteration of a trace."
        )

    def summing(self) -> Instance | None:
        """The problem with switches that sum, if it explains a time below the bound: of the inner ones, else of all."""
        if self.instance.tasks or self.time >= self.needed:
            return None
        for count in range(1, len(self.instance.network.dimensions) + 1):
            problem = _with_sums(self.instance, count)
            if problem != self.instance and _needed(problem) <= self.time:
                return problem
        return None

    def too_slow(self) -> str:
        """What is wrong with the description of the network; empty if nothing is."""
        if self.summing():
            return ""
        (wide, *_) = (kind for kind in bounds_of(self.instance).values() if kind.any_algorithm)
        return too_slow(self.instance, wide.compute, self.time)

    def row(self) -> dict[str, Value]:
        """Plain values: times in ns, bandwidths in bytes per second, fractions 0..1."""
        values: dict[str, Value] = {"measured": self.by, "size_bytes": self.size, "measured_ns": self.time / 1000}
        if not self.instance.tasks:
            values |= {"part": self.part, "collective": self.instance.exchanges[0].kind.value}
            values |= {"busbw_bytes_per_s": self.bus_bandwidth(self.time)}
        values |= {"policy": self.policy, "best_ns": self.best / 1000, "bound_ns": self.needed / 1000}
        return values | {"above_bound": self.time / self.needed - 1, "won_by_order": self.won}


def medians(times: Sequence[MeasuredTime]) -> Iterator[tuple[str, Measurement]]:
    """The median of each file, group, place and size, by who took it, where and in which file."""
    groups: dict[MeasuredTime, list[float]] = defaultdict(list)
    for time in times:
        groups[time._replace(measurement=time.measurement._replace(time=0.0))].append(time.measurement.time)
    several = len({time.file for time in times}) > 1
    for (by, measurement, file), taken in groups.items():
        where = f" {measurement.place}" if measurement.place == IN_PLACE else ""
        yield f"{by}{where}{f' ({file})' if several else ''}", measurement._replace(time=median_low(taken))


def beside_times(
    instance: Instance,
    times: Sequence[MeasuredTime],
    policies: Sequence[str] | None = None,
    part: NetworkPart | None = None,
) -> list[Beside]:
    """One row for each file, group, place and size that was measured, of the median time.

    Raises InputError if a group of NPUs fills no part of the network.

    `instance`: its network and rules; what it exchanges does not matter but for the number of chunks.
    `policies`: specifications of those that are tried; the usual ones if not given.
    `part`: the part of the network; else that which the ranks and hosts of a log tell.
    """
    known: dict[Instance, Beside] = {}
    rows = []
    for label, measurement in medians(times):
        taken_part = part if part is not None else part_of(instance.network, measurement)
        problem = problem_of(instance, measurement, taken_part)
        if problem not in known:
            known[problem] = _beside(problem, policies)
        words = part_in_words(instance.network, taken_part)
        rows.append(replace(known[problem], by=label, time=measurement.time, part=words))
    return sorted(rows, key=lambda row: (row.instance.exchanges[0].kind.value, row.part, row.by, row.size))


def beside_graph(
    instance: GraphInstance, times: Sequence[MeasuredTime], policies: Sequence[str] | None = None
) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows of medians beside the best plan on a graph and its bound, and a sentence for each library, faults first.

    Raises InputError if a log is of other NPUs than those of the graph.
    """
    known: dict[Collective, GraphResult] = {}
    rows: list[dict[str, Any]] = []
    told: dict[object, tuple[float, int, str]] = {}
    for by, measured in sorted(medians(times), key=lambda pair: (pair[1].kind.value, pair[0], pair[1].size)):
        if measured.num_npus != instance.network.num_npus:
            rule = f"is of {measured.num_npus} NPUs, the graph has {instance.network.num_npus}: give the graph of those"
            raise InputError(rule, field="--measured", value=by)
        collective = Collective(kind=measured.kind, size=measured.size, element_bytes=1 if measured.size % 2 else 2)
        if collective not in known:
            known[collective] = compare_graph(instance.replace(collectives=(collective,)), policies).best
        best = known[collective]
        bandwidth = float(measured.size * measured.kind.rule.bus_share(measured.num_npus)) * PICOSECONDS_PER_SECOND
        rows.append({
            "measured": by, "size_bytes": measured.size, "measured_ns": measured.time / 1000,
            "collective": measured.kind.value, "busbw_bytes_per_s": bandwidth / measured.time,
            "policy": best.policy, "best_ns": best.schedule.makespan / 1000, "bound_ns": best.bound / 1000,
            "above_bound": measured.time / best.bound - 1,
            "won_by_order": 1 - best.schedule.makespan / measured.time,
        })  # fmt: skip
        rank = max(best.bound / measured.time, 1.0), measured.size  # a time below the bound, else the largest size
        told[by, measured.kind] = max(
            told.get((by, measured.kind), (0.0, 0, "")), (*rank, _on_graph(by, measured, best))
        )
    return rows, [sentence for *_, sentence in sorted(told.values(), key=lambda row: -row[0])]


def _on_graph(by: str, measured: Measurement, best: GraphResult) -> str:
    taken, needed = format_short_time(measured.time), format_short_time(best.bound)
    begin = f"At {format_short_size(measured.size)} {by} takes {taken}"
    if measured.time < best.bound:
        times = f"{best.bound / measured.time:.2f}x"
        return f"{begin}, less than the {needed} that any algorithm needs: the links are described too slow by {times}."
    above = f"{format_percent(measured.time / best.bound - 1)} above what any algorithm needs"
    faster = 1 - measured.time / best.schedule.makespan
    if faster > 0:
        return f"{begin}, {format_percent(faster)} less than {best.policy}, the best plan known here, and {above}."
    return f"{begin}, {above}; {best.policy} takes {format_short_time(best.schedule.makespan)}."


def beside_steps(instance: Instance, steps: Sequence[MeasuredStep], policies: Sequence[str] | None) -> list[Beside]:
    """One row for each measured step of a training iteration."""
    known = _beside(instance, policies)
    return [replace(known, by=by, time=time, moved=size) for by, time, size in steps]


def verdict(rows: Sequence[Beside]) -> tuple[str, ...]:
    """A sentence for each that was measured, at its largest size; one alone if the network is described too slow.

    Times in place are told where they differ from those out of place.
    """
    fastest = max(rows, key=lambda row: row.needed / row.time)
    if fastest.too_slow():
        return (fastest.sentence(),)
    largest = {(row.by, row.instance.exchanges[0].kind, row.part): row for row in rows}
    told = []
    for (by, kind, part), row in largest.items():
        other = largest.get((by.replace(f" {IN_PLACE}", ""), kind, part), row)
        if other is row or row.size != other.size or abs(row.time / other.time - 1) > SAME_TIME:
            told.append(row.sentence())
    return tuple(told)


def _beside(instance: Instance, policies: Sequence[str] | None) -> Beside:
    """What is known of a problem, with no time measured."""
    usual = usual_policies(instance)
    today = "nccl" if "nccl" in usual else usual[0]
    names = dict.fromkeys([today, *(specify(name, instance) for name in policies or usual)])
    times = {name: simulate(instance, make_policy(name)(instance)).makespan for name in names}
    if trees := trees_beside(instance):
        times["trees"] = trees.makespan
    best = min(times, key=times.__getitem__)
    return Beside("", instance, 0.0, best, times[best], times[today], _needed(instance))


def _needed(instance: Instance) -> float:
    """Picoseconds that no algorithm can beat."""
    return max(kind.compute(instance) for kind in bounds_of(instance).values() if kind.any_algorithm)


def _dimensions(instance: Instance) -> tuple[tuple[str, ...], tuple[Dimension, ...]]:
    return instance.network.dimension_names, instance.network.dimensions


def _with_sums(instance: Instance, count: int) -> Instance:
    """The problem with switches that sum in the innermost dimensions."""
    dimensions = tuple(
        dimension.replace(in_network=True)
        if place < count and dimension.kind.rule.can_reduce and dimension.algorithm is not Algorithm.ADASUM
        else dimension
        for place, dimension in enumerate(instance.network.dimensions)
    )
    return instance.replace(network=instance.network.varied(dimensions=dimensions))

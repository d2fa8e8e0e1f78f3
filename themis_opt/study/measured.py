"""Measured beside proven: what a library takes, what the best known schedule would, and what any algorithm needs."""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median_low
from typing import Any

from formulations.limits import MIN_SECONDS, Limits
from themis_opt.base.allowance import Allowance
from themis_opt.base.errors import InputError
from themis_opt.base.units import (
    PICOSECONDS_PER_SECOND,
    format_percent,
    format_rate,
    format_short_size,
    format_short_time,
    parse_bandwidth,
    parse_size,
)
from themis_opt.formats.calibration import Measurement
from themis_opt.formats.measured_times import MeasuredTime, read_steps, read_times
from themis_opt.graphs.comparison import compare_graph
from themis_opt.graphs.problem import GraphInstance
from themis_opt.graphs.registry import GRAPH_POLICIES
from themis_opt.policies.registry import specify, usual_policies
from themis_opt.problem.exchanges import Collective, Exchange
from themis_opt.problem.instance import Instance
from themis_opt.problem.phases import CollectiveKind
from themis_opt.problem.wiring import Algorithm
from themis_opt.schedules.results import PolicyComparison
from themis_opt.solving.bounds import bounds_of
from themis_opt.solving.cut import too_slow
from themis_opt.study.ceilings import HIERARCHICAL, ceilings
from themis_opt.study.columns import Value
from themis_opt.study.comparison import compare, trees_beside
from themis_opt.study.parts import NetworkPart, parse_part, part_in_words, part_of, problem_of
from themis_opt.study.step_plan import with_gathers

TELLING = 10  # times the bound below which the best schedule is worth comparing with it
LEAST_WON = 0.005  # share of a time below which nothing is said to be won or lost
SAME_TIME = 0.01  # by how much times in place and out of place differ for both to be told
SAME_CEILING = 0.005  # by how much a time may be below a ceiling that it still counts as reached
NEAR_CEILING = 0.9  # share of a ceiling from which on what is missing is the algorithm
RATE = re.compile(r"[\d.,_ ]+(?:[kKMGTP]i?)?(?:B/s|bit/s|b/s|bps)", re.ASCII)  # a bandwidth, and no name of a file
GRAPH_WAYS = {"ring": "flat rings", "double_tree": "double trees", "hierarchical": HIERARCHICAL}  # by policies
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
    `ceilings`: what ways of libraries take at least, by name, the slowest first.
    """

    by: str
    instance: Instance | GraphInstance
    time: float
    policy: str
    best: int
    today: float
    needed: float
    part: str = ""
    moved: int = 0
    ceilings: Mapping[str, float] = field(default_factory=dict)

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
    def is_step(self) -> bool:
        """Whether a training step was measured, and no collective."""
        return isinstance(self.instance, Instance) and bool(self.instance.tasks)

    @property
    def kind(self) -> CollectiveKind:
        """The collective; of a step that of its first tensor."""
        return self._exchanges[0].kind

    @property
    def size(self) -> int:
        """Bytes of the collective; of a step those of all tensors."""
        return sum(exchange.size for exchange in self._exchanges)

    @property
    def _exchanges(self) -> Sequence[Exchange | Collective]:
        return self.instance.exchanges if isinstance(self.instance, Instance) else self.instance.collectives

    def bus_bandwidth(self, time: float) -> float:
        """*busbw* of nccl-tests, in bytes per second, if it took some picoseconds."""
        if isinstance(self.instance, Instance):
            npus = math.prod(self.instance.fabric.sizes[k] for k in self.instance.exchanges[0].span)
        else:
            npus = self.instance.network.num_npus
        return float(self.size * self.kind.rule.bus_share(npus)) * PICOSECONDS_PER_SECOND / time

    def reached(self) -> str:
        """The sentence about the best ceiling of rings, trees and NVLS, or if that was broken about the next one.

        It is empty where no ceiling is known or above.
        """
        above = {name: time for name, time in self.ceilings.items() if time <= self.time * (1 + SAME_CEILING)}
        if not above or self.time < self.needed:
            return ""
        name, time = min(above.items(), key=lambda row: (row[0] == HIERARCHICAL, row[1]))
        rates = [format_rate(self.bus_bandwidth(each)) for each in (time, self.needed)]
        words = f"It reaches {format_percent(time / self.time)} of the ceiling of {name} ({rates[0]} busbw)"
        if self.is_telling:
            words += f" and {format_percent(self.needed / self.time)} of that of any algorithm ({rates[1]})"
        faster, least = min(self.ceilings.items(), key=lambda row: row[1])
        if time < NEAR_CEILING * self.time:
            return f"{words}{': check NICs, channels and protocol' if self.is_telling else ''}."
        if least >= time:
            return f"{words}."
        return f"{words}: only another algorithm is faster, {faster} up to {format_rate(self.bus_bandwidth(least))}."

    def sentence(self) -> str:
        """What is lost, and what of it could be won."""
        if isinstance(self.instance, Instance) and self.instance.tasks:
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
            named = zip(sums.network.dimension_names, sums.network.dimensions, strict=True)
            dimensions = " and ".join(name for name, one in named if one.in_network)
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
        if not isinstance(self.instance, Instance) or self.is_step or self.time >= self.needed:
            return None
        for count in range(1, len(self.instance.network.dimensions) + 1):
            problem = _with_sums(self.instance, count)
            if problem != self.instance and _needed(problem) <= self.time:
                return problem
        return None

    def too_slow(self) -> str:
        """What is wrong with the description of the network; empty if nothing is."""
        if self.summing() or self.time >= self.needed:
            return ""
        if not isinstance(self.instance, Instance):
            return f"the links are described too slow by {self.needed / self.time:.2f}x"
        (wide, *_) = (kind for kind in bounds_of(self.instance).values() if kind.any_algorithm)
        return too_slow(self.instance, wide.compute, self.time)

    def row(self) -> dict[str, Value]:
        """Plain values: times in ns, bandwidths in bytes per second, fractions 0..1."""
        values: dict[str, Value] = {"measured": self.by, "size_bytes": self.size, "measured_ns": self.time / 1000}
        if not self.is_step:
            values |= {"part": self.part, "collective": self.kind.value}
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
        yield f"{by}{where}{f' ({file})' if several and file else ''}", measurement._replace(time=median_low(taken))


def beside_times(
    instance: Instance | GraphInstance,
    times: Sequence[MeasuredTime],
    policies: Sequence[str] | None = None,
    part: NetworkPart | None = None,
    *,
    note: Callable[[str], None] = lambda line: None,
    time_limit: float | None = None,
    **limits: Any,
) -> Iterator[Beside]:
    """One row for each file, group, place and size that was measured, of the median time, the largest size first.

    Raises InputError if a group of NPUs fills no part of the network; on a graph if it is not of all NPUs.

    `instance`: its network and rules; what it exchanges does not matter but for the number of chunks.
    `policies`: specifications of those that are tried; the usual ones if not given.
    `part`: the part of the network; else that which the ranks and hosts of a log tell.
    `note`, `time_limit`, `limits`: as in :func:`measured`; the largest size has two thirds of the time.
    """
    rows = [(label, one, *_problem_of(instance, one, part, label)) for label, one in medians(times)]
    rows.sort(key=lambda row: -row[1].size)
    sizes = {problem: measurement.size for _, measurement, problem, _ in rows}
    weights = {problem: 2 * len(sizes) if size == rows[0][1].size else 1 for problem, size in sizes.items()}
    if time_limit is None and isinstance(instance, GraphInstance):
        time_limit, limits["deterministic"] = Limits.seconds if policies else PLAN_SECONDS, True
    clock = Allowance(Limits.seconds if time_limit is None else time_limit, limits.get("deterministic", False))
    known: dict[Instance | GraphInstance, Beside] = {}
    for label, measurement, problem, words in rows:
        if problem not in known and (clock.left > 0 or not known):
            seconds = max(clock.left * weights[problem] / sum(weights.values()), MIN_SECONDS)
            clock.charge(seconds)
            known[problem], weights[problem] = _known(problem, policies, note, time_limit=seconds, **limits), 0
        if problem in known:
            yield replace(known[problem], by=label, time=measurement.time, part=words)
    if late := sorted({size for problem, size in sizes.items() if problem not in known}):
        note(f"left out: {', '.join(map(format_short_size, late))}: longer than --time-limit")


def _problem_of(
    instance: Instance | GraphInstance, measured: Measurement, part: NetworkPart | None, by: str
) -> tuple[Instance | GraphInstance, str]:
    """The collective that was measured, and its part of the network in words; on a graph it is of all NPUs."""
    if isinstance(instance, Instance):
        part = part_of(instance.network, measured) if part is None else part
        return problem_of(instance, measured, part), part_in_words(instance.network, part)
    if measured.num_npus != instance.network.num_npus:
        rule = f"is of {measured.num_npus} NPUs, the graph has {instance.network.num_npus}: give the graph of those"
        raise InputError(rule, field="--measured", value=by)
    collective = Collective(kind=measured.kind, size=measured.size, element_bytes=1 if measured.size % 2 else 2)
    return instance.replace(collectives=(collective,)), ""


PLAN_SECONDS = 3.0  # of work on plans of all policies for all sizes on a graph: on many NPUs they would take minutes


def _known(
    problem: Instance | GraphInstance,
    policies: Sequence[str] | None,
    note: Callable[[str], None],
    *,
    time_limit: float,
    **limits: Any,
) -> Beside:
    """What is known of a problem, with no time measured; on a graph what libraries run is timed first.

    Raises KeyboardInterrupt if Ctrl-C ended the search.
    """
    compared: PolicyComparison[Any]
    if isinstance(problem, Instance):
        usual = usual_policies(problem)
        today = "nccl" if "nccl" in usual else usual[0]
        names = dict.fromkeys([today, *(specify(name, problem) for name in policies or usual)])
        compared = compare(problem, tuple(names), time_limit=time_limit, slow_bounds=False, **limits)
        needed, reached, trees = _needed(problem), ceilings(problem), trees_beside(problem)
    else:
        today, ordered = "", policies or sorted(GRAPH_POLICIES, key=lambda name: name not in GRAPH_WAYS)
        compared = compare_graph(problem, ordered, Limits(seconds=time_limit, **limits))
        makespans = {result.policy: float(result.makespan) for result in compared.results}
        reached = {way: makespans[name] for name, way in GRAPH_WAYS.items() if name in makespans}
        needed, trees = compared.best.bound, None
    if compared.interrupted:
        raise KeyboardInterrupt
    for line in compared.notes if policies else ():
        note(line)
    times = {result.policy: result.makespan for result in compared.results}
    times |= {"trees": trees.makespan} if trees else {}
    best = min(times, key=times.__getitem__)
    return Beside("", problem, 0.0, best, times[best], times.get(today, math.inf), needed, ceilings=reached)


@dataclass(frozen=True, eq=False)
class Measured:
    """What was measured beside what is proven, and beside what libraries can reach.

    `rows`: one for each file, group, place and size, or for each step; the largest size last.
    `gap`: what the measured time may exceed the bound by.
    `interrupted`: whether Ctrl-C left rows out.
    """

    rows: tuple[Beside, ...]
    gap: float | None = None
    interrupted: bool = False

    @property
    def verdict(self) -> tuple[str, ...]:
        """Sentences: what is lost, and which ceiling is near; one alone if the network is described too slow.

        If smaller sizes alone take less than the best schedule, the one farthest below it is said first.
        """
        fastest = max(self.rows, key=lambda row: row.needed / row.time)
        if fastest.too_slow():
            return (fastest.sentence(),)
        told, below = self._told(), min(self.rows, key=lambda row: row.won)
        first = [below.sentence()] if below.won < -LEAST_WON <= min(row.won for row in told) else []
        return (*first, *(sentence for row in told for sentence in (row.sentence(), row.reached()) if sentence))

    @property
    def is_met(self) -> bool:
        """Whether no time is below the bound, and those at the largest sizes are within the gap."""
        slow = any(row.too_slow() for row in self.rows)
        return not slow and (self.gap is None or all(row.time / row.needed - 1 <= self.gap for row in self._told()))

    def _told(self) -> list[Beside]:
        """The row of the largest size of each that was measured; in place where it differs from that out of place."""
        largest = {(row.by, row.kind, row.part): row for row in sorted(self.rows, key=lambda row: row.size)}
        told = []
        for (by, kind, part), row in largest.items():
            other = largest.get((by.replace(f" {IN_PLACE}", ""), kind, part), row)
            if other is row or row.size != other.size or abs(row.time / other.time - 1) > SAME_TIME:
                told.append(row)
        return told

    @property
    def at_largest(self) -> list[dict[str, Value]]:
        """Rows of the ceilings and of the bound at the largest size of each collective: busbw, and what reaches it."""
        tables = []
        for row in {(row.kind, row.part): row for row in self.rows if row.ceilings}.values():
            same = {
                one.by: one for one in self.rows if (one.kind, one.part, one.size) == (row.kind, row.part, row.size)
            }
            for name, time in (*row.ceilings.items(), ("any algorithm", row.needed)):
                shares: dict[str, Value] = {by: time / one.time for by, one in same.items()}
                values: dict[str, Value] = {"collective": row.kind.value, "size_bytes": row.size, "ceiling": name}
                tables.append(values | {"least_ns": time / 1000, "busbw_bytes_per_s": row.bus_bandwidth(time)} | shares)
        return tables

    def __repr__(self) -> str:
        return "\n".join(self.verdict)


def measured(
    problem: Instance | GraphInstance,
    *sources: str | Path,
    policies: Sequence[str] | None = None,
    part: str | None = None,
    gap: float | None = None,
    size: int | str | None = None,
    note: Callable[[str], None] = lambda line: None,
    **search: Any,
) -> Measured:
    """Put measured times beside the best schedules, the ceilings of libraries and the bound of any algorithm.

    Parameters
    ----------
    problem : Instance or GraphInstance
        The network, and for a bus bandwidth the collective that has it.
    *sources : str or path
        Logs, traces of a step if the problem is an iteration, or a bus bandwidth such as ``"310 GB/s"``.
    policies : sequence of str, optional
        Specifications of those that are tried; the usual ones if not given.
    part : str, optional
        NPUs along dimensions that a log measured, such as ``rail=4``, where it does not tell.
    gap : float, optional
        What times may exceed the bound by to be met.
    size : int or str, optional
        The only size that counts.
    note : callable, optional
        Hears of rows of a log that do not count, and of named policies without a schedule.
    **search
        Options of :func:`themis_opt.compare`; `time_limit` is for all sizes, of all policies on a graph 3 s of work.

    Raises
    ------
    InputError
        If a source is none that is known, or of NPUs that are no part of the network.

    Examples
    --------
    >>> import themis_opt
    >>> cluster = themis_opt.load("dgx_h100_superpod.all_reduce.1GiB")
    >>> themis_opt.measured(cluster, "310 GB/s").verdict[1].partition(" and ")[0]
    'It reaches 77.50 % of the ceiling of flat rings (400.00 GB/s busbw)'
    """
    stated = parse_part(part, problem.network) if part and isinstance(problem, Instance) else None
    if part and not isinstance(problem, Instance):
        raise InputError("is for networks of dimensions", field="--part", value=part)
    if isinstance(problem, Instance) and problem.tasks:
        limit = search.pop("time_limit", None)
        seconds = Limits.seconds if limit is None else max(limit, MIN_SECONDS)
        steps = [step for source in sources for step in read_steps(Path(source))]
        known = _known(problem, policies, note, time_limit=seconds, **search)
        return Measured(tuple(replace(known, by=by, time=time, moved=size) for by, time, size in steps), gap)
    times = [time for source in sources for time in _times_of(problem, source, note)]
    kept = [time for time in times if size is None or time.measurement.size == parse_size(size)]
    if not kept:
        sizes = ", ".join(map(format_short_size, sorted({time.measurement.size for time in times})))
        raise InputError(f"was not measured, but {sizes}", field="--size", value=size)
    rows: list[Beside] = []
    interrupted = False
    try:
        rows.extend(beside_times(problem, kept, policies, stated, note=note, **search))
    except KeyboardInterrupt:
        if not rows:
            raise
        interrupted = True
    rows.sort(key=lambda row: (row.kind.value, row.part, row.by, row.size))
    return Measured(tuple(rows), gap, interrupted)


def _times_of(
    problem: Instance | GraphInstance, source: str | Path, note: Callable[[str], None]
) -> Sequence[MeasuredTime]:
    """The times of a file, or that of a bus bandwidth. Raises InputError if the source is neither."""
    if not RATE.fullmatch(str(source)) or Path(source).exists():
        return read_times(Path(source), note)
    collectives = problem.exchanges if isinstance(problem, Instance) else problem.collectives
    if len(collectives) > 1:
        raise InputError("a bandwidth is of one collective", field="--measured", value=str(source))
    (collective,) = collectives
    npus = problem.network.num_npus
    share = float(collective.size * collective.kind.rule.bus_share(npus))
    time = share * PICOSECONDS_PER_SECOND / parse_bandwidth(str(source))
    return [MeasuredTime(f"your {source}", Measurement(collective.kind, collective.size, npus, time))]


def _needed(instance: Instance) -> float:
    """Picoseconds that no algorithm can beat."""
    return max(kind.compute(instance) for kind in bounds_of(instance).values() if kind.any_algorithm)


def _with_sums(instance: Instance, count: int) -> Instance:
    """The problem with switches that sum in the innermost dimensions."""
    dimensions = tuple(
        dimension.replace(in_network=True)
        if place < count and dimension.kind.rule.can_reduce and dimension.algorithm is not Algorithm.ADASUM
        else dimension
        for place, dimension in enumerate(instance.network.dimensions)
    )
    return instance.replace(network=instance.network.varied(dimensions=dimensions))

"""Advice for NCCL: which algorithm and protocol were measured fastest, in the CSV of its example tuner plugin.

A line says ``collective,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff``; the first
line that matches a call decides, -1 matches anything, and sizes are of the larger buffer, as ours.  A call that no line
matches runs on one channel, and so does one whose line says -1 for channels.  So the ranges of measured collectives
reach from no byte to any number, and a last line for every collective catches the calls of other groups.
Source: https://github.com/NVIDIA/nccl, ``plugins/tuner/example`` (README, ``plugin.c``).

The format has no place for dimensions, chunks or an order: no schedule can be written in it.  What is written comes
from measured times alone, one log of nccl-tests for every algorithm with every protocol; the schedule says for how
many nodes and ranks, and what its model promises beside them.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np

from themis_opt.base.arrays import FloatArray
from themis_opt.base.errors import InputError
from themis_opt.base.sources import Source
from themis_opt.base.units import format_percent, format_short_time, format_size
from themis_opt.formats.calibration import Measurement
from themis_opt.formats.readers.nccl_tests import read_log
from themis_opt.formats.size_ranges import SIZE_TOLERANCE, SizeRange, fewest_ranges
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.schedule import Schedule
from themis_opt.solving.cut import cut
from themis_opt.solving.narrowest import too_slow

TUNER_FILE = "nccl_tuner.conf"
TUNER_COLUMNS = "collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff"
TUNER_ALGORITHMS = ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
PROTOCOLS = ("ll", "ll128", "simple")
TUNER_COLLECTIVES: Mapping[CollectiveKind, str] = {
    CollectiveKind.ALL_REDUCE: "allreduce",
    CollectiveKind.ALL_GATHER: "allgather",
    CollectiveKind.REDUCE_SCATTER: "reducescatter",
    CollectiveKind.BROADCAST: "broadcast",
    CollectiveKind.REDUCE: "reduce",
}
"""How the plugin calls the collectives for which NCCL has a choice."""

LARGEST_CALL = 2**64 - 1
"""Bytes of the largest call that a line can name."""

CATCH_ALL = ("ring", "simple")
"""The algorithm and protocol that every collective of NCCL has."""

EXAMPLE = "all_reduce.ring.ll128.txt"


class NcclChoice(NamedTuple):
    """An algorithm with a protocol."""

    algorithm: str
    protocol: str


class Advice(NamedTuple):
    """The choice for some messages of a collective."""

    low: int  # bytes of the smallest message
    high: int  # bytes of the largest one
    choice: NcclChoice
    excess: float  # of its time over the fastest measured one, at the worst measured size


class TimeTable(NamedTuple):
    """Measured times of a collective."""

    sizes: tuple[int, ...]  # bytes, rising
    choices: tuple[NcclChoice, ...]
    times: FloatArray  # shape (sizes, choices): picoseconds, the median of what was measured; else infinite

    def advice(self, tolerance: float) -> list[Advice]:
        """The fewest ranges of sizes, each with a choice near the fastest."""
        return [
            Advice(*size_range.bytes(self.sizes), self.choices[size_range.choice], self._excess(size_range))
            for size_range in fewest_ranges(self.times, tolerance)
        ]

    def _excess(self, size_range: SizeRange) -> float:
        rows = self.times[size_range.first : size_range.last + 1]
        return float((rows[:, size_range.choice] / rows.min(axis=1)).max()) - 1


@dataclass(frozen=True)
class NcclTuner:
    """Configuration of NCCL's example tuner plugin, from measured times alone."""

    endings: ClassVar[tuple[str, ...]] = ("conf",)

    logs: str = ""  # folder with an output of nccl-tests for every algorithm and protocol, which its name says
    node_dimensions: int = 1  # how many dimensions lie within a node
    channels: int = 0  # channels of the measurements, which must be stated
    tolerance: float = SIZE_TOLERANCE  # by how much of the fastest time a choice may be slower, so that ranges are few

    def files(self, schedule: Schedule) -> Iterator[tuple[str, str]]:
        """The one file.

        Raises InputError if there are no measured times, or those of other groups, or nothing to choose from.
        """
        sizes = schedule.instance.network.sizes
        nodes, ranks = math.prod(sizes[self.node_dimensions :]), math.prod(sizes)
        lines = [f"# {TUNER_COLUMNS}"]
        for kind, table in self._tables(schedule).items():
            ranges = table.advice(self.tolerance)
            for advice in ranges:
                low = 0 if advice is ranges[0] else advice.low
                high = LARGEST_CALL if advice is ranges[-1] else advice.high
                sizes_and_choice = (TUNER_COLLECTIVES[kind], low, high, *advice.choice)
                lines.append(",".join(map(str, (*sizes_and_choice, self.channels, nodes, ranks, -1, -1))))
        every = (0, LARGEST_CALL, *CATCH_ALL, self.channels, -1, -1, -1, -1)
        lines += [",".join(map(str, (name, *every))) for name in TUNER_COLLECTIVES.values()]
        yield TUNER_FILE, "\n".join(lines) + "\n"

    def notes(self, schedule: Schedule) -> Iterator[str]:
        """Notes for users of the files."""
        yield "measured times decide, not the schedule, whose chunks and order NCCL has no place for"
        yield (
            f"calls of other groups, and of collectives that were not measured, run {'/'.join(CATCH_ALL)} on "
            f"{self.channels} channels: the plugin runs calls that no line names on one channel"
        )
        for kind, table in self._tables(schedule).items():
            yield from _beside(schedule, kind, table)

    def check(self, schedule: Schedule, folder: Path) -> Iterator[str]:
        """Read the file again, and look up every measured size as the plugin does.

        Raises InputError if a line is none of the plugin's, or a size gets nothing, or what was measured slower.
        """
        path = folder / TUNER_FILE
        rules = read_rules(path)
        ranks = schedule.instance.network.num_npus
        for name, size, group in product(TUNER_COLLECTIVES.values(), (0, 512, 2**30 + 4, LARGEST_CALL), (ranks, 2, 3)):
            rule = chosen(rules, name, size, group)
            if rule is None or rule.channels < 1:
                words = "must have a line with channels, as the plugin runs it on one channel"
                raise InputError(words, field=f"{name} of {size} bytes on {group} ranks", source=str(path))
        for kind, table in self._tables(schedule).items():
            for size, times in zip(table.sizes, table.times, strict=True):
                line = chosen(rules, TUNER_COLLECTIVES[kind], size, ranks)
                choice = line and line.choice
                best = float(times.min())
                if choice not in table.choices or times[table.choices.index(choice)] > best * (1 + self.tolerance):
                    words = f"must choose what was measured fastest, within {format_percent(self.tolerance)}"
                    raise InputError(words, field=f"{TUNER_COLLECTIVES[kind]} of {size} bytes", source=str(path))
            ranges = len(table.advice(self.tolerance))
            yield f"{TUNER_COLLECTIVES[kind]}: {len(table.sizes)} measured sizes in {ranges} ranges"

    def _tables(self, schedule: Schedule) -> Mapping[CollectiveKind, TimeTable]:
        if not 0 <= self.node_dimensions <= len(schedule.instance.network.sizes):
            rule = "must be as many as there are dimensions, or less"
            raise InputError(rule, field="node_dimensions", value=self.node_dimensions)
        if not self.logs:
            rule = f"needs measured times: logs=FOLDER with outputs of nccl-tests such as {EXAMPLE}"
            raise InputError(rule, field="--to", value="nccl-tuner")
        if self.channels < 1:
            rule = (
                "must be stated, as in the logs: channels=N; NCCL's example plugin runs calls without it on one channel"
            )
            raise InputError(rule, field="channels", value=self.channels)
        return measured_tables(Path(self.logs), schedule.instance.network.num_npus)


def measured_tables(folder: Path, ranks: int) -> Mapping[CollectiveKind, TimeTable]:
    """Measured times by collective, of all logs in a folder.

    Raises InputError if there are no logs, one of them says no algorithm or protocol, is of a group of another size, or
    a collective was measured in one way alone.
    """
    measured: dict[CollectiveKind, dict[NcclChoice, list[Measurement]]] = {}
    for path in sorted(entry for entry in _listed(folder) if entry.is_file()):
        log = read_log(Source(path))
        kind = log.measurements[0].kind
        if any(measurement.kind is not kind for measurement in log.measurements):
            raise log.source.error("must measure one collective: give each a log of its own")
        if kind not in TUNER_COLLECTIVES:
            raise log.source.error(f"NCCL has one way alone for it; measure {', '.join(TUNER_COLLECTIVES.values())}")
        if any(measurement.num_npus != ranks for measurement in log.measurements):
            rule = f"must be measured on all {ranks} ranks of the schedule"
            raise log.source.error(rule, "ranks", log.measurements[0].num_npus)
        measured.setdefault(kind, {}).setdefault(_choice(log.source), []).extend(log.measurements)
    if not measured:
        raise InputError("holds no output of nccl-tests", field="logs", value=str(folder))
    return {kind: _table(folder, kind, measurements) for kind, measurements in measured.items()}


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", field="logs", value=str(folder)) from None


def _choice(source: Source) -> NcclChoice:
    """The choice that a log measured, from the words between the dots of its name."""
    words = source.path.name.lower().split(".")
    matches = [[word for word in words if word in known] for known in (TUNER_ALGORITHMS, PROTOCOLS)]
    if [len(group) for group in matches] != [1, 1]:
        rule = (
            f"its name must say the one algorithm ({', '.join(TUNER_ALGORITHMS)}) and protocol ({', '.join(PROTOCOLS)})"
        )
        raise source.error(f"{rule} that were measured, such as {EXAMPLE}")
    return NcclChoice(matches[0][0], matches[1][0])


def _table(folder: Path, kind: CollectiveKind, measured: Mapping[NcclChoice, Sequence[Measurement]]) -> TimeTable:
    """The median times of all sizes that were measured in more than one way."""
    choices = tuple(sorted(measured))
    sizes = sorted({measurement.size for log in measured.values() for measurement in log})
    times = np.array([[_median(measured[choice], size) for choice in choices] for size in sizes])
    kept = np.isfinite(times).sum(axis=1) > 1
    if not kept.any():
        rule = "must have sizes measured with two algorithms or protocols, or there is nothing to choose from"
        raise InputError(rule, field=TUNER_COLLECTIVES[kind], source=str(folder))
    return TimeTable(tuple(size for size, is_kept in zip(sizes, kept, strict=True) if is_kept), choices, times[kept])


def _median(measured: Sequence[Measurement], size: int) -> float:
    times = [measurement.time for measurement in measured if measurement.size == size]
    return float(np.median(times)) if times else math.inf


def _beside(schedule: Schedule, kind: CollectiveKind, table: TimeTable) -> Iterator[str]:
    """The time that the schedule promises beside the fastest measured one of its size, if there is one."""
    (exchange, *others) = schedule.launched
    if not others and not schedule.has_period and exchange.kind is kind and exchange.size in table.sizes:
        best = float(table.times[table.sizes.index(exchange.size)].min())
        yield (
            f"{TUNER_COLLECTIVES[kind]} of {format_size(exchange.size)}: {format_short_time(best)} measured at best, "
            f"{format_short_time(schedule.makespan)} promised by the model of the schedule"
        )
        if slow := too_slow(schedule.instance, cut, best):
            yield slow


class TunerRule(NamedTuple):
    """A line of the file."""

    collective: str
    min_bytes: int
    max_bytes: int
    choice: NcclChoice
    channels: int
    ranks: int


def read_rules(path: Path) -> list[TunerRule]:
    """Read a configuration of the plugin, strictly: the plugin takes words it does not know for others.

    Raises InputError if a line is none.
    """
    source = Source(path)
    rules = []
    for number, line in source.lines:
        if line.startswith("#"):
            continue
        words = [word.strip() for word in line.split(",")]
        field = f"line {number}"
        if not 8 <= len(words) <= 10:
            raise source.error("must have 8 to 10 fields", field, len(words))
        source.choice(words[0], dict.fromkeys(TUNER_COLLECTIVES.values(), True), field)
        source.choice(words[3], dict.fromkeys(TUNER_ALGORITHMS, True), field)
        source.choice(words[4], dict.fromkeys(PROTOCOLS, True), field)
        try:
            low, high, channels, _, ranks = (int(words[k]) for k in (1, 2, 5, 6, 7))
        except ValueError:
            raise source.error("sizes, channels, nodes and ranks must be whole numbers", field, line) from None
        rules.append(TunerRule(words[0], low, high, NcclChoice(words[3], words[4]), channels, ranks))
    return rules


def chosen(rules: Sequence[TunerRule], collective: str, size: int, ranks: int) -> TunerRule | None:
    """The line of the plugin for a call: the first one that matches; None where none does."""
    for rule in rules:
        if rule.collective == collective and rule.min_bytes <= size <= rule.max_bytes and rule.ranks in (-1, ranks):
            return rule
    return None

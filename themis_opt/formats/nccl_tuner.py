"""Advice for NCCL, RCCL and NCCLX: which algorithm and protocol were measured fastest, in the CSV that each reads.

Lines name a collective, sizes, an algorithm, a protocol, channels and a group; the first line that matches a call
decides, and sizes are of the larger buffer, as ours.  The readers differ in what else they do:

- ``nccl``, the example tuner plugin of NCCL (https://github.com/NVIDIA/nccl, ``plugins/tuner/example/plugin.c``).
  A call that no line matches runs on one channel, and so does one whose line says -1 for channels.  So the ranges of
  measured collectives reach from no byte to any number, and a last line for every collective catches the calls of
  other groups.
- ``rccl``, built into RCCL (https://github.com/ROCm/rocm-systems, ``projects/rccl/src/plugin/tuner/csv_tuner.cc``).
  It has the same columns, and other calls keep its choice of everything.
- ``ncclx``, built into NCCLX (https://github.com/meta-pytorch/torchcomms, ``comms/ncclx/meta/tuner``).  Sizes are
  intervals of the bytes of one rank, groups are nodes and ranks on each, and other calls keep its choice.

The format has no place for dimensions, chunks or an order: no schedule can be written in it.  What is written comes
from measured times alone, one log of nccl-tests for every algorithm with every protocol; the schedule says for how
many nodes and ranks, and what its model promises beside them.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from themis_opt.base.arrays import FloatArray
from themis_opt.base.errors import InputError, reading
from themis_opt.base.sources import Source
from themis_opt.base.units import format_percent, format_short_time, format_size
from themis_opt.formats.calibration import Measurement
from themis_opt.formats.exports import Fact, Replay
from themis_opt.formats.readers.nccl_tests import read_log
from themis_opt.problem.exchanges import Exchange
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.schedule import Schedule
from themis_opt.solving.cut import cut, too_slow

SIZE_TOLERANCE = 0.02
"""By how much of the fastest time a choice may be slower, so that ranges are few; noise of measured times is more."""


def fewest_ranges(times: FloatArray, tolerance: float = SIZE_TOLERANCE) -> list[tuple[int, int]]:
    """Cut the sizes in as few ranges as possible, each with a choice that is near the fastest for all its sizes.

    From the smallest size on, the choice that is good for most sizes in a row takes them; among several, the fastest
    on the whole.

    `times`, shape (sizes, choices): sizes rise; infinite where a choice does not serve a size.  Every size is served by
      some.
    `tolerance`: by how much of the fastest time a choice may be slower.
    Returns the number of the smallest size of each range, and that of its choice.
    """
    relative = times / times.min(axis=1, keepdims=True)
    slow = relative > 1 + tolerance
    ranges, first = list[tuple[int, int]](), 0
    while first < len(times):
        runs = np.where(slow[first:].any(axis=0), slow[first:].argmax(axis=0), len(times) - first)
        longest = int(runs.max())
        excess = relative[first : first + longest].mean(axis=0)
        choice = min(np.flatnonzero(runs == longest).tolist(), key=lambda k: float(excess[k]))
        ranges.append((first, choice))
        first += longest
    return ranges


class TunerDialect(NamedTuple):
    """What one reader expects, and what it does with calls that no line matches."""

    reader: str
    file: str
    columns: str
    fewest: int  # columns that a line must have
    longest_line: int | None  # characters that are read at once
    by_rank: bool = False  # whether sizes are intervals of the bytes of one rank, and ranks those of one node
    one_channel: bool = False  # whether calls without a line, or without channels in it, run on one channel


_COLUMNS = "collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff"
_COLUMNS_BY_RANK = "collective,bytesPerRank,algorithm,protocol,channels,nNodes,nLocalRanks"

TUNER_DIALECTS: Mapping[str, TunerDialect] = {
    "nccl": TunerDialect("the plugin", "nccl_tuner.conf", _COLUMNS, 8, 255, one_channel=True),
    "rccl": TunerDialect("RCCL", "rccl_tuner.csv", _COLUMNS, 8, 255),
    "ncclx": TunerDialect("NCCLX", "ncclx_tuner.csv", _COLUMNS_BY_RANK, 7, None, by_rank=True),
}

TUNER_ALGORITHMS = ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
PROTOCOLS = ("ll", "ll128", "simple")
TUNER_COLLECTIVES: Mapping[CollectiveKind, str] = {
    CollectiveKind(name): name.replace("_", "")
    for name in ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
}
"""How the plugin calls the collectives for which NCCL has a choice."""

LARGEST_CALL = 2**64 - 1  # bytes of the largest call that a line can name
CATCH_ALL = ("ring", "simple")  # the algorithm and protocol that every collective of NCCL has

EXAMPLE = "all_reduce.ring.ll128.txt"


NcclChoice = tuple[str, str]  # an algorithm with a protocol


class TimeTable(NamedTuple):
    """Measured times of a collective."""

    sizes: tuple[int, ...]  # bytes, rising
    choices: tuple[NcclChoice, ...]
    times: FloatArray  # shape (sizes, choices): picoseconds, the median of what was measured; else infinite


@dataclass(frozen=True)
class NcclTuner:
    """Configuration of tuners of NCCL, RCCL and NCCLX, from measured times alone."""

    endings: ClassVar[tuple[str, ...]] = ("conf", "csv")

    logs: str = ""  # folder with an output of nccl-tests for every algorithm and protocol, which its name says
    dialect: Literal["nccl", "rccl", "ncclx"] = "nccl"  # who reads it
    node_dimensions: int = 1  # how many dimensions lie within a node
    channels: int = 0  # channels of the measurements, which must be stated for nccl; 0 leaves them to the library
    tolerance: float = SIZE_TOLERANCE  # by how much of the fastest time a choice may be slower, so that ranges are few

    def files(self, schedule: Schedule) -> Iterator[tuple[str, str]]:
        """The one file.

        Raises InputError if there are no measured times, or those of other groups, or nothing to choose from.
        """
        dialect = TUNER_DIALECTS[self.dialect]
        lines = [f"# {dialect.columns}"]
        for kind, table in self._tables(schedule).items():
            ranges = fewest_ranges(table.times, self.tolerance)
            ends = [table.sizes[first] for first, _ in ranges[1:]]
            for (_, choice), low, end in zip(ranges, [0, *ends], [*ends, None], strict=True):
                line = self._line(schedule, low, end, table.choices[choice])
                lines.append(f"{TUNER_COLLECTIVES[kind]},{line}")
        if dialect.one_channel:
            every = f"0,{LARGEST_CALL},{','.join(CATCH_ALL)},{self.channels},-1,-1,-1,-1"
            lines += [f"{name},{every}" for name in TUNER_COLLECTIVES.values()]
        yield dialect.file, "\n".join(lines) + "\n"

    def _group(self, schedule: Schedule) -> tuple[int, int]:
        """Nodes, and ranks."""
        sizes = schedule.instance.network.sizes
        return math.prod(sizes[self.node_dimensions :]), math.prod(sizes)

    def _line(self, schedule: Schedule, low: int, end: int | None, choice: NcclChoice) -> str:
        """A line behind its collective, for calls of `low` bytes or more, and less than `end`."""
        (nodes, ranks), channels = self._group(schedule), self.channels or -1
        if TUNER_DIALECTS[self.dialect].by_rank:
            size = f"[{low // ranks},{'' if end is None else end // ranks})"
            return ",".join(map(str, (size, *choice, channels, nodes, ranks // nodes)))
        high = LARGEST_CALL if end is None else end - 1
        return ",".join(map(str, (low, high, *choice, channels, nodes, ranks, -1, -1)))

    def notes(self, schedule: Schedule) -> Iterator[str]:
        """Notes for users of the files."""
        yield "measured times decide, not the schedule, whose chunks and order NCCL has no place for"
        others = f"keep the choice of {self.dialect.upper()}"
        if TUNER_DIALECTS[self.dialect].one_channel:
            others = f"run {'/'.join(CATCH_ALL)} on {self.channels} channels"
            others += ": the plugin runs calls that no line names on one channel"
        yield f"calls of other groups, and of collectives that were not measured, {others}"
        exchange = _only_collective(schedule)
        table = self._tables(schedule).get(exchange.kind) if exchange else None
        if exchange is None or table is None or exchange.size not in table.sizes:
            return
        best, name = float(table.times[table.sizes.index(exchange.size)].min()), TUNER_COLLECTIVES[exchange.kind]
        promised = f"{format_short_time(schedule.makespan)} promised by the model of the schedule"
        yield f"{name} of {format_size(exchange.size)}: {format_short_time(best)} measured at best, {promised}"
        if slow := too_slow(schedule.instance, cut, best):
            yield slow

    def check(self, schedule: Schedule, folder: Path) -> Iterator[Fact]:
        """Read the file again, and look up every measured size as its reader does.

        Raises InputError if a line is none of the reader's, or a size gets nothing, or what was measured slower.
        """
        dialect = TUNER_DIALECTS[self.dialect]
        path, (nodes, ranks) = folder / dialect.file, self._group(schedule)
        rules = read_rules(path, dialect)
        sizes, groups = (0, 512, 2**30 + 4, LARGEST_CALL), ((nodes, ranks), (1, 2), (1, 3))
        for name, size, group in product(TUNER_COLLECTIVES.values(), sizes, groups if dialect.one_channel else ()):
            rule = chosen(rules, name, size, *group)
            if rule is None or rule.channels < 1:
                words = "must have a line with channels, as the plugin runs it on one channel"
                raise InputError(words, field=f"{name} of {size} bytes on {group[1]} ranks", source=str(path))
        for kind, table in self._tables(schedule).items():
            name, took = TUNER_COLLECTIVES[kind], dict[int, float]()
            for size, times in zip(table.sizes, table.times, strict=True):
                line = chosen(rules, name, size // ranks if dialect.by_rank else size, nodes, ranks)
                choice = line and line.choice
                took[size] = float(times[table.choices.index(choice)]) if choice in table.choices else math.inf
                if took[size] > float(times.min()) * (1 + self.tolerance):
                    words = f"must choose what was measured fastest, within {format_percent(self.tolerance)}"
                    raise InputError(words, field=f"{name} of {size} bytes", source=str(path))
            ranges = fewest_ranges(table.times, self.tolerance)
            yield f"{name}: {len(table.sizes)} measured sizes in {len(ranges)} ranges"
            exchange = _only_collective(schedule)
            if exchange and exchange.kind is kind and exchange.size in took:
                yield Replay(f"{dialect.reader}, as measured,", took[exchange.size], schedule.makespan)

    def _tables(self, schedule: Schedule) -> Mapping[CollectiveKind, TimeTable]:
        if not 0 <= self.node_dimensions <= len(schedule.instance.network.sizes):
            rule = "must be as many as there are dimensions, or less"
            raise InputError(rule, field="node_dimensions", value=self.node_dimensions)
        if not self.logs:
            rule = f"needs measured times: logs=FOLDER with outputs of nccl-tests such as {EXAMPLE}"
            raise InputError(rule, field="--to", value="nccl-tuner")
        if self.channels < TUNER_DIALECTS[self.dialect].one_channel:
            rule = "must be stated, as in the logs: channels=N"
            rule += "; NCCL's example plugin runs calls without it on one channel"
            raise InputError(rule, field="channels", value=self.channels)
        return measured_tables(Path(self.logs), schedule.instance.network.num_npus)


def measured_tables(folder: Path, ranks: int) -> Mapping[CollectiveKind, TimeTable]:
    """Measured times by collective, of all logs in a folder.

    Raises InputError if there are no logs, one of them says no algorithm or protocol, is of a group of another size, or
    a collective was measured in one way alone.
    """
    measured: dict[CollectiveKind, dict[NcclChoice, list[Measurement]]] = {}
    try:
        paths = sorted(entry for entry in folder.iterdir() if entry.is_file())
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", field="logs", value=str(folder)) from None
    for path in paths:
        log = read_log(Source(path))
        kind = log.measurements[0].kind
        if any(measurement.kind is not kind for measurement in log.measurements):
            raise log.source.error("must measure one collective: give each a log of its own")
        if kind not in TUNER_COLLECTIVES:
            raise log.source.error(f"NCCL has one way alone for it; measure {', '.join(TUNER_COLLECTIVES.values())}")
        if others := {measurement.num_npus for measurement in log.measurements} - {ranks}:
            raise log.source.error(f"must be measured on all {ranks} ranks of the schedule", "ranks", min(others))
        measured.setdefault(kind, {}).setdefault(_choice(log.source), []).extend(log.measurements)
    if not measured:
        raise InputError("holds no output of nccl-tests", field="logs", value=str(folder))
    return {kind: _table(folder, kind, measurements) for kind, measurements in measured.items()}


def _choice(source: Source) -> NcclChoice:
    """The choice that a log measured, from the words between the dots of its name."""
    words = source.path.name.lower().split(".")
    matches = [[word for word in words if word in known] for known in (TUNER_ALGORITHMS, PROTOCOLS)]
    if [len(group) for group in matches] != [1, 1]:
        algorithms, protocols = ", ".join(TUNER_ALGORITHMS), ", ".join(PROTOCOLS)
        rule = f"its name must say the one algorithm ({algorithms}) and protocol ({protocols}) that were measured"
        raise source.error(f"{rule}, such as {EXAMPLE}")
    return matches[0][0], matches[1][0]


def _table(folder: Path, kind: CollectiveKind, measured: Mapping[NcclChoice, Sequence[Measurement]]) -> TimeTable:
    """The median times of all sizes that were measured in more than one way."""
    choices = tuple(sorted(measured))
    sizes = sorted({measurement.size for log in measured.values() for measurement in log})
    times = np.full((len(sizes), len(choices)), math.inf)
    for place, size in enumerate(sizes):
        for number, choice in enumerate(choices):
            if took := [measurement.time for measurement in measured[choice] if measurement.size == size]:
                times[place, number] = np.median(took)
    kept = np.isfinite(times).sum(axis=1) > 1
    if not kept.any():
        rule = "must have sizes measured with two algorithms or protocols, or there is nothing to choose from"
        raise InputError(rule, field=TUNER_COLLECTIVES[kind], source=str(folder))
    return TimeTable(tuple(size for size, is_kept in zip(sizes, kept, strict=True) if is_kept), choices, times[kept])


def _only_collective(schedule: Schedule) -> Exchange | None:
    """The collective of a schedule of one without compute."""
    return schedule.launched[0] if len(schedule.launched) == 1 and not schedule.has_period else None


class TunerRule(NamedTuple):
    """A line of the file; of sizes by rank those of one rank.  -1 stands for any number of nodes or ranks."""

    collective: str
    min_bytes: int
    max_bytes: int
    choice: NcclChoice
    channels: int
    nodes: int
    ranks: int


INTERVAL = re.compile(r"([\[(])(\d*),(\d*)([\])])")
OUTSIDE_INTERVALS = re.compile(r",(?![^\[(]*[\])])")


def read_rules(path: Path, dialect: TunerDialect) -> list[TunerRule]:
    """Read a configuration strictly: readers take words that they do not know for others, or skip the line.

    Raises InputError if a line is none.
    """
    source, names = Source(path), dialect.columns.split(",")
    rules = []
    for number, line in source.lines:
        field = f"line {number}"
        if dialect.longest_line and len(line) > dialect.longest_line:
            raise source.error(f"must have at most {dialect.longest_line} characters", field, len(line))
        if line.startswith("#"):
            continue
        words = [word.strip() for word in OUTSIDE_INTERVALS.split(line)]
        if not dialect.fewest <= len(words) <= len(names):
            raise source.error(f"must have {dialect.fewest} to {len(names)} fields", field, len(words))
        row = dict(zip(names, words, strict=False))
        name, (low, high) = words[0], _sizes(source, row, field)
        for value, known in ((name, TUNER_COLLECTIVES.values()), (row["algorithm"], TUNER_ALGORITHMS),
                             (row["protocol"], PROTOCOLS)):  # fmt: skip
            source.choice(value, dict.fromkeys(known, True), field)
        channels, nodes, ranks = _whole(source, [row["channels"], *words[dialect.fewest - 2 : dialect.fewest]], field)
        ranks = ranks * nodes if dialect.by_rank else ranks
        rules.append(TunerRule(name, low, high, (row["algorithm"], row["protocol"]), channels, nodes, ranks))
    return rules


def _sizes(source: Source, row: Mapping[str, str], field: str) -> tuple[int, int]:
    """The smallest and the largest size of a line."""
    if "min_bytes" in row:
        low, high = _whole(source, [row["min_bytes"], row["max_bytes"]], field)
        return low, high
    interval = INTERVAL.fullmatch(row["bytesPerRank"])
    if interval is None:
        raise source.error("sizes must be an interval such as [0,4096)", field, row["bytesPerRank"])
    opening, first, last, closing = interval.groups()
    low, high = int(first or 0), int(last or LARGEST_CALL)
    return low + (opening == "("), high - (closing == ")" and bool(last))


def _whole(source: Source, words: Sequence[str], field: str) -> list[int]:
    with reading(field, ",".join(words), "sizes, channels, nodes and ranks must be whole numbers", source):
        return [int(word) for word in words]


def chosen(rules: Sequence[TunerRule], collective: str, size: int, nodes: int, ranks: int) -> TunerRule | None:
    """The line for a call: the first one that matches; None where none does."""
    for rule in rules:
        is_group = rule.nodes in (-1, nodes) and rule.ranks in (-1, ranks)
        if rule.collective == collective and rule.min_bytes <= size <= rule.max_bytes and is_group:
            return rule
    return None

"""Output of nccl-tests and rccl-tests, as text, JSON or CSV, and of nccom-test: measured times of collectives.

The text is a table behind ``#``: size (bytes), count, type, redop, root, and for out of place and in place each time
(microseconds), algbw and busbw (10^9 bytes per second); before it one line per rank with its group, of which
``NCCL_TESTS_SPLIT`` makes several.  ``-I`` adds columns, which are passed over.  What launchers write before each line
(``[1,0]<stdout>:`` of mpirun, ``0:`` of srun) and indentation are passed over, too.

rccl-tests (``-Z json``, ``-Z csv``) writes a row for each size and place.  Where a log lists no ranks, busbw over algbw
tells how many there are, or the name of the file (``all_reduce.16ranks.log``): nccom-test of Neuron says neither the
collective nor the ranks.
Source: https://github.com/NVIDIA/nccl-tests, ``src/util.cu`` (2.19.6); https://github.com/ROCm/rccl-tests;
https://awsdocs-neuron.readthedocs-hosted.com, ``nccom-test``.

The size is the larger buffer of one GPU, as ours; ``sendrecv`` sends to the next GPU.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

from themis_opt.base.documents import parse_json
from themis_opt.base.errors import InputError
from themis_opt.base.sources import Source
from themis_opt.base.units import PICOSECONDS_PER_MICROSECOND
from themis_opt.formats.calibration import Measurement
from themis_opt.formats.readers.measurements import Log, calibrated, collective
from themis_opt.formats.readers.parts import Part, Reader
from themis_opt.problem.phases import CollectiveKind

TESTS = "all_reduce|all_gather|reduce_scatter|alltoall|broadcast|reduce|sendrecv"
TEST_PROGRAM = re.compile(rf"(?<![a-zA-Z_])({TESTS})(?:_perf)?(?:_mpi)?(?![a-zA-Z_])")
NAMED_COLLECTIVES = re.compile(rf"(?<![a-zA-Z])({TESTS})(?![a-zA-Z])")  # in the name of a file
STARTING = re.compile(r"Collective test starting:\s*(\w+?)(?:_perf)?(?:_mpi)?\s*$", re.MULTILINE)
RUN = re.compile(rf"\b({TESTS}|hypercube)_perf(?:_mpi)?\b")
RANKS_IN_NAME = re.compile(r"(?<![0-9])([1-9][0-9]{0,6})(?:ranks|gpus|npus)\b")
DEVICE_LIST = re.compile(r"Using devices")
TABLE_HEAD = re.compile(r"(?:^|#)\s*size(?:\(B\))?\s+count(?:\(elems\))?\s+type", re.MULTILINE)
FAILED = re.compile(r"#\s*Out of bounds values\s*:\s*\d+\s+FAILED")
WHOLE_NUMBER = re.compile(r"\d{1,18}|\d{1,3}(?:,\d{3}){1,6}")
TIME_NUMBER = re.compile(r"\d[\d,]*(?:\.\d*)?(?:[eE][-+]?\d{1,3})?")
ANSI_CODES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
DEVICE_LINE = re.compile(r"\bRank\s+(\d{1,9})(?:\s+Group\s+(\d{1,9}))?\s+Pid(?:.{0,200}?\bon\s+(\S{1,255})\s+device)?")
LOG_COLUMNS = ("size", "count", "type")
LAUNCHER_TAG = re.compile(
    r"^[ \t]*(?:\[[^\]\n]{1,60}\](?:<\w{1,9}>)?:?|\d{1,9}:|\([^()\n]{1,80}\)(?=[ \t])"
    r"|\d{4}-\d\d-\d\d[T ][\d:.]{5,20}Z?(?=[ \t]))?[ \t]*"
)
PLACES = ("out of place", "in place")
RIGHT = ("0", "0.0", "N/A")
MOST_RANKS_BY_BANDWIDTH = 64  # beyond which two printed digits do not tell ranks apart
LAST_DIGIT = 0.02  # GB/s: what rounding moves in busbw and algbw
RCCL_FIELDS = ("name", "gpus", "size", "inPlace", "time")


def _recognizes(source: Source) -> bool:
    if {"config", "results"} <= source.keys():
        return True
    if all(name in source.head for name in RCCL_FIELDS) and "algBw" in source.head:
        return True
    lines = (_untagged(line) for line in source.head.splitlines())
    return "busbw" in source.head and any(TABLE_HEAD.match(line) for line in lines)


def _untagged(line: str) -> str:
    """A line without what a launcher wrote before it."""
    return LAUNCHER_TAG.sub("", ANSI_CODES.sub("", line), count=1)


def _read(sources: Sequence[Source]) -> Part:
    logs = [read_log(source) for source in sources]
    part = calibrated(logs, "nccl-tests")
    notes = [*(note for log in logs for note in log.notes), *part.notes]
    for source in sources:
        hosts = Counter(host for _, _, host in DEVICE_LINE.findall(source.text) if host)
        if len(hosts) > 1 and max(hosts.values()) > 1 and "Group  1" not in source.text:
            notes.append(
                f"{source.path.name} is of {sum(hosts.values())} GPUs on {len(hosts)} hosts, and becomes one ring: "
                "give one log within a host and one of a GPU per host, and both are dimensions."
            )
    return replace(part, notes=tuple(notes))


def read_log(source: Source) -> Log:
    """The measurements of a log; rows that are not whole, or whose results are wrong, do not count, and notes say so.

    Raises InputError if a line is none of the format, or nothing is measured.
    """
    rows = _Rows(source)
    is_json = {"config", "results"} <= source.keys()
    measured = (_from_json if is_json else _from_rccl if "inPlace" in source.head else _from_text)(rows)
    log = Log(source, tuple(measured), rows.notes)
    if not log.measurements:
        raise source.error("; ".join(("holds no measured time", *log.notes)))
    return log


class LogRow(NamedTuple):
    """A line that was measured: the words or numbers of a size, of times and of bandwidths, by buffers."""

    field: str
    size: int
    cells: Sequence[tuple[str, Mapping[str, Any]]]  # place, and the values that stand there


class RankGroup(NamedTuple):
    """GPUs that took part together, and their hosts; 0 where these are not known or have not as many GPUs each."""

    npus: int
    hosts: int = 0


class _Rows:
    """The rows of a log, and what of them does not count."""

    def __init__(self, source: Source) -> None:
        self.source, self.torn, self.wrong = source, 0, 0

    def measurements(
        self, rows: Sequence[LogRow], kind: CollectiveKind, group: RankGroup | None
    ) -> Iterator[Measurement]:
        """Times of the rows that are whole and right."""
        group = group or _group_by_bandwidth(self.source, kind, rows)
        for row in rows:
            for place, values in row.cells:
                time = values.get("time")
                if not row.size or time == "N/A":
                    continue
                if isinstance(time, str) and not TIME_NUMBER.fullmatch(time):
                    self.torn += 1
                elif str(values.get("#wrong", 0)) not in RIGHT:
                    self.wrong += 1
                else:
                    try:
                        microseconds = float(time)  # type: ignore[arg-type]  # whatever stands there
                    except (TypeError, ValueError, OverflowError):
                        raise self.source.error("must be a time in microseconds", row.field, time) from None
                    taken = self.source.number(microseconds, row.field, least=1e-6, most=1e12)
                    picoseconds = taken * PICOSECONDS_PER_MICROSECOND
                    yield Measurement(kind, row.size, group.npus, picoseconds, group.hosts, place=place)

    @property
    def notes(self) -> tuple[str, ...]:
        """Rows that do not count."""
        name = self.source.path.name
        wrong = [f"{name}: {self.wrong} results are wrong (#wrong), and do not count"] if self.wrong else []
        rows = "1 row is" if self.torn == 1 else f"{self.torn} rows are"
        torn = [f"{name}: {rows} not whole, and left out"] if self.torn else []
        has_failed = FAILED.search(self.source.text) is not None and not self.wrong
        failed = [f"{name} says that results are wrong (FAILED), but not which"] if has_failed else []
        return (*wrong, *failed, *torn)


def _from_text(rows: _Rows) -> Iterator[Measurement]:
    """The tables of a text, each with the collective and the ranks that stand before it."""
    lines = [(number, _untagged(line)) for number, line in rows.source.lines]
    marks = [[place for place, (_, line) in enumerate(lines) if mark.search(line)] for mark in (STARTING, DEVICE_LIST)]
    cuts = [0, *(marks[0] or marks[1])[1:], len(lines)]
    devices: list[tuple[str, str, str]] = []
    for begin, end in pairwise(cuts):
        table = lines[begin:end]
        text = "\n".join(line for _, line in table)
        devices = DEVICE_LINE.findall(text) or devices
        if TABLE_HEAD.search(text):
            group = _group(rows.source, devices) if devices else None
            yield from rows.measurements(list(_rows_of_table(rows, table)), _kind(rows.source, text), group)


def _rows_of_table(rows: _Rows, lines: Sequence[tuple[int, str]]) -> Iterator[LogRow]:
    columns: list[str] = []
    for number, line in lines:
        words = line.removeprefix("#").split()
        names = [word.partition("(")[0] for word in words]
        is_heading = tuple(names[: len(LOG_COLUMNS)]) == LOG_COLUMNS
        if is_heading:
            columns = names
            if "cputime" in words:
                rule = "holds the time of the CPU (-C 1), which is not that of the collective"
                raise rows.source.error(rule, f"line {number}")
        units = words if words[:1] == ["(B)"] else []
        if (is_heading and not {"time", "time(us)"} & {*words}) or (columns and units and "(us)" not in units):
            raise rows.source.error("times must be in microseconds, (us)", f"line {number}")
        is_row = columns and not line.startswith("#") and words and WHOLE_NUMBER.fullmatch(words[0])
        if is_row and (row := _row_of_line(rows, number, columns, words)):
            yield row


def _row_of_line(rows: _Rows, number: int, columns: Sequence[str], words: Sequence[str]) -> LogRow | None:
    """The row of a line: values from each column of times on; none if it is torn."""
    if columns[-1] == "timestamp" and len(words) == len(columns) + 1:  # a day and a time
        words = words[:-1]
    if len(words) != len(columns):
        rows.torn += len(words) > 1 and WHOLE_NUMBER.fullmatch(words[1]) is not None  # no line of another kind
        return None
    size = rows.source.whole(int(words[0].replace(",", "")[:18]), f"line {number}")
    starts = [k for k, name in enumerate(columns) if name == "time"]
    cells = []
    for place, begin, end in zip(PLACES, starts, [*starts[1:], len(columns)], strict=False):
        values = (word.replace(",", "") for word in words[begin:end])
        cells.append((place, dict(zip(columns[begin:end], values, strict=True))))
    return LogRow(f"line {number}", size, cells)


def _from_json(rows: _Rows) -> Iterator[Measurement]:
    """The results of nccl-tests with ``-J``."""
    source = rows.source
    document = source.json_object()
    words = document.get("args")
    kind = _kind(source, " ".join(word for word in words if isinstance(word, str)) if isinstance(words, list) else "")
    config = document.get("config")
    devices = source.objects(config.get("devices") if isinstance(config, dict) else None, "config.devices")
    listed = [(device.get("rank"), device.get("group", 0), device.get("hostname")) for device in devices]
    results = enumerate(source.objects(document.get("results"), "results"))
    read = [_result(source, row, f"results[{number}]") for number, row in results]
    yield from rows.measurements(read, kind, _group(source, listed) if len(listed) > 1 else None)


def _result(source: Source, row: Mapping[str, Any], field: str) -> LogRow:
    cells = []
    for place in PLACES:
        cell = row.get(place.replace(" ", "_"))
        if isinstance(cell, Mapping) and "time" in cell:
            names = {"alg_bw": "algbw", "bus_bw": "busbw", "nwrong": "#wrong"}
            cells.append((place, {names.get(str(name), str(name)): value for name, value in cell.items()}))
    return LogRow(field, source.whole(row.get("size"), f"{field}.size"), cells)


def _from_rccl(rows: _Rows) -> Iterator[Measurement]:
    """The rows of rccl-tests: objects of JSON, one a line or in a list, or lines of CSV."""
    source = rows.source
    if source.head.lstrip().startswith("["):
        objects = list(enumerate(source.document or (), start=1))
    elif source.head.lstrip().startswith("{"):
        objects = [(number, _parsed(source, number, line)) for number, line in source.lines]
    else:
        heading, *lines = source.lines
        columns = heading[1].split(",")
        objects = [(number, dict(zip(columns, line.split(","), strict=False))) for number, line in lines]
    for number, row in objects:
        field = f"line {number}"
        if any(source.mapping(row, field).get(name) is None for name in RCCL_FIELDS):
            rows.torn += 1
            continue
        values = {str(name).lower(): value for name, value in row.items()}
        place = PLACES[str(row["inPlace"]) not in ("0", "False")]
        size, npus = (_number(source, row[name], f"{field}.{name}") for name in ("size", "gpus"))
        if npus < 2:
            raise source.error("must be two ranks or more", f"{field}.gpus", npus)
        kind = collective(source, str(row["name"]), f"{field}.name")
        yield from rows.measurements([LogRow(field, size, [(place, values)])], kind, RankGroup(npus))


def _parsed(source: Source, number: int, line: str) -> Any:
    try:
        return parse_json(line, str(source.path))
    except InputError:
        return {} if number == source.lines[-1][0] else None


def _number(source: Source, value: Any, field: str) -> int:
    return source.whole(int(value) if isinstance(value, str) and WHOLE_NUMBER.fullmatch(value) else value, field)


def _kind(source: Source, text: str) -> CollectiveKind:
    """The collective: of the line that says so, else of a program that ran, of the file, or of any word."""
    for pattern, where in ((STARTING, text), (RUN, text), (NAMED_COLLECTIVES, source.path.name), (TEST_PROGRAM, text)):
        if match := pattern.search(where):
            return collective(source, match[1], "program")
    rule = "does not say which collective it measures: name the file after it, and after ranks that it does not list"
    raise source.error(f"{rule}, such as all_reduce.16ranks.log")


def _group_by_bandwidth(source: Source, kind: CollectiveKind, rows: Sequence[LogRow]) -> RankGroup:
    """The GPUs that the name of the file says, or busbw over algbw of the fastest row: n phases of (P - 1) / P."""
    if match := RANKS_IN_NAME.search(source.path.name):
        return RankGroup(source.whole(int(match[1]), "ranks in the name", least=2))
    pairs = [
        (float(values["algbw"]), float(values["busbw"]))
        for row in rows
        for _, values in row.cells
        if all(re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,20})?", str(values.get(name))) for name in ("algbw", "busbw"))
    ]
    algorithm, bus = max(pairs, default=(0.0, 0.0))
    phases = len(kind.rule.phases)
    missing = phases - bus / algorithm if algorithm else 0.0
    npus = round(phases / missing) if missing > phases / MOST_RANKS_BY_BANDWIDTH else 0
    if npus >= 2 and abs(float(kind.rule.bus_share(npus)) * algorithm - bus) <= LAST_DIGIT:
        return RankGroup(npus)
    rule = (
        "must list two ranks or more, each once, or have a name that says how many, such as "
        f"{kind.value}.16ranks.log: the size of a group is not known"
    )
    raise source.error(rule, "Rank")


def _group(source: Source, devices: Sequence[tuple[Any, Any, Any]]) -> RankGroup:
    """The GPUs of a group, which are as many in all groups."""
    ranks = [str(rank) for rank, *_ in devices]
    if len(ranks) < 2 or len(set(ranks)) < len(ranks):
        rule = "must list two ranks or more, each once: without them the size of a group is not known"
        raise source.error(rule, "Rank")
    missing = sorted({str(rank) for rank in range(len(ranks))} - set(ranks), key=int)
    if missing:
        rule = f"must list all ranks from 0 on: {missing[0]} is missing, and the size of a group is not known"
        raise source.error(rule, "Rank")
    groups = [str(group or 0) for _, group, _ in devices]
    sizes = {groups.count(group) for group in set(groups)}
    if len(sizes) > 1 or sizes == {1}:
        raise source.error("must have two ranks or more each, and as many as the others", "Group", sorted(sizes))
    on_hosts = Counter((str(group or 0), str(host or "")) for _, group, host in devices)
    hosts = set(Counter(group for group, _ in on_hosts).values())
    is_known = all(host for _, host in on_hosts) and len(hosts) == len(set(on_hosts.values())) == 1
    return RankGroup(sizes.pop(), hosts.pop() if is_known else 0)


READER = Reader("times measured by nccl-tests, one file per dimension", (), _recognizes, _read)

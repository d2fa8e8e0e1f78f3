"""Output of nccl-tests, as text or as JSON (``-J``): measured times of collectives on groups of GPUs.

The text is a table behind ``#``: size (bytes), count, type, redop, root, and for out of place and in place each time
(microseconds), algbw and busbw (10^9 bytes per second); before it one line per rank with its group, of which
``NCCL_TESTS_SPLIT`` makes several.  ``-I`` adds columns, which are passed over.  What launchers write before each line
(``[1,0]<stdout>:`` of mpirun, ``0:`` of srun) and indentation are passed over, too.
Source: https://github.com/NVIDIA/nccl-tests, ``src/util.cu`` (2.19.6).

The size is the larger buffer of one GPU, as ours.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

from themis_opt.base.sources import Source
from themis_opt.base.units import PICOSECONDS_PER_MICROSECOND
from themis_opt.formats.calibration import Measurement
from themis_opt.formats.readers.measurements import Log, calibrated, collective
from themis_opt.formats.readers.parts import Part, Reader
from themis_opt.problem.phases import CollectiveKind

PROGRAM = re.compile(r"\b(all_reduce|all_gather|reduce_scatter|alltoall|broadcast|reduce)(?:_perf)?(?:_mpi)?\b")
STARTING = re.compile(r"Collective test starting:\s*(\w+?)(?:_perf)?(?:_mpi)?\s*$", re.MULTILINE)
RUN = re.compile(
    r"\b(all_reduce|all_gather|reduce_scatter|alltoall|broadcast|reduce|sendrecv|hypercube)_perf(?:_mpi)?\b"
)
DEVICE_LIST = re.compile(r"Using devices")
TABLE_HEAD = re.compile(r"(?:^|#)\s*size\s+count\s+type", re.MULTILINE)
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


def _recognizes(source: Source) -> bool:
    if {"config", "results"} <= source.keys():
        return True
    lines = (_untagged(line) for line in source.head.splitlines())
    return "busbw" in source.head and any(TABLE_HEAD.match(line) for line in lines)


def _untagged(line: str) -> str:
    """A line without what a launcher wrote before it."""
    return LAUNCHER_TAG.sub("", ANSI_CODES.sub("", line), count=1)


def _read(sources: Sequence[Source]) -> Part:
    logs = [read_log(source) for source in sources]
    part = calibrated(logs, "nccl-tests")
    notes = [note for source in sources if (note := _on_hosts(source))]
    return replace(part, notes=(*(note for log in logs for note in log.notes), *part.notes, *notes))


def _on_hosts(source: Source) -> str:
    """What is lost where one log is of several GPUs on each of several hosts; empty where it is not."""
    hosts = Counter(host for _, _, host in DEVICE_LINE.findall(source.text) if host)
    if len(hosts) < 2 or max(hosts.values()) < 2 or "Group  1" in source.text:
        return ""
    return (
        f"{source.path.name} is of {sum(hosts.values())} GPUs on {len(hosts)} hosts, and becomes one ring: "
        "give one log within a host and one of a GPU per host, and both are dimensions."
    )


def read_log(source: Source) -> Log:
    """The measurements of a log; rows that are not whole, or whose results are wrong, do not count, and notes say so.

    Raises InputError if a line is none of the format, or nothing is measured.
    """
    if source.head.lstrip().startswith("{"):
        log = Log(source, tuple(_from_json(source)))
    else:
        table = _TextLog(source)
        log = Log(source, tuple(table.measurements()), table.notes)
    if not log.measurements:
        raise source.error("; ".join(("holds no measured time", *log.notes)))
    return log


class _TextLog:
    """The tables of a text, each with the collective and the ranks that stand before it."""

    def __init__(self, source: Source) -> None:
        self.source, self.torn, self.wrong = source, 0, 0

    def measurements(self) -> Iterator[Measurement]:
        """Times of the rows that are whole and right."""
        lines = [(number, _untagged(line)) for number, line in self.source.lines]
        marks = [
            [place for place, (_, line) in enumerate(lines) if mark.search(line)] for mark in (STARTING, DEVICE_LIST)
        ]
        cuts = [0, *(marks[0] or marks[1])[1:], len(lines)]
        devices: list[tuple[str, str, str]] = []
        for begin, end in pairwise(cuts):
            table = lines[begin:end]
            text = "\n".join(line for _, line in table)
            devices = DEVICE_LINE.findall(text) or devices
            if TABLE_HEAD.search(text):
                yield from self._of_table(table, _kind(self.source, text), _group(self.source, devices))

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

    def _of_table(
        self, lines: Sequence[tuple[int, str]], kind: CollectiveKind, group: "Group"
    ) -> Iterator[Measurement]:
        columns: list[str] = []
        for number, line in lines:
            words = line.removeprefix("#").split()
            if tuple(words[: len(LOG_COLUMNS)]) == LOG_COLUMNS:
                columns = words
                if "cputime" in words:
                    rule = "holds the time of the CPU (-C 1), which is not that of the collective"
                    raise self.source.error(rule, f"line {number}")
            elif columns and words[:1] == ["(B)"] and "(us)" not in words:
                raise self.source.error("times must be in microseconds, (us)", f"line {number}")
            elif columns and not line.startswith("#") and words and WHOLE_NUMBER.fullmatch(words[0]):
                yield from self._of_row(number, columns, words, kind, group)

    def _of_row(
        self, number: int, columns: Sequence[str], words: Sequence[str], kind: CollectiveKind, group: "Group"
    ) -> Iterator[Measurement]:
        """The measurements of a line: one per column of times; none of an empty message."""
        if columns[-1] == "timestamp" and len(words) == len(columns) + 1:  # a day and a time
            words = words[:-1]
        if len(words) != len(columns):
            self.torn += 1
            return
        size = self.source.whole(int(words[0].replace(",", "")[:18]), f"line {number}")
        cells = list(zip(columns, words, strict=True))
        places = iter(PLACES)
        for place, (name, word) in enumerate(cells):
            buffers = next(places, "") if name == "time" else ""
            if name != "time" or not size or word == "N/A":
                continue
            if not TIME_NUMBER.fullmatch(word):
                self.torn += 1
                continue
            wrong = next((value for column, value in cells[place:] if column == "#wrong"), "0")
            if wrong not in ("0", "N/A"):
                self.wrong += 1
                continue
            time = _picoseconds(self.source, word.replace(",", ""), f"line {number}")
            yield Measurement(kind, size, group.npus, time, group.hosts, place=buffers)


def _picoseconds(source: Source, time: Any, field: str) -> float:
    try:
        microseconds = float(time)
    except (TypeError, ValueError, OverflowError):
        raise source.error("must be a time in microseconds", field, time) from None
    return source.number(microseconds, field, least=1e-6, most=1e12) * PICOSECONDS_PER_MICROSECOND


def _from_json(source: Source) -> Iterator[Measurement]:
    document = source.json_object()
    words = document.get("args")
    kind = _kind(source, " ".join(word for word in words if isinstance(word, str)) if isinstance(words, list) else "")
    devices = document["config"].get("devices") if isinstance(document.get("config"), dict) else None
    if not isinstance(devices, list) or not all(isinstance(device, dict) for device in devices):
        raise source.error("must be a list of devices", "config.devices")
    group = _group(source, [(device.get("rank"), device.get("group", 0), device.get("hostname")) for device in devices])
    results = document.get("results")
    if not isinstance(results, list):
        raise source.error("must be a list", "results")
    for number, row in enumerate(results):
        yield from _result(source, row, f"results[{number}]", kind, group)


def _result(source: Source, row: Any, field: str, kind: CollectiveKind, group: "Group") -> Iterator[Measurement]:
    if not isinstance(row, Mapping):
        raise source.error("must be an object", field)
    size = source.whole(row.get("size"), f"{field}.size")
    for place in PLACES:
        name = place.replace(" ", "_")
        cell = row.get(name)
        if isinstance(cell, Mapping) and size and "time" in cell:
            time = _picoseconds(source, cell["time"], f"{field}.{name}.time")
            yield Measurement(kind, size, group.npus, time, group.hosts, place=place)


def _kind(source: Source, text: str) -> CollectiveKind:
    """The collective: of the line that says so, else of a program that ran, of the file, or of any word."""
    for pattern, where in ((STARTING, text), (RUN, text), (PROGRAM, source.path.name), (PROGRAM, text)):
        if match := pattern.search(where):
            return collective(source, match[1], "program")
    rule = "does not say which collective it measures: name the file after it, such as all_reduce.txt"
    raise source.error(rule)


class Group(NamedTuple):
    """GPUs that took part together, and their hosts; 0 where these are not known or have not as many GPUs each."""

    npus: int
    hosts: int


def _group(source: Source, devices: Sequence[tuple[Any, Any, Any]]) -> Group:
    """The GPUs of a group, which are as many in all groups."""
    ranks = [str(rank) for rank, *_ in devices]
    if len(ranks) < 2 or len(set(ranks)) < len(ranks):
        raise source.error(
            "must list two ranks or more, each once: without them the size of a group is not known", "Rank"
        )
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
    return Group(sizes.pop(), hosts.pop() if is_known else 0)


READER = Reader("times measured by nccl-tests, one file per dimension", (), _recognizes, _read)

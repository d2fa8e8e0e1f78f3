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
from typing import Any

from themis_opt.base.sources import Source
from themis_opt.base.units import PICOSECONDS_PER_MICROSECOND
from themis_opt.formats.calibration import Measurement
from themis_opt.formats.readers.measurements import Log, calibrated, collective
from themis_opt.formats.readers.parts import Part, Reader
from themis_opt.problem.phases import CollectiveKind

PROGRAM = re.compile(r"\b(all_reduce|all_gather|reduce_scatter|alltoall|broadcast|reduce)(?:_perf)?(?:_mpi)?\b")
DEVICE_LINE = re.compile(r"#\s+Rank\s+(\d{1,9})(?:\s+Group\s+(\d{1,9}))?\s+Pid")
HOST_OF_RANK = re.compile(r"#\s+Rank\s+\d{1,9}\s.{0,200}?\bon\s+(\S{1,255})\s+device")
LOG_COLUMNS = ("size", "count", "type")
LAUNCHER_TAG = re.compile(r"^[ \t]*(?:\[[\d,]{1,20}\](?:<\w{1,9}>)?:?|\d{1,9}:)?[ \t]*")
PLACES = ("out_of_place", "in_place")


def _recognizes(source: Source) -> bool:
    if {"config", "results"} <= source.keys():
        return True
    lines = (_untagged(line) for line in source.head.splitlines())
    return "busbw" in source.head and any(re.match(r"#\s+size\s+count\s+type", line) for line in lines)


def _untagged(line: str) -> str:
    """A line without what a launcher wrote before it."""
    return LAUNCHER_TAG.sub("", line, count=1)


def _read(sources: Sequence[Source]) -> Part:
    part = calibrated([read_log(source) for source in sources], "nccl-tests")
    notes = [note for source in sources if (note := _on_hosts(source))]
    return replace(part, notes=(*part.notes, *notes))


def _on_hosts(source: Source) -> str:
    """What is lost where one log is of several GPUs on each of several hosts; empty where it is not."""
    hosts = Counter(HOST_OF_RANK.findall(source.text))
    if len(hosts) < 2 or max(hosts.values()) < 2 or "Group  1" in source.text:
        return ""
    return (
        f"{source.path.name} is of {sum(hosts.values())} GPUs on {len(hosts)} hosts, and becomes one ring: "
        "give one log within a host and one of a GPU per host, and both are dimensions."
    )


def read_log(source: Source) -> Log:
    """The measurements of a log, of one collective.

    Raises InputError if a line is none of the format, or nothing is measured.
    """
    measure = _from_json if source.head.lstrip().startswith("{") else _from_text
    measurements = tuple(measure(source))
    if not measurements:
        raise source.error("holds no measured time")
    return Log(source, measurements)


def _from_text(source: Source) -> Iterator[Measurement]:
    lines = [(number, _untagged(line)) for number, line in source.lines]
    kind, npus = _kind(source, source.text), _group(source, DEVICE_LINE.findall(source.text))
    columns: list[str] = []
    for number, line in lines:
        words = line.removeprefix("#").split()
        if line.startswith("#"):
            if tuple(words[: len(LOG_COLUMNS)]) == LOG_COLUMNS:
                columns = words
            elif columns and words[:1] == ["(B)"] and "(us)" not in words:
                raise source.error("times must be in microseconds, (us)", f"line {number}")
            continue
        if columns and words and words[0].isdigit():
            yield from _row(source, number, columns, words, kind, npus)


def _row(
    source: Source, number: int, columns: Sequence[str], words: Sequence[str], kind: CollectiveKind, npus: int
) -> Iterator[Measurement]:
    """The measurements of a line: one per column of times; none of an empty message."""
    if len(words) != len(columns):
        raise source.error(
            f"must have {len(columns)} columns, as the heading has", f"line {number}", f"{len(words)} columns"
        )
    size = source.whole(int(words[0][:18]), f"line {number}")
    for name, word in zip(columns, words, strict=True):
        if name == "time" and size and word != "N/A":
            yield _measured(source, kind, size, npus, word, f"line {number}")


def _measured(source: Source, kind: CollectiveKind, size: int, npus: int, time: Any, field: str) -> Measurement:
    try:
        microseconds = float(time)
    except (TypeError, ValueError, OverflowError):
        raise source.error("must be a time in microseconds", field, time) from None
    checked = source.number(microseconds, field, least=1e-6, most=1e12)
    return Measurement(kind, size, npus, checked * PICOSECONDS_PER_MICROSECOND)


def _from_json(source: Source) -> Iterator[Measurement]:
    document = source.json_object()
    words = document.get("args")
    kind = _kind(source, " ".join(word for word in words if isinstance(word, str)) if isinstance(words, list) else "")
    devices = document["config"].get("devices") if isinstance(document.get("config"), dict) else None
    if not isinstance(devices, list) or not all(isinstance(device, dict) for device in devices):
        raise source.error("must be a list of devices", "config.devices")
    npus = _group(source, [(device.get("rank"), device.get("group", 0)) for device in devices])
    results = document.get("results")
    if not isinstance(results, list):
        raise source.error("must be a list", "results")
    for number, row in enumerate(results):
        yield from _result(source, row, f"results[{number}]", kind, npus)


def _result(source: Source, row: Any, field: str, kind: CollectiveKind, npus: int) -> Iterator[Measurement]:
    if not isinstance(row, Mapping):
        raise source.error("must be an object", field)
    size = source.whole(row.get("size"), f"{field}.size")
    for place in PLACES:
        cell = row.get(place)
        if isinstance(cell, Mapping) and size and "time" in cell:
            yield _measured(source, kind, size, npus, cell["time"], f"{field}.{place}.time")


def _kind(source: Source, text: str) -> CollectiveKind:
    """The collective: of the program that the text or the file is named after."""
    match = PROGRAM.search(text) or PROGRAM.search(source.path.name)
    if match is None:
        rule = "does not say which collective it measures: name the file after it, such as all_reduce.txt"
        raise source.error(rule)
    return collective(source, match[1], "program")


def _group(source: Source, devices: Sequence[tuple[Any, Any]]) -> int:
    """GPUs of a group, which are as many in all groups."""
    ranks = [str(rank) for rank, _ in devices]
    if len(ranks) < 2 or len(set(ranks)) < len(ranks):
        raise source.error(
            "must list two ranks or more, each once: without them the size of a group is not known", "Rank"
        )
    missing = sorted({str(rank) for rank in range(len(ranks))} - set(ranks), key=int)
    if missing:
        rule = f"must list all ranks from 0 on: {missing[0]} is missing, and the size of a group is not known"
        raise source.error(rule, "Rank")
    groups = [str(group or 0) for _, group in devices]
    sizes = {groups.count(group) for group in set(groups)}
    if len(sizes) > 1 or sizes == {1}:
        raise source.error("must have two ranks or more each, and as many as the others", "Group", sorted(sizes))
    return sizes.pop()


READER = Reader("times measured by nccl-tests, one file per dimension", (), _recognizes, _read)

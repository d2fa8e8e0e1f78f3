"""Measured times, from logs of nccl-tests, the NCCL Inspector, PyTorch and ``run``.

Logs of rccl-tests look like those of nccl-tests.  Of PyTorch there are traces of its profiler, and the flight recorder
(``TORCH_NCCL_TRACE_BUFFER_SIZE``, ``TORCH_NCCL_ENABLE_TIMING=1``, as JSON), whose entries have sizes of tensors and a
``duration_ms``.  Source: https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from themis_opt.base.sources import Source
from themis_opt.base.units import PICOSECONDS_PER_SECOND
from themis_opt.formats.calibration import Measurement
from themis_opt.formats.readers import kineto, nccl_inspector, nccl_tests, traced_step
from themis_opt.problem.fields import MAX_BYTES
from themis_opt.problem.phases import CollectiveKind

PICOSECONDS_PER_MILLISECOND = 10**9


class MeasuredTime(NamedTuple):
    """A collective that somebody timed."""

    by: str  # the library, or the policy of a run
    measurement: Measurement
    file: str = ""  # the name of the log


class MeasuredStep(NamedTuple):
    """A training step that somebody timed, in picoseconds.

    `size`: bytes of its collectives; 0 where it is that of the iteration that it is compared with.
    """

    by: str
    time: float
    size: int = 0


def read_times(path: Path, note: Callable[[str], None] = lambda line: None) -> list[MeasuredTime]:
    """The collectives in a file; `note` hears what of it does not count.

    Raises InputError if it is no log that is known, or holds none.
    """
    source = Source(path)
    for reader in (nccl_tests, nccl_inspector):
        if reader.READER.recognizes(source):
            log = reader.read_log(source)
            for line in log.notes:
                note(line)
            by = "RCCL" if "rccl" in source.text[:10_000].lower() or "inPlace" in source.head else "NCCL"
            return [MeasuredTime(by, measurement, path.name) for measurement in log.measurements]
    for recognizes, read in _LOGS:
        if recognizes(source):
            times = list(read(source))
            if not times:
                raise source.error("holds no measured time")
            return [time._replace(file=path.name) for time in times]
    if source.data.startswith(b"\x80"):  # how a pickle begins, which would run code if it were read
        raise source.error("is a pickle: write a dump of the flight recorder as JSON", "--measured")
    known = "a log of nccl-tests or the NCCL Inspector, a trace or flight recorder of PyTorch"
    raise source.error(f"must be {known}, or execution.json of 'run'", "--measured")


def read_steps(path: Path) -> list[MeasuredStep]:
    """The training steps in a trace of PyTorch, or in the file of a run. Raises InputError if it is neither."""
    source = Source(path)
    if traced_step.READER.recognizes(source):
        step = traced_step.TrainingStep(source)
        return [MeasuredStep("your step", step.length, step.size)]
    if _is_run(source):
        return [MeasuredStep(name, time) for name, time in _rows_of_run(source)]
    raise source.error("must be a trace of the PyTorch profiler, or execution.json of 'themis-opt run'", "--measured")


def _from_trace(source: Source) -> Iterator[MeasuredTime]:
    for event in traced_step.TrainingStep(source).collectives:
        time = event.end - event.start
        yield MeasuredTime("PyTorch", Measurement(event.kind, event.size, event.npus, time, ranks=event.ranks))


def _from_recorder(source: Source) -> Iterator[MeasuredTime]:
    """The collectives of the flight recorder that have a duration, of groups whose ranks it lists."""
    document = source.json_object()
    groups = document["pg_config"] if isinstance(document["pg_config"], dict) else {}
    ranks = {name: _ranks(source, group) for name, group in groups.items()}
    for number, entry in enumerate(source.objects(document["entries"], "entries")):
        field, members = f"entries[{number}]", ranks.get(str(entry.get("pg_id")), ())
        kind = kineto.NCCL_KINDS.get(str(entry.get("profiling_name")).partition(":")[2])
        if kind is None or len(members) < 2 or not entry.get("duration_ms"):
            continue
        time = source.number(entry["duration_ms"], f"{field}.duration_ms", most=1e9)
        side = "output" if kind is CollectiveKind.ALL_GATHER else "input"
        shapes = zip(entry.get(f"{side}_sizes", ()), entry.get(f"{side}_dtypes", ()), strict=False)
        size = sum(_bytes(source, shape, dtype, f"{field}.{side}_sizes") for shape, dtype in shapes)
        if size:
            taken = time * PICOSECONDS_PER_MILLISECOND
            yield MeasuredTime("PyTorch", Measurement(kind, size, len(members), taken, ranks=members))


def _bytes(source: Source, shape: Any, dtype: Any, field: str) -> int:
    if not isinstance(shape, list) or len(shape) > 64:
        raise source.error("must be a list of sizes", field, shape)
    count = math.prod(source.whole(size, field, most=MAX_BYTES) for size in shape)
    return source.whole(count * source.choice(dtype, kineto.DTYPE_BYTES, field.replace("sizes", "dtypes")), field)


def _ranks(source: Source, group: Any) -> tuple[int, ...]:
    """Ranks of a group, written as a list or as its text."""
    ranks = group.get("ranks") if isinstance(group, dict) else None
    words = ranks if isinstance(ranks, list) else re.findall(r"-?\w+", str(ranks or ""))
    if not all(str(word).isdecimal() and len(str(word)) < 10 for word in words):
        raise source.error("must list ranks", "pg_config.ranks", ranks)
    return tuple(sorted({int(word) for word in words}))


def _is_run(source: Source) -> bool:
    return {"verdict", "rows"} <= source.keys()


def _from_run(source: Source) -> Iterator[MeasuredTime]:
    """The medians of a run of one collective."""
    what = source.json_object().get("collective")
    if not isinstance(what, dict):
        raise source.error("must be of one collective", "collective")
    kind = source.choice(what.get("kind"), {kind.value: kind for kind in CollectiveKind}, "collective.kind")
    size = source.whole(what.get("bytes"), "collective.bytes", least=1, most=MAX_BYTES)
    npus = source.whole(what.get("npus"), "collective.npus", least=2)
    return (MeasuredTime(name, Measurement(kind, size, npus, time)) for name, time in _rows_of_run(source))


def _rows_of_run(source: Source) -> Iterator[tuple[str, float]]:
    for number, row in enumerate(source.objects(source.json_object()["rows"], "rows")):
        seconds = source.number(row.get("measured_s"), f"rows[{number}].measured_s", least=1e-12, most=1e9)
        yield f"{row.get('policy')}, as it ran,", seconds * PICOSECONDS_PER_SECOND


_LOGS: Sequence[tuple[Callable[[Source], bool], Callable[[Source], Iterator[MeasuredTime]]]] = (
    (_is_run, _from_run),
    (lambda source: {"entries", "pg_config"} <= source.keys(), _from_recorder),
    (traced_step.READER.recognizes, _from_trace),
)

"""Lines of the NCCL Inspector (JSON): one measured collective each.

``header`` says ``n_ranks`` and ``nnodes``, ``coll_perf`` the collective, its bytes, its time in microseconds and its
``coll_algobw_gbs``.  The bytes of a reduce-scatter are those of its result, those of an all-gather of its input:
the algorithm bandwidth, which is of the larger buffer, tells whether to multiply them by the ranks.
Source: https://github.com/NVIDIA/nccl, ``ext-profiler/inspector/README.md`` (format v4.0).

Communicators within one node are the inner dimension, those of which every GPU is on another node the outer one;
others span both, and tell neither.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from themis_opt.base.sources import Source
from themis_opt.base.units import PICOSECONDS_PER_MICROSECOND
from themis_opt.formats.calibration import Measurement
from themis_opt.formats.readers.measurements import Log, calibrated, collective
from themis_opt.formats.readers.parts import Part, Reader, only
from themis_opt.problem.fields import MAX_BYTES
from themis_opt.problem.phases import CollectiveKind

INSPECTOR_FIELDS = ("coll", "coll_msg_size_bytes", "coll_exec_time_us")
MAX_LINE = 2**20  # bytes of a line
PROMETHEUS = "nccl_bus_bandwidth_gbs{"  # how lines for Prometheus begin
GROUP_TOLERANCE = 0.02  # of the algorithm bandwidth, which is computed from a time that is not rounded


def _read(sources: Sequence[Source]) -> Part:
    source = only(sources, "log of the inspector")
    log = read_log(source)
    inner = [one for one in log.measurements if one.hosts == 1]
    outer = [one for one in log.measurements if one.hosts == one.num_npus]
    mixed = len(log.measurements) - len(inner) - len(outer)
    logs = [Log(source, tuple(measurements)) for measurements in (inner, outer) if measurements]
    if not logs:
        raise source.error("holds no collective within a node, or between GPUs that are each on another node")
    part = calibrated(logs, "NCCL Inspector")
    more = (f"{mixed} collectives that span both dimensions tell neither.",) if mixed else ()
    return replace(part, notes=(*log.notes, *part.notes, *more))


def read_log(source: Source) -> Log:
    """The measurements, each with the nodes of its communicator; what does not count is noted.

    Raises InputError if a line breaks a rule; the last one may be cut off.
    """
    if PROMETHEUS in source.head:
        rule = "tells sizes by ranges alone: let the Inspector write JSON, with NCCL_INSPECTOR_PROM_DUMP=0"
        raise source.error(rule)
    last, _ = source.lines[-1]
    others: Counter[str] = Counter()
    measurements = tuple(_measured(source, last, others))
    notes = [f"{source.path.name}: {count} {what}, and left out" for what, count in others.items()]
    return Log(source, measurements, tuple(notes))


def _measured(source: Source, last: int, others: Counter[str]) -> Iterator[Measurement]:
    for number, line in source.lines:
        field = f"line {number}"
        if len(line) > MAX_LINE:
            raise source.error("is too long", field)
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            if number != last:
                raise source.error("must be a JSON object", field) from None
            others["line is cut off"] += 1
            continue
        if isinstance(row, dict) and "coll_perf" not in row and any(name.endswith("_perf") for name in row):
            others["sends and other records are no collectives"] += 1
            continue
        members = row if isinstance(row, dict) else {}
        header, perf = (source.mapping(members.get(name), f"{field}: {name}") for name in ("header", "coll_perf"))
        source.check_keys(perf, (*INSPECTOR_FIELDS, *perf), INSPECTOR_FIELDS, f"{field}: coll_perf")
        npus = source.whole(header.get("n_ranks"), f"{field}: header.n_ranks", least=1, most=10**9)
        nodes = source.whole(header.get("nnodes"), f"{field}: header.nnodes", least=1, most=10**9)
        name = perf["coll"] if isinstance(perf["coll"], str) else ""
        kind = collective(source, name, f"{field}: coll_perf.coll")
        size = source.whole(perf["coll_msg_size_bytes"], f"{field}: coll_perf.coll_msg_size_bytes", most=MAX_BYTES)
        time = source.number(perf["coll_exec_time_us"], f"{field}: coll_perf.coll_exec_time_us", most=1e12)
        if size and time and npus > 1:
            whole = size * _blocks(source, perf.get("coll_algobw_gbs"), size / time, npus, kind, field)
            yield Measurement(kind, whole, npus, time * PICOSECONDS_PER_MICROSECOND, 0 if npus % nodes else nodes)


def _blocks(source: Source, bandwidth: Any, rate: float, npus: int, kind: CollectiveKind, field: str) -> int:
    """How many times the bytes that are given the larger buffer has; `rate` is these bytes per microsecond."""
    if bandwidth is None:
        return npus if kind in (CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER) else 1
    given = source.number(bandwidth, f"{field}: coll_perf.coll_algobw_gbs")
    for blocks in (1, npus):
        if abs(given - blocks * rate / 1000) <= GROUP_TOLERANCE * given:
            return blocks
    rule = "must be bytes over time, or as many times as there are ranks"
    raise source.error(rule, f"{field}: coll_perf.coll_algobw_gbs", bandwidth)


READER = Reader(
    "collectives measured by the NCCL Inspector",
    (),
    lambda source: bool(
        PROMETHEUS in source.head or (re.search(r'"\w+_perf"', source.head) and '"header"' in source.head)
    ),
    _read,
)

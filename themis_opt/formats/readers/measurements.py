"""Networks from measured times: one dimension per file, innermost first, each by a robust fit."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from themis_opt.base.sources import Source
from themis_opt.base.units import format_short_size, format_short_time
from themis_opt.formats.calibration import Calibration, Measurement, calibrate
from themis_opt.formats.readers.parts import Part
from themis_opt.problem.documents import errors_of
from themis_opt.problem.network import Network
from themis_opt.problem.phases import CollectiveKind

LARGEST_TABLE = 60  # rows of measurements that are shown; files with more show the residuals that are farthest off


class Log(NamedTuple):
    """The measurements of one file, and what of it does not count."""

    source: Source
    measurements: tuple[Measurement, ...]
    notes: tuple[str, ...] = ()


MEASURED_KINDS = {
    "sendrecv" if kind is CollectiveKind.SEND else kind.value.replace("_", ""): kind for kind in CollectiveKind
}
"""Collectives by their name in small letters, without what joins its words."""


def collective(source: Source, name: str, field: str) -> CollectiveKind:
    """The collective of a name such as AllReduce, all_reduce or alltoall. Raises InputError if it is not among ours."""
    kind: CollectiveKind = source.choice(name.lower().replace("_", "").replace("-", ""), MEASURED_KINDS, field)
    return kind


def calibrated(logs: Sequence[Log], tool: str) -> Part:
    """The network that logs tell, with residuals.

    Raises InputError if a file tells no bandwidth or latency.

    `logs`: measurements of each dimension; all of a file are of groups of one dimension.
    `tool`: what measured them, for the notes.
    """
    fits: dict[str, Calibration] = {}
    dimensions = []
    for number, log in enumerate(logs, start=1):
        name = f"dim{number}"
        with errors_of(log.source.path):
            fits[name] = calibrate(log.measurements)
        npus = max(measurement.num_npus for measurement in log.measurements)
        dimensions.append(fits[name].dimension(npus, name=name, source=f"calibrated: {log.source.path.name}"))
    notes = [
        f"{tool}: GB/s are 10^9 bytes per second; one dimension per file, innermost first, taken for a ring; what the "
        "times do not tell apart from latency is latency."
    ]
    notes += [f"{name}: {warning}." for name, fit in fits.items() for warning in fit.warnings]
    tables: dict[str, list[dict[str, str]]] = {"measured": _groups(logs)}
    tables |= {f"{name}: fit": fit.values() for name, fit in fits.items()}
    for name, fit in fits.items():  # all, or those with the largest residuals, in their order
        farthest = sorted(np.argsort(-np.abs(fit.residuals), kind="stable")[:LARGEST_TABLE].tolist())
        rows = fit.rows()
        tables[f"{name}: measured against fitted"] = [rows[k] for k in farthest]
    sentences = []
    for name, fit in fits.items():
        row, one = max(zip(fit.rows(), fit.measurements, strict=True), key=lambda pair: pair[1].size)
        what = f"{one.kind.value} of {format_short_size(one.size)} among {one.num_npus} NPUs takes {row['measured']}"
        sentences.append(f"{what}, as measured; {name}, a ring that is fitted to all times, takes {row['fitted']}.")
    return Part(
        network=Network(name=tool, dimensions=tuple(dimensions)),
        notes=tuple(notes),
        tables=tables,
        judge=lambda _: (tuple(sentences), {}),
    )


def _groups(logs: Sequence[Log]) -> list[dict[str, str]]:
    """What was measured of whom: a row for each file, collective, group and place."""
    groups: dict[tuple[str, ...], list[Measurement]] = {}
    for number, log in enumerate(logs, start=1):
        for one in log.measurements:
            hosts = (str(one.hosts), str(one.num_npus // one.hosts)) if one.hosts else ("not known", "not known")
            collective = f"{one.kind.value} {one.place}".strip()
            key: tuple[str, ...] = (f"dim{number}", log.source.path.name, collective, str(one.num_npus), *hosts)
            groups.setdefault(key, []).append(one)
    names = ("dimension", "file", "collective", "ranks", "hosts", "GPUs per host")
    rows = []
    for key, measurements in groups.items():
        sizes = [format_short_size(edge(one.size for one in measurements)) for edge in (min, max)]
        span = format_short_time(sum(one.time for one in measurements))
        counts = {"times": str(len(measurements)), "bytes": " to ".join(dict.fromkeys(sizes)), "span": span}
        rows.append(dict(zip(names, key, strict=True)) | counts)
    return rows

"""Schedules for tools that run or show them: exporters by name, and what one writes in a folder."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from themis_opt.base.documents import make_folder, read_bytes, write_atomically
from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.base.registries import Registry
from themis_opt.base.units import format_percent, format_short_time
from themis_opt.policies.registry import knobs_of
from themis_opt.schedules.schedule import Schedule

EXPORTS = Registry(
    "themis_opt.exports",
    {
        "astra-sim": "themis_opt.formats.astra_sim.exporter:AstraSim",
        "msccl": "themis_opt.formats.msccl.exporter:Msccl",
        "mscclpp": "themis_opt.formats.msccl.plus:MscclPlus",
        "nccl-tuner": "themis_opt.formats.nccl_tuner:NcclTuner",
        "fjsp": "themis_opt.formats.job_shop:FlexibleJobShop",
        "model": "themis_opt.formats.solver_models:SolverModel",
        "order": "themis_opt.formats.flat_exports:RowOrder",
        "csv": "themis_opt.formats.flat_exports:Csv",
        "trace": "themis_opt.formats.flat_exports:Trace",
    },
)
"""Exporters: frozen dataclasses whose fields are their knobs, as those of policies are."""


LARGEST_DIFFERENCE = 0.005  # by how much of the planned time files may take longer or shorter before that is said first


class Replay(NamedTuple):
    """The time of files by the rules of who reads them, and the time that was planned, in picoseconds."""

    reader: str
    took: float
    planned: float

    @property
    def difference(self) -> float:
        """By how much of the planned time the files take longer."""
        return self.took / self.planned - 1

    @property
    def differs(self) -> bool:
        """Whether the difference must be said first."""
        return abs(self.difference) > LARGEST_DIFFERENCE

    def __str__(self) -> str:
        took, planned = map(format_short_time, (self.took, self.planned))
        way = "longer" if self.difference > 0 else "shorter"
        beside = f"{format_percent(abs(self.difference))} {way} than the schedule, {planned}"
        words = "as the schedule" if self.took == self.planned else beside
        return f"by the rules of {self.reader} the files take {took}, {words}"


Fact = str | Replay  # a sentence about checked files, or their time


class Exported(NamedTuple):
    """What was written: files, checked facts of them, and notes for their users."""

    files: Sequence[Path]
    facts: Sequence[str] = ()
    notes: Sequence[str] = ()


def in_sentences(facts: Iterable[Fact]) -> list[str]:
    """Facts of checked files as sentences, those first that tell of another time than the planned one."""
    return [str(fact) for fact in sorted(facts, key=lambda fact: isinstance(fact, str) or not fact.differs)]


class Exporter(Protocol):
    """Writes a schedule in a format."""

    endings: ClassVar[tuple[str, ...]]
    """Of the names of its files."""

    note: ClassVar[str]
    """The one note of an exporter that always has the same."""

    def files(self, schedule: Schedule) -> Iterator[tuple[str, str | bytes]]:
        """Names and contents, one at a time, so that large exports need not fit in memory."""

    def notes(self, schedule: Schedule) -> Iterator[str]:
        """Notes for users of the files, a sentence each."""
        yield self.note

    def check(self, schedule: Schedule, folder: Path) -> Iterator[Fact]:
        """Checked facts of the files in a folder; raises an error where one does not hold.

        Files that somebody runs are replayed by the rules of that reader, and their time is one of the facts.  Others
        are compared with those that are written.
        """
        for name, content in self.files(schedule):
            if read_bytes(folder / name, "regular") != (content.encode() if isinstance(content, str) else content):
                raise InvalidSchedule("file", "differs from that of the schedule", source=str(folder / name))
            yield f"{name}: that of the schedule"


def make_exporter(specification: str) -> Exporter:
    """The exporter that ``format[:knob=value...]`` describes, such as ``msccl:dialect=rccl``.

    Raises InputError if the format, a knob or its value is unknown.
    """
    name, *settings = specification.split(":")
    if name not in EXPORTS:
        raise InputError(f"unknown format; use one of {', '.join(EXPORTS)}", field="--to", value=name)
    kind: Any = EXPORTS.load(name)
    is_exporter = is_dataclass(kind)  # asked here, it would make mypy forget how to call it
    if not is_exporter:
        raise InputError(f"must be a dataclass, is not in {EXPORTS.origin(name)}", field="--to", value=name)
    made: Exporter = kind(**knobs_of(kind, specification, settings, field="--to"))
    return made


def export(schedule: Schedule, exporter: str | Exporter, folder: Path) -> list[Path]:
    """Write a schedule in a format; returns the files written.

    Raises InputError if the format is unknown, cannot express the schedule, or a file cannot be written.

    `exporter`: what writes it, or its specification.
    """
    exporter = make_exporter(exporter) if isinstance(exporter, str) else exporter
    files = []
    make_folder(folder)
    for name, content in exporter.files(schedule):
        write_atomically(folder / name, content)
        files.append(folder / name)
    return files

"""The exporter ``msccl``: one collective of a schedule as XML, and its check."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

from themis_opt.base.arrays import IntArray
from themis_opt.base.documents import read_text
from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.base.units import format_percent
from themis_opt.formats.exports import Fact
from themis_opt.formats.msccl.algorithm import (
    DIALECTS,
    RECEIVES,
    SENDS,
    MscclAlgorithm,
    MscclStep,
    ThreadBlock,
    check_limits,
    from_xml,
    to_xml,
)
from themis_opt.formats.msccl.clock import BlockKey, TimedStep, replayed
from themis_opt.formats.msccl.interpreter import SLOTS, interpret
from themis_opt.formats.msccl.threadblocks import algorithm_of, least_needs
from themis_opt.formats.msccl.transfers import (
    MscclProgram,
    ProgramExporter,
    deviation,
    num_gpus,
    one_chunk_of_each_path,
    transfers_of,
    works_in_place,
)
from themis_opt.schedules.schedule import Schedule


@dataclass(frozen=True)
class Msccl(ProgramExporter):
    """MSCCL XML: programs of threadblocks that MSCCL and RCCL run."""

    endings: ClassVar[tuple[str, ...]] = ("xml",)
    runtime: ClassVar[str] = "MSCCL"

    dialect: Literal["msccl", "azure", "rccl"] = "msccl"  # who reads it
    collective: str = ""  # which one of the schedule; the only one by default
    protocol: Literal["Simple", "LL", "LL128"] = "Simple"  # how data are sent
    min_bytes: int = 0  # the smallest message for which it is used; 0 stands for no limit
    max_bytes: int = 0  # the largest one

    def files(self, schedule: Schedule) -> Iterator[tuple[str, str]]:
        """Names and texts of the files: the reader ``msccl`` wants one each for in place and out of place.

        Raises InputError if the collective cannot be expressed within the limits of the dialect.
        """
        yield from self.texts(*self.algorithm(schedule))

    def texts(self, algorithm: MscclAlgorithm, works_in_place: bool) -> Iterator[tuple[str, str]]:
        """Names and texts of the files of an algorithm."""
        if DIALECTS[self.dialect].says_out_of_place:
            yield f"{algorithm.name}.xml", to_xml(replace(algorithm, inplace=int(works_in_place), outofplace=1))
            return
        yield f"{algorithm.name}.xml", to_xml(algorithm)
        if works_in_place:
            yield f"{algorithm.name}.inplace.xml", to_xml(replace(algorithm, inplace=1))

    def algorithm(self, schedule: Schedule) -> tuple[MscclAlgorithm, bool]:
        """The algorithm, and whether it works in place too."""
        limits = DIALECTS[self.dialect]
        launch = self.launch(schedule)
        gpus, count = num_gpus(schedule, launch), len(schedule.plan.chunks[launch].sizes)
        if gpus * count > limits.max_offset:
            rule = f"{count} chunks x {gpus} GPUs = {gpus * count:,} units; offsets end at {limits.max_offset:,}"
            raise InputError(f"{rule}: use at most {limits.max_offset // gpus} chunks", field="chunks", value=count)
        units = self.units(schedule)
        self._refuse_early(schedule, launch, units)
        return self.of_program(transfers_of(schedule, launch, units), self.name(schedule))

    def _refuse_early(self, schedule: Schedule, launch: int, units: IntArray) -> None:
        """Refuse what a chunk of each path shows to be beyond the limits: all chunks would take minutes."""
        copies = one_chunk_of_each_path(schedule, launch)
        few = transfers_of(schedule, launch, units, only=copies)
        for what, has, most in least_needs(few, DIALECTS[self.dialect], copies):
            if has > most:
                fitting = len(units) * most // has
                remedy = f"use at most {fitting} chunks" if fitting else "use fewer GPUs"
                rule = (
                    f"{len(units)} chunks need {has:,} {what} or more, dialect {self.dialect} allows {most:,}: {remedy}"
                )
                raise InputError(rule, field="chunks", value=len(units))

    def of_program(self, program: MscclProgram, name: str) -> tuple[MscclAlgorithm, bool]:
        """The algorithm of a program, and whether it works in place too.

        Raises InputError if it is beyond the limits of the dialect.
        """
        limits, layout = DIALECTS[self.dialect], program.layout
        head = MscclAlgorithm(
            name=name,
            coll=limits.collective(layout.kind),
            proto=self.protocol,
            nchannels=0,
            nchunksperloop=layout.num_gpus * layout.total,
            ngpus=layout.num_gpus,
            inplace=0,
            outofplace=None,
            min_bytes=self.min_bytes,
            max_bytes=limits.end(self.max_bytes),
            gpus=[],
        )
        algorithm = algorithm_of(program, limits, head)
        check_limits(algorithm, self.dialect)
        return algorithm, program.layout.works_in_place

    def most_units(self, gpus: int) -> int:
        """Units of a block of which offsets of the dialect reach all."""
        return DIALECTS[self.dialect].max_offset // gpus

    def notes(self, schedule: Schedule) -> Iterator[str]:
        """Notes for users of the files."""
        launch, units = self.launch(schedule), self.units(schedule)
        exchange, sizes = schedule.launched[launch], schedule.plan.chunks[launch].sizes
        elements = self.multiple(schedule) // exchange.element_bytes
        yield f"used for messages that divide by {elements:,} elements; order is kept, times are not"
        error = deviation(units, sizes)
        if sizes.max() - sizes.min() > exchange.element_bytes:
            yield f"chunks take {int(units.sum())} equal units: sizes differ by at most {format_percent(error)}"

    def check(self, schedule: Schedule, folder: Path) -> Iterator[Fact]:
        """Read the files, check limits, run them on data, and time them.

        Raises InputError or InvalidSchedule if a file breaks a limit, or does not compute its collective.
        """
        launch, name = self.launch(schedule), self.name(schedule)
        in_place = not DIALECTS[self.dialect].says_out_of_place and works_in_place(schedule.launched[launch].kind)
        yield from self.check_files([f"{name}.xml", f"{name}.inplace.xml"][: 1 + in_place], folder)
        algorithm = from_xml(read_text(folder / f"{name}.xml", "XML"), name)
        program = transfers_of(schedule, launch, self.units(schedule))
        yield replayed("MSCCL", timed_steps(algorithm), program, schedule, launch)

    def check_files(self, names: Iterable[str], folder: Path) -> Iterator[str]:
        """The same for files by their names."""
        for name in names:
            path = folder / name
            algorithm = from_xml(read_text(path, "XML"), str(path))
            check_limits(algorithm, self.dialect)
            ways = _ways(algorithm)
            for in_place in ways:
                try:
                    interpret(algorithm, in_place=in_place)
                except InvalidSchedule as error:
                    raise error.within(str(path)) from None
            yield f"{name}: {_words(algorithm)}; {' and '.join('in place' if w else 'out of place' for w in ways)}"
        yield f"every GPU ends with its result; no circle of waits with {SLOTS} message per connection, no race"


def _ways(algorithm: MscclAlgorithm) -> list[bool]:
    out_of_place = not algorithm.inplace if algorithm.outofplace is None else bool(algorithm.outofplace)
    return [way for way, may in ((False, out_of_place), (True, bool(algorithm.inplace))) if may]


def _words(algorithm: MscclAlgorithm) -> str:
    blocks = max(len(gpu.threadblocks) for gpu in algorithm.gpus)
    return (
        f"{algorithm.ngpus} GPUs, {algorithm.nchannels} channels, at most {blocks} threadblocks "
        f"and {algorithm.longest} steps in one"
    )


def timed_steps(algorithm: MscclAlgorithm) -> dict[BlockKey, list[TimedStep]]:
    """The threadblocks of an algorithm on the clock."""
    blocks = {(gpu.id, block.id): block for gpu in algorithm.gpus for block in gpu.threadblocks}
    return {key: [_timed_step(key[0], block, step) for step in block.steps] for key, block in blocks.items()}


def _timed_step(gpu: int, block: ThreadBlock, step: MscclStep) -> TimedStep:
    sends = step.type in SENDS
    return TimedStep(
        step.cnt if sends else 0,
        (gpu, block.send) if sends else None,
        (gpu, block.send, block.chan) if sends else None,
        (block.recv, gpu, block.chan) if step.type in RECEIVES else None,
        ((gpu, step.depid), step.deps) if step.depid >= 0 else None,
    )

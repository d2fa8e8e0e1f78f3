"""Experiment files: which policies run on which instances, as TOML, checked once.

An experiment has blocks, ``[[runs]]``; each is the cross product of its instances, overrides, policies, seeds and time
limits.  ``[quick]`` says what ``--quick`` leaves of them.  :mod:`themis_opt.batches.expansion` makes single runs of it.
"""

import tomllib
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, StrictStr, ValidationError, model_validator

from themis_opt.batches.workload_tables import WorkloadTable
from themis_opt.errors import InputError
from themis_opt.instance import MAX_BYTES, MAX_CHUNKS, Count, Model, Packet, located
from themis_opt.units import Bytes, Picoseconds

NO_PACKET: Literal["none"] = "none"
Framing = Packet | Literal["none"]

MAX_SEED = 2**31 - 1


def read_packet(value: object) -> object:
    """The packet of a text such as ``4096 B/30 B``, payload and header; ``none`` as it is."""
    if value == NO_PACKET:
        return value
    payload, slash, header = value.partition("/") if isinstance(value, str) else ("", "", "")
    if not slash:
        raise ValueError(f"must be '{NO_PACKET}' or payload and header, such as '4096 B/30 B'")
    return Packet.model_validate({"payload": payload, "header": header})


def _differ(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(set(values)) < len(values):
        raise ValueError("must name each value once")
    return values


def _several(value: object) -> object:
    """One value as several."""
    return value if isinstance(value, list | tuple) else (value,)


Some = Field(min_length=1)
Once = AfterValidator(_differ)
Text = Annotated[StrictStr, Field(min_length=1)]
Texts = Annotated[tuple[Text, ...], Some, Once]
Seed = Annotated[Count, Field(ge=0, le=MAX_SEED)]
Seconds = Annotated[float, Field(gt=0, le=1e9, strict=True, allow_inf_nan=False)]


class Sample(Model):
    """A seeded sample of the instances of a block."""

    count: Annotated[Count, Field(gt=0)]
    seed: Seed = 0


class Block(Model):
    """The cross product of instances, overrides, policies, seeds and time limits.

    Where an instance is a training iteration, policies are those of :mod:`themis_opt.iterations.registry`.

    Attributes
    ----------
    block : str
        A label for its rows.
    instances : tuple of str
        Names or patterns of shipped instances, files relative to the experiment, and ``random:A-B``.
    workloads : tuple of tuple of Workload
        Tables of options that make training iterations, beside the instances or instead of them.
    sizes_of_collectives, chunks, latency, ag_order, launch_overhead, packet : tuple, optional
        Values that replace those of the instances; the last two those of every dimension.
    policies : tuple of str
        Specifications of policies, and ``bound`` for the lower bounds.
    seeds : tuple of int
        For policies with a seed.
    time_limit : tuple of float, optional
        Seconds, or several budgets of seconds, for policies that search.
    workers, gap, sizes : optional
        For policies that have such knobs; threads, a fraction, and ``equal`` or ``free``.
    record : tuple of str
        What rows hold besides: ``activity`` of the dimensions over time, where the instance has collectives, and
        ``trajectory`` of a search.
    sample : Sample, optional
        Take only some of the instances.
    """

    block: StrictStr = ""
    instances: Annotated[tuple[Text, ...], Once] = ()
    workloads: tuple[WorkloadTable, ...] = ()
    sizes_of_collectives: Annotated[tuple[Annotated[Bytes, Field(gt=0, le=MAX_BYTES)], ...], Some, Once] | None = None
    chunks: Annotated[tuple[Annotated[Count, Field(gt=0, le=MAX_CHUNKS)], ...], Some, Once] | None = None
    latency: Annotated[tuple[Literal["lag", "occupy"], ...], Some, Once] | None = None
    ag_order: Annotated[tuple[Literal["free", "reverse"], ...], Some, Once] | None = None
    launch_overhead: Annotated[tuple[Annotated[Picoseconds, Field(ge=0)], ...], Some, Once] | None = None
    packet: Annotated[tuple[Annotated[Framing, BeforeValidator(read_packet)], ...], Some, Once] | None = None
    policies: Texts
    seeds: Annotated[tuple[Seed, ...], Some, Once] = (0,)
    time_limit: Annotated[tuple[Seconds, ...], Some, Once, BeforeValidator(_several)] | None = None
    workers: Annotated[Count, Field(gt=0, le=1024)] | None = None
    gap: Annotated[float, Field(ge=0, strict=True, allow_inf_nan=False)] | None = None
    sizes: Literal["equal", "free"] = "equal"
    record: Annotated[tuple[Literal["activity", "trajectory"], ...], Once] = ()
    sample: Sample | None = None

    @cached_property
    def largest(self) -> tuple[int | None, int | None]:
        """The largest size and number of chunks that replace others, None where nothing does."""
        return max(self.sizes_of_collectives or (), default=None), max(self.chunks or (), default=None)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.instances and not self.workloads:
            raise ValueError("must have instances or workloads")
        return self


class Quick(Model):
    """What ``--quick`` overrides: the runs left of each block, evenly spread, and the seconds of each search."""

    limit: Annotated[Count, Field(gt=0)] | None = None
    time_limit: Seconds | None = None


class Experiment(Model):
    """An experiment; `report` names what its rows are shown as."""

    name: Text
    title: StrictStr = ""
    report: Text = "table"
    description: StrictStr = ""
    runs: Annotated[tuple[Block, ...], Some]
    quick: Quick = Quick()

    def quickened(self) -> Self:
        """The experiment with the time limits of ``[quick]``."""
        if self.quick.time_limit is None:
            return self
        changed = {"time_limit": (self.quick.time_limit,)}
        return self.model_copy(update={"runs": tuple(block.model_copy(update=changed) for block in self.runs)})

    @model_validator(mode="after")
    def _check(self) -> Self:
        labels = [block.block for block in self.runs if block.block]
        if len(set(labels)) < len(labels):
            raise ValueError(f"blocks must have labels that differ, got {', '.join(labels)}")
        return self


def read_experiment(path: Path) -> Experiment:
    """Read an experiment file.

    Raises
    ------
    InputError
        If it cannot be read or breaks a rule; the message names file, field, value and rule.
    """
    try:
        return Experiment.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except IsADirectoryError:
        raise InputError("is a directory, must be an experiment file", source=str(path)) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", source=str(path)) from None
    except UnicodeDecodeError:
        raise InputError("not TOML: the file is not UTF-8 text", source=str(path)) from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"not TOML: {error}", source=str(path)) from None
    except RecursionError:
        raise InputError("TOML nested too deeply", source=str(path)) from None
    except ValidationError as error:
        raise located(error).within(str(path)) from None

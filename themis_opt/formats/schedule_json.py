"""The schedule file: a schedule with its instance and what is proven about it."""

from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from themis_opt.cost import IntArray
from themis_opt.dispatch import DISPATCH
from themis_opt.errors import InputError
from themis_opt.formats.schedule_file import check_fingerprint, read_content
from themis_opt.instance import Instance
from themis_opt.plan import Chunks, Plan
from themis_opt.schedule import Schedule
from themis_opt.version import __version__

FORMAT: Literal["themis-opt/schedule/1"] = "themis-opt/schedule/1"

Whole = Annotated[int, Field(strict=True, ge=0, lt=2**63)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class CollectivePart(_Part):
    """The chunks of one collective: bytes, and the names of the dimensions along each path."""

    name: str
    sizes: Annotated[list[Whole], Field(min_length=1)]
    paths: Annotated[list[list[str]], Field(min_length=1)]


class Summary(_Part):
    """What was found out about the schedule when it was written; not needed to read it back."""

    policy: str = ""
    makespan_ns: float
    utilisation: float
    bounds_ns: dict[str, float] = {}
    gap: float | None = None
    status: str = ""
    written_by: str = f"themis_opt {__version__}"
    settings: dict[str, str | int | float] = {}


class ScheduleDocument(_Part):
    """Content of a schedule file; stages are numbered collective by collective, chunk by chunk, along the path."""

    format: Literal["themis-opt/schedule/1"]
    instance: Instance
    fingerprint: str
    summary: Summary
    dispatch: Literal[tuple(DISPATCH)]  # type: ignore[valid-type]
    collectives: list[CollectivePart]
    sequences: dict[str, list[Whole] | None]
    start_ps: list[Whole]
    end_ps: list[Whole]
    ready_ps: list[Whole]


def schedule_document(schedule: Schedule, summary: Summary | None = None) -> dict[str, Any]:
    """The schedule as plain JSON values."""
    instance, plan = schedule.instance, schedule.plan
    names = instance.network.dimension_names
    document = ScheduleDocument(
        format=FORMAT,
        instance=instance,
        fingerprint=instance.fingerprint,
        summary=summary or Summary(makespan_ns=schedule.makespan / 1000, utilisation=schedule.utilisation),
        dispatch=plan.dispatch,
        collectives=[
            CollectivePart(
                name=label, sizes=chunks.sizes.tolist(), paths=[[names[k] for k in path] for path in chunks.paths]
            )
            for label, chunks in zip(instance.labels, plan.chunks, strict=True)
        ],
        sequences={
            name: None if sequence is None else sequence.tolist()
            for name, sequence in zip(names, plan.sequences, strict=False)
        },
        start_ps=schedule.start.tolist(),
        end_ps=schedule.end.tolist(),
        ready_ps=schedule.ready.tolist(),
    )
    return document.model_dump(mode="json")


def read_schedule(path: str | Path, instance: Instance | None = None) -> Schedule:
    """Read a schedule file; it is not validated yet.

    Parameters
    ----------
    path : path
        The file.
    instance : Instance, optional
        The instance it must belong to; by default the one inside the file.

    Raises
    ------
    InputError
        If the file is no schedule file, or belongs to another instance.
    """
    return read_content(
        path, FORMAT, ScheduleDocument, lambda content: _schedule(content, instance or content.instance)
    )


def _schedule(content: ScheduleDocument, instance: Instance) -> Schedule:
    check_fingerprint(content.fingerprint, instance.fingerprint)
    labels = tuple(part.name for part in content.collectives)
    if labels != instance.labels:
        raise InputError(f"names must be {', '.join(instance.labels)}", field="collectives", value=", ".join(labels))
    names = {name: k for k, name in enumerate(instance.network.dimension_names)}
    chunks = tuple(_chunks(names, number, part) for number, part in enumerate(content.collectives))
    plan = Plan(chunks, content.dispatch, _sequences(names, content.sequences))
    times = [np.array(t, dtype=np.int64) for t in (content.start_ps, content.end_ps, content.ready_ps)]
    schedule = Schedule(instance, plan, *times)
    _check_makespan(schedule, content.summary.makespan_ns)
    return schedule


def _check_makespan(schedule: Schedule, makespan_ns: float) -> None:
    """Refuse a summary that does not fit the times."""
    if len(schedule.ready) and schedule.makespan / 1000 != makespan_ns:
        rule = f"must be the time of the last result, {schedule.makespan / 1000}"
        raise InputError(rule, field="summary.makespan_ns", value=makespan_ns)


def _chunks(names: dict[str, int], number: int, part: CollectivePart) -> Chunks:
    if any(len(a) != len(b) for a, b in pairwise(part.paths)):
        raise InputError("paths must have one length", field=f"collectives[{number}].paths")
    unknown = {name for path in part.paths for name in path} - names.keys()
    if unknown:
        rule = f"the network has {', '.join(names)}"
        raise InputError(rule, field=f"collectives[{number}].paths", value=sorted(unknown)[0])
    paths = [[names[name] for name in path] for path in part.paths]
    return Chunks(np.array(part.sizes, dtype=np.int64), np.array(paths, dtype=np.int64))


def _sequences(names: dict[str, int], sequences: dict[str, list[int] | None]) -> tuple[IntArray | None, ...]:
    if not sequences:
        return ()
    if sequences.keys() != names.keys():
        raise InputError(f"must have one entry for each of {', '.join(names)}", field="sequences")
    return tuple(None if s is None else np.array(s, dtype=np.int64) for s in (sequences[name] for name in names))

"""How large buckets of gradients should be: larger ones overlap less, smaller ones cost more launches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from themis_opt.reports.cells import cell, duration, plural
from themis_opt.reports.document import Axis, Column, Figure, Section, Series, Table
from themis_opt.reports.iteration_runs import Finding, IterationRun, chunk_policy, launching, setting
from themis_opt.reports.results import grouped
from themis_opt.units import format_size, parse_size

KNOBS: Mapping[str, str] = MappingProxyType({"ddp": "cap", "dear": "threshold", "horovod": "buffer"})
"""The knob that says how large a bucket is, by launching policy."""


@dataclass(frozen=True)
class Sweep:
    """Iterations of one instance over the size of buckets, by rising size in bytes."""

    instance: str
    name: str
    points: tuple[tuple[int, IterationRun], ...]

    @property
    def best(self) -> tuple[int, IterationRun]:
        """Size and run of the least iteration time, of equal ones the smallest size."""
        return min(self.points, key=lambda point: point[1].time_ns)

    @property
    def is_interior(self) -> bool:
        """Whether both the smallest and the largest buckets are slower than the best."""
        ends = self.points[0][1], self.points[-1][1]
        return all(end.time_ns > self.best[1].time_ns for end in ends)


def buckets(runs: Sequence[IterationRun]) -> Finding:
    """Iteration time over the size of buckets, for every launching policy that has one."""
    found = sweeps(runs)
    instances = grouped(found, lambda sweep: sweep.instance)
    figures = tuple(_figure(number, own) for number, own in enumerate(instances.values(), 1))
    overheads = sorted({float(run.row.launch_overhead_ns) for run in runs if run.row.launch_overhead_ns})
    costs = " and ".join(cell(value, "duration") for value in overheads)
    text = (
        (f"Each stage costs {costs} to launch. " if costs else "")
        + "Small buckets start early and are many, large ones are few and start late; a bucket holds at least one "
        "tensor, which may be larger. An optimum is inside the range if both the smallest and the largest buckets are "
        "slower."
    )
    return Finding(Section("Size of buckets", (text,), (_table(found),), figures), tuple(map(_said, found)))


def sweeps(runs: Sequence[IterationRun]) -> tuple[Sweep, ...]:
    """The runs whose policy says how large its buckets are, by instance and policies."""
    sized = [(size, run) for run in runs if (size := bucket_size(run.policy)) is not None]
    cases = grouped(sized, lambda pair: (pair[1].row.instance, launching(pair[1].policy), chunk_policy(pair[1].policy)))
    return tuple(
        Sweep(instance, f"{head}/{chunks}", tuple(sorted(points, key=lambda point: point[0])))
        for (instance, head, chunks), points in cases.items()
    )


def bucket_size(policy: str) -> int | None:
    """Bytes of a bucket, of a specification that says so."""
    text = setting(policy, KNOBS.get(launching(policy), ""))
    return None if text is None else parse_size(text)


def _said(sweep: Sweep) -> str:
    size, run = sweep.best
    (least, small), (most, large) = sweep.points[0], sweep.points[-1]
    place = "inside the range" if sweep.is_interior else "at an end of the range"
    return (
        f"{sweep.instance}, {sweep.name}: the best buckets are {format_size(size)} ({duration(run.time_ns)}), {place}: "
        f"{duration(small.time_ns)} at {format_size(least)}, {duration(large.time_ns)} at {format_size(most)} "
        f"({plural(len(sweep.points), 'size')})."
    )


def _table(found: Sequence[Sweep]) -> Table:
    columns = (
        Column("instance"),
        Column("policy"),
        Column("buckets", "size"),
        Column("launches", "count"),
        Column("iteration time", "duration"),
        Column("exposed", "duration"),
        Column("slower than the best", "percent"),
        Column("gap", "percent"),
    )
    rows = tuple(
        (
            sweep.instance,
            sweep.name,
            size,
            run.extra.launches,
            run.time_ns,
            run.extra.exposed_ns,
            run.time_ns / sweep.best[1].time_ns - 1,
            run.result.gap,
        )
        for sweep in found
        for size, run in sweep.points
    )
    return Table(columns, rows)


def _figure(number: int, found: Sequence[Sweep]) -> Figure:
    series = tuple(
        Series(sweep.name, tuple(size for size, _ in sweep.points), tuple(run.time_ns for _, run in sweep.points))
        for sweep in found
    )
    return Figure(
        f"buckets-{number}",
        f"Iteration time of {found[0].instance} by size of buckets",
        "line",
        Axis("size of buckets", log=True, format="size"),
        Axis("iteration time", format="duration"),
        series,
    )

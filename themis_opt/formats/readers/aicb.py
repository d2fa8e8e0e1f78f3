"""Workloads of AICB (CSV): the collectives of a training step in the order in which its benchmark runs them.

One row for each: kind, group, size of the group, and bytes, which of a gather are those of the result; what belongs to
the start of a run, barriers and ends of epochs are no part of a step.  Each collective waits for the one before it.
Tensor groups are the innermost NPUs, then come experts; copies (``dp_group``) are the outermost.
Source: https://github.com/aliyun/aicb, ``log_analyzer/log.py`` and ``workload_applyer.py``.
"""

import csv
from collections.abc import Mapping, Sequence
from itertools import accumulate
from operator import mul
from typing import NamedTuple

from themis_opt.base.sources import Source
from themis_opt.base.units import format_short_size
from themis_opt.formats.readers.draft import Draft, needs_network
from themis_opt.formats.readers.parts import Machine, Part, Reader, only
from themis_opt.problem.fields import MAX_BYTES
from themis_opt.problem.instance import Instance
from themis_opt.problem.iteration import MAX_TASKS, Split
from themis_opt.problem.network import Network
from themis_opt.problem.phases import CollectiveKind

COLUMNS = ("comm_type", "comm_group", "msg_size", "stage")
ROW_KINDS: Mapping[str, CollectiveKind] = {
    **{kind.value: kind for kind in CollectiveKind if kind is not CollectiveKind.SEND},
    "all_gather_into_tensor": CollectiveKind.ALL_GATHER,
    "reduce_scatter_tensor": CollectiveKind.REDUCE_SCATTER,
}
BETWEEN_STEPS = ("barrier", "epoch_end")
GROUPS_OF_NPUS = {name: name for name in ("tp_group", "dp_group", "ep_group", "ep_dp_group", "all_nodes", "all")}


class CommRow(NamedTuple):
    """One collective of a step; in groups of all NPUs where the file states no size."""

    name: str
    kind: CollectiveKind
    group: str
    npus: int
    size: int


def _read(sources: Sequence[Source]) -> Part:
    source = only(sources, "workload")
    rows, apart = _rows(source)
    note = (
        "AICB: a gather has the bytes of its result; no row says how long compute takes, and each collective waits for "
        f"the one before it. {apart} rows of the start, barriers and ends are left out."
    )
    groups: dict[tuple[str, int], list[int]] = {}
    for row in rows:
        groups.setdefault((f"{row.kind.value} of {row.group}", row.npus), []).append(row.size)
    table = [(name, ranks, len(sizes), sum(sizes)) for (name, ranks), sizes in groups.items()]
    table += [("left out: start, barriers and ends", 0, apart, 0)] if apart else []
    unknown, names = "not known", ("collective", "ranks", "hosts", "GPUs per host", "number", "bytes", "span")
    cells = [
        (name, str(ranks or unknown), unknown, unknown, str(n), format_short_size(b) if b else unknown, "no times")
        for name, ranks, n, b in table
    ]
    return Part(
        workload=lambda machine: _built(source, rows, needs_network(source, machine)),
        notes=(note,),
        tables={"read": [dict(zip(names, row, strict=True)) for row in cells]},
    )


def _rows(source: Source) -> tuple[list[CommRow], int]:
    """The collectives of the step, and how many rows are none."""
    lines = [(number, line) for number, line in source.lines if not line.startswith("[")]
    if sum(line.startswith("comm_type,") for _, line in lines) > 1:
        raise source.error(
            "has several stages of a pipeline, which send to each other: cut out one stage without sends"
        )
    names = next(csv.reader([lines[0][1]]))
    source.check_keys(dict.fromkeys(names), names, COLUMNS)
    rows, apart = list[CommRow](), 0
    for number, line in lines[1:]:
        row = dict(zip(names, next(csv.reader([line])), strict=False))
        kind = row["comm_type"].removeprefix("CommType.")
        if kind in BETWEEN_STEPS or (row.get("stage") or "").startswith("init"):
            apart += 1
        else:
            count = _whole(source, number, row.get("count") or "1")
            if len(rows) + count > MAX_TASKS:
                rule = f"must have at most {MAX_TASKS} collectives in a step, its counts included"
                raise source.error(rule, f"line {number}", count)
            rows += [_row(source, number, kind, row)] * count
    return rows, apart


def _row(source: Source, number: int, kind: str, row: Mapping[str, str | None]) -> CommRow:
    place = f"line {number}"
    group = (row.get("comm_group") or "").removeprefix("CommGroup.")
    return CommRow(
        row.get("stage") or kind,
        source.choice(kind, ROW_KINDS, place),
        source.choice(group, GROUPS_OF_NPUS, place),
        _whole(source, number, row.get("comm_group_size") or "0"),
        _whole(source, number, row.get("msg_size")),
    )


def _whole(source: Source, number: int, text: str | None) -> int:
    if not text or not text.isdecimal() or len(text) > len(str(MAX_BYTES)):
        raise source.error("must be a whole number", f"line {number}", text)
    return source.whole(int(text), f"line {number}", most=MAX_BYTES)


def _built(source: Source, rows: Sequence[CommRow], machine: Machine) -> Instance:
    npus = machine.network.num_npus
    bounds = {row: _span(source, row, rows, npus) for row in rows}
    edges = sorted({edge for span in bounds.values() for edge in span} - {1, npus})
    splits, names, sizes = split_at(source, machine.network, edges)
    reached = list(accumulate(sizes, mul, initial=1))
    draft = Draft(source)
    tasks = [draft.task(f"before {row.name}", 0) for row in rows]
    for place, row in enumerate(rows):
        first, last = bounds[row]
        span = tuple(name for name, start in zip(names, reached, strict=False) if first <= start < last)
        after = tasks[(place + 1) % len(tasks)]
        draft.tensor(row.name, row.kind, row.size, (tasks[place], after), span, parallelism="model")
    return draft.instance(f"{machine.network.name or 'network'} {source.path.name.partition('.')[0]}", machine, splits)


def split_at(source: Source, network: Network, edges: Sequence[int]) -> tuple[list[Split], list[str], list[int]]:
    """Dimensions of which some are split, so that groups of as many NPUs as the `edges` say end between dimensions.

    Raises InputError if groups do not fill dimensions from the innermost one, but for a divisor of the last, or two end
    inside one.

    Returns the splits, and names and sizes of all dimensions after them.
    """
    splits: list[Split] = []
    names: list[str] = []
    sizes: list[int] = []
    reached = 1
    for name, size in zip(network.dimension_names, network.sizes, strict=True):
        within = [edge for edge in edges if reached < edge < reached * size]
        for edge in within:
            if len(within) > 1 or edge % reached or size % (edge // reached):
                shape = " x ".join(map(str, network.sizes))
                rule = f"must fill dimensions of {shape} from the innermost one, and divide the size of the last"
                raise source.error(rule, "group", edge)
            halves = (edge // reached, size * reached // edge)
            splits.append(Split(dimension=name, sizes=halves, names=(f"{name}_in", f"{name}_out"), shared=True))
        names += list(splits[-1].names) if within else [name]
        sizes += list(splits[-1].sizes) if within else [size]
        reached *= size
    if edges and edges[-1] > reached:
        raise source.error(f"must be at most the {reached} NPUs of the network", "group", edges[-1])
    return splits, names, sizes


def _span(source: Source, row: CommRow, rows: Sequence[CommRow], npus: int) -> tuple[int, int]:
    """From which NPU to which a group reaches, as products of the sizes of dimensions."""
    tensor = max((each.npus for each in rows if each.group == "tp_group"), default=1)
    count = row.npus or npus
    first = {"tp_group": 1, "ep_group": tensor}.get(row.group, npus // count)
    last = first * count
    if not first or last > npus or npus % last:
        raise source.error(f"groups of {row.npus} do not fill the {npus} NPUs of the network", row.group, row.npus)
    return first, last


READER = Reader("workload of AICB (CSV)", ("csv",), lambda source: "comm_type,comm_group" in source.head, _read)

"""Schedules on graphs as JSON, for tools that execute or draw them."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StrictBool

from themis_opt.base.errors import InputError, suggestion
from themis_opt.graphs.plan import GraphPiece, GraphPlan, GraphTransfer
from themis_opt.graphs.problem import GraphInstance
from themis_opt.graphs.schedule import MAX_HOPS, GraphSchedule, simulate_graph
from themis_opt.graphs.slots import SlotPlan, slot_plan
from themis_opt.graphs.validation import validate_graph
from themis_opt.problem.documents import errors_of, read_model
from themis_opt.problem.fields import MAX_BYTES, Model
from themis_opt.schedules.envelope import Envelope, Summary, check_envelope, head

GRAPH_SCHEDULE_FORMAT: Literal["themis-opt/graph-schedule/1"] = "themis-opt/graph-schedule/1"

Ordinal = Annotated[int, Field(strict=True, ge=0, lt=2**31)]


class WrittenPiece(Model):
    """Part of the data; ``null`` for a source or a target stands for every NPU."""

    elements: Annotated[int, Field(strict=True, ge=0, le=MAX_BYTES)]
    source: str | None = None
    target: str | None = None


class WrittenTransfer(Model):
    """A message about a piece along nodes, once earlier transfers have arrived; it is added, or kept as it is."""

    piece: Ordinal
    route: Annotated[tuple[str, ...], Field(min_length=2)]
    adds: StrictBool = False
    after: tuple[Ordinal, ...] = ()


class GraphScheduleFile(Envelope):
    """The plan of a schedule; times follow from the plan and the number of chunks.

    `ranked`: whether links serve transfers in the order in which they stand.
    `slots`: whether the plan is that of the policy on boxes and rails, whose pieces and transfers follow from these.
    """

    format: Literal["themis-opt/graph-schedule/1"]
    instance: GraphInstance
    chunks: Annotated[int, Field(strict=True, ge=1, le=MAX_HOPS)] = 1
    ranked: StrictBool = False
    slots: StrictBool = False
    pieces: tuple[WrittenPiece, ...] = ()
    transfers: tuple[WrittenTransfer, ...] = ()


def schedule_text(schedule: GraphSchedule, summary: Summary | None = None) -> str:
    """A schedule as the text of a file, with what is known of it beside its makespan."""
    plan, summary = schedule.plan, summary or Summary(policy=schedule.plan.name)
    document = {
        **head(GRAPH_SCHEDULE_FORMAT, plan.instance, schedule.makespan, summary, exclude_defaults=True),
        "chunks": schedule.chunks,
        **({"slots": True} if isinstance(plan, SlotPlan) else {"ranked": plan.ranked, **plan_rows(plan)}),
    }
    return json.dumps(document) + "\n"


def plan_rows(plan: GraphPlan) -> dict[str, list[dict[str, object]]]:
    """The pieces and transfers of a plan, with nodes by their names."""
    names = [node.name for node in plan.instance.network.nodes]
    ends = [[None if end is None else names[end] for end in (piece.source, piece.target)] for piece in plan.pieces]
    return {
        "pieces": [
            {"elements": piece.elements, "source": source, "target": target}
            for piece, (source, target) in zip(plan.pieces, ends, strict=True)
        ],
        "transfers": [
            {"piece": t.piece, "route": [names[n] for n in t.route], "adds": t.adds, "after": list(t.after)}
            for t in plan.transfers
        ],
    }


def read_graph_schedule(path: Path) -> tuple[GraphSchedule, Summary]:
    """Read a schedule, time it, and check it; and what its summary says.

    Raises InputError if the file is no such schedule; the message names file, field, value and rule.
    InvalidSchedule
        If a rule is broken.
    """
    written = read_model(path, GraphScheduleFile, GRAPH_SCHEDULE_FORMAT)
    with errors_of(path):
        schedule = simulate_graph(_plan(written), written.chunks)
        validate_graph(schedule)
        check_envelope(written, schedule.makespan)
    return schedule, written.summary


def _plan(written: GraphScheduleFile) -> GraphPlan:
    if written.slots:
        return slot_plan(written.summary.policy, written.instance)
    pieces = tuple(_piece(written, number) for number in range(len(written.pieces)))
    transfers = tuple(_transfer(written, number) for number in range(len(written.transfers)))
    hops = sum(len(transfer.route) - 1 for transfer in transfers) * written.chunks
    if not 0 < hops <= MAX_HOPS:
        raise InputError(f"must be 1 to {MAX_HOPS} hops of all chunks", field="transfers", value=hops)
    return GraphPlan(written.summary.policy, written.instance, pieces, transfers, written.ranked)


def _piece(written: GraphScheduleFile, number: int) -> GraphPiece:
    piece = written.pieces[number]
    ends = [
        None if name is None else _node(written, name, f"pieces[{number}].{field}")
        for field, name in (("source", piece.source), ("target", piece.target))
    ]
    for field, end in zip(("source", "target"), ends, strict=True):
        if end is not None and written.instance.network.nodes[end].kind != "npu":
            raise InputError("must be an NPU", field=f"pieces[{number}].{field}", value=getattr(piece, field))
    return GraphPiece(piece.elements, *ends)


def _transfer(written: GraphScheduleFile, number: int) -> GraphTransfer:
    """A transfer with numbers of nodes, over links that there are."""
    transfer, place = written.transfers[number], f"transfers[{number}]"
    if transfer.piece >= len(written.pieces):
        raise InputError("must be the number of a piece", field=f"{place}.piece", value=transfer.piece)
    route = tuple(_node(written, name, f"{place}.route") for name in transfer.route)
    for ends in pairwise(route):
        if ends not in written.instance.network.arcs:
            names = " to ".join(written.instance.network.nodes[end].name for end in ends)
            raise InputError(f"no link goes from {names}", field=f"{place}.route")
    if any(earlier >= number for earlier in transfer.after):
        raise InputError("must be earlier transfers", field=f"{place}.after", value=list(transfer.after))
    return GraphTransfer(transfer.piece, route, transfer.adds, transfer.after)


def _node(written: GraphScheduleFile, name: str, field: str) -> int:
    index = written.instance.network.index
    if name not in index:
        raise InputError(f"must be a node of the network{suggestion(name, index)}", field=field, value=name)
    return index[name]

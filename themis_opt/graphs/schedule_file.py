"""Schedules on graphs as JSON, for tools that execute or draw them."""

import json
from typing import Any

from themis_opt.graphs.simulation import GraphSchedule


def schedule_text(schedule: GraphSchedule) -> str:
    """The plan of a schedule, and what it takes; times follow from the plan and the number of chunks.

    Nodes stand by their names; ``null`` for a source or a target means every NPU.
    """
    plan = schedule.plan
    names = [node.name for node in plan.instance.network.nodes]
    document: dict[str, Any] = {
        "format": "themis-opt/graph-schedule/1",
        "instance": plan.instance.model_dump(mode="json", exclude_defaults=True),
        "policy": plan.name,
        "makespan": f"{schedule.makespan} ps",
        "chunks": schedule.chunks,
        "pieces": [
            {
                "elements": piece.elements,
                "source": None if piece.source is None else names[piece.source],
                "target": None if piece.target is None else names[piece.target],
            }
            for piece in plan.pieces
        ],
        "transfers": [
            {
                "piece": transfer.piece,
                "route": [names[node] for node in transfer.route],
                "adds": transfer.adds,
                "after": list(transfer.after),
            }
            for transfer in plan.transfers
        ],
    }
    return json.dumps(document, indent=None) + "\n"

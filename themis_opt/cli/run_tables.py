"""The tables that ``run`` prints."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from themis_opt.base.units import PICOSECONDS_PER_SECOND, format_percent, format_times

if TYPE_CHECKING:
    from themis_opt.runtime.execution import ExecutionResult

RunTable = tuple[str, Sequence[str], Sequence[Sequence[str]]]
"""Title, headings, rows."""


def times_table(done: "ExecutionResult") -> RunTable:
    """Predicted and measured times and speedups, and what the ranks used."""
    rows = done.rows()
    names = ["predicted_s", "measured_s", "fastest_s", "slowest_s"]
    if "exposed_predicted_s" in rows[0]:
        names += ["exposed_predicted_s", "exposed_measured_s"]
    times = {name: format_times([row[name] * PICOSECONDS_PER_SECOND for row in rows]) for name in names}
    others = {
        "error": [format_percent(row["error"]) for row in rows],
        "speedup predicted": [f"{row['speedup_predicted']:.3f}x" for row in rows],
        "speedup measured": [f"{row['speedup_measured']:.3f}x" for row in rows],
        "processors": [f"{row['processors_busy']:.2f}" for row in rows],
        "memory": [f"{row['memory_bytes'] / 2**20:.0f} MiB" for row in rows],
    }
    columns = {name.removesuffix("_s").replace("_", " "): cells for name, cells in times.items()} | others
    policies = [row["policy"] for row in rows]
    title = f"median of {rows[0]['runs']} runs"
    return title, ["policy", *columns], list(zip(policies, *columns.values(), strict=True))


def traffic_table(done: "ExecutionResult") -> RunTable:
    """Bytes that the busiest rank moved along each dimension, beside those of the model."""
    dimensions = done.executed[0].predicted.instance.fabric.dimension_names
    rows = [
        [row["policy"], name, f"{moved:.0f}", f"{expected:.0f}"]
        for row in done.rows()
        for name, moved, expected in zip(
            dimensions, row["bytes_per_dimension"], row["expected_bytes_per_dimension"], strict=True
        )
    ]
    return "bytes of the busiest rank", ["policy", "dimension", "moved", "expected"], rows

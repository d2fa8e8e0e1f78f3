"""Files of a run: rows, measured traces, and pictures with measured below predicted."""

import json
from pathlib import Path

from themis_opt.base.documents import make_folder, write_atomically
from themis_opt.formats.tables import to_csv
from themis_opt.formats.timeline import is_pictured
from themis_opt.formats.trace import trace_json
from themis_opt.runtime.execution import Executed, ExecutionResult


def write_execution(folder: Path, done: ExecutionResult) -> list[Path]:
    """Write all of a run into a folder; returns the files written."""
    make_folder(folder)
    rows = done.rows()
    flat = [{name: _cell(value) for name, value in row.items()} for row in rows]
    texts = {
        folder / "execution.json": json.dumps(done.document(), indent=2) + "\n",
        folder / "execution.csv": to_csv(flat),
    }
    for path, text in texts.items():
        write_atomically(path, text)
    return [*texts, *(path for executed in done.executed for path in _write_one(folder, executed))]


def _cell(value: object) -> object:
    return ";".join(f"{item:.0f}" for item in value) if isinstance(value, list) else value


def _write_one(folder: Path, executed: Executed) -> list[Path]:
    from themis_opt.formats.gantt import execution_gantt, save_figure

    name = executed.name.replace(":", "_").replace("/", "_")
    trace, picture = folder / f"{name}.trace.json", folder / f"{name}.svg"
    text = trace_json(executed.measured)
    if text is None or not is_pictured(executed.measured):
        return []
    write_atomically(trace, text)
    title = f"{executed.predicted.instance.name or 'instance'}, {executed.name}"
    save_figure(execution_gantt(executed.predicted, executed.measured, title), picture)
    return [trace, picture]

"""Plans for the loss of every single link, kept in one folder with an index, so that a stopped run goes on."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from themis_opt.base.documents import digest, file_name, make_folder, read_json, write_atomically
from themis_opt.base.errors import InputError
from themis_opt.base.units import format_percent, nanoseconds
from themis_opt.graphs.comparison import compare_graph
from themis_opt.graphs.problem import GraphInstance
from themis_opt.graphs.schedule_file import schedule_text
from themis_opt.study.losses import without_link

LOSSES_FORMAT = "themis-opt/losses/1"
INDEX_FILE = "index.json"
HEALTHY = "nothing"
"""What is lost in the row of the whole network."""

Entry = dict[str, Any]


def plan_losses(instance: GraphInstance, folder: Path, policies: Sequence[str] | None = None) -> Iterator[Entry]:
    """Plan the whole network and the network without each link; yields a row of the index as it is there.

    A row says what is lost, the `policy` and `file` of the fastest schedule, its `makespan_ns`, and `kept`, the part of
    the speed of the whole network.  Without a file NPUs do not reach each other.  Rows of an earlier run for the same
    instance and policies stay; the index is written after every plan.

    Raises
    ------
    InputError
        If the folder has an index of something else, or a policy is not for the instance.
    """
    make_folder(folder)
    key = digest([instance.model_dump(mode="json"), policies])
    entries = _entries_of(folder, key)
    healthy = 0.0
    for lost in (HEALTHY, *(link.label for link in instance.network.links)):
        if lost not in entries:
            entries[lost] = _planned(instance, lost, folder, policies)
        entry = entries[lost]
        healthy = healthy or entry["makespan_ns"]
        entry["kept"] = healthy / entry["makespan_ns"] if entry["file"] else 0.0
        document = {"format": LOSSES_FORMAT, "instance": instance.name, "key": key, "plans": list(entries.values())}
        write_atomically(folder / INDEX_FILE, json.dumps(document, indent=1) + "\n")
        yield entry


def _planned(instance: GraphInstance, lost: str, folder: Path, policies: Sequence[str] | None) -> Entry:
    """The row of a loss, with its plan in a file."""
    network = instance.network if lost == HEALTHY else without_link(instance.network, lost)
    if network is None:
        return {"lost": lost, "policy": "", "file": None, "makespan_ns": None}
    best = compare_graph(instance.on(network), policies).best
    name = file_name(f"without_{lost}.json")
    write_atomically(folder / name, schedule_text(best.schedule))
    return {"lost": lost, "policy": best.policy, "file": name, "makespan_ns": nanoseconds(best.schedule.makespan)}


def _entries_of(folder: Path, key: str) -> dict[str, Entry]:
    """Rows of an earlier run whose files are there, by what is lost."""
    path = folder / INDEX_FILE
    if not path.exists():
        return {}
    document = read_json(path)
    if document.get("format") != LOSSES_FORMAT or document.get("key") != key:
        raise InputError("is of another instance, or of other policies", source=str(path))
    kept = (entry for entry in document["plans"] if entry["file"] is None or (folder / entry["file"]).exists())
    return {entry["lost"]: entry for entry in kept}


def losses_in_words(instance: GraphInstance, entries: Sequence[Entry]) -> str:
    """The sentence about all plans."""
    losses = [entry for entry in entries if entry["lost"] != HEALTHY]
    worst = min(losses, key=lambda entry: entry["kept"])
    cut_off = sum(entry["file"] is None for entry in losses)
    apart = f"; without {cut_off} of them NPUs do not reach each other" if cut_off else ""
    return (
        f"Of {len(losses)} links {worst['lost']} hurts most: {instance.kinds} keeps {format_percent(worst['kept'])} "
        f"of its speed{apart}."
    )

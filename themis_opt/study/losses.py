"""What a network keeps of its speed without some of its parts, and plans for the loss of one of every role.

Plans are kept in one folder with an index, so that a stopped run goes on.
"""

import json
import math
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from formulations.interruption import TimeUp
from themis_opt.base.allowance import SLACK, Allowance, cut_off
from themis_opt.base.documents import digest, file_name, make_folder, read_json, write_atomically
from themis_opt.base.errors import InputError
from themis_opt.base.units import format_percent, format_rate, format_short_time, nanoseconds
from themis_opt.graphs.bounds import GraphBound, alike_nodes, best_bound, throughput
from themis_opt.graphs.comparison import GraphComparison, compare_graph, schedules_of
from themis_opt.graphs.degraded import degraded, links_out
from themis_opt.graphs.problem import GraphInstance, GraphNetwork
from themis_opt.graphs.schedule_file import schedule_text
from themis_opt.graphs.validation import validate_graph

LOSSES_FORMAT = "themis-opt/losses/1"
INDEX_FILE = "index.json"
HEALTHY = "nothing"  # what is lost in the row of the whole network

Entry = dict[str, Any]


@dataclass(frozen=True)
class Loss:
    """What is left of the bound without something."""

    name: str
    healthy: GraphBound
    bound: GraphBound | None
    alike: int = 0
    """Other parts of its role, for which it stands."""

    @property
    def label(self) -> str:
        """What is lost, and how many alike."""
        return f"{self.name} or {self.alike} alike" if self.alike else self.name

    @property
    def kept(self) -> float:
        """Part of the healthy speed; 0 where NPUs do not reach each other."""
        return float(self.healthy.picoseconds / self.bound.picoseconds) if self.bound else 0.0

    def row(self) -> dict[str, object]:
        """Plain values of a row of the table."""
        meaning = self.bound.meaning if self.bound else "NPUs do not reach each other"
        return {"lost": self.label, "kept": self.kept, "meaning": meaning}


def loss(instance: GraphInstance, network: GraphNetwork | None, name: str, alike: int = 0) -> Loss:
    """What an instance keeps on a network that was changed; none if that is not connected.

    Where the collective depends on the number of NPUs, the time for the same buffer counts.
    """
    healthy = best_bound(instance, trees=True)
    bound = None if network is None else best_bound(instance.on(network), trees=True)
    return Loss(name, healthy, bound, alike)


def every_loss(instance: GraphInstance) -> tuple[Loss, ...]:
    """The loss of one part for each role, what hurts most first."""
    roles = roles_of(instance).items()
    losses = (loss(instance, without(instance, name), name, alike) for name, alike in roles)
    return tuple(sorted(losses, key=lambda one: one.kept))


def without(instance: GraphInstance, name: str) -> GraphNetwork | None:
    """The network without a link, switch or box; None if NPUs do not reach each other then."""
    try:
        return degraded(instance, [name]).network
    except InputError:
        return None


def roles_of(instance: GraphInstance) -> dict[str, int]:
    """Links, switches and boxes, one for each role, and how many others of that role it stands for.

    Parts have one role if colour refinement does not tell their nodes apart, with the root in a colour of its own where
    a collective has one, and links have equal bandwidths and latencies.
    """
    network = instance.network
    rooted = any(single.demand.rooted for single in instance.singles)
    colours = alike_nodes(network, network.capacities.terminals[0] if rooted else None)
    colour = {node.name: colours[number] for number, node in enumerate(network.nodes)}
    alike: dict[Hashable, list[str]] = defaultdict(list)
    for link in network.links:
        ways = ((colour[tail], colour[head], rate) for (tail, head), rate in link.bandwidths.items())
        alike[frozenset(ways), link.latency].append(link.label)
    for node in network.nodes:
        if node.kind == "switch":
            alike[colour[node.name]].append(node.name)
    for box, members in network.boxes.items():
        npus = sum(name in members for name in network.npus) if len(network.boxes) > 1 else 0
        if 1 < npus < network.num_npus - 1:
            alike[tuple(sorted(colour[name] for name in members))].append(box)
    return {names[0]: len(names) - 1 for names in alike.values()}


def loss_in_words(instance: GraphInstance, one: Loss) -> str:
    """The sentence about a loss."""
    if one.bound is None:
        return f"Without {one.label} NPUs do not reach each other."
    rates = [format_rate(throughput(where, bound)) for where, bound in ((instance, one.healthy), (instance, one.bound))]
    limit = "any algorithm" if one.bound.holds == "any algorithm" else "any trees"
    return (
        f"{one.label}: {instance.kinds} keeps {format_percent(one.kept)} of its speed at most, "
        f"{rates[1]} instead of {rates[0]} ({limit}: {one.bound.meaning})."
    )


def nccl_choices(
    before: GraphComparison, after: GraphComparison, seconds: float = math.inf
) -> tuple[list[dict[str, object]], tuple[str, ...]]:
    """What NCCL can be told after a loss, in its words, the fastest first, with what each keeps of the healthy speed.

    Rings and trees go on over what is left, do without the NIC of the same number in every box, or without the box.
    Those that are not simulated within the `seconds`, and half a second more, come apart.
    """
    clock = Allowance(seconds)
    healthy, changed = before.problem, after.problem
    lost = {link.label for link in healthy.network.links} - {link.label for link in changed.network.links}
    ways: dict[str, tuple[GraphComparison, list[str], str]] = {
        "NCCL_ALGO=Ring": (after, [], "ring"),
        "NCCL_ALGO=Tree": (after, [], "double_tree"),
    }
    npus = {*healthy.network.npus}
    for box, nodes in healthy.network.boxes.items():
        out = links_out(healthy.network, box)
        nics = [link for link in out if link.label in lost]
        if not nics or npus.isdisjoint(nodes):
            continue
        numbers = ",".join(f"mlx5_{out.index(link)}" for link in nics)
        leaves = sorted({end for link in nics for end in link.ends} - {*nodes} - npus)
        ways[f"NCCL_IB_HCA=^{numbers} on all boxes"] = (before, leaves, "ring")
        ways[f"drain {box}"] = (before, [box], "ring")
    rows, late = list[dict[str, object]](), dict.fromkeys(ways)
    with suppress(TimeUp), cut_off(clock, SLACK):
        usual = _fastest(before, healthy, "ring")
        for setting, (compared, without, policy) in ways.items():
            with suppress(InputError):  # NPUs do not reach each other, or nothing is left
                left = degraded(compared.problem, without)
                taken = _fastest(compared, left, policy)
                told = {"setting": setting, "npus": left.network.num_npus, "makespan_ns": nanoseconds(taken)}
                rows.append(told | {"kept": usual / taken})
            del late[setting]
    return sorted(rows, key=lambda row: -float(str(row["kept"]))), tuple(late)


def _fastest(compared: GraphComparison, instance: GraphInstance, policy: str) -> int:
    """The makespan of a policy in picoseconds: that of a comparison, or one in few chunks, as of a plan that loses."""
    if instance == compared.problem and policy in compared.makespans:
        return compared.makespans[policy]
    schedule = min(schedules_of(instance, policy, rival=0), key=lambda schedule: schedule.makespan)
    validate_graph(schedule)
    return schedule.makespan


def kept_in_words(healthy: GraphComparison, changed: GraphComparison, name: str) -> str:
    """The sentence about schedules before and after."""
    before, after = healthy.best.schedule.makespan, changed.best.schedule.makespan
    rings = [compared.makespans.get("ring") for compared in (healthy, changed)]
    words = (
        f"{name}: {changed.problem.kinds} keeps {format_percent(before / after)} of its speed "
        f"with {changed.best.policy}, {format_short_time(after)} instead of {format_short_time(before)}"
    )
    if rings[0] and rings[1]:
        words += f"; the ring keeps {format_percent(rings[0] / rings[1])}, and takes {format_short_time(rings[1])}"
    return f"{words}."


def plan_losses(instance: GraphInstance, folder: Path, policies: Sequence[str] | None = None) -> Iterator[Entry]:
    """Plan the whole network and that without a part of each role; yields a row of the index as it is there.

    A row says what is lost and how many parts are `alike`, the `policy` and `file` of the fastest schedule, its
    `makespan_ns`, and `kept`, the part of the speed of the whole network.  Without a file NPUs do not reach each other.
    Rows of an earlier run for the same instance and policies stay; the index is written after every plan.

    Raises InputError if the folder has an index of something else, or a policy is not for the instance.
    """
    make_folder(folder)
    key = digest([instance.model_dump(mode="json"), policies, "roles"])
    entries = _entries_of(folder, key)
    healthy = 0.0
    for lost, alike in {HEALTHY: 0, **roles_of(instance)}.items():
        if lost not in entries:
            entries[lost] = _planned(instance, lost, folder, policies) | {"alike": alike}
        entry = entries[lost]
        healthy = healthy or entry["makespan_ns"]
        entry["kept"] = healthy / entry["makespan_ns"] if entry["file"] else 0.0
        document = {"format": LOSSES_FORMAT, "instance": instance.name, "key": key, "plans": list(entries.values())}
        write_atomically(folder / INDEX_FILE, json.dumps(document, indent=1) + "\n")
        yield entry


def _planned(instance: GraphInstance, lost: str, folder: Path, policies: Sequence[str] | None) -> Entry:
    network = instance.network if lost == HEALTHY else without(instance, lost)
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
        f"Of {len(losses)} roles {worst['lost']} hurts most: {instance.kinds} keeps {format_percent(worst['kept'])} "
        f"of its speed{apart}."
    )

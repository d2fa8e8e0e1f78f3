"""Graphs from parts that other tools list: nodes by name, and cables between them."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

from themis_opt.base.errors import InputError
from themis_opt.graphs.links import GraphLink, GraphNode
from themis_opt.graphs.problem import GraphNetwork


class ReadCable(NamedTuple):
    """Bytes per second each way between two nodes, and picoseconds.

    `through`: a part between them that failures may name, such as an adapter.
    """

    tail: str
    head: str
    bandwidth: float
    back: float
    latency: int = 0
    through: str = ""

    @classmethod
    def both_ways(cls, tail: str, head: str, bandwidth: float, latency: int = 0, through: str = "") -> Self:
        """A cable that is alike in both directions."""
        return cls(tail, head, bandwidth, bandwidth, latency, through)

    def turned(self) -> Self:
        """The same from the other end."""
        return self._replace(tail=self.head, head=self.tail, bandwidth=self.back, back=self.bandwidth)


def plain_name(text: str) -> str:
    """A name as graphs allow it: without blanks, commas and equals signs."""
    return re.sub(r"[,=\s]+", "_", text)


def cabled(name: str, nodes: Iterable[GraphNode], cables: Iterable[ReadCable], source: str = "") -> GraphNetwork:
    """The network of nodes and cables, of which those side by side count as one.

    Raises ModelError if it breaks a rule of networks.
    """
    links = [
        GraphLink(
            ends=(cable.tail, cable.head),
            bandwidth=cable.bandwidth,
            back=None if cable.back == cable.bandwidth else cable.back,
            latency=f"{cable.latency} ps",
            name=cable.through,
        )
        for one in _side_by_side(cables)
        for cable in [one if one.bandwidth else one.turned()]  # from the end that can send
    ]
    return GraphNetwork(name=name, nodes=tuple(nodes), links=tuple(links), source=source)


def _side_by_side(cables: Iterable[ReadCable]) -> list[ReadCable]:
    """One cable for all between the same ends; the slowest to arrive says the latency."""
    joined: dict[tuple[str, str], ReadCable] = {}
    for cable in cables:
        ordered = cable if cable.tail <= cable.head else cable.turned()
        ends = ordered.tail, ordered.head
        if ends in joined:
            before = joined[ends]
            ordered = before._replace(
                bandwidth=before.bandwidth + ordered.bandwidth,
                back=before.back + ordered.back,
                latency=max(before.latency, ordered.latency),
                through="",
            )
        joined[ends] = ordered
    return list(joined.values())


def simplified(npus: Sequence[str], cables: Iterable[ReadCable], named: Iterable[str] = ()) -> list[ReadCable]:
    """The cables on ways between NPUs, with one in the place of each chain.

    Other nodes with one cable lead nowhere; those with two pass on what the slower one carries.  A chain is called by
    the part of `named` on it.
    """
    kept, names, at = set(npus), set(named), defaultdict[str, dict[str, ReadCable]](dict)
    for cable in _side_by_side(cables):
        at[cable.tail][cable.head] = cable
        at[cable.head][cable.tail] = cable.turned()
    waiting = [node for node in at if node not in kept]
    while waiting:
        node = waiting.pop()
        ends = at[node]
        near = list(ends)
        if len(near) > 2 or (len(near) == 2 and near[1] in at[near[0]]):  # joined beside it: it keeps name and latency
            continue
        for end in near:
            del at[end][node]
        if len(near) == 2:
            first, second = ends[near[0]].turned(), ends[near[1]]
            rates = min(first.bandwidth, second.bandwidth), min(first.back, second.back)
            through = (node if node in names else "") or first.through or second.through
            chain = ReadCable(near[0], near[1], *rates, first.latency + second.latency, through)
            at[near[0]][near[1]], at[near[1]][near[0]] = chain, chain.turned()
        del at[node]
        waiting += [end for end in near if end not in kept]
    return [cable for ends in at.values() for cable in ends.values() if cable.tail < cable.head]


def reached(npus: Sequence[str], cables: Sequence[ReadCable]) -> list[GraphNode]:
    """Nodes of kind `npu`, and a switch for every other end of a cable."""
    others = sorted({end for cable in cables for end in (cable.tail, cable.head)} - set(npus))
    return [*(GraphNode(name=name) for name in npus), *(GraphNode(name=name, kind="switch") for name in others)]


def refuse_cables(count: int, most: int, source: str) -> None:
    """Refuse more cables than a network may have. Raises InputError."""
    if count > most:
        raise InputError(f"must be at most {most}", field="links", value=count, source=source)

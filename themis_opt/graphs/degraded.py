"""Networks that lost nodes and links, or whose links are slow: what users call them, and what these names stand for."""

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from themis_opt.base.errors import InputError
from themis_opt.graphs.problem import GraphInstance, GraphLink, GraphNetwork

NIC = re.compile(r"(.+)\.nic(\d{1,6})")
"""``n2.nic0``: the first link that leaves box ``n2``."""


def degraded(
    instance: GraphInstance,
    lost: str | Iterable[str] | None = None,
    slow: str | Mapping[str, float] | None = None,
) -> GraphInstance:
    """The instance with slow links and without lost nodes and links.

    Parameters
    ----------
    instance : GraphInstance
    lost : str or sequence of str, optional
        Names, in a text with commas between: of a node or a link; ``n2`` for all nodes whose names begin with ``n2.``;
        ``n2.nic0`` for the first link that leaves this box; ``n2.*`` or ``*-rail.n0`` for all that match.
    slow : str or mapping, optional
        Links and what is left of their bandwidth, such as ``a-b=0.5``.

    Raises
    ------
    InputError
        If a name stands for nothing, a factor is none, or NPUs that are left do not reach each other.

    Examples
    --------
    >>> import themis_opt
    >>> boxes = themis_opt.load("boxes_5_3.all_reduce.1GB")
    >>> len(boxes.network.links) - len(degraded(boxes, "nic1").network.links)
    1
    """
    names = [] if lost is None else lost.split(",") if isinstance(lost, str) else list(lost)
    factors = dict(map(_factor, slow.split(","))) if isinstance(slow, str) else dict(slow or {})
    network = instance.network.slowed(factors) if factors else instance.network
    meant = [one for name in names if name.strip() for one in names_for(network, name.strip())]
    return instance.on(network.without(meant) if meant else network)


def _factor(text: str) -> tuple[str, float]:
    name, _, factor = text.strip().partition("=")
    try:
        return name, float(factor)
    except ValueError:
        raise InputError("must be a link and a factor, such as a-b=0.5", field="--slow", value=text) from None


def names_for(network: GraphNetwork, name: str) -> list[str]:
    """Nodes and links that a name stands for; the name itself if it is one, or stands for nothing."""
    labels = {link.label for link in network.links}
    if name in network.index or name in labels:
        return [name]
    if "*" in name:
        return [one for one in (*network.index, *sorted(labels)) if fnmatchcase(one, name)] or [name]
    if match := NIC.fullmatch(name):
        nics = links_out(network, match[1])
        return [nics[int(match[2])].label] if int(match[2]) < len(nics) else [name]
    return _box(network, name) or [name]


def _box(network: GraphNetwork, name: str) -> list[str]:
    """The nodes of a box."""
    return [node.name for node in network.nodes if node.name.startswith(f"{name}.")]


def links_out(network: GraphNetwork, box: str) -> list[GraphLink]:
    """The links that leave a box, in their order: not those to a switch that joins nodes of this box alone."""
    inside = {*_box(network, box)}
    near: dict[str, set[str]] = {}
    for link in network.links:
        for end, other in (link.ends, link.ends[::-1]):
            near.setdefault(end, set()).add(other)
    inside |= {node.name for node in network.nodes if node.kind == "switch" and near[node.name] <= inside}
    return [link for link in network.links if len(inside & {*link.ends}) == 1]

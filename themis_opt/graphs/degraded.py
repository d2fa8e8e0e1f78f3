"""Networks that lost nodes and links, or whose links are slow: what users call them, and what these names stand for."""

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from themis_opt.base.errors import InputError, reading, suggestion
from themis_opt.graphs.links import GraphLink
from themis_opt.graphs.problem import GraphInstance, GraphNetwork

NIC = re.compile(r"(.+)\.nic(\d{1,6})")  # ``n2.nic0``: the first link that leaves box ``n2``
Factors = str | Mapping[str, float]  # what is left of bandwidths by names, such as ``a-b=0.5,leaf0=0.9``


def degraded(
    instance: GraphInstance, lost: str | Iterable[str] | None = None, slow: Factors | None = None
) -> GraphInstance:
    """The instance with slow links and without lost nodes and links.

    Parameters
    ----------
    instance : GraphInstance
    lost : str or sequence of str, optional
        Names, in a text with commas between: of a node or a link; ``n2`` for all nodes whose names begin with ``n2.``;
        ``n2.nic0`` for the first link that leaves this box; ``n2.*`` or ``*-rail.n0`` for all that match.  The last
        part of a name, or that without its number, stands for the first that is left: ``nic,nic,leaf3``.
    slow : str or mapping, optional
        Such names and what is left of their bandwidth, such as ``a-b=0.5``: of nodes that of all their links.

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
    network = instance.network
    if slow:
        network = network.slowed(_slow_links(network, slow))
    meant = called(network, _texts(lost), "--lost")
    return instance.on(network.without({part for parts in meant.values() for part in parts}) if meant else network)


def change_in_words(network: GraphNetwork, lost: str | None, slow: str | None) -> str:
    """What is lost and slow, by whole names."""
    parts = [f"Without {', '.join(called(network, _texts(lost), '--lost'))}"] if lost else []
    if slow:
        names, factors = zip(*_factors(slow), strict=True)
        slowed = zip(called(network, names, "--slow"), factors, strict=True)
        parts.append(f"with {', '.join(f'{name}={factor:g}' for name, factor in slowed)}")
    return ", ".join(parts)


def _texts(names: str | Iterable[str] | None) -> list[str]:
    texts = names.split(",") if isinstance(names, str) else names or ()
    return [text.strip() for text in texts if text.strip()]


def _factors(slow: Factors) -> list[tuple[str, float]]:
    return [_factor(text) for text in _texts(slow)] if isinstance(slow, str) else list(slow.items())


def _factor(text: str) -> tuple[str, float]:
    name, _, factor = text.partition("=")
    with reading("--slow", text, "must be a link and a factor, such as a-b=0.5"):
        return name, float(factor)


def _slow_links(network: GraphNetwork, slow: Factors) -> dict[str, float]:
    """The least factor of each link that is named, or that leads to a node that is."""
    names, factors = zip(*_factors(slow), strict=True)
    least = dict[str, float]()
    for parts, factor in zip(called(network, names, "--slow").values(), factors, strict=True):
        for link in network.links:
            if not parts.isdisjoint((*link.ends, link.label)):
                least[link.label] = min(factor, least.get(link.label, factor))
    return least


def called(network: GraphNetwork, names: Iterable[str], field: str) -> dict[str, frozenset[str]]:
    """Nodes and links that names stand for, by the whole name of each. Raises InputError if there are none."""
    single = dict.fromkeys([*network.index, *(link.label for link in network.links)])
    boxes, meant = network.boxes, dict[str, frozenset[str]]()
    for name in names:
        whole = name if name in single else next((link.label for link in network.links if name in link.names), name)
        if whole not in single and whole not in boxes and "*" not in name:
            known = (one for one in (*single, *boxes) if one not in meant)
            whole = _nic(network, name) or next((one for one in known if name in _short_names(one)), name)
        parts = boxes[whole] if whole in boxes else [one for one in single if one == whole or fnmatchcase(one, whole)]
        if not parts:
            near = suggestion(name, (*single, *boxes)) or f", such as '{network.links[0].label}'"
            raise InputError(f"must name a node or link of the network{near}", field=field, value=name)
        meant[whole] = frozenset(parts)
    return meant


def _short_names(name: str) -> tuple[str, str]:
    """The last part of a name, and the same without numbers."""
    last = name.rpartition(".")[2]
    return last, re.sub(r"\d[\d_]*", "", last)


def _nic(network: GraphNetwork, name: str) -> str | None:
    """The link that leaves a box at a place, where it has another name."""
    match = NIC.fullmatch(name)
    nics = links_out(network, match[1]) if match else []
    return nics[int(match[2])].label if match and int(match[2]) < len(nics) else None


def links_out(network: GraphNetwork, box: str) -> list[GraphLink]:
    """The links that leave a box, in their order: not those to a switch that joins nodes of this box alone."""
    inside = {*network.boxes.get(box, ())}
    near: dict[str, set[str]] = {}
    for link in network.links:
        for end, other in (link.ends, link.ends[::-1]):
            near.setdefault(end, set()).add(other)
    inside |= {node.name for node in network.nodes if node.kind == "switch" and near[node.name] <= inside}
    return [link for link in network.links if len(inside & {*link.ends}) == 1]

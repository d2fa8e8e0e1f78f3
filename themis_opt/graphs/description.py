"""A graph in words."""

from collections import Counter

from themis_opt.base.units import format_link, format_short_size, format_short_time
from themis_opt.graphs.problem import GraphInstance

MOST_LINK_ROWS = 24
"""Links up to which each has a row; more are summed up by what their ends are called without numbers."""


def graph_headline(instance: GraphInstance) -> str:
    """One line about the whole, with one more for a description."""
    line = f"{instance.name or 'graph'}: {graph_in_short(instance)}"
    return "\n".join(filter(None, (line, instance.description)))


def graph_in_short(instance: GraphInstance) -> str:
    """What it has and what is exchanged, such as ``16 NPUs, 2 switches, 32 links; all_gather of 1 GB``."""
    network = instance.network
    switches = len(network.nodes) - network.num_npus
    load = " and ".join(f"{each.kind.value} of {format_short_size(each.size)}" for each in instance.collectives)
    return f"{network.num_npus} NPUs, {switches} switches, {len(network.links)} links; {load}"


def graph_tables(instance: GraphInstance) -> dict[str, list[dict[str, str]]]:
    """Rows of the links and of the switches that do more than pass messages on."""
    tables = {"links": _link_rows(instance)}
    flagged = [node for node in instance.network.nodes if node.sums or node.multicasts]
    if flagged:
        tables["switches"] = [
            {"name": node.name, "sums": _yes(node.sums), "multicasts": _yes(node.multicasts)} for node in flagged
        ]
    return tables


def _link_rows(instance: GraphInstance) -> list[dict[str, str]]:
    links = instance.network.links
    if len(links) <= MOST_LINK_ROWS:
        keys = [(link.label, link) for link in links]
    else:
        keys = [("-".join(_kind_of(end) for end in link.ends), link) for link in links]
    rows: Counter[tuple[str, str, str, str]] = Counter()
    for name, link in keys:
        back = link.bandwidth if link.back is None else link.back
        rows[
            name, format_link(link.bandwidth), format_link(back) if back else "-", format_short_time(link.latency)
        ] += 1
    titles = ("link", "bandwidth", "back", "latency")
    return [dict(zip(titles, row, strict=True)) | {"links": str(count)} for row, count in rows.items()]


def _kind_of(name: str) -> str:
    """A name with an asterisk for each number."""
    parts = name.split(".")
    return ".".join(part.rstrip("0123456789") + ("*" if part[-1:].isdigit() else "") for part in parts)


def _yes(flag: bool) -> str:
    return "yes" if flag else "no"

"""Networks of dimensions as graphs: every wire of them is a link."""

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise, product

from themis_opt.base.errors import InputError
from themis_opt.graphs.links import GraphLink, GraphNode
from themis_opt.graphs.problem import GraphInstance, GraphNetwork
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Network
from themis_opt.problem.wiring import Kind, grid

Wire = tuple[str, str]


def to_graph(network: Network) -> GraphNetwork:
    """The graph of a network of dimensions.

    An NPU is named by its coordinates, the outermost first.  A ring or a grid gives each of its wires half of the
    bandwidth of an NPU, a fully connected dimension the same part to each; a switch is a node, and half of the latency
    is before it.

    Raises InputError if dimensions share a link, which is none of a graph then, or there are too many NPUs.
    """
    for number, dimension in enumerate(network.dimensions):
        if dimension.shares is not None:
            raise InputError("has no graph", field=f"network.dimensions[{number}].shares", value=dimension.shares)
    sizes = network.sizes[::-1]
    nodes = [GraphNode(name=_npu(place)) for place in product(*map(range, sizes))]
    links: list[GraphLink] = []
    for axis, (dimension, name) in enumerate(zip(network.dimensions[::-1], network.dimension_names[::-1], strict=True)):
        for others in product(*(range(1) if k == axis else range(size) for k, size in enumerate(sizes))):
            members = [_npu((*others[:axis], j, *others[axis + 1 :])) for j in range(dimension.size)]
            switch = f"{name}.{_npu((*others[:axis], *others[axis + 1 :]))}" if len(sizes) > 1 else name
            if dimension.kind is Kind.SWITCH:
                flags = {"sums": True, "multicasts": True} if dimension.in_network else {}
                nodes.append(GraphNode(name=switch, kind="switch", **flags))
            links += _links(dimension, members, switch)
    return GraphNetwork(name=network.name, nodes=tuple(nodes), links=tuple(links), source=network.source)


def as_graph(instance: Instance) -> GraphInstance:
    """An instance of one collective over all dimensions on the graph of its network.

    Raises InputError if it has several, or an iteration, or the network has no graph.
    """
    if len(instance.collectives) != 1 or instance.collectives[0].dimensions is not None:
        raise InputError("must be one collective over all dimensions to be run on a graph", field="collectives")
    network = to_graph(instance.network)
    return GraphInstance(
        name=instance.name, description=instance.description, network=network, collectives=instance.collectives
    )


def _npu(place: tuple[int, ...]) -> str:
    return "n" + ".".join(map(str, place))


def _links(dimension: Dimension, members: list[str], switch: str) -> Iterator[GraphLink]:
    """The links of one group of NPUs along a dimension."""
    part, latency = dimension.bandwidth, dimension.latency
    if dimension.kind is Kind.SWITCH:
        latency //= 2
    if dimension.kind is Kind.FULLY_CONNECTED:
        part /= dimension.size - 1
    if dimension.kind is Kind.MESH2D or (dimension.kind is Kind.RING and dimension.size > 2):
        part /= 2
    for ends in _wires(dimension, members, switch):
        yield GraphLink(ends=ends, bandwidth=part, latency=f"{latency} ps")


def _wires(dimension: Dimension, members: list[str], switch: str) -> Iterator[Wire]:
    if dimension.kind not in WIRES:
        rule = "has no wires on graphs"
        raise InputError(rule, field=f"dimensions.{dimension.name}.kind", value=str(dimension.kind))
    return WIRES[dimension.kind](members, switch)


def _ring_wires(members: list[str], switch: str) -> Iterator[Wire]:
    yield from pairwise(members)
    if len(members) > 2:
        yield members[-1], members[0]


def _grid_wires(members: list[str], switch: str) -> Iterator[Wire]:
    """The wires of a grid whose NPUs are numbered along one row and back along the next."""
    rows, columns = grid(len(members))
    at = {
        (row, column): members[row * columns + (column if row % 2 == 0 else columns - 1 - column)]
        for row, column in product(range(rows), range(columns))
    }
    for (row, column), member in at.items():
        for near in ((row, column + 1), (row + 1, column)):
            if near in at:
                yield member, at[near]


WIRES: Mapping[Kind, Callable[[list[str], str], Iterator[Wire]]] = {
    Kind.SWITCH: lambda members, switch: ((member, switch) for member in members),
    Kind.FULLY_CONNECTED: lambda members, switch: (pair for pair in product(members, members) if pair[0] < pair[1]),
    Kind.LINE: lambda members, switch: iter(pairwise(members)),
    Kind.RING: _ring_wires,
    Kind.MESH2D: _grid_wires,
}
"""The wires of a group of NPUs along a dimension, which has a switch of this name if its kind has switches."""

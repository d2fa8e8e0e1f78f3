"""Networks as groups of equal nodes, in a few lines whatever their size.

A name such as ``box{box}.gpu{gpu}`` stands for a node for each value of its axes, which `counts` gives.  A link between
two such names stands for one for each value of the axes of both: ``box{box}.gpu{gpu}`` to ``box{box}.nvswitch`` joins
the GPUs of a box to its switch, and ``leaf{gpu}`` to ``spine{spine}`` every leaf to every spine.  A place may be a sum:
``chip{x+1}`` is the next chip, that of the last one the first unless the link says ``"wrap": false``.  A link that
stands for the same two nodes twice stands for one.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Annotated, NamedTuple, Self

import numpy as np
from pydantic import Field, StrictBool, model_validator

from themis_opt.base.errors import suggestion
from themis_opt.graphs.links import MAX_GRAPH_LINKS, MAX_GRAPH_NODES, GraphLink, GraphNode
from themis_opt.problem.fields import Count, FieldError, Model

MAX_GROUPS, MAX_GROUP_NPUS = 256, 10**6  # most groups and links between them, and most NPUs of all groups

TERM = re.compile(r"([+-]?)(?:(\d+)(?:\*(?=[a-z]))?)?([a-z]\w*)?", re.IGNORECASE)

Values = Mapping[str, "np.ndarray[tuple[int], np.dtype[np.int64]]"]


class GroupLink(GraphLink):
    """Links between the nodes of two groups; without `wrap` those that lead over the end of an axis are left out."""

    wrap: StrictBool = True


class NamePattern(NamedTuple):
    """A name with places: the texts around these, and the sum in each, as a number for each axis (1 for none)."""

    texts: tuple[str, ...]
    sums: tuple[Mapping[str, int], ...]

    @property
    def axes(self) -> tuple[str, ...]:
        """All axes, in order."""
        return tuple(dict.fromkeys(axis for terms in self.sums for axis in terms if axis))

    def filled(self, places: Sequence[object]) -> str:
        """The name of one node."""
        return "".join(f"{text}{place}" for text, place in zip(self.texts, (*places, ""), strict=True))


class GroupedNetwork(Model):
    """A network as groups of nodes along axes, and links between groups."""

    name: str = ""
    source: str = ""
    counts: dict[str, Annotated[Count, Field(gt=0)]] = Field(default_factory=dict)
    groups: Annotated[tuple[GraphNode, ...], Field(min_length=1, max_length=MAX_GROUPS)]
    links: Annotated[tuple[GroupLink, ...], Field(max_length=MAX_GROUPS)]

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Refuse what cannot be expanded, before anything is."""
        npus, nodes, known = 0, 0, set[tuple[str, ...]]()
        for number, group in enumerate(self.groups):
            field, pattern = f"groups[{number}].name", self._pattern(group.name, f"groups[{number}].name")
            if any([*terms.values()] != [1] or "" in terms for terms in pattern.sums):
                raise FieldError(f"'{group.name}' must have one axis in each place", field)
            if len(pattern.axes) < len(pattern.sums) or pattern.texts in known:
                raise FieldError(f"names must differ, those of '{group.name}' do not", field)
            known.add(pattern.texts)
            count = prod(self.counts[axis] for axis in pattern.axes)
            nodes, npus = nodes + count, npus + count * (group.kind == "npu")
            if npus > MAX_GROUP_NPUS:
                raise FieldError(f"'{group.name}' makes {npus} NPUs, {MAX_GROUP_NPUS} are the most", field)
            if nodes > MAX_GRAPH_NODES:
                raise FieldError(f"'{group.name}' makes {nodes} nodes, {MAX_GRAPH_NODES} are the most", field)
        total = 0
        for number, link in enumerate(self.links):
            patterns = [self._end(end, f"links[{number}].ends") for end in link.ends]
            total += prod(self.counts[axis] for axis in {*patterns[0].axes, *patterns[1].axes})
            if total > 2 * MAX_GRAPH_LINKS:  # of which half may be the same as others
                raise FieldError(f"'{link.label}' makes {total} links, {MAX_GRAPH_LINKS} are the most", "links")
        return self

    def expanded(self) -> dict[str, object]:
        """Fields of the network with all its nodes and links. Raises FieldError if a group of links does not close."""
        nodes = list[GraphNode]()
        first = dict[tuple[str, ...], int]()
        for group in self.groups:
            pattern = self._pattern(group.name)
            first[pattern.texts] = len(nodes)
            places = product(*(range(self.counts[axis]) for axis in pattern.axes))
            nodes += (group.model_copy(update={"name": pattern.filled(place)}) for place in places)
        names = [node.name for node in nodes]
        links = [one for number, link in enumerate(self.links) for one in self._links(number, link, names, first)]
        return {"name": self.name, "source": self.source, "nodes": tuple(nodes), "links": tuple(links)}

    def _links(
        self, number: int, link: GroupLink, names: Sequence[str], first: Mapping[tuple[str, ...], int]
    ) -> list[GraphLink]:
        ends, title = [self._pattern(end) for end in link.ends], self._pattern(link.name)
        axes = tuple(dict.fromkeys([*ends[0].axes, *ends[1].axes]))
        grid = np.indices([self.counts[axis] for axis in axes]).reshape(len(axes), -1)
        values: Values = {axis: grid[k] for k, axis in enumerate(axes)} | {"": np.ones(grid.shape[1], dtype=np.int64)}
        pairs = np.stack([self._nodes(end, values, first[end.texts], wrap=link.wrap) for end in ends])
        kept = np.flatnonzero((pairs >= 0).all(axis=0))
        low, high = pairs[:, kept].min(axis=0), pairs[:, kept].max(axis=0)
        kept = kept[np.sort(np.unique(low * len(names) + high, return_index=True)[1])]
        if link.wrap:
            self._check_closed(number, link, pairs[:, kept], names)
        sums = [(sum(weight * values[axis] for axis, weight in terms.items())) for terms in title.sums]
        labels = [title.filled(place) for place in np.stack(sums, axis=1)[kept].tolist()] if sums else None
        plain = GraphLink.model_construct(
            ends=link.ends, bandwidth=link.bandwidth, back=link.back, latency=link.latency
        )
        return [
            plain.model_copy(
                update={"ends": (names[tail], names[head]), "name": labels[place] if labels else link.name}
            )
            for place, (tail, head) in enumerate(pairs[:, kept].T.tolist())
        ]

    def _nodes(
        self, end: NamePattern, values: Values, first: int, *, wrap: bool
    ) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        """Numbers of the nodes at one end of all links; -1 over the end of an axis without `wrap`."""
        node, inside = np.zeros_like(values[""]), np.ones(len(values[""]), dtype=bool)
        for axis, terms in zip(self._group(end).axes, end.sums, strict=True):
            count = self.counts[axis]
            place = sum((weight * values[name] for name, weight in terms.items()), np.zeros_like(node))
            inside &= (place >= 0) & (place < count)
            node = node * count + place % count
        return np.where(inside | wrap, first + node, -1)

    def _check_closed(
        self, number: int, link: GraphLink, pairs: "np.ndarray[tuple[int, int], np.dtype[np.int64]]",
        names: Sequence[str],
    ) -> None:  # fmt: skip
        """Refuse links of which equal nodes have unequal numbers."""
        field = f"links[{number}].ends"
        if (pairs[0] == pairs[1]).any():
            raise FieldError(f"'{link.label}' joins '{names[pairs[0][pairs[0] == pairs[1]][0]]}' to itself", field)
        degrees = np.bincount(pairs.ravel(), minlength=len(names))
        for side in pairs:
            touched = np.unique(side)
            fewest, most = touched[np.argmin(degrees[touched])], touched[np.argmax(degrees[touched])]
            if degrees[fewest] < degrees[most]:
                uneven = f"'{names[fewest]}' has {degrees[fewest]} of its links, '{names[most]}' has {degrees[most]}"
                raise FieldError(f"'{link.label}' does not close: {uneven}", field)

    def _end(self, text: str, field: str) -> NamePattern:
        """An end of a link, which must be a group."""
        pattern = self._pattern(text, field)
        try:
            self._group(pattern)
        except KeyError:
            near = suggestion(text, [group.name for group in self.groups])
            raise FieldError(f"'{text}' is no group{near}", field) from None
        return pattern

    def _group(self, end: NamePattern) -> NamePattern:
        """The group of an end. Raises KeyError if there is none."""
        return {pattern.texts: pattern for group in self.groups if (pattern := self._pattern(group.name))}[end.texts]

    def _pattern(self, text: str, field: str = "") -> NamePattern:
        """A name with places. Raises FieldError if a place does not close, or is no sum of axes."""
        parts = re.split(r"\{([^{}]*)\}", text)
        if any(brace in part for part in parts[::2] for brace in "{}"):
            raise FieldError(f"'{text}' has a brace that does not close", field)
        return NamePattern(tuple(parts[::2]), tuple(self._terms(part, text, field) for part in parts[1::2]))

    def _terms(self, place: str, text: str, field: str) -> dict[str, int]:
        """The number of each axis in a place."""
        if not re.fullmatch(rf"(?:{TERM.pattern}(?=[+-]|$))+", place, re.IGNORECASE) or not place:
            raise FieldError(f"'{{{place}}}' of '{text}' must be a sum of axes and numbers, such as {{x+1}}", field)
        terms = dict[str, int]()
        for sign, factor, axis in TERM.findall(place):
            if axis and axis not in self.counts:
                raise FieldError(f"'{axis}' of '{text}' is no axis of counts{suggestion(axis, self.counts)}", field)
            if axis or factor:
                terms[axis] = terms.get(axis, 0) + int(f"{sign}{factor or 1}")
        return terms

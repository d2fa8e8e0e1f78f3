"""Which dimensions the NPUs of one group span: axes of parallelism from the innermost dimension outwards."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from math import gcd

from themis_opt.base.errors import InputError
from themis_opt.problem.iteration import Split
from themis_opt.problem.network import Network
from themis_opt.workloads.setup import Setup


@dataclass(frozen=True)
class NpuGroups:
    """Groups of NPUs that hold one copy of a model together.

    `size`, `copies`: NPUs of each group, and groups.
    `inside`, `across`: names of the dimensions within a group, and of those between NPUs that hold the same part.
    `sizes`: NPUs along those within a group.
    `splits`: the dimension that is divided between both, if there is one.
    """

    size: int
    copies: int
    inside: tuple[str, ...]
    across: tuple[str, ...]
    splits: tuple[Split, ...] = ()
    sizes: tuple[int, ...] = ()

    @property
    def replicas(self) -> tuple[str, ...] | None:
        """Dimensions of the gradients' exchange: None for all of the network."""
        return self.across if self.inside else None


@dataclass(frozen=True)
class Placement:
    """Where the NPUs of each axis of parallelism lie.

    `dimensions`, `sizes`: by axis the names of its dimensions, or of parts of those that are split, from the innermost
      one outwards, and how many NPUs they have.
    """

    dimensions: Mapping[str, tuple[str, ...]]
    sizes: Mapping[str, tuple[int, ...]]
    splits: tuple[Split, ...]


def place(network: Network, axes: Iterable[tuple[str, int]]) -> Placement | None:
    """Axes of parallelism laid over the dimensions of a network, the first one innermost; parts share their bandwidth.

    Returns None unless they fill it, and each that ends inside a dimension divides what is left of it.

    `axes`: name and NPUs of each; those of one NPU have no dimensions.
    """
    axes = list(axes)
    waiting = [(axis, size) for axis, size in reversed(axes) if size > 1]
    parts: list[tuple[int, str, int]] = []
    for position, extent in enumerate(network.sizes):
        while extent > 1:
            axis, size = waiting.pop() if waiting else ("", 1)
            part = gcd(size, extent)
            if part not in (size, extent) or part == 1:
                return None
            parts.append((position, axis, part))
            extent //= part
            if size > part:
                waiting.append((axis, size // part))
    return None if waiting else _placed(network, dict(axes), parts)


def _placed(network: Network, axes: Iterable[str], parts: list[tuple[int, str, int]]) -> Placement:
    """The placement of parts of dimensions: the position of the dimension, the axis and the size of each."""
    dimensions: dict[str, tuple[str, ...]] = dict.fromkeys(axes, ())
    sizes: dict[str, tuple[int, ...]] = dict.fromkeys(axes, ())
    splits = []
    for position, group in groupby(parts, key=lambda part: part[0]):
        name, members = network.dimension_names[position], list(group)
        names = [name] if len(members) == 1 else [f"{name}_{axis}" for _, axis, _ in members]
        for part, (_, axis, size) in zip(names, members, strict=True):
            dimensions[axis] += (part,)
            sizes[axis] += (size,)
        if len(members) > 1:
            extents = tuple(size for _, _, size in members)
            splits.append(Split(dimension=name, sizes=extents, names=tuple(names), shared=True))
    return Placement(dimensions, sizes, tuple(splits))


def groups_of(setup: Setup) -> NpuGroups:
    """The groups that a setup asks for, by default those of the innermost dimension."""
    return divide(setup.network, setup.group or setup.network.sizes[0])


def groups_with_copies(setup: Setup, parallelism: str) -> NpuGroups:
    """The same. Raises InputError if there is one group, or one NPU in each."""
    groups = groups_of(setup)
    if groups.size == 1 or groups.copies == 1:
        npus = setup.network.num_npus
        rule = f"must be more than 1 and less than all {npus} NPUs, for {parallelism} to have groups and copies"
        raise InputError(rule, field="--tensor-group", value=groups.size)
    return groups


def divide(network: Network, size: int, *, field: str = "--tensor-group") -> NpuGroups:
    """Groups of `size` NPUs over the innermost dimensions.

    Raises InputError if groups of that size do not fill dimensions from the innermost one, but for a divisor of the
    last.

    `field`: the option that says the size.
    """
    copies = network.num_npus // size if size > 0 else 0
    placed = place(network, (("model", size), ("data", copies))) if copies * size else None
    if placed is None or copies * size != network.num_npus:
        sizes = " x ".join(map(str, network.sizes))
        rule = f"must fill dimensions of {sizes} from the innermost one, and divide the size of the last"
        raise InputError(rule, field=field, value=size)
    inside, across = placed.dimensions["model"], placed.dimensions["data"]
    return NpuGroups(size, copies, inside, across, placed.splits, placed.sizes["model"])

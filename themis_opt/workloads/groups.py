"""Which dimensions the NPUs of one group span: the innermost ones, of which the last may be split."""

from dataclasses import dataclass

from themis_opt.base.errors import InputError
from themis_opt.problem.iteration import Split
from themis_opt.problem.network import Network
from themis_opt.workloads.setup import Setup


@dataclass(frozen=True)
class NpuGroups:
    """Groups of NPUs that hold one copy of a model together.

    `size`, `copies`: NPUs of each group, and groups.
    `inside`, `across`: names of the dimensions within a group, and of those between NPUs that hold the same part.
    `splits`: the dimension that is divided between both, if there is one.
    """

    size: int
    copies: int
    inside: tuple[str, ...]
    across: tuple[str, ...]
    splits: tuple[Split, ...] = ()

    @property
    def replicas(self) -> tuple[str, ...] | None:
        """Dimensions of the gradients' exchange: None for all of the network."""
        return self.across if self.inside else None


def groups_of(setup: Setup) -> NpuGroups:
    """The groups that a setup asks for, by default those of the innermost dimension."""
    return divide(setup.network, setup.group or setup.network.sizes[0], shared=setup.shared)


def groups_with_copies(setup: Setup, parallelism: str) -> NpuGroups:
    """The same. Raises InputError if there is one group, or one NPU in each."""
    groups = groups_of(setup)
    if groups.size == 1 or groups.copies == 1:
        npus = setup.network.num_npus
        rule = f"must be more than 1 and less than all {npus} NPUs, for {parallelism} to have groups and copies"
        raise InputError(rule, field="--tensor-group", value=groups.size)
    return groups


def divide(network: Network, size: int, *, shared: bool = True) -> NpuGroups:
    """Groups of `size` NPUs over the innermost dimensions.

    Raises InputError if groups of that size do not fill dimensions from the innermost one, but for a divisor of the
    last.

    `shared`: whether both parts of a dimension that is split share its bandwidth, as a NIC does.
    """
    names, rest = network.dimension_names, size
    for position, extent in enumerate(network.sizes):
        if rest == 1:
            return NpuGroups(size, network.num_npus // size, names[:position], names[position:])
        if rest % extent:
            return _split(network, size, position, rest, shared)
        rest //= extent
    if rest > 1:
        raise _unfit(network, size)
    return NpuGroups(size, 1, names, ())


def _split(network: Network, size: int, position: int, part: int, shared: bool) -> NpuGroups:
    """Groups that end inside a dimension, of which they take `part`."""
    name, extent = network.dimension_names[position], network.sizes[position]
    if part < 1 or extent % part:
        raise _unfit(network, size)
    halves = (f"{name}_model", f"{name}_data")
    split = Split(dimension=name, sizes=(part, extent // part), names=halves, shared=shared)
    before, after = network.dimension_names[:position], network.dimension_names[position + 1 :]
    return NpuGroups(size, network.num_npus // size, (*before, halves[0]), (halves[1], *after), (split,))


def _unfit(network: Network, size: int) -> InputError:
    sizes = " x ".join(map(str, network.sizes))
    rule = f"must fill dimensions of {sizes} from the innermost one, and divide the size of the last"
    return InputError(rule, field="--tensor-group", value=size)

"""Hypothesis strategies for training iterations and the policies that plan them."""

from hypothesis import strategies as st
from strategies import networks, times

from themis_opt.policies.registry import LAUNCHING
from themis_opt.problem.exchanges import Tensor
from themis_opt.problem.instance import Instance
from themis_opt.problem.iteration import ComputeTask, Iteration, Split
from themis_opt.problem.network import Network
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.dispatch import DISPATCH

MAX_ELEMENTS = 10**6

launchings = st.sampled_from(
    [
        *LAUNCHING,
        *(f"{name}:order={order}" for name in LAUNCHING for order in ("ready", "newest", "layer")),
        "ddp:first_cap=1kB:cap=100kB",
        "dear:threshold=100kB",
        "horovod:buffer=100kB:cycle=10us",
    ]
)
"""Every launching policy, also with buckets small enough to be more than one."""

chunk_policies = st.sampled_from(
    [
        *(f"{name}+{rule}" for name in ("baseline", "themis", "random") for rule in DISPATCH),
        *("hourglass", "hourglass:sizes=free", "search:evaluations=8"),
    ]
)
"""Every kind of chunk policy that needs no solver."""

specifications = st.builds("{}/{}".format, launchings, chunk_policies)


@st.composite
def splits(draw: st.DrawFn, network: Network) -> tuple[Network, tuple[Split, ...]]:
    """The network, or one of its dimensions grown to be split in two."""
    if not draw(st.booleans()):
        return network, ()
    number = draw(st.integers(0, len(network.dimensions) - 1))
    dimensions = list(network.dimensions)
    parts = st.integers(2, 4).filter(lambda size: not dimensions[number].kind.rule.flaw(size))
    inner, outer = draw(parts), draw(parts)
    dimensions[number] = dimensions[number].replace(size=inner * outer)
    split = Split(
        dimension=network.dimension_names[number],
        sizes=(inner, outer),
        names=("inner", "outer"),
        shared=draw(st.booleans()),
    )
    return network.replace(dimensions=tuple(dimensions)), (split,)


def names_after(network: Network, divided: tuple[Split, ...]) -> tuple[str, ...]:
    """Names of the dimensions after splits."""
    parts = {split.dimension: split.names for split in divided}
    return tuple(part for name in network.dimension_names for part in parts.get(name, (name,)))


@st.composite
def tensors(draw: st.DrawFn, number: int, tasks: int, names: tuple[str, ...]) -> Tensor:
    """A tensor between any two tasks, of any kind, on some or all of the named dimensions."""
    ready, needed = draw(st.integers(0, tasks - 1)), draw(st.integers(0, tasks - 1))
    element_bytes = draw(st.sampled_from([1, 2, 2, 4]))
    elements = draw(st.integers(1, 8) | st.integers(1, MAX_ELEMENTS))
    span = st.lists(st.sampled_from(names), min_size=1, unique=True).map(tuple)
    return Tensor(
        name=f"tensor{number}",
        kind=draw(st.sampled_from([CollectiveKind.ALL_REDUCE, *CollectiveKind])),
        size=elements * element_bytes,
        ready_after=f"task{ready}",
        needed_before=f"task{needed}",
        needed_in=draw(st.sampled_from([None, "next"])),
        dimensions=draw(st.none() | st.none() | span),
        parallelism=draw(st.sampled_from(["data", "data", "model"])),
        element_bytes=element_bytes,
    )


@st.composite
def iteration_instances(draw: st.DrawFn) -> Instance:
    """Iterations of one to five tasks and as many tensors."""
    network, divided = draw(splits(draw(networks(max_dimensions=3))))
    count = draw(st.integers(1, 5))
    tasks = tuple(ComputeTask(name=f"task{t}", duration=draw(times(10**9))) for t in range(count))
    drawn_tensors = [draw(tensors(n, count, names_after(network, divided))) for n in range(draw(st.integers(1, 5)))]
    return Instance(
        network=network,
        iteration=Iteration(tasks=tasks, tensors=tuple(drawn_tensors), splits=divided),
        chunks=draw(st.integers(1, 5)),
        latency=draw(st.sampled_from(["lag", "occupy"])),
        ag_order=draw(st.sampled_from(["free", "reverse"])),
    )

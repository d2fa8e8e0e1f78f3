"""Figures that systems publish as one number, over what the number depends on."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from common import BUSY, NODES, RATE, SITES, V100, Row, made, measured, run

from themis_opt import load
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Network
from themis_opt.workloads.memory import memory_use
from themis_opt.workloads.parallelisms import PARALLELISMS
from themis_opt.workloads.setup import Setup
from themis_opt.workloads.timing import Rate
from themis_opt.workloads.transformations import parse_compression
from themis_opt.workloads.transformers import TransformerShape, transformer


def curves() -> Iterator[Row]:
    """What a published figure depends on: one curve for each system, and where the published value lies."""
    for points in (_fred, _daso, _fusionllm, _adasum, _dct, _karma, _splitbrain, _ddp, _local_sgd):
        yield from points()


def stages() -> Iterator[Row]:
    """Pipelines of FRED and RaNNC in published sizes, over what is not known of them."""
    yield from _fred_pipelines()
    yield from _rannc()


def _curve(
    what: str, over: str, places: Sequence[float], ours: Callable[[float], float], published: str
) -> Iterator[Row]:
    for place in places:
        yield {"workload": what, "over": over, "at": place, "ours": ours(place), "published": published}


def _time(instance: Instance, policy: str = BUSY) -> float:
    return run(instance, policy).makespan / instance.steps


def _scaled(network: Network, name: str, bandwidth: str) -> Network:
    return network.varied(
        dimensions=tuple(
            dimension.replace(bandwidth=bandwidth) if dimension.name == name else dimension
            for dimension in network.dimensions
        )
    )


def _fred() -> Iterator[Row]:
    mesh, tree = (load(f"wafer-{name}.all_reduce.1GB").network for name in ("mesh", "tree"))

    def gain(batch: float) -> float:
        choices: Row = {"timing": Rate(10**15), "batch": int(batch), "element_bytes": 2, "granularity": "fused"}
        before, after = (_time(made("resnet-152", wafer, chunks=64, **choices)) for wafer in (mesh, tree))
        return before / after

    yield from _curve("FRED: ResNet-152 on a wafer, times faster", "batch", (1, 2, 4, 8, 16), gain, "1.76")


def _fred_pipelines() -> Iterator[Row]:
    """Tensor groups, copies and two stages, with 16 samples for each copy as published.

    The rate of an NPU is free.  The ratio of the best schedules lies between `at least` and `at most`, by the bounds of
    both.  Groups of 3 and 3 copies take 18 of the 20 NPUs, a mesh of 3 x 6 here.
    """
    wafers = tuple(load(f"wafer-{name}.all_reduce.1GB").network for name in ("mesh", "tree"))
    fewer = tuple(
        network.varied(dimensions=tuple(d.replace(size=n) for d, n in zip(network.dimensions, sizes, strict=True)))
        for network, sizes in zip(wafers, ((3, 6), (18,)), strict=True)
    )
    turing: Row = {"model": "transformer:layers=78:hidden=4256", "sequence": 1024, "microbatches": 8, "zero": 2}
    for what, networks, claimed, given in (
        ("Transformer-17B, groups of 3, 3 copies, 2 stages", fewer, "1.87", turing | {"group": 3, "data": 3}),
        ("Transformer-17B, groups of 2, 5 copies, 2 stages", wafers, "1.63, mean of its ways", turing | {"group": 2}),
        ("GPT-3, groups of 2, 5 copies, 2 stages", wafers, "1.34", {"model": "gpt-3", "group": 2, "microbatches": 2}),
        (
            "Transformer-1T, groups of 4, 5 stages",
            wafers,
            "1.40 with 20 copies",
            {"model": "transformer-1t", "group": 4, "data": 1, "stages": 5, "microbatches": 16},
        ),
    ):
        for petaflops in (1, 4, 16, 64):
            choices = {"stages": 2, "batch": 16, "element_bytes": 2} | given | {"timing": Rate(petaflops * 10**15)}
            mesh, tree = (
                measured("", made(network=network, parallelism="pipeline", **choices)) for network in networks
            )
            yield {
                "workload": f"FRED: {what}, times faster",
                "over": "PFLOP/s of an NPU",
                "at": petaflops,
                "ours": mesh["batch ms"] / tree["batch ms"],
                "published": claimed,
                "largest gap %": max(mesh["gap %"], tree["gap %"]),
                "at least": mesh["batch ms"] / tree["batch ms"] / (1 + mesh["gap %"] / 100),
                "at most": mesh["batch ms"] / tree["batch ms"] * (1 + tree["gap %"] / 100),
            }


def _daso() -> Iterator[Row]:
    def saved(gigabits: float) -> float:
        network = _scaled(NODES, "adapter", f"{gigabits} Gb/s")
        steps = made("resnet-50", network, "daso", skip=8, wait=2, element_bytes=2)
        return 100 * (1 - _time(steps) / _time(made("resnet-50", network, element_bytes=2), "horovod/hourglass"))

    yield from _curve("DASO: ResNet-50, less time than Horovod (%)", "Gb/s", (25, 10, 5, 2.5), saved, "up to 34")


def _fusionllm() -> Iterator[Row]:
    slowest = min(SITES.dimensions, key=lambda dimension: dimension.bandwidth).name

    def gain(megabits: float) -> float:
        network = _scaled(SITES, slowest or "", f"{megabits} Mb/s")
        plain, adaptive = (made("resnet-101", network, batch=32, adaptive=ratio) for ratio in (1.0, 100.0))
        return _time(plain, "fused/hourglass") / _time(adaptive, "fused/hourglass")

    yield from _curve(
        "FusionLLM: ResNet-101 at three sites, times faster", "Mb/s", (8, 100, 1000, 10_000), gain, "1.45 to 9.39"
    )


def _adasum() -> Iterator[Row]:
    for latency in (4, 30):

        def more(gigabits: float, latency: int = latency) -> float:
            times = []
            for algorithm in ("adasum", "halving_doubling"):
                link: Row = {"bandwidth": f"{gigabits} Gb/s", "latency": f"{latency} us", "algorithm": algorithm}
                network = Network(dimensions=(Dimension(kind="switch", size=64, **link),))
                collective = Collective(kind="all_reduce", size="25 MB", chunks=1)
                times.append(_time(Instance(network=network, collectives=(collective,)), "baseline"))
            return 100 * (times[0] / times[1] - 1)

        yield from _curve(
            f"Adasum: 25 MB on 64 NPUs, steps of {latency} us, longer than a sum (%)", "Gb/s", (10, 100, 400), more,
            "almost 0",
        )  # fmt: skip


def _dct() -> Iterator[Row]:
    for grow in (False, True):

        def saved(ratio: float, grow: bool = grow) -> float:
            small = parse_compression(f"data={2 * ratio:g},model=40", 4)
            whole = _time(made("dlrm-large", NODES, batch=64))
            network = _sums_that_grow(NODES, 2 * ratio) if grow else NODES
            compression = parse_compression("model=40", 4) if grow else small
            return 100 * (1 - _time(made("dlrm-large", network, batch=64, compression=compression)) / whole)

        what = "sums that grow with the ranks" if grow else "sums as sparse as gradients"
        yield from _curve(
            f"DCT: DLRM, {what}, less time (%)", "ratio of bytes", (2, 10, 50, 100, 500), saved, "37 at 100"
        )


def _sums_that_grow(network: Network, ratio: float) -> Network:
    """The network with values that are sparser on the first dimension than where many ranks were summed.

    Of N ranks that keep one of r values each, sums keep 1 - (1 - 1/r)^N; a value has a place of as many bytes.  Both
    ways over a dimension count as what leaves it summed: the way there is sparser, the way back denser.
    """
    ranks, dimensions = 1, []
    for dimension in network.dimensions:
        ranks *= dimension.size
        kept = 1 - (1 - 1 / ratio) ** ranks
        dimensions.append(dimension.replace(compression=max(1.0, 1 / (2 * kept))))
    return network.varied(dimensions=tuple(dimensions))


def _karma() -> Iterator[Row]:
    def gain(gigabytes: float) -> float:
        given: Row = {"batch": 512, "memory": int(gigabytes * 1e9), "host_link": 16e9}
        again = _time(made("resnet-50", V100, batch=512, recompute=True))
        return again / _time(made("resnet-50", V100, "out-of-core", **given))

    yield from _curve(
        "KARMA: ResNet-50, batch 512, times faster than computing everything again", "GB of memory",
        (12, 16, 24, 32), gain, "1.52 on average",
    )  # fmt: skip


def _rannc() -> Iterator[Row]:
    """32 GPUs that hold a BERT of hidden size 2048 in as many stages, beside tensor groups of the 8 of a node.

    The batch is 256, and 64 for each of four groups.
    """
    outer = V100.dimensions[-1]
    servers = Network(dimensions=(V100.dimensions[0], outer.replace(size=4)))
    flat = Network(dimensions=(outer.replace(size=32),))  # stages lie within one dimension

    def bytes_of(depth: int, parallelism: str, **choices: int) -> int:
        layers = transformer(TransformerShape(depth, 2048, 30522, 512), 512)
        network = flat if parallelism == "pipeline" else servers
        setup = Setup(network=network, timing=RATE, element_bytes=4, **choices)
        make = PARALLELISMS[parallelism].make
        return memory_use(layers, setup, parallelism, lambda _, setup: make(layers, setup)).total

    def deepest(memory: float, parallelism: str, **choices: int) -> float:
        """Layers that fit: every further one in each stage takes as much."""
        few, more = (bytes_of(depth, parallelism, **choices) for depth in (64, 128))
        return 64 + 64 * (memory - few) / (more - few)

    def larger(gigabytes: float) -> float:
        memory = gigabytes * 1e9
        return deepest(memory, "pipeline", batch=256, stages=32, microbatches=32) / deepest(
            memory, "hybrid", batch=64, group=8
        )

    what = "RaNNC: BERT in 32 stages, times as many layers as tensor groups of 8 hold"
    yield from _curve(what, "GB of memory", (16, 32, 80), larger, "5")


def _splitbrain() -> Iterator[Row]:
    def network(npus: float) -> Network:
        link: Row = {"bandwidth": "100 Gb/s", "latency": "4 us"}
        inner = Dimension(kind="switch", size=4, **link)
        return Network(dimensions=(inner, Dimension(kind="switch", size=int(npus) // 4, **link)))

    def less_memory(group: float) -> float:
        split, whole = made("vgg-16", network(64), "splitbrain", group=int(group)), made("vgg-16", network(64))
        return 100 * (1 - split.parameter_bytes / whole.parameter_bytes)

    def speed(npus: float) -> float:
        instance = made("vgg-16", network(npus), "splitbrain", group=4, batch=32)
        return npus * instance.compute / _time(instance)

    yield from _curve("SplitBrain: VGG-16, less memory (%)", "group", (4,), less_memory, "up to 67")
    yield from _curve("SplitBrain: VGG-16, speed-up", "NPUs", (8, 16, 64, 256), speed, "nearly linear")


def _ddp() -> Iterator[Row]:
    def speed(servers: float) -> float:
        dimensions = (V100.dimensions[0], V100.dimensions[-1].replace(size=int(servers)))
        instance = made("resnet-50", Network(dimensions=dimensions), batch=32)
        return instance.network.num_npus * instance.compute / _time(instance, "ddp/hourglass")

    yield from _curve("DDP: ResNet-50, speed-up on servers of 8", "servers", (2, 8, 32), speed, "near-linear at 256")


def _local_sgd() -> Iterator[Row]:
    """Steps between exchanges that the law of local SGD allows, and the time that they save.

    With N nodes and T steps, equally distributed data needs of the order of N^1.5 T^0.5 exchanges, other data of
    N^0.75 T^0.75 (S. Shen et al., STL-SGD, AAAI 2021, https://arxiv.org/abs/2006.06377, abstract); the factor is 1
    here.  T is that of 90 epochs of ImageNet in batches of 256.  Since errors fall as 1 / (N T)^0.5, half the error on
    as many nodes takes four times the steps, between which exchanges lie farther apart.
    """
    for what, law in (("equally distributed data", (1.5, 0.5)), ("other data", (0.75, 0.75))):
        by_nodes = partial(_saved_by_rare_exchanges, law)
        yield from _curve(
            f"Local SGD: ResNet-50, {what}, less time (%)", "nodes", (8, 16, 32, 64), by_nodes, "a law of rounds"
        )
        yield from _curve(
            f"Local SGD: ResNet-50 on 16 nodes, {what}, less time (%)", "times the error after 90 epochs",
            (4, 2, 1, 0.5, 0.25), partial(by_nodes, 16), "a law of rounds",
        )  # fmt: skip


def _saved_by_rare_exchanges(law: tuple[float, float], nodes: float, error: float = 1.0) -> float:
    """Per cent of the time of a step that exchanges as rare as a law allows save."""
    of_nodes, of_steps = law
    steps = 90 * 1_281_167 / 256 / error**2
    rounds = min(nodes**of_nodes * steps**of_steps, steps)
    network = Network(dimensions=(NODES.dimensions[0], NODES.dimensions[1].replace(size=int(nodes))))
    fewer = made("resnet-50", network, "daso", skip=max(1, int(steps / rounds)))
    return 100 * (1 - _time(fewer) / _time(made("resnet-50", network), "fused/hourglass"))

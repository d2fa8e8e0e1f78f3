"""Models divided between NPUs, slow networks and wafers."""

from collections.abc import Iterator

from common import NODES, RATE, SITES, Row, made, measured, run

from themis_opt import load
from themis_opt.policies.registry import LAUNCHING, make_policy
from themis_opt.problem.network import Dimension, Network
from themis_opt.solving.bounds import bounds
from themis_opt.workloads.models import MODELS
from themis_opt.workloads.parallelisms import make_workload
from themis_opt.workloads.setup import Setup
from themis_opt.workloads.timing import Rate
from themis_opt.workloads.transformers import TransformerShape, transformer


def fusionllm() -> Iterator[Row]:
    """FusionLLM: 48 GPUs at three sites with 8 Mb/s between them (a default, not a figure of the paper)."""
    plain = made("resnet-101", SITES, batch=32)
    yield measured("ResNet-101, no compression", plain, "fused/hourglass")
    for ratio in (10.0, 100.0):
        adaptive = made("resnet-101", SITES, batch=32, adaptive=ratio)
        policy = "fused/baseline+fifo"
        bytes_sent = [float(make_policy(policy)(instance).costs(instance).sent.sum()) for instance in (plain, adaptive)]
        even = bytes_sent[0] / bytes_sent[1]
        dimensions = tuple(dimension.model_copy(update={"compression": even}) for dimension in SITES.dimensions)
        uniform = plain.varied(network=SITES.varied(dimensions=dimensions))
        yield measured(f"ResNet-101, adaptive, r = {ratio:g}", adaptive, "fused/hourglass")
        yield measured(f"ResNet-101, the same bytes, all dimensions {even:.3f}x", uniform, "fused/hourglass")


def oracle() -> Iterator[Row]:
    """ParaDL: six strategies of four convolutional networks."""
    for model in ("resnet-50", "resnet-101", "resnet-152", "vgg-16"):
        for parallelism in ("data", "filter", "channel", "data+filter", "data+channel", "data+spatial"):
            batch = 8 if parallelism == "data" else 32 if "+" in parallelism else 256
            yield measured(
                f"{MODELS[model].title}, {parallelism}, {batch} per group", made(model, NODES, parallelism, batch=batch)
            )
        stages = made(model, NODES, "pipeline", batch=64, stages=4, microbatches=8)
        yield measured(f"{MODELS[model].title}, pipeline of 4 stages", stages)


def pipelines() -> Iterator[Row]:
    """Pipelines of BERT-large; the formula is (m + s - 1) / m of the longest stage's compute, without messages."""
    for schedule in ("gpipe", "1f1b"):
        for microbatches in (4, 8, 16):
            instance = made(
                "bert-large",
                NODES,
                "pipeline",
                batch=16,
                stages=4,
                microbatches=microbatches,
                schedule=schedule,
                sequence=128,
            )
            formula = (microbatches + 3) / microbatches * instance.compute / 1e9
            yield measured(f"4 stages, {microbatches} microbatches, {schedule}", instance, **{"formula ms": formula})
    for name in ("bert-large", "vgg-16"):
        shipped = load(f"v100-64.{name}")
        for policy in (*(f"{launching}/hourglass" for launching in LAUNCHING), "exact:seconds=20"):
            yield measured(shipped.name, shipped, policy)


def swarm() -> Iterator[Row]:
    """SWARM: messages of 8 bits at 200 Mb/s; doubling the hidden size halves what messages take of the compute."""
    network = Network(dimensions=(Dimension(kind="switch", size=4, bandwidth="200 Mb/s", latency="1 ms"),))
    for hidden in (1024, 2048, 4096, 8192):
        layers = transformer(TransformerShape(4, hidden, 1, 1), 256)[1:-1]
        setup = Setup(network=network, timing=RATE, batch=8, element_bytes=1, stages=4, microbatches=8)
        instance = make_workload(MODELS["gpt-3"], layers, setup, parallelism="pipeline", chunks=1)
        sent = (
            sum(exchange.size for exchange in instance.exchanges if exchange.ready_task in instance.busiest_chain)
            / 25e6
            * 1e3
        )
        yield measured(f"hidden size {hidden}", instance, **{"messages / compute": sent / (instance.compute / 1e9)})


def fred() -> Iterator[Row]:
    """FRED: 20 NPUs as a mesh of 5 x 4 with links of 750 GB/s, or below two levels of switches that reduce.

    Gradients at the end are one tensor that nothing hides, and the ratios of the paper stand nearer to theirs.  Both
    these and gradients that overlap are near the bound on both networks, so that their ratios are proven.
    """
    mesh, *trees = (load(f"wafer-{name}.all_reduce.1GB") for name in ("mesh", "tree", "thin-tree"))
    (size,) = (exchange.size for exchange in mesh.exchanges)
    corner, once = 2 * size * 19 / 20 / 1.5e12, size / 3e12
    slowest = 0
    for instance in (mesh, *trees):
        schedule = run(instance, "hourglass")
        slowest = slowest or schedule.makespan
        row = {
            "workload": f"all-reduce of 1 GB, {instance.network.name}",
            "batch ms": schedule.makespan / 1e9,
            "gap %": 100 * (schedule.makespan / max(bounds(instance).values()) - 1),
        }
        yield row if instance is mesh else row | {"ratio": slowest / schedule.makespan, "cut ratio": corner / once}
    for model, parallelism, claimed in (
        ("resnet-152", "data", 1.76),
        ("gpt-3", "hybrid", 1.34),
        ("transformer-1t", "data", 1.40),
    ):
        choices: Row = {"timing": Rate(1_000_000_000_000_000), "batch": 1, "element_bytes": 2}
        choices |= {"group": 4} if parallelism == "hybrid" else {}
        for launching, granularity in (("at the end", "fused"), ("overlapped", "layer")):
            both = []
            for network in (mesh.network, trees[0].network):
                instance = made(model, network, parallelism, chunks=64, granularity=granularity, **choices)
                what = f"{MODELS[model].title}, {parallelism}, gradients {launching}, {network.name}"
                both.append(measured(what, instance))
            yield from both
            ratio = both[0]["batch ms"] / both[1]["batch ms"]
            yield {"workload": f"{MODELS[model].title}, gradients {launching}", "ratio": ratio, "published": claimed}


def bine() -> Iterator[Row]:
    """Bine trees: bytes of a reduce-scatter times the distance of their ends on a ring, beside butterflies of 2^k.

    The farther messages go, the more of them leave a group of neighbours.
    """
    for npus in (64, 1024, 16_384):
        steps = range(npus.bit_length() - 1)
        ours = sum(abs(1 - (-2) ** (step + 1)) / 3 / 2 ** (step + 1) for step in steps)
        others = sum(2**step / 2 ** (step + 1) for step in steps)
        less = 100 * (1 - ours / others)
        yield {
            "workload": f"{npus} NPUs",
            "bine": ours,
            "butterfly": others,
            "less %": less,
            "published": "at most 33 %",
        }

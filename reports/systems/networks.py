"""Models divided between NPUs, slow networks and wafers."""

from collections.abc import Iterator

from common import NODES, RATE, SITES, Row, made, measured, run

from themis_opt.policies.registry import make_policy
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import FORMAT, Instance
from themis_opt.problem.network import Dimension, Network
from themis_opt.solving.bounds import bounds
from themis_opt.workloads.models import MODELS
from themis_opt.workloads.parallelisms import make_workload
from themis_opt.workloads.setup import Setup
from themis_opt.workloads.timing import Rate
from themis_opt.workloads.transformers import Shape, transformer


def fusionllm() -> Iterator[Row]:
    """FusionLLM: 48 GPUs at three sites with 8 Mb/s between them (a default, not a figure of the paper)."""
    plain = made("resnet-101", SITES, batch=32)
    yield measured("ResNet-101, no compression", plain, "fused/hourglass")
    for ratio in (10.0, 100.0):
        adaptive = made("resnet-101", SITES, batch=32, adaptive=ratio)
        policy = "fused/baseline+fifo"
        bytes_sent = [float(make_policy(policy)(own).costs(own).sent.sum()) for own in (plain, adaptive)]
        even = bytes_sent[0] / bytes_sent[1]
        dimensions = tuple(own.model_copy(update={"compression": even}) for own in SITES.dimensions)
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
    for model, stages in (("bert-base", 2), ("vgg-16", 4)):
        small = made(model, NODES, "pipeline", batch=8, stages=stages, microbatches=4, chunks=2, granularity="fused")
        for policy in ("priority/hourglass", "exact:seconds=60"):
            yield measured(f"{MODELS[model].title}, {stages} stages, 4 microbatches", small, policy)


def swarm() -> Iterator[Row]:
    """SWARM: messages of 8 bits at 200 Mb/s; doubling the hidden size halves what messages take of the compute."""
    network = Network(dimensions=(Dimension(kind="switch", size=4, bandwidth="200 Mb/s", latency="1 ms"),))
    for hidden in (1024, 2048, 4096, 8192):
        layers = transformer(Shape(4, hidden, 1, 1), 256)[1:-1]
        setup = Setup(network=network, timing=RATE, batch=8, element_bytes=1, stages=4, microbatches=8)
        instance = make_workload(MODELS["gpt-3"], layers, setup, parallelism="pipeline", chunks=1)
        sent = sum(own.size for own in instance.exchanges if own.ready_task in instance.busiest_chain) / 25e6 * 1e3
        yield measured(f"hidden size {hidden}", instance, **{"messages / compute": sent / (instance.compute / 1e9)})


def fred() -> Iterator[Row]:
    """FRED: 20 NPUs as a mesh of 4 x 5 with links of 750 GB/s, or below switches that reduce, at 3 TB/s (defaults)."""
    lines = {"line4": 4, "line5": 5}
    mesh = Network(
        name="mesh 4x5",
        dimensions=tuple(
            Dimension(kind="line", size=size, bandwidth="750 GB/s", latency="20 ns", name=name)
            for name, size in lines.items()
        ),
    )
    port = Dimension(kind="switch", size=20, bandwidth="3 TB/s", latency="40 ns", in_network=True, name="fabric")
    wafer = Network(name="switches that reduce", dimensions=(port,))
    size, times = 10**9, []
    for network in (mesh, wafer):
        one = Instance(
            format=FORMAT, network=network, collectives=(Collective(kind="all_reduce", size=size, chunks=64),)
        )
        schedule = run(one, "hourglass")
        times.append(schedule.makespan)
        gap = 100 * (schedule.makespan / max(bounds(one).values()) - 1)
        yield {"workload": f"all-reduce of 1 GB, {network.name}", "batch ms": schedule.makespan / 1e9, "gap %": gap}
    corner, inside = 2 * size * 19 / 20 / 1.5e12, size / 3e12
    yield {
        "workload": "ratio, and corner cut over one pass",
        "ratio": times[0] / times[1],
        "cut ratio": corner / inside,
    }
    for model, parallelism, batch, claimed in (
        ("resnet-152", "data", 1, 1.76),
        ("gpt-3", "hybrid", 1, 1.34),
        ("transformer-1t", "data", 1, 1.40),
    ):
        choices: Row = {"timing": Rate(1_000_000_000_000_000), "batch": batch, "element_bytes": 2}
        choices |= {"group": 4} if parallelism == "hybrid" else {}
        both = []
        for network in (mesh, wafer):
            instance = made(model, network, parallelism, chunks=16, **choices)
            row = measured(f"{MODELS[model].title}, {parallelism}, {network.name}", instance, "fused/hourglass")
            both.append(row["batch ms"])
            yield row
        yield {"workload": MODELS[model].title, "ratio": both[0] / both[1], "published": claimed}

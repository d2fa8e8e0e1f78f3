"""What is exchanged when: sharding, fewer rounds, fewer bytes, unequal nodes, little memory."""

from collections.abc import Iterator

import optuna
from common import BUSY, NODES, RATE, V100, Fixed, Row, bisect, made, measured, run

from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Network
from themis_opt.problem.phases import CollectiveKind
from themis_opt.solving.bounds import bounds
from themis_opt.study.robustness import executions, loss_distributions, parse_chunk_delay, tolerance_effect
from themis_opt.study.sweep import least_compression, measured_share, project, sweep
from themis_opt.workloads.models import MODELS
from themis_opt.workloads.out_of_core import activations, offloaded
from themis_opt.workloads.setup import Setup
from themis_opt.workloads.timing import Rate
from themis_opt.workloads.transformations import parse_compression
from themis_opt.workloads.unequal import parse_unequal

HETSEQ_COMPUTE = 2.325
"""Seconds of compute per step that the times of one node imply."""

HETSEQ = {2: 1.72, 4: 3.22, 8: 5.94}
"""Published speed-ups by nodes."""


def hetseq() -> Iterator[Row]:
    """HetSeq: unequal nodes; the link is fitted to one published speed-up, and the other two are predicted."""
    for fitted, claimed in HETSEQ.items():

        def is_fast_enough(rate: float, fitted: int = fitted, claimed: float = claimed) -> bool:
            return _hetseq_speedup(fitted, rate) >= claimed

        rate = bisect(is_fast_enough, 0.1, 100.0)
        for nodes, published in HETSEQ.items():
            ours = _hetseq_speedup(nodes, rate)
            yield {
                "workload": f"{nodes} nodes, link fitted to {fitted}",
                "GB/s": rate,
                "speed-up": ours,
                "published": published,
                "error %": 100 * (ours / published - 1),
            }
    for share in ("equal", "proportional"):
        unequal = parse_unequal("1,1,0.5,0.5", share)
        yield measured(
            f"speeds 1, 1, 0.5, 0.5, {share} shares", made("bert-base", NODES, batch=32, unequal=unequal, sequence=128)
        )


def _hetseq_speedup(nodes: int, rate: float) -> float:
    """Of so many nodes with links of so many GB/s, over one."""
    return nodes * HETSEQ_COMPUTE / (run(_hetseq(nodes, rate), "fused/hourglass").makespan / 1e12)


def _hetseq(nodes: int, rate: float) -> Instance:
    link = Dimension(kind="ring", size=nodes, bandwidth=rate * 1e9, latency="30 us")
    timing = Fixed(HETSEQ_COMPUTE, MODELS["bert-base"].layers(128))
    return made("bert-base", Network(dimensions=(link,)), timing=timing, batch=128, sequence=128)


def projection() -> Iterator[Row]:
    """ParaDL: the step on the fewest nodes fits the use of 10 Gb/s, and measured steps on more nodes are predicted.

    The measured steps are those of HetSeq.  ParaDL publishes an accuracy of 86.74 % on average, and of 97.57 % at most,
    for data parallelism (https://arxiv.org/abs/2104.09075, abstract).
    """
    steps = {nodes: round(nodes * HETSEQ_COMPUTE / speedup * 1e12) for nodes, speedup in HETSEQ.items()}
    projected = project(_hetseq(8, 1.25), "fused/hourglass", steps)
    for nodes, error in projected.errors.items():
        yield {
            "workload": f"BERT-base, {nodes} nodes, fitted on {projected.fitted}",
            "use of 10 Gb/s %": 100 * projected.share,
            "measured s": steps[nodes] / 1e12,
            "error %": 100 * error,
            "accuracy %": 100 * (1 - abs(error)),
            "published accuracy %": 97.57,
        }


def daso() -> Iterator[Row]:
    """DASO: the exchange between nodes every k batches, needed S batches later, and the bytes of a node per batch."""
    for skip, wait in ((1, 0), (2, 0), (4, 0), (4, 1), (8, 0), (8, 2)):
        instance = made("resnet-50", NODES, "daso", skip=skip, wait=wait, element_bytes=2)
        sent = sum(exchange.size for exchange in instance.exchanges if exchange.span == (1,)) * 4 / skip
        yield measured(f"k = {skip}, S = {wait}", instance, **{"MB between nodes per batch": sent / 1e6})
    yield measured("all-reduce of all NPUs", made("resnet-50", NODES, element_bytes=2))


def sharding() -> Iterator[Row]:
    """ZeRO-2, full sharding (FSDP) and hybrid sharding (HSDP) beside copies (DDP)."""
    for model, batch in (("bert-large", 2), ("bert-large", 8)):
        for name, parallelism, more in (
            ("copies", "data", {}),
            ("ZeRO-2", "data", {"zero": 2}),
            ("full sharding", "fsdp", {}),
            ("hybrid sharding", "hsdp", {}),
        ):
            instance = made(model, V100, parallelism, batch=batch, sequence=128, **more)
            policy = "ddp/hourglass" if name == "copies" else BUSY
            yield measured(
                f"BERT-large, batch {batch}, {name}",
                instance,
                policy,
                **{"parameters MB": instance.parameter_bytes / 1e6},
            )


def dct() -> Iterator[Row]:
    """DCT: 100x fewer bytes between data-parallel, 20x between model-parallel NPUs: half as many values and places."""
    compression = parse_compression("data=200,model=40", 4)

    def saved(scale: float) -> float:
        dimensions = tuple(
            dimension.model_copy(update={"bandwidth": dimension.bandwidth * scale}) for dimension in NODES.dimensions
        )
        network = NODES.varied(dimensions=dimensions)
        whole, small = (
            run(made("dlrm-large", network, batch=64, compression=each)).makespan
            for each in (parse_compression("", 4), compression)
        )
        return 1 - small / whole

    scale = bisect(lambda factor: saved(factor) <= 0.37, 1e-3, 1e5)
    yield {
        "workload": "DLRM (large), bandwidth of adapters at which 37 % of the time are saved",
        "GB/s": 3.125 * scale,
        "saved %": 100 * saved(scale),
    }
    for factor in (0.1, 1.0, 10.0):
        yield {
            "workload": f"DLRM (large), adapters of {3.125 * factor:g} GB/s",
            "GB/s": 3.125 * factor,
            "saved %": 100 * saved(factor),
        }


def local() -> Iterator[Row]:
    """Local updates: blocks with separate losses."""
    for blocks in (1, 2, 4, 8):
        yield measured(f"ResNet-50, {blocks} blocks", made("resnet-50", V100, local_blocks=blocks))
    yield measured("ResNet-50, one loss", made("resnet-50", V100), "ddp/hourglass")


def dlcp() -> Iterator[Row]:
    """DLCP: a part of the bytes may be lost; quantiles over 200 networks with latencies up to three times as long."""
    network = Network(dimensions=(Dimension(kind="ring", size=8, bandwidth="12.5 Gb/s", latency="100 us"),))
    for tolerance in (0.0, 0.01, 0.05, 0.2):
        instance = made("resnet-50", network, tolerance=tolerance)
        schedule = run(instance)
        dynamic = {"plan": executions("plan", schedule)["plan, dynamic"]}
        (distribution,) = loss_distributions(instance, dynamic, samples=200, latency_jitter=2.0, bandwidth_spread=0.0)
        times = sorted(distribution.makespans.tolist())
        yield measured(
            f"ResNet-50, loss of {100 * tolerance:g} %",
            instance,
            **{"median ms": times[100] / 1e9, "p99 ms": times[197] / 1e9, "1 / (1 - p)": 1 / (1 - tolerance)},
        )
    yield from _late(network)


def _late(network: Network) -> Iterator[Row]:
    """What a tolerance gains where chunks are late, over waiting for all: one tensor of gradients in 100 chunks."""
    for tolerance in (0.05, 0.2):
        schedule = run(made("resnet-50", network, chunks=100, tolerance=tolerance, granularity="fused"))
        for delay in ("", "exponential:5ms", "lognormal:1ms:2"):
            late = parse_chunk_delay(delay)
            calm = {"samples": 200, "bandwidth_spread": 0.0, "latency_jitter": 0.0}
            _, fewer, lost = tolerance_effect(schedule, **calm, chunk_delay=late).rows()
            yield {
                "workload": f"loss of {100 * tolerance:g} %, chunks late by {delay or 'nothing'}",
                "1 / (1 - p)": 1 / (1 - tolerance),
                "never sent, p50": fewer["p50_gain"],
                "never sent, p99": fewer["p99_gain"],
                "late is lost, p50": lost["p50_gain"],
                "late is lost, p99": lost["p99_gain"],
            }


def karma() -> Iterator[Row]:
    """KARMA: batches beyond 16 GB of memory, with 16 GB/s to the host, beside NPUs with memory for everything."""
    for model, batch in (("resnet-50", 512), ("resnet-50", 1024), ("resnet-152", 512), ("densenet-201", 512)):
        layers, given = MODELS[model].layers(), {"memory": 16 * 10**9, "host_link": 16e9}
        instance = made(model, V100, "out-of-core", batch=batch, **given)
        setup = Setup(network=V100, timing=RATE, batch=batch, element_bytes=4, **given)
        swapped = instance.varied(iteration=offloaded(layers, setup, ["swap"] * len(layers)))
        sent = sum(exchange.size for exchange in instance.exchanges if exchange.kind is CollectiveKind.SEND)
        in_core = run(made(model, V100, batch=batch)).makespan / 1e9
        row = measured(
            f"{MODELS[model].title}, batch {batch}",
            instance,
            **{
                "activations GB": sum(activations(layers, setup)) / 1e9,
                "swapped GB": sent / 2e9,
                "computed again": sum(task.name.endswith("recompute") for task in instance.tasks),
                "in memory ms": in_core,
                "all swapped ms": run(swapped).makespan / 1e9,
                "all computed again ms": run(made(model, V100, batch=batch, recompute=True)).makespan / 1e9,
            },
        )
        yield row


DEAR_MODELS = (
    ("resnet-50", 64, None),
    ("densenet-201", 32, None),
    ("inception-v4", 64, None),
    ("bert-base", 64, 64),
    ("bert-large", 32, 64),
)
"""Models, batches and lengths of sequences of the set-up of DeAR; the lengths are an assumption."""

DEAR_NETWORKS = (
    (10, 2.3476410788581382e-3, 9.643300782166769e-10, 1.83),
    (56, 0.80632079996292579e-3, 5.88838311535895e-10, 1.15),
)
"""Gb/s, seconds of start-up and per byte of an all-reduce of 64 GPUs, and the largest published speed-up.

The constants are those of the authors, https://github.com/lzhangbv/dear_pytorch, ``dear/hv_distributed_optimizer.py``,
without the factor of 3 on the start-up at 10 Gb/s there; the second speed-up is of a network of 100 Gb/s.
"""

RIVALS_OF_DEAR = {
    "WFBP": "wait_free",
    "DDP": "ddp",
    "Horovod": "horovod",
    "Horovod before 0.21": "horovod:buffer=64MiB:cycle=5ms",
}
"""Policies beside DeAR, with their defaults."""


def dear() -> Iterator[Row]:
    """DeAR on its set-up: 64 GPUs whose all-reduces cost what its authors measured, and start-ups occupy the network.

    Groups are tuned by Optuna in ten trials from 25 MB, 1-256 MB.  Columns say what DeAR gains over others, what it
    gains where both fuse nothing, and over Horovod where start-ups lag, so that small buckets cost nothing.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    for gigabits, start_up, per_byte, published in DEAR_NETWORKS:
        for model, batch, sequence in DEAR_MODELS:
            steps = 2 * 63
            link = {"bandwidth": steps / 64 / per_byte, "latency": f"{round(start_up / steps * 1e12)} ps"}
            network = Network(dimensions=(Dimension(kind="ring", size=64, **link),))
            timing = Rate(13_450_000_000_000, 0.5)
            lagging = made(model, network, batch=batch, sequence=sequence, timing=timing, chunks=1)
            yield (
                {"workload": f"{MODELS[model].title}, {gigabits} Gb/s"}
                | _dear_row(lagging.replace(latency="occupy"), lagging)
                | {"published at most": published}
            )


def _dear_row(instance: Instance, lagging: Instance) -> Row:
    """Tuned DeAR, and what it gains over others."""

    def time(policy: str, iteration: Instance = instance) -> float:
        return run(iteration, f"{policy}/baseline+fifo").makespan / 1e9

    def tuned(trial: optuna.Trial) -> float:
        return time(f"dear:threshold={round(trial.suggest_float('threshold', 1, 256) * 1e6)}B")

    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
    study.enqueue_trial({"threshold": 25.0})
    study.optimize(tuned, n_trials=10)
    best, threshold = study.best_value, study.best_params["threshold"]
    return {
        "compute ms": instance.compute / 1e9,
        "DeAR ms": best,
        "groups MB": threshold,
        "gap %": 100 * (best * 1e9 / max(bounds(instance).values()) - 1),
        **{f"over {name}": time(policy) / best for name, policy in RIVALS_OF_DEAR.items()},
        "nothing fused": time("wait_free") / time("dear:threshold=1B"),
        "over Horovod, lagging": time("horovod", lagging) / time(f"dear:threshold={round(threshold * 1e6)}B", lagging),
    }


def bottleneck() -> Iterator[Row]:
    """Is Network the Bottleneck: 64 NPUs, the least compression for a factor of 95 %, and the use of the network.

    Scaling factors of 60 to 76 % were measured; the use is the share of the bandwidth that explains each of them.
    """
    policy = "horovod/hourglass"
    for model in ("resnet-50", "resnet-101", "vgg-16"):
        for gigabits in (10, 100):
            network = Network(
                dimensions=(Dimension(kind="ring", size=64, bandwidth=f"{gigabits} Gb/s", name="adapter"),)
            )
            instance = made(model, network, batch=32)
            whole, part = sweep(instance, {"npus": [64], "share": [1.0, 0.3]}, [policy])
            alone = 2 * sum(exchange.size for exchange in instance.exchanges) * 63 / 64 / (gigabits * 1.25e8) * 1e3
            yield {
                "workload": f"{MODELS[model].title}, {gigabits} Gb/s",
                "batch ms": float(whole["makespan_ns"]) / 1e6,
                "gap %": 100 * float(whole["gap"]),
                "all-reduce ms": alone,
                "factor %": 100 * float(whole["scaling_factor"]),
                "factor at 30 % %": 100 * float(part["scaling_factor"]),
                "least compression": least_compression(instance, policy, npus=64),
                **{
                    f"use at {factor} % %": _percent(measured_share(instance, policy, instance.compute * 100 // factor))
                    for factor in (60, 76)
                },
            }


def _percent(share: float | None) -> float | str:
    return "none" if share is None else 100 * share

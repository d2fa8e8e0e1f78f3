"""Every system of docs/systems.md beside others on the same instances: writes README.md and rows.csv beside this file.

python reports/systems/measure.py                 # all, some minutes
python reports/systems/measure.py hetseq fred     # some
"""

import csv
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import optuna

from themis_opt import load
from themis_opt.base.version import __version__
from themis_opt.policies.registry import make_policy
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import FORMAT, Instance
from themis_opt.problem.network import Dimension, Network
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.solving.bounds import bounds
from themis_opt.study.robustness import executions, loss_distributions
from themis_opt.study.scaling import least_compression, scaling
from themis_opt.workloads.layers import Layer
from themis_opt.workloads.models import MODELS
from themis_opt.workloads.parallelisms import make_workload
from themis_opt.workloads.setup import Setup
from themis_opt.workloads.timing import LayerTimes, Rate
from themis_opt.workloads.transformations import parse_compression
from themis_opt.workloads.transformers import Shape, transformer
from themis_opt.workloads.unequal import parse_unequal

FOLDER = Path(__file__).parent
V100 = load("v100-256.resnet-50").network
RATE = Rate(15_700_000_000_000, 0.6)
NODES = Network(
    name="8x4 GPUs",
    dimensions=(
        Dimension(kind="ring", size=4, bandwidth="150 GB/s", latency="1.9 us", name="nvlink"),
        Dimension(kind="switch", size=8, bandwidth="25 Gb/s", latency="4 us", name="adapter"),
    ),
)
SITES = Network(
    name="48 GPUs at 3 sites",
    dimensions=(
        Dimension(kind="switch", size=4, bandwidth="10 GB/s", latency="5 us", name="node"),
        Dimension(kind="switch", size=4, bandwidth="10 Gb/s", latency="50 us", name="site"),
        Dimension(kind="switch", size=3, bandwidth="8 Mb/s", latency="20 ms", name="sites"),
    ),
)
Row = dict[str, Any]
BUSY = "priority/hourglass"


def made(model: str, network: Network, parallelism: str = "data", chunks: int = 4, **choices: Any) -> Instance:
    """A workload in FP32 on GPUs that reach 60 % of 15.7 TFLOP/s, unless said otherwise."""
    sequence = choices.pop("sequence", None)
    given: Row = {"timing": RATE, "batch": 8, "element_bytes": 4} | choices
    layers = MODELS[model].layers(sequence)
    return make_workload(MODELS[model], layers, Setup(network=network, **given), parallelism=parallelism, chunks=chunks)


def run(instance: Instance, policy: str = BUSY) -> Schedule:
    """A validated schedule."""
    schedule = simulate(instance, make_policy(policy)(instance))
    validate(schedule)
    return schedule


def measured(what: str, instance: Instance, policy: str = BUSY, **more: Any) -> Row:
    """Times of one batch, in milliseconds, and the gap to the instance's own bound."""
    schedule, steps = run(instance, policy), instance.steps
    least = max(bounds(instance).values())
    assert schedule.makespan >= least * (1 - 1e-9), what
    return {
        "workload": what,
        "policy": policy,
        "batch ms": schedule.makespan / steps / 1e9,
        "exposed ms": schedule.period.exposed / steps / 1e9,
        "gap %": 100 * (schedule.makespan / least - 1),
        **more,
    }


def bisect(reaches: Callable[[float], bool], low: float, high: float) -> float:
    """The value from which on a condition holds, to a part in a million."""
    while high / low > 1 + 1e-6:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high


class Fixed:
    """Equal times of all layers that add up to those of an iteration."""

    def __init__(self, total: float, layers: tuple[Layer, ...]) -> None:
        self.flops, self.total = sum(layer.flops for layer in layers), total

    def __str__(self) -> str:
        return f"{self.total:g} s of compute"

    def __call__(self, layer: Layer, batch: int) -> LayerTimes:
        """The share of a layer by its operations, in each of three passes."""
        time = f"{round(self.total / 3 * layer.flops / self.flops * 1e12)} ps"
        return LayerTimes(forward=time, weight_gradient=time, input_gradient=time)


def hetseq() -> Iterator[Row]:
    """HetSeq: unequal nodes; 2.325 s of compute per step and 0.96 GB/s for each node beside what is published."""
    layers = MODELS["bert-base"].layers(128)
    published = {1: 1.0, 2: 1.72, 4: 3.22, 8: 5.94}
    for nodes, claimed in published.items():
        timing = Fixed(2.325, layers)
        time = 2.325
        if nodes > 1:
            network = Network(dimensions=(Dimension(kind="ring", size=nodes, bandwidth="0.96 GB/s", latency="30 us"),))
            row = measured(
                f"{nodes} nodes", made("bert-base", network, timing=timing, batch=128, sequence=128), "fused/hourglass"
            )
            time = row["batch ms"] / 1e3
            yield row | {"speed-up": nodes * 2.325 / time, "published": claimed}
    for share in ("equal", "proportional"):
        unequal = parse_unequal("1,1,0.5,0.5", share)
        yield measured(
            f"speeds 1, 1, 0.5, 0.5, {share} shares", made("bert-base", NODES, batch=32, unequal=unequal, sequence=128)
        )


def daso() -> Iterator[Row]:
    """DASO: the exchange between nodes every k batches, needed S batches later, and the bytes of a node per batch."""
    for skip, wait in ((1, 0), (2, 0), (4, 0), (4, 1), (8, 0), (8, 2)):
        instance = made("resnet-50", NODES, "daso", skip=skip, wait=wait, element_bytes=2)
        sent = sum(own.size for own in instance.exchanges if own.span == (1,)) * 4 / skip
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
                f"BERT-large, batch {batch}, {name}", instance, policy, **{"parameters MB": instance.memory / 1e6}
            )


def dct() -> Iterator[Row]:
    """DCT: 100x between data-parallel and 20x between model-parallel NPUs, with 4 bytes per place."""
    compression = parse_compression("data=100,model=20", 4)

    def saved(scale: float) -> float:
        dimensions = tuple(own.model_copy(update={"bandwidth": own.bandwidth * scale}) for own in NODES.dimensions)
        network = NODES.varied(dimensions=dimensions)
        whole, small = (
            run(made("dlrm-large", network, batch=64, compression=own)).makespan
            for own in (parse_compression("", 4), compression)
        )
        return 1 - small / whole

    scale = bisect(lambda own: saved(own) <= 0.37, 1e-3, 1e5)
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
    """Local updates: blocks with losses of their own."""
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
        (own,) = loss_distributions(instance, dynamic, samples=200, latency_jitter=2.0, bandwidth_spread=0.0)
        times = sorted(own.makespans.tolist())
        yield measured(
            f"ResNet-50, loss of {100 * tolerance:g} %",
            instance,
            **{"median ms": times[100] / 1e9, "p99 ms": times[197] / 1e9, "1 / (1 - p)": 1 / (1 - tolerance)},
        )


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


def bottleneck() -> Iterator[Row]:
    """Is Network the Bottleneck: 64 NPUs at 10 and 100 Gb/s, and the least compression for a scaling factor of 95 %."""

    def planned(instance: Instance) -> Any:
        return make_policy("horovod/hourglass")

    for model in ("resnet-50", "resnet-101", "vgg-16"):
        for gigabits in (10, 100):
            network = Network(
                dimensions=(Dimension(kind="ring", size=64, bandwidth=f"{gigabits} Gb/s", name="adapter"),)
            )

            def make(own: Network, model: str = model) -> Instance:
                return made(model, own, batch=32)

            own, little = scaling(make, network, planned, npus=[64], utilisations=[1.0, 0.3])
            needed = least_compression(make, network, planned, npus=64)
            alone = 2 * own.exchanged * 63 / 64 / (gigabits * 1.25e8) * 1e3
            yield {
                "workload": f"{MODELS[model].title}, {gigabits} Gb/s",
                "batch ms": own.time / 1e9,
                "gap %": 100 * (own.time / own.bound - 1),
                "all-reduce ms": alone,
                "factor %": 100 * own.factor,
                "factor at 30 % %": 100 * little.factor,
                "least compression": needed,
            }


def dear() -> Iterator[Row]:
    """DeAR on its own set-up: 64 GPUs on one ring; groups tuned by Optuna in ten trials from 25 MB, 1-256 MB."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    for gigabits, latency in ((10, "30 us"), (100, "4 us")):
        network = Network(
            dimensions=(
                Dimension(kind="ring", size=64, bandwidth=f"{gigabits} Gb/s", latency=latency, launch_overhead="20 us"),
            )
        )
        for model, batch, sequence in (
            ("resnet-50", 64, None),
            ("densenet-201", 32, None),
            ("bert-base", 64, 64),
            ("bert-large", 32, 64),
        ):
            instance = made(
                model, network, batch=batch, sequence=sequence, timing=Rate(13_450_000_000_000, 0.5), chunks=1
            )
            own = {name: run(instance, f"{name}/baseline+fifo").makespan for name in ("wait_free", "ddp", "horovod")}

            def tuned(trial: optuna.Trial, instance: Instance = instance) -> int:
                threshold = trial.suggest_float("threshold", 1, 256)
                return run(instance, f"dear:threshold={round(threshold * 1e6)}B/baseline+fifo").makespan

            study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
            study.enqueue_trial({"threshold": 25.0})
            study.optimize(tuned, n_trials=10)
            row = measured(
                f"{MODELS[model].title}, {gigabits} Gb/s",
                instance,
                f"dear:threshold={round(study.best_params['threshold'] * 1e6)}B/baseline+fifo",
            )
            yield (
                row
                | {f"over {name}": time / 1e9 / row["batch ms"] for name, time in own.items()}
                | {"compute ms": instance.compute / 1e9, "published at most": 1.83 if gigabits == 10 else 1.15}
            )


PARTS = (hetseq, daso, sharding, dct, local, dlcp, fusionllm, oracle, pipelines, swarm, fred, bottleneck, dear)


def in_words(value: Any) -> str:
    """A cell."""
    return value if isinstance(value, str) else "-" if value is None else f"{value:.4g}"


def section(name: str, title: str, rows: list[Row]) -> str:
    """A part of the report, its columns those of all its rows."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    lines = [f"## {name}", "", title, "", "| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    lines += ["| " + " | ".join(in_words(row.get(column, "")) for column in columns) + " |" for row in rows]
    return "\n".join(lines)


def stored() -> dict[str, list[Row]]:
    """Rows measured before."""
    path, known = FOLDER / "rows.csv", {}
    if path.is_file():
        with path.open(newline="", encoding="utf-8") as file:
            for line in csv.reader(file):
                known.setdefault(line[0], []).append(
                    {k: number(v) for k, v in zip(line[1::2], line[2::2], strict=True)}
                )
    return known


def number(text: str) -> Any:
    """A number where the text is one."""
    try:
        return float(text)
    except ValueError:
        return text or None


def main(chosen: list[str]) -> None:
    """Measure the chosen parts, all by default, and write the report of all that were ever measured."""
    known = stored()
    for part in PARTS:
        if not chosen or part.__name__ in chosen:
            known[part.__name__] = list(part())
            print(section(part.__name__, str(part.__doc__), known[part.__name__]), flush=True)
            with (FOLDER / "rows.csv").open("w", newline="", encoding="utf-8") as file:
                lines = (
                    [name, *(x for pair in row.items() for x in pair)] for name, rows in known.items() for row in rows
                )
                csv.writer(file).writerows(lines)
    intro = (FOLDER / "findings.md").read_text(encoding="utf-8")
    parts = [section(own.__name__, str(own.__doc__), known[own.__name__]) for own in PARTS if own.__name__ in known]
    (FOLDER / "README.md").write_text(
        "\n\n".join([intro.rstrip(), *parts]) + f"\n\nthemis_opt {__version__}.\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main(sys.argv[1:])

"""Instances that judge the search: no constant of the project is chosen on any of them.

Six classes, each deterministic by seed.  ``python benchmarks/held_out.py`` lists them.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np

import themis_opt
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Packet
from themis_opt.workloads.models import find_model
from themis_opt.workloads.parallelisms import make_workload
from themis_opt.workloads.setup import Setup
from themis_opt.workloads.timing import Rate

Sizes = Literal["equal", "free"]

NUM_NETWORKS, FIRST_SEED = 100, 1_000  # seeds below are those of networks on which constants were chosen
MAX_NPUS, LEAST_BANDWIDTH = 1_000_000, 10**9

PAPER = (
    "2d-sw_sw",
    "3d-sw_sw_sw_homo",
    "3d-sw_sw_sw_hetero",
    "3d-fc_ring_sw",
    "4d-ring_sw_sw_sw",
    "4d-ring_fc_ring_sw",
)

PAPER_GRID = (("37 MiB", 11), ("37 MiB", 24), ("230 MiB", 20), ("230 MiB", 48), ("700 MiB", 6), ("700 MiB", 90))
FREE_GRID = (("3 MiB", 64), ("37 MiB", 24), ("230 MiB", 48), ("700 MiB", 90))

MANY_DIMENSIONS = ("5d-fc_ring_ring_sw_sw", "5d-sw_ring_fc_sw_sw", "6d-ring_fc_ring_sw_sw_sw")


@dataclass(frozen=True)
class HeldOut:
    """An instance, its class, and whether its chunks are of equal or of free sizes."""

    name: str
    family: str
    instance: Instance
    sizes: Sizes


def networks() -> Iterator[HeldOut]:
    """Realistic networks: half with free sizes, a third with costs."""
    for seed in range(FIRST_SEED, FIRST_SEED + NUM_NETWORKS):
        generator = np.random.default_rng(seed)
        sizes: Sizes = "equal" if generator.random() < 0.5 else "free"
        yield HeldOut(f"network {seed} {sizes}", "network", drawn_instance(generator), sizes)


def drawn_instance(generator: np.random.Generator) -> Instance:
    """A network of 2 to 5 dimensions and a collective on it.

    Four of five collectives are all-reduces, of 1 MiB to 4 GiB in 4 to 256 chunks; logarithms are uniform.
    """
    num_dimensions, has_costs = int(generator.integers(2, 6)), generator.random() < 1 / 3
    kind = "all_reduce" if generator.random() < 0.8 else str(generator.choice(["reduce_scatter", "all_gather"]))
    chunks, elements = round(log_uniform(generator, 4, 256)), round(log_uniform(generator, 2**19, 2**31))
    network = {"dimensions": drawn_dimensions(generator, num_dimensions)}
    collectives = [{"kind": kind, "size": 2 * elements, "chunks": chunks}]
    instance = Instance.model_validate({"network": network, "collectives": collectives})
    return with_costs(instance, f"{generator.integers(1, 5)} us", generator.random() < 0.5) if has_costs else instance


def drawn_dimensions(generator: np.random.Generator, count: int) -> list[dict[str, Any]]:
    """Dimensions of 2 to 64, drawn again until there are at most a million NPUs and no link below 1 GB/s."""
    while True:
        sizes = [round(log_uniform(generator, 2, 64)) for _ in range(count)]
        bandwidths = drawn_bandwidths(generator, count)
        if math.prod(sizes) <= MAX_NPUS and min(bandwidths) >= LEAST_BANDWIDTH:
            break
    return [
        {
            "kind": str(generator.choice(["ring", "switch", "fully_connected"])),
            "size": size,
            "bandwidth": float(bandwidth),
            "latency": f"{round(generator.uniform(300, 5_000))} ns",
        }
        for size, bandwidth in zip(sizes, bandwidths, strict=True)
    ]


def drawn_bandwidths(generator: np.random.Generator, count: int) -> list[int]:
    """Bytes per second of each dimension: neighbours are 1 to 20 apart, one in five outer ones is faster."""
    bandwidth = log_uniform(generator, 50e9, 900e9)
    bandwidths = [round(bandwidth, -6)]
    for _ in range(count - 1):
        ratio = log_uniform(generator, 1, 20)
        bandwidth = bandwidth * ratio if generator.random() < 0.2 else bandwidth / ratio
        bandwidths.append(round(bandwidth, -6))
    return [int(bandwidth) for bandwidth in bandwidths]


def log_uniform(generator: np.random.Generator, low: float, high: float) -> float:
    """A number between the limits whose logarithm is uniform."""
    return float(np.exp(generator.uniform(np.log(low), np.log(high))))


def with_costs(instance: Instance, launch_overhead: str, occupies: bool) -> Instance:
    """The instance with a fixed cost of every stage, headers of packets, and perhaps latencies that occupy."""
    costs = {"launch_overhead": launch_overhead, "packet": Packet(payload=4096, header=30)}
    dimensions = tuple(dimension.replace(**costs) for dimension in instance.network.dimensions)
    network = instance.network.replace(dimensions=dimensions)
    return instance.replace(network=network, latency="occupy" if occupies else "lag")


def on_paper_networks(family: str, grid: Sequence[tuple[str, int]], sizes: Sizes) -> Iterator[HeldOut]:
    """The networks of the paper at sizes and chunk counts on which no constant was chosen."""
    for (size, chunks), network in product(grid, PAPER):
        instance = themis_opt.load(f"{network}.all_reduce.100MiB").overridden(size=size, chunks=chunks)
        yield HeldOut(f"{network} {size} x {chunks} {sizes}", family, instance, sizes)


def costs() -> Iterator[HeldOut]:
    """The networks of the paper where every chunk costs something."""
    for size, latency, network in product(("16 MiB", "100 MiB"), ("lag", "occupy"), PAPER):
        instance = with_costs(
            themis_opt.load(f"{network}.all_reduce.100MiB").overridden(size=size), "2 us", latency == "occupy"
        )
        yield HeldOut(f"{network} {size} {latency}", "costs", instance, "free")


def many_dimensions() -> Iterator[HeldOut]:
    """Five and six dimensions."""
    sizes: tuple[Sizes, ...] = ("equal", "free")
    for (size, chunks), kind, network in product((("150 MiB", 20), ("600 MiB", 48)), sizes, MANY_DIMENSIONS):
        instance = themis_opt.load(f"{network}.all_reduce.1000MiB").overridden(size=size, chunks=chunks)
        yield HeldOut(f"{network} {size} x {chunks} {kind}", "many_dimensions", instance, kind)


ITERATIONS: Sequence[tuple[str, str, str, int, dict[str, Any]]] = (
    ("gnmt", "2d-sw_sw.all_reduce.100MiB", "data", 16, {"batch": 64}),
    ("gpt-3", "3d-sw_sw_sw_hetero.all_reduce.100MiB", "hybrid", 4, {"group": 64, "batch": 8}),
    ("vgg-16", "aws_p4d.all_reduce.1GiB", "data", 24, {"element_bytes": 4}),
    ("densenet-201", "3d-sw_sw_sw_homo.all_reduce.100MiB", "data", 8, {"batch": 16}),
    ("dlrm-mlperf", "3d-fc_ring_sw.all_reduce.100MiB", "data", 32, {"batch": 512}),
    ("llama-3-70b", "dgx_gb200_superpod.all_reduce.1GiB", "hybrid", 4, {"batch": 4}),
    ("bert-base", "gaudi_3.all_reduce.1GiB", "pipeline", 16, {"stages": 4, "microbatches": 8}),
    ("bert-large", "4d-ring_fc_ring_sw.all_reduce.100MiB", "data", 4, {"granularity": "parameter", "batch": 4}),
    ("bert-base", "4d-ring_sw_sw_sw.all_reduce.100MiB", "data", 12, {"batch": 8}),
    ("llama-3-8b", "dgx_h100_superpod.all_reduce.1GiB", "fsdp", 8, {"batch": 1}),
)
"""Model, network, parallelism, chunks and other choices: 10 to 578 tensors."""


def iterations() -> Iterator[HeldOut]:
    """Training iterations whose compute and communication are about as long as each other."""
    for name, network, parallelism, chunks, choices in ITERATIONS:
        model, timing = find_model(name), Rate(120 * 10**12, 0.5)
        layers = model.layers(None)
        setup = Setup(network=themis_opt.load(network).network, timing=timing, **choices)
        instance = make_workload(model, layers, setup, parallelism=parallelism, chunks=chunks)
        yield HeldOut(f"{name} {parallelism} on {network.partition('.')[0]}", "iterations", instance, "free")


FAMILIES: Mapping[str, Callable[[], Iterator[HeldOut]]] = {
    "network": networks,
    "paper": lambda: on_paper_networks("paper", PAPER_GRID, "equal"),
    "costs": costs,
    "free": lambda: on_paper_networks("free", FREE_GRID, "free"),
    "many_dimensions": many_dimensions,
    "iterations": iterations,
}
"""The instances of each class."""


def held_out(families: Sequence[str] = (), *, every: int = 1, most: int | None = None) -> list[HeldOut]:
    """The instances of some classes, all classes by default.

    Parameters
    ----------
    every : int
        Only each so many-th instance of a class.
    most : int, optional
        At most so many instances of a class; fewer are some of more.
    """
    chosen: list[HeldOut] = []
    for family in families or FAMILIES:
        members = list(FAMILIES[family]())
        np.random.default_rng(0).shuffle(members)  # or every sixth would be of the same network
        chosen += members[::every][:most]
    return chosen


if __name__ == "__main__":
    for member in held_out():
        print(member.family, member.name, member.instance.network.sizes, len(member.instance.exchanges), sep="\t")

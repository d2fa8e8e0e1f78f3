"""Random all-reduce instances, one per seed: networks that nobody chose.

With the number of the instance as the seed of numpy's default generator, drawn in this order:

- 2 to 6 dimensions, uniform;
- of each dimension its kind, uniform, its size, uniform in 2..64, and its latency, uniform in 0..5 us, whole ns;
- the bandwidth of the first dimension, log-uniform in 25..400 GB/s, and of each next one that of its neighbour over a
  ratio that is log-uniform in 0.25..16, rounded to whole MB/s;
- the bytes, log-uniform in 1 MiB..1 GiB, rounded to elements of 2 bytes, and the chunks, uniform in 4..256.
"""

from typing import Any

import numpy as np

from themis_opt.base.errors import InputError
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Kind

PREFIX = "random:"  # names of random instances are this and a seed, such as random:17
MAX_SEED = 2**31 - 1

RANDOM_KINDS = (Kind.RING, Kind.FULLY_CONNECTED, Kind.SWITCH)
"""No lines: there were none when the networks of the seeds were first published."""
RANDOM_DIMENSIONS = (2, 6)
RANDOM_SIZES = (2, 64)
LATENCY_NS = (0, 5_000)
FIRST_BANDWIDTH = (25e9, 400e9)
RATIO = (0.25, 16.0)
BYTES = (2.0**20, 2.0**30)
CHUNKS = (4, 256)
ELEMENT_BYTES = 2
MEGABYTE = 10**6


def random_instance(seed: int) -> Instance:
    """The random instance of a seed, the same on every machine; raises InputError above :data:`MAX_SEED`."""
    if not 0 <= seed <= MAX_SEED:
        raise InputError(f"must be a seed from 0 to {MAX_SEED}", field="random", value=seed)
    generator = np.random.default_rng(seed)
    dimensions = _dimensions(generator)
    size = round(_log_uniform(generator, BYTES) / ELEMENT_BYTES) * ELEMENT_BYTES
    collective = {
        "kind": "all_reduce",
        "size": size,
        "chunks": int(generator.integers(*CHUNKS, endpoint=True)),
        "element_bytes": ELEMENT_BYTES,
    }
    name = f"{PREFIX}{seed}"
    network = {"name": name, "dimensions": dimensions}
    return Instance.model_validate({"name": name, "network": network, "collectives": [collective]})


def seed_of(name: str) -> int | None:
    """The seed in a name such as ``random:17``; None if it is no such name."""
    digits = name.removeprefix(PREFIX)
    is_seed = digits.isascii() and digits.isdecimal() and len(digits) < 20
    return int(digits) if name.startswith(PREFIX) and is_seed else None


def _dimensions(generator: np.random.Generator) -> list[dict[str, Any]]:
    count = int(generator.integers(*RANDOM_DIMENSIONS, endpoint=True))
    dimensions: list[dict[str, Any]] = [
        {
            "kind": RANDOM_KINDS[generator.integers(len(RANDOM_KINDS))],
            "size": int(generator.integers(*RANDOM_SIZES, endpoint=True)),
            "latency": f"{generator.integers(*LATENCY_NS, endpoint=True)} ns",
        }
        for _ in range(count)
    ]
    bandwidth = _log_uniform(generator, FIRST_BANDWIDTH)
    for dimension in dimensions:
        dimension["bandwidth"] = float(max(round(bandwidth / MEGABYTE), 1) * MEGABYTE)
        bandwidth /= _log_uniform(generator, RATIO)
    return dimensions


def _log_uniform(generator: np.random.Generator, limits: tuple[float, float]) -> float:
    """A number between the limits whose logarithm is uniform."""
    low, high = np.log(limits)
    return float(np.exp(generator.uniform(low, high)))

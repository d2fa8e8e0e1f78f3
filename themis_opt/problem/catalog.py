"""Where instances come from: files, the ones shipped with the package by name, and random ones by seed.

Random all-reduce instances, one per seed, are on networks that nobody chose.  With the number of the instance as the
seed of numpy's default generator, they are drawn in this order:

- 2 to 6 dimensions, uniform;
- of each dimension its kind, uniform, its size, uniform in 2..64, and its latency, uniform in 0..5 us, whole ns;
- the bandwidth of the first dimension, log-uniform in 25..400 GB/s, and of each next one that of its neighbour over a
  ratio that is log-uniform in 0.25..16, rounded to whole MB/s;
- the bytes, log-uniform in 1 MiB..1 GiB, rounded to elements of 2 bytes, and the chunks, uniform in 4..256.
"""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from themis_opt.base.documents import laid_out, read_json
from themis_opt.base.errors import InputError, suggestion
from themis_opt.problem.cost import check_clock
from themis_opt.problem.documents import INSTANCE_FORMAT, errors_of, read_model
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Kind

_PACKAGE = Path(__file__).parents[1]
INSTANCES = next(p for p in (_PACKAGE / "instances", _PACKAGE.parent / "instances") if p.is_dir())
"""The shipped instances: inside an installed package, beside it in a source tree."""

GRAPHS, CLUSTERS = INSTANCES / "graphs", INSTANCES / "clusters"
"""Those whose networks are graphs, and machines as they are built, of which some are."""

LIBRARY = INSTANCES / "library"  # the library for benchmarks, whose instances stand in no list, as there are many

DESIGN_SUFFIX, PIPELINE_SUFFIX = ".design.json", ".pipeline.json"
"""Endings of the shipped files that are no instances but networks to be designed, or pipelines."""


def shipped() -> dict[str, Path]:
    """Files of the shipped instances by name, such as ``3d-sw_sw_sw_hetero.all_reduce.100MiB``."""
    clusters = set(shipped_clusters().values())
    files = (path for path in sorted(INSTANCES.rglob("*.json")) if _is_instance(path) and path not in clusters)
    return {path.name.removesuffix(".json"): path for path in files}


def _is_instance(path: Path) -> bool:
    """Whether a shipped file is an instance on a network of dimensions, and none of the library."""
    is_apart = path.parent == GRAPHS or LIBRARY in path.parents
    return not path.name.endswith((DESIGN_SUFFIX, PIPELINE_SUFFIX)) and not is_apart


def library_instances() -> dict[str, Path]:
    """Files of the instances of the library by name, such as ``costs-07``."""
    return {path.stem: path for path in sorted((LIBRARY / "instances").glob("*.json"))}


def shipped_graphs() -> dict[str, Path]:
    """Files of the shipped instances whose networks are graphs, by name, such as ``dgx1.all_gather.1GB``."""
    files = (path for path in sorted(GRAPHS.glob("*.json")) if not path.name.endswith(DESIGN_SUFFIX))
    return {path.name.removesuffix(".json"): path for path in files}


@cache
def shipped_clusters() -> Mapping[str, Path]:
    """Files of the shipped clusters whose networks are graphs, by name, such as ``h100-64.all_reduce.1GB``."""
    files = (path for path in sorted(CLUSTERS.glob("*.json")) if is_graph(read_json(path)))
    return {path.name.removesuffix(".json"): path for path in files}


def all_shipped() -> dict[str, Path]:
    """All of them."""
    return {**shipped(), **shipped_graphs(), **shipped_clusters()}


@cache
def _named() -> dict[str, Path]:
    return all_shipped() | library_instances()


def is_graph(document: Mapping[str, Any]) -> bool:
    """Whether the network of a document has nodes and links, and no dimensions."""
    network = document.get("network")
    return isinstance(network, dict) and not {"nodes", "links"}.isdisjoint(network)


def shipped_pipelines() -> dict[str, Path]:
    """Files of the shipped pipelines by name."""
    return {path.name.removesuffix(PIPELINE_SUFFIX): path for path in sorted(INSTANCES.rglob(f"*{PIPELINE_SUFFIX}"))}


def load(source: str | Path) -> Instance:
    """Read an instance from a document of its format, or a shipped one, or make the random one of ``random:SEED``.

    :func:`themis_opt.load` reads files of other tools as well.

    Raises InputError if there is no such instance, or it breaks a rule; the message names file, field, value and rule.
    """
    if not is_random(source):
        return read_instance(locate(source))
    seed = seed_of(str(source))
    if seed is None:
        raise InputError(f"must be '{PREFIX}' and a seed, such as {PREFIX}17", source=str(source))
    return random_instance(seed)


def is_random(source: str | Path) -> bool:
    """Whether a source names a random instance."""
    return str(source).startswith(PREFIX)


def locate(source: str | Path, files: Callable[[], Mapping[str, Path]] = _named, what: str = "instance") -> Path:
    """The file of that path, or the shipped one of that name. Raises InputError if there is none."""
    path = Path(source)
    try:
        if path.exists():
            return path
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", source=str(source)) from None
    name, known = path.name.removesuffix(".json").removesuffix(".design").removesuffix(".pipeline"), files()
    if path.name != str(source) or name not in known:
        near = suggestion(name, known) or f"; 'themis-opt list {what}s' names all"
        raise InputError(f"no such file, and no shipped {what} of that name{near}", source=str(source))
    return known[name]


def instance_text(instance: Instance) -> str:
    """The JSON document of an instance, with the fields that were given."""
    document = {"format": instance.format} | instance.model_dump(mode="json", exclude_unset=True)
    return laid_out(document) + "\n"


def read_instance(path: Path) -> Instance:
    """Read an instance from a document. Raises InputError if it is none, or breaks a rule."""
    try:
        instance = read_model(path, Instance, INSTANCE_FORMAT)
    except InputError:
        if is_graph(read_json(path)):
            rule = "is a graph: bound, compare, show, simulate and solve take it"
            raise InputError(rule, field="network", source=str(path)) from None
        raise
    with errors_of(path):
        check_clock(instance)
    return instance


PREFIX = "random:"  # names of random instances are this and a seed, such as random:17
MAX_SEED = 2**31 - 1  # seed, as of 32-bit generators

RANDOM_KINDS = (Kind.RING, Kind.FULLY_CONNECTED, Kind.SWITCH)
"""No lines: there were none when the networks of the seeds were first published."""
RANDOM_DIMENSIONS = (2, 6)
RANDOM_SIZES = (2, 64)
LATENCY_NS = (0, 5_000)
FIRST_BANDWIDTH = (25e9, 400e9)
RATIO = (0.25, 16.0)
BYTES = (2.0**20, 2.0**30)
CHUNKS = (4, 256)
ELEMENT_BYTES = 2  # bytes of an element of random instances
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
    low, high = np.log(limits)
    return float(np.exp(generator.uniform(low, high)))

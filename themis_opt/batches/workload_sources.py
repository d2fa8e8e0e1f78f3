"""From the `workloads` of an experiment to training iterations."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from themis_opt.batches.instance_sources import Source, loaded
from themis_opt.batches.workload_tables import Workload
from themis_opt.cost import check_clock
from themis_opt.errors import InputError
from themis_opt.instance import Network, located
from themis_opt.iteration_instance import IterationInstance
from themis_opt.units import parse_time
from themis_opt.workloads.layers import Layer
from themis_opt.workloads.models import find_model
from themis_opt.workloads.parallelisms import make_workload
from themis_opt.workloads.setup import Setup, element_bytes, weights_only
from themis_opt.workloads.timing import Rate, Timing, parse_rate, read_times

NAMED = ("model", "parallelism", "npus")
"""Choices that every name tells; others are told where they differ among a model and parallelism."""

RENAMED = {"MODEL": "model", "--tensor-group": "group"}
"""Fields of the command line that are called otherwise in a table."""


def workload_sources(tables: Sequence[Sequence[Workload]], folder: Path) -> list[Source]:
    """The training iterations of all tables, each once.

    Parameters
    ----------
    tables : sequence of sequence of Workload
        The workloads of each table.
    folder : Path
        Where files are looked for.

    Raises
    ------
    InputError
        If there is no such network, or `npus` do not fit it; other rules are checked when an instance is made.
    """

    @cache
    def network_of(name: str) -> Network:
        return loaded(name, folder).network

    found: dict[Workload, tuple[str, Network]] = {}
    for number, table in enumerate(tables):
        place = f"workloads[{number}]"
        for workload in table:
            with _placed(place, "network", workload.network):
                network = network_of(workload.network)
            network = _resized(network, workload.npus, f"{place}.npus")
            sizes = workload.npus or network.sizes
            found.setdefault(workload.model_copy(update={"npus": sizes}), (place, network))
    told = _differing(found)
    return [
        Source(_name(workload, told), partial(_made, workload, network, folder, place), _extra(workload))
        for workload, (place, network) in found.items()
    ]


@contextmanager
def _placed(place: str, field: str = "", value: object = None) -> Iterator[None]:
    """Name the field of the table in errors, unless they are in another file that is there."""
    try:
        yield
    except ValidationError as error:
        inner = located(error)
        raise InputError(": ".join(part for part in (inner.field, inner.rule) if part), field=place) from None
    except InputError as error:
        if field and not error.field:
            raise InputError(error.rule, field=f"{place}.{field}", value=value) from None
        if error.source:
            raise
        name = RENAMED.get(error.field, error.field.removeprefix("--").replace("-", "_"))
        where = ".".join(part for part in (place, name) if part)
        raise InputError(error.rule.replace("--", ""), field=where, value=error.value) from None


def _resized(network: Network, npus: tuple[int, ...] | None, field: str) -> Network:
    """The network with these NPUs along its dimensions, without those that have one."""
    if npus is None or npus == network.sizes:
        return network
    if len(npus) != len(network.sizes):
        rule = f"must have one number for each of the {len(network.sizes)} dimensions"
        raise InputError(rule, field=field, value=list(npus))
    names = network.dimension_names
    dimensions = tuple(
        dimension.model_copy(update={"size": size, "name": name})
        for dimension, name, size in zip(network.dimensions, names, npus, strict=True)
        if size > 1
    )
    if not dimensions:
        raise InputError("must leave 2 NPUs or more: one alone exchanges nothing", field=field, value=list(npus))
    title = f"{network.name} {_by(npus)}".strip()
    with _placed(field):
        return Network(name=title, dimensions=dimensions, source=network.source)


def _by(npus: Sequence[int]) -> str:
    return "x".join(map(str, npus))


def _differing(workloads: Iterable[Workload]) -> dict[tuple[str, str], list[str]]:
    """For each model and parallelism the choices, besides those always told, that are not the same for all."""
    groups: defaultdict[tuple[str, str], list[Workload]] = defaultdict(list)
    for workload in workloads:
        groups[workload.model, workload.parallelism].append(workload)
    fields = [name for name in Workload.model_fields if name not in NAMED]
    return {
        group: [name for name in fields if len({getattr(workload, name) for workload in members}) > 1]
        for group, members in groups.items()
    }


def _name(workload: Workload, differing: Mapping[tuple[str, str], Sequence[str]]) -> str:
    parts = [workload.model, workload.parallelism, _by(workload.npus or ())]
    for name in differing[workload.model, workload.parallelism]:
        value = getattr(workload, name)
        if value is True:
            parts.append(name)
        elif value is not None and value is not False:
            parts.append(f"{name} {value}")
    return " ".join(parts)


def _extra(workload: Workload) -> dict[str, Any]:
    """The choices, but for the chunks, which have a column and may be overridden."""
    return {"workload": workload.model_dump(mode="json", exclude={"chunks"})}


def _made(workload: Workload, network: Network, folder: Path, place: str) -> IterationInstance:
    """The training iteration; errors name the field of the table."""
    with _placed(place):
        model = find_model(workload.model)
        layers = model.layers(workload.sequence)
        if workload.weights_only:
            layers = weights_only(layers)
        setup = _setup(workload, network, _timing(workload, folder, layers))
        instance = make_workload(model, layers, setup, parallelism=workload.parallelism, chunks=workload.chunks)
        check_clock(instance.one_by_one())
        return instance


def _timing(workload: Workload, folder: Path, layers: tuple[Layer, ...]) -> Timing:
    if workload.times is not None:
        return read_times(folder / workload.times, layers)
    return Rate(parse_rate(workload.flops), workload.efficiency)


def _setup(workload: Workload, network: Network, timing: Timing) -> Setup:
    granularity: Any = workload.granularity  # the setup checks it
    return Setup(
        network=network,
        timing=timing,
        batch=workload.batch,
        element_bytes=element_bytes(workload.dtype),
        group=workload.group,
        accumulate=workload.accumulate,
        zero=workload.zero,
        granularity=granularity,
        recompute=workload.recompute,
        update=parse_time(workload.update),
        shared=not workload.separate,
    )

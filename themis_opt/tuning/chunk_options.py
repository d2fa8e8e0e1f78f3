"""The options of a space of chunks, checked."""

from collections.abc import Sequence
from typing import TypedDict, Unpack

from pydantic import ValidationError

from themis_opt.cost import check_clock
from themis_opt.errors import InputError
from themis_opt.instance import MAX_BYTES, MAX_CHUNKS, Instance, located
from themis_opt.tuning.chunk_space import POLICIES, ChunkSpace
from themis_opt.tuning.costs import with_costs
from themis_opt.tuning.profiles import PROFILES
from themis_opt.units import format_size, parse_size


class ChunkOptions(TypedDict, total=False):
    """What :func:`chunk_space` takes."""

    sizes: Sequence[str | int]
    policies: Sequence[str]
    profiles: Sequence[str]
    max_chunks: int
    min_chunk: str | int
    launch_overhead: str | float | None
    packet: str | None
    latency: str | None


def chunk_space(instance: Instance, **options: Unpack[ChunkOptions]) -> ChunkSpace:
    """The space of chunks for an instance.

    Parameters
    ----------
    sizes : sequence of str or int
        Sizes of every collective to tune for together; by default the size the instance has.
    policies, profiles : sequence of str
        Those to choose from, of :data:`~themis_opt.tuning.chunk_space.POLICIES` and
        :data:`~themis_opt.tuning.profiles.PROFILES`; all by default.
    max_chunks : int
        Most chunks of a collective, 256 by default.
    min_chunk : str or int
        Least bytes of an equal chunk, 1 by default, at most the largest collective.
    launch_overhead, packet, latency
        As in :func:`themis_opt.tuning.costs.with_costs`.

    Raises
    ------
    InputError
        If one of them breaks a rule.
    """
    costly = with_costs(instance, **{k: options.get(k) for k in ("launch_overhead", "packet", "latency")})  # type: ignore[arg-type]
    instances = _of_sizes(costly, options.get("sizes", ()))
    largest = max(c.size for instance in instances for c in instance.collectives)
    return ChunkSpace(
        instances=instances,
        policies=chosen("--policies", options.get("policies", POLICIES), POLICIES),
        profiles=chosen("--profiles", options.get("profiles", tuple(PROFILES)), tuple(PROFILES)),
        max_chunks=between("--max-chunks", options.get("max_chunks", 256), MAX_CHUNKS),
        min_chunk=_bytes("--min-chunk", options.get("min_chunk", 1), largest),
        title=instance.name,
    )


def _of_sizes(instance: Instance, sizes: Sequence[str | int]) -> tuple[Instance, ...]:
    if not sizes:
        return (instance,)
    amounts = sorted(_bytes("--sizes-of-collective", size) for size in sizes)
    if len(set(amounts)) < len(amounts):
        raise InputError("must name each size once", field="--sizes-of-collective", value=", ".join(map(str, sizes)))
    return tuple(_of_size(instance, amount) for amount in amounts)


def _of_size(instance: Instance, size: int) -> Instance:
    try:
        resized = instance.overridden(size=size, chunks=1).replace(
            name=f"{instance.name} at {format_size(size)}".strip()
        )
    except ValidationError as error:
        raise located(error).within("--sizes-of-collective") from None
    check_clock(resized)
    return resized


def _bytes(option: str, value: str | int, most: int = MAX_BYTES) -> int:
    try:
        size = parse_size(value)
    except ValueError as error:
        raise InputError(str(error), field=option, value=value) from None
    return between(option, size, most)


def between(option: str, value: int, most: int) -> int:
    """The value of an option, from 1 to `most`."""
    if not 1 <= value <= most:
        raise InputError(f"must be from 1 to {most}", field=option, value=value)
    return value


def chosen(option: str, names: Sequence[str], known: tuple[str, ...]) -> tuple[str, ...]:
    """The names that an option lists, in the order of those known."""
    if not names or len(set(names)) < len(names) or not set(names) <= set(known):
        rule = f"must name one or more of {', '.join(known)}, each once"
        raise InputError(rule, field=option, value=", ".join(names))
    return tuple(name for name in known if name in names)

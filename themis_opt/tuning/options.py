"""The options of a search, checked, and the space that they stand for."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from themis_opt.base.errors import InputError
from themis_opt.problem.cost import check_memory
from themis_opt.problem.cost_overrides import with_costs
from themis_opt.problem.fields import MAX_CHUNKS
from themis_opt.problem.instance import Instance
from themis_opt.schedules.dispatch import DISPATCH
from themis_opt.schedules.plan import has_launches
from themis_opt.tuning.parameters import ParameterValue, TunedParameter
from themis_opt.tuning.space import USUAL_DIVISOR, Space

TUNED_POLICIES = ("themis", "baseline", "hourglass")
"""Policies for chunks that are quick enough to be tried a hundred times."""

MOST_CHUNKS = 256  # most chunks of a collective by default
PROFILES = ("equal", "free")  # how chunks are cut
TODAY: Mapping[str, ParameterValue] = {
    "policy": "themis",
    "dispatch": "scf",
    "threshold_divisor": USUAL_DIVISOR,
    "chunks": 64,
    "profile": "equal",
}
"""The default of Themis, ISCA 2022, section 6."""


def make_space(
    instance: Instance,
    *,
    policies: Sequence[str] = TUNED_POLICIES,
    profiles: Sequence[str] | None = None,
    max_chunks: int | None = None,
    memory: float = math.inf,
    **costs: Any,
) -> Space:
    """The choices for an instance: chunks, their sizes and their policy.

    Raises InputError if one of them breaks a rule, the memory does not suffice for what users do today, or there is
    compute.

    `policies`, `profiles`: some of :data:`TUNED_POLICIES` and of :data:`PROFILES`; all by default.
    `max_chunks`: most chunks of a collective; 256 by default.
    `memory`: GiB; choices whose schedules need more are not tried.
    `**costs`: as in :func:`themis_opt.problem.cost_terms.with_costs`.
    """
    costly, chosen = with_costs(instance, **costs), _names_option("--policies", policies, TUNED_POLICIES)
    if has_launches(instance):
        rule = "is for collectives: 'plan' finds the buckets of a training step"
        raise InputError(rule, field="tune", value=instance.name)
    cuts = _names_option("--chunk-sizes", PROFILES if profiles is None else profiles, PROFILES)
    most = MOST_CHUNKS if max_chunks is None else max_chunks
    if not 1 <= most <= MAX_CHUNKS:
        raise InputError(f"must be from 1 to {MAX_CHUNKS}", field="--max-chunks", value=most)
    space = replace(_chunk_space(costly, chosen, cuts, most), memory=memory)
    check_memory(space.cut(space.reference), memory)
    return space


def _chunk_space(instance: Instance, policies: tuple[str, ...], profiles: tuple[str, ...], most: int) -> Space:
    """Chunk counts, size profiles, policies and their knobs; a least chunk where collectives have several sizes."""
    parameters = [
        TunedParameter("chunks", chunk_counts(most)),
        TunedParameter("profile", profiles),
        TunedParameter("policy", policies),
        TunedParameter("dispatch", tuple(DISPATCH), {"policy": ("themis", "baseline")}),
        TunedParameter("threshold_divisor", (4, 8, USUAL_DIVISOR, 32, 64), {"policy": ("themis",)}),
    ]
    if len({exchange.size for exchange in instance.exchanges}) > 1:
        parameters.append(TunedParameter("least_chunk_bytes", tuple(2**power for power in range(12, 24, 2))))
    return Space(instance.name or "instance", instance, tuple(parameters), TODAY)


def chunk_counts(most: int) -> tuple[int, ...]:
    """Powers of two and three numbers between each two of them, up to `most`."""
    counts = {power * quarter // 4 for power in (2**n for n in range(most.bit_length())) for quarter in (4, 5, 6, 7)}
    return tuple(sorted(count for count in counts if count <= most))


def _names_option(option: str, names: Sequence[str], known: tuple[str, ...]) -> tuple[str, ...]:
    """The names that an option lists, in the order of those known."""
    if not names or len(set(names)) < len(names) or not set(names) <= set(known):
        rule = f"must name one or more of {', '.join(known)}, each once"
        raise InputError(rule, field=option, value=", ".join(names))
    return tuple(name for name in known if name in names)

"""The options of a space of training iterations, checked."""

from typing import Unpack

from themis_opt.errors import InputError
from themis_opt.instance import MAX_CHUNKS
from themis_opt.iteration_instance import IterationInstance
from themis_opt.tuning.chunk_options import ChunkOptions, between, chosen
from themis_opt.tuning.costs import with_costs
from themis_opt.tuning.iteration_space import CHUNK_POLICIES, MOST_CHUNKS, IterationSpace

FOREIGN = {
    "sizes": "--sizes-of-collective",
    "profiles": "--profiles",
    "min_chunk": "--min-chunk",
}
"""Options that say nothing about iterations."""


def iteration_space(instance: IterationInstance, **options: Unpack[ChunkOptions]) -> IterationSpace:
    """The space of launching policies, chunk counts and chunk policies for an iteration.

    Parameters
    ----------
    policies : sequence of str
        Those for chunks to choose from, of themis, hourglass and baseline; all by default.
    max_chunks : int
        Most chunks of a collective, 64 by default.
    launch_overhead, packet, latency
        As in :func:`themis_opt.tuning.costs.with_costs`.

    Raises
    ------
    InputError
        If one of them breaks a rule, or one is given that is for collectives alone.
    """
    for name, option in FOREIGN.items():
        if options.get(name):
            rule = "is for collectives, not for training iterations, whose tensors have sizes of their own"
            raise InputError(rule, field=option, value=options.get(name))
    by_head = {policy.partition("+")[0]: policy for policy in CHUNK_POLICIES}
    heads = chosen("--policies", options.get("policies", tuple(by_head)), tuple(by_head))
    return IterationSpace(
        instance=with_costs(instance, **{k: options.get(k) for k in ("launch_overhead", "packet", "latency")}),  # type: ignore[arg-type]
        chunk_policies=tuple(by_head[head] for head in heads),
        max_chunks=between("--max-chunks", options.get("max_chunks", MOST_CHUNKS), MAX_CHUNKS),
    )

"""Launches that the reference of training iterations starts from: those of all policies, and evenly cut buckets."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

from themis_opt.instance import CollectiveKind
from themis_opt.iteration_instance import IterationInstance
from themis_opt.iterations.launching.common import Bucket, fusible, launches_alone, whole
from themis_opt.iterations.launching.dear import Dear
from themis_opt.iterations.plan import Launch, Order
from themis_opt.iterations.registry import LAUNCHING, make_iteration_policy

BUCKET_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Numbers of buckets, of equal bytes as far as tensors allow, that are tried for each kind and span."""

DEAR_COUNTS = (2, 4, 8, 16)
"""Numbers of groups of DeAR that are tried."""

CHUNK_POLICIES = ("hourglass", "themis+scf", "baseline+fifo")
"""Those with which the launches of all policies are tried; evenly cut buckets with the first alone."""

ORDERS: tuple[Order, ...] = ("layer", "ready", "newest")

Buckets = tuple[Bucket, ...]
"""Tensors that are fused; together all fusible ones, those of one kind and span in the order they become ready."""


class Candidate(NamedTuple):
    """Launches, their order and the policy of their chunks; `buckets` is None where launches are not whole buckets."""

    launches: tuple[Launch, ...]
    order: Order
    buckets: Buckets | None = None
    chunk_policy: str = CHUNK_POLICIES[0]


def candidates(instance: IterationInstance) -> Iterator[Candidate]:
    """Different launches and chunk policies, the most promising first."""
    seen = set()
    for candidate in _all(instance):
        order = candidate.order if len(candidate.launches) > 1 else ""
        key = (order, candidate.chunk_policy, _content(candidate.launches))
        if key not in seen:
            seen.add(key)
            yield candidate


def _content(launches: Sequence[Launch]) -> tuple[object, ...]:
    return tuple((own.kind, own.tensors, own.after, own.before, own.after_launches) for own in launches)


def _all(instance: IterationInstance) -> Iterator[Candidate]:
    yield from _of_policies(instance, LAUNCHING, CHUNK_POLICIES[:1])
    yield from _of_policies(instance, ["priority"], CHUNK_POLICIES)
    for order in ORDERS:
        for count in BUCKET_COUNTS:
            yield with_buckets(instance, even_buckets(instance, count), order)
    reducible = sum(t.size for t in instance.iteration.tensors if t.kind is CollectiveKind.ALL_REDUCE)
    for count in DEAR_COUNTS:
        threshold = max(reducible // count, 1)
        for order in ORDERS[:2]:
            yield Candidate(Dear(threshold)(instance), order)
    yield from _of_policies(instance, LAUNCHING, CHUNK_POLICIES)


def _of_policies(
    instance: IterationInstance, names: Iterable[str], chunk_policies: Sequence[str]
) -> Iterator[Candidate]:
    for name, chunk_policy in product(names, chunk_policies):
        policy = make_iteration_policy(name)
        yield Candidate(policy.launching(instance), policy.order, chunk_policy=chunk_policy)


def with_buckets(instance: IterationInstance, buckets: Buckets, order: Order) -> Candidate:
    """One launch per bucket, released by the last of its tensors and awaited by the first task that needs one."""
    launches = (*launches_alone(instance), *(whole(instance, bucket) for bucket in buckets))
    return Candidate(launches, order, buckets)


def even_buckets(instance: IterationInstance, count: int) -> Buckets:
    """Tensors of each kind and span in at most `count` buckets, which hold about equally many bytes."""
    return tuple(bucket for tensors in fusible(instance) for bucket in _evenly(instance, tensors, count))


def _evenly(instance: IterationInstance, tensors: Bucket, count: int) -> Iterator[Bucket]:
    total = sum(instance.iteration.tensors[t].size for t in tensors)
    buckets: dict[int, list[int]] = {}
    before = 0
    for tensor in tensors:
        size = instance.iteration.tensors[tensor].size
        buckets.setdefault((2 * before + size) * count // (2 * total), []).append(tensor)
        before += size
    return (tuple(bucket) for bucket in buckets.values())

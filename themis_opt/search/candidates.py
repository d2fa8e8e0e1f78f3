"""Launches that the reference of training iterations starts from: those of all policies, and evenly cut buckets."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from themis_opt.policies.launching.common import Bucket, fusible, launches_alone, whole
from themis_opt.policies.launching.dear import Dear
from themis_opt.policies.registry import LAUNCHING
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Launch, Order

CHUNK_POLICIES = ("hourglass", "themis+scf", "baseline+fifo")
"""Those with which the launches of all policies are tried; evenly cut buckets with the first alone."""

ORDERS: tuple[Order, ...] = ("layer", "ready", "newest")


@dataclass(frozen=True)
class CandidateParams:
    """Which candidates are tried besides those of the policies.

    Attributes
    ----------
    bucket_counts : tuple of int
        Numbers of buckets, of equal bytes as far as tensors allow, for each kind and span.
    dear_counts : tuple of int
        Numbers of groups of DeAR.
    """

    bucket_counts: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
    dear_counts: tuple[int, ...] = (2, 4, 8, 16)


USUAL = CandidateParams()

Buckets = tuple[Bucket, ...]
"""Tensors that are fused; together all fusible ones, those of one kind and span in the order they become ready."""


class Candidate(NamedTuple):
    """Launches, their order and the policy of their chunks; `buckets` is None where launches are not whole buckets."""

    launches: tuple[Launch, ...]
    order: Order
    buckets: Buckets | None = None
    chunk_policy: str = CHUNK_POLICIES[0]


def candidates(instance: Instance, params: CandidateParams = USUAL) -> Iterator[Candidate]:
    """Different launches and chunk policies, the most promising first."""
    seen = set()
    for candidate in _all(instance, params):
        order = candidate.order if len(candidate.launches) > 1 else ""
        key = (order, candidate.chunk_policy, _content(candidate.launches))
        if key not in seen:
            seen.add(key)
            yield candidate


def _content(launches: Sequence[Launch]) -> tuple[object, ...]:
    return tuple((own.kind, own.tensors, own.after, own.before, own.after_launches) for own in launches)


def _all(instance: Instance, params: CandidateParams) -> Iterator[Candidate]:
    yield from _of_policies(instance, LAUNCHING, CHUNK_POLICIES[:1])
    yield from _of_policies(instance, ["priority"], CHUNK_POLICIES)
    for order in ORDERS:
        for count in params.bucket_counts:
            yield with_buckets(instance, even_buckets(instance, count), order)
    reducible = sum(t.size for t in instance.exchanges if t.kind.rule.halves)
    for count in params.dear_counts:
        threshold = max(reducible // count, 1)
        for order in ORDERS[:2]:
            yield Candidate(Dear(threshold)(instance), order)
    yield from _of_policies(instance, LAUNCHING, CHUNK_POLICIES)


def _of_policies(instance: Instance, names: Iterable[str], chunk_policies: Sequence[str]) -> Iterator[Candidate]:
    for name, chunk_policy in product(names, chunk_policies):
        launching = LAUNCHING.load(name)()
        yield Candidate(launching(instance), launching.order, chunk_policy=chunk_policy)


def with_buckets(instance: Instance, buckets: Buckets, order: Order) -> Candidate:
    """One launch per bucket, released by the last of its tensors and awaited by the first task that needs one."""
    launches = (*launches_alone(instance), *(whole(instance, bucket) for bucket in buckets))
    return Candidate(launches, order, buckets)


def even_buckets(instance: Instance, count: int) -> Buckets:
    """Tensors of each kind and span in at most `count` buckets, which hold about equally many bytes."""
    return tuple(bucket for tensors in fusible(instance) for bucket in _evenly(instance, tensors, count))


def _evenly(instance: Instance, tensors: Bucket, count: int) -> Iterator[Bucket]:
    total = sum(instance.exchanges[t].size for t in tensors)
    buckets: dict[int, list[int]] = {}
    before = 0
    for tensor in tensors:
        size = instance.exchanges[tensor].size
        buckets.setdefault((2 * before + size) * count // (2 * total), []).append(tensor)
        before += size
    return (tuple(bucket) for bucket in buckets.values())


def neighbours(instance: Instance, candidate: Candidate) -> Iterator[Candidate]:
    """Candidates with two neighbouring buckets merged, one tensor shifted, one bucket halved, or another order.

    Buckets stay runs of tensors in the order they become ready.
    """
    buckets = candidate.buckets or ()
    for order in ORDERS:
        if order != candidate.order:
            yield with_buckets(instance, buckets, order)
    groups = {tensor: number for number, tensors in enumerate(fusible(instance)) for tensor in tensors}
    for place, bucket in enumerate(buckets):
        following = buckets[place + 1] if place + 1 < len(buckets) else ()
        joined = bool(following) and groups[bucket[0]] == groups[following[0]]
        for parts in _changes(bucket, following if joined else ()):
            changed = (*buckets[:place], *parts, *buckets[place + 1 + joined :])
            yield with_buckets(instance, changed, candidate.order)


def _changes(bucket: tuple[int, ...], following: tuple[int, ...]) -> Iterator[Buckets]:
    """What may stand for a bucket and the one that follows it, if there is one of its kind and span."""
    rest = (following,) if following else ()
    if len(bucket) > 1:
        half = len(bucket) // 2
        yield (bucket[:half], bucket[half:], *rest)
    if following:
        yield (bucket + following,)
    if following and len(bucket) > 1:
        yield (bucket[:-1], (bucket[-1], *following))
    if len(following) > 1:
        yield ((*bucket, following[0]), following[1:])

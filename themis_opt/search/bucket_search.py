"""Small changes of the buckets that tensors are fused in."""

from collections.abc import Iterator

from themis_opt.policies.launching.common import fusible
from themis_opt.problem.instance import Instance
from themis_opt.search.candidates import ORDERS, Buckets, Candidate, with_buckets


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

"""What one NPU sends and receives in a stage, step by step.

The algorithms are those of :mod:`themis_opt.schedules.data_movement`, which moves the data of all NPUs at once; here is
the part of one of them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from themis_opt.problem.network import Algorithm
from themis_opt.problem.phases import Data, Phase
from themis_opt.schedules.data_movement import Hops, Message, exchange_pattern, gather_pattern, rooted_tree


class Part(NamedTuple):
    """Blocks that go to, or come from, the NPU with a coordinate along the dimension."""

    peer: int
    blocks: tuple[int, ...]


class Step(NamedTuple):
    """What an NPU sends and receives at once; nothing that it sends is received in the same step."""

    sends: tuple[Part, ...]
    receives: tuple[Part, ...]


@lru_cache(maxsize=1024)
def steps_of(phase: Phase, algorithm: Algorithm, size: int, own: int) -> tuple[Step, ...]:
    """The steps of the NPU with coordinate `own` in a stage on a dimension of `size` NPUs."""
    rule = phase.rule
    return _STEPS[rule.rooted, rule.data](algorithm, size, own)


def _gather(algorithm: Algorithm, size: int, own: int) -> tuple[Step, ...]:
    pattern = gather_pattern(algorithm, size)
    return tuple(_step(pattern.messages(step), own) for step in range(pattern.num_steps))


def _reduce_scatter(algorithm: Algorithm, size: int, own: int) -> tuple[Step, ...]:
    """The mirror image of the all-gather: steps and messages turned round."""
    return _mirrored(_gather(algorithm, size, own))


def _all_to_all(algorithm: Algorithm, size: int, own: int) -> tuple[Step, ...]:
    """What is sent is the block of the receiver, what is received becomes the block of the sender."""
    pattern = exchange_pattern(algorithm, size)
    steps = (_step(pattern.messages(step), own) for step in range(pattern.num_steps))
    return tuple(Step(sends, tuple(Part(peer, (peer,)) for peer, _ in receives)) for sends, receives in steps)


def _rooted_gather(algorithm: Algorithm, size: int, own: int) -> tuple[Step, ...]:
    tree = rooted_tree(algorithm, size)
    return tuple(_rooted_step(tree.hops(step), own) for step in range(tree.num_steps))


def _rooted_scatter(algorithm: Algorithm, size: int, own: int) -> tuple[Step, ...]:
    return _mirrored(_rooted_gather(algorithm, size, own))


def _mirrored(steps: Sequence[Step]) -> tuple[Step, ...]:
    return tuple(Step(sends=step.receives, receives=step.sends) for step in reversed(steps))


def _step(messages: Iterable[Message], own: int) -> Step:
    sends, receives = [], []
    for message in messages:
        sends.append(_part(message, own, int(message.target[own, 0])))
        (source,) = np.flatnonzero(message.target[:, 0] == own).tolist()
        receives.append(_part(message, source, source))
    return Step(tuple(sends), tuple(receives))


def _part(message: Message, sender: int, peer: int) -> Part:
    return Part(peer, tuple(message.blocks[sender].tolist()))


def _rooted_step(hops: Hops, own: int) -> Step:
    return Step(
        sends=_by_peer(hops.parent[hops.child == own].tolist(), hops.block[hops.child == own].tolist()),
        receives=_by_peer(hops.child[hops.parent == own].tolist(), hops.block[hops.parent == own].tolist()),
    )


def _by_peer(peers: Sequence[int], blocks: Sequence[int]) -> tuple[Part, ...]:
    """Blocks that go to or come from one NPU, together."""
    found: dict[int, list[int]] = {}
    for peer, block in zip(peers, blocks, strict=True):
        found.setdefault(peer, []).append(block)
    return tuple(Part(peer, tuple(own)) for peer, own in found.items())


_STEPS: Mapping[tuple[bool, Data], Callable[[Algorithm, int, int], tuple[Step, ...]]] = MappingProxyType(
    {
        (False, Data.SHRINK): _reduce_scatter,
        (False, Data.GROW): _gather,
        (False, Data.STAY): _all_to_all,
        (True, Data.SHRINK): _rooted_scatter,
        (True, Data.GROW): _rooted_gather,
    }
)

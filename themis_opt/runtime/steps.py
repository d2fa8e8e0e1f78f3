"""Messages of one NPU in a stage, step by step: its part of the messages of all."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from themis_opt.problem.network import Algorithm
from themis_opt.problem.phases import Data, Phase
from themis_opt.schedules.messages import Messages, algorithm_messages


class PeerBlocks(NamedTuple):
    """Blocks that go to, or come from, the NPU with a coordinate along the dimension."""

    peer: int
    blocks: tuple[int, ...]


class RankStep(NamedTuple):
    """Messages that an NPU sends and receives at once; nothing that it sends is received in the same step."""

    sends: tuple[PeerBlocks, ...]
    receives: tuple[PeerBlocks, ...]


@lru_cache(maxsize=1024)
def steps_of(phase: Phase, algorithm: Algorithm, size: int, place: int) -> tuple[RankStep, ...]:
    """The steps of the NPU with coordinate `place` in a stage on a dimension of `size` NPUs."""
    exchanged = phase.rule.data is Data.STAY
    return tuple(_step(messages, place, exchanged) for messages in _messages(phase, algorithm, size))


@lru_cache(maxsize=64)
def _messages(phase: Phase, algorithm: Algorithm, size: int) -> tuple[Messages, ...]:
    return tuple(algorithm_messages(phase, algorithm, size))


def _step(messages: Messages, place: int, exchanged: bool) -> RankStep:
    """One step; an exchanged block becomes that of its sender."""
    out, back = messages.source == place, messages.target == place
    kept = messages.source if exchanged else messages.block
    return RankStep(
        sends=_by_peer(messages.target[out].tolist(), messages.block[out].tolist()),
        receives=_by_peer(messages.source[back].tolist(), kept[back].tolist()),
    )


def _by_peer(peers: Sequence[int], blocks: Sequence[int]) -> tuple[PeerBlocks, ...]:
    blocks_by_peer: dict[int, list[int]] = {}
    for peer, block in zip(peers, blocks, strict=True):
        blocks_by_peer.setdefault(peer, []).append(block)
    return tuple(PeerBlocks(peer, tuple(numbers)) for peer, numbers in blocks_by_peer.items())

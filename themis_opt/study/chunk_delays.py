"""How late chunks come: a random delay of each, such as of a packet that is lost and sent again."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from themis_opt.base.arrays import FloatArray
from themis_opt.base.errors import InputError
from themis_opt.base.units import parse_time

MOST = 1000
"""No delay is longer than so many times that of the distribution, so that the clock holds every sample."""

FIELD = "--chunk-delay"

DELAY_FORMS = "exponential:MEAN or lognormal:MEDIAN:SIGMA, such as exponential:100us"


@dataclass(frozen=True)
class ChunkDelay:
    """A distribution of delays.

    `name`: ``exponential`` or ``lognormal``.
    `scale`: picoseconds: the mean of the exponential, the median of the log-normal distribution.
    `sigma`: standard deviation of the logarithm, for the log-normal distribution.
    """

    name: str
    scale: int
    sigma: float = 0.0

    def draw(self, random: np.random.Generator, count: int) -> FloatArray:
        """Delays of `count` chunks, in picoseconds."""
        return self.scale * np.minimum(_DRAWS[self.name](random, self.sigma, count), MOST)

    @property
    def most(self) -> int:
        """The longest delay, in picoseconds."""
        return MOST * self.scale


_DRAWS: Mapping[str, Callable[[np.random.Generator, float, int], FloatArray]] = MappingProxyType(
    {
        "exponential": lambda random, sigma, count: random.exponential(1.0, count),
        "lognormal": lambda random, sigma, count: random.lognormal(0.0, sigma, count),
    }
)


def parse_chunk_delay(text: str) -> ChunkDelay | None:
    """The distribution of a text such as ``"exponential:100us"`` or ``"lognormal:50us:1.5"``; None for an empty one.

    Raises InputError if it is no such text.
    """
    if not text:
        return None
    name, *numbers = text.split(":")
    if name not in _DRAWS or len(numbers) != 1 + (name == "lognormal"):
        raise InputError(f"must be {DELAY_FORMS}", field=FIELD, value=text)
    try:
        scale = parse_time(numbers[0])
        sigma = float(numbers[1]) if name == "lognormal" else 0.0
    except ValueError as error:
        raise InputError(f"must be {DELAY_FORMS}: {error}", field=FIELD, value=text) from None
    if scale < 0 or not 0 <= sigma < math.inf:
        raise InputError("must be of a time and a sigma of 0 or more", field=FIELD, value=text)
    return ChunkDelay(name, scale, sigma)

"""The parameters of a search."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

ParameterValue = int | str

Choice = Mapping[str, ParameterValue]  # values by the names of their parameters


@dataclass(frozen=True)
class TunedParameter:
    """One thing to choose.

    `values`: what it may be; numbers ascend, are positive, and count as near where their ratio is near 1.
    `when`: values of earlier parameters under which it matters; empty if it always does.
    """

    name: str
    values: tuple[ParameterValue, ...]
    when: Mapping[str, tuple[ParameterValue, ...]] = field(default_factory=dict)

    @property
    def is_number(self) -> bool:
        """Whether the values are numbers."""
        return all(isinstance(value, int) for value in self.values)

    def matters(self, choice: Choice) -> bool:
        """Whether it has to be chosen, given what was chosen before."""
        return all(choice.get(name) in values for name, values in self.when.items())

    def nearest(self, value: ParameterValue) -> ParameterValue:
        """The value itself if it is allowed, else the nearest number, or the first text."""
        if value in self.values:
            return value
        if not isinstance(value, int) or not self.is_number:
            return self.values[0]
        return min(self.values, key=lambda v: abs(math.log(int(v) / value)))


def every_choice(parameters: Sequence[TunedParameter]) -> Iterator[dict[str, ParameterValue]]:
    """All combinations of values, without parameters that do not matter."""
    return _completed({}, tuple(parameters))


def _completed(
    choice: dict[str, ParameterValue], parameters: tuple[TunedParameter, ...]
) -> Iterator[dict[str, ParameterValue]]:
    if not parameters:
        yield choice
        return
    first, *others = parameters
    if not first.matters(choice):
        yield from _completed(choice, tuple(others))
        return
    for value in first.values:
        yield from _completed(choice | {first.name: value}, tuple(others))


def nearest_choice(parameters: Sequence[TunedParameter], wanted: Choice) -> dict[str, ParameterValue]:
    """The combination nearest to a wanted one that may lie outside."""
    choice: dict[str, ParameterValue] = {}
    for parameter in parameters:
        if parameter.matters(choice):
            choice[parameter.name] = parameter.nearest(wanted.get(parameter.name, parameter.values[0]))
    return choice

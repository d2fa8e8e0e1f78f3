"""What each number that steers a search changes: it is halved and doubled, and the held-out set is solved anew.

``python tests/benchmarks/parameters.py -o rows.csv --deterministic`` takes the options of :mod:`ablation`, of which
each number with another value is one more mechanism.  A number is worth being a parameter if a line of the table says
more than chance.
"""

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

FACTORS = (0.5, 2.0)


def is_params(value: Any) -> bool:
    """Whether a value holds parameters: a dataclass, or a named tuple."""
    return is_dataclass(value) or hasattr(value, "_asdict")


def as_mapping(params: Any) -> dict[str, Any]:
    """Parameters by name."""
    return {f.name: getattr(params, f.name) for f in fields(params)} if is_dataclass(params) else params._asdict()


def numbers(params: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every number of the parameters, also of those inside, by the names that lead to it.

    The weights of a tuple are looked at one by one, its counts together.
    """
    for name, value in as_mapping(params).items():
        if is_params(value):
            yield from (((name, *rest), number) for rest, number in numbers(value))
        elif isinstance(value, tuple) and isinstance(value[0], float):
            yield from (((name, str(place)), number) for place, number in enumerate(value) if number)
        elif isinstance(value, int | float | tuple):
            yield (name,), value


def varied(params: Any, path: Sequence[str], value: Any) -> Any:
    """The parameters with another value at the end of a path."""
    name, *rest = path
    if not is_params(params):
        return tuple(value if str(place) == name else number for place, number in enumerate(params))
    changes = {name: varied(as_mapping(params)[name], rest, value) if rest else value}
    return replace(params, **changes) if is_dataclass(params) else params._replace(**changes)


def scaled(value: Any, factor: float) -> Any:
    """A number, or all numbers of a tuple, times a factor; counts stay whole and at least 1."""
    if isinstance(value, tuple):
        return tuple(scaled(number, factor) for number in value)
    return max(1, int(value * factor)) if isinstance(value, int) else value * factor


def variations(params: Any) -> Iterator[tuple[str, Any]]:
    """Parameters of which one number is halved or doubled, by its name and the factor."""
    for (path, value), factor in ((number, factor) for number in numbers(params) for factor in FACTORS):
        yield f"{'.'.join(path)} x {factor:g}", varied(params, path, scaled(value, factor))


if __name__ == "__main__":
    import ablation

    ablation.main(ablation.number_variations())

"""Exceptions that a user may meet: each names the place, the value and the rule it breaks."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager


class ThemisError(Exception):
    """Base of every error this package raises on purpose."""


class InputError(ThemisError):
    """An input that breaks a rule.

    `rule`: what the input should have been.
    `field`: path of the offending field, such as ``network.dimensions[2].size``.
    `value`: the value there, when there is one.
    `source`: the file (or other origin) that holds the field.
    `others`: what else is wrong with the same input; tracebacks show them as notes.
    """

    def __init__(
        self, rule: str, *, field: str = "", value: object = None, source: str = "", others: "Sequence[InputError]" = ()
    ) -> None:
        self.rule, self.field, self.value, self.source = rule, field, value, source
        self.others = tuple(others)
        super().__init__(rule)
        for other in self.others:
            self.add_note(str(other))

    def __str__(self) -> str:
        shown = "" if self.value is None else f" = {_short(self.value)}"
        place = ": ".join(part for part in (self.source, f"{self.field}{shown}".strip()) if part)
        return printable(f"{place}: {self.rule}" if place else self.rule)

    def within(self, source: str) -> "InputError":
        """The same error, located in the file `source`."""
        others = [other.within(source) for other in self.others]
        return type(self)(self.rule, field=self.field, value=self.value, source=source, others=others)


class CyclicPlan(InputError):
    """A plan whose enforced sequences and precedences wait for each other in a circle."""


class InvalidSchedule(ThemisError):
    """A schedule that breaks a rule of the model.

    `rule`: name of the broken rule: a key of :data:`themis_opt.schedules.validation.RULES`, ``data`` or ``port``.
    `detail`: where and how it is broken.
    `source`: the file that holds the schedule.
    """

    def __init__(self, rule: str, detail: str, *, source: str = "") -> None:
        self.rule, self.detail, self.source = rule, detail, source
        place = f"{source}: " if source else ""
        super().__init__(printable(f"{place}schedule breaks rule '{rule}': {detail}"))

    def within(self, source: str) -> "InvalidSchedule":
        """The same error, located in the file `source`."""
        return type(self)(self.rule, self.detail, source=source)


@contextmanager
def reading(field: str, value: object, rule: str = "", source: object = "") -> Iterator[None]:
    """Name the field whose value cannot be read: InputError in the place of errors of numbers."""
    try:
        yield
    except (ValueError, ZeroDivisionError) as error:
        raise InputError(rule or str(error), field=field, value=value, source=str(source)) from None


def suggestion(name: str, known: Iterable[str]) -> str:
    """A question for the nearest of the names that are known, to stand behind a rule; empty where none is near."""
    from difflib import get_close_matches  # takes time that only errors need

    names, last = list(known), name.rpartition("/")[2].lower()
    near = get_close_matches(name[:100], names, 1) or get_close_matches(last[:100], names, 1)
    return f"; did you mean '{near[0]}'?" if near else ""


def check_choice(value: object, known: Iterable[object], field: str) -> None:
    """Refuse a value that is none of those that are known. Raises InputError with all of them, and the nearest one."""
    names = list(map(str, known))
    if str(value) not in names:
        rule = f"must be one of {', '.join(names)}{suggestion(str(value), names)}"
        raise InputError(rule, field=field, value=value)


def printable(text: str, keep: str = "") -> str:
    """The text with line breaks, escape sequences and other control characters spelled out, but for those to `keep`."""
    if text.isprintable():  # most texts, of which tables hold many
        return text
    return "".join(c if c.isprintable() or c in keep else repr(c)[1:-1] for c in text)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."

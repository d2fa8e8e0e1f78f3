"""What a search needs to know of a problem: the protocol of spaces, and their registry."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any, Protocol

from themis_opt.errors import InputError
from themis_opt.instance import Instance
from themis_opt.iteration_instance import IterationInstance
from themis_opt.tuning.parameters import Choice, Parameter


@dataclass(frozen=True)
class Measurement:
    """What a choice is worth in one case.

    Attributes
    ----------
    makespan : int
        Picoseconds, simulated and validated.
    ideal : float
        Picoseconds that nothing can beat, to compare cases with.
    utilisation : float
        Share of the bandwidth in use, 0..1.
    pieces : int
        What the data are cut in: chunks, or buckets.
    """

    makespan: int
    ideal: float
    utilisation: float
    pieces: int

    @property
    def ratio(self) -> float:
        """Makespan over ideal."""
        return self.makespan / self.ideal


class Space(Protocol):
    """Choices for one problem, and what they are worth.

    A problem may have several cases, such as several sizes of one collective; they come from cheap to dear.  This is
    all that :func:`themis_opt.tuning.tuner.find`, the table of trials and the pictures need.
    """

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """What can be chosen."""

    @property
    def name(self) -> str:
        """Of the problem, for titles."""

    @property
    def measured(self) -> str:
        """The word for the time that is searched: makespan, or iteration."""

    @property
    def reference(self) -> Choice:
        """What users do today; it need not lie in the space."""

    @property
    def instances(self) -> Sequence[Instance] | Sequence[IterationInstance]:
        """The instance of each case, with the costs as asked for."""

    @property
    def cases(self) -> tuple[str, ...]:
        """A name for each case."""

    @property
    def identity(self) -> Mapping[str, str]:
        """What two searches must have in common to share their trials, by a name for the part."""

    def canonical(self, choice: Choice) -> dict[str, Any]:
        """The same choice without what makes no difference: equal results, equal form."""

    def measure(self, choice: Choice, case: int) -> Measurement:
        """Try a choice in a case.

        Raises
        ------
        ThemisError
            If it cannot be done.
        """

    def measure_reference(self, case: int) -> Measurement:
        """What users do today, in a case."""

    def specification(self, choice: Choice) -> str:
        """The policy of a choice as it is written on the command line."""

    def describe(self, choice: Choice) -> str:
        """A choice in one line."""


SPACES: Mapping[str, str] = MappingProxyType(
    {
        "chunks": "themis_opt.tuning.chunk_options:chunk_space",
        "iteration": "themis_opt.tuning.iteration_options:iteration_space",
    }
)
"""Import path of what makes each kind of space from an instance and options."""


def kind_of_space(instance: Instance | IterationInstance) -> str:
    """What is tuned of an instance."""
    return "iteration" if isinstance(instance, IterationInstance) else "chunks"


def make_space(kind: str, instance: Any, **options: Any) -> Space:
    """The space of a kind for an instance.

    Raises
    ------
    InputError
        If there is no such kind, or an option breaks a rule.
    """
    if kind not in SPACES:
        raise InputError(f"must be one of {', '.join(SPACES)}", field="space", value=kind)
    module, _, name = SPACES[kind].partition(":")
    space: Space = getattr(import_module(module), name)(instance, **options)
    return space

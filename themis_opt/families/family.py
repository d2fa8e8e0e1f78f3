"""What every family of problems offers, and the sentence that says what a family does not offer."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from formulations.limits import Limits
from themis_opt.base.errors import InputError, check_choice
from themis_opt.base.registries import imported

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from themis_opt.formats.exports import Exported
    from themis_opt.schedules.envelope import Summary
    from themis_opt.schedules.results import PolicyComparison
    from themis_opt.schedules.timed import Explanation


SEARCH_KNOBS = ("seconds", "workers", "seed", "gap")  # limits that every search minds


class Problem(Protocol):
    """What is scheduled: an instance on dimensions, an instance on a graph, or a pipeline."""

    @property
    def name(self) -> str:
        """The name in tables."""

    @property
    def family(self) -> str:
        """A key of :data:`themis_opt.families.door.FAMILIES`."""

    @property
    def fingerprint(self) -> str:
        """Hash of everything that decides which schedules are legal, and how long they take."""


class AnySchedule(Protocol):
    """A plan with its times."""

    @property
    def problem(self) -> Problem:
        """What is scheduled."""

    @property
    def makespan(self) -> int:
        """Picoseconds until everything is done."""


def refuse_changes(name: str, changes: Mapping[str, Any]) -> None:
    """Refuse figures of the command line that a family does not have. Raises InputError for the first."""
    for option, value in changes.items():
        raise InputError(f"is not for {name}", field=f"--{option.replace('_', '-')}", value=value)


def lazily(path: str) -> Callable[..., Any]:
    """The function of an import path such as ``package.module:name``, which is imported when it is called first."""

    def call(*arguments: Any, **options: Any) -> Any:
        return imported(path)(*arguments, **options)

    return call


def explain(schedule: Any) -> "Explanation":
    """The critical path of timed operations, and how busy their resources are."""
    explanation: Explanation = schedule.timed.explain()
    return explanation


def plot(schedule: Any, ax: "Axes | None" = None, **options: Any) -> "Axes":
    """A row for each resource of timed operations."""
    from themis_opt.formats.plot import plot_operations

    return plot_operations(schedule.timed, ax, **options)


@dataclass(frozen=True)
class Family:
    """One kind of problem: a row of functions that answer questions about it.

    `name`: the family in sentences, in the plural.
    `usual`: policies that are simulated where none are named.
    `instead`: for each question that the family does not answer a sentence with what to do.
    """

    name: str
    solve: Callable[..., "PolicyComparison[Any]"]  # the usual policies with the reference
    compare: Callable[..., "PolicyComparison[Any]"]  # policies by name, or functions from a problem to a plan
    bounds: Callable[..., Mapping[str, float]]  # lower bounds in picoseconds, by name
    has_policy: Callable[[str], bool]  # whether there is the policy of a specification
    make_policy: Callable[..., Any]  # a function from a problem to a plan, of a specification and knobs
    simulate: Callable[..., Any]  # the schedule of a problem and a plan
    validate: Callable[[Any], None]  # checks a schedule from the rules alone
    export: Callable[..., "Exported"]  # the files of a format, with checked facts of them
    sweep: Callable[..., Iterable[dict[str, Any]]]  # policies over varied values
    robustness: Callable[..., Any]  # plans of schedules in disturbed copies of a problem
    rival: Callable[[Any], str]  # the policy whose plan stands beside another one in disturbed copies
    read_solution: Callable[..., tuple[Any, Any]]  # a schedule file, perhaps of a problem, and the summary in it
    text: Callable[[Any], str]  # the JSON document of a problem
    in_short: Callable[[Any], str]  # the size of a problem and its load in a few words
    changed: Callable[..., Any]  # the problem with figures of the command line, by the names of options
    # where graphs are needed, or all policies are theirs, on a graph
    on_graph: Callable[..., Any] = lambda problem, policies, *, needed: problem
    doubts: Callable[[Any], Iterable[str]] = lambda problem: ()  # sentences about figures that seem wrong
    # of batches, which ask instances on dimensions and their policies themselves:
    searches: Callable[[str], bool] = lambda specification: False  # whether a policy minds limits
    facts: Callable[[Any], Mapping[str, str | int]] = lambda problem: {}  # columns of rows that describe a problem
    explain: Callable[[Any], "Explanation"] = explain  # the critical path of a schedule, and what each resource does
    plot: Callable[..., "Axes"] = plot  # draws a schedule on axes
    usual: tuple[str, ...] = ()
    instead: Mapping[str, str] = field(default_factory=dict)

    def refuse(self, question: str) -> NoReturn:
        """Raise the InputError that says what to do instead."""
        sentence = self.instead.get(question, "use 'compare' with changed problems")
        raise InputError(f"is not for {self.name}: {sentence}", field=question)


def read_solution(reader: str, path: Path, problem: Problem | None = None) -> tuple[AnySchedule, "Summary"]:
    """Read a schedule and its summary by the function of an import path.

    Raises InputError if it is not of the problem, if there is one.
    """
    schedule, summary = imported(reader)(path)
    if problem is not None and problem.fingerprint != schedule.problem.fingerprint:
        raise InputError("must be the schedule of this problem", field="instance", value=problem.name, source=str(path))
    return schedule, summary


def make_policy(policies: Mapping[str, Any], specification: str, **knobs: Any) -> Any:
    """The policy of a name. Raises InputError if there is none."""
    check_choice(specification, policies, "policy")
    return partial(policies[specification], **knobs)


def with_limits(compare: Callable[..., "PolicyComparison[Any]"]) -> Callable[..., Any]:
    """The comparison with its limits as options."""

    def limited(problem: Any, policies: Any, *, time_limit: float = Limits.seconds, **limits: Any) -> Any:
        return compare(problem, policies, Limits(seconds=time_limit, **limits))

    return limited


def sweep(
    compare: Callable[..., "PolicyComparison[Any]"],
    vary: Callable[[Any, str, Any], Any],
    usual: Sequence[str],
    problem: Any,
    over: Mapping[str, Sequence[Any]],
    policies: Sequence[str] | None = None,
    **limits: Any,
) -> list[dict[str, Any]]:
    """Results of policies on a problem with other values of figures, one figure at a time.

    `vary`: makes a problem with another value of a figure; raises InputError for figures that it does not know.
    """
    return [
        {figure: value, **result.row()}
        for figure, values in over.items()
        for value in values
        for result in compare(vary(problem, figure, value), policies or usual, **limits).results
    ]

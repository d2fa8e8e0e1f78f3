"""What every family of problems offers, and the sentence that says what a family does not offer."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Protocol

from themis_opt.base.errors import InputError, suggestion

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from themis_opt.schedules.timed import Explanation


SEARCH_KNOBS = ("seconds", "workers", "seed", "gap")
"""Limits that every search minds."""


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


class AnyResult(Protocol):
    """The schedule of a policy beside the bound of its problem."""

    @property
    def policy(self) -> str:
        """The specification of the policy."""

    @property
    def schedule(self) -> Any:
        """The schedule, simulated and validated."""

    @property
    def makespan(self) -> int:
        """The value of the objective in picoseconds; of a period its length."""

    @property
    def bound(self) -> float:
        """The best proven lower bound in picoseconds."""

    @property
    def gap(self) -> float:
        """Makespan over the bound, minus 1."""

    @property
    def status(self) -> str:
        """``optimal``, ``near-optimal`` or ``feasible``, by the gap."""

    def row(self) -> Mapping[str, Any]:
        """Plain values; times in nanoseconds."""


class AnyComparison(Protocol):
    """The results of policies on one problem."""

    @property
    def problem(self) -> Any:
        """What is scheduled."""

    @property
    def results(self) -> Sequence[AnyResult]:
        """One result for each policy that has a legal plan."""

    @property
    def refused(self) -> Mapping[str, Any]:
        """Why other policies have no result, by name."""

    @property
    def left_out(self) -> Sequence[str]:
        """Policies for which there was no time."""

    @property
    def best(self) -> AnyResult:
        """The result with the least makespan."""

    @property
    def bounds(self) -> Mapping[str, float]:
        """Lower bounds in picoseconds, by name."""

    @property
    def verdict(self) -> Sequence[str]:
        """The outcome in sentences."""


class Family:
    """One kind of problem.  A method that a family lacks raises InputError, and says what to do instead.

    `name`: the family in sentences, in the plural.
    `usual`: policies that are simulated where none are named.
    `instead`: for each missing question a sentence with what to do.
    """

    name: ClassVar[str] = ""
    usual: ClassVar[tuple[str, ...]] = ()
    instead: ClassVar[Mapping[str, str]] = {}

    def solve(self, problem: Any, **options: Any) -> AnyComparison:
        """Compare the usual policies with the reference."""
        self.refuse("solve")

    def compare(self, problem: Any, policies: Sequence[Any], **options: Any) -> AnyComparison:
        """Run policies."""
        self.refuse("compare")

    def bounds(self, problem: Any, **options: Any) -> Mapping[str, float]:
        """Lower bounds in picoseconds, by name."""
        self.refuse("bounds")

    def has_policy(self, specification: str) -> bool:
        """Whether the family has the policy that a specification names."""
        self.refuse("has_policy")

    def knobs(self, specification: str) -> tuple[str, ...]:
        """The limits that a policy minds, such as ``seconds``, of one that the family has."""
        self.refuse("knobs")

    def facts(self, problem: Any) -> Mapping[str, str | int]:
        """Columns of rows that describe a problem: network, dimensions, npus, kind, size_bytes and chunks."""
        self.refuse("facts")

    def make_policy(self, specification: str, **knobs: Any) -> Any:
        """A function from a problem to a plan."""
        self.refuse("make_policy")

    def simulate(self, problem: Any, plan: Any, **options: Any) -> Any:
        """The schedule of a plan."""
        self.refuse("simulate")

    def validate(self, schedule: Any) -> None:
        """Check a schedule from the rules alone."""
        self.refuse("validate")

    def explain(self, schedule: Any) -> "Explanation":
        """The critical path, and what each resource does."""
        self.refuse("explain")

    def plot(self, schedule: Any, ax: "Axes | None" = None, **options: Any) -> "Axes":
        """Draw the schedule on axes."""
        self.refuse("plot")

    def export(self, schedule: Any, to: str, folder: Path, *, check: bool = False) -> tuple[list[Path], list[str]]:
        """Write a schedule for another tool; the files, and checked facts of them."""
        self.refuse("export")

    def sweep(self, problem: Any, over: Mapping[str, Sequence[Any]], policies: Any = None, **limits: Any) -> Any:
        """Run policies over varied values."""
        self.refuse("sweep")

    def tune(self, problem: Any, **options: Any) -> Any:
        """Search for the chunks and the policy that are fastest."""
        self.refuse("tune")

    def read_solution(self, path: Path, problem: Any = None) -> tuple[Any, Any]:
        """Read a schedule of this family, which must belong to `problem` if there is one, and the summary beside it."""
        self.refuse("read_solution")

    def text(self, problem: Any) -> str:
        """The JSON document of a problem."""
        self.refuse("text")

    def in_short(self, problem: Any) -> str:
        """The size of a problem and its load in a few words."""
        self.refuse("in_short")

    def of_workload(self, model: str, layers: Any, setup: Any) -> Any:
        """The problem that a model on a network poses."""
        self.refuse("of_workload")

    def changed(self, problem: Any, changes: Mapping[str, Any]) -> Any:
        """The problem with figures of the command line, by the names of options."""
        for name, value in changes.items():
            raise InputError(f"is not for {self.name}", field=f"--{name.replace('_', '-')}", value=value)
        return problem

    def doubts(self, problem: Any) -> Iterable[str]:
        """Sentences about figures that seem wrong."""
        return ()

    def on_graph(self, problem: Any, policies: Sequence[str], *, needed: bool) -> Any:
        """The problem, or where graphs are needed or all policies are theirs the same on a graph."""
        return problem

    def robustness(self, problem: Any, policies: Sequence[str], **options: Any) -> Any:
        """Run plans in disturbed copies of the problem."""
        self.refuse("robustness")

    def refuse(self, question: str) -> NoReturn:
        """Raise the InputError that says what to do instead."""
        sentence = self.instead.get(question, "use 'compare' with changed problems")
        raise InputError(f"is not for {self.name}: {sentence}", field=question)


def checked_problem(schedule: AnySchedule, problem: Problem | None, path: Path) -> None:
    """Check that a schedule belongs to a problem, if there is one. Raises InputError if it does not."""
    if problem is not None and problem.fingerprint != schedule.problem.fingerprint:
        raise InputError("must be the schedule of this problem", field="instance", value=problem.name, source=str(path))


def chosen_policy(policies: Mapping[str, Any], specification: str) -> Any:
    """The policy of a name. Raises InputError if there is none."""
    if specification not in policies:
        rule = f"must be one of {', '.join(policies)}{suggestion(specification, policies)}"
        raise InputError(rule, field="policy", value=specification)
    return policies[specification]

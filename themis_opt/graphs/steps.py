"""Searches on graphs as steps, which take turns at one contest of plans."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

from formulations.limits import Limits
from themis_opt.base.allowance import Allowance
from themis_opt.graphs.bounds import GraphBound
from themis_opt.graphs.problem import GraphInstance
from themis_opt.graphs.schedule import GraphSchedule
from themis_opt.graphs.validation import validate_graph
from themis_opt.schedules.contest import Contest


class GraphContest(Contest[GraphSchedule]):
    """The plans and searches of an instance.

    `gap`: at which searches stop, if it is more than that of the limits.
    `class_bounds`: what no schedule with as many chunks beats, for schedules about which that is known.
    """

    def __init__(
        self,
        instance: GraphInstance,
        limits: Limits,
        bound: float = 0.0,
        gap: float = 0.0,
        allowance: Allowance | None = None,
    ) -> None:
        super().__init__(limits, bound, allowance=allowance)
        self.instance, self.gap = instance, max(gap, limits.gap)
        self.class_bounds: dict[GraphSchedule, GraphBound] = {}

    def measure(self, schedule: GraphSchedule) -> float:
        """The makespan in picoseconds."""
        return schedule.makespan

    def check(self, schedule: GraphSchedule) -> None:
        """As :func:`themis_opt.graphs.validation.validate_graph`."""
        validate_graph(schedule)

    @property
    def enough(self) -> float:
        """The makespan at which searches stop, in picoseconds."""
        return self.bound * (1 + self.gap)

    def turn(self, followers: int = 1) -> AbstractContextManager[None]:
        """An equal part of what is left."""
        return self.allowance.turn(self.left / (followers + 1))

    def beside(self, instance: GraphInstance) -> "GraphContest":
        """The contest of another instance with the same bound, out of the same allowance."""
        return GraphContest(instance, self.limits, self.bound, self.gap, self.allowance)


@dataclass(frozen=True)
class GraphStep:
    """A search: what it is for, and the schedules that it makes, each better or with more chunks than those before.

    A search looks at :attr:`GraphContest.left`, and charges the work that is no simulation.
    """

    name: str
    is_for: Callable[[GraphInstance], bool]
    search: Callable[[GraphContest], Iterator[GraphSchedule]]
    engine: str = ""

    def applies(self, contest: GraphContest) -> bool:
        """Whether the search did not run yet, and is for the kind and the size of the instance."""
        is_new = self.name not in contest.tried and len(contest.instance.collectives) == 1
        return is_new and self.is_for(contest.instance)

    def run(self, contest: GraphContest) -> None:
        """Keep the best schedule of the search."""
        contest.attempt(self.name, lambda: self.search(contest))

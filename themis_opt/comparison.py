"""Comparison of policies on one instance, against the best proven bound."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic

from formulations.budget import PROVEN_GAP
from themis_opt.instance import Instance
from themis_opt.lower_bounds import BOUNDS, bounds
from themis_opt.policies.exact import Exact
from themis_opt.policies.registry import HEURISTICS, REFERENCE, Policy, make_policy, with_defaults
from themis_opt.schedule import Schedule
from themis_opt.simulator import simulate
from themis_opt.validation import validate

Progress = Callable[[str, float, float], None]
"""Called with the policy at work, its best makespan and the best bound so far, in picoseconds."""


@dataclass(frozen=True)
class Result:
    """One policy's schedule, simulated and validated.

    Attributes
    ----------
    bound : float
        Best proven lower bound on the makespan of this row and all others of its table, in picoseconds.
    speedup : float
        Baseline makespan over this one.
    status : str
        ``optimal`` if the gap is within 1e-4, else ``feasible``.
    """

    policy: str
    schedule: Schedule
    bound: float
    speedup: float
    status: str

    @property
    def makespan(self) -> int:
        """Makespan in picoseconds."""
        return self.schedule.makespan

    @property
    def gap(self) -> float:
        """Makespan over bound, minus 1."""
        return self.makespan / self.bound - 1

    def row(self) -> dict[str, str | float]:
        """The result as plain values: times in ns, fractions 0..1."""
        return {
            "policy": self.policy,
            "makespan_ns": self.makespan / 1000,
            "utilisation": self.schedule.utilisation,
            "speedup": self.speedup,
            "bound_ns": self.bound / 1000,
            "gap": self.gap,
            "status": self.status,
        }


@dataclass(frozen=True)
class Comparison:
    """Results of several policies on one instance, in the order asked for.

    `bounds` holds every bound in picoseconds by name; `interrupted` says whether Ctrl-C ended the search.
    """

    instance: Instance
    results: tuple[Result, ...]
    bounds: dict[str, float]
    interrupted: bool = False

    @property
    def best(self) -> Result:
        """The result with the least makespan."""
        return min(self.results, key=lambda result: result.makespan)


def solve(
    instance: Instance,
    *,
    time_limit: float = 60.0,
    workers: int = 2,
    seed: int = 0,
    gap: float = PROVEN_GAP,
    progress: Progress | None = None,
) -> Comparison:
    """Compare the fixed order and Themis with the reference.

    Parameters
    ----------
    time_limit : float
        Seconds for the whole comparison.
    workers, seed, gap
        As in :class:`themis_opt.policies.exact.Exact`.
    """
    return compare(
        instance,
        (*HEURISTICS, REFERENCE),
        time_limit=time_limit,
        workers=workers,
        seed=seed,
        gap=gap,
        progress=progress,
    )


def compare(
    instance: Instance,
    policies: Sequence[str],
    *,
    time_limit: float = 60.0,
    workers: int = 2,
    seed: int = 0,
    gap: float = PROVEN_GAP,
    progress: Progress | None = None,
) -> Comparison:
    """Run policies by their specifications; the time limit covers all of them, and the reference takes what is left."""
    deadline = monotonic() + time_limit
    run = _Run(instance, progress or _ignore)
    try:
        made = {
            specification: with_defaults(make_policy(specification), workers=workers, seed=seed, gap=gap)
            for specification in policies
        }
        for specification, policy in made.items():
            if not isinstance(policy, Exact):
                run.heuristic(specification, policy)
        run.bounds |= bounds(instance)
        for specification, policy in made.items():
            if isinstance(policy, Exact):
                left = max(deadline - monotonic(), 0.01)
                run.reference(specification, with_defaults(policy, seconds=left))
    except KeyboardInterrupt:
        if not run.schedules:
            raise
        run.interrupted = True
    return run.judged([s for s in policies if s in run.schedules])


@dataclass
class _Run:
    """What a comparison has so far."""

    instance: Instance
    tell: Progress
    schedules: dict[str, Schedule] = field(default_factory=dict)
    bounds: dict[str, float] = field(default_factory=dict)
    interrupted: bool = False

    def heuristic(self, specification: str, policy: Policy) -> None:
        schedule = simulate(self.instance, policy(self.instance))
        self.schedules[specification] = schedule
        self.tell(specification, schedule.makespan, 0.0)

    def reference(self, specification: str, policy: Exact) -> None:
        def report(makespan: float, bound: float) -> None:
            self.tell(specification, makespan, bound)

        reference = policy.solve(self.instance, max(self.bounds.values()), report)
        self.schedules[specification] = reference.schedule
        self.bounds["cp_sat"] = max(reference.bound, self.bounds.get("cp_sat", 0.0))
        self.interrupted |= reference.status == "interrupted"

    def judged(self, order: Sequence[str]) -> "Comparison":
        """Validate every schedule and set it against the baseline and the best bound."""
        proven = self.bounds or {"ideal": BOUNDS["ideal"].compute(self.instance)}
        bound = max(proven.values())
        baseline = simulate(self.instance, make_policy(HEURISTICS[0])(self.instance))
        results = []
        for specification in order:
            schedule = self.schedules[specification]
            validate(schedule)
            status = "optimal" if schedule.makespan <= bound * (1 + PROVEN_GAP) else "feasible"
            results.append(Result(specification, schedule, bound, baseline.makespan / schedule.makespan, status))
        return Comparison(self.instance, tuple(results), proven, self.interrupted)


def _ignore(policy: str, makespan: float, bound: float) -> None:
    """Report to nobody."""

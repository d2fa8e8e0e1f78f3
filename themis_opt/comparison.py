"""Comparison of policies on one instance, against the best proven bound."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Literal

from formulations.budget import PROVEN_GAP
from themis_opt.errors import InputError
from themis_opt.instance import Instance
from themis_opt.lower_bounds import BOUNDS
from themis_opt.policies.exact import Exact
from themis_opt.policies.registry import HEURISTICS, REFERENCE, Policy, make_policy
from themis_opt.schedule import Schedule
from themis_opt.simulator import simulate
from themis_opt.validation import validate

Sizes = Literal["equal", "free"]
SIZES: tuple[Sizes, ...] = ("equal", "free")

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


def checked_sizes(text: str) -> Sizes:
    """The text as a choice of sizes.

    Raises
    ------
    InputError
        If it is neither ``equal`` nor ``free``.
    """
    for sizes in SIZES:
        if text == sizes:
            return sizes
    raise InputError(f"must be {' or '.join(SIZES)}", field="--sizes", value=text)


def solve(
    instance: Instance,
    *,
    time_limit: float = 60.0,
    workers: int = 2,
    seed: int = 0,
    gap: float = PROVEN_GAP,
    sizes: Sizes = "free",
    progress: Progress | None = None,
) -> Comparison:
    """Compare the fixed order and Themis with the reference.

    Parameters
    ----------
    time_limit : float
        Seconds for the whole comparison.
    workers, seed, gap, sizes
        As in :class:`themis_opt.policies.exact.Exact`.
    """
    return compare(
        instance,
        (*HEURISTICS, REFERENCE),
        time_limit=time_limit,
        workers=workers,
        seed=seed,
        gap=gap,
        sizes=sizes,
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
    sizes: Sizes = "equal",
    progress: Progress | None = None,
) -> Comparison:
    """Run policies by their specifications; the time limit covers all of them, and the reference takes what is left."""
    if not policies or len(set(policies)) < len(policies):
        raise InputError("must name one or more policies, each once", field="policies", value=", ".join(policies))
    deadline = monotonic() + time_limit
    knobs = {"seconds": time_limit, "workers": workers, "seed": seed, "gap": gap, "sizes": sizes}
    made = {specification: make_policy(specification, **knobs) for specification in policies}
    equal_sizes = all(getattr(policy, "sizes", "equal") == "equal" for policy in made.values())
    run = _Run(instance, progress or _ignore, equal_sizes)
    try:
        for specification, policy in made.items():
            if not isinstance(policy, Exact):
                run.heuristic(specification, policy)
        for name, bound in BOUNDS.items():
            if equal_sizes or not bound.equal_sizes_only:
                run.bounds[name] = bound.compute(instance)
        references = {s: policy for s, policy in made.items() if isinstance(policy, Exact)}
        for number, (specification, reference) in enumerate(references.items()):
            left = max(deadline - monotonic(), 0.01) / (len(references) - number)
            run.reference(specification, replace(reference, seconds=min(reference.seconds, left)))
    except KeyboardInterrupt:
        if not run.schedules:
            raise
        run.interrupted = True
    return run.judged([s for s in policies if s in run.schedules])


@dataclass
class _Run:
    """What a comparison has so far.

    Bounds that need equal chunks hold for a table only if the chunks of all its rows are equal.
    """

    instance: Instance
    tell: Progress
    equal_sizes: bool
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
        if self.equal_sizes:
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

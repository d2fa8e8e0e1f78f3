"""Comparison of policies on one instance, against the best proven bound."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Literal, TypedDict, Unpack

from formulations.budget import PROVEN_GAP
from themis_opt.errors import InputError
from themis_opt.instance import Instance
from themis_opt.lower_bounds import BOUNDS
from themis_opt.plan_cache import PlanCache, Recalled
from themis_opt.policies.exact import Exact, Reference
from themis_opt.policies.registry import HEURISTICS, REFERENCE, Policy, make_policy, policy_name
from themis_opt.policies.search import Search
from themis_opt.schedule import Schedule
from themis_opt.simulator import simulate
from themis_opt.validation import validate

Sizes = Literal["equal", "free"]
SIZES: tuple[Sizes, ...] = ("equal", "free")

ENOUGH = 0.01
"""Gap up to which a recalled schedule is not searched again, if its search had as much time."""

MIN_SECONDS = 0.01

SIMILAR_TIME = 0.8
"""Share of the time now left that the search for it must have had."""

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
            "algbw_bytes_per_s": self.schedule.algorithm_bandwidth,
            "busbw_bytes_per_s": self.schedule.bus_bandwidth,
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


class Limits(TypedDict, total=False):
    """What a comparison may spend.

    `time_limit` (60 by default) is in seconds and covers the whole comparison; the others are those of
    :class:`themis_opt.policies.exact.Exact`.
    """

    time_limit: float
    workers: int
    seed: int
    gap: float
    sizes: Sizes
    deterministic: bool
    memory: float


def solve(
    instance: Instance,
    *,
    progress: Progress | None = None,
    cache: PlanCache | None = None,
    **limits: Unpack[Limits],
) -> Comparison:
    """Compare the fixed order, Themis and hourglass with the reference; chunk sizes are free unless said otherwise.

    Parameters
    ----------
    progress, cache, **limits
        As in :func:`compare`.
    """
    limits.setdefault("sizes", "free")
    return compare(instance, (*HEURISTICS, REFERENCE), progress=progress, cache=cache, **limits)


def compare(
    instance: Instance,
    policies: Sequence[str],
    *,
    progress: Progress | None = None,
    cache: PlanCache | None = None,
    **limits: Unpack[Limits],
) -> Comparison:
    """Run policies by their specifications; the time limit covers all of them, and the references take what is left.

    Parameters
    ----------
    progress : callable, optional
        Hears of every better schedule and bound.
    cache : PlanCache, optional
        Plans found before, from which a reference starts; it answers at once where such a plan is within the asked
        gap, or about as good as the search that found it could make it in no less time.
    **limits
        As in :class:`Limits`.
    """
    if not policies or len(set(policies)) < len(policies):
        raise InputError("must name one or more policies, each once", field="policies", value=", ".join(policies))
    time_limit = limits.pop("time_limit", 60.0)
    deadline = monotonic() + time_limit
    made = {specification: _made(specification, time_limit, limits) for specification in policies}
    equal_sizes = all(getattr(policy, "sizes", "equal") == "equal" for policy in made.values())
    run = _Run(instance, progress or _ignore, cache, equal_sizes)
    try:
        timed = [s for s, policy in made.items() if isinstance(policy, Exact | Search)]
        for specification, policy in made.items():
            if isinstance(policy, Search) and policy.seconds is not None:
                left = max(deadline - monotonic(), MIN_SECONDS) / (len(timed) - timed.index(specification))
                policy = replace(policy, seconds=min(policy.seconds, left))
            if not isinstance(policy, Exact):
                run.heuristic(specification, policy)
        for name, bound in BOUNDS.items():
            if equal_sizes or not bound.equal_sizes_only:
                run.bounds[name] = bound.compute(instance)
        references = {s: policy for s, policy in made.items() if isinstance(policy, Exact)}
        for number, (specification, reference) in enumerate(references.items()):
            recalled = run.recalled(reference)
            left = max(deadline - monotonic(), MIN_SECONDS) / (len(references) - number)
            own = time_limit / len(references) if reference.deterministic else left
            run.reference(specification, replace(reference, seconds=min(reference.seconds, own)), recalled)
    except KeyboardInterrupt:
        if not run.schedules:
            raise
        run.interrupted = True
    return run.judged([s for s in policies if s in run.schedules])


def _made(specification: str, time_limit: float, limits: Limits) -> Policy:
    """A policy with the limits as knobs; without wall time where it would decide about the result."""
    if limits.get("deterministic") and policy_name(specification) != REFERENCE:
        return make_policy(specification, **limits)
    return make_policy(specification, seconds=time_limit, **limits)


@dataclass
class _Run:
    """What a comparison has so far.

    Bounds that need equal chunks hold for a table only if the chunks of all its rows are equal.
    """

    instance: Instance
    tell: Progress
    cache: PlanCache | None
    equal_sizes: bool
    schedules: dict[str, Schedule] = field(default_factory=dict)
    bounds: dict[str, float] = field(default_factory=dict)
    interrupted: bool = False

    def heuristic(self, specification: str, policy: Policy) -> None:
        schedule = simulate(self.instance, policy(self.instance))
        self.schedules[specification] = schedule
        self.tell(specification, schedule.makespan, 0.0)

    def recalled(self, policy: Exact) -> Recalled | None:
        """What the cache knows for a reference, which it must not influence in deterministic mode."""
        if self.cache is None or policy.deterministic:
            return None
        return self.cache.recall(self.instance, policy.sizes)

    def reference(self, specification: str, policy: Exact, recalled: Recalled | None) -> None:
        def report(makespan: float, bound: float) -> None:
            self.tell(specification, makespan, bound)

        bound = max(self.bounds.values())
        if recalled is not None and self._is_enough(recalled, bound, policy):
            reference = Reference(recalled.schedule, bound, "recalled")
        else:
            began = monotonic()
            reference = policy.solve(self.instance, bound, report, self._start(policy, recalled))
            self._keep(reference, policy, monotonic() - began)
        self.schedules[specification] = reference.schedule
        if self.equal_sizes and reference.bound > bound:
            self.bounds["cp_sat"] = reference.bound
        self.interrupted |= reference.status == "interrupted"

    def _start(self, policy: Exact, recalled: Recalled | None) -> Schedule | None:
        """The best schedule at hand whose sizes are those asked for."""
        known = [s for s in self.schedules.values() if policy.sizes == "free" or s.has_equal_sizes]
        if recalled is not None:
            known.append(recalled.schedule)
        return min(known, key=lambda schedule: schedule.makespan, default=None)

    def _is_enough(self, recalled: Recalled, bound: float, policy: Exact) -> bool:
        """Whether a search is not expected to improve a recalled schedule by much."""
        makespan = recalled.schedule.makespan
        gap = makespan / bound - 1
        had_time = recalled.seconds >= SIMILAR_TIME * policy.seconds
        is_best = all(makespan <= schedule.makespan for schedule in self.schedules.values())
        return gap <= policy.gap or (is_best and had_time and (recalled.exact or gap <= ENOUGH))

    def _keep(self, reference: Reference, policy: Exact, seconds: float) -> None:
        """Remember a schedule, with the seconds of its search; one content with a wide gap had few."""
        complete = policy.local_search and policy.cp_sat and not policy.deterministic
        if self.cache is not None and complete and reference.status == "finished":
            gap = reference.schedule.makespan / reference.bound - 1
            stopped_early = policy.gap > PROVEN_GAP and gap <= policy.gap
            self.cache.keep(reference.schedule, policy.sizes, gap, seconds if stopped_early else policy.seconds)

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

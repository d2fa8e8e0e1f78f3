"""Comparison of policies on one instance, against the best proven bound, and everything written about it.

Beside policies of dimensions trees may be faster than any order, along lines and grids.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeGuard

from formulations.interruption import INTERRUPTION, TimeUp
from formulations.limits import MIN_SECONDS, Limits
from themis_opt.base.allowance import SLACK, Allowance, cut_off
from themis_opt.base.documents import write_atomically
from themis_opt.base.errors import InputError, InvalidSchedule, ThemisError
from themis_opt.base.notebook import page, show_best
from themis_opt.formats.bundle import write_schedule
from themis_opt.formats.tables import to_csv
from themis_opt.policies.planning import AnyPolicy, chunk_policy_of, in_stages, seconds_of, within
from themis_opt.policies.registry import (
    POLICIES,
    REFERENCE,
    Policy,
    every_policy,
    make_policy,
    policy_name,
    specify,
    split_specification,
    usual_policies,
)
from themis_opt.problem.cost import check_memory, count_stages
from themis_opt.problem.instance import Instance
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.envelope import summary_of
from themis_opt.schedules.results import PolicyComparison, PolicyResult
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.solving.bounds import bounds_of
from themis_opt.study.columns import Value, result_row, result_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from themis_opt.graphs.schedule import GraphSchedule
    from themis_opt.search.exact import Exact

Sizes = Literal["equal", "free"]

SECONDS_PER_STAGE: Mapping[str, float] = {"baseline": 1e-6, "themis": 3e-6}
"""What policies take to plan and simulate on a slow core, by name; others take :data:`SLOWEST`."""

SLOWEST = 1e-5  # seconds for each stage

BOUNDS_SHARE = 1 / 2
"""Share of the time for quick bounds once there is a schedule: without a bound nothing says how good it is."""

ComparisonProgress = Callable[[str, float, float], None]
"""Called with the policy at work, its best makespan and the best bound so far, in picoseconds."""


@dataclass(frozen=True, eq=False, repr=False)
class Result(PolicyResult):
    """One policy's schedule, simulated and validated.

    `makespan` is of a schedule, or with compute the iteration time; `bound` holds for all rows of the table.

    Attributes
    ----------
    speedup : float
        Baseline makespan over this one.

    Examples
    --------
    >>> import themis_opt
    >>> themis_opt.compare("fig5.all_reduce.256MB", ["themis+scf"]).best
    <themis+scf: 7 ms, 0.00 % above the bound>
    """

    schedule: Schedule
    speedup: float

    @property
    def status(self) -> str:
        """As of all results; ``optimal order`` where trees may be faster, which the bound does not know."""
        is_in_order = super().status == "optimal" and has_rival_trees(self.schedule.instance)
        return OPTIMAL_ORDER if is_in_order else super().status

    @property
    def exposed_gap(self) -> float:
        """Exposed communication over the least that the bound leaves, minus 1; 0 where both are 0."""
        return self.schedule.period.exposed_gap(self.bound)

    def row(self) -> dict[str, Value]:
        """The result as plain values: times in ns, fractions 0..1; :data:`themis_opt.study.columns.RESULT_COLUMNS`."""
        return result_row(self)


@dataclass(frozen=True, repr=False)
class Comparison(PolicyComparison[Result]):
    """Results of several policies on one instance, in the order asked for.

    `equal_sizes`: whether the bounds are for equal chunks only.

    Examples
    --------
    >>> import themis_opt
    >>> comparison = themis_opt.compare("fig5.all_reduce.256MB", ["baseline", "themis+scf"])
    >>> comparison.best.policy
    'themis+scf'
    """

    problem: Instance
    equal_sizes: bool

    @property
    def verdict(self) -> tuple[str, ...]:
        """What it comes to, in one to three sentences."""
        from themis_opt.study.verdict import on_comparison  # which knows comparisons

        return on_comparison(self)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """The makespans as bars across, and the bound as a line; on axes of a new figure if none are given."""
        from themis_opt.formats.plot import plot_times

        return plot_times({result.policy: result.makespan for result in self.results}, max(self.bounds.values()), ax)

    def _repr_html_(self) -> str:
        return page(
            self.verdict,
            *result_table([result.row() for result in self.results], [result.schedule for result in self.results]),
        )


OPTIMAL_ORDER = "optimal order"  # the status of the best schedule along lines and grids


def solve(
    instance: Instance, *, progress: ComparisonProgress | None = None, sizes: Sizes = "free", **limits: Any
) -> Comparison:
    """Compare the usual policies with the reference; chunk sizes are free unless said otherwise.

    Parameters
    ----------
    progress, sizes, **limits
        As in :func:`compare`.
    """
    policies = (*usual_policies(instance), REFERENCE)
    return compare(instance, policies, progress=progress, sizes=sizes, **limits)


def compare(
    instance: Instance,
    policies: Sequence[str | Policy] | None = None,
    *,
    progress: ComparisonProgress | None = None,
    sizes: Sizes = "equal",
    time_limit: float = Limits.seconds,
    slow_bounds: bool = True,
    **limits: Any,
) -> Comparison:
    """Run policies; the time limit covers all of them, and the references take what is left.

    Parameters
    ----------
    policies : sequence of str or callable
        Specifications such as ``themis+scf``, and functions of an instance that return a :class:`Plan`, whose rows have
        the names of the functions; by default all that are for the instance.
    progress : callable, optional
        Hears of every better schedule and bound.
    sizes : {"equal", "free"}
        How policies that have a choice cut chunks.
    time_limit : float
        Seconds for the whole comparison.
    slow_bounds : bool
        Whether bounds that take a second or more are computed too.
    **limits
        Other fields of :class:`formulations.limits.Limits`: knobs of the policies that have them.

    Raises
    ------
    InputError
        If no policy is named, one twice, or one that is unknown, or the schedules alone need more than the memory.
    InputError, InvalidSchedule
        If the plans of all policies are illegal; one of several is left out.
    """
    policies = every_policy(instance) if policies is None else policies
    names = [one if isinstance(one, str) else str(getattr(one, "__name__", type(one).__name__)) for one in policies]
    if not policies or len(set(names)) < len(names):
        raise InputError("must name one or more policies, each once", field="policies", value=", ".join(names))
    budget, knobs = Limits(seconds=time_limit, **limits), {**limits, "sizes": sizes}
    check_memory(instance, budget.memory)
    clock = Allowance(budget.seconds, budget.deterministic)
    made = {
        name: _made(specify(policy, instance), budget, knobs) if isinstance(policy, str) else policy
        for name, policy in zip(names, policies, strict=True)
    }
    equal_sizes = all(getattr(chunk_policy_of(policy), "sizes", "equal") == "equal" for policy in made.values())
    run = _Run(instance, progress or show_best, equal_sizes)
    shares = _Shares(clock, sum(seconds_of(policy) is not None for policy in made.values()))
    try:
        for name, policy in made.items():
            INTERRUPTION.check()
            if is_reference(policy):
                continue
            is_charged = clock.counts_work and seconds_of(policy) is not None  # with its share
            if not run.schedules or is_charged:
                run.heuristic(name, shares.within(policy))
                with clock.turn(BOUNDS_SHARE * max(clock.left, 0.0)):
                    run.prove(clock, quickly=True)
            elif _is_too_slow(name, instance, clock) or not run.heuristic_in_time(name, shares.within(policy), clock):
                run.left_out.append(name)
        run.prove(clock, quickly=not slow_bounds)
        for name, policy in made.items():
            if is_reference(policy):
                run.reference(name, shares.within(policy))
    except KeyboardInterrupt:
        if not run.schedules:
            raise
        run.interrupted = True
    run.interrupted |= INTERRUPTION.came
    return run.judged([name for name in names if name in run.schedules])


def is_reference(policy: Policy) -> TypeGuard["Exact"]:
    """Whether a policy is the one that proves how good it is."""
    return isinstance(policy, POLICIES.load(REFERENCE))


def _is_too_slow(name: str, instance: Instance, clock: Allowance) -> bool:
    chunk_policy = name.rpartition("/")[2].partition("+")[0].partition(":")[0]
    expected = count_stages(instance) * SECONDS_PER_STAGE.get(chunk_policy, SLOWEST)
    return expected > max(clock.left, 0.0) + SLACK


def _made(specification: str, budget: Limits, knobs: Mapping[str, Any]) -> Policy:
    """A policy with the given limits as knobs; without wall time where it would decide about the result."""
    counts_work = policy_name(split_specification(specification)[1]) == REFERENCE
    if budget.deterministic and not counts_work:
        return make_policy(specification, **knobs)
    return make_policy(specification, seconds=budget.seconds, **knobs)


@dataclass
class _Shares:
    """The time of a comparison, whose rest is shared by the policies that are still to search: `parts` of them."""

    clock: Allowance
    parts: int

    def within(self, policy: AnyPolicy) -> AnyPolicy:
        """The policy with its share, if it minds the clock."""
        if seconds_of(policy) is None:
            return policy
        share = max(self.clock.left, MIN_SECONDS) / self.parts
        self.clock.charge(share)
        self.parts -= 1
        return within(policy, share)


@dataclass
class _Run:
    """What a comparison has so far.

    Bounds that need equal chunks hold for a table only if the chunks of all its rows are equal.
    """

    instance: Instance
    tell: ComparisonProgress
    equal_sizes: bool
    schedules: dict[str, Schedule] = field(default_factory=dict)
    bounds: dict[str, float] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    refused: dict[str, ThemisError] = field(default_factory=dict)
    interrupted: bool = False

    def heuristic(self, name: str, policy: Policy) -> None:
        try:
            schedule = simulate(self.instance, policy(self.instance))
            validate(schedule)
        except (InputError, InvalidSchedule) as error:
            if name not in self.schedules:
                self.refused[name] = error
            return
        except ThemisError:
            raise
        except Exception as error:  # whatever a policy of another package dies of, the others go on
            self.refused[name] = ThemisError(f"{name}: {type(error).__name__}: {error}")
            return
        if name not in self.schedules or schedule.makespan < self.schedules[name].makespan:
            self.schedules[name] = schedule
            self.tell(name, schedule.makespan, 0.0)

    def heuristic_in_time(self, name: str, policy: Policy, clock: Allowance) -> bool:
        """The same, unless time is up before; whether there is a schedule in time, perhaps of equal chunks alone."""
        with suppress(TimeUp), cut_off(clock, SLACK):
            for variant in in_stages(policy):
                self.heuristic(name, variant)
        return name in self.schedules or name in self.refused

    def prove(self, clock: Allowance, *, quickly: bool = False) -> None:
        """Compute the bounds that hold for all rows, while there is time, the first one anyway.

        `quickly`: without the slow ones.
        """
        self.equal_sizes &= all(schedule.has_equal_sizes for schedule in self.schedules.values())
        kinds = bounds_of(self.instance)
        valid = [name for name, bound in kinds.items() if self.equal_sizes or not bound.equal_sizes_only]
        first, *others = sorted(valid, key=lambda name: kinds[name].is_slow)
        proven = {name: bound for name, bound in self.bounds.items() if name in valid}
        proven[first] = proven.get(first) or kinds[first].compute(self.instance)
        with suppress(TimeUp), cut_off(clock, SLACK):
            for name in others:
                if name in proven or (kinds[name].is_slow and (quickly or clock.left <= 0)):
                    continue  # a solver hears nothing of a clock
                proven[name] = kinds[name].compute(self.instance)
        self.bounds = {name: proven[name] for name in valid if name in proven}

    def reference(self, specification: str, policy: "Exact") -> None:
        bound = max(self.bounds.values())
        known = [s for s in self.schedules.values() if policy.sizes == "free" or s.has_equal_sizes]
        start = min(known, key=lambda schedule: schedule.makespan, default=None)
        reference = policy.solve(self.instance, bound, partial(self.tell, specification), start)
        if all(reference.schedule is not schedule for schedule in self.schedules.values()):
            validate(reference.schedule)
        self.schedules[specification] = reference.schedule
        if (self.equal_sizes or policy.sizes == "free") and reference.bound > bound:
            self.bounds["cp_sat"] = reference.bound
        self.interrupted |= reference.status == "interrupted"

    def judged(self, order: Sequence[str]) -> Comparison:
        """Set every schedule against the baseline and the best bound."""
        if not order:
            raise next(iter(self.refused.values()))
        proven = self.bounds or {"ideal": bounds_of(self.instance)["ideal"].compute(self.instance)}
        bound = max(proven.values())
        first = usual_policies(self.instance)[0]
        baseline = self.schedules.get(first) or simulate(self.instance, make_policy(first)(self.instance))
        results = (
            Result(name, self.schedules[name], bound, baseline.makespan / self.schedules[name].makespan)
            for name in order
        )
        return Comparison(
            self.instance,
            tuple(results),
            proven,
            self.equal_sizes,
            refused=self.refused,
            left_out=tuple(self.left_out),
            interrupted=self.interrupted,
        )


def write_comparison(folder: Path, comparison: Comparison, settings: Mapping[str, Any]) -> list[Path]:
    """Write the table of a comparison and the best schedule; returns the files written.

    `settings`: what the comparison was allowed to spend, by name.  Where no policy chose sizes, those are equal.
    """
    rows, best = [result.row() for result in comparison.results], comparison.best
    files = {folder / "comparison.json": json.dumps(rows, indent=2) + "\n", folder / "comparison.csv": to_csv(rows)}
    for path, content in files.items():
        write_atomically(path, content)
    sizes = "equal" if comparison.equal_sizes else "free"
    summary = summary_of(best, comparison.bounds, {**settings, "sizes": sizes})
    return [*files, *write_schedule(folder, best.schedule, summary)]


def has_rival_trees(instance: Instance) -> bool:
    """Whether trees may beat it: a broadcast, a reduce, or an all-reduce along lines or grids."""
    collective = instance.collectives[0] if len(instance.collectives) == 1 else None
    if collective is None or collective.dimensions is not None:
        return False
    if collective.kind in (CollectiveKind.BROADCAST, CollectiveKind.REDUCE):
        return True
    if collective.kind is not CollectiveKind.ALL_REDUCE:
        return False
    return not all(dimension.kind.rule.can_reduce for dimension in instance.network.dimensions)


def trees_beside(instance: Instance) -> "GraphSchedule | None":
    """A schedule of trees where they may be faster than stages along dimensions.

    None for other problems, for large ones, and where stages cost more than latency and bandwidth, which graphs have.
    """
    dimensions = instance.network.dimensions
    if not has_rival_trees(instance) or instance.network.num_npus > MOST_BESIDE:
        return None
    if any(dimension.model_fields_set & BEYOND_GRAPHS for dimension in dimensions):
        return None
    from themis_opt.graphs.conversion import as_graph  # networkx and OR-Tools: slow to import
    from themis_opt.graphs.schedule import simulate_graph
    from themis_opt.graphs.trees import tree_plan

    return simulate_graph(tree_plan(as_graph(instance)), CHUNKS_BESIDE)


MOST_BESIDE, CHUNKS_BESIDE = 36, 64
"""NPUs up to which trees are planned beside other policies, and their chunks: less than a second."""

BEYOND_GRAPHS = {"packet", "launch_overhead", "compression", "reduction", "shares", "rails", "in_network"}
"""Fields of a dimension that a graph does not have."""

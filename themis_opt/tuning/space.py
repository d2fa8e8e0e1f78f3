"""The space of a search: what can be chosen for a problem, and what a choice is worth."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from themis_opt.base.units import format_size
from themis_opt.policies.registry import make_policy
from themis_opt.problem.cost import check_memory
from themis_opt.problem.exchanges import Exchange
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import fused, has_launches
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.solving.sizing import resized
from themis_opt.tuning.launching import (
    Choice,
    LaunchingChoices,
    ParameterValue,
    TunedParameter,
    launching_specification,
)

USUAL_DIVISOR = 16  # the threshold divisor that Themis has by itself


@dataclass(frozen=True)
class CaseMeasurement:
    """What a choice is worth in one case."""

    makespan: int  # picoseconds, simulated and validated
    ideal: float  # picoseconds that nothing can beat, to compare cases with
    utilisation: float  # share of the bandwidth in use, 0..1
    pieces: int  # chunks into which the data are cut

    @property
    def ratio(self) -> float:
        """Makespan over ideal."""
        return self.makespan / self.ideal


@dataclass(frozen=True)
class Space:
    """Choices for one problem: into what its collectives are cut, which policy sends that, and what is launched when.

    A problem may have several cases, such as several sizes of one collective.

    `instances`: the cases, from cheap to costly, with the costs as asked for.
    `cases`: a name for each of them.
    `reference`: what users do today; it need not lie in the space.
    `identity`: what two searches must have in common to share their trials, by a name for the part.
    `min_chunk`: least bytes of an equal chunk.
    `launching`: what can be launched when; None where every collective is launched alone.
    `memory`: GiB; no schedule is made that needs more.
    """

    name: str
    instances: tuple[Instance, ...]
    cases: tuple[str, ...]
    parameters: tuple[TunedParameter, ...]
    reference: Choice
    identity: Mapping[str, str]
    min_chunk: int = 1
    launching: LaunchingChoices | None = None
    memory: float = math.inf

    @property
    def measured(self) -> str:
        """The word for the time that is searched."""
        return "makespan" if self.launching is None else "iteration"

    @cached_property
    def judges(self) -> tuple[dict[str, float], ...]:
        """Bounds that schedules of each case are judged by, in picoseconds by name, however the chunks are cut.

        They are those of a period, or the ideal makespan.
        """
        from themis_opt.solving.bounds import bounds, bounds_of

        return tuple(
            bounds(one) if has_launches(one) else {"ideal": bounds_of(one)["ideal"].compute(one)}
            for one in self.instances
        )

    @cached_property
    def ideals(self) -> tuple[float, ...]:
        """What nothing can beat in each case, in picoseconds."""
        return tuple(max(values.values()) for values in self.judges)

    @cached_property
    def proven(self) -> tuple[float, ...]:
        """The best bound of each case in picoseconds, on chunks of any sizes and as many as can be chosen."""
        if self.launching:
            return self.ideals
        from themis_opt.solving.bounds import bounds

        return tuple(max(bounds(self._at_most(instance), equal_sizes=False).values()) for instance in self.instances)

    def _at_most(self, instance: Instance) -> Instance:
        """A case with the most chunks that any choice has, what users do today included."""
        offered = (value for parameter in self.parameters if parameter.name == "chunks" for value in parameter.values)
        most = max(int(value) for value in (self.reference["chunks"], *offered))
        pairs = zip(instance.collectives, instance.exchanges, strict=True)
        return instance.replace(
            collectives=tuple(
                collective.replace(chunks=min(most, e.size // e.element_bytes)) for collective, e in pairs
            )
        )

    def counts(self, choice: Choice, case: int) -> tuple[int, ...]:
        """Chunks of each collective operation: as chosen, but none smaller than allowed or than an element."""
        least = max(int(choice.get("least_chunk_bytes", 1)), self.min_chunk)
        return tuple(
            min(int(choice["chunks"]), exchange.size // exchange.element_bytes, max(1, exchange.size // least))
            for exchange in self._launched(choice, case)
        )

    def _launched(self, choice: Choice, case: int) -> tuple[Exchange, ...]:
        instance = self.instances[case]
        return fused(instance, self.launching.launches(choice)) if self.launching else instance.exchanges

    def instance(self, choice: Choice, case: int) -> Instance:
        """The instance of a case, cut as chosen."""
        instance = self.instances[case]
        if self.launching:
            return instance.overridden(chunks=int(choice["chunks"]))
        pairs = zip(instance.collectives, self.counts(choice, case), strict=True)
        return instance.replace(collectives=tuple(collective.replace(chunks=count) for collective, count in pairs))

    def canonical(self, choice: Choice) -> dict[str, ParameterValue]:
        """The same choice without what makes no difference: equal results, equal form."""
        result = self.launching.canonical(choice) if self.launching else dict(choice)
        counts = self._all_counts(choice)
        result["chunks"] = max(map(max, counts))
        if "least_chunk_bytes" in choice and counts == self._all_counts({**result, "least_chunk_bytes": 1}):
            del result["least_chunk_bytes"]
        if "profile" in choice:
            result["profile"] = _effective_profile(choice, counts)
        if "policy" in choice:
            self._simplify_policy(result)
        return dict(sorted(result.items()))

    def _all_counts(self, choice: Choice) -> list[tuple[int, ...]]:
        return [self.counts(choice, case) for case in range(len(self.instances))]

    def _simplify_policy(self, choice: dict[str, ParameterValue]) -> None:
        """Replace policy and knobs by the first ones that do the same."""
        exchanges = self.instances[0].exchanges
        one_path = all(len(exchange.span) == 1 for exchange in exchanges)
        if choice["policy"] == "themis" and (
            one_path or not any(exchange.kind.rule.order_matters for exchange in exchanges)
        ):
            choice["policy"] = "baseline"
        if choice["policy"] != "themis":
            choice.pop("threshold_divisor", None)
        if choice["policy"] == "hourglass":
            choice.pop("dispatch", None)
        elif choice["chunks"] == 1 and len(exchanges) == 1:
            choice["dispatch"] = "fifo"

    def schedule(self, choice: Choice, case: int) -> Schedule:
        """The schedule of a choice, simulated and validated.

        Raises ThemisError if it cannot be made, or needs more than the memory allowed.
        """
        counts, kept = self.counts(choice, case), self._kept.setdefault(case, {})
        profile = _effective_profile(choice, [counts])
        key = self.specification(choice), counts, profile
        if key not in kept:
            schedule = self._made(choice, case, profile)
            if any(other.makespan <= schedule.makespan for other in kept.values()):
                return schedule
            for worse in list(kept)[1:]:
                del kept[worse]
            kept[key] = schedule
        return kept[key]

    @cached_property
    def _kept(self) -> dict[int, dict[object, Schedule]]:
        """By case the first schedule, and the best one, so that they are not made again."""
        return {}

    def _made(self, choice: Choice, case: int, profile: str) -> Schedule:
        instance = self.instance(choice, case)
        check_memory(instance, self.memory)
        schedule = simulate(instance, make_policy(self.specification(choice))(instance))
        schedule = _with_free_sizes(schedule) if profile == "free" else schedule
        validate(schedule)
        return schedule

    def reference_schedule(self, case: int) -> Schedule:
        """The schedule of what users do today, however small its chunks are."""
        space = self if self.min_chunk == 1 else replace(self, min_chunk=1)
        return space.schedule(self.reference, case)

    def measure(self, choice: Choice, case: int) -> CaseMeasurement:
        """Simulate and validate a choice in a case; raises as :meth:`schedule` does."""
        return self._measurement(self.schedule(choice, case), case)

    def measure_reference(self, case: int) -> CaseMeasurement:
        """Simulate and validate what users do today, in a case."""
        return self._measurement(self.reference_schedule(case), case)

    def _measurement(self, schedule: Schedule, case: int) -> CaseMeasurement:
        pieces = sum(len(chunks.sizes) for chunks in schedule.plan.chunks)
        return CaseMeasurement(schedule.makespan, self.ideals[case], schedule.utilisation, pieces)

    def specification(self, choice: Choice) -> str:
        """The policy of a choice as it is written on the command line."""
        if self.launching:
            return f"{launching_specification(choice)}/{choice['chunk_policy']}"
        divisor, dispatch = choice.get("threshold_divisor"), choice.get("dispatch")
        knobs = "" if divisor in (None, USUAL_DIVISOR) else f":threshold_divisor={divisor}"
        return f"{choice['policy']}{knobs}" + ("" if dispatch is None else f"+{dispatch}")

    def describe(self, choice: Choice) -> str:
        """A choice in one line: chunks, their sizes where they can be chosen, and the policy."""
        least = choice.get("least_chunk_bytes")
        parts = ["1 chunk" if choice["chunks"] == 1 else f"{choice['chunks']} chunks"]
        if "profile" in choice:
            parts.append(f"sizes {choice['profile']}")
        if least:
            parts.append(f"at least {format_size(int(least))} each")
        return ", ".join((*parts, self.specification(choice)))


def _effective_profile(choice: Choice, counts: Sequence[tuple[int, ...]]) -> str:
    """Equal where free sizes change nothing, or chunks are too many to be sized."""
    profile, most = str(choice.get("profile", "equal")), max(map(max, counts))
    if most == 1 or min(map(sum, counts)) > 256:  # a linear programme of more takes long
        return "equal"
    return profile


def _with_free_sizes(schedule: Schedule) -> Schedule:
    """The sizes that suit a schedule of equal chunks best (:func:`themis_opt.solving.sizing.resized`)."""
    for _ in range(4):  # chunks that one programme drops no longer cost the next one anything
        sized = resized(schedule)
        if sized.makespan >= schedule.makespan:
            break
        schedule = sized
    return schedule

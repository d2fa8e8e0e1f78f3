"""The space of a search: what can be chosen for collectives, and what a choice is worth."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from themis_opt.base.documents import digest
from themis_opt.base.units import format_size
from themis_opt.base.version import __version__
from themis_opt.policies.registry import make_policy
from themis_opt.problem.cost import check_memory
from themis_opt.problem.instance import Instance
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.solving.sizing import resized
from themis_opt.tuning.parameters import Choice, ParameterValue, TunedParameter

USUAL_DIVISOR = 16  # the threshold divisor that Themis has by itself


class TrialMeasurement(NamedTuple):
    """What a choice is worth: picoseconds, the share of the bandwidth in use, and chunks into which data are cut."""

    makespan: int
    utilisation: float
    pieces: int


@dataclass(frozen=True)
class Space:
    """Choices for one problem: into what its collectives are cut, and which policy sends that.

    `instance`: the problem, with the costs as asked for.
    `reference`: what users do today; it need not lie in the space.
    `memory`: GiB; no schedule is made that needs more.
    """

    name: str
    instance: Instance
    parameters: tuple[TunedParameter, ...]
    reference: Choice
    memory: float = math.inf

    @cached_property
    def identity(self) -> str:
        """Equal for spaces whose choices of equal keys are worth the same."""
        return digest([__version__, self.instance.overridden(chunks=1).fingerprint])

    @cached_property
    def ideal(self) -> float:
        """The ideal makespan in picoseconds, which holds however the chunks are cut."""
        from themis_opt.solving.bounds import bounds_of

        return bounds_of(self.instance)["ideal"].compute(self.instance)

    @cached_property
    def proven(self) -> float:
        """The best bound in picoseconds, on chunks of any sizes and as many as can be chosen."""
        from themis_opt.solving.bounds import bounds

        offered = (value for parameter in self.parameters if parameter.name == "chunks" for value in parameter.values)
        most = max(int(value) for value in (self.reference["chunks"], *offered))
        counts = (min(most, exchange.size // exchange.element_bytes) for exchange in self.instance.exchanges)
        return max(bounds(self._cut(tuple(counts)), equal_sizes=False).values())

    def counts(self, choice: Choice) -> tuple[int, ...]:
        """Chunks of each collective operation: as chosen, but none smaller than allowed or than an element."""
        least = int(choice.get("least_chunk_bytes", 1))
        return tuple(
            min(int(choice["chunks"]), exchange.size // exchange.element_bytes, max(1, exchange.size // least))
            for exchange in self.instance.exchanges
        )

    def cut(self, choice: Choice) -> Instance:
        """The instance, cut as chosen."""
        return self._cut(self.counts(choice))

    def _cut(self, counts: tuple[int, ...]) -> Instance:
        pairs = zip(self.instance.collectives, counts, strict=True)
        return self.instance.replace(collectives=tuple(one.replace(chunks=count) for one, count in pairs))

    def canonical(self, choice: Choice) -> dict[str, ParameterValue]:
        """The same choice without what makes no difference."""
        result, counts = dict(choice), self.counts(choice)
        result["chunks"] = max(counts)
        if "least_chunk_bytes" in choice and counts == self.counts({**result, "least_chunk_bytes": 1}):
            del result["least_chunk_bytes"]
        result["profile"] = _effective_profile(choice, counts)
        self._simplify_policy(result)
        return dict(sorted(result.items()))

    def key(self, choice: Choice) -> str:
        """Equal for choices that make the same schedule."""
        return repr(self.canonical(choice))

    def _simplify_policy(self, choice: dict[str, ParameterValue]) -> None:
        """Replace policy and knobs by the first ones that do the same."""
        exchanges = self.instance.exchanges
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

    def schedule(self, choice: Choice) -> Schedule:
        """The schedule of a choice, simulated and validated.

        Raises ThemisError if it cannot be made, or needs more than the memory allowed.
        """
        key = self.key(choice)
        if key not in self._kept:
            schedule = self._made(choice)
            if any(other.makespan <= schedule.makespan for other in self._kept.values()):
                return schedule
            for worse in list(self._kept)[1:]:
                del self._kept[worse]
            self._kept[key] = schedule
        return self._kept[key]

    @cached_property
    def _kept(self) -> dict[str, Schedule]:
        """The first schedule, and the best one, so that they are not made again."""
        return {}

    def _made(self, choice: Choice) -> Schedule:
        instance = self.cut(choice)
        check_memory(instance, self.memory)
        schedule = simulate(instance, make_policy(self.specification(choice))(instance))
        if _effective_profile(choice, self.counts(choice)) == "free":
            schedule = _with_free_sizes(schedule)
        validate(schedule)
        return schedule

    @cached_property
    def reference_schedule(self) -> Schedule:
        """The schedule of what users do today."""
        return self.schedule(self.reference)

    def measure(self, choice: Choice) -> TrialMeasurement:
        """Simulate and validate a choice; raises as :meth:`schedule` does."""
        return measurement(self.schedule(choice))

    def specification(self, choice: Choice) -> str:
        """The policy of a choice as it is written on the command line."""
        divisor, dispatch = choice.get("threshold_divisor"), choice.get("dispatch")
        knobs = "" if divisor in (None, USUAL_DIVISOR) else f":threshold_divisor={divisor}"
        return f"{choice['policy']}{knobs}" + ("" if dispatch is None else f"+{dispatch}")

    def describe(self, choice: Choice) -> str:
        """A choice in one line: chunks, their sizes and the policy."""
        least = choice.get("least_chunk_bytes")
        parts = ["1 chunk" if choice["chunks"] == 1 else f"{choice['chunks']} chunks"]
        parts.append(f"sizes {choice['profile']}")
        if least:
            parts.append(f"at least {format_size(int(least))} each")
        return ", ".join((*parts, self.specification(choice)))


def measurement(schedule: Schedule) -> TrialMeasurement:
    """What a schedule is worth."""
    pieces = sum(len(chunks.sizes) for chunks in schedule.plan.chunks)
    return TrialMeasurement(schedule.makespan, schedule.utilisation, pieces)


def _effective_profile(choice: Choice, counts: tuple[int, ...]) -> str:
    """Equal where free sizes change nothing, or chunks are too many to be sized."""
    if max(counts) == 1 or sum(counts) > 256:  # a linear programme of more takes long
        return "equal"
    return str(choice.get("profile", "equal"))


def _with_free_sizes(schedule: Schedule) -> Schedule:
    """The sizes that suit a schedule of equal chunks best (:func:`themis_opt.solving.sizing.resized`)."""
    for _ in range(4):  # chunks that one programme drops no longer cost the next one anything
        sized = resized(schedule)
        if sized.makespan >= schedule.makespan:
            break
        schedule = sized
    return schedule

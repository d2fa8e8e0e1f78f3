"""The space of a search: parameters to choose for collectives, what a choice is worth, and options that say both."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

from themis_opt.base.documents import digest
from themis_opt.base.errors import InputError
from themis_opt.base.units import format_size
from themis_opt.base.version import __version__
from themis_opt.policies.registry import make_policy
from themis_opt.problem.cost import check_memory
from themis_opt.problem.cost_overrides import with_costs
from themis_opt.problem.fields import MAX_CHUNKS
from themis_opt.problem.instance import Instance
from themis_opt.schedules.dispatch import DISPATCH
from themis_opt.schedules.plan import has_launches
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate
from themis_opt.schedules.validation import validate
from themis_opt.solving.sizing import resized

ParameterValue = int | str

Choice = Mapping[str, ParameterValue]  # values by the names of their parameters


@dataclass(frozen=True)
class TunedParameter:
    """One thing to choose.

    `values`: what it may be; numbers ascend, are positive, and count as near where their ratio is near 1.
    """

    name: str
    values: tuple[ParameterValue, ...]

    def nearest(self, value: ParameterValue) -> ParameterValue:
        """The value itself if it is allowed, else the nearest number, or the first text."""
        if value in self.values:
            return value
        if isinstance(value, str):
            return self.values[0]
        return min(self.values, key=lambda v: abs(math.log(int(v) / value)))


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

    def choices(self) -> Iterator[dict[str, ParameterValue]]:
        """All combinations of values, of which some make the same schedule; the nearest to `reference` comes first."""
        yield {one.name: one.nearest(self.reference.get(one.name, one.values[0])) for one in self.parameters}
        for values in product(*(one.values for one in self.parameters)):
            yield dict(zip((one.name for one in self.parameters), values, strict=True))

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


TUNED_POLICIES = ("themis", "baseline", "hourglass")
"""Policies for chunks that are quick enough to be tried a hundred times."""

MOST_CHUNKS = 256  # most chunks of a collective by default
PROFILES = ("equal", "free")  # how chunks are cut
TODAY: Mapping[str, ParameterValue] = {
    "policy": "themis",
    "dispatch": "scf",
    "threshold_divisor": USUAL_DIVISOR,
    "chunks": 64,
    "profile": "equal",
}
"""The default of Themis, ISCA 2022, section 6."""


def make_space(
    instance: Instance,
    *,
    policies: Sequence[str] = TUNED_POLICIES,
    profiles: Sequence[str] = PROFILES,
    max_chunks: int = MOST_CHUNKS,
    memory: float = math.inf,
    **costs: Any,
) -> Space:
    """The choices for an instance: chunks, their sizes and their policy.

    Raises InputError if one of them breaks a rule, the memory does not suffice for what users do today, or there is
    compute.

    `policies`, `profiles`: some of :data:`TUNED_POLICIES` and of :data:`PROFILES`.
    `max_chunks`: most chunks of a collective.
    `memory`: GiB; choices whose schedules need more are not tried.
    `**costs`: as in :func:`themis_opt.problem.cost_terms.with_costs`.
    """
    costly, chosen = with_costs(instance, **costs), _names_option("--policies", policies, TUNED_POLICIES)
    if has_launches(instance):
        rule = "is for collectives: 'plan' finds the buckets of a training step"
        raise InputError(rule, field="tune", value=instance.name)
    cuts = _names_option("--chunk-sizes", profiles, PROFILES)
    if not 1 <= max_chunks <= MAX_CHUNKS:
        raise InputError(f"must be from 1 to {MAX_CHUNKS}", field="--max-chunks", value=max_chunks)
    parameters = [
        TunedParameter("chunks", chunk_counts(max_chunks)),
        TunedParameter("profile", cuts),
        TunedParameter("policy", chosen),
        TunedParameter("dispatch", tuple(DISPATCH)),
        TunedParameter("threshold_divisor", (4, 8, USUAL_DIVISOR, 32, 64)),
    ]
    if len({exchange.size for exchange in costly.exchanges}) > 1:
        parameters.append(TunedParameter("least_chunk_bytes", tuple(2**power for power in range(12, 24, 2))))
    space = Space(costly.name or "instance", costly, tuple(parameters), TODAY, memory)
    check_memory(space.cut(space.reference), memory)
    return space


def chunk_counts(most: int) -> tuple[int, ...]:
    """Powers of two and three numbers between each two of them, up to `most`."""
    counts = {power * quarter // 4 for power in (2**n for n in range(most.bit_length())) for quarter in (4, 5, 6, 7)}
    return tuple(sorted(count for count in counts if count <= most))


def _names_option(option: str, names: Sequence[str], known: tuple[str, ...]) -> tuple[str, ...]:
    """The names that an option lists, in the order of those known."""
    if not names or len(set(names)) < len(names) or not set(names) <= set(known):
        rule = f"must name one or more of {', '.join(known)}, each once"
        raise InputError(rule, field=option, value=", ".join(names))
    return tuple(name for name in known if name in names)

"""The space of chunks: how many, how large, and which policy sends them where."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from themis_opt.dispatch import DISPATCH
from themis_opt.instance import CollectiveKind, Instance
from themis_opt.lower_bounds import ideal
from themis_opt.policies.registry import make_policy
from themis_opt.schedule import Schedule
from themis_opt.tuning.parameters import Choice, Parameter, Value
from themis_opt.tuning.profiles import PROFILES
from themis_opt.tuning.space import Measurement
from themis_opt.units import format_size
from themis_opt.validation import validate

POLICIES = ("themis", "baseline", "hourglass")
"""Policies quick enough to be tried a hundred times."""

RATIOS = (2, 4, 8, 16)
"""Of the largest to the smallest chunk of a ramp."""

THRESHOLD_DIVISORS = (4, 8, 16, 32, 64)
LEAST_CHUNK_BYTES = tuple(2**power for power in (12, 14, 16, 18, 20, 22))

LARGEST_PROGRAMME = 256
"""Most chunks of one case whose sizes are optimised; above, they stay equal."""

REFERENCE: Choice = {"policy": "themis", "dispatch": "scf", "threshold_divisor": 16, "chunks": 64, "profile": "equal"}
"""The default of Themis, ISCA 2022, section 6."""


@dataclass(frozen=True)
class ChunkSpace:
    """Chunk counts, size profiles, policies and their knobs (a :class:`~themis_opt.tuning.space.Space`).

    Attributes
    ----------
    instances : tuple of Instance
        The cases, by ascending size; their chunk counts do not matter.
    policies, profiles : tuple of str
        Those to choose from.
    max_chunks : int
        Most chunks of a collective.
    min_chunk : int
        Least bytes of an equal chunk.
    title : str
        Name of the problem where the cases have names of their own.
    """

    instances: tuple[Instance, ...]
    policies: tuple[str, ...] = POLICIES
    profiles: tuple[str, ...] = tuple(PROFILES)
    max_chunks: int = 256
    min_chunk: int = 1
    title: str = ""

    measured = "makespan"

    @property
    def name(self) -> str:
        """The title, or the name of the instance of the dearest case."""
        return self.title or self.instances[-1].name or "instance"

    @property
    def reference(self) -> Choice:
        """The paper's default."""
        return REFERENCE

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """What can be chosen; the least chunk only where collectives of several sizes share it."""
        parameters = [
            Parameter("chunks", chunk_counts(self.max_chunks)),
            Parameter("profile", self.profiles),
            Parameter("ratio", RATIOS, {"profile": ("ramp",)}),
            Parameter("policy", self.policies),
            Parameter("dispatch", tuple(DISPATCH), {"policy": ("themis", "baseline")}),
            Parameter("threshold_divisor", THRESHOLD_DIVISORS, {"policy": ("themis",)}),
        ]
        if len({c.size for instance in self.instances for c in instance.collectives}) > 1:
            larger = tuple(size for size in LEAST_CHUNK_BYTES if size > self.min_chunk)
            parameters.append(Parameter("least_chunk_bytes", larger or (self.min_chunk,)))
        return tuple(parameters)

    @cached_property
    def cases(self) -> tuple[str, ...]:
        """The sizes of the collectives, largest first, of each instance."""
        sizes = (sorted({c.size for c in instance.collectives}, reverse=True) for instance in self.instances)
        return tuple(",".join(format_size(size).replace(" ", "") for size in own) for own in sizes)

    @cached_property
    def identity(self) -> dict[str, str]:
        """Digests of the instances and of the space."""
        one = tuple(instance.overridden(chunks=1).fingerprint for instance in self.instances)
        space = [[p.name, p.values, sorted(p.when.items())] for p in self.parameters]
        return {"instance": _digest(one), "space": _digest(["chunks", space, self.min_chunk])}

    def counts(self, choice: Choice, case: int) -> tuple[int, ...]:
        """Chunks of each collective: as chosen, but none smaller than allowed or than an element."""
        least = max(int(choice.get("least_chunk_bytes", 1)), self.min_chunk)
        return tuple(
            min(int(choice["chunks"]), c.size // c.element_bytes, max(1, c.size // least))
            for c in self.instances[case].collectives
        )

    def instance(self, choice: Choice, case: int) -> Instance:
        """The instance of a case, cut as chosen."""
        instance = self.instances[case]
        pairs = zip(instance.collectives, self.counts(choice, case), strict=True)
        return instance.replace(collectives=tuple(c.replace(chunks=count) for c, count in pairs))

    def canonical(self, choice: Choice) -> dict[str, Value]:
        """The choice without what makes no difference."""
        result = dict(choice)
        counts = [self.counts(choice, case) for case in range(len(self.instances))]
        result["chunks"] = max(max(own) for own in counts)
        unbound = result | {"least_chunk_bytes": self.min_chunk}
        if counts == [self.counts(unbound, case) for case in range(len(self.instances))]:
            result.pop("least_chunk_bytes", None)
        result["profile"] = _effective_profile(str(choice["profile"]), counts)
        if result["profile"] != "ramp":
            result.pop("ratio", None)
        return self._canonical_policy(result, most=int(result["chunks"]))

    def _canonical_policy(self, choice: dict[str, Value], most: int) -> dict[str, Value]:
        instance = self.instances[0]
        no_choice = all(len(span) == 1 for span in instance.spans)
        no_choice |= all(c.kind is CollectiveKind.ALL_TO_ALL for c in instance.collectives)
        if choice["policy"] == "themis" and no_choice:
            choice |= {"policy": "baseline"}
        if choice["policy"] != "themis":
            choice.pop("threshold_divisor", None)
        if choice["policy"] == "hourglass":
            choice.pop("dispatch", None)
        elif most == 1 and len(instance.collectives) == 1:
            choice |= {"dispatch": "fifo"}
        return dict(sorted(choice.items()))

    def schedule(self, choice: Choice, case: int) -> Schedule:
        """The schedule of a choice, simulated and validated."""
        profile = _effective_profile(str(choice["profile"]), [self.counts(choice, case)])
        make = PROFILES[profile]
        schedule = make(self.instance(choice, case), make_policy(specification(choice)), int(choice.get("ratio", 1)))
        validate(schedule)
        return schedule

    def reference_schedule(self, case: int) -> Schedule:
        """The schedule of the paper's default, however small its chunks are."""
        return replace(self, min_chunk=1).schedule(self.reference, case)

    def measure(self, choice: Choice, case: int) -> Measurement:
        """Simulate and validate a choice in a case."""
        return self._measured(self.schedule(choice, case), case)

    def measure_reference(self, case: int) -> Measurement:
        """Simulate and validate the paper's default in a case."""
        return self._measured(self.reference_schedule(case), case)

    def _measured(self, schedule: Schedule, case: int) -> Measurement:
        pieces = sum(len(c.sizes) for c in schedule.plan.chunks)
        return Measurement(schedule.makespan, self.ideals[case], schedule.utilisation, pieces)

    def specification(self, choice: Choice) -> str:
        """See :func:`specification`."""
        return specification(choice)

    def describe(self, choice: Choice) -> str:
        """Chunks, their sizes and the policy."""
        ratio, least = choice.get("ratio"), choice.get("least_chunk_bytes")
        pieces = "1 chunk" if choice["chunks"] == 1 else f"{choice['chunks']} chunks"
        parts = [pieces, f"sizes {choice['profile']}" + (f" 1:{ratio}" if ratio else "")]
        if least:
            parts.append(f"at least {format_size(int(least))} each")
        return ", ".join((*parts, specification(choice)))

    @cached_property
    def ideals(self) -> tuple[float, ...]:
        """The ideal makespan of each case, in picoseconds."""
        return tuple(ideal(instance) for instance in self.instances)


def specification(choice: Choice) -> str:
    """The chosen policy as it is written on the command line."""
    divisor, dispatch = choice.get("threshold_divisor"), choice.get("dispatch")
    knobs = "" if divisor in (None, REFERENCE["threshold_divisor"]) else f":threshold_divisor={divisor}"
    return f"{choice['policy']}{knobs}" + ("" if dispatch is None else f"+{dispatch}")


def chunk_counts(most: int) -> tuple[int, ...]:
    """Powers of two and three numbers between each two of them, up to `most`."""
    counts = {power * quarter // 4 for power in (2**n for n in range(most.bit_length())) for quarter in (4, 5, 6, 7)}
    return tuple(sorted(count for count in counts if count <= most))


def _effective_profile(profile: str, counts: Sequence[tuple[int, ...]]) -> str:
    """Equal where a profile changes nothing: two chunks are no ramp, and too many are not optimised."""
    most = max(max(own) for own in counts)
    if (profile == "ramp" and most <= 2) or (profile == "free" and most == 1):
        return "equal"
    if profile == "free" and min(sum(own) for own in counts) > LARGEST_PROGRAMME:
        return "equal"
    return profile


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]

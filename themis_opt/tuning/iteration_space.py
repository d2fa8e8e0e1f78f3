"""The space of training iterations: what is fused and launched when, in how many chunks, sent where by which policy."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from themis_opt.iteration_instance import IterationInstance
from themis_opt.iterations.bounds import iteration_bounds
from themis_opt.iterations.plan import Launch
from themis_opt.iterations.registry import make_iteration_policy
from themis_opt.iterations.schedule import IterationSchedule
from themis_opt.iterations.simulator import simulate_iterations
from themis_opt.iterations.validation import validate_iterations
from themis_opt.tuning.launching_parameters import launching_parameters, launching_specification
from themis_opt.tuning.parameters import Choice, Parameter, Value, every_choice
from themis_opt.tuning.space import Measurement

CHUNK_POLICIES = ("themis+scf", "hourglass", "baseline+fifo")
"""Policies for chunks that are quick enough to be tried a hundred times."""

MOST_CHUNKS = 64


@dataclass(frozen=True)
class IterationSpace:
    """Launching policies with their knobs, chunk counts and chunk policies (a :class:`~themis_opt.tuning.space.Space`).

    Attributes
    ----------
    instance : IterationInstance
        Its chunk count is that of the default.
    chunk_policies : tuple of str
        Those to choose from.
    max_chunks : int
        Most chunks of a collective.
    """

    instance: IterationInstance
    chunk_policies: tuple[str, ...] = CHUNK_POLICIES
    max_chunks: int = MOST_CHUNKS

    measured = "iteration"

    @property
    def name(self) -> str:
        """That of the instance."""
        return self.instance.name or "iteration"

    @property
    def instances(self) -> tuple[IterationInstance, ...]:
        """The instance of the only case."""
        return (self.instance,)

    @property
    def reference(self) -> Choice:
        """The buckets of PyTorch with the paper's policy, in as many chunks as the instance has."""
        return {**REFERENCE_LAUNCHING, "order": "ready", "chunks": self.instance.chunks, "chunk_policy": "themis+scf"}

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """What can be chosen."""
        powers = {2**n for n in range(self.max_chunks.bit_length())} | {self.instance.chunks}
        return (
            *launching_parameters(self.instance),
            Parameter("chunks", tuple(sorted(count for count in powers if count <= self.max_chunks))),
            Parameter("chunk_policy", self.chunk_policies),
        )

    @cached_property
    def cases(self) -> tuple[str, ...]:
        """The bytes of all tensors, rounded."""
        return (f"{sum(tensor.size for tensor in self.instance.iteration.tensors) / 10**6:.4g}MB",)

    @cached_property
    def identity(self) -> dict[str, str]:
        """Digests of the instance, its chunk count included, and of the space."""
        space = [[p.name, p.values, sorted(p.when.items())] for p in self.parameters]
        return {"instance": self.instance.fingerprint, "space": _digest(["iteration", space])}

    def cut(self, choice: Choice) -> IterationInstance:
        """The instance with the chosen number of chunks."""
        return self.instance.replace(chunks=int(choice["chunks"]))

    def canonical(self, choice: Choice) -> dict[str, Value]:
        """The choice without what makes no difference: settings with equal launches are the first of them."""
        launches = self._launches(choice)
        result = self._first_settings[_digest_of(launches)] | {"chunk_policy": choice["chunk_policy"]}
        result["chunks"] = min(int(choice["chunks"]), self._most_elements(launches))
        order = "layer" if choice["launching"] == "priority" else choice.get("order", "ready")
        if not _is_alone(launches):
            result["order"] = order
        if result["launching"] == "wait_free" and result.get("order") == "layer":
            result = {name: value for name, value in result.items() if name != "order"} | {"launching": "priority"}
        return dict(sorted(result.items()))

    def _most_elements(self, launches: Sequence[Launch]) -> int:
        """Elements of the largest collective, which cannot have more chunks."""
        own = self.instance.iteration.tensors
        sizes = (
            sum(own[t].size for t in launch.tensors) // own[launch.tensors[0]].element_bytes for launch in launches
        )
        return max(sizes)

    @cached_property
    def _first_settings(self) -> dict[str, dict[str, Value]]:
        """By what they launch, the first of all settings of launching policies; the default comes before all others."""
        parameters = [p for p in self.parameters if p.name not in ("chunks", "chunk_policy", "order")]
        found: dict[str, dict[str, Value]] = {}
        for setting in (dict(REFERENCE_LAUNCHING), *every_choice(parameters)):
            if setting["launching"] != "priority":
                found.setdefault(_digest_of(self._launches(setting)), setting)
        return found

    def _launches(self, choice: Choice) -> tuple[Launch, ...]:
        return make_iteration_policy(launching_specification(choice)).launching(self.instance)

    def schedule(self, choice: Choice) -> IterationSchedule:
        """The schedule of a choice, simulated and validated."""
        instance = self.cut(choice)
        schedule = simulate_iterations(instance, make_iteration_policy(self.specification(choice))(instance))
        validate_iterations(schedule)
        return schedule

    def measure(self, choice: Choice, case: int) -> Measurement:
        """Simulate and validate a choice."""
        schedule = self.schedule(choice)
        pieces = sum(len(own.sizes) for own in schedule.plan.chunks.chunks)
        return Measurement(schedule.iteration_time, self.bound, schedule.utilisation, pieces)

    def measure_reference(self, case: int) -> Measurement:
        """Simulate and validate the default, whatever the most chunks are."""
        return self.measure(self.reference, case)

    def specification(self, choice: Choice) -> str:
        """Launching and chunk policy as they are written on the command line."""
        return f"{launching_specification(choice)}/{choice['chunk_policy']}"

    def describe(self, choice: Choice) -> str:
        """Chunks and policy."""
        chunks = int(choice["chunks"])
        return f"{chunks} chunk{'s' if chunks != 1 else ''}, {self.specification(choice)}"

    @cached_property
    def bound(self) -> float:
        """The best bound on the iteration time, in picoseconds."""
        return max(iteration_bounds(self.instance).values())


REFERENCE_LAUNCHING: Choice = {"launching": "ddp", "first_cap": 2**20, "cap": 25 * 2**20}
"""The buckets of PyTorch DistributedDataParallel."""


def _is_alone(launches: Sequence[Launch]) -> bool:
    """Whether there is one launch, over before that of the next iteration begins: none can overtake another."""
    (first, *others) = launches
    return not others and (first.before.later == 0 or first.before.task <= first.after.task)


def _digest_of(launches: Sequence[Launch]) -> str:
    return _digest([[own.kind, own.tensors, own.after, own.before, own.after_launches, own.part] for own in launches])


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]

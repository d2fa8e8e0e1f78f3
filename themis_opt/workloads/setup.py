"""What a training iteration is made from, beside its model."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, Literal, get_args

from themis_opt.base.errors import InputError, check_choice, reading
from themis_opt.base.units import format_bandwidth, format_size, parse_bandwidth, parse_size, parse_time
from themis_opt.problem.network import Network
from themis_opt.workloads.layers import Layer, Parameter
from themis_opt.workloads.microbatch_orders import MicrobatchSchedule, check_order
from themis_opt.workloads.timing import USUAL_RATE, LayerTimes, Rate, Timing, find_device, memory_of, parse_rate
from themis_opt.workloads.transformations import NO_COMPRESSION, Compression, parse_compression, parse_refresh
from themis_opt.workloads.unequal import EQUAL, Unequal, parse_unequal

Granularity = Literal["fused", "layer", "parameter"]

BYTES_BY_TYPE: Mapping[str, int] = {"fp16": 2, "bf16": 2, "fp32": 4}  # bytes of one element, by its type
SOMETIMES = (
    *("group", "accumulate", "zero", "granularity", "recompute", "update", "local_blocks"),
    *("experts", "data", "context", "stages", "layers_per_stage", "virtual_stages", "microbatches", "schedule"),
    *("gathers", "skip", "wait", "host_link"),
)
"""Choices that are not for every parallelism."""

AT_LEAST_ONE = (
    *("batch", "accumulate", "group", "experts", "data", "context", "stages", "virtual_stages", "local_blocks"),
    *("microbatches", "skip", "memory", "host_link"),
)


def option_of(name: str) -> str:
    """The option of the command line for a choice."""
    return "--tensor-group" if name == "group" else f"--{name.replace('_', '-')}"


@dataclass(frozen=True)
class Setup:
    """Choices that make an iteration from the layers of a model.

    `batch`: samples of one step, for each NPU or for each group that holds a copy of the model together.
    `element_bytes`: bytes of each element of parameters, gradients and activations.
    `group`: NPUs of a group that shares the model; None for all of them where a parallelism needs groups.
    `accumulate`: steps of which only the last exchanges gradients.
    `zero`: stage of ZeRO: 1 for optimizer states that are sharded among data-parallel NPUs, 2 for gradients too, 3 in
      pipelines for parameters too, 0 for copies; elsewhere stage 3 is the parallelism ``fsdp``.
    `gathers`: whether sharded parameters are gathered for each ``microbatch``, or once in a ``step`` of all.
    `granularity`: one tensor of gradients for everything, for each layer, or for each parameter tensor.
    `recompute`: whether the backward pass of a layer begins with another forward pass; ``selective`` for operations
      that take hardly any time: all but matrix products and attention.
    `update`: picoseconds of the optimizer.
    `unequal`: speeds of NPUs that are not equal, and how they share the batch.
    `refresh`: picoseconds of each iteration in which what compression needs is computed.
    `adaptive`: compression of the slowest dimension, less of others (:mod:`~themis_opt.workloads.transformations`).
    `tolerance`: fraction of the bytes between data-parallel NPUs that may be lost.
    `experts`, `data`: NPUs that share the experts of a layer, and copies of what is no expert; None for as many as
      there can be.
    `context`: NPUs that divide the sequence, attention included.
    `stages`, `microbatches`: stages of a pipeline, None where there is none, and parts of the batch that go through
      them one by one.
    `virtual_stages`: parts of the model on each stage.
    `layers_per_stage`: blocks of each part, those of embeddings and the output aside; empty for parts of equal time.
    `schedule`: order of forward and backward passes of a stage (:mod:`themis_opt.workloads.microbatch_orders`).
    `skip`, `wait`: batches from one exchange between all groups to the next, and batches that it may take
      (:mod:`themis_opt.workloads.daso`).
    `memory`: bytes of an NPU, None where everything fits (:mod:`themis_opt.workloads.memory`).
    `device`: name of the NPU, whose memory is taken where none is given (:mod:`themis_opt.workloads.timing`).
    `host_link`: bytes per second between an NPU and its host (:mod:`themis_opt.workloads.out_of_core`), to which
      activations of a pipeline may go (:mod:`themis_opt.pipelines.offloads`).
    `local_blocks`: blocks of layers with a separate loss, whose gradients leave in the forward sweep; 1 for one loss at
      the end (M. Laskin et al., *Parallel Training of Deep Networks with Local Updates*,
      https://arxiv.org/abs/2012.03837).
    """

    network: Network
    timing: Timing
    batch: int = 32
    element_bytes: int = 2
    group: int | None = None
    accumulate: int = 1
    zero: int = 0
    granularity: Granularity = "layer"
    recompute: bool | Literal["selective"] = False
    gathers: Literal["microbatch", "step"] = "microbatch"
    update: int = 0
    unequal: Unequal = EQUAL
    compression: Compression = NO_COMPRESSION
    refresh: int = 0
    adaptive: float = 1.0
    tolerance: float = 0.0
    local_blocks: int = 1
    experts: int | None = None
    data: int | None = None
    context: int | None = None
    layers_per_stage: tuple[int, ...] = ()
    stages: int | None = None
    virtual_stages: int = 1
    microbatches: int = 1
    schedule: MicrobatchSchedule = "1f1b"
    skip: int = 1
    wait: int = 0
    memory: int | None = None
    device: str = ""
    host_link: float | None = None

    def __post_init__(self) -> None:
        for name in AT_LEAST_ONE:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError("must be 1 or more", field=option_of(name), value=value)
        if self.update < 0:
            raise InputError("must be 0 or more", field="--update", value=f"{self.update} ps")
        check_choice(self.granularity, get_args(Granularity), "--granularity")
        check_order(self.stages or 1, self.virtual_stages, self.microbatches, self.schedule)
        _expect("--recompute", self.recompute, (False, True, "selective"), "full or selective")
        _expect("--gathers", self.gathers, ("microbatch", "step"), "microbatch or step")
        _expect("--zero", self.zero, (0, 1, 2, 3), "0, 1, 2 or, in a pipeline, 3")
        if self.zero and self.granularity != "layer":
            raise InputError("must be layer with --zero", field="--granularity", value=self.granularity)
        self.unequal.check(self.network.num_npus, self.batch)

    def __str__(self) -> str:
        """What is not as usual, in words."""
        choices = [f"Batch {self.batch}", f"{self.element_bytes} bytes per element", str(self.timing)]
        choices += [str(self.unequal)] * (self.unequal is not EQUAL)
        choices += [str(self.compression)] * bool(self.compression.ratios)
        choices += [f"slowest dimension compressed {self.adaptive:g}"] * (self.adaptive != 1)
        choices += [f"{self.tolerance:g} of the bytes may be lost"] * bool(self.tolerance)
        if self.stages is not None:
            parts = f" of {self.virtual_stages} parts" if self.virtual_stages > 1 else ""
            choices += [f"{self.stages} stages{parts}, {self.microbatches} microbatches, {self.schedule}"]
        if self.skip > 1 or self.wait:
            choices += [f"all groups every {self.skip} batches, {self.wait} later"]
        if self.memory is not None and self.host_link is not None:
            choices += [f"{format_size(self.memory)} of memory, {format_bandwidth(self.host_link)} to the host"]
        choices += [f"{self.local_blocks} local blocks"] * (self.local_blocks > 1)
        choices += [f"{self.accumulate} steps"] * (self.accumulate > 1) + [f"ZeRO stage {self.zero}"] * bool(self.zero)
        if self.recompute:
            choices += ["activations recomputed" if self.recompute is True else "cheap activations recomputed"]
        return ", ".join(choices) + "."

    def check_only(self, parallelism: str, allowed: Iterable[str]) -> None:
        """Refuse choices that say nothing in a parallelism.

        Raises InputError for the first of :data:`SOMETIMES` that is given and not allowed.
        """
        defaults = {field.name: field.default for field in fields(self)}
        for name in SOMETIMES:
            value = getattr(self, name)
            if name not in allowed and value != defaults[name]:
                raise InputError(f"is not for {parallelism}", field=option_of(name), value=value)

    def times(self, layer: Layer, parts: int = 1) -> LayerTimes:
        """Times of a layer for the batch, divided in equal parts, on the NPU that takes longest."""
        factor = self.unequal.slowest(self.batch) / parts
        times = self.timing(layer, self.batch)
        return times if factor == 1 else times.scaled(factor)

    @property
    def repeats(self) -> bool:
        """Whether the backward pass repeats the forward pass."""
        return self.recompute is True

    def kept(self, layer: Layer) -> int:
        """Elements of a sample that a layer keeps for its backward pass."""
        if self.recompute == "selective":
            return max(layer.saved - layer.cheap, layer.inputs)
        return layer.inputs if self.recompute else layer.kept

    @property
    def optimizer(self) -> int:
        """Picoseconds of the optimizer on the slowest NPU."""
        return round(self.update / min(self.unequal.speeds, default=Fraction(1)))


def _expect(field: str, value: object, allowed: tuple[object, ...], words: str) -> None:
    if value not in allowed:
        raise InputError(f"must be {words}", field=field, value=value)


def element_bytes(dtype: str) -> int:
    """Bytes of one element of a type. Raises InputError if it is none of :data:`BYTES_BY_TYPE`."""
    check_choice(dtype, BYTES_BY_TYPE, "--dtype")
    return BYTES_BY_TYPE[dtype]


def read_setup(
    network: Network,
    timing: Timing,
    *,
    dtype: str,
    speeds: str = "",
    share: str = "equal",
    compress: str = "",
    index_bytes: int = 4,
    refresh: str = "0 s",
    **others: Any,
) -> Setup:
    """The setup of choices in words; `others` are fields of :class:`Setup`, of which some are texts.

    Raises InputError if a choice cannot be read or breaks a rule; it names the option of the command line.
    """
    given: dict[str, Any] = {"memory": memory_of(others.get("device", ""))}
    for name, value in others.items():
        if value is not None:
            with reading(option_of(name), value):
                given[name] = TEXT_PARSERS[name](value) if name in TEXT_PARSERS else value
    return Setup(
        network=network,
        timing=timing,
        element_bytes=element_bytes(dtype),
        unequal=parse_unequal(speeds, share),
        compression=parse_compression(compress, index_bytes),
        refresh=parse_refresh(refresh),
        **given,
    )


def _counts(text: str) -> tuple[int, ...]:
    words = text.split(",") if text else []
    if not all(word.isascii() and word.isdigit() and 0 < len(word) < 6 for word in words):
        raise ValueError("must be whole numbers, such as 8,8,9,7")
    return tuple(map(int, words))


TEXT_PARSERS: Mapping[str, Callable[[str], Any]] = {
    "update": parse_time, "memory": parse_size, "host_link": parse_bandwidth, "layers_per_stage": _counts,
}  # fmt: skip
"""Choices that are texts."""


def rate_of(flops: str | None, efficiency: float, device: str, dtype: str) -> Rate:
    """The speed of an NPU, by default the peak of a device in 16 bits."""
    if flops is not None:
        return Rate(parse_rate(flops), efficiency)
    known = find_device(device)
    return Rate(known.peak if known and BYTES_BY_TYPE.get(dtype) == 2 else USUAL_RATE, efficiency)


def weights_only(layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """The layers without biases and normalisation, as studies of communication often count them."""

    def kept(layer: Layer) -> tuple[Parameter, ...]:
        return tuple(parameter for parameter in layer.parameters if parameter.role == "weight")

    return tuple(replace(layer, parameters=kept(layer)) for layer in layers)

"""Layers of a model: what they compute, what they store, and what others need to see of it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import comb
from typing import Literal

from themis_opt.base.errors import InputError

Role = Literal["weight", "bias", "norm"]
LayerKind = Literal["convolution", "linear", "recurrent", "attention", "feed_forward", "embedding", "table"]


@dataclass(frozen=True)
class Parameter:
    """A tensor of parameters.

    `sharded` says that tensor parallelism splits it among the NPUs of a group; others keep whole copies.
    """

    name: str
    elements: int
    role: Role = "weight"
    sharded: bool = False

    def share(self, group: int) -> int:
        """Elements on each NPU of a tensor-parallel group, rounded up."""
        return -(-self.elements // group) if self.sharded else self.elements


@dataclass(frozen=True)
class Routing:
    """How tokens come to experts.

    `experts`, `active`: experts of a layer, and those that each token uses.
    `elements`: of the tokens of one sample, each counted once.
    `groups`, `limit`: equal groups of experts in a row, and how many of them a token may use.
    """

    experts: int
    active: int
    elements: int
    groups: int = 1
    limit: int = 1

    def places(self, parts: int) -> Fraction:
        r"""Expected number of places that a token goes to, where equally many experts lie at each of `parts` places.

        All choices of experts are equally likely.  Of e experts in one group a token that uses k misses one of n places
        with probability :math:`q = \binom{e - e/n}{k} / \binom{e}{k}`, so it goes to :math:`n (1 - q)` of them.
        With several groups q is the mean over those that it may use.
        """
        width, allowed = self.experts // self.groups, self.experts // self.groups * self.limit
        inside = max(1, self.groups // parts)  # groups at each place, or the one that the place has a part of
        here = min(width, self.experts // parts)  # experts of each of them there
        missed = Fraction(0) + sum(
            Fraction(comb(inside, used) * comb(self.groups - inside, self.limit - used), comb(self.groups, self.limit))
            * Fraction(comb(allowed - used * here, self.active), comb(allowed, self.active))
            for used in range(min(inside, self.limit) + 1)
        )
        return parts * (1 - missed)


@dataclass(frozen=True)
class Layer:
    """One layer, or a block that computes as a whole.

    `name`: unique in its model.
    `kind`: what it does; a `table` is an embedding so large that its rows are spread over all NPUs.
    `parameters`: its trainable tensors, in the order of the reference implementation.
    `flops`: floating-point operations of the forward pass, per sample; a multiplication with an addition is two.
    `inputs`, `outputs`: elements of the activations that come in and go out, per sample.
    `joins`: for a table: the layer that uses what was looked up.
    `rows`: rows of the input where it is an image that parts of which different NPUs can hold; else 0.
    `halos`: elements per sample that a part needs of a neighbour: of the input, and of the gradients of the output.
    `saved`: elements of activations that the backward pass needs, per sample; 0 where that is the inputs alone.
    `cheap`: those of them that no matrix product and no attention makes.
    `context`: elements of keys and values per sample, which NPUs that divide a sequence gather; 0 without attention.
    `routing`: experts of which each token uses some, whose parameters have names that begin with ``experts.``.
    """

    name: str
    kind: LayerKind
    parameters: tuple[Parameter, ...]
    flops: int
    inputs: int
    outputs: int
    joins: str = ""
    rows: int = 0
    halos: tuple[int, int] = (0, 0)
    routing: Routing | None = None
    saved: int = 0
    cheap: int = 0
    context: int = 0

    @property
    def kept(self) -> int:
        """Elements of activations that are kept for the backward pass, per sample."""
        return max(self.saved, self.inputs)

    @property
    def expert_elements(self) -> int:
        """Parameters of all experts."""
        return sum(parameter.elements for parameter in self.parameters if parameter.name.startswith("experts."))

    @property
    def sharded(self) -> bool:
        """Whether tensor parallelism splits it."""
        return any(parameter.sharded for parameter in self.parameters)

    def elements(self, group: int = 1) -> int:
        """Parameters on each NPU of a tensor-parallel group."""
        return sum(parameter.share(group) for parameter in self.parameters)


@dataclass(frozen=True)
class TrainingModel:
    """A model that can be trained: its layers from the input to the output, and where they are described.

    `title`, `source`: name as its authors write it, and where its architecture is published.
    `make`: makes the layers; takes the length of a sequence in tokens if `sequence` is one.
    `sequence`: usual length of a sequence; None where a sample is no sequence.
    `assumed`: what its description leaves open, and was assumed.
    """

    title: str
    source: str
    make: Callable[..., tuple[Layer, ...]]
    sequence: int | None = None
    assumed: tuple[str, ...] = ()

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What was assumed, as a sentence; none if nothing was."""
        return (f"The reading of {self.title} assumes: {'; '.join(self.assumed)}.",) * bool(self.assumed)

    def layers(self, sequence: int | None = None) -> tuple[Layer, ...]:
        """The layers, for sequences of a given length or of the usual one.

        Raises InputError if a length is given that is not positive, or that the model cannot have.
        """
        if self.sequence is None and sequence is not None:
            raise InputError(f"{self.title} does not read sequences", field="--sequence", value=sequence)
        if sequence is not None and sequence < 1:
            raise InputError("must be 1 or more", field="--sequence", value=sequence)
        return self.make() if self.sequence is None else self.make(sequence or self.sequence)


def count(layers: Iterable[Layer], roles: Iterable[Role] = ("weight", "bias", "norm")) -> int:
    """Parameters of some layers that have one of the roles."""
    wanted = set(roles)
    return sum(p.elements for layer in layers for p in layer.parameters if p.role in wanted)


def macs(layers: Iterable[Layer]) -> int:
    """Multiplications with additions of the forward pass, per sample."""
    return sum(layer.flops for layer in layers) // 2


def linear(name: str, inputs: int, outputs: int, *, bias: bool = True) -> Layer:
    """A fully connected layer on one vector per sample."""
    biases = (Parameter("bias", outputs, "bias"),) if bias else ()
    parameters = (Parameter("weight", inputs * outputs), *biases)
    return Layer(name, "linear", parameters, 2 * inputs * outputs, inputs, outputs)


def convolution(name: str, channels: tuple[int, int], kernel: int, side: int, stride: int, *, norm: bool) -> Layer:
    """A square convolution with padding that keeps the size, with its batch normalisation or with a bias.

    `channels`: of the input and of the output.
    `kernel`, `side`, `stride`: side of the kernel, side of the input in pixels, and the step.
    `norm`: whether batch normalisation, with two parameters for each channel, stands in for the bias.
    """
    return convolution_between(name, channels, (kernel, kernel), side, -(-side // stride), norm=norm)


def convolution_between(
    name: str, channels: tuple[int, int], kernel: tuple[int, int], side: int, after: int, *, norm: bool = True
) -> Layer:
    """The same with any kernel, from images of one side to those of another."""
    inputs, outputs = channels
    weights = inputs * outputs * kernel[0] * kernel[1]
    extra = norms(outputs) if norm else (Parameter("bias", outputs, "bias"),)
    halos = (kernel[0] // 2 * side * inputs, kernel[0] // 2 * after * outputs)
    sizes = (2 * weights * after**2, inputs * side**2, outputs * after**2)
    return Layer(name, "convolution", (Parameter("weight", weights), *extra), *sizes, rows=side, halos=halos)


def norms(width: int) -> tuple[Parameter, ...]:
    """Scale and shift of a normalisation."""
    return (Parameter("norm.weight", width, "norm"), Parameter("norm.bias", width, "norm"))

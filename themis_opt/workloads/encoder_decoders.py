"""Encoders with decoders: T5.

Source: C. Raffel et al., https://arxiv.org/abs/1910.10683, section 2.1, and the ``config.json`` of its weights.

A sample is a sequence that is read and one of the same length that is written.  There are no biases but those of
relative positions, which the first attention of either stack holds for all others.
"""

from dataclasses import dataclass

from themis_opt.workloads.layers import Layer, Parameter


@dataclass(frozen=True)
class EncoderDecoder:
    """Sizes of an encoder with a decoder.

    `layers`: of the encoder and of the decoder.
    `heads`, `head`: heads of attention, and their size.
    `inner`: width of a feed-forward layer.
    `buckets`: distances that have a bias each.
    `gated`: whether feed-forward layers have three matrices.
    `tied`: whether the output projection has the weights of the embedding.
    """

    layers: tuple[int, int]
    hidden: int
    vocabulary: int
    heads: int
    head: int
    inner: int
    buckets: int = 32
    gated: bool = False
    tied: bool = True


def encoder_decoder(shape: EncoderDecoder, sequence: int) -> tuple[Layer, ...]:
    """Layers of an encoder with a decoder, for samples of `sequence` tokens read and as many written."""
    size = sequence * shape.hidden
    words = Parameter("words", shape.vocabulary * shape.hidden)
    layers = [Layer("embedding", "embedding", (words,), 0, 2 * sequence, 2 * size)]
    for stack, count in zip(("encoder", "decoder"), shape.layers, strict=True):
        for number in range(count):
            name, positions = f"{stack}{number}", shape.buckets * shape.heads * (number == 0)
            layers.append(_attention(shape, f"{name}.attention", sequence, positions))
            if stack == "decoder":
                layers.append(_attention(shape, f"{name}.cross", sequence, 0))
            layers.append(_feed_forward(shape, f"{name}.mlp", sequence))
    norms = tuple(Parameter(f"{stack}.norm.weight", shape.hidden, "norm") for stack in ("encoder", "decoder"))
    head = () if shape.tied else (Parameter("weight", shape.vocabulary * shape.hidden),)
    flops = 2 * size * shape.vocabulary
    return (*layers, Layer("head", "linear", (*norms, *head), flops, size, sequence * shape.vocabulary))


def _attention(shape: EncoderDecoder, name: str, sequence: int, positions: int) -> Layer:
    wide, size = shape.heads * shape.head, sequence * shape.hidden
    parameters = (
        Parameter("norm.weight", shape.hidden, "norm"),
        Parameter("in.weight", 3 * shape.hidden * wide, sharded=True),
        Parameter("out.weight", wide * shape.hidden, sharded=True),
        *((Parameter("positions", positions),) if positions else ()),
    )
    return Layer(name, "attention", parameters, 2 * 4 * size * wide + 2 * 2 * wide * sequence**2, size, size)


def _feed_forward(shape: EncoderDecoder, name: str, sequence: int) -> Layer:
    into, size = 1 + shape.gated, sequence * shape.hidden
    parameters = (
        Parameter("norm.weight", shape.hidden, "norm"),
        Parameter("in.weight", into * shape.hidden * shape.inner, sharded=True),
        Parameter("out.weight", shape.inner * shape.hidden, sharded=True),
    )
    return Layer(name, "feed_forward", parameters, 2 * (1 + into) * size * shape.inner, size, size)

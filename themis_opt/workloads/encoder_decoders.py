"""Encoders with decoders: T5 and Whisper.

Sources: C. Raffel et al., https://arxiv.org/abs/1910.10683, section 2.1; A. Radford et al.,
https://arxiv.org/abs/2212.04356, section 2.2; and the ``config.json`` of their weights.

A sample of T5 is a sequence that is read and one of the same length that is written.  There are no biases but those of
relative positions, which the first attention of either stack holds for all others.
"""

from dataclasses import dataclass

from themis_opt.workloads.layers import Layer, Parameter, norms
from themis_opt.workloads.transformers import feed_forward, sublayer


@dataclass(frozen=True)
class EncoderDecoder:
    """Sizes of an encoder with a decoder.

    `encoder`, `decoder`: layers of each.
    `heads`, `head`: heads of attention, and their size.
    `inner`: width of a feed-forward layer.
    `buckets`: distances that have a bias each.
    `gated`: whether feed-forward layers have three matrices.
    `tied`: whether the output projection has the weights of the embedding.
    """

    encoder: int
    decoder: int
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
    for stack, count in (("encoder", shape.encoder), ("decoder", shape.decoder)):
        for number in range(count):
            name, positions = f"{stack}{number}", shape.buckets * shape.heads * (number == 0)
            layers.append(_attention(shape, f"{name}.attention", sequence, positions))
            if stack == "decoder":
                layers.append(_attention(shape, f"{name}.cross", sequence, 0))
            layers.append(_feed_forward(shape, f"{name}.mlp", sequence))
    ends = tuple(Parameter(f"{stack}.norm.weight", shape.hidden, "norm") for stack in ("encoder", "decoder"))
    head = () if shape.tied else (Parameter("weight", shape.vocabulary * shape.hidden),)
    flops = 2 * size * shape.vocabulary
    return (*layers, Layer("head", "linear", (*ends, *head), flops, size, sequence * shape.vocabulary))


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


@dataclass(frozen=True)
class Speech:
    """Sizes of a model of speech.

    `encoder`, `decoder`: layers of each.
    `encoder_inner`, `decoder_inner`: width of their feed-forward layers.
    `bins`: frequencies of the spectrum that two convolutions read.
    `frames`: positions of the encoder, half as many as the spectrum has.
    `positions`: most tokens that are written.
    """

    encoder: int
    decoder: int
    hidden: int
    vocabulary: int
    encoder_inner: int
    decoder_inner: int
    bins: int
    frames: int
    positions: int


def speech_model(shape: Speech, sequence: int) -> tuple[Layer, ...]:
    """Layers of a model of speech: a sample is 30 s of sound, and `sequence` tokens that are written.

    Projections of keys have no bias, and the output projection has the weights of the embedding.
    """
    hidden, frames, size = shape.hidden, shape.frames, sequence * shape.hidden
    filters = (3 * shape.bins * hidden, 3 * hidden**2)
    sound = (
        *(Parameter(f"convolution{n}.weight", elements) for n, elements in enumerate(filters, 1)),
        *(Parameter(f"convolution{n}.bias", hidden, "bias") for n in (1, 2)),
        Parameter("positions", frames * hidden),
    )
    flops = 2 * frames * (2 * filters[0] + filters[1])
    layers = [Layer("sound", "embedding", sound, flops, 2 * frames * shape.bins, frames * hidden)]
    for number in range(shape.encoder):
        layers.append(_speech_attention(f"encoder{number}.attention", hidden, frames, frames))
        layers.append(feed_forward(f"encoder{number}.mlp", hidden, shape.encoder_inner, frames))
    words = Parameter("words", shape.vocabulary * hidden), Parameter("positions", shape.positions * hidden)
    layers.append(Layer("embedding", "embedding", words, 0, sequence, size))
    for number in range(shape.decoder):
        layers.append(_speech_attention(f"decoder{number}.attention", hidden, sequence, sequence))
        layers.append(_speech_attention(f"decoder{number}.cross", hidden, sequence, frames))
        layers.append(feed_forward(f"decoder{number}.mlp", hidden, shape.decoder_inner, sequence))
    logits = sequence * shape.vocabulary
    return (
        *layers,
        Layer("head", "linear", (*norms(hidden), *norms(hidden)), 2 * size * shape.vocabulary, size, logits),
    )


def _speech_attention(name: str, hidden: int, queries: int, keys: int) -> Layer:
    flops = 2 * 2 * hidden**2 * (queries + keys) + 2 * 2 * hidden * queries * keys
    return sublayer(name, "attention", (hidden, 3 * hidden, hidden), queries, flops, 13 * hidden, bias=2 * hidden)

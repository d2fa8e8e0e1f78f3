"""Decoders of today: Llama 3, Mixtral and DeepSeek-V3, others of their kind by numbers, and vision transformers.

Sources: A. Dubey et al., https://arxiv.org/abs/2407.21783, table 3; A. Jiang et al., https://arxiv.org/abs/2401.04088;
DeepSeek-AI, https://arxiv.org/abs/2412.19437, section 4.2; A. Dosovitskiy et al., https://arxiv.org/abs/2010.11929,
table 1; and the ``config.json`` that their weights are published with.

As in :mod:`themis_opt.workloads.transformers` each layer is two, and tensor parallelism shards both.  Feed-forward
layers are gated, of three matrices.  Of the experts of a layer each token uses some that a router chooses, and those
that all tokens share; all parameters count, and the operations of those that are used.  A bias that the router
of DeepSeek-V3 follows is not trained by gradients, and not counted.

Activations are what operators keep for their backward pass, counted as in V. Korthikanti et al.,
https://arxiv.org/abs/2205.05198, section 4.1, without dropout: inputs of norms and matrices, queries, keys, values and
their weighted sum but no scores, both halves of a gated layer with the activated one and the product.
"""

from dataclasses import dataclass, replace

from themis_opt.workloads.layers import Layer, LayerKind, Parameter, Routing, norms
from themis_opt.workloads.transformers import blocks


@dataclass(frozen=True)
class Compressed:
    """Attention on compressed keys and values (DeepSeek-V2, https://arxiv.org/abs/2405.04434, section 2.1).

    Ranks of what queries (0 where they are not), and keys with values, are compressed to; and per head the sizes of the
    parts of queries and keys without and with position, and of values.
    """

    query_rank: int
    rank: int
    plain: int
    rotary: int
    value: int


@dataclass(frozen=True)
class Decoder:
    """Sizes of a decoder.

    `heads`, `groups`: heads of queries, and of keys and values.
    `inner`: width of a feed-forward layer that is not of experts.
    `tied`: whether the output projection has the weights of the embedding.
    `biased`, `out_biased`, `inner_biased`: whether queries, keys and values, their projection, and feed-forward layers
      that are not of experts have biases.
    `head_norms`: whether heads of queries, and those of keys, are normed, with weights that all share.
    `whole_norms`: whether queries, and keys, are normed over all heads.
    `sinks`: whether each head has a score of no token.
    `normed_twice`: whether what comes out of attention and feed-forward layers is normed, too.
    `experts`, `active`, `shared`, `expert`: experts of a layer, those that a token uses, those that all use, and their
      width; 0 where there are none.
    `experts_biased`: whether experts and their router have biases.
    `limited`: groups of experts, and how many of them a token may use.
    `dense`: first layers without experts.
    `experts_every`: of so many layers the last has experts.
    `windows`: tokens that attention sees in each layer, 0 where it sees all before; empty if all layers see all.
    `compressed`: attention on compressed keys and values, in the place of `groups` and `head`.
    """

    layers: int
    hidden: int
    vocabulary: int
    heads: int
    groups: int
    head: int
    inner: int
    tied: bool = False
    biased: bool = False
    out_biased: bool = False
    inner_biased: bool = False
    head_norms: bool = False
    normed_twice: bool = False
    experts: int = 0
    active: int = 0
    shared: int = 0
    expert: int = 0
    dense: int = 0
    compressed: Compressed | None = None
    limited: tuple[int, int] = (1, 1)
    experts_every: int = 1
    experts_biased: bool = False
    whole_norms: bool = False
    sinks: bool = False
    windows: tuple[int, ...] = ()


def decoder(shape: Decoder, sequence: int) -> tuple[Layer, ...]:
    """Layers of a decoder, for samples of `sequence` tokens."""
    size = sequence * shape.hidden
    words = Parameter("words", shape.vocabulary * shape.hidden)
    layers = [Layer("embedding", "embedding", (words,), 0, sequence, size)]
    for number in range(shape.layers):
        window = shape.windows[number] if shape.windows else 0
        layers.append(_attention(shape, f"layer{number}.attention", sequence, window))
        wide = shape.experts and number >= shape.dense and (number + 1) % shape.experts_every == 0
        layers.append((_experts if wide else _feed_forward)(shape, f"layer{number}.mlp", sequence))
    head = () if shape.tied else (Parameter("weight", shape.vocabulary * shape.hidden),)
    last = Parameter("norm.weight", shape.hidden, "norm")
    flops = 2 * size * shape.vocabulary
    logits = sequence * shape.vocabulary
    return (*layers, Layer("head", "linear", (last, *head), flops, size, logits, saved=2 * size + 2 * logits))


def _attention(shape: Decoder, name: str, sequence: int, window: int) -> Layer:
    """Projections, scores of pairs of tokens, and the weighted sum.

    A causal mask leaves half of all pairs; a window, or a chunk as wide, leaves fewer.
    """
    parameters, scored, valued = _compressed(shape, shape.compressed) if shape.compressed else _grouped(shape)
    weights = sum(parameter.elements for parameter in parameters if parameter.role == "weight")
    seen = min(window or sequence, sequence)
    flops = 2 * weights * sequence + shape.heads * (scored + valued) * (2 * sequence - seen) * seen
    ranks = shape.compressed.query_rank + shape.compressed.rank if shape.compressed else 0
    keys = shape.heads if shape.compressed else shape.groups
    saved = 2 * shape.hidden + ranks + (shape.heads + keys) * (scored + valued)
    layer = _layer(shape, name, "attention", parameters, flops, sequence, saved, shape.hidden)
    return replace(layer, context=sequence * keys * (scored + valued))


def _grouped(shape: Decoder) -> tuple[tuple[Parameter, ...], int, int]:
    """Parameters, and sizes per head of what is scored and summed, where groups of heads share keys and values."""
    projected = (shape.heads + 2 * shape.groups) * shape.head
    weights = (
        Parameter("in.weight", shape.hidden * projected, sharded=True),
        *_bias(shape.biased, "in.bias", projected, sharded=True),
        *((Parameter("head_norms.weight", 2 * shape.head, "norm"),) if shape.head_norms else ()),
        *((Parameter("norms.weight", shape.head * (shape.heads + shape.groups), "norm"),) if shape.whole_norms else ()),
        *((Parameter("sinks", shape.heads, "bias", sharded=True),) if shape.sinks else ()),
        Parameter("out.weight", shape.heads * shape.head * shape.hidden, sharded=True),
        *_bias(shape.out_biased, "out.bias", shape.hidden),
    )
    return weights, shape.head, shape.head


def _bias(has: bool, name: str, elements: int, *, sharded: bool = False) -> tuple[Parameter, ...]:
    return (Parameter(name, elements, "bias", sharded=sharded),) if has else ()


def _compressed(shape: Decoder, keys: Compressed) -> tuple[tuple[Parameter, ...], int, int]:
    """The same on compressed keys and values; what compresses is copied on all NPUs of a group."""
    scored = keys.plain + keys.rotary
    down = (
        Parameter("query_down.weight", shape.hidden * keys.query_rank),
        Parameter("query_norm.weight", keys.query_rank, "norm"),
    )
    weights = (
        *(down if keys.query_rank else ()),
        Parameter("query_up.weight", (keys.query_rank or shape.hidden) * shape.heads * scored, sharded=True),
        Parameter("down.weight", shape.hidden * (keys.rank + keys.rotary)),
        Parameter("norm_of_down.weight", keys.rank, "norm"),
        Parameter("up.weight", keys.rank * shape.heads * (keys.plain + keys.value), sharded=True),
        Parameter("out.weight", shape.heads * keys.value * shape.hidden, sharded=True),
    )
    return weights, scored, keys.value


def _feed_forward(shape: Decoder, name: str, sequence: int) -> Layer:
    weights = _gated(shape, shape.inner, "")
    if shape.inner_biased:
        into, out = weights
        biases = _bias(True, "in.bias", 2 * shape.inner, sharded=True), _bias(True, "out.bias", shape.hidden)
        weights = (into, *biases[0], out, *biases[1])
    flops, saved = 2 * 3 * shape.hidden * shape.inner * sequence, 2 * shape.hidden + 4 * shape.inner
    return _layer(shape, name, "feed_forward", weights, flops, sequence, saved, shape.hidden + 2 * shape.inner)


def _experts(shape: Decoder, name: str, sequence: int) -> Layer:
    router = Parameter("router.weight", shape.hidden * shape.experts)
    biases = (
        *_bias(shape.experts_biased, "router.bias", shape.experts),
        *_bias(shape.experts_biased, "experts.bias", shape.experts * (2 * shape.expert + shape.hidden), sharded=True),
    )
    weights = (*_gated(shape, shape.experts * shape.expert, "experts."), *biases)
    shared = _gated(shape, shape.shared * shape.expert, "shared.") if shape.shared else ()
    used = 3 * shape.hidden * shape.expert * (shape.active + shape.shared) + router.elements
    wide = shape.expert * (shape.active + shape.shared)
    saved, cheap = (2 + shape.active) * shape.hidden + 4 * wide, shape.hidden + 2 * wide
    weights = (router, *weights, *shared)
    layer = _layer(shape, name, "feed_forward", weights, 2 * used * sequence, sequence, saved, cheap)
    return replace(layer, routing=Routing(shape.experts, shape.active, sequence * shape.hidden, *shape.limited))


def _gated(shape: Decoder, width: int, of: str) -> tuple[Parameter, ...]:
    return (
        Parameter(f"{of}in.weight", 2 * shape.hidden * width, sharded=True),
        Parameter(f"{of}out.weight", width * shape.hidden, sharded=True),
    )


def _layer(
    shape: Decoder,
    name: str,
    kind: LayerKind,
    weights: tuple[Parameter, ...],
    flops: int,
    sequence: int,
    saved: int,
    cheap: int,
) -> Layer:
    """A layer after a norm; `saved` and `cheap` elements of a token that the backward pass needs."""
    first = Parameter("norm.weight", shape.hidden, "norm")
    if shape.normed_twice:
        weights = (*weights, Parameter("out_norm.weight", shape.hidden, "norm"))
    size = sequence * shape.hidden
    return Layer(name, kind, (first, *weights), flops, size, size, saved=sequence * saved, cheap=sequence * cheap)


@dataclass(frozen=True)
class Vision:
    """Sizes of a vision transformer: blocks, width, sides of an image and a patch in pixels, classes, inner width."""

    layers: int
    hidden: int
    image: int = 224
    patch: int = 16
    classes: int = 1000
    inner: int = 0


def vision_transformer(shape: Vision) -> tuple[Layer, ...]:
    """Layers of a vision transformer, whose blocks are those of GPT."""
    patches, hidden = (shape.image // shape.patch) ** 2, shape.hidden
    tokens, pixels = patches + 1, 3 * shape.patch**2
    size = tokens * hidden
    embedding = (
        Parameter("patch.weight", pixels * hidden), Parameter("patch.bias", hidden, "bias"),
        Parameter("class", hidden), Parameter("positions", size),
    )  # fmt: skip
    layers = [Layer("embedding", "embedding", embedding, 2 * patches * pixels * hidden, 3 * shape.image**2, size)]
    for number in range(shape.layers):
        layers += blocks(f"layer{number}", hidden, tokens, shape.inner)
    head = (Parameter("weight", hidden * shape.classes), Parameter("bias", shape.classes, "bias"))
    return (*layers, Layer("head", "linear", (*norms(hidden), *head), 2 * hidden * shape.classes, size, shape.classes))

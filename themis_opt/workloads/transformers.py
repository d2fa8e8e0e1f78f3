"""Transformers: BERT, GPT-3 and a model with a trillion parameters.

Sources: J. Devlin et al., https://arxiv.org/abs/1810.04805, with the vocabulary of
https://huggingface.co/google-bert/bert-base-uncased (encoder and pooler); T. Brown et al.,
https://arxiv.org/abs/2005.14165, table 2.1; D. Narayanan et al., https://arxiv.org/abs/2104.04473, table 1 (1T: 128
layers, hidden size 25,600, vocabulary 51,200, sequences of 2048).

Each transformer layer is two: attention and feed-forward.  Tensor parallelism shards both as in M. Shoeybi et al.,
https://arxiv.org/abs/1909.08053: the first matrix by columns, with its bias, the second by rows; norms and the last
bias are copied, and so are embeddings here.
"""

from dataclasses import dataclass

from themis_opt.workloads.layers import Layer, LayerKind, Parameter, norms


@dataclass(frozen=True)
class TransformerShape:
    """Sizes of a transformer.

    `segments` is the number of segment embeddings; `pooled` stands for BERT: a dense layer on the first token, and a
    norm of the embeddings instead of one of the last layer.  `inner` is the width of feed-forward layers, four times
    the hidden size where it is 0.  `tied` says whether the output projection has the weights of the embedding.
    """

    layers: int
    hidden: int
    vocabulary: int
    positions: int
    segments: int = 0
    pooled: bool = False
    inner: int = 0
    tied: bool = True


def transformer(shape: TransformerShape, sequence: int) -> tuple[Layer, ...]:
    """Layers of a transformer, for samples of `sequence` tokens.

    Where the output projection shares the weights of the embedding its operations count, its parameters not twice.
    """
    hidden, size = shape.hidden, sequence * shape.hidden
    layers = [_embedding(shape, sequence)]
    for number in range(shape.layers):
        layers += blocks(f"layer{number}", hidden, sequence, shape.inner)
    if shape.pooled:
        pooler = (Parameter("weight", hidden**2), Parameter("bias", hidden, "bias"))
        return (*layers, Layer("pooler", "linear", pooler, 2 * hidden**2, hidden, hidden))
    projected = 2 * size * shape.vocabulary
    head = () if shape.tied else (Parameter("weight", shape.vocabulary * hidden),)
    parameters = (*norms(hidden), *head)
    logits = sequence * shape.vocabulary
    return (*layers, Layer("head", "linear", parameters, projected, size, logits, saved=size + 2 * logits))


def blocks(name: str, hidden: int, sequence: int, inner: int = 0) -> tuple[Layer, Layer]:
    """Attention and feed-forward of one layer, which is `inner` wide, or four times as wide as the rest."""
    flops = 2 * 4 * hidden**2 * sequence + 2 * 2 * hidden * sequence**2  # projections; all pairs of tokens, twice
    attention = sublayer(f"{name}.attention", "attention", (hidden, 3 * hidden, hidden), sequence, flops, 13 * hidden)
    return attention, feed_forward(f"{name}.mlp", hidden, inner or 4 * hidden, sequence)


def _embedding(shape: TransformerShape, sequence: int) -> Layer:
    rows = {"words": shape.vocabulary, "positions": shape.positions, "segments": shape.segments}
    parameters = tuple(Parameter(name, number * shape.hidden) for name, number in rows.items() if number)
    last = norms(shape.hidden) if shape.pooled else ()
    return Layer("embedding", "embedding", parameters + last, 0, sequence, sequence * shape.hidden)


def feed_forward(name: str, hidden: int, wide: int, sequence: int) -> Layer:
    """A matrix to a wider layer, and one back."""
    flops = 2 * 2 * hidden * wide * sequence
    return sublayer(name, "feed_forward", (hidden, wide, wide), sequence, flops, 5 * hidden + 4 * wide)


def sublayer(
    name: str, kind: LayerKind, widths: tuple[int, int, int], sequence: int, flops: int, saved: int, bias: int = 0
) -> Layer:
    """A matrix from the first of three widths to the second, one from the third back to the first, and a norm.

    `saved`: bytes of a token that the backward pass needs, in 16 bits, with masks of dropout, without the scores of
      attention: in all 34 times the width (V. Korthikanti et al., https://arxiv.org/abs/2205.05198, sections 4.1, 5).
    `bias`: elements of the first bias, where not all of the second width have one.
    """
    hidden, first, second = widths
    parameters = (
        Parameter("in.weight", hidden * first, sharded=True),
        Parameter("in.bias", bias or first, "bias", sharded=True),
        Parameter("out.weight", second * hidden, sharded=True),
        Parameter("out.bias", hidden, "bias"),
        *norms(hidden),
    )
    size = sequence * hidden
    context = 2 * size if kind == "attention" else 0
    cheap = 3 * hidden if context else 3 * hidden + 2 * first  # norm, mask of dropout, and what is activated
    saved, cheap = sequence * saved // 2, sequence * cheap // 2
    return Layer(name, kind, parameters, flops, size, size, saved=saved, cheap=cheap, context=context)

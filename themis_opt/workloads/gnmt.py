"""GNMT, recurrent translation, as NVIDIA trains it for MLPerf.

Architecture: Y. Wu et al., https://arxiv.org/abs/1609.08144, in the variant of
https://github.com/NVIDIA/DeepLearningExamples/tree/master/PyTorch/Translation/GNMT: four layers on each side, the first
of the encoder in both directions, normalised attention on the first layer of the decoder, whose context all later ones
see, one embedding for both languages.  The GNMT of the Themis paper is another: its gradients have 133,894,144
elements.
"""

from themis_opt.workloads.layers import Layer, Parameter

HIDDEN = 1024
VOCABULARY = 32_320
LAYERS = 4


def gnmt(sequence: int) -> tuple[Layer, ...]:
    """Layers of GNMT, for sentences of `sequence` tokens on both sides."""
    embedding = Parameter("weight", VOCABULARY * HIDDEN)
    encoder = [
        _lstm(f"encoder.{k}", 2 * HIDDEN if k == 1 else HIDDEN, sequence, 2 if k == 0 else 1) for k in range(LAYERS)
    ]
    decoder = [_lstm(f"decoder.{k}", 2 * HIDDEN, sequence) for k in range(1, LAYERS)]
    classifier = (Parameter("weight", VOCABULARY * HIDDEN), Parameter("bias", VOCABULARY, "bias"))
    size = sequence * HIDDEN
    return (
        Layer("embedding", "embedding", (embedding,), 0, 2 * sequence, 2 * size),
        *encoder,
        _lstm("decoder.0", HIDDEN, sequence),
        _attention(sequence),
        *decoder,
        Layer("classifier", "linear", classifier, 2 * size * VOCABULARY, size, sequence * VOCABULARY),
    )


def _lstm(name: str, inputs: int, sequence: int, directions: int = 1) -> Layer:
    """Four gates on the input and on the state, with two biases, for each direction."""
    parameters: list[Parameter] = []
    for direction in ("", "_reverse")[:directions]:
        parameters += [
            Parameter(f"weight_ih{direction}", 4 * HIDDEN * inputs),
            Parameter(f"weight_hh{direction}", 4 * HIDDEN * HIDDEN),
            Parameter(f"bias_ih{direction}", 4 * HIDDEN, "bias"),
            Parameter(f"bias_hh{direction}", 4 * HIDDEN, "bias"),
        ]
    flops = directions * 2 * 4 * HIDDEN * (inputs + HIDDEN) * sequence
    return Layer(name, "recurrent", tuple(parameters), flops, sequence * inputs, directions * sequence * HIDDEN)


def _attention(sequence: int) -> Layer:
    """Additive attention: keys and queries, a score of each pair of tokens, the weighted sum."""
    parameters = (
        Parameter("linear_att", HIDDEN),
        Parameter("normalize_scalar", 1, "norm"),
        Parameter("normalize_bias", HIDDEN, "norm"),
        Parameter("linear_q.weight", HIDDEN * HIDDEN),
        Parameter("linear_k.weight", HIDDEN * HIDDEN),
    )
    flops = 2 * 2 * HIDDEN * HIDDEN * sequence + 2 * 2 * HIDDEN * sequence * sequence
    return Layer("attention", "linear", parameters, flops, sequence * HIDDEN, sequence * HIDDEN)

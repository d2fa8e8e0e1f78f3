"""GNMT, recurrent translation, as NVIDIA trains it for MLPerf.

Architecture: Y. Wu et al., https://arxiv.org/abs/1609.08144, in the variant of
https://github.com/NVIDIA/DeepLearningExamples/tree/master/PyTorch/Translation/GNMT: four layers on each side, the first
of the encoder in both directions, normalised attention on the first layer of the decoder, whose context all later ones
see, one embedding for both languages.  The GNMT of the Themis paper is another: its gradients have 133,894,144
elements.
"""

from themis_opt.workloads.layers import Layer, Parameter

HIDDEN_WIDTH = 1024  # of the model of Wu et al. (2016)
VOCABULARY = 32_320  # tokens
LAYERS = 4  # of encoder and decoder each


def gnmt(sequence: int) -> tuple[Layer, ...]:
    """Layers of GNMT, for sentences of `sequence` tokens on both sides."""
    embedding = Parameter("weight", VOCABULARY * HIDDEN_WIDTH)
    encoder = [
        _lstm(f"encoder.{k}", 2 * HIDDEN_WIDTH if k == 1 else HIDDEN_WIDTH, sequence, 2 if k == 0 else 1)
        for k in range(LAYERS)
    ]
    decoder = [_lstm(f"decoder.{k}", 2 * HIDDEN_WIDTH, sequence) for k in range(1, LAYERS)]
    classifier = (Parameter("weight", VOCABULARY * HIDDEN_WIDTH), Parameter("bias", VOCABULARY, "bias"))
    size = sequence * HIDDEN_WIDTH
    return (
        Layer("embedding", "embedding", (embedding,), 0, 2 * sequence, 2 * size),
        *encoder,
        _lstm("decoder.0", HIDDEN_WIDTH, sequence),
        _attention(sequence),
        *decoder,
        Layer("classifier", "linear", classifier, 2 * size * VOCABULARY, size, sequence * VOCABULARY),
    )


def _lstm(name: str, inputs: int, sequence: int, directions: int = 1) -> Layer:
    """Four gates on the input and on the state, with two biases, for each direction."""
    parameters: list[Parameter] = []
    for direction in ("", "_reverse")[:directions]:
        parameters += [
            Parameter(f"weight_ih{direction}", 4 * HIDDEN_WIDTH * inputs),
            Parameter(f"weight_hh{direction}", 4 * HIDDEN_WIDTH * HIDDEN_WIDTH),
            Parameter(f"bias_ih{direction}", 4 * HIDDEN_WIDTH, "bias"),
            Parameter(f"bias_hh{direction}", 4 * HIDDEN_WIDTH, "bias"),
        ]
    flops = directions * 2 * 4 * HIDDEN_WIDTH * (inputs + HIDDEN_WIDTH) * sequence
    return Layer(name, "recurrent", tuple(parameters), flops, sequence * inputs, directions * sequence * HIDDEN_WIDTH)


def _attention(sequence: int) -> Layer:
    """Additive attention: keys and queries, a score of each pair of tokens, the weighted sum."""
    parameters = (
        Parameter("linear_att", HIDDEN_WIDTH),
        Parameter("normalize_scalar", 1, "norm"),
        Parameter("normalize_bias", HIDDEN_WIDTH, "norm"),
        Parameter("linear_q.weight", HIDDEN_WIDTH * HIDDEN_WIDTH),
        Parameter("linear_k.weight", HIDDEN_WIDTH * HIDDEN_WIDTH),
    )
    flops = 2 * 2 * HIDDEN_WIDTH * HIDDEN_WIDTH * sequence + 2 * 2 * HIDDEN_WIDTH * sequence * sequence
    return Layer("attention", "linear", parameters, flops, sequence * HIDDEN_WIDTH, sequence * HIDDEN_WIDTH)

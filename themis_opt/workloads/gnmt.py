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
    attention = (
        Parameter("linear_att", HIDDEN_WIDTH),
        Parameter("normalize_scalar", 1, "norm"),
        Parameter("normalize_bias", HIDDEN_WIDTH, "norm"),
        Parameter("linear_q.weight", HIDDEN_WIDTH * HIDDEN_WIDTH),
        Parameter("linear_k.weight", HIDDEN_WIDTH * HIDDEN_WIDTH),
    )
    additive = 2 * 2 * HIDDEN_WIDTH * size + 2 * 2 * size * sequence  # keys and queries; scores of pairs, weighted sums
    return (
        Layer("embedding", "embedding", (embedding,), 0, 2 * sequence, 2 * size),
        *encoder,
        _lstm("decoder.0", HIDDEN_WIDTH, sequence),
        Layer("attention", "linear", attention, additive, size, size),
        *decoder,
        Layer("classifier", "linear", classifier, 2 * size * VOCABULARY, size, sequence * VOCABULARY),
    )


def _lstm(name: str, inputs: int, sequence: int, directions: int = 1) -> Layer:
    """Four gates on the input and on the state, with two biases, for each direction."""
    widths = {"weight_ih": inputs, "weight_hh": HIDDEN_WIDTH, "bias_ih": 1, "bias_hh": 1}
    parameters = tuple(
        Parameter(f"{part}{direction}", 4 * HIDDEN_WIDTH * width, "bias" if width == 1 else "weight")
        for direction in ("", "_reverse")[:directions]
        for part, width in widths.items()
    )
    flops = directions * 2 * 4 * HIDDEN_WIDTH * (inputs + HIDDEN_WIDTH) * sequence
    return Layer(name, "recurrent", parameters, flops, sequence * inputs, directions * sequence * HIDDEN_WIDTH)

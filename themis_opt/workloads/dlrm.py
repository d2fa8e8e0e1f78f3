"""Deep learning recommendation models: tables of embeddings, a bottom and a top perceptron.

Architecture: M. Naumov et al., https://arxiv.org/abs/1906.00091.  The MLPerf configuration is that of
https://github.com/facebookresearch/dlrm (bench/run_and_time.sh), with the tables of Criteo Terabyte, at most 40 million
rows each.
Of the medium and the large model only totals are known, from the evaluation of Themis
(https://arxiv.org/abs/2110.04478): the weights of the perceptrons, and the exchanged elements.
"""

from itertools import pairwise

from themis_opt.workloads.layers import Layer, Parameter, linear

DENSE = (13, 512, 256, 128)
"""Sizes of the bottom perceptron of MLPerf, from dense features to a vector like those of the tables."""

TOP_PERCEPTRON = (1024, 1024, 512, 256, 1)  # outputs of the layers of the top perceptron of MLPerf
# Rows of each table of MLPerf
TABLE_ROWS = (
    *(39_884_406, 39_043, 17_289, 7_420, 20_263, 3, 7_120, 1_543, 63, 38_532_951, 2_953_546, 403_346, 10),
    *(2_208, 11_938, 155, 4, 976, 14, 39_979_771, 25_641_295, 39_664_984, 585_935, 12_972, 108, 36),
)
# Part of the perceptrons' published compute time that the bottom one takes, of the medium model
BOTTOM_SHARE = (118_560, 118_560 + 861_268)


def dlrm_mlperf() -> tuple[Layer, ...]:
    """Layers of the MLPerf model: 26 tables, features multiplied in pairs and joined with the dense vector."""
    width = DENSE[-1]
    pairs = (len(TABLE_ROWS) + 1) * len(TABLE_ROWS) // 2
    bottom = [linear(f"bottom.{k}", *sizes) for k, sizes in enumerate(pairwise(DENSE))]
    top = [linear(f"top.{k}", *sizes) for k, sizes in enumerate(pairwise((width + pairs, *TOP_PERCEPTRON)))]
    return (_tables(sum(TABLE_ROWS) * width, len(TABLE_ROWS) * width), *bottom, *top)


def dlrm_totals(weights: int, exchanged: int) -> tuple[Layer, ...]:
    """Tables, bottom and top perceptron as one layer each; the bottom has the medium model's share of the weights.

    `exchanged`: elements per sample that leave the tables; how many rows they have is not known, so none are counted.
    """
    bottom = weights * BOTTOM_SHARE[0] // BOTTOM_SHARE[1]
    parts = [("bottom.0", bottom), ("top.0", weights - bottom)]
    perceptrons = [Layer(name, "linear", (Parameter("weight", n),), 2 * n, 0, 0) for name, n in parts]
    return (_tables(0, exchanged), *perceptrons)


def _tables(elements: int, outputs: int) -> Layer:
    parameters = (Parameter("weight", elements),) if elements else ()
    return Layer("tables", "table", parameters, 0, 0, outputs, joins="top.0")

"""The workloads of the Themis paper: section 5 and figure 12."""

import math

import pytest
from generators.paper import NETWORKS, paper_iteration

HETERO = "3d-sw_sw_sw_hetero"


@pytest.mark.parametrize(
    ("workload", "picoseconds"),
    [
        ("resnet-152", 287_400_000),
        ("resnet-50", (380_038 + 364_599 + 337_813) * 260),
        ("gnmt", 33_554_000 + (2_930_768 + 2_794_594 + 2_039_233) * 260),
        ("dlrm", (1_399_259 + 979_828 + 979_838) * 260),
        ("transformer-1t", (113_305_662 + 113_330_076) * 260),
    ],
)
def test_compute_is_exact(workload: str, picoseconds: int) -> None:
    assert {paper_iteration(network, workload).compute for network in NETWORKS} == {picoseconds}


@pytest.mark.parametrize(
    ("workload", "sizes"),
    [
        ("resnet-152", [120_080_768]),
        ("resnet-50", [51_005_824]),
        ("gnmt", [267_788_288]),
        ("dlrm", [4_194_304, 4_194_304, 114_823_168]),
        ("transformer-1t", [805_306_368] * 14 + [240_316_416]),
    ],
)
def test_sizes_of_the_collectives(workload: str, sizes: list[int]) -> None:
    assert [tensor.size for tensor in paper_iteration(HETERO, workload).iteration.tensors] == sizes


@pytest.mark.parametrize("network", NETWORKS)
def test_transformer_is_model_parallel_over_128_npus_and_data_parallel_over_8(network: str) -> None:
    instance = paper_iteration(network, "transformer-1t")
    sizes = instance.fabric.sizes
    groups = {
        tensor.parallelism: math.prod(sizes[k] for k in span)
        for tensor, span in ((exchange, exchange.span) for exchange in instance.exchanges)
    }
    assert groups == {"model": 128, "data": 8}


def test_transformer_splits_the_second_of_two_dimensions_at_full_bandwidth_each() -> None:
    instance = paper_iteration("2d-sw_sw", "transformer-1t")
    assert instance.fabric.sizes == (16, 8, 8)
    assert instance.links == (0, 1, 2)


def test_embeddings_of_dlrm_travel_while_the_bottom_perceptron_computes() -> None:
    tensors = {t.name: t for t in paper_iteration(HETERO, "dlrm").iteration.tensors}
    waits = [(tensors[n].ready_after, tensors[n].needed_before) for n in ("rows", "row_gradients")]
    assert waits == [("embedding_forward", "top_forward"), ("top_backward", "embedding_backward")]

"""Network, system and workload files of ASTRA-sim 1 and SimAI."""

import pytest
from reader_samples import DATA_PARALLEL, DGX_2, SIMAI, SYSTEM_1, TRANSFORMER

from themis_opt.base.errors import InputError
from themis_opt.formats.readers.parts import Request
from themis_opt.formats.readers.registry import import_files, load
from themis_opt.policies.registry import make_policy
from themis_opt.schedules.simulator import simulate

HETERO_3D = {
    "topology-name": "Hierarchical", "dimensions-count": 3, "topologies-per-dim": ["Switch"] * 3,
    "dimension-type": ["T", "N", "P"], "units-count": [16, 8, 8], "links-count": [4, 2, 1], "link-latency": [1] * 3,
    "link-bandwidth": [50] * 3, "hbm-latency": [500] * 3, "hbm-bandwidth": [370] * 3, "hbm-scale": [0] * 3,
}  # fmt: skip
LINKS = {"topologies-per-dim": ["Ring"], "dimensions-count": 1, "link-latency": [10], "link-bandwidth": [25]}


def rows(network):
    return [(d.kind.value, d.size, d.bandwidth / 2**30, d.latency) for d in network.dimensions]


def test_six_names_are_enough(write):
    network = import_files(write(dgx2__json=DGX_2)).instance.network
    assert rows(network) == [("switch", 16, 150, 1_000_000), ("switch", 4, 12.5, 2_000_000)]


def test_a_message_crosses_two_nics_and_the_router_of_a_switch(write):
    delays = {"nic-latency": [30, 7], "router-latency": [4, 5]}
    kinds = {"topologies-per-dim": ["Switch", "FullyConnected"], "links-count": [6, 3]}
    (path,) = write(network__json=DGX_2 | delays | kinds)
    assert [one.latency for one in import_files([path]).instance.network.dimensions] == [1_064_000, 1_014_000]


def test_the_network_of_the_themis_artifact_is_that_of_the_paper(write):
    network = import_files(write(net__json=HETERO_3D)).instance.network
    paper = load("3d-sw_sw_sw_hetero.all_reduce.100MiB").network
    assert network.sizes == paper.sizes
    assert network.bandwidths == paper.bandwidths


@pytest.mark.parametrize(
    ("kind", "size", "links", "used"),
    [("Ring", 8, 5, 4), ("Ring", 2, 1, 1), ("FullyConnected", 4, 7, 6), ("Switch", 4, 5, 5)],
)
def test_a_ring_uses_an_even_number_of_links_and_full_connection_as_many_to_each(write, kind, size, links, used):
    document = LINKS | {"topologies-per-dim": [kind], "units-count": [size], "links-count": [links]}
    network = import_files(write(net__json=document)).instance.network
    assert network.bandwidths[0] / 2**30 == 25 * used


def test_a_system_in_text_says_algorithms_chunks_and_delays(write):
    instance = import_files(
        write(net__json=DGX_2, sys__txt=SYSTEM_1), request=Request("all_reduce", "100 MiB")
    ).instance
    assert [d.algorithm.value for d in instance.network.dimensions] == ["halving_doubling"] * 2
    assert instance.collectives[0].chunks == 64
    assert instance.latency == "occupy"
    assert instance.network.dimensions[0].launch_overhead == 1000


def test_data_parallel_layers_become_tasks_and_gradients(write):
    instance = import_files(write(net__json=DGX_2, w__txt=DATA_PARALLEL)).instance
    names = [(task.name, task.duration // 1000) for task in instance.tasks]
    assert names == [
        ("conv1.update", 5),
        ("conv1.forward", 100),
        ("fc.forward", 200),
        ("fc.weight_gradient", 50),
        ("fc.input_gradient", 40),
        ("conv1.weight_gradient", 30),
    ]
    tensors = [(t.name, t.size, t.ready_after, t.needed_before) for t in instance.iteration.tensors]
    assert tensors == [
        ("fc.gradients", 8192, "fc.weight_gradient", "fc.forward"),
        ("conv1.gradients", 4096, "conv1.weight_gradient", "conv1.update"),
    ]
    assert simulate(instance, make_policy("wait_free/baseline")(instance)).has_period


def test_model_parallel_groups_split_a_dimension(write):
    instance = import_files(write(net__json=DGX_2, w__txt=TRANSFORMER)).instance
    assert instance.fabric.sizes == (8, 2, 4)
    spans = {tensor.name: tensor.dimensions for tensor in instance.iteration.tensors}
    assert spans["attention.forward_output"] == ("dim1_in",)
    assert spans["attention.gradients"] == ("dim1_out", "dim2")


def test_an_all_gather_counts_what_it_makes(write):
    instance = import_files(write(net__json=DGX_2, w__txt=TRANSFORMER)).instance
    (gathered,) = [t.size for t in instance.iteration.tensors if t.kind == "all_gather"]
    assert gathered == 8 * 8192  # 8 KiB of each of the 8 copies


def test_recomputation_runs_from_the_checkpoint_to_the_layer(write):
    instance = import_files(write(net__json=DGX_2, w__txt=TRANSFORMER)).instance
    names = [task.name for task in instance.tasks]
    assert names[2:4] == ["attention.recompute", "mlp.input_gradient"]
    (again,) = [t for t in instance.iteration.tensors if t.name == "attention.recompute_output"]
    assert again.needed_before == "mlp.input_gradient"


def test_simai_groups_by_experts_and_counts_all_gathers_whole(write):
    imported = import_files(write(net__json=DGX_2, w__txt=SIMAI))
    tensors = {t.name: (t.size, t.dimensions) for t in imported.instance.iteration.tensors}
    assert imported.instance.fabric.sizes == (2, 8, 4)
    assert tensors == {
        "grad_gather.gradients": (8192, ("dim1_out", "dim2")),
        "moe.forward_output": (4096, ("dim1_out",)),
        "moe.gradients": (8192, ("dim2",)),
    }
    assert "collectives without bytes or partners are left out" in imported.instance.description
    assert any("pipeline" in note for note in imported.notes)


def test_microbenchmarks_are_collectives_without_compute(write):
    text = "MICRO\n1\nconv1 -1 5 NONE 0 5 NONE 0 5  ALLREDUCE 1048576 5\n"
    instance = import_files(write(net__json=DGX_2, w__txt=text)).instance
    assert [(collective.kind.value, collective.size) for collective in instance.collectives] == [("all_reduce", 2**20)]


def test_rows_of_a_table_arrive_before_the_layer_above_the_bottom(write):
    layer = "{} -1 10 {} 10 {} 10 {} 0\n"
    text = "HYBRID_DLRM 1\n3\n" + layer.format("table", *["ALLTOALL 640"] * 2, "NONE 0")
    text += "".join(layer.format(name, "NONE 0", "NONE 0", "ALLREDUCE 64") for name in ("bottom", "top"))
    instance = import_files(write(net__json=DGX_2, w__txt=text)).instance
    ends = {t.name: (t.ready_after, t.needed_before) for t in instance.iteration.tensors}
    assert ends["table.rows"] == ("table.forward", "top.forward")
    assert ends["table.row_gradients"] == ("top.input_gradient", "table.forward")


BROKEN = [
    (DATA_PARALLEL.replace("ALLREDUCE", "ALLREDUC"), "line 3 = 'ALLREDUC': must be one of NONE, ALLREDUCE"),
    (DATA_PARALLEL.replace("8192 0", "8192"), "line 4 = '11 words': must have 12 words"),
    (DATA_PARALLEL.replace("\n2\n", "\n3\n"), "line 2 = 3: must be the number of layers that follow, 2"),
    (
        TRANSFORMER.replace("model_parallel_NPU_group", "model_parallel_group"),
        "did you mean 'model_parallel_NPU_group'",
    ),
    (TRANSFORMER.replace("group: 8", "group: 3"), "group = 3: must fill dimensions of 16 x 4"),
    (TRANSFORMER.replace("checkpoints: 1", "checkpoints: 9"), "must be a whole number"),
    (DATA_PARALLEL.replace("ALLREDUCE", "NONE"), "exchanges nothing between NPUs"),
]


@pytest.mark.parametrize(("text", "rule"), BROKEN)
def test_workloads_that_break_a_rule_are_refused(write, text, rule):
    files = write(net__json=DGX_2, w__txt=text)
    with pytest.raises(InputError) as refused:
        import_files(files)
    assert rule in str(refused.value)
    assert str(refused.value).startswith(str(files[1]))


def test_a_workload_needs_a_network(write):
    with pytest.raises(InputError, match="says nothing of the network"):
        load(write(w__txt=DATA_PARALLEL)[0])


def test_too_few_links_and_unknown_names_are_refused(write):
    few = LINKS | {"topologies-per-dim": ["FullyConnected"], "units-count": [4], "links-count": [2]}
    with pytest.raises(InputError, match=r"links-count\[0\] = 2: must be at least 3"):
        import_files(write(net__json=few))
    with pytest.raises(InputError, match="link-bandwith: unknown field; did you mean 'link-bandwidth'"):
        import_files(write(net__json=DGX_2 | {"link-bandwith": [1, 1]}))

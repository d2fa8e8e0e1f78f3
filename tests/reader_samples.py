"""Small files of other tools, written for these tests from what is known of their formats, by name of the format."""

import json

from themis_opt.base.chakra import Node, NodeType, write_trace

RING_16 = "topology: [ Ring ]\nnpus_count: [ 16 ]\nbandwidth: [ 50.0 ]  # GB/s\nlatency: [ 500.0 ]  # ns\n"
THREE_LEVELS = (
    "topology: [ Ring, FullyConnected, Switch ]\nnpus_count: [ 4, 8, 2 ]\n"
    "bandwidth: [ 200.0, 25.0, 12.5 ]\nlatency: [ 20.0, 100, 500.5 ]\n"
)
SYSTEM = {
    "scheduling-policy": "LIFO",
    "endpoint-delay": 10,
    "active-chunks-per-dimension": 1,
    "preferred-dataset-splits": 4,
    "all-reduce-implementation": ["ring"],
    "all-gather-implementation": ["ring"],
    "collective-optimization": "localBWAware",
    "local-mem-bw": 50,
    "boost-mode": 0,
}
DGX_2 = {
    "dimensions-count": 2,
    "topologies-per-dim": ["Switch", "Switch"],
    "units-count": [16, 4],
    "links-count": [6, 1],
    "link-latency": [500, 1000],
    "link-bandwidth": [25, 12.5],
}
SYSTEM_1 = (
    "scheduling-policy: LIFO\nendpoint-delay: 1\nactive-chunks-per-dimension: 1\npreferred-dataset-splits: 64\n"
    "all-reduce-implementation: halvingDoubling_halvingDoubling\ncollective-optimization: localBWAware\n"
    "inter-dimension-scheduling: themis\nseprate-log: 0\n"
)
DATA_PARALLEL = (
    "DATA\n2\nconv1\t-1\t100\tNONE\t0\t20\tNONE\t0\t30\tALLREDUCE\t4096\t5\n"
    "fc -1 200 NONE 0 40 NONE 0 50 ALLREDUCE 8192 0\n"
)
TRANSFORMER = (
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 8 checkpoints: 1 0 checkpoint_initiates: 1 1\n2\n"
    "attention -1 100 ALLREDUCE 4096 20 ALLREDUCE 4096 30 ALLREDUCE 8192 0\n"
    "mlp -1 100 ALLREDUCE 4096 20 ALLREDUCE 4096 30 ALLGATHER 8192 0\n"
)
SIMAI = (
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 8 pp: 2 vpp: 1 ga: 4 all_gpus: 128 "
    "checkpoints: 0 checkpoint_initiates: 0 pp_comm 50331648\n3\n"
    "grad_gather -1 1 NONE 0 1 NONE 0 1 ALLGATHER 8192 100\n"
    "moe -1 1 ALLTOALL_EP 4096 1 NONE 0 1 REDUCESCATTER_DP_EP 8192 0\n"
    "moe -1 1 ALLREDUCE 0 1 NONE 0 1 NONE 0 0\n"
)


def chakra_trace() -> bytes:
    """Two tasks and two collectives between them."""
    attributes = {"is_cpu_op": False, "comm_type": 0, "comm_size": 4096, "involved_dim": (True, True)}
    nodes = [
        Node(0, "forward", NodeType.COMP, duration_micros=7),
        Node(1, "gradients", NodeType.COMM_COLL, (0,), attributes=attributes),
        Node(2, "more", NodeType.COMM_COLL, (1,), (0,), attributes=attributes | {"pg_name": ""}),
        Node(3, "update", NodeType.COMP, (2,), (0, 1), duration_micros=3),
    ]
    return write_trace(nodes)


SAMPLES: dict[str, dict[str, str | bytes]] = {
    "json": {},
    "astra-sim-network": {"ring.yml": RING_16, "levels.yml": THREE_LEVELS},
    "astra-sim-system": {"system.json": json.dumps(SYSTEM)},
    "astra-sim-1-network": {"dgx2.json": json.dumps(DGX_2)},
    "astra-sim-1-system": {"system.txt": SYSTEM_1},
    "astra-sim-1-workload": {"data.txt": DATA_PARALLEL, "transformer.txt": TRANSFORMER, "simai.txt": SIMAI},
    "astra-sim-groups": {"groups.json": '{"0": [0, 1, 2, 3], "1": [0, 4]}'},
    "chakra": {"trace.0.et": chakra_trace()},
}
"""Files by name of the format and of the file; of each format at least one."""

COMPANIONS: dict[str, dict[str, str]] = {
    "astra-sim-system": {"network.yml": RING_16},
    "astra-sim-1-system": {"network.json": json.dumps(DGX_2)},
    "astra-sim-groups": {"network.yml": RING_16},
    "chakra": {"network.yml": RING_16},
    "astra-sim-1-workload": {"network.json": json.dumps(DGX_2)},
}
"""What files of a format need beside them to make a whole problem; recognized as what they are."""

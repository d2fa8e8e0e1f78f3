"""Small files of other tools, written for these tests from what is known of their formats, by name of the format."""

import json
from collections.abc import Sequence

from themis_opt.formats.chakra import Node, NodeType, write_trace

RING_16 = "topology: [ Ring ]\nnpus_count: [ 16 ]\nbandwidth: [ 50.0 ]  # GB/s\nlatency: [ 500.0 ]  # ns\n"
THREE_LEVELS = (
    "topology: [ Ring, FullyConnected, Switch ]\nnpus_count: [ 4, 8, 2 ]\n"
    "bandwidth: [ 200.0, 25.0, 12.5 ]\nlatency: [ 20.0, 100, 500.5 ]\n"
)
SYSTEM = {
    "scheduling-policy": "LIFO", "endpoint-delay": 10, "active-chunks-per-dimension": 1,
    "preferred-dataset-splits": 4, "all-reduce-implementation": ["ring"], "all-gather-implementation": ["ring"],
    "collective-optimization": "localBWAware", "local-mem-bw": 50, "boost-mode": 0,
}  # fmt: skip
AICB = (
    "[rank0 ~ rank31]\ncomm_type,comm_group,comm_group_size,msg_size,stage,dst,src,additional,_elapsed_time,count\n"
    "CommType.broadcast,CommGroup.dp_group,8,64,init,None,0,,None,1\n"
    "CommType.all_reduce,CommGroup.tp_group,4,4096,forward.row,None,None,,None,2\n"
    "CommType.reduce_scatter,CommGroup.dp_group,8,65536,step,None,None,,None,1\n"
    "CommType.all_gather,CommGroup.dp_group,8,32768,step,None,None,,None,1\n"
    "CommType.epoch_end,None,None,0,,None,None,,None,1\n"
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


def nccl_table(times: Sequence[tuple[int, float, float]], program: str = "all_reduce_perf", ranks: int = 8) -> str:
    """The output of nccl-tests for sizes with their times out of place and in place, in microseconds."""
    lines = ["# nccl-tests version 2.19.6", f"# Collective test starting: {program}", "# Using devices"]
    lines += [f"#  Rank {k:2} Group  0 Pid {100 + k} on  node0 device {k:2} [0000:0{k}:00] GPU" for k in range(ranks)]
    lines += ["#", "#                                  out-of-place                       in-place"]
    lines += ["#  size count type redop root time algbw busbw #wrong time algbw busbw #wrong"]
    lines += ["#  (B) (elements) (us) (GB/s) (GB/s) (us) (GB/s) (GB/s)"]
    for size, out, within in times:
        busy = [f"{time:.2f} {size / time / 1000:.2f} {1.75 * size / time / 1000:.2f} 0" for time in (out, within)]
        lines.append(f"{size:12} {size // 4:12} float sum -1 {busy[0]} {busy[1]}")
    return "\n".join([*lines, "# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 1.5", "#", ""])


TOPOLOGY = """<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="AuthenticAMD" familyid="143" modelid="1">
    <pci busid="0000:0b:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:0f:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="80" rank="0" gdr="1">
          <nvlink target="0000:c7:00.0" count="12" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:10:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="1" sm="80" rank="1" gdr="1">
          <nvlink target="0000:c7:00.0" count="12" tclass="0x068000"/>
        </gpu>
      </pci>
      <nic>
        <net name="mlx5_0" dev="0" speed="200000" port="1" guid="0x1" maxconn="131072" gdr="1"/>
      </nic>
    </pci>
  </cpu>
</system>
"""
GRAPH = """<graphs version="1">
  <graph id="0" pattern="4" crossnic="0" nchannels="2" speedintra="20" speedinter="12.5" typeintra="NVL">
    <channel><net dev="0"/><gpu dev="0"/><gpu dev="1"/><net dev="0"/></channel>
    <channel><net dev="0"/><gpu dev="0"/><gpu dev="1"/><net dev="0"/></channel>
  </graph>
</graphs>
"""
MATRIX = (
    "\tGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\n"
    "GPU0\t X \tNV12\tNV12\tPXB\t0-47\nGPU1\tNV12\t X \tNV12\tPXB\t0-47\nGPU2\tNV12\tNV12\t X \tSYS\t48-95\n"
    "NIC0\tPXB\tPXB\tSYS\t X \n\nLegend:\n  X    = Self\n"
)
TOPOLOGY_OF_AMD = """LINK TYPE TABLE:
             0000:0c:00.0 0000:22:00.0 0000:38:00.0
0000:0c:00.0 SELF         XGMI         XGMI
0000:22:00.0 XGMI         SELF         XGMI
0000:38:00.0 XGMI         XGMI         SELF

NUMA BW TABLE:
             0000:0c:00.0 0000:22:00.0 0000:38:00.0
0000:0c:00.0 N/A          50000-50000  50000-100000
0000:22:00.0 50000-50000  N/A          50000-50000
0000:38:00.0 50000-100000 50000-50000  N/A
"""

LINKS_OF_AMD = """\
========================== Link Type between two GPUs ==========================
       GPU0         GPU1         GPU2
GPU0   0            XGMI         PCIE
GPU1   XGMI         0            XGMI
GPU2   PCIE         XGMI         0
"""
JSON_OF_AMD = [
    {"gpu": i, "bdf": f"0000:0{i}:00.0", "links": [
        {"link_type": "SELF" if i == j else "XGMI", "num_hops": int(i != j),
         "bandwidth": "N/A" if i == j else "50000-100000" if i + j == 2 else "50000-50000"}
        for j in range(3)
    ]}
    for i in range(3)
]  # fmt: skip

INFRAGRAPH = """name: two hosts
devices:
- name: host
  components:
  - {name: xpu, choice: xpu, count: 2}
  - {name: nvsw, choice: switch, count: 1}
  - {name: pciesw, choice: custom, custom: {type: pcie}, count: 1}
  - {name: card, choice: device, count: 2}
  - {name: cpu, choice: cpu, count: 1}
  links:
  - {name: nvlink, physical: {bandwidth: {choice: gigabytes_per_second, gigabytes_per_second: 200}}}
  - {name: pcie, physical: {bandwidth: {choice: gigatransfers_per_second, gigatransfers_per_second: 16}}}
  edges:
  - {ep1: {component: xpu}, ep2: {component: nvsw}, scheme: many2many, link: nvlink}
  - {ep1: {component: xpu}, ep2: {component: pciesw}, scheme: many2many, link: pcie}
  - {ep1: {component: "cpu[0]"}, ep2: {component: "pciesw[0]"}, scheme: one2one, link: pcie}
  - {ep1: {component: "card[0:2].nic[0]"}, ep2: {component: pciesw}, scheme: many2many, link: pcie}
- name: card
  components:
  - {name: nic, choice: nic, count: 1}
  - {name: port, choice: port, count: 1}
  links:
  - {name: inside}
  edges:
  - {ep1: {component: nic}, ep2: {component: port}, scheme: one2one, link: inside}
- name: switch
  components:
  - {name: asic, choice: switch, count: 1}
  - {name: port, choice: port, count: 4}
  links:
  - {name: inside}
  edges:
  - {ep1: {component: asic}, ep2: {component: port}, scheme: many2many, link: inside}
links:
- name: eth
  physical:
    bandwidth: {choice: gigabits_per_second, gigabits_per_second: 200}
    latency: {choice: us, us: 2}
instances:
- {name: host, device: host, count: 2}
- {name: leaf, device: switch, count: 1}
edges:
- ep1: {instance: "host[0]", component: "card[0:2].port[0]"}
  ep2: {instance: "leaf[0]", component: "port[0:2]"}
  scheme: one2one
  link: eth
- ep1: {instance: "host[1]", component: "card[:].port"}
  ep2: {instance: leaf, component: "port[2:]"}
  scheme: one2one
  link: eth
"""
GRAPHML = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="d0" for="node" attr.name="kind" attr.type="string"><default>npu</default></key>
  <key id="d1" for="edge" attr.name="bandwidth" attr.type="string"/>
  <key id="d2" for="edge" attr.name="latency" attr.type="double"/>
  <graph id="G" edgedefault="undirected">
    <node id="a"/><node id="b"/><node id="sw"><data key="d0">switch</data></node>
    <edge source="a" target="sw"><data key="d1">50 GB/s</data><data key="d2">1e-6</data></edge>
    <edge source="b" target="sw"><data key="d1">400 Gbps</data></edge>
    <edge source="b" target="sw"><data key="d1">10000000000</data></edge>
  </graph>
</graphml>
"""
NODE_LINK = {
    "directed": True, "multigraph": False, "graph": {"name": "one way"},
    "nodes": [{"id": "a", "type": "xpu"}, {"id": "b"}, {"id": "c"}],
    "links": [
        {"source": "a", "target": "b", "bandwidth": "10 GB/s", "latency": "2 us"},
        {"source": "b", "target": "a", "bandwidth": 5e9},
        {"source": "b", "target": "c", "bandwidth": "10 GB/s"},
        {"source": "c", "target": "a", "bandwidth": "10 GB/s"},
    ],
}  # fmt: skip

SHAPES = (
    "conv1.weight torch.Size([64, 3, 7, 7])\nbn1.weight torch.Size([64])\nbn1.bias torch.Size([64])\n"
    "bn1.running_mean torch.Size([64])\nbn1.num_batches_tracked torch.Size([])\nfc.weight (1000, 512)\n"
    "fc.bias: [1000]\n"
)
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "intermediate_size": 512,
    "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2, "max_position_embeddings": 128,
    "vocab_size": 1000, "tie_word_embeddings": False,
}  # fmt: skip

LINEAR = [(size, 42 + 1.75 * size / 200_000, 42 + 1.75 * size / 200_000) for size in (2**k for k in range(10, 31, 2))]
"""A ring of 8 with 3 us per step and 200 GB/s."""

NCCL_JSON = {
    "version": 3,
    "args": ["./all_gather_perf", "-b", "8"],
    "config": {"ngpus": 1, "devices": [{"rank": k, "group": k % 2} for k in range(8)]},
    "results": [
        {
            "size": 2**k,
            "out_of_place": {"time": 5 + 2**k / 1e5, "alg_bw": 1.0, "bus_bw": 1.0, "nwrong": 0},
            "in_place": None,
        }
        for k in range(10, 30)
    ],
}


RCCL_ROWS = [
    {"#wrong": "0", "algBw": 8.0, "busBw": 14.0, "gpus": 8, "inPlace": place, "name": "AllReduce", "size": size,
     "time": time, "type": "float"}
    for size, out, within in LINEAR for place, time in ((0, out), (1, within))
]  # fmt: skip
RCCL_CSV = "\n".join([",".join(RCCL_ROWS[0]), *(",".join(map(str, row.values())) for row in RCCL_ROWS)])
RCCL_LINES = "\n".join(map(json.dumps, RCCL_ROWS))

NCCOM_HEAD = "     size(B)    count(elems)     type    time(us)    algbw(GB/s)    busbw(GB/s)\n"
NCCOM = NCCOM_HEAD + (
    "    33554432        33554432    uint8         768          40.69          40.69\nAvg bus bandwidth: 40.7GB/s\n"
)


def inspector_line(coll: str, size: int, microseconds: float, ranks: int = 8, nodes: int = 1, blocks: int = 1) -> str:
    """A line of the NCCL Inspector."""
    perf = {"coll": coll, "coll_sn": 1, "coll_msg_size_bytes": size, "coll_exec_time_us": microseconds}
    perf |= {"coll_algobw_gbs": blocks * size / microseconds / 1000}
    return json.dumps({"header": {"rank": 0, "n_ranks": ranks, "nnodes": nodes}, "coll_perf": perf}) + "\n"


def kernel(start: float, end: float, stream: int = 7, **collective: object) -> dict[str, object]:
    """A kernel of a PyTorch trace; a collective if it has arguments."""
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL" if collective else "gemm"
    args = {"stream": stream} | collective
    event = {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": start, "dur": end - start}
    return event | {"args": args}


def collective_arguments(
    name: str = "allreduce", elements: int = 10**6, ranks: int = 8, stride: int = 1
) -> dict[str, object]:
    """The arguments that PyTorch gives to a kernel of NCCL."""
    return {
        "Collective name": name,
        "dtype": "Float",
        "In msg nelems": elements,
        "Out msg nelems": elements,
        "Group size": ranks,
        "Process Group Name": f"pg{stride}",
        "Process Group Ranks": str([stride * k for k in range(ranks)]),
    }


def pytorch_trace(events: Sequence[dict[str, object]]) -> str:
    """A trace of the PyTorch profiler with some events."""
    head = {"schemaVersion": 1, "deviceProperties": [], "traceEvents": list(events), "traceName": "trace.json"}
    return json.dumps(head)


OVERLAPPED = (
    {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "ts": 0, "dur": 1300},
    {"ph": "M", "name": "process_name", "args": {"name": "python"}},
    *(kernel(0, 400), kernel(400, 800), kernel(800, 900), kernel(1200, 1300)),
    *(kernel(400, 700, 20, **collective_arguments()), kernel(900, 1200, 20, **collective_arguments())),
)
"""Two all-reduces of 4 MB, one beside compute and one after it; an update in the end."""

SAMPLES: dict[str, dict[str, str | bytes]] = {
    "json": {},
    "astra-sim-network": {"ring.yml": RING_16, "levels.yml": THREE_LEVELS},
    "astra-sim-system": {"system.json": json.dumps(SYSTEM)},
    "aicb": {"step.csv": AICB},
    "astra-sim-groups": {"groups.json": '{"0": [0, 1, 2, 3], "1": [0, 4]}'},
    "nccl-tests": {
        "all_reduce.txt": nccl_table(LINEAR[::4]),
        "gather.json": json.dumps(NCCL_JSON),
        "lines.json": RCCL_LINES,
        "rows.csv": RCCL_CSV,
        "all_gather.32ranks.log": NCCOM,
        "list.json": json.dumps(RCCL_ROWS[::4]),
    },
    "nccl-inspector": {
        "log.json": "".join(inspector_line("AllReduce", size, out) for size, out, _ in LINEAR[::3]),
        "metrics.prom": 'nccl_bus_bandwidth_gbs{version="v5.1",message_size="4-5GB"} 678.263\n',
    },
    "pytorch-shapes": {"shapes.txt": SHAPES},
    "hugging-face": {"config.json": json.dumps(CONFIG)},
    "pytorch-trace": {"trace.json": pytorch_trace(OVERLAPPED)},
    "nccl-topology": {"topology.xml": TOPOLOGY, "graph.xml": GRAPH},
    "infragraph": {"clos.yaml": INFRAGRAPH},
    "graphml": {"ring.graphml": GRAPHML},
    "node-link": {"triangle.json": json.dumps(NODE_LINK)},
    "nvidia-smi": {"topo.txt": MATRIX},
    "rocm-smi": {"topo.txt": TOPOLOGY_OF_AMD, "links.txt": LINKS_OF_AMD, "topo.json": json.dumps(JSON_OF_AMD)},
    "chakra": {"trace.0.et": chakra_trace()},
    "fjsp": {"shop.fjs": "2 3 1.5\n2 2 1 5 3 4 1 2 6\n1 1 1 7\n"},
}
"""Files by name of the format and of the file; of each format at least one."""

COMPANIONS: dict[str, dict[str, str]] = {
    "astra-sim-system": {"network.yml": RING_16},
    "astra-sim-groups": {"network.yml": RING_16},
    "pytorch-shapes": {"network.yml": RING_16},
    "hugging-face": {"network.yml": RING_16},
    "chakra": {"network.yml": RING_16},
}
"""What files of a format need beside them to make a whole problem; recognized as what they are."""

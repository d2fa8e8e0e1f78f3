"""48 GPUs at three sites, with links that differ by three orders of magnitude.

Training over links between 8 Mb/s and 10 Gb/s is what FusionLLM (Z. Tang et al., https://arxiv.org/abs/2410.12707)
is about; how its GPUs are distributed is not published, so that numbers, sizes and latencies are assumptions here.
"""

from generators.v100_cluster import RATE
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Kind, Network
from themis_opt.workloads.models import MODELS
from themis_opt.workloads.parallelisms import make_workload
from themis_opt.workloads.setup import Setup

SLOW_LINKS_FILE = "sites-48.resnet-101.json"

_RANGE = "of the range of https://arxiv.org/abs/2410.12707 (abstract)"


def sites() -> Network:
    """Three sites of four servers with four GPUs each."""
    node = Dimension(
        name="server",
        kind=Kind.SWITCH,
        size=4,
        bandwidth="10 GB/s",
        latency="5 us",
        source="bandwidth: PCIe 3.0, an assumption; latency: an assumption",
    )
    site = Dimension(
        name="site",
        kind=Kind.SWITCH,
        size=4,
        bandwidth="10 Gb/s",
        latency="50 us",
        source=f"bandwidth: the fastest {_RANGE}; latency: an assumption",
    )
    world = Dimension(
        name="world",
        kind=Kind.SWITCH,
        size=3,
        bandwidth="8 Mb/s",
        latency="20 ms",
        source=f"bandwidth: the slowest {_RANGE}; latency: an assumption",
    )
    return Network(
        name="Sites-48", dimensions=(node, site, world), source="https://arxiv.org/abs/2410.12707 (abstract)"
    )


def slow_iteration() -> Instance:
    """Data-parallel training of ResNet-101, without compression."""
    model = MODELS["resnet-101"]
    setup = Setup(network=sites(), timing=RATE, batch=32, element_bytes=4, granularity="fused")
    instance = make_workload(model, model.layers(), setup, chunks=4)
    description = (
        f"Layers: {model.source}. FP32, 32 samples on each GPU, times from operations at 60 % of 15.7 TFLOP/s (an "
        "assumption). The last dimension takes nearly all of the time: see --adaptive."
    )
    return instance.model_copy(update={"name": f"Sites-48 {model.title}", "description": description})

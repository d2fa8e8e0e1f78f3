"""One rank of a small training run: steps with plain DDP, then the same with a schedule; rank 0 prints the times.

The arguments are the NPUs in the order of their ranks: gloo's ring follows the ranks.
"""

import json
import os
import sys
from statistics import median
from time import monotonic

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.nn.parallel import DistributedDataParallel

from themis_opt import Collective, Dimension, Instance, Network, make_policy, simulate
from themis_opt.torch import ddp_hook

STEPS = 6
WIDTH = 512


def schedule():
    """Two dimensions, the second half as fast."""
    rates = ("100 Mb/s", "50 Mb/s")
    dimensions = tuple(Dimension(kind="switch", size=2, bandwidth=rate) for rate in rates)
    collective = Collective(kind="all_reduce", size="2 MiB", chunks=4, element_bytes=4)
    problem = Instance(network=Network(dimensions=dimensions), collectives=(collective,))
    return simulate(problem, make_policy("hourglass")(problem))


def train(hook):
    """Weights, and the median time of a step after the first."""
    torch.manual_seed(0)
    layers = [nn.Linear(WIDTH, WIDTH) for _ in range(3)]
    model = DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=2)
    if hook is not None:
        model.register_comm_hook(None, hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data, times = torch.Generator().manual_seed(distributed.get_rank()), []
    for _ in range(STEPS):
        began = monotonic()
        optimizer.zero_grad()
        model(torch.randn(8, WIDTH, generator=data)).square().mean().backward()
        optimizer.step()
        times.append(monotonic() - began)
    return torch.cat([weights.detach().reshape(-1) for weights in model.parameters()]), median(times[1:])


def main() -> None:
    """Be one rank, as torchrun starts it."""
    torch.set_num_threads(1)
    ranks = {int(npu): rank for rank, npu in enumerate(sys.argv[1:])}
    os.environ["RANK"] = str(ranks[int(os.environ["RANK"])])
    distributed.init_process_group("gloo")
    mesh = DeviceMesh("cpu", torch.tensor([ranks[npu] for npu in range(4)]).reshape(2, 2))
    (plain, plain_seconds), (hooked, hooked_seconds) = train(None), train(ddp_hook(schedule(), mesh))
    if distributed.get_rank() == 0:
        apart = float((plain - hooked).abs().max())
        print(
            json.dumps({"apart": apart, "plain_seconds": plain_seconds, "hooked_seconds": hooked_seconds}), flush=True
        )
    distributed.barrier()
    os._exit(0)


if __name__ == "__main__":
    main()

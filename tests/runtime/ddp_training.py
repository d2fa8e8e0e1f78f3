"""Train a small model on CPU ranks with plain DDP and with the hook; prints how far the weights are apart.

Run as a program, because ranks are copies of one process that has loaded everything.
"""

import json
import os
import sys
import tempfile

import torch
from programs import schedule
from torch import distributed, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.nn.parallel import DistributedDataParallel

from themis_opt.torch import ScheduledAllReduce, ddp_hook

STEPS = 5


def trained(planned, rank):
    """Weights after some steps, of a model whose gradients fill several buckets of odd sizes."""
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(37, 101), nn.ReLU(), nn.Linear(101, 7)), bucket_cap_mb=0.01)
    if planned is not None:
        model.register_comm_hook(None, ddp_hook(planned))
    optimizer, data = torch.optim.SGD(model.parameters(), lr=0.1), torch.Generator().manual_seed(rank)
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(torch.randn(8, 37, generator=data)).square().mean().backward()
        optimizer.step()
    return torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])


def summed(planned, rank, mesh=None):
    """Whether a tensor of whole numbers, laid out across memory, is added up exactly."""
    reduce = ScheduledAllReduce(planned, mesh)
    wide = torch.arange(60.0).reshape(5, 12)[:, ::2] + rank
    expected = 4 * torch.arange(60.0).reshape(5, 12)[:, ::2] + 6
    return bool((reduce(wide) == expected).all())


def rank_process(rank, store, planned):
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=4)
    plain, hooked = trained(None, rank), trained(planned, rank)
    ring = DeviceMesh("cpu", torch.tensor([[0, 1], [3, 2]]))
    exact = summed(planned, rank) and summed(planned, rank, ring)
    if rank == 0:
        print(
            json.dumps(
                {"apart": float((plain - hooked).abs().max()), "moved": float(plain.abs().max()), "exact": exact}
            )
        )
    distributed.barrier()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    planned = schedule("s2 r2", policy="hourglass", size=2**16, chunks=4)
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for number in range(4):
            child = os.fork()
            if child == 0:
                rank_process(number, f"{folder}/store", planned)
            children.append(child)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    sys.exit(max(map(abs, codes)))

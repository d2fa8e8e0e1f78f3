"""Train layers on two CPU ranks, sharded as a plan says and not at all; prints what was gathered when.

``fsdp_training.py PLAN``: run as a program, because ranks are copies of one process that has loaded everything.
"""

import json
import os
import sys
import tempfile

import torch
from torch import distributed, nn
from torch.distributed.fsdp._fully_shard._fsdp_param_group import FSDPParamGroup

from themis_opt.torch import apply_fsdp

STEPS, RANKS, WIDTH = 10, 2, 32


def made():
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(4)))


def trained(model, rank):
    optimizer, data = torch.optim.SGD(model.parameters(), lr=0.1), torch.Generator().manual_seed(rank)
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(torch.randn(8, WIDTH, generator=data)).square().mean().backward()
        if not isinstance(model, torch.distributed.fsdp.FSDPModule):
            for parameter in model.parameters():
                distributed.all_reduce(parameter.grad)
                parameter.grad /= RANKS
        optimizer.step()
        yield [p.full_tensor() if hasattr(p, "full_tensor") else p.detach().clone() for p in model.parameters()]


class Watch:
    """Names of what is gathered, in order, and the most bytes that are whole at once."""

    def __init__(self):
        self.gathered, self.whole, self.peak = [], {}, 0
        unshard, reshard = FSDPParamGroup.unshard, FSDPParamGroup._to_sharded

        def watched(group, *arguments, **options):
            before = group._all_gather_result
            unshard(group, *arguments, **options)
            if before is None and group._all_gather_result is not None:
                names = [parameter._param_fqn for parameter in group.fsdp_params]
                sizes = [parameter._orig_size.numel() * 4 for parameter in group.fsdp_params]
                self.gathered.append(names)
                self.whole[id(group)] = sum(sizes)
                self.peak = max(self.peak, sum(self.whole.values()))

        def freed(group):
            reshard(group)
            self.whole.pop(id(group), None)

        FSDPParamGroup.unshard, FSDPParamGroup._to_sharded = watched, freed


def rank_process(rank, store, plan):
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    plain = list(trained(made(), rank))[-1]
    watch = Watch()
    model, began, parameters = apply_fsdp(made(), plan), [], []
    for number, layer in enumerate(model):
        layer.register_forward_pre_hook(lambda *_, number=number: began.append((number, len(watch.gathered))))
    for weights in trained(model, rank):
        parameters = weights
        begins, gathered = began[:], watch.gathered[:]
        began.clear(), watch.gathered.clear()
    apart = max(float((one - other).abs().max()) for one, other in zip(plain, parameters, strict=True))
    if rank == 0:
        print(json.dumps({"apart": apart, "gathered": gathered, "begins": begins, "peak": watch.peak}))
    distributed.barrier()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        arguments = (f"{folder}/store", sys.argv[1])
        torch.multiprocessing.start_processes(rank_process, arguments, nprocs=RANKS, start_method="fork")

"""One rank of a pipeline in PyTorch: ``torch_ranks.py CSV PARTS STAGES MICROBATCHES`` prints losses and actions.

The losses of all microbatches are those of the whole model on one rank, where it is the last one that prints them.

THEMIS_OPT_SLEEP, seconds by the kind of an action and by its part, asks for one more step, which sleeps so long in
every action; its seconds are printed too.
"""

import json
import os
import re
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining import schedules as pipelining


def layer(number):
    torch.manual_seed(number)
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh())


def main():
    path, parts, stages, microbatches = sys.argv[1], *map(int, sys.argv[2:])
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo", init_method=os.environ["THEMIS_OPT_MEETING"], rank=rank, world_size=stages)
    cells = Path(path).read_text(encoding="utf-8").split()[rank].split(",")
    held = sorted({int(re.match(r"\d+", cell)[0]) for cell in cells})
    torch.manual_seed(99)
    batch, target = torch.randn(2 * microbatches, 8), torch.randn(2 * microbatches, 8)
    layers = {part: layer(part) for part in held}
    pieces = [PipelineStage(layers[part], part, parts, torch.device("cpu")) for part in held]
    ran, sleep = [], {}
    for piece in pieces:
        watch(piece, ran, sleep)
    loss = torch.nn.functional.mse_loss
    schedule = pipelining._PipelineScheduleRuntime(pieces, microbatches, loss, scale_grads=False)
    schedule._load_csv(path)
    losses = []

    def step():
        losses.clear()
        schedule.step(*([batch] if 0 in held else []), target=target if parts - 1 in held else None, losses=losses)

    step()
    whole = torch.nn.Sequential(*map(layer, range(parts)))
    expected = [loss(whole(x), y) for x, y in zip(batch.chunk(microbatches), target.chunk(microbatches), strict=True)]
    sum(expected).backward()
    same = all(
        torch.allclose(mine.grad, theirs.grad, atol=1e-6)
        for part in held
        for mine, theirs in zip(layers[part].parameters(), whole[part].parameters(), strict=True)
    )
    if parts - 1 in held:
        same &= torch.allclose(torch.stack(losses).flatten(), torch.stack(expected), atol=1e-6)
    everybody = [None] * stages
    answer = {"same": bool(same), "ran": list(ran)}
    if "THEMIS_OPT_SLEEP" in os.environ:
        sleep.update(json.loads(os.environ["THEMIS_OPT_SLEEP"]))
        dist.barrier()
        start = time.perf_counter()
        step()
        dist.barrier()
        answer["seconds"] = time.perf_counter() - start
    dist.all_gather_object(everybody, answer)
    if rank == 0:
        print(json.dumps(everybody))
    dist.destroy_process_group()


def watch(piece, ran, sleep):
    """Note which actions a part runs, in their order, and let each take as long as `sleep` says."""

    def noted(name, letter):
        run = getattr(piece, name)

        def call(microbatch, *arguments, **options):
            kind = letter if options.get("full_backward", True) else "I"
            ran.append(f"{piece.stage_index}{kind}{microbatch}")
            if kind in sleep:
                time.sleep(sleep[kind][piece.stage_index])
            return run(microbatch, *arguments, **options)

        setattr(piece, name, call)

    for name, letter in (("forward_one_chunk", "F"), ("backward_one_chunk", "B"), ("backward_weight_one_chunk", "W")):
        noted(name, letter)


if __name__ == "__main__":
    main()

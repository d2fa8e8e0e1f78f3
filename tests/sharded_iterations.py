"""Layers whose parameters are gathered before use and given up after it, small enough to solve by hand."""

from typing import Any

from small_iterations import iteration, tensor

from themis_opt.problem.instance import Instance


def sharded(*kilobytes: float, task: float = 10.0, **fields: Any) -> Instance:
    """Layers with some kB of parameters each, gathered and scattered in half as many microseconds as kB.

    Layer n computes in `forward n` and `backward n`, for `task` microseconds each, and is updated in no time.  The last
    one is gathered once, the others before both passes.
    """
    numbers = range(1, len(kilobytes) + 1)
    tasks = {f"forward{n}": task for n in numbers}
    tasks |= {f"backward{n}": task for n in reversed(numbers)} | {f"update{n}": 0.0 for n in reversed(numbers)}
    tensors = []
    for n, size in zip(numbers, kilobytes, strict=True):
        last, gather = n == len(kilobytes), {"kind": "all_gather"}
        freed = {"freed_after": f"backward{n}" if last else f"forward{n}"}
        tensors.append(tensor(f"parameters{n}", size, f"update{n}", f"forward{n}", **gather, **freed))
        if not last:
            freed = {"freed_after": f"backward{n}"}
            tensors.append(tensor(f"again{n}", size, f"forward{n}", f"backward{n}", **gather, **freed))
        tensors.append(tensor(f"gradients{n}", size, f"backward{n}", f"update{n}", kind="reduce_scatter"))
    return iteration(tasks, tensors, **fields)

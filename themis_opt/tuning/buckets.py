"""What a tuned launching policy is called in the framework that has it, and what other sizes of buckets would take."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from formulations.interruption import TimeUp
from themis_opt.base.allowance import Allowance, cut_off
from themis_opt.base.units import nanoseconds
from themis_opt.tuning.launching import USUAL_KNOBS

if TYPE_CHECKING:
    from themis_opt.tuning.outcome import Tuned
    from themis_opt.tuning.parameters import Choice

MIB = 2**20

# The knob that says how large buckets are, by launching policy
BUCKETS: Mapping[str, str] = {"ddp": "cap", "horovod": "buffer", "dear": "threshold"}
# What to know of the size of the first bucket
FIRST_BUCKET = "without effect where PyTorch gives the first bucket bucket_cap_mb too, as PyTorch 2.13 does"


def settings(choice: Choice) -> tuple[str, ...]:
    """Lines to paste: what a choice is called in PyTorch or Horovod; none for policies that neither has.

    ``bucket_cap_mb`` counts MiB, and in older versions of PyTorch the first bucket has a separate size beside it
    (https://pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html); Horovod reads bytes and
    milliseconds (https://horovod.readthedocs.io/en/stable/tensor-fusion_include.html).
    """
    match choice.get("launching"):
        case "ddp":
            line = f"model = DistributedDataParallel(model, bucket_cap_mb={int(choice['cap']) / MIB:.6g})"
            first = f"torch.distributed._DEFAULT_FIRST_BUCKET_BYTES = {choice['first_cap']}  # {FIRST_BUCKET}"
            return (line,) if choice["first_cap"] == choice["cap"] else (first, line)
        case "horovod":
            cycle = int(choice["cycle_us"]) / 1000
            return (f"export HOROVOD_FUSION_THRESHOLD={choice['buffer']} HOROVOD_CYCLE_TIME={cycle:g}",)
    return ()


def bucket_rows(tuned: Tuned) -> list[dict[str, Any]]:
    """The time of an iteration over the size of buckets, all else as it is best; none where there are no buckets.

    The best size is always among them, others while there is time.

    Returns ``bucket_bytes`` ascending, ``makespan_ns``, ``bound_ns`` and ``gap``; ``is_best`` where the choice has it.
    """
    knob = BUCKETS.get(str(tuned.choice.get("launching")), "")
    if knob not in tuned.choice:
        return []
    (bound,) = tuned.space.proven
    best, usual = int(tuned.choice[knob]), int(USUAL_KNOBS[knob])
    rows = []
    for size in _points(tuned, knob, {best, usual}):
        limit = Allowance(math.inf) if size == best else tuned.allowance
        try:
            with cut_off(limit):
                time = tuned.space.measure({**tuned.choice, knob: size}, 0).makespan
        except TimeUp:
            continue
        figures = {"makespan_ns": nanoseconds(time), "bound_ns": nanoseconds(bound), "gap": time / bound - 1}
        rows.append({"bucket_bytes": size} | figures | {"is_best": size == best})
    return rows


def _points(tuned: Tuned, knob: str, kept: set[int]) -> list[int]:
    """Sizes that can be chosen, evenly spread on their logarithmic scale, with those to be kept."""
    sizes = next(parameter.values for parameter in tuned.space.parameters if parameter.name == knob)
    numbers = [int(size) for size in sizes]
    step = max(1, -(-len(numbers) // 16))  # so many on a curve
    return sorted(kept | set(numbers[::step]))

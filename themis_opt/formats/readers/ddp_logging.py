"""The log of PyTorch DistributedDataParallel: buckets of gradients, and average times.

The dict of ``_get_ddp_logging_data()`` as JSON or as Python prints it, or the lines ``key: value`` that
``TORCH_DISTRIBUTED_DEBUG=INFO`` prints.  ``bucket_sizes``, or ``rebuilt_bucket_sizes`` where buckets were rebuilt,
are bytes in the order in which gradients are reduced; times are nanoseconds.
Source: https://github.com/pytorch/pytorch, ``torch/csrc/distributed/c10d/logger.cpp`` (PyTorch 2.13).
"""

import ast
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from themis_opt.base.sources import Source
from themis_opt.base.units import PICOSECONDS_PER_NANOSECOND, format_percent, format_short_time
from themis_opt.formats.readers.draft import Draft, needs_network
from themis_opt.formats.readers.parts import Machine, Part, Reader, only, row_read
from themis_opt.problem.fields import MAX_BYTES
from themis_opt.problem.instance import Instance
from themis_opt.problem.iteration import MAX_TENSORS
from themis_opt.problem.phases import CollectiveKind

PASS_TIMES = ("avg_forward_compute_time", "avg_backward_compute_time")
COMMUNICATION = ("avg_backward_comm_time", "avg_backward_compute_comm_overlap_time")
MAX_LITERAL = 2**20
BUCKETS_IN_ORDER = "wait_free:barrier=true/baseline"  # the optimizer waits for all
NAME = re.compile(r"[a-z_0-9]{1,100}")


def _recognizes(source: Source) -> bool:
    return "bucket_sizes" in source.head and "world_size" in source.head


def _read(sources: Sequence[Source]) -> Part:
    source = only(sources, "log of DDP")
    given = _pairs(source)
    source.check_keys(given, given, ("world_size", "bucket_sizes", *PASS_TIMES))
    sizes = _sizes(source, given)
    forward, backward = (_whole(source, given[name], name, most=10**15) for name in PASS_TIMES)
    if not backward:
        rule = "must be more than 0: DDP samples times from some iterations only, so log after some hundred"
        raise source.error(rule, PASS_TIMES[1], backward)
    ranks = _whole(source, given["world_size"], "world_size", most=10**9)

    def build(machine: Machine | None) -> Instance:
        checked = needs_network(source, machine)
        if checked.network.num_npus != ranks:
            raise source.error(f"must be the NPUs of the network, {checked.network.num_npus}", "world_size", ranks)
        return _built(source, sizes, forward, backward, checked)

    note = "DDP: the backward pass is divided among buckets by their bytes; no time of the optimizer is logged."
    span = f"{format_short_time((forward + backward) * PICOSECONDS_PER_NANOSECOND)} of compute"
    read = [row_read("all_reduce of buckets", len(sizes), ranks, sum(sizes), span), row_read("left out: optimizer", 1)]
    tables = {"read": read} | _tables(source, given, forward + backward)
    return Part(workload=build, notes=(note,), tables=tables)


def _pairs(source: Source) -> dict[str, Any]:
    """The values by name, from any of the three forms."""
    if not source.head.lstrip().startswith("{"):
        pairs = [line.split(":", 1) for _, line in source.lines if ":" in line]
        return {name.strip(): value.strip() for name, value in pairs if NAME.fullmatch(name.strip())}
    if isinstance(source.document, dict):
        return dict(source.document)
    if len(source.data) > MAX_LITERAL:
        raise source.error(f"must be at most {MAX_LITERAL // 2**10} KiB")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes in strings, which are nothing to a user of the file
            value = ast.literal_eval(source.text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        raise source.error("must be a dict as Python or JSON writes it") from None
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise source.error("must be a dict with names")
    return value


def _whole(source: Source, value: object, name: str, most: int = MAX_BYTES) -> int:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,18}", value):
        value = int(value)
    return source.whole(value, name, most=most)


def _sizes(source: Source, given: Mapping[str, Any]) -> list[int]:
    rebuilt = str(given.get("has_rebuilt_buckets", 0)) in ("1", "True", "true") and given.get("rebuilt_bucket_sizes")
    name = "rebuilt_bucket_sizes" if rebuilt else "bucket_sizes"
    value = given[name]
    words = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else [value]
    if len(words) > MAX_TENSORS:
        raise source.error(f"must be at most {MAX_TENSORS} buckets", name, len(words))
    sizes = [_whole(source, word.strip() if isinstance(word, str) else word, name) for word in words]
    if not all(sizes):
        raise source.error("must be more than 0 bytes each", name, value)
    return sizes


def _tables(source: Source, given: Mapping[str, Any], compute: int) -> dict[str, list[dict[str, str]]]:
    if not all(name in given for name in COMMUNICATION):
        return {}
    busy, hidden = (_whole(source, given[name], name, most=10**15) for name in COMMUNICATION)
    if hidden > busy:
        raise source.error(f"must be at most {COMMUNICATION[0]}, {busy}", COMMUNICATION[1], hidden)
    exposed = busy - hidden
    whole = compute + exposed
    rows = {"compute": compute, "communication": busy, "communication exposed": exposed}
    table = [
        {
            "quantity": name,
            "time": format_short_time(time * PICOSECONDS_PER_NANOSECOND),
            "share": format_percent(time / max(whole, 1)),
        }
        for name, time in rows.items()
    ]
    return {"logged averages": table}


def _built(source: Source, sizes: Sequence[int], forward: int, backward: int, machine: Machine) -> Instance:
    draft = Draft(source)
    first = draft.compute("forward", forward * PICOSECONDS_PER_NANOSECOND)
    total, done = sum(sizes), 0
    for number, size in enumerate(sizes, start=1):
        start = backward * PICOSECONDS_PER_NANOSECOND * done // total
        done += size
        end = backward * PICOSECONDS_PER_NANOSECOND * done // total
        task = draft.compute(f"backward {number}", end - start)
        draft.exchange(f"bucket {number}", CollectiveKind.ALL_REDUCE, size, (task, first), None)
    return draft.instance(f"{machine.network.name or 'network'} DDP", machine, launching=BUCKETS_IN_ORDER)


READER = Reader("log of PyTorch DistributedDataParallel", (), _recognizes, _read)

"""NVIDIA's example tuner plugin, compiled and asked, chooses what ``--check`` says of a file.

``THEMIS_OPT_NCCL=CHECKOUT python -m pytest -m benchmarks benchmarks/test_tuner_plugin.py -s``, with a checkout of
https://github.com/NVIDIA/nccl, prints how many calls were asked.
"""

import ctypes
import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from reader_samples import nccl_table

from themis_opt.formats.exports import export, make_exporter
from themis_opt.formats.nccl_tuner import PROTOCOLS, TUNER_ALGORITHMS, TUNER_DIALECTS, chosen, read_rules
from themis_opt.policies.registry import make_policy
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Network
from themis_opt.schedules.simulator import simulate

pytestmark = pytest.mark.benchmarks

COLLECTIVES = ("broadcast", "reduce", "allgather", "reducescatter", "allreduce")
"""Their numbers in the interface of plugins."""

SIZES = tuple(2**k for k in range(9, 33))
WAYS = ("tree.ll", "tree.simple", "ring.ll", "ring.ll128", "ring.simple")
FILES = 20


class Plugin(ctypes.Structure):
    """Version 5 of the interface."""

    _fields_ = [(name, ctypes.c_char_p if name == "name" else ctypes.c_void_p)
                for name in ("name", "init", "ask", "finalize")]  # fmt: skip


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    checkout = os.environ.get("THEMIS_OPT_NCCL")
    if checkout is None or shutil.which("gcc") is None:
        pytest.skip("needs gcc, and a checkout of NCCL in THEMIS_OPT_NCCL")
    source, library = Path(checkout) / "plugins/tuner/example", tmp_path_factory.mktemp("plugin") / "plugin.so"
    words = ["gcc", "-shared", "-fPIC", f"-I{source / 'nccl'}", "-o", str(library), str(source / "plugin.c")]
    subprocess.run(words, check=True)
    return Plugin.in_dll(ctypes.CDLL(str(library)), "ncclTunerPlugin_v5")


def ask(plugin, path, calls):
    """The algorithm, protocol and channels of each call of a collective, bytes, nodes and ranks."""
    os.environ["NCCL_TUNER_CONFIG_FILE"] = str(path)
    size, pointer, whole = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int
    init = ctypes.CFUNCTYPE(whole, pointer, ctypes.c_uint64, size, size, pointer, pointer, pointer)(plugin.init)
    asked = ctypes.CFUNCTYPE(whole, pointer, whole, size, whole, pointer, whole, whole, whole, pointer)(plugin.ask)
    contexts = {}
    for collective, count, nodes, ranks in calls:
        if (nodes, ranks) not in contexts:
            contexts[nodes, ranks] = ctypes.c_void_p()
            assert init(ctypes.byref(contexts[nodes, ranks]), 0, ranks, nodes, None, None, None) == 0
        costs, channels = (ctypes.c_float * 21)(*[1.0] * 21), ctypes.c_int()
        number, context = COLLECTIVES.index(collective), contexts[nodes, ranks]
        assert asked(context, number, count, 1, costs, 7, 3, 0, ctypes.byref(channels)) == 0
        way = [divmod(place, 3) for place, cost in enumerate(costs) if cost == 0.0]
        yield (*((TUNER_ALGORITHMS[a], PROTOCOLS[p]) for a, p in way), channels.value)


def test_the_plugin_chooses_what_the_check_says(plugin, tmp_path):
    dimensions = tuple(Dimension(kind="switch", size=size, bandwidth="200 GB/s", latency="1 us") for size in (4, 2))
    collective = {"kind": "all_reduce", "size": "1 MiB", "chunks": 4}
    instance = Instance(network=Network(dimensions=dimensions), collectives=(collective,))
    schedule, total = simulate(instance, make_policy("baseline")(instance)), 0
    for seed in range(FILES):
        generator, logs = random.Random(seed), tmp_path / f"logs{seed}"
        logs.mkdir()
        for program in ("all_reduce", "all_gather", "reduce_scatter"):
            for way in WAYS:
                start, rate = generator.uniform(5, 80), generator.uniform(0.05, 0.4)
                rows = [(size, time := start + size / rate / 1e6, time) for size in SIZES]
                text = nccl_table(rows, program=f"{program}_perf", ranks=8)
                (logs / f"{program}.{way}.txt").write_text(text)
        to = f"nccl-tuner:logs={logs}:channels={generator.randrange(2, 32)}"
        (path,) = export(schedule, to, tmp_path / f"out{seed}")
        assert list(make_exporter(to).check(schedule, path.parent))
        rules = read_rules(path, TUNER_DIALECTS["nccl"])
        calls = [
            (name, size + shift, nodes, ranks)
            for name in COLLECTIVES
            for size in (1, *SIZES, 2**40)
            for shift in (-1, 0, 1)
            for nodes, ranks in ((2, 8), (1, 8), (4, 16))
        ]
        for call, answer in zip(calls, ask(plugin, path, calls), strict=True):
            rule = chosen(rules, *call)
            assert answer == (tuple(rule.choice), rule.channels)
        total += len(calls)
    print(f"{total:,} calls of {FILES} files: the plugin chooses what the check says")

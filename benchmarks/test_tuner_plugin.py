"""NVIDIA's example tuner plugin and RCCL's reader, compiled and asked, choose what ``--check`` says of a file.

``THEMIS_OPT_NCCL=CHECKOUT THEMIS_OPT_ROCM=CHECKOUT python -m pytest -m benchmarks benchmarks/test_tuner_plugin.py -s``,
with checkouts of https://github.com/NVIDIA/nccl and https://github.com/ROCm/rocm-systems, prints how many calls were
asked.
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


TUNERS = {
    "nccl": ("THEMIS_OPT_NCCL", "gcc", "plugins/tuner/example/plugin.c"),
    "rccl": ("THEMIS_OPT_ROCM", "g++", "projects/rccl/src/plugin/tuner/csv_tuner.cc"),
}
"""Where the checkout is, the compiler, and the file of each reader."""


class Plugin(ctypes.Structure):
    """Version 5 of the interface."""

    _fields_ = [(name, ctypes.c_char_p if name == "name" else ctypes.c_void_p)
                for name in ("name", "init", "ask", "finalize")]  # fmt: skip


RCCL_NAMES = r"""
#pragma once
#include <cstddef>
#include <cstdint>
#include <strings.h>
typedef enum { ncclSuccess, ncclSystemError, ncclInternalError } ncclResult_t;
typedef enum { ncclFuncBroadcast, ncclFuncReduce, ncclFuncAllGather, ncclFuncReduceScatter, ncclFuncAllReduce }
  ncclFunc_t;
enum { NCCL_ALGO_TREE, NCCL_ALGO_RING, NCCL_ALGO_COLLNET_DIRECT, NCCL_ALGO_COLLNET_CHAIN, NCCL_ALGO_NVLS,
  NCCL_ALGO_NVLS_TREE, NCCL_ALGO_PAT };
enum { NCCL_PROTO_LL, NCCL_PROTO_LL128, NCCL_PROTO_SIMPLE, NCCL_NUM_PROTOCOLS };
enum { NCCL_LOG_WARN, NCCL_LOG_INFO, NCCL_LOG_TRACE, NCCL_TUNING };
enum { RCCL_PARTITION_MODE_UNKNOWN, RCCL_PARTITION_MODE_SPX, RCCL_PARTITION_MODE_CPX };
#define NCCL_ALGO_PROTO_IGNORE -1.0
#define RCCL_PARAM(name, variable, usual) static int64_t rcclParam##name() { return usual; }
typedef void (*ncclDebugLogger_t)(int, unsigned long, const char*, int, const char*, ...);
typedef struct { int nNvlDomains; } ncclNvlDomainInfo_t;
typedef struct { int unused; } ncclTunerConstants_t;
static int rcclTopoDetectPartitionMode(int*) { return 0; }
struct RcclEmbeddedTunerConfig { const char *name, *content; };
static const RcclEmbeddedTunerConfig kRcclEmbeddedTunerConfigs[] = {{nullptr, nullptr}};
typedef struct {
  const char* name;
  ncclResult_t (*init)(void**, uint64_t, size_t, size_t, ncclDebugLogger_t, ncclNvlDomainInfo_t*,
    ncclTunerConstants_t*);
  ncclResult_t (*getCollInfo)(void*, ncclFunc_t, size_t, int, float**, int, int, int, int*);
  ncclResult_t (*finalize)(void*);
} ncclTuner_t;
"""
RCCL_HEADERS = (
    "checks.h", "debug.h", "tuner.h", "nccl_tuner.h", "param.h", "graph/topo.h", "rccl_tuner_embedded_configs.h",
)  # fmt: skip
"""What RCCL's reader includes of the rest of RCCL: a few names."""


@pytest.fixture(scope="module", params=TUNERS)
def tuner(request, tmp_path_factory):
    """The dialect of a reader, and its tuner."""
    variable, compiler, path = TUNERS[request.param]
    checkout = os.environ.get(variable)
    if checkout is None or shutil.which(compiler) is None:
        pytest.skip(f"needs {compiler}, and a checkout in {variable}")
    source, folder = Path(checkout) / path, tmp_path_factory.mktemp("plugin")
    for name in RCCL_HEADERS if compiler == "g++" else ():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(RCCL_NAMES)
    places, library = [f"-I{folder}", f"-I{source.parent / 'nccl'}"], folder / "plugin.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-w", *places, "-o", library, source, "-ldl"], check=True)
    symbol = "rcclCsvTuner" if compiler == "g++" else "ncclTunerPlugin_v5"
    return request.param, Plugin.in_dll(ctypes.CDLL(str(library)), symbol)


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


def test_the_reader_chooses_what_the_check_says(tuner, tmp_path):
    dialect, plugin = tuner
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
        channels = generator.choice((0, 2, 31)) if dialect == "rccl" else generator.randrange(2, 32)
        to = f"nccl-tuner:logs={logs}:channels={channels}:dialect={dialect}"
        (path,) = export(schedule, to, tmp_path / f"out{seed}")
        assert list(make_exporter(to).check(schedule, path.parent))
        rules = read_rules(path, TUNER_DIALECTS[dialect])
        calls = [
            (name, size + shift, nodes, ranks)
            for name in COLLECTIVES
            for size in (1, *SIZES, 2**40)
            for shift in (-1, 0, 1)
            for nodes, ranks in ((2, 8), (1, 8), (4, 16))
        ]
        for call, answer in zip(calls, ask(plugin, path, calls), strict=True):
            rule = chosen(rules, *call)
            assert answer == ((tuple(rule.choice), max(rule.channels, 0)) if rule else (0,))
        total += len(calls)
    print(f"{total:,} calls of {FILES} files: the reader of {dialect} chooses what the check says")

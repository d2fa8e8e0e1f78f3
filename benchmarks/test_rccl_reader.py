"""The reader of RCCL, compiled, holds what an MSCCL file says, whose time is that of the schedule.

``THEMIS_OPT_RCCL=CHECKOUT python -m pytest -m benchmarks benchmarks/test_rccl_reader.py -s``, with a checkout of
https://github.com/ROCm/rccl, whose reader stands in ``src/misc/msccl``.  Neither a GPU nor HIP is needed.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from themis_opt.formats.exports import Replay, export, make_exporter
from themis_opt.formats.msccl.algorithm import ThreadBlock, from_xml
from themis_opt.policies.registry import make_policy
from themis_opt.problem.instance import Instance
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.simulator import simulate

pytestmark = [pytest.mark.benchmarks, pytest.mark.timeout(1200)]

HEADER = r"""
#pragma once
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
typedef enum { ncclSuccess, ncclSystemError, ncclInternalError, ncclInvalidUsage } ncclResult_t;
typedef void *ncclComm_t, *hipStream_t, *hipGraph_t;
typedef int ncclDataType_t, ncclRedOp_t, mscclAlgoHandle_t;
#define MAXCHANNELS 128
#define NCCL_STEPS 8
enum { NCCL_PROTO_LL, NCCL_PROTO_LL128, NCCL_PROTO_SIMPLE };
enum { REDUCE_CHUNKSTEPS, REDUCE_SLICESTEPS, BROADCAST_CHUNKSTEPS, BROADCAST_SLICESTEPS, ALLREDUCE_CHUNKSTEPS,
  ALLREDUCE_SLICESTEPS, REDUCESCATTER_CHUNKSTEPS, REDUCESCATTER_SLICESTEPS, ALLGATHER_CHUNKSTEPS,
  ALLGATHER_SLICESTEPS };
#define WARN(...) (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr))
#define INFO(...)
#define NCCLCHECK(call) do { ncclResult_t r = call; if (r != ncclSuccess) return r; } while (0)
template <typename T> ncclResult_t ncclCalloc(T** p, size_t n) {
  *p = (T*)calloc(n, sizeof(T));
  return *p ? ncclSuccess : ncclSystemError;
}
"""
HEADERS = ("core.h", "collectives.h", "nccl.h", "debug.h", "checks.h", "device.h")
"""What the reader includes of the rest of RCCL: a few names."""

MAIN = r"""
#include "core.h"
#include "msccl/msccl_parser.h"
int main(int count, char** words) {
  mscclAlgo* algo = new mscclAlgo;
  if (mscclGetAlgoFromXmlFile(words[1], algo, atoi(words[2])) != ncclSuccess) return 1;
  for (int b = 0; b < algo->nBlocks; b++) {
    mscclThreadBlock& block = algo->mscclTBs[b];
    for (int s = 0; s < block.nSteps; s++) {
      mscclTransmission& step = block.transmissions[s];
      printf("[%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,[", b, block.sendPeer, block.recvPeer, block.channelId, step.type,
        step.srcBuffer, step.srcOffset, step.dstBuffer, step.dstOffset, step.count, step.hasDependence);
      for (int d = 0; d < step.numDependencies; d++) {
        int place = step.dependencePointer + d;
        printf("%s[%d,%d]", d ? "," : "", block.dependentBid[place], block.dependentStep[place]);
      }
      puts("]]");
    }
  }
}
"""
TYPES = ("s", "r", "rcs", "rrs", "rrc", "rrcs", "cpy")
"""Steps by their numbers; sums within a GPU are fused, and no export has them."""

KINDS = [kind for kind in CollectiveKind if kind is not CollectiveKind.SEND]


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    checkout = os.environ.get("THEMIS_OPT_RCCL")
    if checkout is None or shutil.which("g++") is None:
        pytest.skip("needs g++, and a checkout of RCCL in THEMIS_OPT_RCCL")
    folder, source = tmp_path_factory.mktemp("reader"), Path(checkout) / "src"
    for name in HEADERS:
        (folder / name).write_text(HEADER)
    (folder / "main.cc").write_text(MAIN)
    words = ["g++", "-O1", "-w", f"-I{folder}", f"-I{source / 'include'}", "-o", str(folder / "reader")]
    subprocess.run([*words, str(folder / "main.cc"), str(source / "misc/msccl/msccl_parser.cc")], check=True)
    return folder / "reader"


def written(block: ThreadBlock) -> Iterator[list]:
    """The steps of a threadblock as the reader has to hold them: waits of a ``nop`` belong to the step behind it."""
    waits = []
    for step in block.steps:
        waits += [[step.depid, step.deps]] if step.depid >= 0 else []
        if step.type != "nop":
            buffers = ("ios".index(step.srcbuf), step.srcoff, "ios".index(step.dstbuf), step.dstoff)
            ends = (block.id, block.send, block.recv, block.chan)
            yield [*ends, TYPES.index(step.type), *buffers, step.cnt, step.hasdep, waits]
            waits = []


@pytest.mark.parametrize("policy", ["themis+scf", "hourglass"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_reader_holds_what_was_written(reader, tmp_path, kind, policy):
    shapes = (("fully_connected", 4, "150 GB/s"), ("switch", 2, "25 GB/s"))
    dimensions = [{"kind": k, "size": size, "bandwidth": rate, "latency": "1 us"} for k, size, rate in shapes]
    collective = {"kind": kind.value, "size": "8 MiB", "chunks": 4}
    instance = Instance.model_validate({"network": {"dimensions": dimensions}, "collectives": [collective]})
    schedule, steps = simulate(instance, make_policy(policy)(instance)), 0
    to = "msccl:dialect=rccl"
    paths = export(schedule, to, tmp_path)
    for path in paths:
        for gpu in from_xml(path.read_text(), path.name).gpus:
            answer = subprocess.run([reader, path, str(gpu.id)], capture_output=True, text=True, check=True).stdout
            read = [json.loads(line) for line in answer.splitlines()]
            assert read == [step for block in gpu.threadblocks for step in written(block)]
            steps += len(read)
    (time,) = (fact for fact in make_exporter(to).check(schedule, tmp_path) if isinstance(fact, Replay))
    print(
        f"\n| {kind.value} | {policy} | {steps} steps read | by the rules of RCCL {time.took / 1e6:.2f} us | "
        f"schedule {time.planned / 1e6:.2f} us |"
    )

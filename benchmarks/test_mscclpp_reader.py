"""The reader of MSCCL++, compiled, holds what a plan says, whose time is that of the schedule.

``THEMIS_OPT_MSCCLPP=CHECKOUT python -m pytest -m benchmarks benchmarks/test_mscclpp_reader.py -s``, with a checkout of
https://github.com/microsoft/mscclpp and Debian's ``nlohmann-json3-dev``.  Neither a GPU nor CUDA is needed.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from themis_opt.formats.exports import Replay, export, make_exporter
from themis_opt.policies.registry import make_policy
from themis_opt.problem.instance import Instance
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.simulator import simulate

pytestmark = [pytest.mark.benchmarks, pytest.mark.timeout(1200)]

CUDA = r"""
#pragma once
#include <cstddef>
#include <cstdint>
typedef int cudaError_t, CUresult, cudaMemcpyKind, cudaStreamCaptureMode;
typedef void *cudaStream_t, *cudaEvent_t, *cudaGraph_t, *cudaGraphExec_t;
typedef unsigned long long CUdeviceptr, CUmemGenericAllocationHandle;
enum { cudaSuccess, cudaMemcpyDefault, cudaHostAllocMapped };
inline int cudaGetDevice(int*) { return 0; }
namespace mscclpp { enum class DataType { UINT8 }; }
"""
STUBS = {
    "cuda_runtime.h": CUDA,
    **dict.fromkeys(("cuda.h", "cuda_fp16.h", "cuda_runtime_api.h"), "#include <cuda_runtime.h>\n"),
    "mscclpp/version.hpp": "#define MSCCLPP_VERSION 0\n#define MSCCLPP_MAJOR 0\n#define MSCCLPP_MINOR 0\n",
    "main.cc": r"""
#include <nlohmann/json.hpp>
#define private public
#include "execution_plan.hpp"
namespace mscclpp {
BaseError::BaseError(int code) : std::runtime_error(""), errorCode_(code) {}
const char* BaseError::what() const noexcept { return message_.c_str(); }
Error::Error(const std::string& message, ErrorCode code) : BaseError((int)code) { message_ = message; }
}
int main(int count, char** words) {
  mscclpp::ExecutionPlan::Impl plan(words[1], atoi(words[2]));
  plan.loadExecutionPlan(atoll(words[3]), atoll(words[4]), 0, 0);
  for (int b = 0; b < plan.getThreadblockCount(); b++)
    for (auto& op : plan.getOperations(b)) {
      printf("[%d,%d,%d", b, (int)op.type, op.nChannels);
      for (int i = 0; i < op.nInputs; i++) printf(",[%u,%u]", op.inputOffsets[i], op.inputBufferSizes[i]);
      for (int i = 0; i < op.nOutputs; i++) printf(",[%u,%u]", op.outputOffsets[i], op.outputBufferSizes[i]);
      puts("]");
    }
}
""",
}
"""What the reader includes of CUDA and of the build, and a program that prints what it holds."""

NUMBERS = {"nop": 0, "put": 2, "pwsf": 6, "copy": 8, "signal": 11, "wait": 12, "re": 14}
UNIT = 2**16
"""Bytes of a unit."""

KINDS = [kind for kind in CollectiveKind if kind is not CollectiveKind.SEND]


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    checkout = os.environ.get("THEMIS_OPT_MSCCLPP")
    if checkout is None or shutil.which("g++") is None:
        pytest.skip("needs g++, and a checkout of MSCCL++ in THEMIS_OPT_MSCCLPP")
    folder, source = tmp_path_factory.mktemp("reader"), Path(checkout)
    for name, text in STUBS.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    places = [f"-I{place}" for place in (folder, source / "include", source / "src/core/include")]
    words = [
        "g++",
        "-std=c++17",
        "-w",
        "-DMSCCLPP_GPU_DATA_TYPES_HPP_",
        "-include",
        str(folder / "cuda_runtime.h"),
        *places,
    ]
    parts = [source / "src/core/executor/execution_plan.cc", folder / "main.cc"]
    subprocess.run([*words, *map(str, parts), "-o", str(folder / "reader")], check=True)
    return folder / "reader"


def regions(op):
    """Offsets and sizes in bytes of what an operation reads and writes."""
    parts = [*op.get("src_buff", ()), *op.get("dst_buff", ())]
    return [[UNIT * part["index"], UNIT * part["size"]] for part in parts]


@pytest.mark.parametrize("policy", ["themis+scf", "hourglass"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_reader_holds_what_was_written(reader, tmp_path, kind, policy):
    shapes = (("fully_connected", 4, "150 GB/s"), ("switch", 2, "25 GB/s"))
    dimensions = [{"kind": k, "size": size, "bandwidth": rate, "latency": "1 us"} for k, size, rate in shapes]
    collective = {"kind": kind.value, "size": "8 MiB", "chunks": 4}
    instance = Instance.model_validate({"network": {"dimensions": dimensions}, "collectives": [collective]})
    schedule, count = simulate(instance, make_policy(policy)(instance)), 0
    (path,) = export(schedule, "mscclpp", tmp_path)
    for gpu in json.loads(path.read_text())["gpus"]:
        sizes = [str(UNIT * gpu[f"{side}_chunks"]) for side in ("input", "output")]
        answer = subprocess.run([reader, path, str(gpu["id"]), *sizes], capture_output=True, text=True, check=True)
        written = [
            [block["id"], NUMBERS[op["name"]], len(op.get("channel_ids", ())), *regions(op)]
            for block in gpu["threadblocks"]
            for op in block["ops"]
        ]
        assert [json.loads(line) for line in answer.stdout.splitlines()] == written
        count += len(written)
    (time,) = (fact for fact in make_exporter("mscclpp").check(schedule, tmp_path) if isinstance(fact, Replay))
    print(f"\n| {kind.value} | {policy} | {count} operations read | by the rules of MSCCL++ {time.took / 1e6:.2f} us | "
          f"schedule {time.planned / 1e6:.2f} us |")  # fmt: skip

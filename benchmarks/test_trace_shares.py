"""Shares of compute, communication, overlap and idle are those of Holistic Trace Analysis on its public traces.

``THEMIS_OPT_HTA=CHECKOUT THEMIS_OPT_HTA_PYTHON=PYTHON python -m pytest -m benchmarks benchmarks/test_trace_shares.py``,
with a checkout of https://github.com/facebookresearch/HolisticTraceAnalysis, and a Python with its package and psutil,
in which rounding to microseconds is switched off.

Traces with kernels that no call of the trace launches are not among these: such kernels count here alone.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from themis_opt.base.sources import Source
from themis_opt.formats.readers.kineto import read_trace
from themis_opt.formats.readers.traced_step import gpu_shares

pytestmark = [pytest.mark.benchmarks, pytest.mark.timeout(1200)]

CHECKOUT, PYTHON = os.environ.get("THEMIS_OPT_HTA"), os.environ.get("THEMIS_OPT_HTA_PYTHON")
TRACES = ("nccl_parser_config/nccl_data", "timeline_analysis/sampled_rank-0", "trace_filter/sampled_rank-1")
PROGRAM = """
import json, sys
from hta.trace_analysis import TraceAnalysis
trace = TraceAnalysis(trace_files={0: sys.argv[1]}, include_last_profiler_step=True)
times, overlap = trace.get_temporal_breakdown(visualize=False), trace.get_comm_comp_overlap(visualize=False)
names = {"idle": "idle_time_pctg", "compute": "compute_time_pctg", "other": "non_compute_time_pctg"}
shares = {name: float(times.iloc[0][column]) for name, column in names.items()}
print(json.dumps(shares | {"overlap": float(overlap.iloc[0]["comp_comm_overlap_pctg"])}))
"""


@pytest.mark.skipif(CHECKOUT is None or PYTHON is None, reason="needs a checkout and a Python with the package")
@pytest.mark.parametrize("name", TRACES)
def test_shares_are_equal(name):
    path = Path(str(CHECKOUT)) / "tests/data" / f"{name}.json.gz"
    environment = os.environ | {"HTA_DISABLE_NS_ROUNDING": "1"}
    run = subprocess.run([PYTHON, "-c", PROGRAM, path.resolve()], env=environment, capture_output=True, check=True)
    published = json.loads(run.stdout.splitlines()[-1])
    shares = {name: round(100 * share, 2) for name, share in gpu_shares(read_trace(Source(path))).items()}
    print(name, shares)
    assert shares == pytest.approx(published, abs=0.011)

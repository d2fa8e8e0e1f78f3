"""Set-ups of docs/systems.md that stand beside published steps: each takes what the table says."""

import json
from pathlib import Path

import pytest

from themis_opt import compare, load, workload

pytestmark = [pytest.mark.benchmarks, pytest.mark.timeout(0)]

ROOT = Path(__file__).parents[1]
TABLE = (ROOT / "docs/systems.md").read_text().split("Published steps beside ours")[1].split("## Experts")[0]
H100, A100 = "dgx_h100_superpod.all_reduce.1GiB", "dgx_a100_superpod.all_reduce.1GiB"
H800 = str(ROOT / "reports/training/h800-2048.json")
META = {"group": 8, "stages": 16, "microbatches": 16, "batch": 16, "zero": 2}
TITAN = {"group": 8, "stages": 8, "zero": 2, "recompute": True}
TITAN_5, TITAN_6 = TITAN | {"microbatches": 32, "batch": 32}, TITAN | {"microbatches": 8, "batch": 8}
DEEPSEEK = {"stages": 16, "experts": 64, "microbatches": 60, "batch": 120, "zero": 1}
MIXTRAL = {"group": 2, "experts": 8, "batch": 16, "zero": 1, "sequence": 2048}
OLMO = {"parallelism": "fsdp", "batch": 2, "sequence": 4096}
FMS = {"parallelism": "hsdp", "sequence": 4096, "device": "a100"}
FMS_70B = FMS | {"parallelism": "fsdp", "batch": 6, "recompute": True}


def config(family, vocabulary, layers, hidden, heads, groups, inner):
    """The `config.json` of a decoder."""
    sizes = {"num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads, "vocab_size": vocabulary}
    return json.dumps(sizes | {"model_type": family, "num_key_value_heads": groups, "intermediate_size": inner})


SETUPS = [
    *(("llama-3-405b", H100, (8, 2048), META | {"virtual_stages": v}, 0, s) for v, s in ((1, "11.67"), (8, "7.40"))),
    *(
        ("llama-3-405b", H100, (8, 64), TITAN_5 | {"data": 8, "virtual_stages": v}, 32 * 8192 / 64, rate)
        for v, rate in ((1, "119"), (8, "143"))
    ),
    *(
        ("llama-3-405b", H100, (8, 64), TITAN_6 | {"context": c, "data": 8 // c, "sequence": 32_768 * c}, 4096, rate)
        for c, rate in ((1, "72.6"), (2, "64.3"), (4, "52.2"), (8, "38.1"))
    ),
    ("deepseek-v3", H800, (8, 256), DEEPSEEK, 0, "31.26"),
    ("deepseek-v3", H800, (8, 256), DEEPSEEK | {"schedule": "dualpipe"}, 0, "20.73"),
    ("mixtral-8x7b", H100, (8, 2), MIXTRAL, 0, "2.56"),
    (config("olmo2", 100_352, 32, 4096, 32, 32, 11_008), H100, None, OLMO, 8192, "13,200"),
    (config("olmo2", 100_352, 40, 5120, 40, 40, 13_824), H100, None, OLMO, 8192, "7,000"),
    (config("llama", 32_000, 32, 4096, 32, 32, 11_008), A100, None, FMS | {"batch": 2}, 8192, "4360"),
    (config("llama", 32_000, 40, 5120, 40, 40, 13_824), A100, None, FMS | {"batch": 1}, 4096, "2270"),
    (config("llama", 32_000, 80, 8192, 64, 8, 28_672), A100, None, FMS_70B, 6 * 4096, "328"),
]


@pytest.mark.parametrize(("model", "network", "sizes", "choices", "tokens", "stated"), SETUPS)
def test_a_step_takes_what_the_table_says(tmp_path, model, network, sizes, choices, tokens, stated):
    """`tokens` of an NPU in a step, for a rate; 0 for seconds."""
    problem = load(network)
    dimensions = problem.network.dimensions
    if sizes:
        dimensions = [part.replace(size=size) for part, size in zip(dimensions, sizes, strict=True)]
    problem = problem.replace(network=problem.network.replace(dimensions=tuple(dimensions)))
    path = tmp_path / "config.json"
    path.write_text(model)
    usual = {"dtype": "bf16", "device": "h100", "efficiency": 0.6}
    step = workload(str(path) if model.startswith("{") else model, problem, **usual | choices)
    seconds = compare(step, ["wait_free/baseline"]).best.makespan / 1e12
    assert (tokens or 1) * seconds ** (-1 if tokens else 1) == pytest.approx(float(stated.replace(",", "")), rel=0.005)
    assert stated in TABLE

"""``themis-opt workload``: what it writes, prints and refuses."""

import json

import pytest
from planning import schedule_of

from themis_opt.base.units import format_short_time
from themis_opt.cli.workload import PARALLELISM_NAMES
from themis_opt.problem.catalog import load
from themis_opt.study.verdict import on_step
from themis_opt.workloads.models import MODELS
from themis_opt.workloads.parallelisms import PARALLELISMS

NETWORK = "2d-sw_sw.all_reduce.100MiB"
HYBRID = ("--parallelism", "hybrid", "--tensor-group", 32, "--batch", 4, "--accumulate", 2, "--recompute")


def test_names_of_parallelisms_are_those_there_are():
    assert tuple(PARALLELISMS) == PARALLELISM_NAMES


def test_list_names_every_model_with_parameters_and_source(succeed):
    text = succeed("workload", "--list")
    assert [name for name in MODELS if name not in text] == []
    assert "25,557,032" in text
    assert "https://arxiv.org/abs/1512.03385" in text


def test_written_file_is_an_instance_with_the_printed_fingerprint(succeed, tmp_path):
    path = tmp_path / "made.json"
    summary = json.loads(succeed("workload", "bert-base", "--network", NETWORK, *HYBRID, "-o", path, "--json"))
    instance = load(path)
    assert instance.fingerprint == summary["fingerprint"]
    assert (instance.iteration.steps, instance.parameter_bytes) == (2, summary["memory_bytes"])


def test_summary_adds_up_the_exchanges(succeed):
    summary = json.loads(
        succeed("workload", "resnet-50", "--network", NETWORK, "--weights-only", "--dtype", "fp32", "--json")
    )
    assert summary["exchanges"] == [{"kind": "all_reduce", "parallelism": "data", "tensors": 54, "bytes": 102_011_648}]


def test_network_may_come_from_a_training_iteration(succeed):
    summary = json.loads(succeed("workload", "gnmt", "--network", "v100-256.resnet-50", "--json"))
    assert summary["npus"] == 256


@pytest.mark.parametrize(
    ("network", "options", "rule", "chunks"),
    [
        ("v100-256.resnet-50", (), "occupy", 4),
        ("v100-256.resnet-50", ("--latency", "lag"), "lag", 64),
        (NETWORK, (), "lag", 64),
        (NETWORK, ("--device", "h100", "--chunks", 8), "occupy", 8),
    ],
)
def test_start_ups_occupy_on_known_devices(succeed, tmp_path, network, options, rule, chunks):
    text = succeed("workload", "gnmt", "--network", network, *options, "-o", tmp_path / "made.json")
    made = load(tmp_path / "made.json")
    assert (made.latency, made.chunks) == (rule, chunks)
    assert f"start-up latency\t{'lags' if rule == 'lag' else 'occupies its dimension'}" in text


@pytest.mark.parametrize(
    ("options", "parallelism"),
    [
        (("--experts", 2), "expert"),
        (("--experts", 2, "--tensor-group", 4), "pipeline"),
        (("--stages", 2, "--tensor-group", 4, "--experts", 2), "pipeline"),
        (("--data", 1024), "pipeline"),
    ],
)
def test_choices_ask_for_their_parallelism(succeed, options, parallelism):
    model = "transformer:layers=1:hidden=64:heads=4:vocabulary=100:experts=4:active=2:expert=32"
    summary = json.loads(succeed("workload", model, "--network", NETWORK, *options, "--batch", 1, "--json"))
    assert summary["name"].endswith(f" {parallelism}")


def test_training_that_exceeds_the_memory_of_the_device_is_refused(refuse):
    words = ("llama-3-8b", "--network", "v100-256.resnet-50", "--batch", 1)
    message = refuse("workload", *words)
    assert "--memory = '16 GB of a V100': parameters, gradients and Adam states of one NPU take 128.5 GB" in message
    assert "--parallelism fsdp" in message


def test_times_come_from_a_file(succeed, tmp_path):
    times = {"forward": "1 us", "weight_gradient": "2 us", "input_gradient": "3 us"}
    layers = {layer.name: times for layer in MODELS["vgg-16"].layers()}
    (tmp_path / "times.json").write_text(json.dumps({"layers": layers}))
    options = ("--network", NETWORK, "--layer-times", tmp_path / "times.json", "--json")
    assert json.loads(succeed("workload", "vgg-16", *options))["compute_ns"] == (16 * 6 - 3) * 1000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ("MODEL", "required")),
        (("gnmt",), ("--network", "required")),
        (("alexnet", "--network", NETWORK), ("MODEL = 'alexnet'", "resnet-50")),
        (("gnmt", "--network", "nowhere"), ("nowhere", "no such file")),
        (("gnmt", "--network", NETWORK, "--parallelism", "magic"), ("--parallelism = 'magic'", "hybrid")),
        (("gpt-3", "--network", NETWORK, "--parallelism", "hybrid", "--tensor-group", 24), ("--tensor-group = 24",)),
        (("gpt-3", "--network", NETWORK, "--tensor-group", 16), ("--tensor-group = 16",)),
        (("gnmt", "--network", NETWORK, "--dtype", "fp8"), ("--dtype = 'fp8'", "fp16")),
        (("gnmt", "--network", NETWORK, "--flops", "fast"), ("--flops = 'fast'",)),
        (("gnmt", "--network", NETWORK, "--flops", "1 FLOP/s"), ("clock",)),
        (("gnmt", "--network", NETWORK, "--efficiency", 2), ("--efficiency = 2.0",)),
        (("gnmt", "--network", NETWORK, "--update", "soon"), ("--update = 'soon'",)),
        (("gnmt", "--network", NETWORK, "--chunks", 0), ("chunks = 0",)),
        (("gnmt", "--network", NETWORK, "--latency", "none"), ("latency = 'none'",)),
        (("gnmt", "--network", NETWORK, "--device", "H10"), ("--device = 'H10'", "H100")),
        (("gnmt", "--network", NETWORK, "--stages", 0), ("--stages = 0",)),
        (("gnmt", "--network", NETWORK, "--stages", 1, "--pipeline", "nowhere.json"), ("--stages = 1", "2 or more")),
        (
            ("mixtral-8x7b", "--network", NETWORK, "--parallelism", "expert", "--experts", 4, "--tensor-group", 4),
            ("--parallelism = 'expert'", "takes --experts alone"),
        ),
        (("gnmt", "--network", NETWORK, "--zero", 3), ("--zero = 3", "0, 1 or 2")),
        (("gnmt", "--network", NETWORK, "--sequence", 0), ("--sequence = 0",)),
        (("gnmt", "--network", NETWORK, "--layer-times", "nowhere.json"), ("nowhere.json",)),
        (("resnet-50", "--network", NETWORK, "--sequence", 8), ("--sequence = 8", "sequences")),
        (("gnmt", "--network", NETWORK, "--speeds", "1,fast"), ("--speeds = '1,fast'", "numbers")),
        (("gnmt", "--network", NETWORK, "--speeds", "1,0"), ("--speeds = '1,0'", "more than 0")),
        (("gnmt", "--network", NETWORK, "--speeds", "1,2,3"), ("--speeds = 3", "1024")),
        (("gnmt", "--network", NETWORK, "--share", "proportional"), ("--share", "needs --speeds")),
        (("gnmt", "--network", NETWORK, "--share", "fair"), ("--share = 'fair'", "proportional")),
        (("gnmt", "--network", NETWORK, "--compress", "data=0.5"), ("--compress = 'data=0.5'", "at least 1")),
        (("gnmt", "--network", NETWORK, "--compress", "all=10"), ("--compress = 'all=10'", "data, model")),
        (("gnmt", "--network", NETWORK, "--compress", "data=2,data=3"), ("--compress", "once")),
        (("gnmt", "--network", NETWORK, "--compress", "data=2", "--index-bytes", -1), ("--index-bytes = -1",)),
        (("gnmt", "--network", NETWORK, "--refresh", "1 ms"), ("--refresh", "needs --compress")),
        (("gnmt", "--network", NETWORK, "--refresh", "1 ms/0"), ("--refresh = '1 ms/0'", "1 iteration or more")),
        (("gnmt", "--network", NETWORK, "--tolerance", 1), ("--tolerance = 1.0", "less than 1")),
        (("gnmt", "--network", NETWORK, "--local-blocks", 0), ("--local-blocks = 0",)),
        (("dlrm-large", "--network", NETWORK, "--local-blocks", 2), ("--local-blocks = 2", "tables")),
        (("gnmt", "--network", NETWORK, "--parallelism", "splitbrain"), ("splitbrain", "convolutions")),
    ],
)
def test_bad_choices_are_refused(refuse, arguments, words):
    message = refuse("workload", *arguments)
    assert [word for word in words if word not in message] == []


def test_what_a_step_costs_today_and_at_best_is_told(succeed, tmp_path):
    path = tmp_path / "step.json"
    network = ("--network", "3d-sw_sw_sw_hetero.all_reduce.100MiB")
    text = succeed("workload", "resnet-50", *network, "-o", path).splitlines()[0]
    instance = load(path)
    schedule = schedule_of(instance, "ddp/baseline")
    share = 100 * schedule.period.exposed / schedule.makespan
    time = format_short_time(schedule.makespan)
    assert text.startswith(
        f"Communication costs {share:.2f} % of your step; DDP with 25 MiB buckets takes {time}, and no "
    )
    (sentence,) = on_step(load("3d-fc_ring_sw.resnet-50"))
    assert sentence.startswith("Communication costs ")


def test_a_device_sets_the_peak_rate_of_16_bits_and_says_so(succeed):
    words = ("workload", "bert-base", "--network", NETWORK, "--device", "H100", "--efficiency", "0.5")
    assert "Compute runs at 50 % of 989 TFLOP/s; --flops" in succeed(*words)
    half, stated = (json.loads(succeed(*words, *more, "--json")) for more in ((), ("--flops", "989 TFLOP/s")))
    assert half["compute_ns"] == stated["compute_ns"]
    assert json.loads(succeed(*words, "--dtype", "fp32", "--json"))["compute_ns"] > 8 * half["compute_ns"]
    assert [row["part"] for row in half["memory"]] == ["parameters", "gradients", "Adam", "activations"]

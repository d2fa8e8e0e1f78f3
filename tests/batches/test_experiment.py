"""Experiments: what their files mean, which runs they stand for, and what is refused."""

import json

import pytest

from themis_opt.base.errors import InputError
from themis_opt.batches.expansion import expand
from themis_opt.batches.experiment import read_experiment
from themis_opt.families.door import save
from themis_opt.problem.catalog import load, shipped
from themis_opt.workloads.models import find_model

FIG5, RESNET = "fig5.all_reduce.256MB", "2d-sw_sw.resnet-152"
ON_FIG5 = f'instances = ["{FIG5}"]'
BASELINE = 'policies = ["baseline+fifo"]'
SMALL = 'model = "resnet-50", network = "v100-256.resnet-50", npus = [8, 4], chunks = 2'


@pytest.fixture
def runs_of(tmp_path):
    """The runs of an experiment with these blocks, each the lines of a table."""

    def expanded(*blocks, quick=False, head=""):
        path = tmp_path / "experiment.toml"
        tables = "".join(f"[[runs]]\n{block}\n" for block in blocks)
        path.write_text(f'name = "trial"\n{tables}{head}', encoding="utf-8")
        return expand(read_experiment(path), path, quick=quick)

    return expanded


@pytest.fixture
def workloads_of(runs_of):
    """The runs of one policy on the workloads of these tables."""

    def expanded(*tables, policies=BASELINE):
        return runs_of(f"workloads = [{', '.join(f'{{{table}}}' for table in tables)}]\n{policies}")

    return expanded


def on(name):
    return f'instances = ["{name}"]'


def values(runs, column):
    return [run.columns[column] for run in runs]


def names(runs):
    return list(dict.fromkeys(values(runs, "instance")))


def refusal(make, *blocks):
    with pytest.raises(InputError) as caught:
        make(*blocks)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_block_is_a_cross_product(runs_of):
    runs = runs_of(f'{ON_FIG5}\nchunks = [2, 4]\nlatency = ["lag", "occupy"]\npolicies = ["baseline", "themis"]')
    choices = [(run.columns["chunks"], run.columns["latency"], run.columns["policy"]) for run in runs]
    assert choices == [(c, way, p) for c in (2, 4) for way in ("lag", "occupy") for p in ("baseline", "themis")]


@pytest.mark.parametrize("name", [FIG5, RESNET])
def test_overrides_reach_the_network_and_the_rules(runs_of, name):
    overrides = 'chunks = [8]\nlatency = ["occupy"]\nag_order = ["reverse"]\nlaunch_overhead = ["2 us"]'
    (run,) = runs_of(f'{on(name)}\n{overrides}\npacket = ["4096 B/30 B"]\n{BASELINE}')
    instance = run.task.instance
    assert (instance.exchanges[0].max_chunks, instance.latency, instance.ag_order) == (8, "occupy", "reverse")
    assert {d.launch_overhead for d in instance.network.dimensions} == {2_000_000}
    assert {(d.packet.payload, d.packet.header) for d in instance.network.dimensions} == {(4096, 30)}
    assert run.columns["fingerprint"] == instance.fingerprint != load(name).fingerprint


def test_seeds_are_crossed_with_policies_that_have_one(runs_of):
    runs = runs_of(f'{ON_FIG5}\nseeds = [0, 1]\npolicies = ["baseline+fifo", "random+fifo"]')
    assert list(zip(values(runs, "policy"), values(runs, "seed"), strict=True)) == [
        ("baseline+fifo", None),
        ("random+fifo", 0),
        ("random+fifo", 1),
    ]


@pytest.mark.parametrize(
    ("name", "policy", "limits"),
    [
        (FIG5, "exact", [(0, 3.0, "equal"), (1, 3.0, "equal")]),
        (FIG5, "exact:seed=5", [(5, 3.0, "equal")]),
        (FIG5, "hourglass", [(None, None, "equal")]),
        (RESNET, "exact", [(0, 3.0, "free"), (1, 3.0, "free")]),
        (RESNET, "ddp/themis", [(None, None, "equal")]),
        (RESNET, "ddp/search", [(0, 3.0, "equal"), (1, 3.0, "equal")]),
        (FIG5, "bound", [(None, None, None)]),
        (RESNET, "bound", [(None, None, None)]),
    ],
)
def test_limits_are_told_for_policies_that_have_them(runs_of, name, policy, limits):
    """Bounds of the reference hold for all sizes where there is compute, so that they are stated as free."""
    runs = runs_of(f'{on(name)}\ntime_limit = 3\nworkers = 1\nseeds = [0, 1]\npolicies = ["{policy}"]')
    assert list(zip(*(values(runs, column) for column in ("seed", "time_limit", "sizes")), strict=True)) == limits


def test_sizes_are_told_for_policies_that_have_them(runs_of):
    runs = runs_of(f'{ON_FIG5}\nworkers = 1\nchunk_sizes = "free"\npolicies = ["exact", "themis", "bound"]')
    assert values(runs, "sizes") == ["free", "equal", None]
    assert values(runs, "workers") == [1, None, None]


def test_patterns_match_names_with_their_folders(runs_of):
    runs = runs_of(f'instances = ["paper/*.all_reduce.100MiB"]\n{BASELINE}')
    assert values(runs, "instance") == sorted(
        n for n, p in shipped().items() if p.parent.name == "paper" and n.endswith(".all_reduce.100MiB")
    )


def test_files_are_found_beside_the_experiment(runs_of, tmp_path):
    (tmp_path / "my.json").write_text(shipped()["fig5.all_reduce.256MB"].read_text())
    (run,) = runs_of(f'instances = ["my.json"]\n{BASELINE}')
    assert run.columns["fingerprint"] == load("fig5.all_reduce.256MB").fingerprint


def test_a_sample_is_seeded_and_in_order(runs_of):
    block = f'instances = ["random:0-99"]\nsample = {{count = 5, seed = 1}}\n{BASELINE}'
    runs = runs_of(block)
    seeds = [int(name.removeprefix("random:")) for name in values(runs, "instance")]
    assert len(seeds) == 5
    assert seeds == sorted(seeds)
    assert [run.key for run in runs_of(block)] == [run.key for run in runs]


def test_quick_spreads_its_runs_over_instances_with_all_policies(runs_of):
    block = 'instances = ["random:0-9"]\npolicies = ["baseline", "themis"]'
    runs = runs_of(block, quick=True, head="[quick]\nlimit = 4\n")
    assert values(runs, "instance") == ["random:0", "random:0", "random:5", "random:5"]


def test_keys_depend_on_what_decides_about_the_result(runs_of):
    blocks = [
        f'{ON_FIG5}\nblock = "{number}"\ntime_limit = 3\n{more}\npolicies = ["exact"]'
        for number, more in enumerate(
            (
                "",
                "seeds = [1]",
                "gap = 0.1",
                "workers = 3",
                "chunks = [2]",
                'chunk_sizes = "free"',
                'record = ["activity"]',
            )
        )
    ]
    assert len({run.key for run in runs_of(*blocks)}) == len(blocks)


def test_keys_of_heuristics_do_not_depend_on_limits_of_searches(runs_of):
    one, other = runs_of(f"{ON_FIG5}\n{BASELINE}", f"{ON_FIG5}\ntime_limit = 7\nworkers = 3\n{BASELINE}")
    assert one.key == other.key


@pytest.mark.parametrize(
    ("block", "rule"),
    [
        (f"{ON_FIG5}\npolicies = []", "runs[0].policies"),
        (f"{ON_FIG5}\n{BASELINE}\nthreads = 3", "runs[0].threads = 3: unknown field"),
        (f"{ON_FIG5}\n{BASELINE}\nchunks = [0]", "runs[0].chunks[0] = 0"),
        (f"{ON_FIG5}\n{BASELINE}\nchunks = [2, 2]", "must name each value once"),
        (f'{ON_FIG5}\n{BASELINE}\nchunk_sizes = "any"', "runs[0].chunk_sizes = 'any'"),
        (f'{ON_FIG5}\n{BASELINE}\npacket = ["4096"]', "runs[0].packet[0] = '4096': must be payload and header"),
        (f'{ON_FIG5}\n{BASELINE}\nlaunch_overhead = ["-1 us"]', "runs[0].launch_overhead[0]"),
        (f'{ON_FIG5}\n{BASELINE}\nlaunch_overhead = ["none"]', "runs[0].launch_overhead[0]"),
        (f'{ON_FIG5}\n{BASELINE}\nreduction = ["0 B/s"]', "runs[0].reduction[0]"),
        (f'{ON_FIG5}\npolicies = ["magic"]', "runs[0].policy = 'magic': unknown policy"),
        (f'{ON_FIG5}\npolicies = ["hourglass+fifo"]', "takes no dispatch rule"),
        (f'instances = ["none"]\n{BASELINE}', "runs[0].instances = 'none': no such file beside the experiment"),
        (f'instances = ["random:5-3"]\n{BASELINE}', "runs[0].instances = 'random:5-3'"),
        (f'{ON_FIG5}\n{BASELINE}\nsize = ["3 B"]', "must be a multiple of element_bytes"),
        (f'{ON_FIG5}\n{BASELINE}\nchunks = [1000]\nlaunch_overhead = ["1000000 s"]', "clock holds"),
        (BASELINE, "runs[0]: must have instances or workloads"),
        (
            f'{on(RESNET)}\nsize = ["1 MB"]\n{BASELINE}',
            f"runs[0].size = '{RESNET}': is not for training iterations, whose tensors state their sizes",
        ),
    ],
)
def test_a_wrong_block_is_refused(runs_of, block, rule):
    message = refusal(runs_of, block)
    assert "experiment.toml: " in message
    assert rule in message


def test_a_wrong_instance_file_is_named(runs_of, tmp_path):
    (tmp_path / "wrong.json").write_text('{"format": "none"}')
    assert "wrong.json: format = 'none'" in refusal(runs_of, f'instances = ["wrong.json"]\n{BASELINE}')


@pytest.mark.parametrize("text", ["name = ", "", "name = 3", "\0", "runs = 3\nname = 'x'"])
def test_a_file_that_is_no_experiment_is_refused(tmp_path, text):
    path = tmp_path / "experiment.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"experiment\.toml: "):
        read_experiment(path)


def test_two_blocks_with_one_label_are_refused(runs_of):
    block = f'block = "a"\n{ON_FIG5}\n{BASELINE}'
    assert "labels that differ" in refusal(runs_of, block, block)


def test_columns_describe_the_iteration(runs_of):
    name = "2d-sw_sw.dlrm"
    (run,) = runs_of(f"{on(name)}\n{BASELINE}")
    instance, row = load(name), run.columns
    assert row["fingerprint"] == instance.fingerprint
    assert (row["kind"], row["chunks"], row["npus"]) == ("iteration", 64, 1024)
    assert row["size_bytes"] == sum(tensor.size for tensor in instance.exchanges)


def test_quick_keeps_its_limit_where_kinds_are_mixed(runs_of):
    block = f'instances = ["{RESNET}", "{FIG5}"]\npolicies = ["baseline", "themis"]'
    assert len(runs_of(block, quick=True, head="[quick]\nlimit = 3\n")) <= 3


def test_iterations_that_only_policies_and_columns_see_as_different_are_told_apart(runs_of, tmp_path):
    """Tensors of another parallelism, and an iteration that stands for several batches."""
    instance = load(RESNET)
    tensors = tuple(tensor.replace(parallelism="model") for tensor in instance.iteration.tensors)
    for name, changes in (("model", {"tensors": tensors}), ("steps", {"steps": 4})):
        save(instance.replace(iteration=instance.iteration.replace(**changes)), tmp_path / f"{name}.json")
    runs = runs_of(f'instances = ["{RESNET}", "model.json", "steps.json"]\n{BASELINE}')
    assert len({run.key for run in runs}) == 3


def test_lists_are_crossed_and_names_tell_what_differs(workloads_of):
    runs = workloads_of(f"{SMALL}, accumulate = [1, 2], batch = [8, 16]")
    assert names(runs) == [f"resnet-50 data 8x4 batch {b} accumulate {a}" for a in (1, 2) for b in (8, 16)]
    assert [run.task.instance.iteration.steps for run in runs] == [1, 1, 2, 2]


def test_a_workload_is_like_the_instance_of_the_same_choices(workloads_of):
    table = 'model = "resnet-50", network = "v100-256.resnet-50", batch = 8, dtype = "fp32", chunks = 4'
    (run,) = workloads_of(f'{table}, flops = "15.7 TFLOP/s", efficiency = 0.6')
    assert run.columns["fingerprint"] == load("v100-256.resnet-50").fingerprint
    assert run.columns["instance"] == "resnet-50 data 8x32"


def test_layouts_are_those_of_the_command_line(workloads_of):
    layout = 'stages = 2, layers_per_stage = "15,17", context = 2, zero = 3, gathers = ["step", "microbatch"]'
    model = 'model = "llama-3-8b", network = "v100-256.resnet-50", parallelism = "pipeline", npus = [8, 4]'
    runs = workloads_of(f'{model}, {layout}, batch = 1, recompute = "selective", chunks = 2')
    gathers = [sum("parameters" in tensor.name for tensor in run.task.instance.iteration.tensors) for run in runs]
    assert [run.columns["instance"].split()[-1] for run in runs] == ["step", "microbatch"]
    assert len(set(gathers)) == 2


def test_the_best_cut_is_one_of_the_cuts(workloads_of):
    model = 'model = "transformer:layers=4:hidden=256", network = "v100-256.resnet-50", parallelism = "pipeline"'
    choices = f"{model}, npus = [8, 4], stages = 2, microbatches = 2, batch = 2, sequence = 64, chunks = 2"
    cuts = ", ".join(f'"{blocks},{4 - blocks}"' for blocks in (1, 2, 3))
    best, *others = workloads_of(f'{choices}, layers_per_stage = ["best", {cuts}]')
    iterations = [run.task.instance.iteration for run in (*others, *workloads_of(choices))]
    assert len(iterations) == 4
    assert best.task.instance.iteration in iterations


def test_npus_replace_the_sizes_of_dimensions(workloads_of):
    runs = workloads_of('model = "resnet-50", network = "v100-256.resnet-50", npus = [[8, 4], [4, 1], [1, 2]]')
    assert [run.task.instance.network.sizes for run in runs] == [(8, 4), (4,), (2,)]
    assert [run.columns["network"] for run in runs] == ["V100-256 8x4", "V100-256 4x1", "V100-256 1x2"]
    assert runs[2].task.instance.network.dimension_names == ("ethernet",)


def test_measured_times_are_found_beside_the_experiment(workloads_of, tmp_path):
    times = {"forward": "1 us", "weight_gradient": "1 us", "input_gradient": "1 us"}
    layers = {layer.name: times for layer in find_model("resnet-50").layers()}
    (tmp_path / "times.json").write_text(json.dumps({"layers": layers}))
    (run,) = workloads_of(f'{SMALL}, times = "times.json"')
    assert run.task.instance.compute == (3 * len(layers) - 1) * 10**6


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ("batch = 0", "workloads[0].batch = 0: must be 1 or more"),
        ('batch = "8"', "workloads[0].batch = '8': must be a whole number"),
        ("threads = 8", "workloads[0].threads = 8: unknown field"),
        ("accumulate = []", "workloads[0]: accumulate must have one value or more"),
        ("accumulate = [2, 2]", "workloads[0]: accumulate must name each value once"),
        ("accumulate = 1000000", "workloads[0].accumulate = 1000000"),
        ("group = 3", "workloads[0].group = 3: is not for data"),
        ('parallelism = "magic"', "workloads[0].parallelism = 'magic': unknown parallelism"),
        ("sequence = 128", "workloads[0].sequence = 128: ResNet-50 does not read sequences"),
    ],
)
def test_a_wrong_choice_is_refused(workloads_of, more, rule):
    assert f"experiment.toml: runs[0].{rule}" in refusal(workloads_of, f"{SMALL}, {more}")


def test_times_that_cannot_be_read_are_refused(workloads_of):
    assert "none.json: cannot be read" in refusal(workloads_of, f'{SMALL}, times = "none.json"')


@pytest.mark.parametrize(
    ("table", "rule"),
    [
        (SMALL.replace("[8, 4]", "[8]"), "npus = [8]: must have one number for each of the 2 dimensions"),
        (SMALL.replace("[8, 4]", "[1, 1]"), "npus = [1, 1]: must leave 2 NPUs or more"),
        (SMALL.replace("[8, 4]", "[8, 0]"), "npus[1] = 0"),
        (SMALL.replace("[8, 4]", "8"), "npus = 8"),
        (SMALL.replace("[8, 4]", "[1099511627776, 2]"), "npus: must have at most"),
        ('network = "v100-256.resnet-50"', "model: required field is missing"),
        ('model = "magic", network = "v100-256.resnet-50"', "model = 'magic': unknown model"),
        ('model = "gnmt", network = "none"', "network = 'none': no such file"),
    ],
)
def test_wrong_npus_models_and_networks_are_refused(workloads_of, table, rule):
    assert f"runs[0].workloads[1].{rule}" in refusal(workloads_of, SMALL, table)

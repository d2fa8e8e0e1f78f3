import json

import pytest

from themis_opt.batches.code_version import code_version
from themis_opt.batches.executors import Site
from themis_opt.batches.expansion import expand
from themis_opt.batches.experiment import read_experiment
from themis_opt.batches.measured_run import execute, run_one
from themis_opt.batches.measuring import Limits
from themis_opt.batches.output import finished_rows
from themis_opt.batches.runner import run_batch
from themis_opt.batches.store import RunStore
from themis_opt.catalog import load
from themis_opt.errors import InputError
from themis_opt.iterations.bounds import iteration_bounds
from themis_opt.iterations.registry import make_iteration_policy
from themis_opt.iterations.simulator import simulate_iterations

RESNET = "2d-sw_sw.resnet-152"
DLRM = "2d-sw_sw.dlrm"
FIG5 = "fig5.all_reduce.256MB"
ON_RESNET = f'instances = ["{RESNET}"]'
SMALL = 'model = "resnet-50", network = "v100-256.resnet-50", npus = [8, 4], chunks = 2'
BASELINE = 'policies = ["fused/baseline"]'


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


def finished(run):
    (result,) = execute([run.task], code_version())
    assert result["status"] == "ok", result["error"]
    return run.row({"key": run.key} | result)


def names(runs):
    return list(dict.fromkeys(run.columns["instance"] for run in runs))


def refusal(make, *given, **options):
    with pytest.raises(InputError) as caught:
        make(*given, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("policy", ["fused:order=newest/baseline+fifo", "ddp:cap=10MiB/themis+scf", "dear", "themis"])
def test_a_row_holds_the_simulated_iteration(runs_of, policy):
    (run,) = runs_of(f'{ON_RESNET}\nchunks = [4]\npolicies = ["{policy}"]')
    row, instance = finished(run), load(RESNET).overridden(chunks=4)
    schedule = simulate_iterations(instance, make_iteration_policy(policy)(instance))
    assert row["makespan_ns"] == schedule.iteration_time / 1000
    assert row["utilisation"] == schedule.utilisation
    assert json.loads(row["extra"])["exposed_ns"] == schedule.exposed / 1000


def test_columns_describe_the_iteration(runs_of):
    (run,) = runs_of(f"{ON_RESNET}\n{BASELINE}")
    instance, row = load(RESNET), run.columns
    assert row["fingerprint"] == instance.fingerprint
    assert (row["kind"], row["chunks"], row["npus"]) == ("iteration", 64, 1024)
    assert row["size_bytes"] == sum(tensor.size for tensor in instance.iteration.tensors)


def test_an_iteration_has_no_bandwidth_of_a_collective(runs_of):
    (run,) = runs_of(f"{ON_RESNET}\n{BASELINE}")
    row = finished(run)
    assert row.get("algbw_bytes_per_s") is None
    assert row.get("busbw_bytes_per_s") is None


def test_waits_are_divided_between_data_and_model_parallelism(runs_of):
    (run,) = runs_of(f'instances = ["{DLRM}"]\nchunks = [4]\n{BASELINE}')
    extra = json.loads(finished(run)["extra"])
    assert extra["exposed_ns"] == pytest.approx(extra["exposed_data_ns"] + extra["exposed_model_ns"])
    assert min(extra["exposed_data_ns"], extra["exposed_model_ns"]) > 0


def test_overrides_reach_the_network_and_the_rules(runs_of):
    overrides = 'chunks = [8]\nlatency = ["occupy"]\nag_order = ["reverse"]\nlaunch_overhead = ["2 us"]'
    (run,) = runs_of(f'{ON_RESNET}\n{overrides}\npacket = ["4096 B/30 B"]\n{BASELINE}')
    instance = run.task.instance
    assert (instance.chunks, instance.latency, instance.ag_order) == (8, "occupy", "reverse")
    assert {d.launch_overhead for d in instance.fabric.dimensions} == {2_000_000}
    assert {d.packet.payload for d in instance.fabric.dimensions} == {4096}
    assert run.columns["fingerprint"] == instance.fingerprint != load(RESNET).fingerprint


def test_an_overridden_iteration_is_like_one_made_with_these_values(runs_of):
    (run,) = runs_of(f'{ON_RESNET}\nchunks = [8]\nlatency = ["occupy"]\n{BASELINE}')
    assert run.columns["fingerprint"] == load(RESNET).overridden(chunks=8, latency="occupy").fingerprint


def test_sizes_of_collectives_are_refused(runs_of):
    told = refusal(runs_of, f'{ON_RESNET}\nsizes_of_collectives = ["1 MB"]\n{BASELINE}')
    assert "runs[0].sizes_of_collectives" in told
    assert "tensors have sizes of their own" in told


def test_a_bound_run_tells_all_bounds_which_hold_for_any_sizes():
    instance = load(RESNET)
    row = run_one(instance, "bound", Limits())
    told = {name: value / 1000 for name, value in iteration_bounds(instance).items()}
    assert json.loads(row["extra"])["bounds_ns"] == told
    assert row["bound_ns"] == row["bound_equal_ns"] == max(told.values())


def test_an_exact_run_is_no_worse_than_heuristics_and_tells_its_bound(runs_of):
    limits = 'time_limit = 2\nworkers = 1\nrecord = ["trajectory"]'
    runs = runs_of(f'{ON_RESNET}\nchunks = [2]\n{limits}\npolicies = ["exact", "fused/hourglass", "fused/themis+scf"]')
    exact, *others = map(finished, runs)
    trajectory = json.loads(exact["extra"])["trajectory"]
    assert exact["makespan_ns"] <= min(row["makespan_ns"] for row in others)
    assert exact["bound_ns"] == max(iteration_bounds(runs[0].task.instance).values()) / 1000
    assert trajectory[-1][1:] == [exact["makespan_ns"], exact["bound_ns"]]
    assert trajectory == sorted(trajectory, key=lambda entry: (entry[0], -entry[1]))


def test_limits_are_told_for_policies_that_have_them(runs_of):
    limits = "time_limit = 3\nworkers = 1\nseeds = [0, 1]"
    runs = runs_of(f'{ON_RESNET}\n{limits}\npolicies = ["exact", "ddp/themis", "ddp/search", "bound"]')
    found = [(run.columns["policy"], run.columns["seed"], run.columns["time_limit"]) for run in runs]
    expected = [("exact", 0, 3.0), ("exact", 1, 3.0), ("ddp/themis", None, None)]
    assert found == [*expected, ("ddp/search", 0, 3.0), ("ddp/search", 1, 3.0), ("bound", None, None)]


def test_bounds_of_exact_hold_for_any_sizes(runs_of):
    (run,) = runs_of(f'{ON_RESNET}\npolicies = ["exact"]')
    assert run.columns["sizes"] == "free"


def test_a_block_may_have_collectives_and_iterations(runs_of):
    runs = runs_of(f'instances = ["{RESNET}", "{FIG5}"]\nchunks = [2]\npolicies = ["baseline", "bound"]')
    rows = [finished(run) for run in runs]
    assert [row["kind"] for row in rows] == ["iteration", "iteration", "all_reduce", "all_reduce"]


def test_quick_keeps_its_limit_where_kinds_are_mixed(runs_of):
    block = f'instances = ["{RESNET}", "{FIG5}"]\npolicies = ["baseline", "themis"]'
    assert len(runs_of(block, quick=True, head="[quick]\nlimit = 3\n")) <= 3


@pytest.mark.parametrize(
    ("policies", "told"),
    [
        ('["magic/themis"]', "runs[0].policy = 'magic': unknown policy"),
        ('["ddp/magic"]', "runs[0].policy = 'magic': unknown policy"),
        ('["fused", "ddp:cap=much"]', "runs[0].policy = 'ddp:cap=much': knob cap"),
        ('["exact:seed=3"]', "runs[0].policy = 'exact:seed=3': takes no knobs here"),
    ],
)
def test_policies_are_checked_before_anything_runs(runs_of, policies, told):
    assert told in refusal(runs_of, f"{ON_RESNET}\npolicies = {policies}")


def test_policies_of_iterations_are_refused_for_collectives(runs_of):
    told = refusal(runs_of, f'instances = ["{RESNET}", "{FIG5}"]\npolicies = ["ddp/themis"]')
    assert "unknown policy" in told


def test_iterations_that_only_policies_see_as_different_are_told_apart(runs_of, tmp_path):
    from themis_opt.workloads.files import write_instance

    instance = load(RESNET)
    tensors = tuple(tensor.replace(parallelism="model") for tensor in instance.iteration.tensors)
    other = instance.replace(iteration=instance.iteration.replace(tensors=tensors))
    write_instance(other, tmp_path / "other.json")
    one, two = runs_of(f'instances = ["{RESNET}", "other.json"]\n{BASELINE}')
    assert one.columns["fingerprint"] != two.columns["fingerprint"]
    assert one.key != two.key


def test_rows_survive_the_store_with_their_workloads(workloads_of, tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    runs = workloads_of(f"{SMALL}, batch = [8, 16]")
    with RunStore(tmp_path / "runs.sqlite") as store:
        run_batch(runs, store, Site(1, lambda: ThreadPoolExecutor(1), lambda executor: executor.shutdown()))
        rows = finished_rows(runs, store)
    assert [json.loads(row["extra"])["workload"]["batch"] for row in rows] == [8, 16]
    assert all("exposed_ns" in json.loads(row["extra"]) for row in rows)


def test_policies_of_the_papers_iterations_run(runs_of):
    policies = ["fused:order=newest/baseline+fifo", "fused:order=newest/themis+fifo", "fused/themis+scf"]
    policies += ["fused/themis+scf_largest", "fused/hourglass", "bound"]
    runs = runs_of(f'instances = ["2d-sw_sw.resnet-152", "2d-sw_sw.dlrm"]\nchunks = [4]\npolicies = {policies}')
    rows = [finished(run) for run in runs]
    assert len(rows) == 12
    for number in (0, 6):
        bound = rows[number + 5]["bound_ns"]
        assert all(row["makespan_ns"] >= bound * (1 - 1e-9) for row in rows[number : number + 5])


def test_lists_are_crossed_and_names_tell_what_differs(workloads_of):
    runs = workloads_of(f"{SMALL}, accumulate = [1, 2], batch = [8, 16]")
    assert names(runs) == [f"resnet-50 data 8x4 batch {b} accumulate {a}" for a in (1, 2) for b in (8, 16)]
    assert [run.task.instance.iteration.steps for run in runs] == [1, 1, 2, 2]


def test_names_tell_nothing_that_differs_from_other_models_alone(workloads_of):
    other = SMALL.replace('resnet-50"', 'vgg-16"', 1)
    assert names(workloads_of(SMALL, f"{other}, batch = 4")) == ["resnet-50 data 8x4", "vgg-16 data 8x4"]


def test_a_workload_is_like_the_instance_of_the_same_choices(workloads_of):
    table = 'model = "resnet-50", network = "v100-256.resnet-50", batch = 8, dtype = "fp32", chunks = 4'
    (run,) = workloads_of(f'{table}, flops = "15.7 TFLOP/s", efficiency = 0.6')
    assert run.columns["fingerprint"] == load("v100-256.resnet-50").fingerprint
    assert run.columns["instance"] == "resnet-50 data 8x32"


def test_npus_replace_the_sizes_of_dimensions(workloads_of):
    runs = workloads_of('model = "resnet-50", network = "v100-256.resnet-50", npus = [[8, 4], [4, 1], [1, 2]]')
    assert [run.task.instance.network.sizes for run in runs] == [(8, 4), (4,), (2,)]
    assert [run.columns["network"] for run in runs] == ["V100-256 8x4", "V100-256 4x1", "V100-256 1x2"]
    assert runs[2].task.instance.network.dimension_names == ("ethernet",)


def test_groups_are_crossed(workloads_of):
    table = 'model = "bert-base", network = "v100-256.resnet-50", npus = [8, 4], parallelism = "hybrid", chunks = 2'
    runs = workloads_of(f"{table}, group = [1, 2, 8, 16]")
    assert names(runs) == [f"bert-base hybrid 8x4 group {n}" for n in (1, 2, 8, 16)]
    memory = [run.task.instance.memory for run in runs]
    assert memory == sorted(memory, reverse=True)


def test_a_workload_that_two_tables_make_comes_once(workloads_of):
    assert len(workloads_of(SMALL, f"{SMALL}, accumulate = [1, 2]")) == 2


def test_workloads_stand_beside_instances_and_are_sampled_with_them(runs_of):
    block = f"{ON_RESNET}\nworkloads = [{{{SMALL}, batch = [1, 2, 4]}}]\nsample = {{count = 3, seed = 0}}\n{BASELINE}"
    assert len(runs_of(block)) == 3


def test_rows_tell_the_choices_of_their_workload(workloads_of):
    (run,) = workloads_of(f"{SMALL}, accumulate = 2")
    told = json.loads(finished(run)["extra"])["workload"]
    assert (told["model"], told["npus"], told["accumulate"], told["group"]) == ("resnet-50", [8, 4], 2, None)


def test_rows_of_a_failed_run_tell_its_workload_too(workloads_of):
    (run,) = workloads_of(SMALL)
    row = run.row({"status": "failed", "error": "no way"})
    assert json.loads(row["extra"])["workload"]["model"] == "resnet-50"


def test_measured_times_are_found_beside_the_experiment(workloads_of, tmp_path):
    from themis_opt.workloads.models import find_model

    times = {"forward": "1 us", "weight_gradient": "1 us", "input_gradient": "1 us"}
    layers = {layer.name: times for layer in find_model("resnet-50").layers()}
    (tmp_path / "times.json").write_text(json.dumps({"layers": layers}))
    (run,) = workloads_of(f'{SMALL}, times = "times.json"')
    assert run.task.instance.compute == (3 * len(layers) - 1) * 10**6


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("batch = 0", "workloads[0].batch = 0: must be 1 or more"),
        ("batch = [1, 0]", "workloads[0].batch = 0: must be 1 or more"),
        ('batch = "8"', "workloads[0].batch = '8': must be a whole number"),
        ("threads = 8", "workloads[0].threads = 8: unknown field"),
        ("accumulate = []", "workloads[0]: accumulate must have one value or more"),
        ("accumulate = [2, 2]", "workloads[0]: accumulate must name each value once"),
        ("accumulate = 1000000", "workloads[0].accumulate = 1000000"),
        ("group = 3", "workloads[0].group = 3: is for tensor, hybrid and splitbrain"),
        ('parallelism = "hybrid"', "workloads[0].parallelism = 'hybrid': needs attention"),
        ('parallelism = "magic"', "workloads[0].parallelism = 'magic': unknown parallelism"),
        ('dtype = "int3"', "workloads[0].dtype = 'int3': must be one of"),
        ('flops = "fast"', "workloads[0].flops = 'fast'"),
        ("efficiency = 2", "workloads[0].efficiency = 2.0"),
        ("efficiency = nan", "workloads[0].efficiency"),
        ('granularity = "fine"', "workloads[0].granularity = 'fine'"),
        ('zero = 2, granularity = "fused"', "workloads[0].granularity = 'fused': must be layer with zero 2"),
        ("sequence = 128", "workloads[0].sequence = 128: ResNet-50 does not read sequences"),
        ('update = "soon"', "workloads[0].update = 'soon'"),
        ('times = "none.json"', "none.json: cannot be read"),
    ],
)
def test_a_wrong_choice_is_refused(workloads_of, more, told):
    if more.startswith("times"):
        assert told in refusal(workloads_of, f"{SMALL}, {more}")
    else:
        assert f"experiment.toml: runs[0].{told}" in refusal(workloads_of, f"{SMALL}, {more}")


@pytest.mark.parametrize(
    ("npus", "told"),
    [
        ("[8]", "runs[0].workloads[1].npus = [8]: must have one number for each of the 2 dimensions"),
        ("[1, 1]", "runs[0].workloads[1].npus = [1, 1]: must leave 2 NPUs or more"),
        ("[8, 0]", "runs[0].workloads[1].npus[1] = 0"),
        ("8", "runs[0].workloads[1].npus = 8"),
        ("[1099511627776, 2]", "runs[0].workloads[1].npus: must have at most"),
    ],
)
def test_wrong_npus_are_refused(workloads_of, npus, told):
    assert told in refusal(workloads_of, SMALL, SMALL.replace("[8, 4]", npus))


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ('network = "v100-256.resnet-50"', "runs[0].workloads[0].model: required field is missing"),
        ('model = "magic", network = "v100-256.resnet-50"', "runs[0].workloads[0].model = 'magic': unknown model"),
        ('model = "gnmt", network = "none"', "runs[0].workloads[0].network = 'none': no such file"),
    ],
)
def test_a_missing_model_or_network_is_refused(workloads_of, table, told):
    assert told in refusal(workloads_of, table)


def test_a_workload_that_is_no_table_is_refused(runs_of):
    assert "runs[0].workloads[0] = 3: must be a table" in refusal(runs_of, f"workloads = [3]\n{BASELINE}")


def test_too_many_workloads_are_refused(workloads_of):
    many = ", ".join(map(str, range(1, 401)))
    assert "must stand for at most" in refusal(workloads_of, f"{SMALL}, batch = [{many}], accumulate = [{many}]")


def test_a_block_without_instances_and_workloads_is_refused(runs_of):
    assert "runs[0]: must have instances or workloads" in refusal(runs_of, BASELINE)

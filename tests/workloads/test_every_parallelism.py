"""Every way to share a model goes through all policies, ``solve``, ``tune`` and ``batch``."""

from pathlib import Path
from typing import Any

import pytest
from planning import schedule_of
from samples import every

from themis_opt.base.errors import InputError
from themis_opt.batches.expansion import expand
from themis_opt.batches.experiment import Experiment
from themis_opt.batches.measured_run import code_version, execute
from themis_opt.policies.registry import LAUNCHING
from themis_opt.problem.instance import Instance
from themis_opt.schedules.validation import validate
from themis_opt.solving.bounds import bounds
from themis_opt.study.comparison import solve
from themis_opt.workloads.parallelisms import PARALLELISMS

NETWORK = {"network": "v100-256.resnet-50", "npus": [2, 4], "chunks": 1, "batch": 4}
TRANSFORMER = "transformer:layers=2:hidden=64:heads=2:vocabulary=100"
IMAGES = {"model": "vgg-16", "granularity": "fused"}
TOKENS = {"model": TRANSFORMER, "sequence": 16}

TABLES: dict[str, dict[str, Any]] = {
    "data": TOKENS | {"speeds": "1,0.5", "share": "proportional", "tolerance": 0.1, "local_blocks": 2},
    "tensor": TOKENS,
    "sequence": TOKENS,
    "expert": TOKENS | {"model": f"{TRANSFORMER}:experts=2:active=1:expert=8"},
    "hybrid": TOKENS | {"compress": "data=100,model=20", "refresh": "1 ms/1000"},
    "splitbrain": {"model": "vgg-16-cifar", "group": 2},
    "zero1": TOKENS,
    "fsdp": TOKENS,
    "hsdp": TOKENS,
    "daso": TOKENS | {"skip": 2, "wait": 1},
    "pipeline": TOKENS | {"stages": 2, "microbatches": 2, "granularity": "fused"},
    "out-of-core": IMAGES | {"memory": "1600 MB", "host_link": "16 GB/s"},
    "filter": IMAGES,
    "channel": IMAGES,
    "spatial": IMAGES,
    "data+filter": IMAGES,
    "data+channel": IMAGES,
    "data+spatial": IMAGES | {"adaptive": 2.0},
}
"""One small training for each, with options of other systems that it knows."""


def experiment(policy: str, **table: Any) -> dict[str, Any]:
    return {"name": "all", "runs": [{"policies": [policy], "workloads": [NETWORK | table]}]}


def made(parallelism: str, policy: str = "ddp/hourglass", **more: Any) -> Any:
    """The run of a workload as a batch makes it."""
    content = experiment(policy, parallelism=parallelism, **(TABLES[parallelism] | more))
    (run,) = expand(Experiment.model_validate(content), Path("experiment.toml"))
    return run


def instance(parallelism: str) -> Instance:
    task_instance: Instance = made(parallelism).task.instance
    return task_instance


def test_there_is_a_training_for_each() -> None:
    assert TABLES.keys() == PARALLELISMS.keys()


@pytest.mark.parametrize("parallelism", every(3, PARALLELISMS))
def test_every_launching_policy_obeys_the_rules_and_no_bound_is_beaten(parallelism: str) -> None:
    iteration = instance(parallelism)
    least = max(bounds(iteration).values())
    for launching in LAUNCHING:
        schedule = schedule_of(iteration, f"{launching}/hourglass")
        validate(schedule)
        assert schedule.makespan >= least * (1 - 1e-9)


@pytest.mark.parametrize("parallelism", every(3, ["pipeline", "hsdp", "channel", "zero1", "splitbrain"]))
def test_solve_is_no_worse_than_any_policy_and_proves_a_gap(parallelism: str) -> None:
    iteration = instance(parallelism)
    solved = solve(iteration, time_limit=0.1, workers=1)
    validate(solved.best.schedule)
    assert solved.best.makespan == min(result.makespan for result in solved.results)
    assert solved.best.makespan >= max(solved.bounds.values()) * (1 - 1e-9) > 0


@pytest.mark.parametrize("parallelism", PARALLELISMS)
def test_batch_runs_it_and_names_it(parallelism: str) -> None:
    run = made(parallelism)
    result = execute(run.task, code_version())
    assert result["status"] == "ok", result["error"]
    assert run.columns["instance"].split()[1] == parallelism


@pytest.mark.parametrize(
    ("parallelism", "table", "words"),
    [
        ("data", {"stages": 2}, "stages = 2: is not for data"),
        ("fsdp", {"memory": "1 kB"}, "memory = '1 kB': parameters, gradients and Adam states of one NPU take"),
        ("pipeline", {"skip": 4}, "skip = 4: is not for pipeline"),
        ("out-of-core", {"memory": "much"}, "memory = 'much'"),
        ("out-of-core", {"host_link": None}, "host_link.*is required for out-of-core"),
        ("filter", {"local_blocks": 2}, "local_blocks = 2: is not for filter"),
        ("daso", {"wait": 5}, "wait = 5: must be at least 0 and at most skip, 2"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_field_of_the_table(
    parallelism: str, table: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        _ = made(parallelism, **table).task.instance

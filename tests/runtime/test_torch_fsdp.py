"""Sharded training that follows a plan on CPU ranks: weights of plain training, gathers in the order of the plan."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from background import PATIENCE
from small_iterations import iteration, tensor

from themis_opt.base.errors import InputError
from themis_opt.study.step_plan import plan_step

pytest.importorskip("torch.distributed", reason="needs the extra torch")

LAYERS, SIZE = 4, 4 * (32 * 32 + 32) / 1000
"""Layers of the model that is trained, and kB of one."""


def planned(memory):
    """The plan of four layers that are named as in the model; the last one is gathered once."""
    tasks = {f"forward{n}": 2.0 for n in range(LAYERS)} | {f"backward{n}": 4.0 for n in reversed(range(LAYERS))}
    tasks |= {f"update{n}": 0.0 for n in reversed(range(LAYERS))}
    tensors = []
    for n in range(LAYERS):
        gather = {"kind": "all_gather", "element_bytes": 4}
        freed = f"backward{n}" if n == LAYERS - 1 else f"forward{n}"
        tensors.append(tensor(f"{n}.parameters", SIZE, f"update{n}", f"forward{n}", freed_after=freed, **gather))
        if n < LAYERS - 1:
            again = (f"{n}.parameters_again", SIZE, f"forward{n}", f"backward{n}")
            tensors.append(tensor(*again, freed_after=f"backward{n}", **gather))
        scatter = {"kind": "reduce_scatter", "element_bytes": 4}
        tensors.append(tensor(f"{n}.gradients", SIZE, f"backward{n}", f"update{n}", **scatter))
    instance = iteration(tasks, tensors, memory=memory)
    return plan_step(instance, time_limit=0.3, workers=1, deterministic=True)


def in_order(settings):
    """Groups in the order in which they are gathered, by the settings of a plan."""
    order, whole = [], set()

    def gather(*numbers):
        order.extend(number for number in numbers if number not in whole)
        whole.update(numbers)

    for number in range(len(settings["groups"])):
        gather(number, *settings["forward"].get(str(number), []))
        whole -= {number} - {*settings["kept"]}
        gather(*settings["early"].get(str(number), []))
    for number in reversed(range(len(settings["groups"]))):
        gather(number, *settings["backward"].get(str(number), []))
    return order


@pytest.mark.parametrize("memory", ["13 kB", "60 kB"])
def test_planned_training_ends_with_the_weights_of_plain_training(tmp_path, memory):
    plan = planned(memory)
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan.document()))
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("fsdp_training.py"), path],
        capture_output=True, text=True, timeout=PATIENCE, check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["apart"] < 1e-6
    assert answer["peak"] <= plan.best.memory_peak
    settings = plan.fsdp()
    modules = [names[0].rpartition(".")[0] for names in answer["gathered"]]
    assert modules == [settings["groups"][number][0] for number in in_order(settings)]
    firsts = {group[0]: number for number, group in enumerate(settings["groups"])}
    for layer, gathered in answer["begins"]:
        if str(layer) in firsts:
            users = [str(number) for number in range(firsts[str(layer)] + 1)]
            ahead = {number for user in users for number in settings["forward"].get(user, [])}
            early = [settings["early"].get(str(number), []) for number in range(firsts[str(layer)])]
            assert gathered == len(ahead | {*range(firsts[str(layer)] + 1)}) + sum(map(len, early))


def test_names_that_the_model_does_not_have_are_refused():
    from torch import nn

    from themis_opt.torch import apply_fsdp

    settings = {"groups": [["a"]], "kept": [], "forward": {}, "backward": {}}
    with pytest.raises(InputError, match=r"plan.fsdp.groups = 'a': is no module"):
        apply_fsdp(nn.Linear(1, 1), {"fsdp": settings})
    with pytest.raises(InputError, match="must shard parameters"):
        apply_fsdp(nn.Linear(1, 1), {"fsdp": None})

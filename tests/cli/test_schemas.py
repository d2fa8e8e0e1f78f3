"""The JSON Schema of every kind of files accepts what is accepted, and refuses a mistake."""

import json
import tomllib
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

import themis_opt
from themis_opt.cli.questions import OTHER_SCHEMAS
from themis_opt.designing.problem import shipped_problems
from themis_opt.families.door import SCHEMAS
from themis_opt.formats.order_table import order_json
from themis_opt.graphs.policies import ring_plan
from themis_opt.graphs.problem import load_graph
from themis_opt.graphs.schedule import simulate_graph
from themis_opt.graphs.schedule_file import schedule_text
from themis_opt.problem.catalog import shipped_graphs, shipped_pipelines
from themis_opt.schedules.schedule_file import schedule_document

REPORTS = sorted(Path(__file__).parents[2].joinpath("reports").glob("*/experiment.toml"))


def validator(succeed, kind):
    schema = json.loads(succeed("schema", "--of", kind))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def documents(kind):
    """Documents of a kind that are accepted."""
    instance = themis_opt.load("fig5.all_reduce.256MB")
    schedule = themis_opt.simulate(instance, themis_opt.make_policy("themis+scf")(instance))
    trained = themis_opt.load("v100-256.resnet-50")
    iteration = themis_opt.simulate(trained, themis_opt.make_policy("fused/baseline+fifo")(trained))
    small_graph = load_graph(shipped_graphs()["dgx1.all_gather.1GB"])
    designs = [json.loads(path.read_text(encoding="utf-8")) for path in shipped_problems().values()]
    times = {"forward": "1 us", "weight_gradient": "1 us", "input_gradient": "0 s"}
    made = {
        "experiment": [tomllib.loads(path.read_text(encoding="utf-8")) for path in REPORTS],
        "schedule": [schedule_document(schedule), schedule_document(iteration)],
        "order": [json.loads(order_json(schedule))],
        "times": [{"layers": {"conv1": times}}],
        "design": designs,
        "pipeline": [json.loads(path.read_text(encoding="utf-8")) for path in shipped_pipelines().values()],
        "graph": [json.loads(path.read_text(encoding="utf-8")) for path in shipped_graphs().values()],
        "graph-schedule": [json.loads(schedule_text(simulate_graph(ring_plan(small_graph))))],
        "instance": [
            json.loads(path.read_text(encoding="utf-8")) for path in Path("instances").glob("[ip][at]*/*.json")
        ],
    }
    return made[kind]


@pytest.mark.parametrize("kind", {**SCHEMAS, **OTHER_SCHEMAS})
def test_a_schema_accepts_files_and_refuses_unknown_fields(succeed, kind):
    rules, accepted = validator(succeed, kind), documents(kind)
    assert accepted
    for document in accepted:
        rules.validate(json.loads(json.dumps(document)))
        assert not rules.is_valid(document | {"unheard_of": 1}) or kind == "order"


def test_the_kind_may_stand_by_itself(succeed):
    assert succeed("schema", "design") == succeed("schema", "--of", "design")

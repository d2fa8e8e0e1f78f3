"""The JSON Schema of experiment files, generated from the models that check them."""

from typing import Any

from themis_opt.base.documents import schema_text
from themis_opt.batches.experiment import Experiment, Workload
from themis_opt.problem.cost_terms import COST_TERMS

Schema = dict[str, Any]


def experiment_schema() -> str:
    """The schema as text; editors of TOML check files against it."""
    schema = Experiment.model_json_schema()
    block: Schema = schema["$defs"]["Block"]["properties"]
    block["workloads"]["items"] = _workloads()
    for term in COST_TERMS:
        (values,) = (rule for rule in block[term]["anyOf"] if rule["type"] == "array")
        values["items"] = {"anyOf": [{"type": "string"}, values["items"]]}
    (seconds,) = (rule for rule in block["time_limit"]["anyOf"] if rule["type"] == "array")
    block["time_limit"]["anyOf"].append(seconds["items"])
    return schema_text(schema)


def _workloads() -> Schema:
    """A table of options that stands for workloads: every option has one value, or a list of them."""
    schema = Workload.model_json_schema()
    several = {name: {"anyOf": [rule, {"type": "array", "items": rule}]} for name, rule in schema["properties"].items()}
    return schema | {"properties": several, "title": "Workloads"}

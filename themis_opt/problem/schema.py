"""The JSON Schema of instance files, generated from the models and shipped as a file."""

from pathlib import Path
from typing import Any

from themis_opt.base.documents import schema_text
from themis_opt.problem.instance import OF_ITERATIONS, Instance

SCHEMA_FILE = Path(__file__).with_name("instance.schema.json")
"""The shipped copy; ``python -m themis_opt.problem.schema`` renews it."""


def shipped_schema() -> str:
    """The text of the shipped copy."""
    return SCHEMA_FILE.read_text(encoding="utf-8")


def instance_schema() -> str:
    """The schema as JSON text: a document has either an ``iteration``, with its fields, or ``collectives``."""
    model_schema = Instance.model_json_schema()
    schema = {
        "$defs": model_schema.pop("$defs")
        | {
            "collectives": _of_kind(model_schema, apart=("iteration", *OF_ITERATIONS), required="collectives"),
            "iteration": _of_kind(model_schema, apart=("collectives",), required="iteration"),
        },
        "type": "object",
        "if": {"required": ["iteration"]},
        "then": {"$ref": "#/$defs/iteration"},
        "else": {"$ref": "#/$defs/collectives"},
    }
    return schema_text(schema)


def _of_kind(schema: dict[str, Any], apart: tuple[str, ...], required: str) -> dict[str, Any]:
    properties = {name: rule for name, rule in schema["properties"].items() if name not in apart}
    return schema | {"properties": properties, "required": sorted({*schema["required"], "format", required})}


if __name__ == "__main__":
    SCHEMA_FILE.write_text(instance_schema(), encoding="utf-8")

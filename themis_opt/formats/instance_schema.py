"""The JSON Schema of instance files, generated from the models and shipped as a file."""

import json
from pathlib import Path
from typing import Any

from themis_opt.instance import Instance
from themis_opt.iteration_instance import IterationInstance

SCHEMA_FILE = Path(__file__).with_name("instance.schema.json")
"""The shipped copy; ``python -m themis_opt.formats.instance_schema`` renews it."""


def instance_schema() -> str:
    """The schema as JSON text: a document with an ``iteration`` is an iteration instance, others are instances."""
    parts: dict[str, Any] = {}
    for kind in (Instance, IterationInstance):
        own = kind.model_json_schema()
        parts |= own.pop("$defs")
        parts[kind.__name__] = own | {"required": sorted({*own["required"], "format"})}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": parts,
        "type": "object",
        "if": {"required": ["iteration"]},
        "then": {"$ref": f"#/$defs/{IterationInstance.__name__}"},
        "else": {"$ref": f"#/$defs/{Instance.__name__}"},
    }
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    SCHEMA_FILE.write_text(instance_schema(), encoding="utf-8")

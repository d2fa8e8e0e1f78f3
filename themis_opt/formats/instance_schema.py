"""The JSON Schema of instance files, generated from the models and shipped as a file."""

import json
from pathlib import Path

from themis_opt.instance import Instance

SCHEMA_FILE = Path(__file__).with_name("instance.schema.json")
"""The shipped copy; ``python -m themis_opt.formats.instance_schema`` renews it."""


def instance_schema() -> str:
    """The schema as JSON text."""
    schema = Instance.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["required"] = sorted({*schema["required"], "format"})
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    SCHEMA_FILE.write_text(instance_schema(), encoding="utf-8")

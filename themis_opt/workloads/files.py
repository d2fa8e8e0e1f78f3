"""Training iterations as files: laid out for people, with one task or tensor on a line."""

import json
from pathlib import Path
from typing import Any

from themis_opt.base.documents import write_atomically
from themis_opt.problem.instance import Instance


def instance_text(instance: Instance) -> str:
    """The JSON document of an instance, with the fields that were given."""
    document = {"format": instance.format} | instance.model_dump(mode="json", exclude_unset=True)
    return laid_out(document) + "\n"


def write_instance(instance: Instance, path: Path) -> None:
    """Write the JSON document of an instance. Raises InputError if the file cannot be written."""
    write_atomically(path, instance_text(instance))


def laid_out(value: Any, indent: str = "") -> str:
    """JSON with objects that hold no objects on one line, and everything around them indented."""
    if not _holds_objects(value):
        return _on_one_line(value)
    deeper = indent + "  "
    if isinstance(value, dict):
        lines = [f"{deeper}{json.dumps(key)}: {laid_out(part, deeper)}" for key, part in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    return "[\n" + ",\n".join(deeper + laid_out(part, deeper) for part in value) + f"\n{indent}]"


def _holds_objects(value: Any) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(isinstance(part, dict) or _holds_objects(part) for part in parts)


def _on_one_line(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return f"{{ {text[1:-1]} }}" if isinstance(value, dict) and value else text

"""What a report needs to know of its experiment, and of how the rows were made."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from themis_opt.base.documents import read_json, read_toml
from themis_opt.base.errors import InputError
from themis_opt.batches.experiment import EXPERIMENT
from themis_opt.batches.rows_file import provenance_of

PUBLISHED = "published.json"  # file in the folder of an experiment with results of others


@dataclass(frozen=True)
class ExperimentHead:
    """Name, title and description of an experiment, and the report that its rows are for.

    `published` holds the numbers of others that it is compared with, as they lie beside it in a JSON file.
    """

    name: str
    title: str
    report: str = "table"
    description: str = ""
    published: Mapping[str, Any] = field(default_factory=dict)


def read_experiment(folder: Path) -> ExperimentHead:
    """The head of the experiment file in `folder`; without a file, a table named after the folder.

    The rest of the file is left to those who run it. Raises InputError if the file cannot be read, is no TOML, or a
    field of the head is no text; if the published numbers are no JSON object.
    """
    path = folder / EXPERIMENT
    if not path.exists():
        name = folder.resolve().name
        return ExperimentHead(name, name)
    document = read_toml(path)
    name = _text(document, "name", folder.resolve().name, path)
    return ExperimentHead(
        name,
        _text(document, "title", name, path),
        _text(document, "report", "table", path),
        _text(document, "description", "", path).strip(),
        _json(folder / PUBLISHED),
    )


def read_provenance(rows: Path) -> dict[str, Any]:
    """Where the rows of a file come from; nothing where that is not told.

    Raises InputError if there is one that is not a JSON object.
    """
    return _json(provenance_of(rows))


def _json(path: Path) -> dict[str, Any]:
    return read_json(path) if path.exists() else {}


def _text(document: Mapping[str, Any], field: str, default: str, path: Path) -> str:
    value = document.get(field, default)
    if not isinstance(value, str):
        raise InputError("must be a text", field=field, value=value, source=str(path))
    return value

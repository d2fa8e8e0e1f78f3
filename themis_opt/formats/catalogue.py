"""Every format that is read or written, in one table."""

import inspect
from collections.abc import Iterable

from themis_opt.base.registries import Registry
from themis_opt.formats.bundle import WRITERS
from themis_opt.formats.exports import EXPORTS
from themis_opt.formats.readers.parts import Reader
from themis_opt.formats.readers.registry import READERS

DIRECTIONS: tuple[tuple[str, Registry], ...] = (("in", READERS), ("out", WRITERS), ("out", EXPORTS))
"""The registries and what their entries do."""


def formats() -> list[dict[str, str]]:
    """One row for each format: name, whether it is read or written, files, description, origin."""
    return [_row(name, way, registry) for way, registry in DIRECTIONS for name in registry]


def _row(name: str, way: str, registry: Registry) -> dict[str, str]:
    entry = registry.load(name)
    if isinstance(entry, Reader):
        files, meaning = _endings(entry.endings), entry.meaning
    else:
        pattern = _endings(entry.endings) if registry is EXPORTS else name
        files = f"*.{name}" if way == "in" else pattern
        meaning = (inspect.getdoc(entry) or "").partition("\n")[0].rstrip(".")
    return {"name": name, "way": way, "files": files, "meaning": meaning, "origin": registry.origin(name)}


def _endings(endings: Iterable[str]) -> str:
    return " ".join(f"*.{ending}" for ending in endings) or "*"

"""Every format that is read or written, in one table."""

from inspect import getdoc

from themis_opt.base.registries import Registry
from themis_opt.formats.bundle import WRITERS
from themis_opt.problem.catalog import READERS
from themis_opt.problem.parts import Reader

DIRECTIONS: dict[str, Registry] = {"in": READERS, "out": WRITERS}
"""The registries by what their entries do."""


def formats() -> list[dict[str, str]]:
    """One row for each format: name, whether it is read or written, files, what it is, where it comes from."""
    return [_row(name, way, registry) for way, registry in DIRECTIONS.items() for name in registry]


def _row(name: str, way: str, registry: Registry) -> dict[str, str]:
    entry = registry.load(name)
    if isinstance(entry, Reader):
        files, meaning = " ".join(f"*.{ending}" for ending in entry.endings) or "*", entry.meaning
    else:
        files = f"*.{name}" if way == "in" else name
        meaning = (getdoc(entry) or "").partition("\n")[0].rstrip(".")
    return {"name": name, "way": way, "files": files, "meaning": meaning, "origin": registry.origin(name)}

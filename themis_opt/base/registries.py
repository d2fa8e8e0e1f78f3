"""Registries: what the package and others offer by name, imported only when it is used."""

import sys
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from themis_opt.base.errors import InputError

OWN = "themis_opt"


class Registry(Mapping[str, Any]):
    """Registry and classes by name: what comes with the package, then what others add by entry points of a group.

    An entry point cannot replace what comes with the package.  Entry points are looked for only when a name is not a
    shipped one.

    `group`: group of entry points, such as ``themis_opt.policies``.
    `shipped`: objects, or import paths such as ``package.module:name``, which are loaded when they are asked for.
    """

    def __init__(self, group: str, shipped: Mapping[str, Any]) -> None:
        self.group, self._shipped = group, dict(shipped)

    @cached_property
    def _others(self) -> dict[str, EntryPoint]:
        return {entry.name: entry for entry in entry_points(group=self.group) if entry.name not in self._shipped}

    def __getitem__(self, name: str) -> Any:
        if name not in self._shipped:
            return self._others[name].load()
        shipped = self._shipped[name]
        return imported(shipped) if isinstance(shipped, str) else shipped

    def __iter__(self) -> Iterator[str]:
        return iter((*self._shipped, *sorted(self._others)))

    def __len__(self) -> int:
        return len(self._shipped) + len(self._others)

    def __contains__(self, name: object) -> bool:  # without loading anything
        return name in self._shipped or name in self._others

    def origin(self, name: str) -> str:
        """The distribution that an entry comes from, with its version where it is another package."""
        if name in self._shipped:
            return OWN
        if is_import_path(name):
            return name.partition(":")[0]
        distribution = self._others[name].dist
        return f"{distribution.name} {distribution.version}" if distribution else "unknown"

    def load(self, name: str, field: str = "") -> Any:
        """Import an entry, or what stands at an import path given in its place.

        Raises InputError if an entry of another package cannot be imported.

        `field`: that holds the name, by default the group.
        """
        if name in self._shipped:
            return self[name]
        try:
            return _of_the_user(name) if is_import_path(name) else self[name]
        except (ImportError, AttributeError, SyntaxError) as error:
            rule = f"cannot be loaded from {self.origin(name)}: {error}"
            raise InputError(rule, field=field or self.group, value=name) from error


def is_import_path(name: str) -> bool:
    """Whether a name is an import path such as ``package.module:name``."""
    return ":" in name


def imported(path: str) -> Any:
    """What stands at an import path such as ``package.module:name``."""
    module, _, attribute = path.partition(":")
    return getattr(import_module(module), attribute)


def _of_the_user(path: str) -> Any:
    """What stands at an import path, also in the folder in which the command was called."""
    if "" not in sys.path:
        sys.path.append("")
    return imported(path)

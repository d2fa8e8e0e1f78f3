"""Docstrings that are data, where Python leaves docstrings out (``-OO``): those of this package and of others."""

import ast
import inspect
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from textwrap import dedent
from types import CodeType, ModuleType
from typing import Any

STRIPS_DOCSTRINGS = 2  # the level of optimisation from which Python leaves docstrings out


def docstring(entry: Any) -> str:
    """What a function or a class says of itself, from its source where Python has left it out."""
    if sys.flags.optimize < STRIPS_DOCSTRINGS:
        return inspect.getdoc(entry) or ""
    try:  # not what it has: dataclasses without a docstring get one that lists their fields
        (definition,) = ast.parse(dedent(inspect.getsource(entry))).body
    except (OSError, TypeError, ValueError):
        return ""
    if not isinstance(definition, ast.FunctionDef | ast.ClassDef):
        return ""
    return ast.get_docstring(definition) or ""


@contextmanager
def with_docstrings(package: str) -> Iterator[None]:
    """Import a package and its modules with their docstrings, whatever ``PYTHONOPTIMIZE`` is."""
    if sys.flags.optimize < STRIPS_DOCSTRINGS:
        yield
        return
    finder = _Finder(package)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Finder:
    """Finds the modules of one package where Python finds them, and has them compiled whole."""

    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Where the module is, or None for modules of other packages."""
        if name.partition(".")[0] != self.package:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _WholeLoader(spec.loader.name, spec.loader.path)
        return spec


class _WholeLoader(SourceFileLoader):
    """Compiles a module again: what Python keeps beside it, at this level, has no docstrings."""

    def get_code(self, fullname: str) -> CodeType:
        """Code of the module with its docstrings and assertions."""
        code: CodeType = compile(self.get_data(self.path), self.path, "exec", dont_inherit=True, optimize=0)
        return code

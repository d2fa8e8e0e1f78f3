"""Names: each type and each constant is defined once, and variables are called by what they hold."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = [module for folder in ("themis_opt", "formulations") for module in (ROOT / folder).rglob("*.py")]
OTHERS = [
    module
    for folder in ("benchmarks", "docs", "instances", "reports", "tests")
    for module in (ROOT / folder).rglob("*.py")
]

REPEATED = {"READER", "GRAPH_SEARCH", "IntArray", "FloatArray", "BoolArray"}
"""The registry of formats looks up the first; the formulations, which import nothing else, alias arrays themselves."""

VAGUE = re.compile(r"\b(own|found)\b")


def defined_names(module: Path) -> Iterator[str]:
    """Classes of a module, and names that it assigns at its top."""
    for statement in ast.parse(module.read_text()).body:
        match statement:
            case ast.ClassDef(name=name):
                yield name
            case ast.Assign(targets=targets):
                yield from (node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name


def test_programs_import_names_that_exist():
    """Those of reports and benchmarks too, which no other test runs."""
    missing = []
    for module in OTHERS:
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("themis_opt", "formulations")):
                missing += [
                    f"{module.relative_to(ROOT)}: {node.module}.{each.name}"
                    for each in node.names
                    if not exists(str(node.module), each.name)
                ]
    assert missing == []


def exists(module: str, name: str) -> bool:
    """Whether a module holds a name, or a package a module; those that need torch say nothing."""
    try:
        return hasattr(import_module(module), name) or find_spec(f"{module}.{name}") is not None
    except ModuleNotFoundError as error:
        return "torch" in str(error)


def test_each_type_and_constant_is_defined_once():
    modules = defaultdict(set)
    for module in SOURCES:
        for name in defined_names(module):
            if name.lstrip("_")[:1].isupper() and name not in REPEATED:
                modules[name].add(str(module.relative_to(ROOT)))
    assert {name: places for name, places in modules.items() if len(places) > 1} == {}


def test_nouns_stand_in_the_place_of_vague_words():
    lines = [
        f"{module.relative_to(ROOT)}: {line.strip()}"
        for module in SOURCES + OTHERS
        for line in module.read_text().splitlines()
        if VAGUE.search(line)
    ]
    assert len(lines) <= 30, "\n".join(lines)

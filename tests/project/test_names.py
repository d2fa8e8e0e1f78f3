"""Names: each type and each constant is defined once, and variables are called by what they hold."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
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

"""What CONTRIBUTING says about the code."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
SOURCES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for top in ("themis_opt", "formulations")
    for path in (ROOT / top).rglob("*.py")
}


def test_contributing_has_at_most_1200_words() -> None:
    assert len(TEXT.split()) <= 1200


def test_the_map_names_every_folder_in_the_order_of_the_layers() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one.get("containers") == ["themis_opt"])
    places = [TEXT.index(f"`themis_opt/{folder.strip()}`") for layer in layers for folder in re.split("[|:]", layer)
              if (ROOT / "themis_opt" / folder.strip()).is_dir()]  # fmt: skip
    rows = [TEXT.rindex("\n", 0, place) for place in places]
    assert rows == sorted(rows)


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:[a-z_]+/)+[a-z_0-9]+\.py)`", TEXT))))
def test_files_that_are_named_exist(path: str) -> None:
    assert (ROOT / path).is_file() or (ROOT / "themis_opt" / path).is_file()


@pytest.mark.parametrize("program", sorted(set(re.findall(r"`(\w+\.py)[ `]", TEXT))))
def test_programs_that_are_named_exist(program: str) -> None:
    places = (ROOT / "benchmarks", ROOT / "themis_opt" / "solving")
    assert any((place / program).is_file() for place in places)


@pytest.mark.parametrize("group", sorted(set(re.findall(r"`(themis_opt\.[a-z_]+)`", TEXT))))
def test_groups_of_entry_points_are_looked_up(group: str) -> None:
    assert any(f'"{group}"' in path.read_text() for path in SOURCES.values())


def test_only_formulations_import_the_solver() -> None:
    users = {
        name.partition(".")[0]
        for name, path in SOURCES.items()
        if re.search(r"^\s*(from|import) ortools", path.read_text(), re.M)
    }
    assert users == {"formulations"}


def test_chains_of_imports_are_as_short_as_said() -> None:
    most = int(re.search(r"has at most (\d+) modules", TEXT)[1])
    assert max(map(depth, SOURCES)) <= most


@cache
def depth(module: str) -> int:
    """Modules in the longest chain of imports at the heads of modules, from this one on."""
    return 1 + max((depth(one) for one in imports(module)), default=0)


def imports(module: str) -> set[str]:
    names = set[str]()
    for node in ast.parse(SOURCES[module].read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return (names & SOURCES.keys()) - {module}

"""The documentation site is built without a warning; tutorials and examples of each family run as they stand."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from themis_opt.families.door import FAMILIES

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
LONG = {"health", "lost_nic", "network", "policy", "running", "training"}  # tutorials that take ten seconds and more
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', flags=re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """Code in a tutorial: a file of this name, or commands."""

    language: str
    name: str
    text: str


def blocks(tutorial: Path) -> list[Block]:
    return [Block(*parts) for parts in BLOCK.findall(tutorial.read_text(encoding="utf-8"))]


def run(command: str, folder: Path) -> subprocess.CompletedProcess:
    """Run a command as a user would, with the tools of this environment."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    return subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "tutorial",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.benchmarks] if path.stem in LONG else [])
        for path in TUTORIALS
    ],
)
def test_a_tutorial_runs_from_above_to_below(tutorial: Path, tmp_path: Path) -> None:
    commands = 0
    for block in blocks(tutorial):
        if block.name:
            path = tmp_path / block.name
            path.parent.mkdir(exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif block.language == "sh":
            done = run(f"set -e\n{block.text}", tmp_path)
            assert done.returncode == 0, f"{block.text}\n{done.stderr}"
            commands += 1
    assert commands >= 3


@pytest.mark.parametrize("page", ["README.md", "docs/usage.md", "docs/reference/python.md"])
def test_programs_serve_a_problem_of_each_family(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = (block.text for block in blocks(ROOT / page) if block.language == "python" and "family" in block.text)
    exec(program, {})
    assert {line.split()[0] for line in capsys.readouterr().out.splitlines()} == set(FAMILIES)


@pytest.mark.benchmarks  # the programs above solve the same problems
def test_commands_serve_a_problem_of_each_family(tmp_path: Path) -> None:
    (commands,) = (block.text for block in blocks(ROOT / "README.md") if block.text.startswith("themis-opt solve"))
    done = run(f"set -e\n{commands}", tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("*.solution/schedule.json"))) == len(FAMILIES)


@pytest.mark.skipif(find_spec("mkdocs") is None, reason="needs mkdocs (extra docs)")
def test_the_site_is_built_without_a_warning_and_stands_alone(tmp_path: Path) -> None:
    """Links to nothing are errors; references come from the code, and nothing from other hosts."""
    site = tmp_path / "site"
    done = run(f"{sys.executable} -m mkdocs build --strict --quiet -d {site}", ROOT)
    assert done.returncode == 0, done.stderr
    commands = (site / "reference" / "commands" / "index.html").read_text(encoding="utf-8")
    mathematics = (site / "reference" / "mathematics" / "index.html").read_text(encoding="utf-8")
    python = (site / "reference" / "python" / "index.html").read_text(encoding="utf-8")
    assert "<code>--launch-overhead</code>" in commands
    assert "<math" in mathematics
    assert "loss_distributions" in python
    for page in ("index.html", "tutorials/policy/index.html"):
        text = (site / page).read_text(encoding="utf-8")
        assert re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="https?://', text) == []
    for page in site.glob("reference/*/index.html"):
        assert re.findall(r":(?:class|func|mod|data|math):", page.read_text(encoding="utf-8")) == []


def test_every_page_of_the_documentation_is_in_the_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if page not in menu] == []


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LONGEST_SENTENCE = 30  # words, without code and formulas in it


def sentences(text: str) -> Iterator[str]:
    """The sentences of paragraphs and lists; no tables, code and names of numbers."""
    text = re.sub(r"<!--.*?-->|```.*?```|`[^`]*`|!?\[([^\]]*)\]\([^)]*\)", r"\1", text, flags=re.DOTALL)
    for paragraph in re.split(r"\n\s*\n|\n(?=[-*#|>] |\d+\. |\|)", text):
        if not paragraph.lstrip().startswith(("|", "#")):
            yield from re.split(r"(?<=[.!?:;])[)*\"]*\s+", paragraph)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_sentences_are_short(page: Path) -> None:
    long = [
        sentence
        for sentence in sentences(page.read_text(encoding="utf-8"))
        if len(re.findall(r"[A-Za-z][\w'/+-]*", sentence)) > LONGEST_SENTENCE
    ]
    assert long == []


def test_the_first_page_is_read_in_a_few_minutes() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    table = re.findall(r"^\|.*`themis-opt ", text, flags=re.MULTILINE)
    assert len(text.split()) <= 900
    assert len(text.splitlines()) <= 130
    assert 1 <= len(table) <= 12

"""A wheel built from the tree works alone, away from the tree."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pytest
from background import PATIENCE

TREE = Path(__file__).parents[2]
HETERO = "3d-sw_sw_sw_hetero.all_reduce.100MiB"


def pip(*arguments):
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, arguments)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built without a network if the build backend is at hand."""
    folder = tmp_path_factory.mktemp("wheel")
    isolation = ["--no-build-isolation"] if find_spec("hatchling") else []
    pip("wheel", TREE, "--no-deps", "--wheel-dir", folder, *isolation)
    (path,) = folder.glob("*.whl")
    return path


def test_the_wheel_holds_all_modules_and_instances_and_nothing_else(wheel):
    with ZipFile(wheel) as archive:
        content = set(archive.namelist())
    modules = {
        str(path.relative_to(TREE))
        for package in ("themis_opt", "formulations")
        for path in (TREE / package).rglob("*.py")
    }
    instances = {f"themis_opt/{path.relative_to(TREE)}" for path in (TREE / "instances").rglob("*.json")}
    assert f"themis_opt/instances/paper/{HETERO}.json" in instances
    others = {"themis_opt/problem/instance.schema.json", "themis_opt/py.typed", "formulations/py.typed"}
    others |= {
        f"themis_opt/papers/{path.relative_to(TREE / 'reports')}" for path in (TREE / "reports/drawing").glob("*.*")
    }
    assert modules | instances | others <= content
    not_for_users = ("__pycache__", "generators/", "reports/policies")
    assert [name for name in content if name.startswith("tests/") or any(part in name for part in not_for_users)] == []

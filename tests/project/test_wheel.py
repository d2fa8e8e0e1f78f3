"""A wheel built from the tree works alone, away from the tree."""

import json
import os
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


@pytest.fixture(scope="module")
def content(wheel):
    with ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The folder that holds the installed package and nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    pip("install", wheel, "--no-deps", "--target", folder)
    return folder


@pytest.fixture(scope="module")
def run(installed, tmp_path_factory):
    """Run Python away from the tree, with the installed package first on its path."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")

    def python(*arguments):
        environment = os.environ | {"PYTHONPATH": str(installed)}
        command = [sys.executable, *map(str, arguments)]
        return subprocess.run(
            command, cwd=elsewhere, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
        )

    return python


@pytest.mark.parametrize(
    "name",
    [
        "themis_opt/problem/instance.schema.json",
        "themis_opt/py.typed",
        "formulations/py.typed",
        f"themis_opt/instances/paper/{HETERO}.json",
        "themis_opt/instances/toy/fig5.all_reduce.256MB.json",
    ],
)
def test_wheel_holds(content, name):
    assert name in content


def test_wheel_holds_every_instance(content):
    files = {f"themis_opt/{path.relative_to(TREE)}" for path in (TREE / "instances").rglob("*.json")}
    assert files <= content


def test_wheel_holds_every_module(content):
    modules = {
        str(path.relative_to(TREE))
        for package in ("themis_opt", "formulations")
        for path in (TREE / package).rglob("*.py")
    }
    assert modules <= content


def test_wheel_holds_no_tests_and_no_caches(content):
    assert [name for name in content if name.startswith("tests/") or "__pycache__" in name] == []


def test_wheel_holds_nothing_that_only_this_repository_needs(content):
    ours = ("drawing/", "generators/", "reports/policies")
    assert [name for name in content if any(part in name for part in ours)] == []


def test_installed_package_is_the_one_that_runs(run, installed):
    assert run("-c", "import themis_opt; print(themis_opt.__file__)").stdout.startswith(str(installed))


def test_installed_package_solves_a_shipped_instance_by_name(run, tmp_path):
    options = ("--chunks", 1, "--chunk-sizes", "equal", "--workers", 1, "-o", tmp_path, "--json")
    result = run("-m", "themis_opt", "solve", HETERO, *options)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)[-1]["policy"] == "exact"

"""Installs the wheel beside the oldest and the newest allowed dependencies, and runs the main command and some tests.

``python tests/compatibility.py [oldest | newest] [PYTHON...]`` with interpreters such as ``python3.11 python3.13``; by
default all of 3.11 to 3.13 that are there.  The oldest dependencies are tried with the first interpreter.  Everything
runs in the C locale, once more with ``PYTHONOPTIMIZE=2``, and where the system has mount namespaces on a file system
of which nothing but the folder of the results can be written, without a home.  The last line of each environment is a
row for the table in CONTRIBUTING.md.  The exit code is the number of failures.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parent.parent
VERSIONS = ("3.11", "3.12", "3.13")
KINDS = ("oldest", "newest")
TESTED_BY = ("pytest", "pytest-benchmark", "hypothesis", "jsonschema")
SOLVE = ("-m", "themis_opt", "solve", "fig5.all_reduce.256MB", "--chunks", "4", "--time-limit", "20", "--gap", "0.001")
TUNE = ("-m", "themis_opt", "tune", "fig5.all_reduce.256MB", "--trials", "5")
FILES = ("test_units", "test_instance", "test_simulator", "test_run_store", "test_report_command", "formats/test_gantt")
FILES += ("formats/test_solver_models", "formulations/test_chunk_order", "formulations/test_fluid")
TESTS = ("-m", "pytest", "-q", "-p", "no:cacheprovider", *(str(ROOT / "tests" / f"{name}.py") for name in FILES))
DOCUMENTED = ("solve --help", "list formats", "workload --list")  # commands that print what docstrings say
READ_ONLY = (
    'mount --bind "$0" "$0" && mount -o remount,bind,ro / && cd "$0" && ! touch "$1" 2>/dev/null && shift && "$@"'
)
"""Run a command where a folder and nothing else can be written; told are the folder, a file that must fail, and the
command."""

NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")
SHOWN = ("numpy", "ortools", "pydantic", "optuna", "typer", "pandas")  # packages of which the table names the version


def interpreters() -> list[str]:
    """Interpreters of the versions that are supported, by their commands, also those of pyenv."""
    known = [shutil.which(f"python{version}") for version in VERSIONS]
    others = [sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python")) for version in VERSIONS]
    paths = [path or (str(more[-1]) if more else None) for path, more in zip(known, others, strict=True)]
    return [path for path in paths if path]


def oldest() -> str:
    """Constraints that keep every dependency at its lower bound, as the text of a file."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = []
    for requirement in project["dependencies"]:
        name, _, least = requirement.partition(">=")
        parts = [*least.split("."), "0"][: max(2, least.count(".") + 1)]
        lines.append(f"{name}=={'.'.join(parts)}.*")
    return "\n".join(lines) + "\n"


def run(command: Sequence[str | Path], environment: Mapping[str, str] | None = None, **options: object) -> str:
    """Run a command; the end of what it printed if it failed, else nothing."""
    ended = subprocess.run(
        list(map(str, command)),
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        **options,  # type: ignore[call-overload]
    )
    return "" if ended.returncode == 0 else (ended.stdout + ended.stderr)[-2000:] or f"exit code {ended.returncode}"


def environments(pythons: Sequence[str], kinds: Collection[str]) -> Iterator[tuple[str, str, bool]]:
    """Name, interpreter, and whether the dependencies are the oldest."""
    for python in pythons:
        version = subprocess.run([python, "-V"], capture_output=True, text=True, check=True).stdout.split()[1]
        if python == pythons[0] and "oldest" in kinds:
            yield f"{version} oldest", python, True
        if "newest" in kinds:
            yield f"{version} newest", python, False


def install(python: str, folder: Path, wheel: Path, *, is_oldest: bool) -> str:
    """Make a virtual environment with the wheel; what failed."""
    constraints = folder.with_suffix(".txt")
    constraints.write_text(oldest() if is_oldest else "", encoding="utf-8")
    failed = run([python, "-m", "venv", folder])
    return failed or run([folder / "bin/python", "-m", "pip", "install", "-q", "-c", constraints, wheel, *TESTED_BY])


def checks(python: Path, place: Path) -> Iterator[tuple[str, str]]:
    """What is run in an environment, and what failed."""
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONPATH": ""}
    yield "the main command", run([python, *SOLVE, "-o", place / "solved"], plain, cwd=place)
    yield "tuning", run([python, *TUNE, "-o", place / "tuned"], plain, cwd=place)
    yield "tests", run([python, *TESTS], plain, cwd=ROOT)
    stripped = plain | {"PYTHONOPTIMIZE": "2"}
    yield "the main command without assertions", run([python, *SOLVE, "-o", place / "stripped"], stripped, cwd=place)
    yield "tests without assertions", run([python, *TESTS], stripped, cwd=ROOT)
    yield "texts without docstrings", _differ(python, plain, stripped)
    yield "the main command without a home, read-only", _read_only(python, plain | {"HOME": "/nonexistent"}, place)


def _differ(python: Path, one: Mapping[str, str], other: Mapping[str, str]) -> str:
    """Commands that print something else in the other environment."""
    differing = []
    for command in DOCUMENTED:
        line = [python, "-m", "themis_opt", *command.split()]
        first, second = (
            subprocess.run(line, env=os.environ | changes, capture_output=True, check=True).stdout
            for changes in (one, other)
        )
        differing += [command] * (first != second)
    return ", ".join(differing)


def _read_only(python: Path, environment: Mapping[str, str], place: Path) -> str:
    """What failed; nothing, with a line that says why, where this cannot be tried."""
    folder = place / "writable"
    folder.mkdir()
    unavailable = run([*NAMESPACE, "true"]) if shutil.which(NAMESPACE[0]) else "there is no program unshare"
    if unavailable:
        print(f"skipped: read-only, because namespaces cannot be made here: {unavailable.strip()}")
        return ""
    within = [*NAMESPACE, READ_ONLY, folder, python.parent / "written"]
    return run([*within, python, *SOLVE, "-o", folder / "solved"], environment)


def versions(python: Path) -> str:
    """The versions of some of the installed packages."""
    script = "from importlib.metadata import version; import sys; print(*map(version, sys.argv[1:]))"
    installed = subprocess.run(
        [python, "-c", script, *SHOWN], capture_output=True, text=True, check=True
    ).stdout.split()
    return ", ".join(f"{name} {version}" for name, version in zip(SHOWN, installed, strict=True))


def main() -> int:
    """Check all environments; returns the number of failures."""
    kinds = {word for word in sys.argv[1:] if word in KINDS}
    pythons = [word for word in sys.argv[1:] if word not in KINDS] or interpreters()
    failures = 0
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        failed = run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", place, ROOT])
        if failed:
            print(failed)
            return 1
        (wheel,) = place.glob("themis_opt-*.whl")
        for title, python, is_oldest in environments(pythons, kinds or KINDS):
            failures += check(title, python, wheel, is_oldest=is_oldest)
    return failures


def check(title: str, python: str, wheel: Path, *, is_oldest: bool) -> int:
    """Check one environment, which is deleted afterwards; returns the number of failures."""
    folder = wheel.parent / re.sub(r"\W", "-", title)
    work = folder.with_suffix(".work")
    work.mkdir()
    installed = install(python, folder, wheel, is_oldest=is_oldest)
    steps = iter(()) if installed else checks(folder / "bin/python", work)
    failed = []
    for step, said in chain([("installation", installed)], steps):
        print(f"{title}: {step}: {'FAILED' if said else 'ok'}\n{said}".rstrip(), flush=True)
        failed += [step] * bool(said)
    if not installed:
        failures = ", ".join(failed) or "none"
        print(f"| {date.today()} | {title} | {versions(folder / 'bin/python')} | {failures} |", flush=True)
    shutil.rmtree(folder)
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())

"""Sessions of nox: ``nox -l`` lists them, ``nox -s lint`` runs one."""

import tomllib
from pathlib import Path

import nox

VERSIONS = ("3.11", "3.12", "3.13")
nox.options.sessions = ("tests", "lint", "types")


@nox.session(python=VERSIONS[0])
def tests(session: nox.Session) -> None:
    """The suite."""
    session.install("-e", ".[test]")
    session.run("pytest", "-n", "2", *session.posargs)


@nox.session(python=VERSIONS[0])
def lint(session: nox.Session) -> None:
    """Style and layers."""
    session.install("-e", ".[dev]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("lint-imports")


@nox.session(python=VERSIONS[0])
def types(session: nox.Session) -> None:
    """Strict types."""
    session.install("-e", ".[dev]")
    session.run("mypy")


@nox.session(python=VERSIONS)
@nox.parametrize("dependencies", ["oldest", "newest"])
def compatibility(session: nox.Session, dependencies: str) -> None:
    """The suite beside the oldest or the newest allowed dependencies."""
    limits = Path(session.create_tmp()) / "limits.txt"
    wanted = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    versions = dict(one.split(">=") for one in wanted)
    least = {name: version if "." in version else f"{version}.0" for name, version in versions.items()}
    limits.write_text("".join(f"{name}=={version}.*\n" for name, version in least.items()))
    session.install(".[test]", *(["-c", str(limits)] if dependencies == "oldest" else []))
    session.run("pytest", "-n", "2", *session.posargs)

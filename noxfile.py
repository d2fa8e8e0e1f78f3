"""Sessions of nox: ``nox -l`` lists them, ``nox -s lint`` runs one."""

import nox

nox.options.sessions = ("tests", "lint", "types")
VERSIONS = (("3.11", "oldest"), ("3.11", "newest"), ("3.12", "newest"), ("3.13", "newest"))


@nox.session(python="3.11")
def tests(session: nox.Session) -> None:
    """Run the suite."""
    session.install("-e", ".[test]")
    session.run("pytest", "-n", "2", *session.posargs)


@nox.session(python="3.11")
def lint(session: nox.Session) -> None:
    """Check style and layers."""
    session.install("-e", ".[dev]")
    for command in ("ruff check .", "ruff format --check .", "lint-imports"):
        session.run(*command.split())


@nox.session(python="3.11")
def types(session: nox.Session) -> None:
    """Check types."""
    session.install("-e", ".[dev]")
    session.run("mypy")


@nox.session
@nox.parametrize(("python", "versions"), VERSIONS)
def compatibility(session: nox.Session, versions: str) -> None:
    """Run the suite beside the oldest or the newest allowed dependencies."""
    project = nox.project.load_toml("pyproject.toml")["project"]
    extras = [name for extra in ("pictures", "tuning") for name in project["optional-dependencies"][extra]]
    packages = [name for name in (*project["dependencies"], *extras) if not name.startswith("themis-opt")]
    oldest = [name.replace(">=", "==") for name in packages if versions == "oldest"]
    session.install(".[test]", *oldest)
    session.run("pytest", "-n", "2", *session.posargs)

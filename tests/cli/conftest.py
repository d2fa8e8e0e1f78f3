"""Running the command line in this process, and the instance and the solution that these tests start from."""

import json
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from iteration_schedules import layers
from typer.testing import CliRunner

from themis_opt.base.clock import SEARCH_CLOCK
from themis_opt.batches import executors
from themis_opt.cli import process
from themis_opt.cli.main import application
from themis_opt.problem.catalog import shipped
from themis_opt.search import annealing

NAME = "fig5.all_reduce.256MB"


@pytest.fixture(scope="session")
def invoke() -> Callable[..., Any]:
    """Run a command line; numerical and user warnings are errors, because they would reach the user's terminal."""
    command, runner = application(), CliRunner()
    annealing.is_ready(None)  # compiling in a thread may restore warnings as they were in between

    def run(*arguments: object) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            warnings.simplefilter("error", UserWarning)
            process.PROCESS_START = SEARCH_CLOCK.now()  # which time limits count from
            return runner.invoke(command, [str(a) for a in arguments])

    return run


@pytest.fixture(scope="session")
def succeed(invoke: Callable[..., Any]) -> Callable[..., str]:
    """Run a command line that must succeed; returns what it prints."""

    def run(*arguments: object) -> str:
        result = invoke(*arguments)
        assert result.exit_code == 0, result.stderr + repr(result.exception)
        return str(result.stdout)

    return run


@pytest.fixture(scope="session")
def refuse(invoke: Callable[..., Any]) -> Callable[..., str]:
    """Run a command line that must be refused as bad input: a line for each error, exit code 2; returns the lines."""

    def run(*arguments: object) -> str:
        result = invoke(*arguments)
        assert isinstance(result.exception, SystemExit), f"not refused but {result.exception!r}"
        assert result.exit_code == 2
        assert result.stdout == ""
        lines = [line for line in result.stderr.splitlines() if not line.startswith("warning: ")]
        assert lines
        assert all(line.startswith("error: ") for line in lines), result.stderr
        return str(result.stderr)

    return run


@pytest.fixture
def in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Execute runs of batches in this process, which takes no time to start."""

    @contextmanager
    def threads(jobs: int) -> Iterator[executors.Site]:
        yield executors.Site(1, ThreadPoolExecutor(1).submit)

    monkeypatch.setattr(executors, "processes", threads)


@pytest.fixture(scope="session")
def document() -> dict[str, Any]:
    """The instance file of figure 5 as JSON values; not to be changed."""
    content: dict[str, Any] = json.loads(shipped()[NAME].read_text(encoding="utf-8"))
    return content


@pytest.fixture
def save(tmp_path: Path) -> Callable[..., Path]:
    """Write JSON values, text or bytes into a file."""

    def write(content: object, name: str = "given.json") -> Path:
        path = tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def solution(succeed: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that ``solve`` writes for figure 5; not to be changed."""
    folder = tmp_path_factory.mktemp("solve") / "solution"
    succeed("solve", NAME, "-o", folder, "--time-limit", 5, "--workers", 1, "--chunk-sizes", "equal")
    return folder


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a small training iteration."""
    path = tmp_path_factory.mktemp("trained") / "layers.json"
    path.write_text(json.dumps(layers().model_dump(mode="json")), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def trained_solution(succeed: Callable[..., str], trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that ``solve`` writes for the training iteration; not to be changed."""
    folder = tmp_path_factory.mktemp("solve") / "layers"
    succeed("solve", trained, "-o", folder, "--policies", "fused/baseline,wait_free/themis+scf", "--time-limit", 5)
    return folder


@pytest.fixture(scope="session")
def batched(succeed: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small experiment that ``batch`` has run."""
    folder = tmp_path_factory.mktemp("batch")
    runs = f'[[runs]]\ninstances = ["{NAME}"]\npolicies = ["baseline+fifo", "bound"]\n'
    (folder / "experiment.toml").write_text(f'name = "small"\n{runs}', encoding="utf-8")
    succeed("batch", folder / "experiment.toml", "--jobs", 1)
    return folder

"""Functions that are interpreted at first and compiled later."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import numba
import numpy as np
import pytest
from background import PATIENCE

from themis_opt.base import compiled
from themis_opt.base.clock import SEARCH_CLOCK
from themis_opt.base.compiled import Compilable, compile_at_once
from themis_opt.policies.hourglass import candidates
from themis_opt.policies.hourglass.policy import balanced
from themis_opt.problem.instance import Instance


def doubled(numbers: np.ndarray) -> int:
    """Sum of the numbers, twice; calls another function of this module."""
    total = 0
    for number in numbers:
        total += twice(number)
    return total


def twice(number: int) -> int:
    return 2 * number


def halved(number: int) -> int:
    return divided(number * number, 2 * number)


def divided(number: int, by: int) -> int:
    return number // by


NUMBERS = np.arange(5)

SIMULATION = """
import sys
import themis_opt
instance = themis_opt.load(sys.argv[1])
themis_opt.simulate(instance, themis_opt.make_policy("hourglass")(instance))
assert not {"numba", "ortools"} & set(sys.modules)
"""


@pytest.mark.parametrize("name", ["fig5.all_reduce.256MB", "3d-sw_sw_sw_hetero.all_reduce.100MiB"])
def test_small_runs_never_load_the_compiler_or_a_solver(name: str) -> None:
    subprocess.run([sys.executable, "-c", SIMULATION, name], check=True, timeout=PATIENCE)


@pytest.mark.parametrize("chunks", [64, 5])
def test_a_search_that_its_first_candidates_end_finds_what_the_whole_one_does(
    hetero: Instance, monkeypatch: pytest.MonkeyPatch, chunks: int
) -> None:
    instance = hetero.overridden(chunks=chunks)
    monkeypatch.setattr(candidates, "SEARCH", Compilable(candidates.search, patience=10**12))
    whole = balanced(instance)
    loaded = Counter[str]()

    class Loading(Compilable):
        compiled = property(lambda self: loaded.update(["search"]) or self.function)  # type: ignore[assignment]

    monkeypatch.setattr(candidates, "SEARCH", Loading(candidates.search))
    monkeypatch.setattr(candidates, "OPENINGS", Compilable(candidates.time_candidates, patience=10**12))
    assert balanced(instance) == whole
    assert bool(loaded) == (chunks == 5)


def test_work_is_interpreted_until_patience_ends() -> None:
    function = Compilable(doubled, patience=10)
    assert [function.interprets(work) for work in (4, 7, 6, 1)] == [True, False, True, False]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_patient", True)
    compile_at_once()


@pytest.mark.usefixtures("impatient")
def test_an_impatient_process_interprets_nothing() -> None:
    assert not Compilable(doubled, patience=10).interprets(1)


def test_the_compiled_function_has_the_result_of_the_interpreted_one() -> None:
    assert Compilable(doubled).compiled(NUMBERS) == doubled(NUMBERS)


def test_errors_of_what_is_called_reach_the_caller_whose_machine_code_is_the_only_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    function = Compilable(halved)
    assert function.compiled(4) == halved(4) == 2
    with pytest.raises(ZeroDivisionError):
        function.compiled(0)
    (assembly,) = function.compiled.inspect_asm().values()
    labels = [line for line in assembly.splitlines() if line.endswith(":")]
    assert any("halved" in label for label in labels)
    assert not any("divided" in label for label in labels)


def cache_files(function: Compilable, folder: Path) -> set[str]:
    """Names under which its machine code is stored."""
    function.compiled(NUMBERS)
    return {path.name for path in folder.rglob("*.nbi")}


def test_a_change_in_what_is_called_is_not_answered_with_old_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    before = cache_files(Compilable(doubled), tmp_path)
    assert cache_files(Compilable(doubled), tmp_path) == before
    helper = sys.modules[twice.__module__]
    changed = tmp_path / "changed.py"
    changed.write_text(Path(str(helper.__file__)).read_text(encoding="utf-8") + "\n", encoding="utf-8")
    monkeypatch.setattr(helper, "__file__", str(changed))
    assert len(cache_files(Compilable(doubled), tmp_path)) == len(before) + 1


def test_no_limit_on_time_counts_what_is_compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    compiled = Compilable(doubled).compiled
    began, counted = monotonic(), SEARCH_CLOCK.now()
    compiled(NUMBERS)
    assert SEARCH_CLOCK.now() - counted < (monotonic() - began) / 2


@pytest.fixture
def no_cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Numba as it is where no folder is writable."""
    njit = numba.njit

    def njit_without_cache(*, cache: bool = False, **options: Any) -> Any:
        if cache:
            raise RuntimeError("cannot cache function 'event_loop': no locator available")
        return njit(**options)

    monkeypatch.setattr(numba, "njit", njit_without_cache)
    return


@pytest.mark.usefixtures("no_cache")
def test_a_function_is_compiled_where_it_cannot_be_cached() -> None:
    assert Compilable(doubled).compiled(NUMBERS) == doubled(NUMBERS)


def test_a_process_ends_after_what_it_compiles() -> None:
    """LLVM aborts where an interpreter ends under it."""
    use = "lambda: (time.sleep(0.5), print('over'))"
    code = f"import time; from themis_opt.base.compiled import FirstUse; FirstUse({use}).is_over(0.0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert done.stdout == "over\n"

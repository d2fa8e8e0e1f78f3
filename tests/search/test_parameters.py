"""The parameters of searches, and the report that says what each of them changes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from benchmarks.parameters import STUDIES, Row, decisive, numbers, read_rows, scaled, shown, table, varied

from themis_opt.policies.hourglass.policy import USUAL
from themis_opt.search.local_search import LocalSearchParams

REPORT = Path(__file__).parents[2] / "reports" / "references" / "parameters"


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return read_rows(REPORT / "rows.csv")


def usual_values() -> Mapping[tuple[str, str], str]:
    """What the searches use today."""
    return {
        (search, ".".join(path)): shown(value)
        for search, study in STUDIES.items()
        for path, value in numbers(study.params, study.leaves_out)
    }


def test_every_number_that_steers_a_search_is_in_the_report_as_it_is(rows: list[Row]) -> None:
    assert {(row.search, row.parameter): row.usual for row in rows} == usual_values()


def test_the_report_shows_what_matters_of_its_rows(rows: list[Row]) -> None:
    assert table(decisive(rows)) in (REPORT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("path", "value", "changed"),
    [
        (("trials_per_stage",), 3, lambda params: params.trials_per_stage),
        (("weights", "2"), 0.7, lambda params: params.weights[2]),
        (("paths", "steepness"), 4, lambda params: params.paths.steepness),
    ],
)
def test_one_number_is_varied(path: tuple[str, ...], value: float, changed: Any) -> None:
    params = varied(USUAL, path, value)
    assert changed(params) == value
    differing = [before for before, after in zip(numbers(USUAL), numbers(params), strict=True) if before != after]
    assert [name for name, _ in differing] == [path]


def test_counts_stay_whole_and_positive() -> None:
    assert scaled(LocalSearchParams().free_counts, 2.0) == (32, 48, 64, 128)
    assert scaled(1, 0.5) == 1
    assert scaled(0.5, 0.5) == 0.25

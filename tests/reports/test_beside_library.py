"""What reports publish is known to the library: no schedule of theirs is better, and no bound."""

from pathlib import Path

import pandas as pd
import pytest

from formulations.limits import PROVEN_GAP
from themis_opt.batches.rows_file import BOUND
from themis_opt.study.best_known import Library

REPORTS = Path(__file__).parents[2] / "reports"
COMPARED = ("iterations", "paper_reproduction", "policies", "scaling", "tuning")
"""Reports with runs on instances of the library."""

KEY = ["fingerprint", "sizes"]
NOT_KEPT = {
    ("all_reduce-08", "free"): 933_313_891,
    ("paper-06", "equal"): 335_960_878,
    ("paper-12", "equal"): 3_322_340_395,
}
"""Makespans in picoseconds of runs whose schedules were not kept, and which no run of today comes to."""


@pytest.fixture(scope="module")
def known() -> pd.DataFrame:
    rows = [row.model_dump(include={*KEY, "name", "makespan_ps", "bound_ps"}) for row in Library().rows]
    return pd.DataFrame(rows)


def better(offers: pd.DataFrame, known: pd.DataFrame, key: list[str]) -> list[str]:
    """Offers of a makespan or a bound, by more than what closes a row, in words."""
    both = offers.merge(known, on=key)
    assert len(both)
    faster = both.makespan < both.makespan_ps * (1 - PROVEN_GAP)
    closer = both.bound > both.bound_ps * (1 + PROVEN_GAP)
    is_kept = both.makespan.round() != [NOT_KEPT.get(key) for key in zip(both.name, both.sizes, strict=True)]
    rows = both[(faster & is_kept) | closer].itertuples()
    return sorted({f"{row.name}, sizes {row.sizes}: {row.makespan:.0f}, bound {row.bound:.0f}" for row in rows})


@pytest.mark.parametrize("report", COMPARED)
def test_no_run_of_a_report_is_better(report: str, known: pd.DataFrame) -> None:
    """Equal chunks are also chunks of any sizes, but what holds for them need not hold for others."""
    runs = pd.read_csv(REPORTS / report / "rows.csv.gz", low_memory=False).assign(
        makespan=lambda rows: rows.makespan_ns * 1000
    )
    runs, states = runs[runs.status == "ok"], runs[(runs.status == "ok") & (runs.policy == BOUND)]
    free, equal = runs[runs.sizes == "free"], runs[runs.sizes == "equal"]
    offers = [
        equal.assign(bound=equal.bound_ns * 1000),
        equal.assign(bound=float("nan"), sizes="free"),
        free.assign(bound=free.bound_ns * 1000),
        states.assign(bound=states.bound_ns * 1000, sizes="free"),
        states.assign(bound=states.bound_equal_ns * 1000, sizes="equal"),
    ]
    assert better(pd.concat(offers), known, KEY) == []


def test_no_engine_is_better(known: pd.DataFrame) -> None:
    runs = pd.read_csv(REPORTS / "engines" / "results.csv").rename(
        columns={"instance": "name", "makespan_ps": "makespan"}
    )
    assert better(runs.assign(bound=float("nan")), known, ["name", "sizes"]) == []


def test_what_was_not_kept_is_still_better(known: pd.DataFrame) -> None:
    """Else its line goes."""
    best = known.set_index(["name", "sizes"]).makespan_ps
    assert [key for key, makespan in NOT_KEPT.items() if best[key] * (1 - PROVEN_GAP) <= makespan] == []

"""The checker of the library refuses forgeries, each on rows of every family; a benchmark tries all rows."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from forgeries import CERTIFICATES, SOLUTIONS, Document, Forgery, forged
from library import check

from themis_opt.problem.catalog import LIBRARY

FAMILIES = ("paper", "all_reduce", "kinds", "costs", "equal", "several", "iteration", "graph")
OF_EACH = 2


@cache
def rows() -> list[dict[str, Any]]:
    """The smallest rows of each family."""
    every = check.read(LIBRARY / "index.json")["instances"]
    every.sort(key=lambda row: Path(LIBRARY / row["solution"]).stat().st_size)
    families = [[row for row in every if row["name"].startswith(f"{family}-")] for family in FAMILIES]
    to_all = next(row for row in every if "all_to_all" in row["name"])
    return [to_all, *(row for family in families for row in family[:OF_EACH])]


@cache
def documents(name: str, sizes: str) -> tuple[Document, Document, Document]:
    row = next(row for row in rows() if (row["name"], row["sizes"]) == (name, sizes))
    instance, solution, certificate = (
        check.read(LIBRARY / row[field]) for field in ("file", "solution", "certificate")
    )
    return instance, solution, certificate


def accepted_solution(row: dict[str, Any], instance: Document, solution: Document) -> bool:
    """Whether the checker takes a solution that is faster than the best known one."""
    try:
        verdict = check.judge(instance, solution, equal=row["sizes"] == "equal")
    except check.Refused:
        return False
    return verdict.makespan is not None and verdict.makespan < row["makespan_ps"]


def accepted_certificate(row: dict[str, Any], instance: Document, certificate: Document) -> bool:
    """Whether the checker takes a bound above a schedule that there is."""
    try:
        verdict = check.judge(instance, None, certificate, equal=row["sizes"] == "equal")
    except check.Refused:
        return False
    return verdict.best(trusted=True) > row["makespan_ps"]


@pytest.mark.parametrize(
    ("place", "accepts", "forgery"),
    [(1, accepted_solution, forgery) for forgery in SOLUTIONS]
    + [(2, accepted_certificate, forgery) for forgery in CERTIFICATES],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_forged_documents_are_refused(
    place: int, accepts: Callable[[dict[str, Any], Document, Document], bool], forgery: Forgery
) -> None:
    tried, accepted = 0, []
    for row in rows():
        files = documents(row["name"], row["sizes"])
        if (cheat := forged(files[place], forgery)) is not None:
            tried += 1
            accepted += [row["name"]] if accepts(row, files[0], cheat) else []
    assert tried
    assert accepted == []

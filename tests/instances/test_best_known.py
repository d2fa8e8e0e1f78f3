"""The table of best known schedules: it only improves, and only by what is valid."""

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from best_known import TABLE, Finding, Record, improved, read, reported_rows, with_reported, write

import themis_opt
from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.problem.catalog import shipped
from themis_opt.problem.instance import Instance
from themis_opt.schedules.schedule import Schedule
from themis_opt.solving.sizing import resized

Run = Callable[[Instance, str], Schedule]

UNIT = 10**9  # picoseconds of a unit of time of figure 5
TODAY, LATER = date(2026, 11, 21), date(2026, 11, 22)


def finding(schedule: Schedule, **changes: Any) -> Finding:
    """A finding with a bound of 6 units."""
    fields = {"sizes": "equal", "bound": 6.0 * UNIT, "bound_name": "fluid", "date": TODAY}
    return Finding(schedule, **(fields | {"how_makespan": "found", "how_bound": "proven"} | changes))


@pytest.fixture
def slow(figure_5: Instance, run: Run) -> Schedule:
    """8 units, equal chunks."""
    return run(figure_5, "baseline+fifo")


@pytest.fixture
def fast(figure_5: Instance, run: Run) -> Schedule:
    """7 units, equal chunks."""
    return run(figure_5, "themis+scf")


@pytest.fixture
def free(fast: Schedule) -> Schedule:
    """Less than 7 units, unequal chunks."""
    return resized(fast)


def makespans(records: tuple[Record, ...]) -> dict[str, int]:
    return {record.sizes: record.makespan_ps for record in records}


def bounds(records: tuple[Record, ...]) -> dict[str, float]:
    """Bounds in units, by sizes."""
    return {record.sizes: round(record.bound_ps / UNIT, 6) for record in records}


def test_a_first_schedule_makes_a_row(figure_5: Instance, slow: Schedule) -> None:
    (record,) = improved((), finding(slow))
    assert (record.network, record.collective, record.latency, record.ag_order) == ("fig5", "all_reduce", "lag", "free")
    assert (record.size_bytes, record.chunks, record.fingerprint) == (256 * 10**6, 4, figure_5.fingerprint)
    assert (record.makespan_ps, record.how_makespan, record.how_bound) == (8 * UNIT, "found", "proven")


def test_an_iteration_has_a_row_with_the_bytes_of_its_tensors(run: Run) -> None:
    instance = themis_opt.load("v100-256.resnet-50")
    schedule = run(instance, "priority/hourglass")
    (record,) = improved((), finding(schedule, sizes="free", bound=instance.compute))
    assert (record.network, record.collective, record.sizes) == (instance.network.name, "iteration", "free")
    assert (record.size_bytes, record.chunks) == (sum(exchange.size for exchange in instance.exchanges), 4 * 54)
    assert (record.makespan_ps, record.fingerprint) == (schedule.makespan, instance.fingerprint)
    slower = run(instance, "ddp/hourglass")
    assert slower.makespan > schedule.makespan
    assert improved((record,), finding(slower, sizes="free", bound=instance.compute)) == (record,)


def test_a_better_schedule_takes_the_place_of_a_worse_one(slow: Schedule, fast: Schedule) -> None:
    (record,) = improved(improved((), finding(slow)), finding(fast, how_makespan="better", date=LATER))
    assert (record.makespan_ps, record.how_makespan, record.date) == (7 * UNIT, "better", LATER)


def test_a_higher_bound_takes_the_place_of_a_lower_one(slow: Schedule) -> None:
    before = improved((), finding(slow))
    (record,) = improved(before, finding(slow, bound=6.5 * UNIT, bound_name="cp_sat", how_bound="again", date=LATER))
    assert (record.bound_name, record.how_bound, record.date) == ("cp_sat", "again", LATER)
    assert bounds((record,)) == {"equal": 6.5}


def test_equal_and_free_sizes_have_rows_of_their_own(fast: Schedule, free: Schedule) -> None:
    records = improved(improved((), finding(fast)), finding(free, sizes="free"))
    assert makespans(records) == {"equal": 7 * UNIT, "free": free.makespan}
    assert free.makespan < 7 * UNIT


def test_a_schedule_of_equal_chunks_improves_the_free_row(slow: Schedule, fast: Schedule) -> None:
    records = improved(improved((), finding(slow, sizes="free")), finding(fast, how_makespan="equal chunks"))
    assert makespans(records) == {"equal": 7 * UNIT, "free": 7 * UNIT}
    assert {record.how_makespan for record in records} == {"equal chunks"}


def test_a_bound_for_free_sizes_improves_the_equal_row(fast: Schedule, free: Schedule) -> None:
    records = improved(improved((), finding(fast)), finding(free, sizes="free", bound=6.5 * UNIT))
    assert bounds(records) == {"equal": 6.5, "free": 6.5}


def test_a_bound_for_equal_chunks_does_not_hold_for_free_sizes(fast: Schedule, free: Schedule) -> None:
    records = improved(improved((), finding(free, sizes="free")), finding(fast, bound=7.0 * UNIT))
    assert bounds(records)["free"] == 6.0


def test_a_tampered_schedule_is_refused(slow: Schedule, fast: Schedule) -> None:
    before = improved((), finding(slow))
    for name in ("start", "end", "ready"):
        with pytest.raises(InvalidSchedule):
            improved(before, finding(replace(fast, **{name: getattr(fast, name) - 1})))


def test_unequal_chunks_are_refused_in_the_equal_row(free: Schedule) -> None:
    with pytest.raises(InputError, match=r"^sizes = 'equal': must be free"):
        improved((), finding(free))


@pytest.mark.parametrize("bound", [math.nan, math.inf, 0.0, -1.0])
def test_a_bound_that_is_no_time_is_refused(slow: Schedule, bound: float) -> None:
    with pytest.raises(InputError, match=r"^bound = "):
        improved((), finding(slow, bound=bound))


def test_a_bound_above_the_makespan_is_refused_and_both_are_named(fast: Schedule) -> None:
    with pytest.raises(ArithmeticError, match=r"bound 749\d+ ps \(fluid, proven\) is above makespan 7\d+ ps \(fou"):
        improved((), finding(fast, bound=7.5 * UNIT))


def reported(instance: Instance, sizes: str, **columns: str) -> dict[str, str]:
    """A row of a report, with times in nanoseconds."""
    usual = {"makespan_ns": "", "bound_ns": "", "bound_equal_ns": "", "policy": "exact", "code_version": "1"}
    limits = {"time_limit": "60.0", "workers": "2", "seed": "0", "started": "2026-11-22T20:16:06.582+00:00"}
    return {"fingerprint": instance.fingerprint, "sizes": sizes} | usual | limits | columns


@pytest.mark.parametrize(
    ("sizes", "columns", "makespan", "bound"),
    [
        ("equal", {"makespan_ns": "6900000"}, (6.9, 6.8), (6.0, 6.0)),
        ("equal", {"makespan_ns": "6700000"}, (6.7, 6.7), (6.0, 6.0)),
        ("free", {"makespan_ns": "6700000"}, (7.0, 6.7), (6.0, 6.0)),
        ("equal", {"bound_ns": "6500000"}, (7.0, 6.8), (6.5, 6.0)),
        ("free", {"bound_ns": "6500000"}, (7.0, 6.8), (6.5, 6.5)),
        ("equal", {"policy": "bound", "bound_ns": "6400000", "bound_equal_ns": "6500000"}, (7.0, 6.8), (6.5, 6.4)),
        ("equal", {"makespan_ns": "7100000", "bound_ns": "5900000"}, (7.0, 6.8), (6.0, 6.0)),
    ],
)
def test_rows_of_reports_improve_what_they_hold_for(
    fast: Schedule,
    sizes: str,
    columns: dict[str, str],
    makespan: tuple[float, float],
    bound: tuple[float, float],
) -> None:
    """Makespans and bounds in units, of equal and of free sizes."""
    (equal,) = improved((), finding(fast))
    free = equal.replace(sizes="free", makespan_ps=round(6.8 * UNIT))
    other = reported(fast.instance.overridden(chunks=8), "equal", makespan_ns="1")
    after = with_reported((equal, free), [reported(fast.instance, sizes, **columns), other])
    makespans_in_units = tuple(record.makespan_ps / UNIT for record in after)
    assert [record.sizes for record in after] == ["equal", "free"]
    assert makespans_in_units == makespan
    assert tuple(bounds(after).values()) == bound
    changed = [record for record in after if record not in (equal, free)]
    assert {record.date for record in changed} <= {date(2026, 11, 22)}
    assert all("exact:seconds=60.0:workers=2:seed=0 of themis_opt 1" in f"{r}" for r in changed) or "policy" in columns


def test_no_report_is_better_than_the_shipped_table() -> None:
    assert with_reported(SHIPPED, reported_rows()) == SHIPPED


@pytest.fixture
def records(figure_5: Instance, fast: Schedule, free: Schedule, run: Run) -> tuple[Record, ...]:
    """Three rows."""
    fine = run(figure_5.overridden(chunks=8), "themis+scf")
    records: tuple[Record, ...] = ()
    for one in (finding(fine, bound=5.0 * UNIT, how_bound="a, b"), finding(free, sizes="free"), finding(fast)):
        records = improved(records, one)
    return records


@pytest.fixture
def table(tmp_path: Path, records: tuple[Record, ...]) -> Path:
    """A file with three rows."""
    path = tmp_path / "best.csv"
    write(records, path)
    return path


def test_what_is_written_can_be_read(table: Path, records: tuple[Record, ...]) -> None:
    assert read(table) == records


def changed(table: Path, old: str, new: str) -> Path:
    """The file with one text in the place of another."""
    text = table.read_text()
    assert old in text
    table.write_text(text.replace(old, new))
    return table


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("network,", "net,", "must have the columns network,collective"),
        (",equal,", ",some,", r"\[0\].sizes = 'some': input should be 'equal' or 'free'"),
        (",7000000000,", ",seven,", r"\[0\].makespan_ps = 'seven'"),
        (",7000000000,", ",7,", r"bound 59\d+ ps \(fluid, proven\) is above makespan 7 ps \(found\)"),
        ("found,proven,2026-11-21", "found,proven", r"\[0\].date: input should be a valid date"),
        ("2026-11-21", "2026-11-21,more", "unknown field"),
        ("2026-11-21", "yesterday", r"\[0\].date = 'yesterday'"),
    ],
)
def test_a_row_that_breaks_a_rule_is_refused_by_name(table: Path, old: str, new: str, rule: str) -> None:
    path = changed(table, old, new)
    with pytest.raises(InputError, match=rule) as caught:
        read(path)
    assert caught.value.source == str(path)


def test_a_row_that_stands_twice_is_refused(table: Path) -> None:
    table.write_text(table.read_text() + table.read_text().splitlines()[-1])
    with pytest.raises(InputError, match="stands twice"):
        read(table)


SHIPPED = read(TABLE)


@cache
def shipped_iterations() -> tuple[Instance, ...]:
    return tuple(instance for instance in map(themis_opt.load, shipped()) if instance.tasks)


def instance_of(record: Record) -> Instance:
    """The shipped instance of the network and the collective, with the figures of a row, or the iteration of a row."""
    if record.collective == "iteration":
        return next(instance for instance in shipped_iterations() if instance.fingerprint == record.fingerprint)
    prefix = f"{record.network.lower()}.{record.collective}."
    name = next(name for name in shipped() if name.startswith(prefix))
    figures = {} if record.collective == "mixed" else {"size": record.size_bytes, "chunks": record.chunks}
    return themis_opt.load(name).overridden(latency=record.latency, ag_order=record.ag_order, **figures)  # type: ignore[arg-type]


def test_the_shipped_table_is_written_as_this_module_writes_it(tmp_path: Path) -> None:
    """Sorted, unique, and with the gap that bound and makespan make."""
    write(SHIPPED, tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_text() == TABLE.read_text()


@pytest.mark.parametrize("record", SHIPPED, ids=lambda record: " ".join(map(str, record.order[:-1])))
def test_a_shipped_row_is_of_a_shipped_network_and_holds_its_bound(record: Record) -> None:
    assert record.bound_ps <= record.makespan_ps
    instance = instance_of(record)
    assert instance.fingerprint == record.fingerprint
    assert (instance.network.name, sum(exchange.size for exchange in instance.exchanges)) == (
        record.network,
        record.size_bytes,
    )


def test_the_free_rows_of_the_shipped_table_are_no_worse_than_the_equal_ones() -> None:
    table = {record.key: record for record in SHIPPED}
    for fingerprint in {record.fingerprint for record in SHIPPED}:
        equal, free = table.get((fingerprint, "equal")), table.get((fingerprint, "free"))
        if equal is not None and free is not None:
            assert free.makespan_ps <= equal.makespan_ps
            assert free.bound_ps <= equal.bound_ps

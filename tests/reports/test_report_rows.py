"""Rows are read from CSV, and refused with file, line, column, value and rule."""

import json
import math

import pandas as pd
import pytest
from report_rows import COLUMNS, bound, frame, row, write_rows

from themis_opt.base.errors import InputError
from themis_opt.batches.experiment_run import ROW_COLUMNS as BATCH_COLUMNS
from themis_opt.reports.rendering.charts import distribution
from themis_opt.reports.results import geometric_mean, results, speedups
from themis_opt.reports.rows import REQUIRED_COLUMNS, RunRow, read_rows
from themis_opt.reports.sections import warnings


@pytest.fixture
def read(tmp_path):
    """Read rows after they were written."""
    return lambda *rows, columns=COLUMNS: read_rows(write_rows(tmp_path / "rows.csv", rows, columns))


@pytest.fixture
def runs(read):
    """The runs of rows that were written."""
    return lambda *rows: read(*rows).runs


@pytest.fixture
def refusal(read):
    """The error with which rows are refused."""

    def refuse(*rows, columns=COLUMNS):
        with pytest.raises(InputError) as caught:
            read(*rows, columns=columns)
        text = str(caught.value)
        assert "rows.csv" in text
        assert "\n" not in text
        return text

    return refuse


def test_every_column_that_is_read_is_written_by_a_batch():
    assert set(RunRow.model_fields) <= set(BATCH_COLUMNS)


def test_cells_have_types(runs):
    (run,) = runs(row(makespan_ns="12.5", chunks="64", extra='{"stages": 7}', seed=""))
    assert (run.makespan_ns, run.chunks, run.extra, run.seed) == (12.5, 64, {"stages": 7}, None)


def test_columns_that_no_rule_is_known_of_are_kept_as_they_are(read):
    rows = [row(idle="0.25", colour="red", mixed="7"), row(idle="", colour="", mixed="seven")]
    frame = read(*rows, columns=(*COLUMNS, "idle", "colour", "mixed")).to_frame()
    assert frame["idle"][0] == 0.25
    assert math.isnan(frame["idle"][1])
    assert list(frame["colour"]) == ["red", ""]
    assert list(frame["mixed"]) == ["7", "seven"]


@pytest.mark.parametrize("column", sorted(RunRow.model_fields.keys() - set(REQUIRED_COLUMNS)))
def test_an_optional_column_may_be_missing(read, column):
    rows = read(row(), columns=[name for name in COLUMNS if name != column])
    assert getattr(rows.runs[0], column) == RunRow.model_fields[column].default
    assert column in rows.to_frame()


def test_a_frame_has_all_rows_and_columns_with_their_types(read):
    frame = read(row(makespan_ns="12.5", seed=""), row(seed="7", extra='{"stages": 7}')).to_frame()
    assert list(frame["makespan_ns"]) == [12.5, 1000]
    assert math.isnan(frame["seed"][0])
    assert frame["seed"][1] == 7
    assert frame["bound_ns"].dtype == float  # though no cell has a number
    assert list(frame["chunks"]) == [4, 4]
    assert frame["extra"][1] == {"stages": 7}
    assert set(RunRow.model_fields) <= set(frame.columns)


def test_a_cell_may_be_longer_than_the_limit_of_the_csv_module(runs):
    trajectory = [[second, 1.0, 1.0] for second in range(20_000)]
    (run,) = runs(row(extra=json.dumps({"trajectory": trajectory})))
    assert len(run.extra["trajectory"]) == 20_000


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path):
    columns = ("policy", *(name for name in COLUMNS if name != "policy"))
    path = write_rows(tmp_path / "rows.csv", [row()], columns)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read_rows(path).runs[0].policy == "themis+scf"


@pytest.mark.parametrize("column", REQUIRED_COLUMNS)
def test_a_missing_column_is_named(refusal, column):
    text = refusal(row(), columns=[name for name in COLUMNS if name != column])
    assert f"column {column}: is missing from the header" in text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"makespan_ns": "fast"}, "line 2, column makespan_ns = 'fast': "),
        ({"makespan_ns": "nan"}, "column makespan_ns = 'nan': "),
        ({"makespan_ns": "inf"}, "column makespan_ns = 'inf': "),
        ({"makespan_ns": ""}, "makespan_ns must be above 0 where status is ok"),
        ({"makespan_ns": "-1"}, "makespan_ns must be above 0 where status is ok"),
        ({"policy": "bound"}, "bound_ns must be above 0 where status is ok"),
        ({"size_bytes": "1" + "0" * 400}, "column size_bytes must be a number of 64 bits"),
        ({"size_bytes": str(2**63)}, "column size_bytes must be a number of 64 bits"),
        ({"chunks": ""}, "column chunks: must not be empty"),
        ({"chunks": "4.5"}, "column chunks = '4.5': "),
        ({"status": "perhaps"}, "column status = 'perhaps': "),
        ({"extra": "{"}, "column extra = '{': "),
        ({"extra": "[]"}, "column extra = '[]': "),
    ],
)
def test_a_bad_cell_is_refused_with_its_place(refusal, changes, said):
    assert said in refusal(row(**changes))


def test_a_file_that_ends_in_a_row_is_refused(read, tmp_path):
    read(row(), row())
    path = tmp_path / "rows.csv"
    path.write_text(path.read_text(encoding="utf-8")[:-40], encoding="utf-8")
    with pytest.raises(InputError, match=r"rows\.csv: line 3: must have \d+ cells as the header, has \d+"):
        read_rows(path)


def test_a_column_that_stands_twice_is_refused(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(",".join((*COLUMNS, "policy")) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match="column policy: stands twice in the header"):
        read_rows(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (b"\xff\xfe\x00", "not CSV: the file is not UTF-8 text"),
        (b'a,"b\n', "not CSV: "),
        (",".join(COLUMNS).encode() + b"\n", "holds no rows, only a header"),
    ],
)
def test_a_file_that_holds_no_rows_is_refused(tmp_path, content, said):
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"rows\.csv") as caught:
        read_rows(path)
    assert said in str(caught.value)


def judged(*rows):
    return results(frame(rows))


def the_one(*rows):
    """The only result of some rows."""
    ((_, result),) = judged(*rows).iterrows()
    return result


def bounds_of(*rows):
    """Best bounds of the results, None where there is none."""
    return [None if math.isnan(bound) else bound for bound in judged(*rows)["best_bound_ns"]]


def policies_of(*rows):
    return list(judged(*rows)["label"].cat.categories)


def test_a_gap_is_makespan_over_bound_minus_1():
    assert the_one(row(makespan_ns=1200), bound(bound_ns=1000)).gap == pytest.approx(0.2)


def test_a_makespan_without_a_bound_has_no_gap():
    result = the_one(row(makespan_ns=1200), bound(fingerprint="another"))
    assert math.isnan(result.gap)
    assert not result.is_optimal


EXACT, FREE, BOUND = {"policy": "exact"}, row(sizes="free"), {"bound_ns": 900}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ((row(sizes="equal"), FREE, bound(**BOUND, bound_equal_ns=990)), [990, 900]),
        ((row(**EXACT, sizes="equal", bound_ns=995), FREE, bound(**BOUND)), [995, 900]),
        ((row(**EXACT, sizes="free", bound_ns=950), row(sizes="equal")), [950, 950]),
    ],
    ids=["proven of equal chunks", "a search proved of equal chunks", "a search proved of free chunks"],
)
def test_what_is_proven_of_equal_chunks_does_not_judge_free_ones(rows, expected):
    assert bounds_of(*rows) == expected


@pytest.mark.parametrize("status", ["failed", "interrupted"])
def test_only_runs_that_went_well_have_results(status):
    assert judged(row(status=status)).empty


@pytest.mark.parametrize(("makespan", "optimal"), [(1000, True), (1000.09, True), (1000.2, False)])
def test_within_a_ten_thousandth_a_schedule_is_optimal(makespan, optimal):
    assert the_one(row(makespan_ns=makespan), bound(bound_ns=1000)).is_optimal == optimal


@pytest.mark.parametrize(("makespan", "said"), [(999, 1), (1000, 0), (1000 - 1e-7, 0)])
def test_a_makespan_below_its_bound_is_noticed(makespan, said):
    rows = frame([row(makespan_ns=makespan), bound(bound_ns=1000)])
    assert len(warnings(rows, results(rows))) == said


def test_searches_with_other_limits_are_told_apart():
    runs = row(policy="exact", time_limit=1), row(policy="exact", time_limit=10), row(time_limit=1), row()
    assert policies_of(*runs) == ["exact, 1 s", "exact, 10 s", "themis+scf"]


def test_the_fixed_order_is_that_of_the_first_dispatch_rule():
    runs = [("baseline+scf", 300), ("baseline+fifo", 600), ("hourglass", 100)]
    schedules = judged(*(row(policy=policy, makespan_ns=makespan) for policy, makespan in runs))
    assert list(speedups(schedules)) == [1, 0.5, 3]


def test_geometric_mean():
    assert geometric_mean(pd.Series([1, 4, 16])) == pytest.approx(4)
    assert geometric_mean(pd.Series([1, math.nan, 16])) == pytest.approx(4)
    assert math.isnan(geometric_mean(pd.Series([], dtype=float)))


def test_the_distribution_rises_from_0_to_1():
    values = pd.DataFrame({"gap": [3.0, 1, 1, 2, 7], "policy": [*"bbbb", "a"]})
    steps = distribution(values, "gap", "policy")
    of_b = steps[steps["policy"] == "b"].sort_values("share")
    assert list(of_b["gap"]) == [1, 1, 2, 3]
    assert list(of_b["share"]) == [0, 0.5, 0.75, 1]
    assert list(steps[steps["policy"] == "a"]["share"]) == [0, 1]

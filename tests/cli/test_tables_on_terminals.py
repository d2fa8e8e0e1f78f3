"""Tables on terminals: units once, words whole, in parts where the terminal is narrow."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from themis_opt.cli import printing
from themis_opt.cli.printing import BETWEEN, blocks, columns_of, widths

TITLES = ("policy", "makespan", "busy", "speedup", "note")


def test_the_unit_of_a_column_stands_in_its_heading():
    rows = [("a", "918.33 us", "61/97/12 %", "1.000x", "ok"), ("b", "0", "9/9/9 %", "0.910x", "1 x 7 ns")]
    headings = [column.heading for column in columns_of(TITLES, rows)]
    assert headings == ["policy", "makespan\n[us]", "busy\n[%]", "speedup\n[x]", "note"]
    assert columns_of(TITLES, rows)[1].cells == ("918.33", "0")


def test_units_that_differ_stay_with_their_cells():
    (column,) = columns_of(("size",), [("1 MiB",), ("2 GiB",)])
    assert (column.heading, column.cells) == ("size", ("1 MiB", "2 GiB"))


words = st.text("abcdefgh", min_size=1, max_size=30)
lines = st.lists(words, min_size=1, max_size=6).map(" ".join)
tables = st.integers(1, 9).flatmap(lambda width: st.lists(st.tuples(*[lines] * width), min_size=1, max_size=3))


@given(rows=tables, width=st.integers(62, 120))
def test_every_column_stands_once_beside_the_names_of_rows_and_no_word_breaks(rows, width):
    columns = columns_of([f"column {place}" for place in range(len(rows[0]))], rows)
    parts = list(blocks(columns, width))
    names = 2 if len(parts) > 1 and parts[-1][1] is columns[1] and len(parts[0]) > 2 else 1
    assert [column for part in parts for column in part[names:]] == columns[names:]
    assert all(part[:names] == columns[:names] for part in parts)
    for part in parts:
        given_widths = widths(part, width)
        assert sum(given_widths) + BETWEEN * (len(part) - 1) <= width
        assert all(column.least <= room for column, room in zip(part, given_widths, strict=True))


def test_rows_that_share_the_first_column_are_named_by_two():
    rows = [("24", "baseline", "16.000", "a" * 30, "60.00"), ("24", "themis", "10.000", "b" * 30, "0.00")]
    _, second = blocks(columns_of(("bandwidth", "policy", "makespan", "busy", "gap"), rows), 62)
    assert [column.heading for column in second] == ["bandwidth", "policy", "gap"]


def test_sentences_go_below_where_they_would_be_columns_of_words():
    rows = [("ideal", "557.49 us", "any", "within the model", "all bytes at the full bandwidth of the network")]
    columns = columns_of(("bound", "makespan", "chunk sizes", "holds", "meaning"), rows)
    _, second = blocks(columns, 66)
    assert [column.heading for column in second] == ["bound", "meaning"]
    assert len(next(blocks(columns, 90))) == len(columns)


def test_names_of_files_and_errors_end_where_a_terminal_does(monkeypatch, capsys):
    monkeypatch.setattr(printing, "is_terminal", lambda stream: True)
    monkeypatch.setenv("COLUMNS", "80")
    printing.tell_files(Path("folder") / f"file-{number}.json" for number in range(20))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) > 1
    assert max(map(len, lines)) <= 80

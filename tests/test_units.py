"""Quantities with units."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from themis_opt.units import (
    format_bandwidth,
    format_size,
    format_time,
    parse_bandwidth,
    parse_size,
    parse_time,
)


@pytest.mark.parametrize(
    ("text", "picoseconds"),
    [
        ("1 s", 10**12),
        ("1 ms", 10**9),
        ("1.7 us", 1_700_000),
        ("1.7 µs", 1_700_000),
        ("700ns", 700_000),
        ("3 ps", 3),
        ("  2  ns ", 2000),
        ("1e-3 s", 10**9),
        ("0 ns", 0),
    ],
)
def test_a_time_is_read_in_its_unit(text: str, picoseconds: int) -> None:
    assert parse_time(text) == picoseconds


@pytest.mark.parametrize("number", [2, 2.0, "2"])
def test_a_plain_time_is_in_seconds(number: object) -> None:
    assert parse_time(number) == 2 * 10**12


def test_a_time_is_rounded_to_picoseconds() -> None:
    assert parse_time("0.0014 ns") == 1


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1 kB", 1000),
        ("1 KB", 1000),
        ("1 KiB", 1024),
        ("1.5 MiB", 3 * 2**19),
        ("1 GB", 10**9),
        ("1 TiB", 2**40),
        ("7", 7),
    ],
)
def test_a_size_is_read_in_its_unit(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["0.5 B", "1.0001 kB", 2.5])
def test_a_fraction_of_a_byte_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="whole number of bytes"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "bandwidth"),
    [("1 GB/s", 1e9), ("8 Gb/s", 1e9), ("1 GiB/s", 2.0**30), ("8 Gib/s", 2.0**30), ("1 b/s", 0.125), (5, 5.0)],
)
def test_a_bandwidth_counts_bits_or_bytes_by_its_unit(text: object, bandwidth: float) -> None:
    assert parse_bandwidth(text) == bandwidth


@pytest.mark.parametrize("parse", [parse_time, parse_size, parse_bandwidth])
@pytest.mark.parametrize("value", ["", "fast", "1 2", "1..2", "--1", None, True, [1], {"s": 1}, "nan", "inf"])
def test_what_is_no_quantity_is_refused(parse: object, value: object) -> None:
    with pytest.raises(ValueError, match="must be a number with a unit"):
        parse(value)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("parse", "text"), [(parse_time, "1 h"), (parse_time, "1 GB"), (parse_size, "1 GB/s"), (parse_bandwidth, "1 GB")]
)
def test_an_unknown_unit_is_refused_with_the_known_ones(parse: object, text: str) -> None:
    with pytest.raises(ValueError, match=f"unknown unit '{text.split()[1]}'; use one of"):
        parse(text)  # type: ignore[operator]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_numbers_must_be_finite(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        parse_time(value)


@pytest.mark.parametrize("text", ["1e31 s", "1e-31 s", "1e400 s"])
def test_numbers_beyond_all_reason_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must lie between"):
        parse_time(text)


@pytest.mark.parametrize(
    ("picoseconds", "text"), [(0, "0 s"), (10**12, "1 s"), (1_700_000, "1700 ns"), (1, "1 ps"), (1500, "1500 ps")]
)
def test_a_time_is_printed_in_the_largest_exact_unit(picoseconds: int, text: str) -> None:
    assert parse_time(format_time(picoseconds)) == picoseconds
    assert format_time(picoseconds).split()[0] == text.split()[0]


@pytest.mark.parametrize(("size", "text"), [(100 * 2**20, "100 MiB"), (256 * 10**6, "256 MB"), (7, "7 B")])
def test_a_size_is_printed_in_the_largest_exact_unit(size: int, text: str) -> None:
    assert format_size(size) == text


@given(st.integers(0, 2**61))
def test_times_survive_printing(picoseconds: int) -> None:
    assert parse_time(format_time(picoseconds)) == picoseconds


@given(st.integers(0, 2**50))
def test_sizes_survive_printing(size: int) -> None:
    assert parse_size(format_size(size)) == size


@given(st.floats(1e-3, 1e18))
def test_bandwidths_survive_printing_to_the_last_bit(bandwidth: float) -> None:
    assert parse_bandwidth(format_bandwidth(bandwidth)) == bandwidth

"""Quantities with units."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from themis_opt.base.units import (
    SIZE_UNITS,
    format_bandwidth,
    format_clock,
    format_link,
    format_megabytes,
    format_percent,
    format_rate,
    format_seconds,
    format_shares,
    format_short_size,
    format_short_time,
    format_size,
    format_sizes,
    format_time,
    nanoseconds,
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
        *((number, 2 * 10**12) for number in (2, 2.0, "2")),
    ],
)
def test_a_time_is_read_in_its_unit_or_in_seconds(text: object, picoseconds: int) -> None:
    assert parse_time(text) == picoseconds


def test_a_time_is_rounded_to_picoseconds() -> None:
    for tenths in range(50):
        assert abs(10 * parse_time(f"0.{tenths:04} ns") - tenths) <= 5


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
    with pytest.raises(ValueError, match=f"unknown unit '{text.split()[1]}'; (use one of|did you mean)"):
        parse(text)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        *((float(word), "finite") for word in ("nan", "inf", "-inf")),
        *((f"{number} s", "must lie between") for number in ("1e31", "1e-31", "1e400")),
    ],
)
def test_numbers_beyond_all_reason_are_refused(value: object, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        parse_time(value)


@given(st.integers(0, 2**61))
def test_times_survive_printing(picoseconds: int) -> None:
    assert parse_time(format_time(picoseconds)) == picoseconds


@given(st.integers(0, 2**50))
def test_sizes_survive_printing(size: int) -> None:
    assert parse_size(format_size(size)) == size


@pytest.mark.parametrize("size", [10**40 + 1, 10**40, int(1e308)])
def test_sizes_beyond_all_limits_are_printed_exactly(size: int) -> None:
    number, unit = format_size(size).split()
    assert int(number) * int(SIZE_UNITS[unit]) == size


@given(st.floats(1e-3, 1e18))
def test_bandwidths_survive_printing_to_the_last_bit(bandwidth: float) -> None:
    assert parse_bandwidth(format_bandwidth(bandwidth)) == bandwidth


@pytest.mark.parametrize(
    ("sizes", "texts"),
    [
        ([100 * 2**20, 64 * 2**20], ["100 MiB", "64 MiB"]),
        ([8_196_000, 82_887_680, 38_144, 0], ["8.20 MB", "82.89 MB", "0.04 MB", "0"]),
        ([1_050_673_152, 11_274_551_296], ["1.05 GB", "11.27 GB"]),
        ([512], ["512 B"]),
        ([100 * 2**20, 2**10], ["104857.60 kB", "1.02 kB"]),
        ([16_777_217], ["16.78 MB"]),
        ([0], ["0"]),
        ([], []),
    ],
)
def test_sizes_of_a_column_share_a_unit(sizes: list[int], texts: list[str]) -> None:
    assert format_sizes(sizes) == texts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (format_short_time(0), "0"),
        (format_short_time(7), "7 ps"),
        (format_short_time(999), "999 ps"),
        (format_short_time(1000), "1 ns"),
        (format_short_time(1_234_567), "1.235 us"),
        (format_short_time(10**12), "1 s"),
        (format_short_time(1.5e9), "1.5 ms"),
        (format_short_time(999_960_000), "1 ms"),
        (format_short_time(-2_868_049_000), "-2.868 ms"),
        (format_short_time(1234567 * 10**12), "1235000 s"),
        (format_short_size(100 * 2**20), "100 MiB"),
        (format_short_size(102_228_128), "102.2 MB"),
        (format_short_size(16_060_522_496), "16.06 GB"),
        (format_short_size(38_144), "38.14 kB"),
        (format_short_size(1023), "1023 B"),
        (format_short_size(0), "0 B"),
        (format_size(256 * 10**6), "256 MB"),
        (format_time(1_700_000), "1700 ns"),
        (format_seconds(2**61), "2.31e+06 s"),
        (format_clock(3725.4), "1:02:05"),
        (format_rate(2.0**30), "1.07 GB/s"),
        (format_rate(2.0**30, ".4g"), "1.074 GB/s"),
        (format_megabytes(100 * 2**20), "104.9 MB"),
        (format_percent(0.98765), "98.77 %"),
        (format_percent(-0.00001), "0.00 %"),
        (format_link(500_000), "0.5 MB/s"),
        (format_shares("0.1 0.7 0.3 0.4 0.5 0.6"), "10/70/30/40/50/60 %"),
        (format_shares("0.1 0.7 0.3 0.4 0.5 0.6 0.2"), "10..70 %"),
        (format_link(12_500_000_000), "12.5 GB/s"),
        (format_link(1_234_000_000), "1.234 GB/s"),
        (nanoseconds(1500), 1.5),
    ],
)
def test_quantities_are_rounded_for_people(text: object, expected: object) -> None:
    assert text == expected

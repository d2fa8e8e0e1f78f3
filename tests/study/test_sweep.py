"""What-if questions: which combinations are run, and what their rows say."""

from pathlib import Path
from typing import Any

import pytest

from themis_opt import sweep
from themis_opt.base.errors import InputError
from themis_opt.problem.catalog import load
from themis_opt.reports.rendering.charts import save, specification
from themis_opt.reports.study_charts import curves
from themis_opt.study.sweep import read_values, varied

INSTANCE = load("fig5.all_reduce.256MB")
FIG_5 = ("baseline+fifo", "themis+scf")


def test_every_combination_is_run_with_every_policy() -> None:
    rows = sweep(INSTANCE, {"size": ["4 MB", "8 MB"], "chunks": [2, 4]}, FIG_5)
    assert [(row["size"], row["chunks"], row["policy"]) for row in rows] == [
        (size, chunks, policy) for size in (4_000_000, 8_000_000) for chunks in (2, 4) for policy in FIG_5
    ]


def test_without_latency_the_bandwidth_does_not_depend_on_the_size() -> None:
    rows = sweep(INSTANCE, {"size": ["4 MB", "64 MB"]}, ["baseline"])
    assert rows[0]["busbw_bytes_per_s"] == pytest.approx(rows[1]["busbw_bytes_per_s"], rel=1e-6)


def test_more_bandwidth_shortens_and_more_latency_lengthens() -> None:
    slow, fast = (
        row["makespan_ns"] for row in sweep(INSTANCE, {"dim1.bandwidth": ["24 GB/s", "48 GB/s"]}, ["baseline"])
    )
    near, far = (row["makespan_ns"] for row in sweep(INSTANCE, {"dim1.latency": ["0 s", "1 ms"]}, ["baseline"]))
    assert fast < slow
    assert near < far


def test_launches_and_npus_of_a_dimension_are_varied() -> None:
    rows = sweep(INSTANCE, {"dim1.size": [2, 8], "dim2.launch_overhead": ["0 s", "10 us"]}, ["baseline"])
    assert [row["dim1.size"] for row in rows] == [2, 2, 8, 8]
    assert rows[0]["makespan_ns"] < rows[1]["makespan_ns"]


RAILS = load("flexlink.h800.all_reduce.256MB")  # NVLink, PCIe and NICs: 200, 32 and 25 GB/s


@pytest.mark.parametrize(
    ("point", "bandwidths"),
    [
        ({"server.bandwidth": "514 GB/s"}, [400e9, 64e9, 50e9]),
        ({"server.NIC.bandwidth": "50 GB/s"}, [200e9, 32e9, 50e9]),
        ({"server.bandwidth": "128.5 GB/s", "server.PCIe.bandwidth": "1 GB/s"}, [100e9, 1e9, 12.5e9]),
    ],
)
def test_rails_are_varied_together_or_alone(point: dict[str, str], bandwidths: list[float]) -> None:
    dimension = varied(RAILS, point).network.dimensions[0]
    assert [rail.bandwidth for rail in dimension.rails] == pytest.approx(bandwidths, rel=1e-12)
    assert dimension.bandwidth == pytest.approx(sum(bandwidths), rel=1e-12)
    assert [rail.extra_latency for rail in dimension.rails] == [0, 2_300_000, 10_600_000]


def test_an_unknown_rail_is_refused_with_the_fields_there_are() -> None:
    with pytest.raises(InputError, match=r"server\.PCIe\.bandwidth.*did you mean 'server\.NIC\.bandwidth'"):
        varied(RAILS, {"server.NICS.bandwidth": "1 GB/s"})
    with pytest.raises(InputError, match=r"server\.bandwidth = '-1 GB/s'"):
        varied(RAILS, {"server.bandwidth": "-1 GB/s"})


@pytest.mark.parametrize(
    ("name", "text", "values"),
    [
        ("size", "64KiB..1MiB:4", ["64 KiB", "256 KiB", "1 MiB"]),
        ("size", "3MB, 5 MB", ["3MB", "5 MB"]),
        ("chunks", "4..20", [4, 8, 16]),
        ("dim1.size", "2,6", [2, 6]),
        ("dim1.bandwidth", "100GB/s..400GB/s", ["100 GB/s", "200 GB/s", "400 GB/s"]),
        ("dim1.latency", "1us..4us", ["1 us", "2 us", "4 us"]),
        ("share", "0.25..1", ["0.25", "0.5", "1"]),
        ("npus", "8..32", [8, 16, 32]),
    ],
)
def test_values_and_ranges_are_read(name: str, text: str, values: list[Any]) -> None:
    assert read_values(name, text) == values


@pytest.mark.parametrize(
    ("over", "words"),
    [
        ({}, "must vary something"),
        ({"bandwith": ["1 GB/s"]}, "must be one of size"),
        ({"dim1.bandwith": ["1 GB/s"]}, "did you mean 'dim1.bandwidth'"),
        ({"dim3.latency": ["1 us"]}, "must be one of"),
        ({"dim1.bandwidth": ["0 GB/s"]}, "dim1.bandwidth = '0 GB/s': input should be greater than 0"),
        ({"chunks": [0]}, "chunks=0"),
        ({"size": ["4 MB"] * 200, "chunks": [2] * 100}, "at most 10000 combinations"),
    ],
)
def test_what_cannot_be_varied_is_told(over: dict[str, list[Any]], words: str) -> None:
    with pytest.raises(InputError) as caught:
        sweep(INSTANCE, over, ["baseline"])
    assert words in str(caught.value)


def test_pictures_show_every_policy_and_one_bound_for_each_curve() -> None:
    rows = sweep(INSTANCE, {"size": ["4 MB", "64 MB"], "chunks": [2, 4]}, FIG_5)
    charts = curves(rows, ["size", "chunks"])
    assert set(charts) == {"algbw", "busbw"}
    text = str(specification(charts["busbw"]))
    assert all(f"{policy}, chunks {count}" in text for policy in FIG_5 for count in (2, 4))
    assert "bound, chunks 2" in text


def test_iterations_have_times() -> None:
    rows = sweep(load("3d-sw_sw_sw_hetero.dlrm"), {"dim3.bandwidth": ["25 GB/s", "50 GB/s"]}, ["fused/baseline+fifo"])
    assert rows[0]["makespan_ns"] > rows[1]["makespan_ns"]
    assert set(curves(rows, ["dim3.bandwidth"])) == {"iteration"}


def test_the_whole_network_is_varied() -> None:
    whole = load("3d-sw_sw_sw_hetero.all_reduce.100MiB")
    fewer = varied(whole, {"npus": 32, "share": 0.5, "compression": "2"}).network
    assert fewer.sizes == (16, 2)
    assert fewer.bandwidths == tuple(bandwidth / 2 for bandwidth in whole.network.bandwidths[:2])
    assert {dimension.compression for dimension in fewer.dimensions} == {2.0}


def test_pictures_over_a_figure_of_a_dimension_have_as_many_marks_as_those_over_sizes(tmp_path: Path) -> None:
    """Dots in the names of columns mean parts of values to Vega, which then draws nothing."""
    marks = {}
    for name, values in {"dim1.bandwidth": ["24 GB/s", "48 GB/s"], "size": ["4 MB", "64 MB"]}.items():
        save(curves(sweep(INSTANCE, {name: values}, FIG_5), [name])["busbw"], tmp_path / "a.svg", "")
        marks[name] = (tmp_path / "a.svg").read_text(encoding="utf-8").count("<path")
    assert marks["dim1.bandwidth"] == marks["size"]

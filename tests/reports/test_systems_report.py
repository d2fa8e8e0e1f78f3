"""Figures on the page of systems are those of the report."""

import csv
from collections import defaultdict
from pathlib import Path

import pytest

from themis_opt.batches.rows_file import read_csv_text

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "systems.md").read_text(encoding="utf-8")
CURVES = {
    "FRED": ("FRED: ResNet-152 on a wafer, times faster", (1, 2, 4, 16), ".2f"),
    "DASO": ("DASO: ResNet-50, less time than Horovod (%)", (25, 10, 5), ".2g"),
    "FusionLLM": ("FusionLLM: ResNet-101 at three sites, times faster", (8, 100, 1000), ".2g"),
    "DCT": ("DCT: DLRM, sums that grow with the ranks, less time (%)", (100,), ".2g"),
    "KARMA": ("KARMA: ResNet-50, batch 512, times faster than computing everything again", (12, 16, 24), ".2f"),
    "RaNNC": ("RaNNC: BERT in 32 stages, times as many layers as tensor groups of 8 hold", (16,), ".1f"),
    "Adasum": ("Adasum: 25 MB on 64 NPUs, steps of 4 us, longer than a sum (%)", (10, 100, 400), ".1f"),
    "SplitBrain": ("SplitBrain: VGG-16, speed-up", (8, 16, 64, 256), ".3g"),
    "PyTorch DDP": ("DDP: ResNet-50, speed-up on servers of 8", (2, 8, 32), ".3g"),
}
"""System, what the curve in the report is called, the places that the page names, and how it rounds."""

CELLS = {
    "HetSeq": [(f"{nodes} nodes", "speed-up", ".2f") for nodes in (2, 4, 8)],
    "DeAR": [("DenseNet-201, 10 Gb/s", "over Horovod", ".2f"), ("BERT-large, 56 Gb/s", "over Horovod", ".2f")],
    "FRED": [("all-reduce of 1 GB, Wafer-tree", "ratio", ".1f")],
    "SWARM": [(f"hidden size {size}", "messages / compute", ".1f") for size in (1024, 2048, 4096, 8192)],
    "Is Network the Bottleneck": [
        ("ResNet-101, 10 Gb/s", "least compression", ".1f"),
        ("VGG-16 (ImageNet), 10 Gb/s", "least compression", ".1f"),
    ],
}
"""System, and rows and quantities of the report that the page states."""


@pytest.fixture(scope="module")
def rows():
    rows = defaultdict(dict)
    path = ROOT / "reports" / "rivals" / "systems" / "rows.csv.gz"
    for cell in csv.DictReader(read_csv_text(path).splitlines()):
        rows[cell["part"], cell["row"]][cell["quantity"]] = cell["value"]
    return list(rows.values())


def stated(system):
    """What the page says came out for a system."""
    (line,) = (line for line in PAGE.splitlines() if line.startswith(f"| {system} |"))
    return line.split(" | ")[2]


@pytest.mark.parametrize("system", CURVES)
def test_points_of_curves_are_those_of_the_report(rows, system):
    what, places, rounded = CURVES[system]
    points = {float(row["at"]): float(row["ours"]) for row in rows if row.get("workload") == what}
    figures = [format(points[place], rounded) for place in places]
    assert all(figure in stated(system) for figure in figures), figures


@pytest.mark.parametrize("system", CELLS)
def test_other_figures_are_those_of_the_report(rows, system):
    for workload, quantity, rounded in CELLS[system]:
        (value,) = (row[quantity] for row in rows if row.get("workload") == workload and row.get(quantity))
        assert format(float(value), rounded) in stated(system)

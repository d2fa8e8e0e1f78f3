"""The picture of the report on the reference: ``python benchmarks/reference_picture.py reports/references``."""

import sys
from pathlib import Path

import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from paper_networks import PAPER_NETWORKS

from themis_opt.reports.rendering.charts import Axis, boxes, save

SMALLEST = 1e-5  # smaller gaps are drawn there: of what counts as proven optimal
TITLE = "Gaps to the proven bound: six networks, 100 and 1000 MiB\nBox: quartiles, median; whiskers: 5 % and 95 %"


def draw(folder: Path) -> Path:
    """Draw the gaps in ``gaps.csv.gz`` of Themis and of the reference with equal and with free chunk sizes."""
    rows = pd.read_csv(folder / "gaps.csv.gz")
    rows = rows[rows["size"].isin(("100 MiB", "1000 MiB")) & rows["network"].isin(PAPER_NETWORKS)]
    themis = rows[["themis+scf", "sizes"]].rename(columns={"themis+scf": "gap"})
    shown = pd.concat(
        [
            themis[themis["sizes"] == "equal"].assign(label="Themis + SCF"),
            rows[rows["sizes"] == "equal"].assign(label="reference, equal chunks"),
            rows[rows["sizes"] == "free"].assign(label="reference, free sizes"),
        ]
    )
    gaps = shown["gap"].str.rstrip(" %").astype(float) / 100
    chart = boxes(shown.assign(gap=gaps.clip(lower=SMALLEST)), Axis("gap", "gap", log=True, format="percent"), "label")
    save(chart, folder / "gaps.svg", TITLE)
    return folder / "gaps.svg"


if __name__ == "__main__":
    print(draw(Path(sys.argv[1])))

"""The files of an experiment, and what they are called."""

from pathlib import Path

EXPERIMENT, ROWS, STORE, PROVENANCE = "experiment.toml", "rows.csv", "runs.sqlite", "provenance.json"
"""Files in the folder of an experiment."""


def provenance_of(rows: Path) -> Path:
    """The file that tells where rows come from: ``provenance.json`` beside ``rows.csv``, else named after the rows."""
    return rows.parent / (PROVENANCE if rows.name == ROWS else f"{rows.stem}.{PROVENANCE}")

"""Write the files of ``instances/iterations``; run in the folder ``instances``."""

from pathlib import Path

from generators.shipped import write_shipped

if __name__ == "__main__":
    write_shipped(Path(__file__).parents[1] / "iterations")

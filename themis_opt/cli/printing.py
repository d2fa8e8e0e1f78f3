"""What the command line prints: tables for people, plain lines in a pipe, JSON for machines."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from themis_opt.comparison import Comparison
    from themis_opt.verification import VerifyReport

UNITS = (("s", 1e12), ("ms", 1e9), ("us", 1e6), ("ns", 1e3))
"""Units of time, and their picoseconds."""


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    typer.echo(json.dumps(value, indent=2))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table: ruled on a terminal, tab-separated in a pipe."""
    if not sys.stdout.isatty():
        typer.echo(f"# {title}")
        for row in (columns, *rows):
            typer.echo("\t".join(row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), title_justify="left", header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


def print_comparison(comparison: "Comparison") -> None:
    """Print the results of policies with makespan, utilisation, speedup and gap."""
    name, bound = strongest(comparison.bounds)
    title = f"{comparison.instance.name or 'instance'}: best bound {duration(bound)} ({name})"
    columns = ("policy", "makespan", "utilisation", "algbw", "busbw", "speedup", "gap", "status")
    makespans = durations([result.makespan for result in comparison.results])
    cells = [
        (
            r.policy,
            makespan,
            percent(r.schedule.utilisation),
            bandwidth(r.schedule.algorithm_bandwidth),
            bandwidth(r.schedule.bus_bandwidth),
            f"{r.speedup:.3f}x",
            percent(r.gap),
            r.status,
        )
        for r, makespan in zip(comparison.results, makespans, strict=True)
    ]
    print_table(title, columns, cells)


def print_moved_data(report: "VerifyReport") -> None:
    """Print what a verification on data has run."""
    shapes = ", ".join("x".join(str(size) for size in sizes) for sizes in report.sizes)
    reduced = "reduced to " if report.reduced else ""
    typer.echo(f"data: every NPU ends with its result, on {reduced}{shapes} NPUs, {report.num_paths} paths")


def strongest(bounds: Mapping[str, float]) -> tuple[str, float]:
    """Name and value of the largest bound, the first of equals."""
    return max(bounds.items(), key=lambda item: item[1])


def percent(fraction: float) -> str:
    """A fraction as a percentage."""
    return f"{100 * fraction:.2f} %"


def bandwidth(bytes_per_second: float) -> str:
    """A bandwidth in GB/s, as nccl-tests print it."""
    return f"{bytes_per_second / 1e9:.2f} GB/s"


def duration(picoseconds: float) -> str:
    """A time in the unit that people read best."""
    return durations([picoseconds])[0]


def durations(picoseconds: Sequence[float]) -> list[str]:
    """Times in one unit, the largest in which all but zeros are at least 10."""
    least = min((time for time in picoseconds if time > 0), default=0.0)
    unit, scale = next(((unit, scale) for unit, scale in UNITS if least >= 10 * scale), UNITS[-1])
    return [f"{time / scale:.2f} {unit}" if time else "0" for time in picoseconds]

"""What the command line prints: tables for people, plain lines in a pipe, JSON for machines."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from themis_opt.comparison import Comparison


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
        table.add_column(column, justify="right" if number else "left")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


def print_comparison(comparison: "Comparison") -> None:
    """Print the results of policies with makespan, utilisation, speedup and gap."""
    name, bound = strongest(comparison.bounds)
    title = f"{comparison.instance.name or 'instance'}: best bound {duration(bound)} ({name})"
    columns = ("policy", "makespan", "utilisation", "speedup", "gap", "status")
    print_table(title, columns, [_cells(result.row()) for result in comparison.results])


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        row["policy"],
        duration(row["makespan_ns"] * 1000),
        percent(row["utilisation"]),
        f"{row['speedup']:.3f}x",
        percent(row["gap"]),
        row["status"],
    )


def strongest(bounds: Mapping[str, float]) -> tuple[str, float]:
    """Name and value of the largest bound, the first of equals."""
    return max(bounds.items(), key=lambda item: item[1])


def percent(fraction: float) -> str:
    """A fraction as a percentage."""
    return f"{100 * fraction:.2f} %"


def duration(picoseconds: float) -> str:
    """A time in the unit that people read best."""
    for unit, scale in (("s", 1e12), ("ms", 1e9), ("us", 1e6)):
        if picoseconds >= 10 * scale:
            return f"{picoseconds / scale:.6g} {unit}"
    return f"{picoseconds / 1e3:.6g} ns"

"""What the command line prints: tables for people, plain lines in a pipe, JSON for machines."""

import json
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

import typer

from themis_opt.base.errors import printable
from themis_opt.base.units import Form, cells

if TYPE_CHECKING:
    from pathlib import Path

    from themis_opt.problem.instance import Instance
    from themis_opt.schedules.schedule import Schedule
    from themis_opt.schedules.verification import VerifyReport


ShownColumns = Mapping[str, tuple[str, Form]]  # title and form of what a table shows, by the names of columns

MOST_LINES = 2  # files of one folder that have a line each
SMALL_CHUNK = 64 * 2**10  # bytes below which launches and headers, which networks have, cost about as much as the data


def say(text: str) -> None:
    """Print lines; names may hold anything, and what a terminal would obey is spelled out."""
    for line in printable(text, keep="\n").split("\n"):
        typer.echo(_wrapped(line, sys.stdout))


def say_all(sentences: Iterable[str]) -> None:
    """Print a verdict, which stands before the figures that it is drawn from."""
    for sentence in sentences:
        say(sentence)


def tell(line: str) -> None:
    """Print a line on the error stream, if anybody still reads it."""
    with suppress(OSError):
        typer.echo(_wrapped(printable(line), sys.stderr), err=True)


def tell_note(line: str) -> None:
    """Print what a user should know beside the results, on the error stream."""
    tell(f"note: {line}")


def _wrapped(line: str, stream: TextIO) -> str:
    """The line as it is, on a terminal with line breaks between words."""
    if not is_terminal(stream):
        return line
    width = shutil.get_terminal_size().columns
    return textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)


def is_terminal(stream: TextIO) -> bool:
    """Whether people read a stream as it is printed."""
    return stream.isatty()


def tell_files(files: Iterable["Path"]) -> None:
    """Say which files were written: many of one folder in one line."""
    by_folder: dict[Path, list[Path]] = {}
    for path in files:
        by_folder.setdefault(path.parent, []).append(path)
    for folder, paths in by_folder.items():
        if len(paths) > MOST_LINES:
            tell(f"wrote {len(paths)} files into {folder}: {', '.join(path.name for path in paths)}")
            continue
        for path in paths:
            tell(f"wrote {path}")


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    typer.echo(json.dumps(value, indent=2))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table: ruled on a terminal, tab-separated in a pipe."""
    if not is_terminal(sys.stdout):
        typer.echo(f"# {printable(title)}")
        for row in (columns, *rows):
            typer.echo("\t".join(printable(cell) for cell in row))
        return
    from themis_opt.cli.tables import print_ruled

    print_ruled(printable(title), columns, [[printable(cell) for cell in row] for row in rows])


def print_rows(title: str, rows: Sequence[Mapping[str, Any]], shown: ShownColumns) -> None:
    """Print values of rows as a table: by their names those `shown` that there are, with their titles and forms."""
    shown = {name: how for name, how in shown.items() if all(name in row for row in rows)}
    texts = [cells(form, [row[name] for row in rows]) for name, (_, form) in shown.items()]
    print_table(title, [heading for heading, _ in shown.values()], list(zip(*texts, strict=True)))


def times_in_words(schedule: "Schedule") -> str:
    """What a schedule takes: the times among its columns."""
    from themis_opt.study.columns import columns_of

    times = [column for column in columns_of([schedule], judged=False) if column.form == "time" and column.title]
    return ", ".join(f"{column.title} {cells(column.form, [column.value(schedule)])[0]}" for column in times)


def sizes_in_words(schedule: "Schedule") -> str:
    """How the chunks of a schedule are cut, in the words of ``--chunk-sizes``."""
    return "equal" if schedule.has_equal_sizes else "free"


def assumptions(instance: "Instance", sizes: str) -> str:
    """The name of an instance, and under what its schedules are compared; of an iteration what a start-up costs too."""
    latency = {"occupy": "occupies", "lag": "lags"}[instance.latency]
    rules = f", start-up latency {latency}" if instance.tasks else ""
    return f"{instance.name or 'instance'}, chunk sizes {sizes}{rules}"


def free_cuts_in_words(schedules: Sequence["Schedule"]) -> list[str]:
    """A note where small chunks look better than they are."""
    from themis_opt.base.units import format_size
    from themis_opt.problem.cost_overrides import is_free_to_cut

    smallest = min(int(chunks.sizes.min()) for schedule in schedules for chunks in schedule.plan.chunks)
    if smallest >= SMALL_CHUNK or not is_free_to_cut(schedules[0].instance):
        return []
    size = format_size(smallest)
    return [f"launches cost nothing, and the smallest chunk has {size}; state --launch-overhead or --packet"]


def moved_data_in_words(report: "VerifyReport") -> list[str]:
    """What a verification on data has run."""
    from themis_opt.base.units import format_bandwidth, format_short_size

    shapes = ", ".join("x".join(str(size) for size in sizes) for sizes in report.sizes)
    reduced = "reduced to " if report.reduced else ""
    port = report.busiest_port
    carried = f"{format_short_size(port.bytes)} on {port.dimension}, at {format_bandwidth(port.bandwidth)}"
    return [
        f"data: every NPU ends with its result, on {reduced}{shapes} NPUs, {report.num_paths} paths",
        f"busiest port: {port.port} {carried} for {port.share:.2%} of the makespan",
    ]

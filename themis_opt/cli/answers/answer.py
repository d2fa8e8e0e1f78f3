"""What commands print, and the family that answers them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from themis_opt.base.documents import make_folder, write_atomically
from themis_opt.base.errors import InputError
from themis_opt.base.extras import missing, needed
from themis_opt.base.units import cells

if TYPE_CHECKING:
    from themis_opt.base.units import Form
    from themis_opt.cli.printing import ShownColumns
    from themis_opt.families.family import Problem
    from themis_opt.reports.rendering.charts import Chart
    from themis_opt.reports.rendering.document import Section
    from themis_opt.schedules.results import PolicyComparison

HEADINGS: "ShownColumns" = {
    "makespan_ns": ("makespan", "time"),
    "bound_ns": ("makespan >=", "time"),
    "exposed_ns": ("exposed", "time"),
    "start_ns": ("start", "time"),
    "busy_ns": ("busy", "time"),
    "lag_ns": ("lag", "time"),
    "wait_ns": ("waits", "time"),
    "measured_ns": ("measured", "time"),
    "predicted_ns": ("predicted", "time"),
    "busy": ("busy", "shares"),
    "gap": ("gap", "share"),
    "share": ("share", "share"),
    "error": ("error", "share"),
    "kept": ("speed kept", "share"),
    "chunks": ("chunks", "count"),
    "algorithm_bandwidth": ("bandwidth", "bandwidth"),
    "busbw_bytes_per_s": ("busbw", "bandwidth"),
    "speedup_predicted": ("speedup predicted", "ratio"),
    "speedup_measured": ("speedup measured", "ratio"),
}
"""Title and form of columns that are more than texts below their names."""


USUAL_VALUES = {
    "sizes": "equal", "style": "screen", "overhead": 0.0,
    "dtype": "float32", "reduction": "sum", "in_flight": 1, "iterations": 6, "transport": "tcp",
}  # fmt: skip
"""Values of options that count as not given."""


def columns(*names: str, **others: "tuple[str, Form]") -> "ShownColumns":
    """Columns of a table, in order of their names; `others` have another title or form than usual."""
    return {name: others.get(name, HEADINGS.get(name, (name.replace("_", " "), "text"))) for name in names}


@dataclass(frozen=True)
class Listing:
    """Rows of plain values; `shown` has the title and the form of each column by its name."""

    title: str
    rows: Sequence[Mapping[str, Any]]
    shown: "ShownColumns"

    @classmethod
    def of_texts(cls, title: str, rows: Sequence[Mapping[str, Any]]) -> "Listing":
        """A table of texts, whose columns have their names as titles."""
        return cls(title, rows, {name: (name, "text") for name in rows[0]})


def has_pictures() -> bool:
    """Whether the packages that draw pictures are there; else a line says what to install."""
    error = missing("pictures")
    if error:
        from themis_opt.cli.printing import tell

        tell(f"no pictures: {needed(error)}")
    return error is None


def write_files(
    folder: Path, texts: Mapping[str, str], title: str = "", charts: "Callable[[], Mapping[str, Chart]] | None" = None
) -> list[Path]:
    """Write texts by the names of their files, and charts by theirs where the packages for pictures are there."""
    make_folder(folder)
    for name, text in texts.items():
        write_atomically(folder / name, text)
    files = [folder / name for name in texts]
    if charts is not None and has_pictures():
        from themis_opt.reports.rendering.charts import save

        for name, chart in charts().items():
            files.append(folder / f"{name}.svg")
            save(chart, files[-1], title)
    return files


def write_page(
    folder: Path, compared: "PolicyComparison[Any]", answer: "Reply", draw: "Callable[[], tuple[Section, list[Path]]]"
) -> list[Path]:
    """Write pictures, and schedule.html with the answer around one, where the packages for pictures are there.

    `draw`: writes the pictures, and returns a section with one and all files.
    """
    page = folder / "schedule.html"
    for stale in (folder / "schedule.svg", page):
        stale.unlink(missing_ok=True)
    if not has_pictures():
        return []
    from themis_opt.cli.printing import columns_of
    from themis_opt.reports.rendering.document import Column, Report, Section, Table
    from themis_opt.reports.rendering.page import render_html

    drawn, files = draw()
    sections = [drawn]
    for table in answer.tables:
        texts = [cells(form, [row[name] for row in table.rows]) for name, (_, form) in table.shown.items()]
        headings, rows = [heading for heading, _ in table.shown.values()], tuple(zip(*texts, strict=True))
        forms = ["amount" if column.is_number else "text" for column in columns_of(headings, rows)]
        sections.append(Section(table.title, tables=(Table(tuple(map(Column, headings, forms)), rows),), is_open=True))
    report = Report(compared.problem.name or "schedule", tuple(answer.sentences), tuple(sections))
    write_atomically(page, render_html(report))
    return [*files, page]


@dataclass(frozen=True)
class Reply:
    """What a command prints.

    `document`: the answer as plain values, for ``--json``.
    `sentences`: the verdict, before all figures.
    `tables`: figures for people.
    `notes`: facts beside the answer, on the error stream.
    `files`: files that were written.
    `is_met`, `interrupted`: what the exit code says: whether the answer is what was hoped for, and whether Ctrl-C cut
      it short.
    `kept`: what there is then.
    """

    document: Any
    sentences: Sequence[str] = ()
    tables: Sequence[Listing] = ()
    notes: Sequence[str] = ()
    files: Sequence[Path] = ()
    is_met: bool = True
    interrupted: bool = False
    kept: str = "the best schedules so far are kept"

    def tell(self, *, as_json: bool) -> None:
        """Print the answer, and end the command where it is not met, or was interrupted."""
        from themis_opt.cli.printing import print_json, print_rows, say, tell_files, tell_note
        from themis_opt.cli.process import leave

        if as_json:
            print_json(self.document)
        else:
            for sentence in self.sentences:
                say(sentence)
            for table in self.tables:
                print_rows(table.title, table.rows, table.shown)
        for note in self.notes:
            tell_note(note)
        tell_files(self.files)
        leave(0.0, None, interrupted=self.interrupted, is_met=self.is_met, kept=self.kept)


def ask(question: str, problem: "Problem", *subjects: Any, by: tuple[str, str] | None = None, **options: Any) -> Any:
    """What the family of a problem answers to a command.

    Raises InputError if the family does not answer this question, or does not take an option that is given.

    `question`: the name of a function in the module of the family, with its arguments in order.
    `by`: the option that leads to the question, and its value.
    """
    from themis_opt.families.door import family_of

    family = family_of(problem)
    answer = getattr(import_module(f"themis_opt.cli.answers.{problem.family}"), question, None)
    if answer is None and by is not None:
        raise InputError(f"is not for {family.name}", field=by[0], value=by[1])
    if answer is None:
        family.refuse(question)
    known = signature(answer).parameters
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
    given = {name: v for name, v in options.items() if v is not None and v is not False and v != USUAL_VALUES.get(name)}
    for name, value in given.items():
        if not takes_all and name not in known:
            shown = None if value is True else str(value) if isinstance(value, Path) else value
            raise InputError(f"is not for {family.name}", field=f"--{name.replace('_', '-')}", value=shown)
    return answer(*subjects, **given)

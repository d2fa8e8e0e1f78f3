"""What the site shows besides the pages in this folder: reports, instances, and what is generated from the code."""

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import typer
from docutils import nodes
from docutils.core import publish_parts
from docutils.parsers.rst.roles import register_local_role
from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from themis_opt.study.best_known import BestKnown

ROOT = Path(__file__).parent.parent

OTHERS = (
    "instances/README.md",
    "instances/library/README.md",
    "reports/**/*.md",
    "reports/*/*.svg",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
)
"""Files outside this folder that are pages and pictures of the site."""

MATHEMATICS = "reference/mathematics.md"

FORMULATIONS = (
    "lattice", "fluid", "order_count", "head_tail", "chunk_count", "interval_loads", "chunk_sizes",
    "chunk_order", "sequencing", "allocation", "offloading", "microbatch_order",
    "worst_cut", "edge_splitting", "tree_packing", "shared_roots", "tree_lengths", "concurrent_flow",
)  # fmt: skip


def on_files(files: Files, config: Any) -> Files:
    """Add the files outside this folder under their paths in the repository."""
    for pattern in OTHERS:
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            files.append(File(name, str(ROOT), config["site_dir"], config["use_directory_urls"]))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Write the pages that come from the code, and point links at pages of the site."""
    here = page.file.src_uri
    markdown += GENERATED[here]() if here in GENERATED else ""
    is_own = (Path(config["docs_dir"]) / here).exists()

    def link(match: re.Match[str]) -> str:
        text, target = match.groups()
        path, _, anchor = target.partition("#")
        place = _in_repository(here, is_own, path)
        if place is None:
            return match[0]
        if place.startswith("formulations/"):
            place, anchor = MATHEMATICS, place.removesuffix(".py").replace("/", "-")
        place = place.removeprefix("docs/")
        if files.get_file_from_path(place) is None:
            return f"{text} (`{place}`)"
        return f"[{text}]({'../' * here.count('/')}{place}{f'#{anchor}' if anchor else ''})"

    return re.sub(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)", link, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Take the roles off names in docstrings."""
    return re.sub(
        r":(?:class|func|mod|data|meth|attr):<code>~?(?:[\w.]+\.)?(\w+(?:\(\))?)</code>", r"<code>\1</code>", html
    )


def _in_repository(here: str, is_own: bool, target: str) -> str | None:
    """Path in the repository of what a page links; None for places in the page and for addresses."""
    if not target or "://" in target or target.startswith("mailto:"):
        return None
    base = (ROOT / "docs" if is_own else ROOT) / here
    path = (base.parent / target).resolve()
    if not path.is_relative_to(ROOT):
        return None
    return (path / "README.md" if path.is_dir() else path).relative_to(ROOT).as_posix()


def commands() -> str:
    """Every subcommand with its arguments and options, from the commands themselves."""
    from themis_opt.cli.main import application

    group = typer.main.get_command(application())
    context = click.Context(group, info_name="themis-opt")
    return "".join(_command(name, group.get_command(context, name)) for name in group.list_commands(context))


def _command(name: str, command: click.Command) -> str:
    usage = command.get_usage(click.Context(command, info_name=f"themis-opt {name}")).removeprefix("Usage: ")
    rows = (
        f"| `{', '.join(each.opts) if each.param_type_name == 'option' else each.name.upper()}` | {_cell(each)} |"
        for each in command.params
    )
    text = " ".join((command.help or "").split())
    return f"\n## {name}\n\n```\n{usage}\n```\n\n{text}\n\n| option | |\n|---|---|\n" + "\n".join(rows) + "\n"


def _cell(option: click.Parameter) -> str:
    return (getattr(option, "help", "") or "").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def mathematics() -> str:
    """The docstring of every formulation, its formulas as MathML."""
    for role in ("mod", "class", "func", "data", "meth"):
        register_local_role(role, _name)
    return "".join(_formulation(name) for name in FORMULATIONS)


def _formulation(name: str) -> str:
    text = inspect.getdoc(import_module(f"formulations.{name}"))
    settings = {"math_output": "MathML", "initial_header_level": 3, "report_level": 3, "halt_level": 3}
    body = publish_parts(text, writer="html5", settings_overrides=settings)["body"]
    return f'\n## formulations.{name} {{: #formulations-{name} }}\n\n<div class="formulation">\n{body}\n</div>\n'


def _name(role: str, rawtext: str, text: str, *_: Any, **__: Any) -> tuple[list[nodes.Node], list[nodes.Node]]:
    """A name of the code."""
    return [nodes.literal(rawtext, text.lstrip("~").rpartition(".")[2])], []


def library() -> str:
    """All rows of the library."""
    from themis_opt.study.best_known import Library, shares

    rows = Library().rows
    return f"\n{'; '.join(shares(rows))}.\n\n{_known(rows)}"


def open_problems() -> str:
    """The rows that are open, largest gaps first."""
    from themis_opt.study.best_known import Library

    return "\n" + _known(sorted((row for row in Library().rows if row.status == "open"), key=lambda row: -row.gap))


def _known(rows: "Sequence[BestKnown]") -> str:
    from themis_opt.base.units import format_short_time

    lines = [
        "| instance | sizes | NPUs | makespan | bound | gap | certified | proven in | by, seconds, date |",
        "|---" * 9 + "|",
    ]
    for row in rows:
        times = f"{format_short_time(row.makespan_ps)} | {format_short_time(row.bound_ps)}, {row.bound}"
        gaps = f"{100 * row.gap:.3f} % | {100 * row.makespan_ps / row.proven_ps - 100:.3f} % | {row.proven_in}"
        origin = f"{row.solver.partition(' of ')[0]}, {row.seconds:g}, {row.date}"
        lines.append(f"| {row.name} | {row.sizes} | {row.npus} | {times} | {gaps} | {origin} |")
    return "\n".join(lines) + "\n"


GENERATED = {
    "reference/commands.md": commands,
    MATHEMATICS: mathematics,
    "library.md": library,
    "open_problems.md": open_problems,
}
"""What is written at the end of a page."""

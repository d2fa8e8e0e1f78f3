"""``themis-opt list``: what can be asked for by name, and where it comes from."""

import inspect
import re
from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any

from typer import Argument

from themis_opt.base.errors import InputError, suggestion
from themis_opt.cli import completion, options
from themis_opt.cli.answers.answer import Listing, Reply

LISTED: Mapping[str, str] = {
    "policies": "themis_opt.policies.registry:POLICIES",
    "launching": "themis_opt.policies.registry:LAUNCHING",
    "readers": "themis_opt.formats.readers.registry:READERS",
    "writers": "themis_opt.formats.bundle:WRITERS",
    "exports": "themis_opt.formats.exports:EXPORTS",
    "formats": "themis_opt.cli.listing:formats",
    "transports": "themis_opt.runtime.links:TRANSPORTS",
    "reports": "themis_opt.reports.making:REPORTS",
    "models": "themis_opt.workloads.models:MODELS",
    "instances": "themis_opt.problem.catalog:all_shipped",
    "designs": "themis_opt.designing.problem:shipped_problems",
    "pipelines": "themis_opt.problem.catalog:shipped_pipelines",
}
"""Import path of what is listed: a registry, to which other packages add, what comes with the package alone, or a
function that makes either, or rows."""

# What says what each entry is, when it is asked for alone; for that everything is loaded
DESCRIBED = ("policies", "launching", "instances", "pipelines")
# What is only listed when asked for: other kinds name it too, or it is long
DETAILED = ("formats", "instances", "designs", "pipelines")


def list_names(
    kind: Annotated[
        str | None,
        Argument(
            help=f"One of {', '.join(LISTED)}; all but {', '.join(DETAILED)} if left out.",
            metavar="KIND",
            autocompletion=completion.starting_with(lambda: LISTED),
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """List policies, reports and what else has a name, with the package that each comes from."""
    if kind is not None and kind not in LISTED:
        raise InputError(f"must be one of {', '.join(LISTED)}{suggestion(kind, LISTED)}", field="KIND", value=kind)
    kinds = [kind] if kind is not None else [name for name in LISTED if name not in DETAILED]
    tables = {name: _rows(name, described=kind is not None and not as_json) for name in kinds}
    document = [{"kind": kind} | row for kind, rows in tables.items() for row in rows]
    Reply(document, tables=[Listing.of_texts(title, rows) for title, rows in tables.items()]).tell(as_json=as_json)


def _rows(kind: str, *, described: bool) -> list[dict[str, str]]:
    """Name and origin of everything of a kind, what it is if described, and more where it is detailed."""
    from themis_opt.base.registries import OWN, Registry

    module, _, attribute = LISTED[kind].partition(":")
    listed = getattr(import_module(module), attribute)
    names = listed() if callable(listed) else listed
    if isinstance(names, list):
        return names
    rows = [{"name": name, "origin": names.origin(name) if isinstance(names, Registry) else OWN} for name in names]
    return [{**row, "what": _what(names, row["name"])} for row in rows] if described and kind in DESCRIBED else rows


def _what(names: Mapping[str, Any], name: str) -> str:
    """What an entry is: a shipped instance in short, the first line of the docstring of something else."""
    from themis_opt.base.registries import Registry
    from themis_opt.families.door import family_of, load

    if not isinstance(names, Registry):
        problem = load(names[name])
        return family_of(problem).in_short(problem)
    try:
        entry = names.load(name)
    except InputError as error:
        return error.rule
    first = (inspect.getdoc(entry) or "").partition("\n")[0]
    is_made_up = first.startswith(f"{getattr(entry, '__name__', '')}(")  # that of a dataclass without one
    return "-" if is_made_up or not first else re.sub(r":\w+:`", "`", first).replace("`", "")


def formats() -> list[dict[str, str]]:
    """One row for each format: name, whether it is read or written, files, description, origin."""
    from themis_opt.formats.bundle import WRITERS
    from themis_opt.formats.exports import EXPORTS
    from themis_opt.formats.readers.registry import READERS

    rows, ways = [], (("in", READERS), ("out", WRITERS), ("out", EXPORTS))
    for way, registry, name in ((way, some, name) for way, some in ways for name in some):
        entry = registry.load(name)
        meaning = getattr(entry, "meaning", "") or (inspect.getdoc(entry) or "").partition("\n")[0].rstrip(".")
        usual = [f"*.{name}" if way == "in" else name]
        files = [f"*.{ending}" for ending in entry.endings] if hasattr(entry, "endings") else usual
        row = {"name": name, "way": way, "files": " ".join(files) or "*", "meaning": meaning}
        rows.append(row | {"origin": registry.origin(name)})
    return rows

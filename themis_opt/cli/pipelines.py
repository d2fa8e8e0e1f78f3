"""Commands on pipelines of microbatches, where an instance could be."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from themis_opt.base.errors import InputError, suggestion
from themis_opt.cli import options

BEGINNING = 4096
"""Bytes of a file in which its format stands."""

TORCH = "torch-pipeline"
"""The format that pipelines are exported to."""

if TYPE_CHECKING:
    from themis_opt.cli.printing import ShownColumns
    from themis_opt.pipelines.reference import PipelineComparison


def is_pipeline(source: str) -> bool:
    """Whether a file says at its beginning that it holds a pipeline or a schedule of one, or a name is of one."""
    path = Path(source)
    if not path.is_file():
        from themis_opt.problem.catalog import shipped_pipelines

        return source in shipped_pipelines()
    with path.open("rb") as file:
        return b'"themis-opt/pipeline' in file.read(BEGINNING)


def refuse(given: Mapping[str, object]) -> None:
    """Refuse options of networks, by name, where some are given. Raises InputError."""
    for name, value in given.items():
        if value:
            raise InputError("is not for pipelines", field=f"--{name.replace('_', '-')}", value=value)


def compare(
    source: str, policies: str | None, search: options.SearchOptions, folder: Path | None, *, as_json: bool
) -> None:
    """Print a verdict and a table of policies, and write the best schedule into a folder, if there is one."""
    from formulations.limits import MIN_SECONDS, Limits
    from themis_opt.cli.printing import print_json, print_rows, say_all, tell_files, tell_note
    from themis_opt.cli.process import leave, remaining, undisturbed
    from themis_opt.cli.progress import best_so_far
    from themis_opt.pipelines import reference
    from themis_opt.pipelines.files import read_pipeline

    pipeline = read_pipeline(source)
    names = _chosen(policies)
    settings = search.settings()
    seconds = max(remaining(settings.pop("time_limit")), MIN_SECONDS)
    limits = Limits(seconds, **{name: value for name, value in settings.items() if name != "sizes"})
    with best_so_far("iteration", seconds) as report:
        compared = reference.compare(pipeline, names, limits, report)
    sentences = compared.verdict
    with undisturbed():
        files = [] if folder is None else _write(folder, compared)
    rows = [result.row() for result in compared.results]
    if as_json:
        print_json(rows)
    else:
        say_all(sentences)
        print_rows(pipeline.name or "pipeline", _shown(rows), SHOWN)
        for name, rule in compared.refused.items() if policies else ():
            tell_note(f"{name} was left out: {rule}")
    tell_files(files)
    left_out = compared.refused if policies else ()
    leave(compared.best.gap, search.gap, interrupted=compared.interrupted, left_out=left_out)


SHOWN: "ShownColumns" = {
    "policy": ("policy", "text"),
    "makespan_ns": ("iteration", "time"),
    "bubble": ("waiting", "share"),
    "kept": ("kept", "text"),
    "gap": ("gap", "share"),
    "status": ("status", "text"),
}


def _shown(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with sizes as a person reads them."""
    from themis_opt.base.units import format_short_size

    return [{k: format_short_size(v) if k in ("kept", "memory") else v for k, v in row.items()} for row in rows]


def _chosen(policies: str | None) -> tuple[str, ...]:
    """The policies that are named, or all."""
    from themis_opt.pipelines.policies import PIPELINE_POLICIES
    from themis_opt.policies.registry import REFERENCE

    known = (*PIPELINE_POLICIES, REFERENCE)
    names = options.split(policies) or known
    for name in names:
        if name not in known:
            rule = f"is no policy of pipelines{suggestion(name, known)}"
            raise InputError(rule, field="--policies", value=name)
    return tuple(names)


def _write(folder: Path, compared: "PipelineComparison") -> list[Path]:
    """Write the comparison, the best schedule, its picture and the file that PyTorch runs."""
    from themis_opt.base.documents import make_folder
    from themis_opt.families.files import write_operations
    from themis_opt.pipelines.files import write_schedule, write_torch_csv
    from themis_opt.pipelines.picture import draw

    make_folder(folder)
    best = compared.best
    paths = [folder / name for name in ("schedule.json", "torch-pipeline.csv")]
    write_schedule(paths[0], best.schedule, {"policy": best.policy, "bound_ns": best.row()["bound_ns"]})
    write_torch_csv(paths[1], best.schedule)
    title = "\n".join(compared.verdict)
    return [*paths, *write_operations(folder, compared, lambda path: draw(path, best.schedule, title))]


def bound(source: str, *, as_json: bool) -> None:
    """Print the bound of a pipeline."""
    from themis_opt.base.units import format_duration, nanoseconds
    from themis_opt.cli.printing import print_json, say
    from themis_opt.pipelines import bounds
    from themis_opt.pipelines.files import read_pipeline

    value = bounds.bound(read_pipeline(source))
    if as_json:
        print_json([{"bound": "filling_and_draining", "bound_ns": nanoseconds(value)}])
    else:
        say(f"an iteration takes {format_duration(value)} at least, in any order of the microbatches.")


def validate(path: Path, *, as_json: bool) -> None:
    """Check the schedule of a pipeline."""
    from themis_opt.base.units import format_duration, format_short_size, nanoseconds
    from themis_opt.cli.printing import print_json, say
    from themis_opt.pipelines.files import read_schedule

    schedule = read_schedule(path)
    kept = max(schedule.peaks())
    if as_json:
        print_json({"valid": True, "makespan_ns": nanoseconds(schedule.value), "kept": kept})
    else:
        time, size = format_duration(schedule.value), format_short_size(kept)
        say(f"valid: an iteration takes {time}; a stage keeps {size} at most.")


def plot(path: Path, output: Path) -> None:
    """Draw the schedule of a pipeline."""
    from themis_opt.base.units import format_duration
    from themis_opt.cli.printing import tell_files
    from themis_opt.pipelines.files import read_schedule
    from themis_opt.pipelines.picture import draw

    schedule = read_schedule(path)
    draw(output, schedule, f"{schedule.pipeline.name or 'pipeline'}: {format_duration(schedule.value)}")
    tell_files([output])


def export(path: Path, to: str, folder: Path) -> None:
    """Write a schedule of a pipeline for PyTorch."""
    from themis_opt.base.documents import make_folder
    from themis_opt.cli.printing import tell_files
    from themis_opt.pipelines.files import read_schedule, write_torch_csv

    if to != TORCH:
        raise InputError(f"must be {TORCH} for the schedule of a pipeline", field="--to", value=to)
    make_folder(folder)
    write_torch_csv(folder / f"{TORCH}.csv", read_schedule(path))
    tell_files([folder / f"{TORCH}.csv"])


def sweep(source: str, over: str, *, as_json: bool) -> None:
    """Print what memory buys: the best iteration for every limit."""
    from themis_opt.base.units import parse_size
    from themis_opt.cli.printing import print_json, print_rows
    from themis_opt.pipelines.files import read_pipeline
    from themis_opt.pipelines.reference import curve

    name, _, values = over.partition("=")
    if name != "memory" or not values:
        raise InputError("must be memory=SIZE,SIZE,.. for a pipeline", field="--over", value=over)
    results = curve(read_pipeline(source), [parse_size(value) for value in values.split(",")])
    rows = [{"memory": limit, **result.row()} for limit, result in results]
    if as_json:
        print_json(rows)
        return
    columns = {name: SHOWN[name] for name in ("makespan_ns", "bubble", "kept", "gap")}
    shown: ShownColumns = {"memory": ("memory", "text"), **columns}
    print_rows("what memory buys", _shown(rows), shown)

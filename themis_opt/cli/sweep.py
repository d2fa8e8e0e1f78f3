"""``themis-opt sweep``: policies over message sizes, chunk counts and figures of dimensions."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from themis_opt.base.errors import InputError
from themis_opt.cli import graphs, options, pipelines

if TYPE_CHECKING:
    from themis_opt.cli.printing import ShownColumns
    from themis_opt.problem.instance import Instance

USUAL_SIZES = "size=64KiB..1GiB:4"
GRAPH_SIZES = "size=64KiB,1MiB,16MiB,256MiB"

SWEEP_COLUMNS: "ShownColumns" = {
    "policy": ("policy", "text"),
    "makespan_ns": ("makespan", "time"),
    "iteration_ns": ("iteration", "time"),
    "algbw_bytes_per_s": ("algbw", "bandwidth"),
    "busbw_bytes_per_s": ("busbw", "bandwidth"),
    "busy": ("busy", "shares"),
    "gap": ("gap", "share"),
}


@options.grouped
def sweep(
    source: options.InstanceArgument,
    *,
    over: Annotated[
        list[str] | None,
        Option(
            help="What to vary, once for each: size=64KiB..1GiB:4, chunks=8,16,32, or npus, share (of every bandwidth) "
            "or compression of the network, such as npus=8,64, or bandwidth, latency, "
            "launch_overhead or size (NPUs) of a dimension, such as dim1.bandwidth=100GB/s,200GB/s, "
            "or of one of its rails, such as server.NIC.bandwidth=25GB/s..100GB/s. Of a graph: size, or the bandwidth "
            "of a link, such as nic0.bandwidth=25GB/s,50GB/s."
        ),
    ] = None,
    changes: options.InstanceChanges,
    network: graphs.NetworkChanges,
    policies: options.Policies = None,
    sizes: options.ChunkSizes = "equal",
    output: Annotated[Path | None, options.output("Folder for sweep.csv and pictures over what varies first.")] = None,
    as_json: options.Json = False,
) -> None:
    """Run policies over message sizes, chunk counts, or bandwidth, latency, launches and NPUs of a dimension."""
    if pipelines.is_pipeline(source):
        pipelines.sweep(source, ",".join(over or ()), as_json=as_json)
        return
    graph = graphs.load(source, changes, network)
    if graph is not None:
        if output is not None:
            raise InputError("is not for graphs", field="--output", value=str(output))
        graphs.sweep(graph.on(network.apply(graph.network)), over or [GRAPH_SIZES], policies, as_json=as_json)
        return
    instance = options.load_instance(source, changes)

    from themis_opt.cli.printing import print_json, print_rows, say_all
    from themis_opt.study.comparison import checked_sizes
    from themis_opt.study.sweep import sweep
    from themis_opt.study.verdict import on_sweep

    usual = [USUAL_SIZES] if instance.iteration is None else ["chunks=4..64"]
    varied = _varied(instance, over or usual)
    rows = sweep(instance, varied, options.split(policies), sizes=checked_sizes(sizes))
    name = instance.name or "instance"
    if output is not None:
        _write(output, rows, list(varied), name)
    if as_json:
        print_json(rows)
        return
    say_all(on_sweep(instance, rows, next(iter(varied))))
    shown: ShownColumns = {**{figure: (figure, "text") for figure in varied}, **SWEEP_COLUMNS}
    print_rows(f"{name}: {len(rows)} runs, chunk sizes {sizes}", _folded(_readable(rows, list(varied))), shown)


def _varied(instance: "Instance", texts: Sequence[str]) -> dict[str, list[Any]]:
    from themis_opt.study.sweep import check_name, read_values

    varied: dict[str, list[Any]] = {}
    for text in texts:
        name, sign, values = text.partition("=")
        if not sign or name.strip() in varied:
            raise InputError("must be a name, = and values, each name once", field="--over", value=text)
        check_name(instance, name.strip())
        varied[name.strip()] = read_values(name.strip(), values)
    return varied


def _readable(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    from themis_opt.study.sweep import in_words

    return [row | {name: in_words(name, row[name]) for name in names} for row in rows]


def _folded(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with policies that come to the same at a place in one of them."""
    folded: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        key = tuple(value for name, value in row.items() if name != "policy")
        same = folded.setdefault(key, row | {"policy": ""})
        same["policy"] += f", {row['policy']}" if same["policy"] else row["policy"]
    return list(folded.values())


def _write(folder: Path, rows: Sequence[dict[str, Any]], names: Sequence[str], title: str) -> None:
    from themis_opt.base.documents import make_folder, write_atomically
    from themis_opt.cli.printing import tell_files
    from themis_opt.formats.tables import to_csv
    from themis_opt.reports.rendering.charts import save
    from themis_opt.reports.study_charts import curves

    make_folder(folder)
    write_atomically(folder / "sweep.csv", to_csv(rows))
    charts = curves(rows, names)
    for name, chart in charts.items():
        save(chart, folder / f"{name}.svg", title)
    tell_files([folder / "sweep.csv", *(folder / f"{name}.svg" for name in charts)])

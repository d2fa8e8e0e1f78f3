"""``themis-opt design``: the bandwidths of a network that does not exist yet."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from themis_opt.base.errors import InputError
from themis_opt.cli import options

if TYPE_CHECKING:
    from themis_opt.cli.printing import ShownColumns
    from themis_opt.designing.design import Design
    from themis_opt.designing.graph_design import GraphDesign

ALL_READINGS = "fixed,free,simulated"
LEAST_PRICE = 1e-3  # picoseconds for each GB/s or dollar below which a price is noise
SUMMARY: "ShownColumns" = {
    "reading": ("minimised", "text"),
    "fixed_ns": ("fixed order", "time"),
    "free_ns": ("free orders", "time"),
    "simulated_ns": ("simulated", "time"),
    "policy": ("policy", "text"),
    "bound_ns": ("bound", "time"),
    "gap": ("gap", "share"),
    "bandwidth": ("bandwidth", "bandwidth"),
    "dollars": ("dollars", "text"),
}

DIMENSIONS: "ShownColumns" = {
    "dimension": ("dimension", "text"),
    "kind": ("kind", "text"),
    "size": ("size", "count"),
    "bandwidth": ("bandwidth", "bandwidth"),
    "links": ("links", "text"),
    "dollars": ("dollars", "text"),
    "utilisation": ("utilisation", "share"),
    "saved": ("one more GB/s saves", "text"),
    "provisioned": ("beside the one before", "text"),
}

LINK_GROUPS: "ShownColumns" = {
    "links": ("links", "text"),
    "count": ("count", "count"),
    "bandwidth": ("bandwidth", "bandwidth"),
    "dollars": ("dollars", "text"),
    "saved": ("one more GB/s of each saves", "text"),
}

GRAPH_PARTS: "ShownColumns" = {
    "collective": ("collective", "text"),
    "weight": ("weight", "text"),
    "time_ns": ("trees and flows need", "time"),
    "simulated_ns": ("trees take", "time"),
    "deciding": ("what decides", "text"),
}

DEVICE_SHARES: "ShownColumns" = {
    "device": ("device", "text"),
    "count": ("count", "count"),
    "parameters": ("parameters of each", "text"),
    "bandwidth": ("bandwidth of each", "text"),
}


def design(
    source: Annotated[str, Argument(help="Design problem: a file, or the name of a shipped one.", metavar="PROBLEM")],
    readings: Annotated[
        str, Option(help="What to minimise, with commas between: fixed, free, simulated.")
    ] = ALL_READINGS,
    policy: Annotated[
        str | None, Option(help="Policy that simulates; hourglass, and baseline where the order is fixed.")
    ] = None,
    front: Annotated[
        int, Option("--pareto", help="Points of the front of money, or else bandwidth, against time.", min=0)
    ] = 0,
    output: Annotated[Path | None, options.output("Folder for the network's instances, tables and pictures.")] = None,
    as_json: options.Json = False,
) -> None:
    """Find the bandwidths of a network that make its workloads fastest, with a proof that none do better."""
    from themis_opt.designing.problem import find_problem, load_problem
    from themis_opt.problem.catalog import is_graph

    path = find_problem(source)
    document = _document(path)
    if document.get("format") == "themis-opt/devices/1":
        _design_devices(path, output, as_json=as_json)
        return
    if is_graph(document):
        given = {"readings": readings != ALL_READINGS, "policy": policy, "pareto": front}
        for name in (name for name, value in given.items() if value):
            raise InputError("is not for graphs: bounds of any algorithm are minimised", field=f"--{name}")
        _design_graph(path, output, as_json=as_json)
        return
    problem = load_problem(path)

    from themis_opt.cli.printing import print_json
    from themis_opt.designing.design import design, pareto

    chosen: Any = options.split(readings)
    if not chosen or len(set(chosen)) < len(chosen):
        raise InputError("must name one or more readings, each once", field="--readings", value=readings)
    designs = [design(problem, reading, policy=policy) for reading in chosen]
    points = pareto(problem, front, "fixed" if chosen == ("fixed",) else "free", policy=policy) if front else []
    if output is not None:
        _write(output, designs, points)
    if as_json:
        fronts = {"pareto": [point.summary() for point in points]} if points else {}
        print_json({"problem": problem.name, "designs": [answer.document() for answer in designs]} | fronts)
        return
    _print(designs, points)


def _document(path: Path) -> "dict[str, Any]":
    from themis_opt.base.documents import read_json

    return read_json(path)


def _design_graph(path: Path, output: Path | None, *, as_json: bool) -> None:
    """Divide bandwidth among the links of a graph."""
    from themis_opt.cli.printing import print_json, print_rows, say_all
    from themis_opt.designing.graph_design import design_graph
    from themis_opt.designing.graph_problem import load_graph_problem

    answer = design_graph(load_graph_problem(path))
    if output is not None:
        _write_graph(output, answer)
    if as_json:
        print_json({"problem": answer.problem.name} | answer.document())
        return
    say_all(answer.verdict)
    title = answer.problem.name or "design"
    rows = [
        row | {"dollars": f"{row['money']:,.0f}", "saved": _saved_in_words(row["saved_ns_per_gb_per_s"])}
        for row in answer.rows()
    ]
    shown = {name: how for name, how in LINK_GROUPS.items() if answer.money or name != "dollars"}
    print_rows(f"{title}: bandwidth of each link", rows, shown)
    parts = [row | {"deciding": "; ".join(row["deciding"])} for row in answer.part_rows()]
    print_rows("collectives", parts, GRAPH_PARTS)
    _print_prices([({}, answer.constraint_prices)])


def _write_graph(folder: Path, answer: "GraphDesign") -> None:
    """Write the collectives on the network, its picture, and the answer."""
    import json

    from themis_opt.base.documents import make_folder, write_atomically
    from themis_opt.cli.printing import tell_files
    from themis_opt.families.door import family_of
    from themis_opt.formats.graph_pictures import draw_network

    make_folder(folder)
    written = {f"{name}.json": family_of(instance).text(instance) for name, instance in answer.instances().items()}
    written["design.json"] = json.dumps(answer.document(), indent=2) + "\n"
    for name, text in written.items():
        write_atomically(folder / name, text)
    draw_network(answer.network, folder / "network.svg")
    tell_files(folder / name for name in [*written, "network.svg"])


def _design_devices(path: Path, output: Path | None, *, as_json: bool) -> None:
    """Divide parameters and bandwidth among devices, instead of bandwidth among dimensions."""
    import json

    from themis_opt.base.documents import make_folder, write_atomically
    from themis_opt.cli.printing import print_json, print_rows, say, tell_files
    from themis_opt.designing.devices import design_devices, read_devices

    answer = design_devices(read_devices(path))
    if output is not None:
        make_folder(output)
        write_atomically(output / "devices.json", json.dumps(answer.document(), indent=2) + "\n")
    if as_json:
        print_json(answer.document())
        return
    say(answer.verdict)
    rows = [
        row | {"parameters": f"{row['parameters'] / 1e6:.4g} MB", "bandwidth": f"{row['bandwidth'] / 1e6:.4g} MB/s"}
        for row in answer.rows()
    ]
    print_rows(answer.problem.name or "devices", rows, DEVICE_SHARES)
    if output is not None:
        tell_files([output / "devices.json"])


def _print(designs: "Sequence[Design]", points: "Sequence[Design]") -> None:
    from themis_opt.cli.printing import print_rows, say_all
    from themis_opt.designing.verdict import on_design

    say_all(on_design(designs))
    title = designs[0].problem.name or "design"
    print_rows(f"{title}: {len(designs)} designs", [_summary(answer) for answer in designs], SUMMARY)
    for answer in designs:
        print_rows(f"minimised: {answer.reading}", [_readable(row) for row in answer.rows()], _used(DIMENSIONS, answer))
    _print_prices([({"minimised": answer.reading}, answer.constraint_prices) for answer in designs])
    if points:
        best = min(points, key=lambda point: point.time * (point.money or point.bandwidths.sum()))
        rows = [_summary(point) | {"note": "least time x budget" if point is best else ""} for point in points]
        print_rows("front", rows, {**SUMMARY, "note": ("", "text")})


def _print_prices(answers: "Sequence[tuple[dict[str, str], dict[str, float]]]") -> None:
    """Shadow prices of constraints, each answer with what stands before them."""
    from themis_opt.cli.printing import print_rows

    rows = [
        head | {"constraint": text, "saved": _price_in_words(price)}
        for head, prices in answers
        for text, price in prices.items()
    ]
    if rows:
        titles = {"constraint": "constraint", "saved": "one more GB/s or dollar saves"}
        shown: ShownColumns = {name: (titles.get(name, name), "text") for name in rows[0]}
        print_rows("shadow prices", rows, shown)


def _saved_in_words(nanoseconds: float) -> str:
    from themis_opt.base.units import PICOSECONDS_PER_NANOSECOND

    return _price_in_words(nanoseconds * PICOSECONDS_PER_NANOSECOND)


def _used(shown: "ShownColumns", answer: "Design") -> "ShownColumns":
    """Without the columns that say nothing of a problem."""
    dimensions = answer.problem.network.dimensions
    left_out = set() if answer.money else {"dollars"}
    left_out |= set() if any(d.links for d in dimensions) else {"links"}
    return {name: how for name, how in shown.items() if name not in left_out}


def _summary(answer: "Design") -> dict[str, Any]:
    row = answer.summary()
    return row | ({"dollars": f"{answer.money:,.0f}"} if answer.money else {"dollars": "-"})


def _readable(row: dict[str, Any]) -> dict[str, Any]:
    factor = f" {row['provisioned_factor']:.3g}x" if row["provisioned"].endswith("provisioned") else ""
    return row | {
        "links": str(row["links"] or "-"),
        "dollars": f"{row['money']:,.0f}",
        "saved": _saved_in_words(row["saved_ns_per_gb_per_s"]),
        "provisioned": row["provisioned"] + factor,
    }


def _price_in_words(picoseconds: float) -> str:
    """What one more of something saves; nothing where that is what a solver rounds."""
    from themis_opt.base.units import format_short_time

    return format_short_time(picoseconds) if abs(picoseconds) >= LEAST_PRICE else "0"


def _write(folder: Path, designs: "Sequence[Design]", points: "Sequence[Design]") -> None:
    import json

    from themis_opt.base.documents import make_folder, write_atomically
    from themis_opt.cli.printing import tell_files
    from themis_opt.formats.tables import to_csv
    from themis_opt.reports.rendering.charts import save
    from themis_opt.reports.study_charts import bandwidths, front

    make_folder(folder)
    written = {}
    for name, instance in designs[-1].instances().items():
        document = instance.model_dump(mode="json", exclude_defaults=True) | {"format": instance.format}
        written[f"{name}.json"] = json.dumps(document, indent=2) + "\n"
    rows = [{"reading": answer.reading} | row for answer in designs for row in answer.rows()]
    written["dimensions.csv"] = to_csv(rows)
    written["design.json"] = json.dumps([answer.document() for answer in designs], indent=2) + "\n"
    if points:
        summaries = [point.summary() for point in points]
        written["pareto.csv"] = to_csv(summaries)
    for name, text in written.items():
        write_atomically(folder / name, text)
    title = designs[0].problem.name
    charts = {"bandwidths.svg": bandwidths(designs)} | ({"pareto.svg": front(points)} if points else {})
    for name, chart in charts.items():
        save(chart, folder / name, title)
    tell_files(folder / name for name in [*written, *charts])

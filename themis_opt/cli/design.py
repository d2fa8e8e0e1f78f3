"""``themis-opt design``: the bandwidths of a network that does not exist yet."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from themis_opt.base.errors import InputError
from themis_opt.base.units import PICOSECONDS_PER_NANOSECOND
from themis_opt.cli import options
from themis_opt.cli.answers.answer import Listing, Reply, columns, write_files

if TYPE_CHECKING:
    from themis_opt.cli.printing import ShownColumns
    from themis_opt.designing.design import Design
    from themis_opt.reports.rendering.charts import Chart

ALL_READINGS = "fixed,free,simulated"
LEAST_PRICE = 1e-3  # picoseconds for each GB/s or dollar below which a price is noise
SUMMARY = columns(
    *("reading", "fixed_ns", "free_ns", "simulated_ns", "policy", "bound_ns", "gap", "bandwidth", "dollars"),
    reading=("minimised", "text"),
    fixed_ns=("fixed order", "time"),
    free_ns=("free orders", "time"),
    simulated_ns=("simulated", "time"),
    bound_ns=("bound", "time"),
    bandwidth=("bandwidth", "bandwidth"),
)
DIMENSIONS = columns(
    *("dimension", "kind", "size", "bandwidth", "links", "dollars", "utilisation", "saved", "provisioned"),
    size=("size", "count"),
    bandwidth=("bandwidth", "bandwidth"),
    utilisation=("utilisation", "share"),
    saved=("one more GB/s saves", "text"),
    provisioned=("beside the one before", "text"),
)


def design(
    source: Annotated[str, Argument(help="Design problem: a file, or the name of a shipped one.", metavar="PROBLEM")],
    readings: Annotated[
        str, Option(help="What to minimise, with commas between: fixed, free, simulated.")
    ] = ALL_READINGS,
    policy: Annotated[
        str | None, Option(help="Policy that simulates; hourglass, and baseline where the order is fixed.")
    ] = None,
    output: Annotated[Path | None, options.output("Folder for the network's instances, tables and pictures.")] = None,
    as_json: options.Json = False,
) -> None:
    """Find the bandwidths of a network that make its workloads fastest, with a proof that none do better."""
    from themis_opt.designing.problem import load_problem

    problem = load_problem(source)  # refuses bad files before anything heavy is imported
    from themis_opt.designing import design as designing

    chosen: Any = options.split(readings)
    if not chosen or len(set(chosen)) < len(chosen):
        raise InputError("must name one or more readings, each once", field="--readings", value=readings)
    designs = [designing.design(problem, reading, policy=policy) for reading in chosen]
    tables = [Listing(f"{problem.name or 'design'}: {len(designs)} designs", list(map(_summary, designs)), SUMMARY)]
    for answer in designs:
        rows = [_readable(row) for row in answer.rows()]
        tables.append(Listing(f"minimised: {answer.reading}", rows, _used(DIMENSIONS, answer)))
    tables += _prices(designs)
    document = {"problem": problem.name, "designs": [answer.document() for answer in designs]}
    files = [] if output is None else _write(output, designs)
    Reply(document, designing.on_design(designs), tables, files=files).tell(as_json=as_json)


def _write(folder: Path, designs: "Sequence[Design]") -> list[Path]:
    from themis_opt.formats.tables import to_csv
    from themis_opt.problem.catalog import instance_text

    def charts() -> "Mapping[str, Chart]":
        from themis_opt.reports.study_charts import bandwidths

        return {"bandwidths": bandwidths(designs)}

    texts = {f"{name}.json": instance_text(instance) for name, instance in designs[-1].instances().items()}
    texts["dimensions.csv"] = to_csv([{"reading": answer.reading} | row for answer in designs for row in answer.rows()])
    texts["design.json"] = json.dumps([answer.document() for answer in designs], indent=2) + "\n"
    return write_files(folder, texts, designs[0].problem.name, charts)


def _prices(designs: "Sequence[Design]") -> list[Listing]:
    rows = [
        {"minimised": answer.reading, "constraint": text, "saved": _price_in_words(price)}
        for answer in designs
        for text, price in answer.constraint_prices.items()
    ]
    shown = columns("minimised", "constraint", "saved", saved=("one more GB/s or dollar saves", "text"))
    return [Listing("shadow prices", rows, shown)] if rows else []


def _used(shown: "ShownColumns", answer: "Design") -> "ShownColumns":
    """Without the columns that say nothing of a problem."""
    dimensions = answer.problem.network.dimensions
    left_out = set() if answer.money else {"dollars"}
    left_out |= set() if any(d.links for d in dimensions) else {"links"}
    return {name: how for name, how in shown.items() if name not in left_out}


def _summary(answer: "Design") -> dict[str, Any]:
    return answer.summary() | {"dollars": f"{answer.money:,.0f}" if answer.money else "-"}


def _readable(row: dict[str, Any]) -> dict[str, Any]:
    factor = f" {row['provisioned_factor']:.3g}x" if row["provisioned"].endswith("provisioned") else ""
    return row | {
        "links": str(row["links"] or "-"),
        "dollars": f"{row['money']:,.0f}",
        "saved": _price_in_words(PICOSECONDS_PER_NANOSECOND * row["saved_ns_per_gb_per_s"]),
        "provisioned": row["provisioned"] + factor,
    }


def _price_in_words(picoseconds: float) -> str:
    """What one more of something saves; nothing where that is what a solver rounds."""
    from themis_opt.base.units import format_short_time

    return format_short_time(picoseconds) if abs(picoseconds) >= LEAST_PRICE else "0"

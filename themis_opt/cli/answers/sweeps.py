"""Sweeps over figures of instances on dimensions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from themis_opt.base.errors import InputError, reading
from themis_opt.base.units import format_percent
from themis_opt.cli import options
from themis_opt.cli.answers.answer import Listing, Reply, columns, write_files

if TYPE_CHECKING:
    from themis_opt.cli.printing import ShownColumns
    from themis_opt.problem.instance import Instance
    from themis_opt.reports.rendering.charts import Chart
    from themis_opt.study.sweep import Projection

USUAL_SIZES = "size=64KiB..1GiB:4"

SCALING: "ShownColumns" = {
    "scaling_factor": ("scaling factor", "share"),
    "amdahl": ("Amdahl", "share"),
    "parameter_servers": ("parameter servers", "count"),
}

PLACE: "ShownColumns" = {"policy": ("policy", "text"), "npus": ("NPUs", "count")}
NEEDED: "ShownColumns" = {**PLACE, "share": ("share", "share"), "least_compression": ("compression", "text")}
USE_SHOWN: "ShownColumns" = {**PLACE, "compression": ("compression", "ratio"), "share": ("use of the network", "text")}


def sweep(
    instance: "Instance",
    over: Sequence[str] | None,
    *,
    policies: str | None = None,
    sizes: options.SizeChoice = "equal",
    output: Path | None = None,
    target: float | None = None,
    measured: str | None = None,
    overhead: float = 0.0,
) -> Reply:
    """Policies over message sizes, chunk counts and figures of dimensions; perhaps with a table and pictures."""
    from themis_opt.study.columns import objective
    from themis_opt.study.sweep import sweep as run
    from themis_opt.study.verdict import on_sweep

    usual = [USUAL_SIZES] if instance.iteration is None else ["chunks=4..64"]
    varied, fit = _varied(instance, over or usual), None
    if measured is not None and "=" in measured:
        fit, measured = _projection(instance, measured, policies), None
        varied["share"] = [fit.share]
    rows: list[dict[str, Any]] = []
    interrupted = False
    try:
        rows.extend(run(instance, varied, options.split(policies), sizes=sizes, overhead=overhead))
    except KeyboardInterrupt:
        if not rows or target is not None or measured is not None:
            raise
        interrupted = True
    name = instance.name or "instance"
    files = [] if output is None else _write(output, rows, list(varied), name)
    titles: ShownColumns = {
        **{figure: (figure, "text") for figure in varied},
        "policy": ("policy", "text"),
        "makespan_ns": (objective(instance).title, "time"),
        "algbw_bytes_per_s": ("algbw", "bandwidth"),
    }
    shown = {**titles, **columns("busbw_bytes_per_s", "busy", "exposed_ns"), **SCALING, **columns("gap")}
    title = f"{name}: {len(rows)} runs, chunk sizes {sizes}"
    table = Listing(title, _folded(_readable(rows, list(varied))), shown)
    sentences = (*([str(fit)] if fit else []), *on_sweep(instance, rows, next(iter(varied))))
    if target is None and measured is None:
        return Reply(rows, sentences, [table], files=files, interrupted=interrupted)
    document: dict[str, Any] = {"rows": rows}
    tables = [table]
    if target is not None:
        document["least_compression"] = needed = _needed(instance, varied, options.split(policies), target)
        words = _worded(needed, "least_compression", "{:.4g}x".format, "none reaches it")
        tables.append(Listing(f"least compression for a scaling factor of {target:g}", words, NEEDED))
    if measured is not None:
        document["measured_share"] = used = _used(instance, varied, options.split(policies), measured)
        words = _worded(used, "share", format_percent, "none explains it")
        tables.append(Listing(f"use of the network that explains {measured}", words, USE_SHOWN))
    return Reply(document, sentences, tables, files=files)


def _projection(instance: "Instance", measured: str, policies: str | None) -> "Projection":
    """The share of bandwidths that explains measured steps, with the first policy."""
    from themis_opt.base.units import parse_time
    from themis_opt.policies.registry import usual_policies
    from themis_opt.study.sweep import project

    steps = {}
    for part in measured.split(","):
        npus, _, time = part.partition("=")
        try:
            steps[int(npus)] = parse_time(time)
        except ValueError as error:
            raise InputError(f"must be NPUs=TIME: {error}", field="--measured", value=part) from None
    return project(instance, (options.split(policies) or usual_policies(instance))[0], steps)


def _needed(
    instance: "Instance", varied: Mapping[str, Sequence[Any]], policies: Sequence[str] | None, target: float
) -> list[dict[str, Any]]:
    """The least compression of each policy and share of the bandwidths, on the most NPUs."""
    from themis_opt.study.sweep import least_compression

    rows = []
    for policy, point in _trained_places(instance, varied, "share", policies, "--target", target):
        least = least_compression(instance, policy, target, **point)
        rows.append({"policy": policy, **point, "target": target, "least_compression": least})
    return rows


def _used(
    instance: "Instance", varied: Mapping[str, Sequence[Any]], policies: Sequence[str] | None, measured: str
) -> list[dict[str, Any]]:
    """The share of the bandwidths that explains a time or a scaling factor, for each policy and compression."""
    from themis_opt.base.units import nanoseconds, parse_time
    from themis_opt.study.sweep import measured_share

    places = list(_trained_places(instance, varied, "compression", policies, "--measured", measured))
    number, is_factor, _ = measured.strip().partition("%")
    rule = "must be the time of an iteration, such as 190 ms, or a scaling factor, such as 60 %"
    with reading("--measured", measured, rule):
        time = round(instance.compute / (float(number) / 100)) if is_factor else parse_time(measured)
    rows = []
    for policy, point in places:
        share = measured_share(instance, policy, time, **point)
        rows.append({"policy": policy, **point, "measured_ns": nanoseconds(time), "share": share})
    return rows


def _trained_places(
    instance: "Instance",
    varied: Mapping[str, Sequence[Any]],
    name: str,
    policies: Sequence[str] | None,
    field: str,
    value: object,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each policy with each value of what is named, 1 by default, on the most NPUs."""
    from themis_opt.policies.registry import specify, usual_policies

    if not instance.tasks:
        raise InputError("is for training iterations", field=field, value=value)
    most = max(varied.get("npus", [instance.network.num_npus]))
    for policy in policies or usual_policies(instance):
        for each in varied.get(name, [1.0]):
            yield specify(policy, instance), {"npus": most, name: float(each)}


def _worded(rows: Sequence[dict[str, Any]], name: str, form: Callable[[float], str], none: str) -> list[dict[str, Any]]:
    return [row | {name: none if row[name] is None else form(row[name])} for row in rows]


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


def _write(folder: Path, rows: Sequence[dict[str, Any]], names: Sequence[str], title: str) -> list[Path]:
    from themis_opt.formats.tables import to_csv

    def charts() -> "Mapping[str, Chart]":
        from themis_opt.reports.study_charts import curves

        return curves(rows, names)

    return write_files(folder, {"sweep.csv": to_csv(rows)}, title, charts)

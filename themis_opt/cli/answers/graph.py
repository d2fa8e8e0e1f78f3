"""What commands answer about collectives on graphs."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from themis_opt.base.errors import InputError
from themis_opt.base.units import FORMS, format_percent, format_short_time, nanoseconds
from themis_opt.cli import options
from themis_opt.cli.answers.answer import Listing, Reply, columns, has_pictures, write_page
from themis_opt.cli.answers.measured import compare_measured as compare_measured
from themis_opt.cli.answers.operations import bound_table, parts, path_table, resource_table
from themis_opt.cli.answers.operations import simulate as simulate
from themis_opt.cli.process import remaining
from themis_opt.graphs.degraded import change_in_words, degraded

if TYPE_CHECKING:
    from themis_opt.cli.printing import ShownColumns
    from themis_opt.formats.readers.registry import Import
    from themis_opt.graphs.comparison import GraphComparison
    from themis_opt.graphs.problem import GraphInstance
    from themis_opt.graphs.schedule import GraphSchedule
    from themis_opt.reports.rendering.document import Section

SECONDS_TO_WRITE = 0.6  # for the picture and the trace of a schedule, most of which the renderer takes to start
SHARE_OF_NETWORK = 0.4  # share of the time for each of two networks; the rest is for what a library can be told
UNREACHED = {"makespan": "-", "file": "NPUs do not reach each other"}
QUIET_SECONDS = 5.0  # seconds between lines of progress where they are no terminal


def show(
    healthy: "GraphInstance", *, lost: str | None = None, slow: str | None = None, output: Path | None = None
) -> Reply:
    """Links and switches, perhaps with a picture."""
    from themis_opt.graphs.description import graph_headline, graph_tables

    instance = degraded(healthy, None if lost == options.EACH else lost, slow)
    if output is not None:
        from themis_opt.reports.network import draw_network

        draw_network(instance.network, output)
    tables = [Listing.of_texts(title, rows) for title, rows in graph_tables(instance).items()]
    document = instance.model_dump(mode="json", exclude_defaults=True) | {"fingerprint": instance.fingerprint}
    return Reply(document, [graph_headline(instance)], tables, files=[output] if output else ())


def introduce(instance: "GraphInstance", imported: "Import", *, whole: bool = False) -> Reply:
    """An imported graph: its files, and its links."""
    from themis_opt.graphs.description import graph_headline, graph_tables

    sentence = graph_headline(instance.model_copy(update={"description": ""}))
    rows = {"files": imported.files, **imported.tables, **graph_tables(instance)}
    tables = [Listing.of_texts(title, texts) for title, texts in rows.items()]
    document = imported.summary() | {"fingerprint": instance.fingerprint}
    return Reply(document, [sentence], tables, imported.notes)


def bound(
    healthy: "GraphInstance", *, lost: str | None = None, slow: str | None = None, output: Path | None = None
) -> Reply:
    """The bounds, and what is lost."""
    from themis_opt.graphs.bounds import graph_bounds, throughput
    from themis_opt.study.losses import loss, loss_in_words

    instance = degraded(healthy, None if lost == options.EACH else lost, slow)
    if lost == options.EACH:
        return _every_loss(instance, output)
    if output is not None:
        raise InputError("is for --lost each, which has a picture", field="--output", value=str(output))
    change = change_in_words(healthy.network, lost, slow)
    rows = [
        {
            "bound": one.name,
            "bound_ns": nanoseconds(float(one.picoseconds)),
            "algorithm_bandwidth": throughput(instance, one) if one.picoseconds else None,
            "scope": one.holds,
            "meaning": one.meaning,
        }
        for one in graph_bounds(instance).values()
    ]
    shown = columns("bound", "bound_ns", "scope", "meaning", scope=("holds for", "text"))
    sentences = [loss_in_words(healthy, loss(healthy, instance.network, change))] if change else []
    return Reply(rows, sentences, [Listing(f"{instance.name or 'graph'}: lower bounds", rows, shown)])


def _every_loss(instance: "GraphInstance", output: Path | None) -> Reply:
    """What parts of every role are worth, the worst in a sentence, and perhaps a picture."""
    from themis_opt.study.losses import every_loss, loss_in_words

    losses = every_loss(instance)
    titles: ShownColumns = {"kept": ("speed kept at most", "share"), "meaning": ("what decides then", "text")}
    if output is not None:
        from themis_opt.reports.pictures import draw_losses

        draw_losses(instance, [(one.name, one.kept, one.alike) for one in losses], output)
    rows = [one.row() for one in losses]
    table = Listing(f"{instance.name or 'graph'}: without one part", rows, columns("lost", *titles, **titles))
    connected = [one for one in losses if one.bound]
    worst = [connected[0]] if connected else []
    sentences = [loss_in_words(instance, one) for one in [*worst, *losses[: len(losses) - len(connected)]]]
    return Reply(rows, sentences, [table], files=[output] if output else ())


def plan_losses(healthy: "GraphInstance", policies: str | None, folder: Path, *, slow: str | None = None) -> Reply:
    """Plans for the loss of a part of every role, which are in a folder with an index and a picture."""
    from themis_opt.cli.progress import live
    from themis_opt.study.losses import HEALTHY, INDEX_FILE, losses_in_words, roles_of
    from themis_opt.study.losses import plan_losses as plan

    instance, interrupted = degraded(healthy, None, slow), False
    entries, total = [], len(roles_of(instance)) + 1
    try:
        with live(QUIET_SECONDS) as show_progress:
            for entry in plan(instance, folder, options.split(policies)):
                entries.append(entry)
                show_progress(f"without {entry['lost']}", len(entries), total)
    except KeyboardInterrupt:
        if len(entries) < 2:  # the healthy network alone says nothing of a loss
            raise
        interrupted = True
    losses = sorted((entry for entry in entries if entry["lost"] != HEALTHY), key=lambda entry: entry["kept"])
    rows = [row | ({"makespan": FORMS["time"](row["makespan_ns"])} if row["file"] else UNREACHED) for row in losses]
    shown = columns("lost", "kept", "policy", "makespan", "file")
    table = Listing(f"{instance.name or 'graph'}: plans without one part", rows, shown)
    files = [folder / INDEX_FILE]
    if has_pictures():
        from themis_opt.reports.pictures import draw_losses

        files.append(folder / "losses.svg")
        draw_losses(instance, [(entry["lost"], entry["kept"], entry["alike"]) for entry in losses], files[-1])
    verdict = [losses_in_words(instance, entries)]
    return Reply(losses, verdict, [table], files=files, interrupted=interrupted)


def compare(
    healthy: "GraphInstance",
    policies: str | None,
    search: options.SearchOptions,
    folder: Path | None,
    usual: bool,
    *,
    lost: str | None = None,
    slow: str | None = None,
    compare: str | None = None,
) -> "GraphComparison":
    """Plans and searches within the limits of the command, perhaps beside the healthy network."""
    from formulations.limits import Limits
    from themis_opt.graphs.comparison import compare_graph
    from themis_opt.study.losses import kept_in_words, nccl_choices

    settings, names = search.settings(), options.split(policies)
    kept = 0.0 if folder is None else min(SECONDS_TO_WRITE, settings["time_limit"] / 4)
    seconds = settings["time_limit"] if search.deterministic else max(remaining(settings["time_limit"]) - kept, 0.0)
    share = seconds if compare is None else seconds * SHARE_OF_NETWORK
    limits = Limits(share, **{name: settings[name] for name in options.LIMITS[1:]})
    compared = compare_graph(degraded(healthy, lost, slow), names, limits)
    if compare is None:
        return compared
    before, change = compare_graph(healthy, names, limits), change_in_words(healthy.network, lost, slow)
    words = kept_in_words(before, compared, change or "Unchanged")
    left = math.inf if search.deterministic else max(remaining(settings["time_limit"]) - kept, 0.0)
    choices, late = nccl_choices(before, compared, left) if lost else ([], ())
    return replace(compared, beside=words, choices=tuple(choices), left_out=(*compared.left_out, *late))


def compare_losses(
    healthy: "GraphInstance", policies: str | None, search: options.SearchOptions, *, slow: str | None = None
) -> Reply:
    """All policies without a part of every role, one after the other, beside the whole network."""
    from formulations.limits import Limits
    from themis_opt.cli.progress import live
    from themis_opt.graphs.comparison import compare_graph
    from themis_opt.study.losses import HEALTHY, losses_in_words, roles_of, without

    instance, names, interrupted, late = degraded(healthy, None, slow), options.split(policies), False, list[str]()
    settings, roles = search.settings(), {HEALTHY: 0, **roles_of(instance)}
    entries, rows, notes, best = list[dict[str, Any]](), list[dict[str, Any]](), dict[str, None](), 0
    try:
        with live(QUIET_SECONDS) as show_progress:
            for number, (lost, alike) in enumerate(roles.items()):
                given = settings["time_limit"]
                left = given * (1 - number / len(roles)) if search.deterministic else remaining(given)
                if any(row["lost"] != HEALTHY for row in rows) and left <= 0:
                    late.append(lost)
                    continue
                entry = {"lost": lost, "kept": 0.0, "file": None}
                entries.append(entry)
                network = instance.network if lost == HEALTHY else without(instance, lost)
                if network is not None:
                    limits = Limits(
                        left / (len(roles) - number), **{name: settings[name] for name in options.LIMITS[1:]}
                    )
                    compared = compare_graph(instance.on(network), names, limits)
                    best = compared.best.makespan if lost == HEALTHY else best
                    notes |= dict.fromkeys(compared.notes)
                    entry |= {"kept": best / compared.best.makespan, "file": lost}
                    for result in compared.results:
                        row = {"lost": lost, "alike": alike, "kept": best / result.makespan}
                        rows.append(row | result.row())
                show_progress(f"without {lost}", number + 1, len(roles))
    except KeyboardInterrupt:
        if not any(row["lost"] != HEALTHY for row in rows):
            raise
        interrupted = True
    if late:
        notes[f"longer than --time-limit: without {', '.join(late)}"] = None
    hurt = {entry["lost"]: entry["kept"] for entry in entries if entry["lost"] != HEALTHY}
    rows.sort(key=lambda row: hurt.get(row["lost"], 0.0))  # the whole network first, then what hurts most
    shown = columns("lost", "alike", "policy", "makespan_ns", "kept", "gap", alike=("alike", "count"))
    table = Listing(f"{instance.name or 'graph'}: without one part of each role", rows, shown)
    return Reply(rows, [losses_in_words(instance, entries)], [table], list(notes), interrupted=interrupted)


def tell(compared: "GraphComparison", search: options.SearchOptions) -> Reply:
    """The verdict and the table of a comparison."""
    instance, rows = compared.problem, [result.row() for result in compared.results]
    counts: ShownColumns = {"pieces": ("pieces", "count"), "chunks": ("chunks of each", "count")}
    shown = columns("policy", "makespan_ns", "gap", "algorithm_bandwidth", *counts, "status", **counts)
    proof = f"bound of any algorithm: {compared.best.proof.name}"
    title = f"{instance.name or 'graph'}: {instance.network.num_npus} NPUs, {proof}"
    tables = [Listing(title, rows, shown)]
    if compared.choices:
        told = columns("setting", "npus", "makespan_ns", "kept", setting=("in the words of NCCL", "text"))
        tables.append(Listing("What NCCL can be told", compared.choices, told))
    return Reply(rows, compared.verdict, tables, compared.notes)


def write(folder: Path, compared: "GraphComparison", answer: Reply, search: options.SearchOptions) -> list[Path]:
    """The table of a comparison, and the best schedule with its picture and its page."""
    from themis_opt.base.documents import write_atomically
    from themis_opt.families.files import write_operations
    from themis_opt.graphs.schedule_file import schedule_text
    from themis_opt.schedules.envelope import summary_of

    def draw() -> "tuple[Section, list[Path]]":
        from themis_opt.reports.pictures import graph_picture, write_picture

        return write_picture(folder, graph_picture(best))

    best = compared.best.schedule
    write_atomically(
        folder / "schedule.json", schedule_text(best, summary_of(compared.best, compared.bounds, search.settings()))
    )
    return [folder / "schedule.json", *write_operations(folder, compared), *write_page(folder, compared, answer, draw)]


def validate(schedule: "GraphSchedule", *, data: bool = False) -> Reply:
    """The rules that a schedule obeys, and perhaps what it does to data."""
    from themis_opt.formats.graph_exports import move_data
    from themis_opt.graphs.validation import GRAPH_RULES

    moved = move_data(schedule) if data else None
    document: dict[str, Any] = {
        "valid": True,
        "rules": list(GRAPH_RULES),
        "makespan_ns": nanoseconds(schedule.makespan),
    }
    took = format_short_time(schedule.makespan)
    sentences = [f"valid: {len(GRAPH_RULES)} rules hold ({', '.join(GRAPH_RULES)}), makespan {took}"]
    if moved:
        from themis_opt.base.units import format_short_size

        busiest, share = moved.busiest, moved.busiest.busy / schedule.makespan
        sent = f"{busiest.name} sends {format_short_size(busiest.bytes)}, {format_percent(share)} of the time"
        link = {"link": busiest.name, "busy_ns": nanoseconds(busiest.busy), "share": share, "bytes": busiest.bytes}
        document["data"] = {"messages": moved.messages, "block_units": moved.block_units, "busiest": link}
        sentences += [
            f"data: every NPU ends with its result, by {moved.messages} messages, {moved.block_units} units a block",
            f"busiest link: {sent}",
        ]
    return Reply(document, sentences)


def explain(schedule: "GraphSchedule", summary: object, *, steps: int) -> Reply:
    """How busy links are, the critical path, and the bounds."""
    from themis_opt.graphs.bounds import best_bound, graph_bounds

    explanation, instance = schedule.timed.explain(), schedule.plan.instance
    proven = {name: float(one.picoseconds) for name, one in graph_bounds(instance).items()}
    in_ns = {name: nanoseconds(value) for name, value in proven.items()}
    document = {"makespan_ns": nanoseconds(schedule.makespan), "bounds_ns": in_ns, **parts(explanation)}
    bound, count = best_bound(instance), len(explanation.resources)
    above = f"{format_percent(schedule.makespan / float(bound.picoseconds) - 1)} above what any algorithm needs"
    took = f"{schedule.plan.name} takes {format_short_time(schedule.makespan)}, {above} ({bound.meaning})."
    title = f"links: the {min(steps, count)} busiest of {count} directions"
    tables = [resource_table(title, explanation, steps), path_table(explanation, steps, "message")]
    return Reply(document, [took], [*tables, bound_table(schedule.makespan, proven)])


def plot(schedule: "GraphSchedule", path: Path) -> Reply:
    """What links send over time."""
    from themis_opt.reports.pictures import draw_schedule

    draw_schedule(schedule, path)
    return Reply(None, files=[path])


def sweep(
    healthy: "GraphInstance",
    over: Sequence[str] | None,
    *,
    policies: str | None = None,
    lost: str | None = None,
    slow: str | None = None,
) -> Reply:
    """What policies take over the size of the collective, or over the bandwidth of a link."""
    from themis_opt.families.door import family_of
    from themis_opt.study.sweep import read_values

    instance, over = degraded(healthy, lost, slow), over or ["size=64KiB,1MiB,16MiB,256MiB"]
    figure, _, text = (over[0] if len(over) == 1 else "").partition("=")
    what = figure.rpartition(".")[2]
    if figure != "size" and what != "bandwidth":
        rule = "must be one of size=1MB,1GB and LINK.bandwidth=25GB/s,50GB/s for a graph"
        raise InputError(rule, field="--over", value=", ".join(over))
    if figure == "size" and len(instance.collectives) > 1:
        rule = "must be LINK.bandwidth=25GB/s,50GB/s: there are several collectives, each with a size"
        raise InputError(rule, field="--over", value=over[0])
    varied = {figure: read_values(what, text)}
    rows = [
        row | {figure: str(row[figure])} for row in family_of(instance).sweep(instance, varied, options.split(policies))
    ]
    varying: ShownColumns = {figure: (figure, "text")}
    shown = {**varying, **columns("policy", "makespan_ns", "gap", "algorithm_bandwidth")}
    return Reply(rows, tables=[Listing(f"{instance.name or 'graph'}: {len(rows)} runs", rows, shown)])

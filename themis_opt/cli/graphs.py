"""What ``bound``, ``solve``, ``compare`` and ``show`` do with networks that are graphs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from themis_opt.base.errors import InputError
from themis_opt.cli import options
from themis_opt.cli.process import leave

if TYPE_CHECKING:
    from themis_opt.base.units import Form
    from themis_opt.graphs.comparison import GraphComparison
    from themis_opt.graphs.network import GraphInstance, GraphNetwork

QUIET_SECONDS = 5.0
"""Seconds between lines of progress where they are no terminal."""

EACH = "each"
"""What ``--lost`` says for every link in turn."""

POLICY_NAMES = ("trees", "trees=1", "trees=2", "ring", "double_tree", "direct", "greedy")
"""Those of :data:`themis_opt.graphs.comparison.GRAPH_POLICIES`, without loading what makes them."""

SEARCH_NAMES = ("rarest", "mix", "mirror", "climb", "exact")
"""Those of :data:`themis_opt.graphs.comparison.SEARCH_POLICIES`; the last is one of other networks as well."""

LIMITS = ("time_limit", "workers", "seed", "gap", "deterministic", "memory")
"""Options that limit the search on small graphs."""


@dataclass(frozen=True)
class NetworkChanges(options.OptionGroup):
    """Links and nodes that are lost or slow."""

    lost: Annotated[
        str | None, Option(help="Nodes and links that fail, with commas between; 'each' tries every link alone.")
    ] = None
    slow: Annotated[
        str | None, Option(help="Links with a part of their bandwidth, such as a-b=0.5, with commas between.")
    ] = None

    @property
    def in_words(self) -> str:
        """What is changed."""
        parts = [f"Without {self.lost}"] if self.lost else []
        return ", ".join([*parts, *([f"with {self.slow}"] if self.slow else [])])

    def apply(self, network: "GraphNetwork") -> "GraphNetwork":
        """The network with these changes, but for those of each link."""
        factors = dict(map(_factor, options.split(self.slow) or ()))
        names = () if self.lost == EACH else options.split(self.lost) or ()
        slowed = network.slowed(factors) if factors else network
        return slowed.without(names) if names else slowed


def _factor(text: str) -> tuple[str, float]:
    name, _, factor = text.partition("=")
    try:
        return name, float(factor)
    except ValueError:
        raise InputError("must be a link and a factor, such as a-b=0.5", field="--slow", value=text) from None


def load(
    source: str, changes: options.Changes, network: NetworkChanges, policies: str | None = None
) -> "GraphInstance | None":
    """The graph of a file or a shipped name, healthy.

    None if it is none, nothing is to be lost or slow, and not all policies are those of graphs.
    """
    from themis_opt.problem.catalog import graph_file

    path = graph_file(source)
    if path is None and not (network.lost or network.slow or _are_of_graphs(policies)):
        return None
    from themis_opt.cli.printing import tell
    from themis_opt.graphs.conversion import as_graph
    from themis_opt.graphs.network import graph_doubts, load_graph

    if path is None:
        return as_graph(options.load_instance(source, changes))
    instance = load_graph(path)
    for doubt in graph_doubts(instance.network):
        tell(f"warning: {source}: {doubt}")
    given = changes.given()
    size = given.pop("size", None)
    for name, value in given.items():
        raise InputError("is not for graphs", field=f"--{name.replace('_', '-')}", value=value)
    return instance.resized(size) if size else instance


def _are_of_graphs(policies: str | None) -> bool:
    """Whether some policies are named, and all of them are policies of graphs."""
    names = options.split(policies)
    of_graphs = {*POLICY_NAMES, *SEARCH_NAMES}
    return names is not None and bool({*names} & (of_graphs - {"exact"})) and set(names) <= of_graphs


def bound(healthy: "GraphInstance", network: NetworkChanges, output: Path | None, *, as_json: bool) -> None:
    """Print the bounds of a graph, or what is lost."""
    from themis_opt.base.units import nanoseconds
    from themis_opt.cli.printing import say
    from themis_opt.graphs.bounds import graph_bounds, throughput
    from themis_opt.graphs.comparison import loss, loss_in_words

    if network.lost == EACH:
        _print_every_loss(healthy.on(network.apply(healthy.network)), output, as_json=as_json)
        return
    if output is not None:
        raise InputError("is for --lost each, which has a picture", field="--output", value=str(output))
    instance = healthy.on(network.apply(healthy.network))
    if network.in_words and not as_json:
        say(loss_in_words(healthy, loss(healthy, instance.network, network.in_words)))
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
    shown: dict[str, tuple[str, Form]] = {
        "bound": ("bound", "text"),
        "bound_ns": ("makespan >=", "time"),
        "scope": ("holds for", "text"),
        "meaning": ("meaning", "text"),
    }
    _print(f"{instance.name or 'graph'}: lower bounds", rows, shown, as_json=as_json)


def _print(
    title: str, rows: Sequence[Mapping[str, object]], shown: "Mapping[str, tuple[str, Form]]", *, as_json: bool
) -> None:
    from themis_opt.cli.printing import print_json, print_rows

    if as_json:
        print_json(rows)
    else:
        print_rows(title, rows, shown)


def _print_every_loss(instance: "GraphInstance", output: Path | None, *, as_json: bool) -> None:
    """The table of what single links are worth, the worst in a sentence, and perhaps a picture."""
    from themis_opt.cli.printing import say, tell_files
    from themis_opt.graphs.comparison import every_loss, loss_in_words

    losses = every_loss(instance)
    if not as_json:
        say(loss_in_words(instance, losses[0]))
    shown: dict[str, tuple[str, Form]] = {
        "lost": ("lost", "text"),
        "kept": ("speed kept at most", "share"),
        "meaning": ("what decides then", "text"),
    }
    _print(f"{instance.name or 'graph'}: without one link", [one.row() for one in losses], shown, as_json=as_json)
    if output is not None:
        from themis_opt.formats.graph_pictures import draw_losses

        draw_losses(instance, [(one.name, one.kept, one.alike) for one in losses], output)
        tell_files([output])


def plan_every_loss(
    instance: "GraphInstance", policies: str | None, folder: Path, *, ignored: Sequence[str], as_json: bool
) -> None:
    """Plan for the loss of every link, in a folder with an index and a picture."""
    from themis_opt.cli.printing import say, tell_files, tell_note
    from themis_opt.cli.progress import live
    from themis_opt.formats.graph_pictures import draw_losses
    from themis_opt.graphs.loss_plans import HEALTHY, INDEX_FILE, losses_in_words, plan_losses

    if ignored:
        tell_note(f"what plans for losses do not hear of: {', '.join(ignored)}")
    entries, total = [], len(instance.network.links) + 1
    interrupted = False
    try:
        with live(QUIET_SECONDS) as show_progress:
            for entry in plan_losses(instance, folder, options.split(policies)):
                entries.append(entry)
                show_progress(f"without {entry['lost']}", len(entries), total)
    except KeyboardInterrupt:
        if len(entries) < 2:  # the healthy network alone says nothing of a loss
            raise
        interrupted = True
    losses = sorted((entry for entry in entries if entry["lost"] != HEALTHY), key=lambda entry: entry["kept"])
    if not as_json:
        say(losses_in_words(instance, entries))
    shown: dict[str, tuple[str, Form]] = {
        "lost": ("lost", "text"),
        "kept": ("speed kept", "share"),
        "policy": ("policy", "text"),
        "makespan": ("makespan", "text"),
        "file": ("file", "text"),
    }
    rows = losses if as_json else [row | _in_words(row) for row in losses]
    _print(f"{instance.name or 'graph'}: plans without one link", rows, shown, as_json=as_json)
    draw_losses(instance, [(entry["lost"], entry["kept"], 0) for entry in losses], folder / "losses.svg")
    tell_files([folder / INDEX_FILE, folder / "losses.svg"])
    leave(0.0, None, interrupted=interrupted)


def _in_words(entry: Mapping[str, object]) -> dict[str, str]:
    """Makespan and file of a plan, or why there is none."""
    from themis_opt.base.units import PICOSECONDS_PER_NANOSECOND, format_short_time

    if entry["file"] is None:
        return {"makespan": "-", "file": "NPUs do not reach each other"}
    return {"makespan": format_short_time(float(str(entry["makespan_ns"])) * PICOSECONDS_PER_NANOSECOND)}


def compare(
    healthy: "GraphInstance",
    network: NetworkChanges,
    policies: str | None,
    *,
    folder: Path | None,
    search: options.SearchOptions,
    beside_healthy: bool = False,
    as_json: bool = False,
) -> None:
    """Compare plans on a graph, say what is best, and write it if there is a folder."""
    from formulations.limits import Limits
    from themis_opt.cli.printing import say, say_all, tell_note
    from themis_opt.graphs.comparison import compare_graph, kept_in_words

    if changed := search.changed("sizes", *LIMITS):
        tell_note(f"what graphs do not hear of: {', '.join(changed)}")
    if network.lost == EACH:
        if folder is None:
            raise InputError(
                "'each' is for 'bound' and 'solve': 'compare' is for one network", field="--lost", value=EACH
            )
        changed_network = network.apply(healthy.network)
        plan_every_loss(healthy.on(changed_network), policies, folder, ignored=search.changed(*LIMITS), as_json=as_json)
        return
    names, settings = options.split(policies), search.settings()
    limits = Limits(seconds=settings["time_limit"], **{name: settings[name] for name in LIMITS[1:]})
    compared = compare_graph(healthy.on(network.apply(healthy.network)), names, limits)
    if not as_json:
        if beside_healthy:
            say(kept_in_words(compare_graph(healthy, names, limits), compared, network.in_words or "Unchanged"))
        say_all(compared.verdict)
    _print_results(compared, as_json=as_json)
    if folder is not None:
        _write(folder, compared)
    left_out = compared.refused if policies else ()
    leave(compared.best.gap, search.gap, interrupted=compared.interrupted, left_out=left_out)


def _print_results(compared: "GraphComparison", *, as_json: bool) -> None:
    from themis_opt.cli.printing import tell_note

    instance, bound = compared.instance, compared.best.proof
    shown: dict[str, tuple[str, Form]] = {
        "policy": ("policy", "text"),
        "makespan_ns": ("makespan", "time"),
        "gap": ("gap", "share"),
        "algorithm_bandwidth": ("bandwidth", "bandwidth"),
        "pieces": ("pieces", "count"),
        "chunks": ("chunks of each", "count"),
        "status": ("status", "text"),
    }
    title = f"{instance.name or 'graph'}: {instance.network.num_npus} NPUs, bound of any algorithm: {bound.name}"
    _print(title, [result.row() for result in compared.results], shown, as_json=as_json)
    for name, rule in compared.refused.items():
        tell_note(f"{name} was left out: {rule}")


def _write(folder: Path, compared: "GraphComparison") -> None:
    """Write the best schedule."""
    from themis_opt.base.documents import make_folder, write_atomically
    from themis_opt.cli.printing import tell_files
    from themis_opt.families.files import write_operations
    from themis_opt.formats.graph_pictures import draw_schedule
    from themis_opt.graphs.schedule_file import schedule_text

    make_folder(folder)
    path = folder / "schedule.json"
    best = compared.best.schedule
    write_atomically(path, schedule_text(best))
    tell_files([path, *write_operations(folder, compared, partial(draw_schedule, best))])


def draw(network: "GraphNetwork", path: Path | None) -> None:
    """Draw a network, if there is a file for its picture."""
    if path is None:
        return
    from themis_opt.cli.printing import tell_files
    from themis_opt.formats.graph_pictures import draw_network

    draw_network(network, path)
    tell_files([path])


def show(healthy: "GraphInstance", *, as_json: bool) -> None:
    """Describe a graph."""
    from themis_opt.cli.printing import print_json, print_table, say
    from themis_opt.graphs.description import graph_headline, graph_tables

    if as_json:
        print_json(healthy.model_dump(mode="json", exclude_defaults=True))
        return
    say(graph_headline(healthy))
    for title, rows in graph_tables(healthy).items():
        print_table(title, tuple(rows[0]), [tuple(row.values()) for row in rows])


def _with_rate(healthy: "GraphInstance", link: str, rate: object) -> "GraphInstance":
    from themis_opt.base.units import parse_bandwidth

    try:
        bandwidth = parse_bandwidth(rate)
    except ValueError as error:
        raise InputError(str(error), field="--over", value=rate) from None
    if bandwidth <= 0:
        raise InputError("must be more than 0", field="--over", value=rate)
    return healthy.on(healthy.network.with_bandwidth(link, bandwidth))


def sweep(healthy: "GraphInstance", over: Sequence[str], policies: str | None, *, as_json: bool) -> None:
    """Print what policies take over the size of the collective, or over the bandwidth of a link."""
    from themis_opt.graphs.comparison import compare_graph
    from themis_opt.study.sweep import read_values

    figure, _, text = (over[0] if len(over) == 1 else "").partition("=")
    link, _, what = figure.rpartition(".")
    if figure != "size" and what != "bandwidth":
        rule = "must be one of size=1MB,1GB and LINK.bandwidth=25GB/s,50GB/s for a graph"
        raise InputError(rule, field="--over", value=", ".join(over))
    if figure == "size" and len(healthy.collectives) > 1:
        rule = "must be LINK.bandwidth=25GB/s,50GB/s: there are several collectives, each with a size"
        raise InputError(rule, field="--over", value=over[0] if over else "size")
    rows = []
    for value in read_values(what or figure, text):
        changed = healthy.resized(value) if figure == "size" else _with_rate(healthy, link, value)
        results = compare_graph(changed, options.split(policies) or ("trees", "ring")).results
        rows += [{figure: str(value)} | result.row() for result in results]
    shown: dict[str, tuple[str, Form]] = {
        figure: (figure, "text"),
        "policy": ("policy", "text"),
        "makespan_ns": ("makespan", "time"),
        "gap": ("gap", "share"),
        "algorithm_bandwidth": ("bandwidth", "bandwidth"),
    }
    _print(f"{healthy.name or 'graph'}: {len(rows)} runs", rows, shown, as_json=as_json)

"""The door: every question takes every problem, and the family of the problem answers."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from themis_opt.base.documents import read_json, write_atomically
from themis_opt.base.errors import InputError
from themis_opt.base.notebook import progress_line
from themis_opt.base.registries import imported
from themis_opt.families.family import AnySchedule, Family, Problem
from themis_opt.problem import catalog

TABLE_FORMAT = "themis-opt/order-table/1"

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from themis_opt.graphs.problem import GraphInstance
    from themis_opt.pipelines.problem import Pipeline
    from themis_opt.problem.instance import Instance
    from themis_opt.schedules.results import PolicyComparison
    from themis_opt.schedules.timed import Explanation

FAMILIES: Mapping[str, str] = {
    "product": "themis_opt.families.products:PRODUCT_FAMILY",
    "graph": "themis_opt.families.graphs:GRAPH_FAMILY",
    "pipeline": "themis_opt.families.pipelines:PIPELINE_FAMILY",
}
"""Import paths of the families, by the `family` of their problems; a new family is one entry."""

CLUSTER_PREFIX = "cluster:"  # how names of clusters begin, such as ``cluster:h100:npus=1024``

SCHEMAS: Mapping[str, str] = {
    "instance": "themis_opt.problem.schema:shipped_schema",
    "schedule": "themis_opt.schedules.schedule_file:schedule_schema",
    "graph": "themis_opt.graphs.problem:graph_schema",
    "graph-schedule": "themis_opt.graphs.schedule_file:GraphScheduleFile",
    "pipeline": "themis_opt.pipelines.problem:Pipeline",
}
"""Import paths of models, or functions that give the JSON Schema, by the kind of file."""


def family_of(problem: Problem) -> Family:
    """The family of a problem. Raises InputError if the object is no problem."""
    return family_named(getattr(problem, "family", ""), type(problem).__name__)


def family_named(name: str, value: str = "") -> Family:
    """The family of a name. Raises InputError if there is none."""
    if name not in FAMILIES:
        raise InputError(f"must be a problem of one of {', '.join(FAMILIES)}", value=value or name)
    return cast(Family, imported(FAMILIES[name]))


def load(source: str | Path) -> Any:
    """Read a problem or a schedule from a file, or a shipped problem, or that of ``random:SEED`` or ``cluster:KIND``.

    Returns
    -------
    Instance, GraphInstance or Pipeline
        Collectives on a product of dimensions, collectives on a graph, or a pipeline of microbatches.
    Schedule, GraphSchedule or PipelineSchedule
        Of a file that holds a schedule or an order table, validated.

    Raises
    ------
    InputError
        If there is no such problem, or it breaks a rule; the message names file, field, value and rule.
    InvalidSchedule
        If a schedule breaks a rule of the model.

    Examples
    --------
    >>> load("fig5.all_reduce.256MB").family, load("dgx1.all_gather.1GB").family
    ('product', 'graph')
    """
    if Path(source).suffix == ".json" and Path(source).is_file():
        written = format_in(Path(source))
        if "schedule/" in written or written == TABLE_FORMAT:
            return read_solution(Path(source))[0]
    return load_problem(source)


def format_in(path: Path) -> str:
    """The field `format` of a JSON file; nothing if it cannot be read."""
    return str(_document(path).get("format", ""))


def _document(path: Path) -> dict[str, Any]:
    try:
        return read_json(path) if path.suffix == ".json" else {}
    except InputError:
        return {}  # the reader says what is wrong with the file


def load_problem(source: str | Path) -> "Instance | GraphInstance | Pipeline":
    """Read a problem as :func:`load` does; schedules are refused."""
    from themis_opt.formats.readers import registry

    if catalog.is_random(source):
        return catalog.load(source)
    if str(source).startswith(CLUSTER_PREFIX):
        from themis_opt.graphs.clusters import cluster_named

        return cluster_named(str(source))
    pipelines = catalog.shipped_pipelines()
    path = pipelines.get(str(source)) or catalog.locate(source)
    document = _document(path)
    if str(document.get("format", "")).startswith("themis-opt/pipeline/"):
        from themis_opt.pipelines.files import read_pipeline

        return read_pipeline(path)
    if catalog.is_graph(document):
        from themis_opt.graphs.problem import load_graph

        return load_graph(path)
    return registry.load(source)


def save(problem: Problem, path: str | Path) -> None:
    """Write the document of a problem, which :func:`load` reads. Raises InputError if the file cannot be written."""
    write_atomically(Path(path), family_of(problem).text(problem))


def read_solution(path: Path, problem: Problem | None = None) -> tuple[AnySchedule, Any]:
    """Read a schedule of any family, validated, and the summary that its file holds.

    Raises InputError or InvalidSchedule if the file holds none, one of another problem, or one that breaks a rule.

    `problem`: which the schedule must belong to.
    """
    written = format_in(path)
    names = (name for name in FAMILIES if written.startswith(f"themis-opt/{name}-schedule/"))
    return family_named(next(names, "product")).read_solution(path, problem)


AnyProblem = Problem | str | Path  # a problem, its file, or the name of a shipped one

Lost = str | Iterable[str] | None
Slow = str | Mapping[str, float] | None


def problem_for(source: AnyProblem, lost: Lost = None, slow: Slow = None) -> Problem:
    """A problem, read if it is none yet, on a network without what is lost and with what is slow.

    Raises InputError if there is no such problem, or it has no graph to lose links of.
    """
    problem: Problem = load_problem(source) if isinstance(source, str | Path) else source
    if lost is None and slow is None:
        return problem
    from themis_opt.graphs.degraded import degraded
    from themis_opt.graphs.problem import GraphInstance

    family = family_of(problem)
    graph = family.on_graph(problem, (), needed=True)
    if not isinstance(graph, GraphInstance):
        raise InputError(f"is not for {family.name}", field="lost", value=str(lost or slow))
    return degraded(graph, lost, slow)


@progress_line()
def solve(
    problem: AnyProblem, policies: Sequence[Any] | None = None, *, lost: Lost = None, slow: Slow = None, **options: Any
) -> "PolicyComparison[Any]":
    """Compare the usual policies, or those that are named, with the reference.

    Parameters
    ----------
    problem : Instance, GraphInstance, Pipeline, str or path
    policies : sequence of str or functions, optional
        As of :func:`compare`.
    lost, slow
        Links and nodes that are lost, or keep a part of their bandwidth, as
        :func:`themis_opt.graphs.degraded.degraded` says.
    **options
        ``time_limit`` in seconds and the other fields of :class:`formulations.limits.Limits`; those of
        :func:`themis_opt.study.comparison.solve` for instances on dimensions.

    Returns
    -------
    Comparison
        With ``results`` of ``policy``, ``schedule``, ``makespan``, ``bound``, ``gap`` and ``status``.

    Examples
    --------
    >>> solve("dgx1.all_gather.1GB", ["trees", "ring"], lost="gpu0-gpu3").best.policy
    'trees'
    """
    changed = problem_for(problem, lost, slow)
    family = family_of(changed)
    return family.solve(changed, **options) if policies is None else family.compare(changed, policies, **options)


@progress_line()
def compare(
    problem: AnyProblem, policies: Sequence[Any] | None = None, *, lost: Lost = None, slow: Slow = None, **options: Any
) -> "PolicyComparison[Any]":
    """Run policies, specifications or functions from a problem to a plan, by default all; options as of :func:`solve`.

    Examples
    --------
    >>> compare("fig5.all_reduce.256MB", ["baseline", "themis+scf"]).best.policy
    'themis+scf'
    >>> compare("dgx1.all_gather.1GB").best.policy
    'trees'
    """
    changed = problem_for(problem, lost, slow)
    return family_of(changed).compare(changed, policies, **options)


def bounds(problem: AnyProblem, *, lost: Lost = None, slow: Slow = None, **options: Any) -> Mapping[str, float]:
    """Lower bounds on the value of the objective in picoseconds, by name.

    Examples
    --------
    >>> [f"{bounds('dgx1.all_gather.1GB', lost=lost)['cut'] / 1e6:.0f} us" for lost in (None, "gpu0-gpu3")]
    ['5833 us', '8750 us']
    """
    changed = problem_for(problem, lost, slow)
    return family_of(changed).bounds(changed, **options)


def measured(problem: AnyProblem, *sources: str | Path, lost: Lost = None, slow: Slow = None, **options: Any) -> Any:
    """Put measured times beside what is proven, and beside what libraries can reach.

    Sources, options and the result are those of :func:`themis_opt.study.measured.measured`.

    Examples
    --------
    >>> print(measured("dgx_h100_superpod.all_reduce.1GiB", "395 GB/s").rows[0].sentence())
    At 1 GiB your 395 GB/s takes 5.415 ms, 4.12 % above what any algorithm needs; nothing of it can be won by order.
    """
    from themis_opt.graphs.problem import GraphInstance
    from themis_opt.problem.instance import Instance
    from themis_opt.study.measured import measured

    changed = problem_for(problem, lost, slow)
    if not isinstance(changed, Instance | GraphInstance):
        raise InputError(f"is not for {family_of(changed).name}", field="measured")
    return measured(changed, *sources, **options)


def make_policy(specification: str, family: str | None = None, **knobs: Any) -> Any:
    """A function from a problem to a plan, of a family or of the first that has the policy.

    Parameters
    ----------
    specification : str
        Such as ``themis+scf``, ``trees`` or ``zb1p``.
    family : {"product", "graph", "pipeline"}, optional
    **knobs
        Fields of the policy.

    Examples
    --------
    >>> make_policy("themis+scf")(load("fig5.all_reduce.256MB")).dispatch
    'scf'
    """
    families = map(family_named, [family] if family else FAMILIES)
    chosen = next((one for one in families if one.has_policy(specification)), family_named(family or "product"))
    return chosen.make_policy(specification, **knobs)


def simulate(problem: AnyProblem, plan: Any, **options: Any) -> Any:
    """The schedule of a plan, on a clock of integer picoseconds.

    Examples
    --------
    >>> instance = load("fig5.all_reduce.256MB")
    >>> simulate(instance, make_policy("themis+scf")(instance))
    <Schedule of 16 stages on fig5 all_reduce 256 MB: 7 ms>
    """
    given = problem_for(problem)
    return family_of(given).simulate(given, plan, **options)


def validate(schedule: AnySchedule) -> None:
    """Check a schedule from the rules of its family alone. Raises InvalidSchedule if it breaks one.

    Examples
    --------
    >>> instance = load("fig5.all_reduce.256MB")
    >>> validate(simulate(instance, make_policy("themis+scf")(instance)))
    """
    family_of(schedule.problem).validate(schedule)


def explain(schedule: AnySchedule) -> "Explanation":
    """Why a schedule takes as long as it does: the critical path, and what each resource does.

    Examples
    --------
    >>> explain(compare("fig5.all_reduce.256MB", ["themis+scf"]).best.schedule)
    <Explanation: 8 operations on the critical path; dim2 is busiest, 100.00 % of the time>
    """
    return family_of(schedule.problem).explain(schedule)


def plot(schedule: AnySchedule, ax: "Axes | None" = None, **options: Any) -> "Axes":
    """Draw a schedule, one row for each resource, on axes of a new figure if none are given.

    Examples
    --------
    >>> axes = plot(compare("fig5.all_reduce.256MB", ["themis+scf"]).best.schedule)
    >>> axes.get_xlabel()
    'time (ms)'
    """
    return family_of(schedule.problem).plot(schedule, ax, **options)


@progress_line()
def sweep(
    problem: AnyProblem, over: Mapping[str, Sequence[Any]], policies: Sequence[str] | None = None, **limits: Any
) -> list[dict[str, Any]]:
    """Run policies over every combination of varied values; a row for each combination and policy.

    Examples
    --------
    >>> rows = sweep("fig5.all_reduce.256MB", {"size": ["1MB", "2MB"]}, ["themis+scf"])
    >>> len(rows)
    2
    """
    given = problem_for(problem)
    return list(family_of(given).sweep(given, over, policies, **limits))


def robustness(problem: AnyProblem, policies: Sequence[str], **options: Any) -> Any:
    """Run the plans of policies in many disturbed copies of a problem; a distribution of losses for each plan.

    Examples
    --------
    >>> losses = robustness("fig5.all_reduce.256MB", ["themis+scf"], samples=5)
    >>> [len(one.losses) for one in losses]
    [5, 5]
    """
    given = problem_for(problem)
    family = family_of(given)
    schedules = {name: family.simulate(given, family.make_policy(name)(given)) for name in policies}
    return family.robustness(given, schedules, **options)

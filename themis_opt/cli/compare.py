"""``themis-opt solve``, ``compare`` and ``demo``: policies side by side, and the best schedule on disk."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from themis_opt.base.errors import InputError
from themis_opt.cli import options
from themis_opt.cli.answers.answer import ask
from themis_opt.cli.process import leave, undisturbed

if TYPE_CHECKING:
    from themis_opt.families.family import Problem

FREE_SIZES = options.SearchOptions(sizes="free")


@options.grouped
def solve(
    source: options.InstanceArgument,
    *,
    changes: options.Changes,
    network: options.NetworkChanges,
    policies: options.Policies = None,
    search: options.SearchOptions = FREE_SIZES,
    beside: Annotated[
        Literal["healthy"] | None, Option("--compare", help="healthy: say what is kept of the speed before --lost.")
    ] = None,
    output: Annotated[Path | None, options.output("Folder for the schedule and its pictures.")] = None,
    as_json: options.Json = False,
) -> None:
    """Find a near-optimal schedule, prove its gap, and write it with pictures.

    Compares the usual policies with the reference of local search and CP-SAT, and writes the best schedule, its order
    table or the compute tasks beside it, a trace for Perfetto, a Gantt picture and CSV files.
    """
    from themis_opt.base.documents import file_name

    folder = output or Path(file_name(f"{Path(source).name.removesuffix('.json')}.solution"))
    problem = options.load_problem(source, changes, network, policies)
    if network.lost == options.EACH:
        given: dict[str, Any] = {"slow": network.slow, "compare": beside}
        by = ("--lost", network.lost)
        ask("plan_losses", problem, problem, policies, folder, by=by, **given).tell(as_json=as_json)
        return
    given = {"compare": beside, **network.given()}
    compare_and_write(problem, policies, search, folder=folder, as_json=as_json, usual=True, **given)


@options.grouped
def compare(
    source: options.InstanceArgument,
    *,
    changes: options.Changes,
    network: options.NetworkChanges,
    policies: options.Policies = None,
    measured: Annotated[
        list[str] | None,
        Option(
            help="A bus bandwidth such as '310 GB/s', or a log of nccl-tests, rccl-tests, the NCCL Inspector, PyTorch "
            "or 'run' (- is the standard input), or the trace of a step: say how far it is from what is proven."
        ),
    ] = None,
    more: Annotated[list[str] | None, Argument(help="More logs, after --measured LOG.", metavar="LOG")] = None,
    part: Annotated[
        str | None,
        Option(
            help="NPUs along dimensions that a log measured, such as 'rail=4', where it does not tell: dimensions "
            "without a number are whole, 1 leaves one out.",
            metavar="NAME=NPUS",
        ),
    ] = None,
    time_limit: Annotated[
        float | None,
        Option(help="Seconds for the whole command: 60, but 3 of --measured alone on a graph.", min=0.1, max=1e9),
    ] = None,
    search: options.SearchOptions,
    output: Annotated[Path | None, options.output("Folder for the best schedule and the table.")] = None,
    as_json: options.Json = False,
) -> None:
    """Run all policies on one instance, each against the best proven bound.

    With --measured, put a bandwidth or the times of logs beside the best schedule of the usual policies, the ceilings
    of what libraries run, and the bound of any algorithm.  The exit code is 1 for times more than --gap above it, and
    for times below it: then the network is faster than it is described.
    """
    problem = options.load_problem(source, changes, network, policies)
    if more and not measured:
        raise InputError("is for --measured LOG LOG...", field="LOG", value=more[0])
    if measured:
        by, names, logs = ("--measured", measured[0]), options.split(policies), [*measured, *(more or ())]
        given: dict[str, Any] = {"part": part, "size": changes.size, "time_limit": time_limit, **network.given()}
        with options.solver_logged(search.solver_log):
            answer = ask("compare_measured", problem, problem, logs, names, search, output, by=by, **given)
        answer.tell(as_json=as_json)
        return
    search = search if time_limit is None else replace(search, time_limit=time_limit)
    if network.lost == options.EACH:
        by = ("--lost", network.lost)
        ask("compare_losses", problem, problem, policies, search, by=by, slow=network.slow).tell(as_json=as_json)
        return
    compare_and_write(problem, policies, search, folder=output, as_json=as_json, **network.given())


def compare_and_write(
    problem: "Problem",
    policies: str | None,
    search: options.SearchOptions,
    *,
    folder: Path | None,
    as_json: bool,
    usual: bool = False,
    **given: Any,
) -> None:
    """Compare policies within the limits, print the verdict and the table, and write the best schedule to a folder.

    `usual`: whether the usual policies are meant, instead of all, where none are named.
    `given`: options that some families take.
    """
    from themis_opt.base.documents import make_folder
    from themis_opt.cli.printing import tell_files

    with options.solver_logged(search.solver_log):
        compared = ask("compare", problem, problem, policies, search, folder, usual, **given)
    with undisturbed():
        answer = ask("tell", problem, compared, search)
        try:
            answer.tell(as_json=as_json)
        finally:  # also where the reader of the answer went away
            if folder is not None:
                make_folder(folder)
                tell_files(ask("write", problem, folder, compared, answer, search))
    left_out = compared.refused if policies else ()
    leave(compared.best.gap, search.gap, interrupted=compared.interrupted, left_out=left_out)


DEMONSTRATED = "fig5.all_reduce.256MB"  # the example of the Themis paper: few chunks, and an optimum that is proven


def demo(
    output: Annotated[Path, options.output("Folder for the schedule and its page.")] = Path("themis-opt-demo"),
) -> None:
    """Solve the small example of the Themis paper, and open the page of its schedule in a browser.

    Without a terminal, name the page alone.
    """
    from themis_opt.cli.printing import is_terminal, say

    instance = options.load_instance(DEMONSTRATED)
    search = options.SearchOptions(time_limit=10, sizes="free")
    compare_and_write(instance, None, search, folder=output, as_json=False, usual=True)
    page = (output / "schedule.html").resolve()
    seen = page if page.exists() else page.with_name("order.json")
    say(f"Two dimensions of four NPUs each: the best order keeps both busy. See it in {seen}")
    if seen == page and is_terminal(sys.stdout):
        import webbrowser

        webbrowser.open(page.as_uri())

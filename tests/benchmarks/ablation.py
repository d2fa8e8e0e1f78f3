"""What each step and each mechanism of the search is worth: it is taken out, and the held-out set is solved without it.

``python tests/benchmarks/ablation.py -o rows.csv --deterministic`` appends a row per solve, goes on where it stopped,
and writes ``rows.md`` beside it: differences of gaps in points, with their standard errors over the instances.
A mechanism costs something if the difference is more than two of them; what does not is a candidate for deletion.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, dataclass, fields, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import fmean
from typing import Any
from unittest.mock import patch

from compare_trees import (
    Pair,
    Solve,
    SolveRow,
    append_row,
    changes_of,
    mean_and_error,
    pairs_of,
    read_rows,
)
from held_out import FAMILIES, HeldOut, held_out
from parameters import variations, varied
from solver_process import Limits, SolverProcess

from themis_opt.workloads.files import instance_text

SEARCH, HOURGLASS = "themis_opt.search", "themis_opt.policies.hourglass.policy"

FEWEST_INSTANCES = 5
"""Fewer say nothing of their standard error."""

EVERYTHING = ""
"""The side from which nothing is taken out."""


class Patches(ExitStack):
    """Changes of the code of this process, which end with the block."""

    def put(self, place: str, value: Any) -> None:
        """Put a value in a place such as ``package.module:Class.name``."""
        module, _, path = place.partition(":")
        *owners, name = path.split(".")
        owner = import_module(module)
        for part in owners:
            owner = getattr(owner, part)
        self.enter_context(patch.object(owner, name, value))

    def answer(self, place: str, value: Any) -> None:
        """Let a function return the same whatever it is asked."""
        self.put(place, lambda *_, **__: value)

    def search_with(self, params: Any) -> None:
        """Let the reference search with other parameters."""
        solve = import_module(f"{SEARCH}.exact").Exact.solve
        # A search of a group of launches hands its parameters on, which are the changed ones by then.
        self.put(f"{SEARCH}.exact:Exact.solve", lambda *args, **named: solve(*args, **(named | {"params": params})))

    def parameters(self, changes: Mapping[str, Any]) -> None:
        """The same with some changes of the usual ones, such as ``local.moves.idle_price``."""
        params = import_module(f"{SEARCH}.exact").ExactParams()
        for path, value in changes.items():
            params = varied(params, path.split("."), value)
        self.search_with(params)

    def plan_with(self, params: Any) -> None:
        """Let hourglass plan with other parameters."""
        plan = import_module(HOURGLASS).Hourglass.__call__
        self.put(f"{HOURGLASS}:Hourglass.__call__", lambda hourglass, instance: plan(hourglass, instance, params))

    def hourglass(self, **changes: Any) -> None:
        """The same with some changes of the usual ones."""
        self.plan_with(replace(import_module(HOURGLASS).HourglassParams(), **changes))


@dataclass(frozen=True)
class Mechanism:
    """A part of the search that can be taken out.

    Attributes
    ----------
    take_out : callable
        Makes the patches.
    families : tuple of str
        Classes of the held-out set in which it has a say.
    sizes : str
        Whether it has one where chunks are of ``equal`` sizes, of ``free`` ones, or of ``any``.
    policy : str
        Whose results are compared.
    """

    take_out: Callable[[Patches], None]
    families: Sequence[str] = tuple(FAMILIES)
    sizes: str = "any"
    policy: str = "exact"

    def concerns(self, member: HeldOut) -> bool:
        """Whether it has a say in an instance."""
        return member.family in self.families and self.sizes in (member.sizes, "any")


ONE_COLLECTIVE = ("network", "paper", "costs", "free", "many_dimensions")
ITERATIONS = ("iterations",)
COSTLY = ("network", "costs")


def knob(name: str, value: Any, families: Sequence[str] = ONE_COLLECTIVE, sizes: str = "any") -> Mechanism:
    """What a number of the annealing neutralises, for collectives and for iterations."""
    changes = {f"{part}.{name}": value for part in ("local", "period.local")}
    return Mechanism(lambda patches: patches.parameters(changes), families, sizes)


def parameter(name: str, value: Any, families: Sequence[str], sizes: str = "any") -> Mechanism:
    """What another number of the reference neutralises."""
    return Mechanism(lambda patches: patches.parameters({name: value}), families, sizes)


def constant(place: str, value: Any, families: Sequence[str], sizes: str = "any") -> Mechanism:
    """What a constant of the search neutralises."""
    return Mechanism(lambda patches: patches.put(f"{SEARCH}.{place}", value), families, sizes)


def answer(place: str, value: Any, families: Sequence[str], sizes: str = "any") -> Mechanism:
    """What a function of the search that always returns the same neutralises."""
    return Mechanism(lambda patches: patches.answer(f"{SEARCH}.{place}", value), families, sizes)


def of_hourglass(families: Sequence[str] = ONE_COLLECTIVE, sizes: str = "any", **changes: Any) -> Mechanism:
    """What numbers of hourglass neutralise, seen in the policy alone."""
    return Mechanism(lambda patches: patches.hourglass(**changes), families, sizes, "hourglass")


def never_begin_anew(patches: Patches) -> None:
    """Let every wave of annealing go on from the best schedule."""
    search = import_module(f"{SEARCH}.local_search").LocalSearch
    next_start = search._next_start
    patches.put(f"{SEARCH}.local_search:LocalSearch._next_start", lambda self: (self.best, next_start(self)[1]))


def never_alternate(patches: Patches) -> None:
    """Let the first starts of free sizes anneal orders and sizes together too."""
    module = import_module(f"{SEARCH}.local_search")
    patches.put(f"{SEARCH}.local_search:_improve_sizes", module._anneal_sizes)


def never_mirror(patches: Patches) -> None:
    """Let hourglass see no collective whose gather order may be its scatter order reversed."""
    aims_of = import_module(HOURGLASS).aims_of

    def without_mirrors(tables: Any, *others: Any) -> Any:
        return aims_of(tables._replace(mirrors=tables.mirrored), *others)

    patches.put(f"{HOURGLASS}:aims_of", without_mirrors)


MECHANISMS: dict[str, Mechanism] = {
    "dispatch trees": answer("count_proof:job_states", None, COSTLY, "free"),
    "end counts": answer("end_proof:EndProof.suits", False, ONE_COLLECTIVE, "equal"),
    "leg insertion": knob("moves.insertion_share", 0.0),
    "price of ends": knob("moves.idle_price", 0.0),
    "exchange of legs": knob("moves.exchange_share", 0.0),
    "mirrored halves": answer("local_search:pair_counts", range(0), ONE_COLLECTIVE, "free"),
    "starts that keep sizes": answer("local_search:LocalSearch._melts", True, ONE_COLLECTIVE, "free"),
    "starts that change sizes": answer("local_search:LocalSearch._melts", False, ONE_COLLECTIVE, "free"),
    "orders and sizes by turns": Mechanism(never_alternate, ONE_COLLECTIVE, "free"),
    "populations": constant("local_search:LARGEST_POPULATION", 1, ONE_COLLECTIVE, "free"),
    "heats": knob("heats", (1.0,), (*ONE_COLLECTIVE, "iterations"), "equal"),
    "waves anew": Mechanism(never_begin_anew, ONE_COLLECTIVE, "equal"),
    "nesting": answer("exact:shares_by_count", {}, COSTLY, "free"),
    "interval loads": constant("count_proof:MAX_MACHINES", 0, COSTLY, "free"),
    "sized order": parameter("proof.step", 0.0, COSTLY, "free"),
    "proof by number of chunks": answer("count_proof:CountProof.suits", False, COSTLY, "free"),
    "coarse chunks": parameter("coarse_stages", 10**9, ONE_COLLECTIVE, "equal"),
    "CP-SAT for orders": answer("exact:ExactSearch.search_exactly", None, ONE_COLLECTIVE),
    "CP-SAT for sequences": constant("exact:MAX_SEQUENCED_STAGES", 0, ONE_COLLECTIVE, "free"),
    "hourglass as a start": answer("starts:_hourglass_schedules", [], ONE_COLLECTIVE),
    "insertion into gaps": knob("moves.gap_share", 0.0),
    "insertion of ends": knob("moves.end_share", 0.0),
    "copies of paths": knob("moves.copy_share", 0.0),
    "swaps of moments": knob("moves.moment_share", 0.0),
    "swaps of places": knob("moves.swap_share", 0.0),
    "several changes in a step": knob("moves.again", 0.0),
    "merging of chunks": knob("moves.merge_share", 0.0, ONE_COLLECTIVE, "free"),
    "moves of launches": knob("moves.launch_share", 0.0, ITERATIONS),
    "even buckets": parameter("period.candidates.bucket_counts", (1,), ITERATIONS),
    "groups of DeAR": parameter("period.candidates.dear_counts", (), ITERATIONS),
    "changes of buckets": answer("period_reference:PeriodReference.change_buckets", None, ITERATIONS),
    "groups on their own": answer("period_reference:PeriodReference.improve_groups", None, ITERATIONS),
    "annealing of periods": answer("period_reference:PeriodReference.search_locally", None, ITERATIONS),
    "CP-SAT for periods": answer("period_reference:PeriodRounds.run", None, ITERATIONS),
    "hourglass: mirrored paths": Mechanism(never_mirror, ONE_COLLECTIVE, policy="hourglass"),
    "hourglass: changes of paths": of_hourglass(trials_per_stage=0),
    "hourglass: several weights": of_hourglass(weights=(0.3,)),
    "hourglass: paths for sizes": of_hourglass(COSTLY, "free", rebalanced=0),
    "hourglass: several counts resized": of_hourglass(COSTLY, "free", resized=1),
}
"""By name what can be taken out; what is deleted from the search is deleted here."""


def without_step(number: int, patches: Patches) -> None:
    """Leave a step out of the table."""
    steps = import_module(f"{SEARCH}.exact").STEPS
    patches.put(f"{SEARCH}.exact:STEPS", steps[:number] + steps[number + 1 :])


def mechanisms() -> dict[str, Mechanism]:
    """Those above, and each step of the tables of the search, where there are tables."""
    steps = getattr(import_module(f"{SEARCH}.exact"), "STEPS", ())
    return MECHANISMS | {
        f"step {step.name}": Mechanism(partial(without_step, number)) for number, step in enumerate(steps)
    }


def number_variations() -> dict[str, Mechanism]:
    """The usual parameters of the reference and of hourglass, of which one number is halved or doubled."""
    search = variations(import_module(f"{SEARCH}.exact").ExactParams())
    hourglass = variations(import_module(HOURGLASS).HourglassParams())
    return {
        name: Mechanism(
            partial(Patches.search_with, params=params), ITERATIONS if name.startswith("period.") else ONE_COLLECTIVE
        )
        for name, params in search
    } | {
        f"hourglass.{name}": Mechanism(partial(Patches.plan_with, params=params), ONE_COLLECTIVE, policy="hourglass")
        for name, params in hourglass
    }


@contextmanager
def taken_out(name: str) -> Iterator[None]:
    """Take a mechanism out of this process for the length of a block."""
    with Patches() as patches:
        (mechanisms() | number_variations())[name].take_out(patches)
        yield


HEAD = """\
| taken out | class | solves | others | gap with, % | difference | worst | own gap with, % | difference | verdict |
|---|---|---|---|---|---|---|---|---|---|
"""


def table(rows: Sequence[SolveRow], chosen: Mapping[str, Mechanism]) -> str:
    """A line per mechanism and class, and one for its classes together."""
    text = HEAD
    for name, mechanism in chosen.items():
        pairs = pairs_of(rows, side_of(mechanism, EVERYTHING), side_of(mechanism, name))
        for family in (*dict.fromkeys(pair.old.family for pair in pairs), "all"):
            members = [pair for pair in pairs if family in (pair.old.family, "all")]
            text += table_line(name, family, members) if members else ""
    return text


def table_line(name: str, family: str, pairs: Sequence[Pair]) -> str:
    """What taking out a mechanism changes in a class: gaps to the best bound of both, and each to its own."""
    changes = changes_of(pairs, lambda pair: pair.gap("new") - pair.gap("old"))
    own_changes = changes_of(pairs, lambda pair: pair.new.gap - pair.old.gap)
    worst = max(own_changes, key=own_changes.__getitem__)
    (change, error), (own_change, own_error) = map(mean_and_error, (changes.values(), own_changes.values()))
    others = sum((pair.old.makespan, pair.old.bound) != (pair.new.makespan, pair.new.bound) for pair in pairs)
    cells = [name, family, str(len(pairs)), str(others), f"{fmean(pair.gap('old') for pair in pairs):.3f}"]
    cells += [f"{change:+.3f} ± {error:.3f}", f"{own_changes[worst]:+.3f} {worst}"]
    cells += [f"{fmean(pair.old.gap for pair in pairs):.3f}", f"{own_change:+.3f} ± {own_error:.3f}"]
    return f"| {' | '.join([*cells, verdict(own_change, own_error, others, len(own_changes))])} |\n"


def verdict(change: float, error: float, others: int, num_instances: int) -> str:
    """What a difference says of the mechanism that was taken out."""
    if not others:
        return "nothing"
    if num_instances < FEWEST_INSTANCES:
        return "too few"
    if abs(change) <= 2 * error:
        return "chance"
    return "**costs**" if change > 0 else "gains"


def side_of(mechanism: Mechanism, name: str) -> str:
    """How rows name a policy without a mechanism."""
    return name or mechanism.policy


def wanted_solves(
    members: Sequence[HeldOut], chosen: Mapping[str, Mechanism], commit: str, limits: Limits, seeds: Sequence[int]
) -> Iterator[tuple[Solve, HeldOut, str, str]]:
    """Each solve, with the policy and what is taken out; first those that one seed needs, for every mechanism."""
    for seed in seeds:
        for name, mechanism in chosen.items():
            for member in members:
                if not mechanism.concerns(member):
                    continue
                for without in (EVERYTHING, name):
                    spent = (seed, limits["time_limit"], limits["workers"], limits["deterministic"])
                    side = side_of(mechanism, without)
                    solve = Solve(side, commit, member.family, member.name, *spent)
                    yield solve, member, mechanism.policy, without


def main(known: Mapping[str, Mechanism]) -> None:
    """Solve what is missing in the file, and write the table beside it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", help="these mechanisms", choices=known)
    parser.add_argument("--class", dest="families", action="append", choices=FAMILIES, help="only these classes")
    parser.add_argument("--most", type=int, help="at most so many instances of a class")
    parser.add_argument("--seconds", type=float, default=10.0, help="time limit of a solve")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--workers", type=int, default=1, help="threads of a solve")
    parser.add_argument("--deterministic", action="store_true", help="limits count work in the place of time")
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    chosen = {name: known[name] for name in arguments.only or known}
    limits = Limits(
        time_limit=arguments.seconds, workers=arguments.workers, seed=0, deterministic=arguments.deterministic
    )
    solver = SolverProcess(Path(__file__).resolve().parents[2], is_timed=not arguments.deterministic)
    members = held_out(arguments.families or (), most=arguments.most)
    commit, solved = solver.commit, {}
    for row in read_rows(arguments.output):
        solved[Solve(*astuple(row)[: len(fields(Solve))])] = row
    for solve, member, policy, without in wanted_solves(members, chosen, commit, limits, arguments.seeds):
        if solve in solved or (policy != "exact" and solve.seed != arguments.seeds[0]):
            continue
        document = instance_text(member.instance)
        outcome = solver.solve(document, member.sizes, limits | {"seed": solve.seed}, policy, without)
        if "error" in outcome:
            print(f"{solve.side} {solve.instance}: {outcome['error']}", flush=True)
            continue
        makespan, bound = outcome["makespan"], outcome["bound"]
        row = SolveRow(*astuple(solve), makespan, bound, 100 * (makespan / bound - 1), round(outcome["seconds"], 2))
        append_row(arguments.output, row)
        solved[solve] = row
        arguments.output.with_suffix(".md").write_text(table(list(solved.values()), chosen), encoding="utf-8")
    solver.close()
    print(table(list(solved.values()), chosen))


if __name__ == "__main__":
    main(mechanisms())

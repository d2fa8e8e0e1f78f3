"""What each step and each mechanism of the search is worth: it is taken out, and the held-out set is solved without it.

``python benchmarks/ablation.py -o rows.csv --deterministic`` appends a row per solve, goes on where it stopped,
and writes ``rows.md`` beside it: differences of gaps in points, with their standard errors over the instances.
A mechanism costs something if the difference is more than two of them; what does not is a candidate for deletion.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import astuple, dataclass, fields, replace
from functools import partial
from itertools import zip_longest
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
    limits_of,
    mean_and_error,
    option_parser,
    pairs_of,
    read_rows,
    solved_row,
)
from held_out import FAMILIES, HeldOut, held_out
from solver_process import Limits, SolverProcess

from themis_opt.policies.hourglass.candidates import aims_of
from themis_opt.policies.hourglass.policy import USUAL_HOURGLASS, Hourglass
from themis_opt.schedules.incumbent import Step
from themis_opt.search.annealing import Annealing
from themis_opt.search.annealing_state import USUAL_MOVES
from themis_opt.search.exact import Exact
from themis_opt.search.incumbent import Incumbent
from themis_opt.search.refuter import usual_oracles
from themis_opt.search.table import PERIOD_STEPS, STEPS

SEARCH, HOURGLASS = "themis_opt.search", "themis_opt.policies.hourglass.policy"

FEWEST_INSTANCES = 5  # fewer say nothing of their standard error
EVERYTHING = ""  # the side from which nothing is taken out
ITERATIONS = ("iterations",)
ONE_COLLECTIVE = tuple(family for family in FAMILIES if family not in ITERATIONS)


@dataclass(frozen=True)
class Mechanism:
    """A part of the search that can be taken out.

    Attributes
    ----------
    out : context manager
        Takes it out of this process for the length of a block.
    families : tuple of str
        Classes of the held-out set in which it has a say.
    sizes : str
        Whether it has one where chunks are of ``equal`` sizes, of ``free`` ones, or of ``any``.
    step : Step or None
        Where only one step has this part, that step: instances to which it does not apply are left out.
    policy : str
        Whose results are compared.
    """

    out: AbstractContextManager[Any]
    families: Sequence[str] = ONE_COLLECTIVE
    sizes: str = "any"
    step: Step | None = None
    policy: str = "exact"

    def concerns(self, member: HeldOut) -> bool:
        """Whether it has a say in an instance."""
        is_of_class = member.family in self.families and self.sizes in (member.sizes, "any")
        return is_of_class and (self.step is None or Probe(self.step).applies_to(member))


@dataclass
class Probe:
    """Asks a step whether it applies to the start of a search, and does nothing."""

    step: Step
    answer: bool = False
    engine: str = ""

    def applies_to(self, member: HeldOut) -> bool:
        """Whether the step applies to an instance."""
        Exact(sizes=member.sizes, deterministic=True).solve(member.instance, steps=[self])
        return self.answer

    def applies(self, incumbent: Incumbent) -> bool:
        """Never, once the answer is known."""
        self.answer = self.step.applies(incumbent)
        return False

    def run(self, incumbent: Incumbent) -> None:
        """Nothing."""


def replaced(place: str, value: Any) -> AbstractContextManager[Any]:
    """Another value in a place of the search such as ``module.NAME``."""
    return patch(f"{SEARCH}.{place}", value)


def shares(**changes: float) -> AbstractContextManager[Any]:
    """Annealings with other shares of their moves."""
    return replaced("anneal.Annealing", partial(Annealing, moves=USUAL_MOVES._replace(**changes)))


def oracles_without(name: str) -> AbstractContextManager[Any]:
    """Proofs by the number of chunks without one of their oracles."""

    def others(*question: Any) -> list[Any]:
        return [oracle for oracle in usual_oracles(*question) if type(oracle).__name__ != name]

    return replaced("refuter.usual_oracles", others)


def of_hourglass(out: AbstractContextManager[Any], sizes: str = "any") -> Mechanism:
    """A mechanism of hourglass, seen in the policy alone."""
    return Mechanism(out, sizes=sizes, policy="hourglass")


def numbers_of_hourglass(**changes: Any) -> AbstractContextManager[Any]:
    """Hourglass with other numbers."""
    return patch.object(Hourglass.__call__, "__defaults__", (replace(USUAL_HOURGLASS, **changes),))


def aims_without_mirrors(tables: Any, *others: Any) -> Any:
    """What hourglass aims at where no collective may have mirrored paths that need not."""
    return aims_of(tables._replace(mirrors=tables.mirrored), *others)


def lines_of(table: Sequence[Step], name: str, label: str, families: Sequence[str]) -> dict[str, Mechanism]:
    """Each line of a table of steps, by its number and the type of its step."""
    return {
        f"{label} {number + 1} {type(step).__name__}": Mechanism(
            replaced(f"table.{name}", (*table[:number], *table[number + 1 :])), families, step=step
        )
        for number, step in enumerate(table)
    }


def engine(name: str) -> AbstractContextManager[Any]:
    """The search of collectives without the steps of an engine."""
    return replaced("table.STEPS", [step for step in STEPS if step.engine != name])


REFUTES_COUNTS = next(step for step in STEPS if type(step).__name__ == "RefuteCounts")

MECHANISMS: dict[str, Mechanism] = {
    "all annealing": Mechanism(engine("annealing")),
    "all of CP-SAT": Mechanism(engine("cp_sat")),
    **lines_of(STEPS, "STEPS", "step", ONE_COLLECTIVE),
    **lines_of(PERIOD_STEPS, "PERIOD_STEPS", "period step", ITERATIONS),
    "moves of sizes": Mechanism(shares(resize=0.0), sizes="free"),
    "moves of launches": Mechanism(shares(launch=0.0), ITERATIONS),
    "interval loads": Mechanism(oracles_without("LoadsOracle"), step=REFUTES_COUNTS),
    "dispatch trees": Mechanism(oracles_without("TreeOracle"), step=REFUTES_COUNTS),
    "hourglass as a start": Mechanism(replaced("start._hourglass_schedules", lambda *_: [])),
    "hourglass: mirrored paths": of_hourglass(patch(f"{HOURGLASS}.aims_of", aims_without_mirrors)),
    "hourglass: changes of paths": of_hourglass(numbers_of_hourglass(trials_per_stage=0)),
    "hourglass: second weight": of_hourglass(numbers_of_hourglass(weights=USUAL_HOURGLASS.weights[:1])),
    "hourglass: paths for sizes": of_hourglass(numbers_of_hourglass(rebalanced=0), "free"),
    "hourglass: several counts resized": of_hourglass(numbers_of_hourglass(resized=1), "free"),
}
"""By name what can be taken out; what is deleted from the search is deleted here."""


def taken_out(name: str) -> AbstractContextManager[Any]:
    """Take a mechanism out of this process for the length of a block."""
    return MECHANISMS[name].out


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
    """Each solve, with the policy and what is taken out; first those that one seed needs."""
    for seed in seeds:
        for member in members:
            for name, mechanism in chosen.items():
                if not mechanism.concerns(member):
                    continue
                for without in (EVERYTHING, name):
                    spent = (seed, limits["time_limit"], limits["workers"], limits["deterministic"])
                    side = side_of(mechanism, without)
                    solve = Solve(side, commit, member.family, member.name, *spent)
                    yield solve, member, mechanism.policy, without


def class_by_class(members: Sequence[HeldOut]) -> list[HeldOut]:
    """The first instance of each class, then the second ones: a run that is cut short has some of all."""
    families = [[member for member in members if member.family == family] for family in FAMILIES]
    return [member for rank in zip_longest(*families) for member in rank if member is not None]


def main() -> None:
    """Solve what is missing in the file, and write the table beside it."""
    parser = option_parser(__doc__, seeds=[0, 1, 2], workers=1)
    parser.add_argument("--only", action="append", help="these mechanisms", choices=MECHANISMS)
    parser.add_argument("--most", type=int, help="at most so many instances of a class")
    arguments = parser.parse_args()
    chosen = {name: MECHANISMS[name] for name in arguments.only or MECHANISMS}
    solver = SolverProcess(Path(__file__).resolve().parents[1], is_timed=not arguments.deterministic)
    members = class_by_class(held_out(arguments.families or (), most=arguments.most))
    commit, solved = solver.commit, {}
    wanted = wanted_solves(members, chosen, commit, limits_of(arguments, 0), arguments.seeds)
    for row in read_rows(arguments.output):
        solved[Solve(*astuple(row)[: len(fields(Solve))])] = row
    for solve, member, policy, without in wanted:
        if solve in solved or (policy != "exact" and solve.seed != arguments.seeds[0]):
            continue
        row = solved_row(solver, solve, member, limits_of(arguments, solve.seed), policy, without)
        if row is None:
            continue
        append_row(arguments.output, row)
        solved[solve] = row
        arguments.output.with_suffix(".md").write_text(table(list(solved.values()), chosen), encoding="utf-8")
    solver.close()
    print(table(list(solved.values()), chosen))


if __name__ == "__main__":
    main()

"""What a solver may spend, and its parameters: the one place that sets them."""

import logging
from dataclasses import dataclass, fields
from math import ceil
from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge, Gt, Le, Lt

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

LOG = logging.getLogger("formulations")  # hears what CP-SAT logs of its searches, where somebody listens at level INFO
PROVEN_GAP = 1e-4  # a schedule within this fraction of its bound counts as proven optimal
DEFAULT_MEMORY = 4.0  # GiB that the process may hold
MIN_SECONDS = 0.01  # least wall time that CP-SAT is given, since none may be left
CONFLICTS_PER_SECOND = 30_000
"""Conflicts of CP-SAT that count as a second of work: more than usual, but some bounds creep up and count as none."""

MAX_SECONDS, MAX_GAP, MAX_MEMORY = 1e9, 1e9, 1e6  # no user means more, and NaN and infinity are none of them
SECONDS_PER_PROPAGATION = 5.0
"""What a core takes for a unit of CP-SAT's deterministic time where it propagates alone, which is counted too low."""

PROPAGATING = ("no_lp", "quick_restart_no_lp", "default_lp", "max_lp", "fixed", "pseudo_costs")
"""CP-SAT's searches then, as many of the first as there are threads for: the first two have no linear relaxation."""


@dataclass(frozen=True)
class Limits:
    """What a search may spend, and when it is good enough: the one type for it, from a policy's knobs to a solver.

    `seconds`: wall time of the search.
    `workers`: threads.
    `seed`: seed of all random choices.
    `gap`: relative gap at which the search stops.
    `deterministic`: count work in the place of wall time, so that equal inputs give equal results whatever the load of
      the machine; `seconds` then states the work that a core of 2020 does in that time, roughly.
    `memory`: GiB that the process may hold; near it CP-SAT is stopped, and its best solution kept.
    """

    seconds: Annotated[float, Gt(0), Le(MAX_SECONDS)] = 60.0
    workers: Annotated[int, Gt(0), Le(1024)] = 2
    seed: Annotated[int, Ge(0), Lt(2**31)] = 0
    gap: Annotated[float, Ge(0), Le(MAX_GAP)] = PROVEN_GAP
    deterministic: bool = False
    memory: Annotated[float, Gt(0), Le(MAX_MEMORY)] = DEFAULT_MEMORY

    def within(self, seconds: float) -> "Limits":
        """The same limits for `seconds` of them."""
        least = 0.0 if self.deterministic else MIN_SECONDS
        same = {field.name: getattr(self, field.name) for field in fields(Limits)}
        return Limits(**same | {"seconds": max(seconds, least)})

    def solver(self, *, propagates: bool = False) -> "cp_model.CpSolver":
        """A CP-SAT solver with these limits, of which half of the asked gap is left for what rounding to ticks hides.

        `propagates`: whether it does without linear relaxations, as suits intervals that must not overlap.
        """
        from ortools.sat.python import cp_model  # slow to import, and many limits are for no solver

        solver = cp_model.CpSolver()
        parameters = solver.parameters
        if self.deterministic:
            parameters.max_deterministic_time = self.seconds / (SECONDS_PER_PROPAGATION if propagates else 1)
            parameters.max_number_of_conflicts = ceil(CONFLICTS_PER_SECOND * self.seconds)
        else:
            parameters.max_time_in_seconds = self.seconds
        parameters.max_memory_in_mb = int(self.memory * 1024)
        parameters.num_workers = 1 if self.deterministic else self.workers  # several race, and the clock decides
        parameters.random_seed = self.seed
        parameters.relative_gap_limit = self.gap / 2
        parameters.catch_sigint_signal = False
        if propagates:
            parameters.linearization_level = 0
            parameters.subsolvers.extend(PROPAGATING)  # several threads ignore the level
            parameters.use_strong_propagation_in_disjunctive = True
        if LOG.isEnabledFor(logging.INFO):
            parameters.log_search_progress, parameters.log_to_stdout = True, False
            solver.log_callback = LOG.info
        return solver

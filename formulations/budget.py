"""What a solver may spend, and its parameters: the one place that sets them."""

from dataclasses import dataclass

from ortools.sat.python import cp_model

PROVEN_GAP = 1e-4
"""A schedule within this fraction of its bound counts as proven optimal."""

DEFAULT_MEMORY = 4.0
"""GiB that the process may hold."""


@dataclass(frozen=True)
class Budget:
    """Limits of a search.

    Attributes
    ----------
    seconds : float or None
        Wall time; None if only `deterministic_time` counts.
    workers : int
        Solver threads.
    seed : int
        Seed of the solver's randomness.
    deterministic_time : float or None
        Work limit in the solver's own units, which do not depend on the load of the machine; one takes about a second.
    gap : float
        Relative gap at which to stop.
    memory : float
        GiB that the process may hold; the search is stopped near it.
    """

    seconds: float | None = 60.0
    workers: int = 2
    seed: int = 0
    deterministic_time: float | None = None
    gap: float = PROVEN_GAP
    memory: float = DEFAULT_MEMORY

    def solver(self, linearization: int = 1) -> cp_model.CpSolver:
        """A CP-SAT solver with these limits.

        Half of the asked gap is left for what rounding to ticks hides.  `linearization` says how much of the model
        the solver's linear relaxation holds: 1 the usual, 2 all of it, which pays for small models.
        """
        solver = cp_model.CpSolver()
        parameters = solver.parameters
        if self.seconds is not None:
            parameters.max_time_in_seconds = self.seconds
        if self.deterministic_time is not None:
            parameters.max_deterministic_time = self.deterministic_time
        parameters.max_memory_in_mb = int(self.memory * 1024)
        parameters.num_workers = self.workers
        parameters.random_seed = self.seed
        parameters.relative_gap_limit = self.gap / 2
        parameters.catch_sigint_signal = False
        parameters.linearization_level = linearization
        return solver

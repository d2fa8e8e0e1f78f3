"""The schedule of a comparison that holds best on a disturbed network, in the place of the fastest undisturbed one.

Candidates are all schedules of the comparison, each with its order enforced and dispatched as stages become ready; what
they lose is the makespan over the bound of each sample of :mod:`themis_opt.study.robustness`.  The candidate with the
least 95th percentile is chosen.
"""

from dataclasses import dataclass, replace

import numpy as np

from themis_opt.base.allowance import Allowance
from themis_opt.base.units import nanoseconds
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import has_launches
from themis_opt.study.columns import Value
from themis_opt.study.comparison import Comparison
from themis_opt.study.robustness import Execution, LossDistribution, executions, loss_distributions

QUANTILE = 0.95

SAMPLES, FEWEST_SAMPLES = 200, 20  # disturbed networks, where plans are small and where they are large
# Stages of all candidates and samples, which take about a second per million; above, there are fewer samples
MOST_SIMULATED = 20_000_000
# Of a time limit, what is kept for disturbed networks: 200 of them for ten small plans take one to three seconds
SAMPLING_SHARE = 0.2
# Near-optimal plans besides those of a comparison, for collectives; an iteration has a policy for every launching
POOL = tuple(f"search:evaluations=20000:seed={seed}" for seed in (1, 2, 3))


@dataclass(frozen=True)
class RobustChoice:
    """What became of the candidates.

    `comparison`: with the chosen result preferred.
    `nominal`, `chosen`: of the fastest schedule undisturbed, as it loses least, and of the one that is chosen.
    `distributions`: of all candidates, the best first.
    """

    comparison: Comparison
    nominal: LossDistribution
    chosen: LossDistribution
    distributions: tuple[LossDistribution, ...]

    def rows(self) -> list[dict[str, Value]]:
        """Candidates as plain values, the best first: times in ns, losses as fractions."""
        return [
            {
                "policy": distribution.policy,
                "nominal_makespan_ns": nanoseconds(distribution.nominal_makespan),
                "p95_makespan_ns": nanoseconds(float(np.quantile(distribution.makespans, QUANTILE))),
                "nominal_loss": distribution.nominal_loss,
                "p95_loss": distribution.quantile(QUANTILE),
            }
            for distribution in self.distributions
        ]


def pool(instance: Instance) -> tuple[str, ...]:
    """Specifications of near-optimal plans to compare with, besides the usual policies."""
    return () if has_launches(instance) else POOL


def choose_robust(
    compared: Comparison, *, samples: int | None = None, seed: int = 0, allowance: Allowance | None = None
) -> RobustChoice | None:
    """The result that loses least on disturbed networks. Raises InputError if the slowest sample may outlast the clock.

    `samples`, `seed`: disturbed networks, by default as many as take seconds, and what they depend on.
    `allowance`: when to stop, with the disturbed networks so far.
    Returns None if the allowance ends before the first disturbed network does.
    """
    ways: dict[str, Execution] = {}
    owner: dict[str, str] = {}
    for result in compared.results:
        executed = executions(result.policy, result.schedule)
        ways |= executed
        owner |= dict.fromkeys(executed, result.policy)
    count = num_samples(ways) if samples is None else samples
    distributions = loss_distributions(compared.instance, ways, samples=count, seed=seed, allowance=allowance)
    if not distributions:
        return None
    ranked = sorted(distributions, key=lambda distribution: distribution.quantile(QUANTILE))
    fastest = compared.best.policy
    nominal = next(distribution for distribution in ranked if owner[distribution.policy] == fastest)
    preferred = replace(compared, preferred=owner[ranked[0].policy])
    return RobustChoice(preferred, nominal, ranked[0], tuple(ranked))


def num_samples(ways: dict[str, Execution]) -> int:
    """As many samples as candidates of their size are worth."""
    stages = sum(execution.plan.num_stages for execution in ways.values())
    return max(FEWEST_SAMPLES, min(SAMPLES, MOST_SIMULATED // stages))

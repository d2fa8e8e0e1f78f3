"""Every bound against the optimum of equal chunks, by enumeration."""

from brute_force import brute_force
from hypothesis import given, target
from strategies import tiny_instances

from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import equal_sizes
from themis_opt.search.exact import Exact
from themis_opt.solving.bounds import bounds
from themis_opt.solving.lowering import chunk_order_data

TOLERANCE = 1e-9
GAP = 1e-4  # within which a schedule counts as proven optimal
LONG = 600.0  # seconds that no test waits for, because the proof ends the search


def optimum(instance: Instance) -> int:
    """Least makespan in picoseconds."""
    sizes = tuple(equal_sizes(exchange) for exchange in instance.exchanges)
    return brute_force(list(chunk_order_data(instance, sizes, 1).jobs))


@given(tiny_instances())
def test_no_bound_exceeds_the_optimum(instance: Instance) -> None:
    best = optimum(instance)
    for name, bound in bounds(instance).items():
        target(bound / best, label=name)
        assert bound <= best * (1 + TOLERANCE), name


@given(tiny_instances())
def test_reference_reaches_the_optimum_and_its_bound_does_not_exceed_it(instance: Instance) -> None:
    reference, best = Exact(seconds=LONG, workers=1).solve(instance), optimum(instance)
    assert reference.bound <= best <= reference.schedule.makespan <= best * (1 + GAP)

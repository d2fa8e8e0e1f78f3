"""What every policy promises, with every dispatch rule."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planning import schedule_of
from strategies import instances

from themis_opt.base.errors import InputError
from themis_opt.policies.registry import POLICIES, make_policy, takes_dispatch
from themis_opt.policies.themis import Themis
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.dispatch import DISPATCH
from themis_opt.schedules.plan import equal_sizes, fixed_path
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.validation import validate
from themis_opt.search.exact import Exact

FAST = tuple(name for name in POLICIES if takes_dispatch(name))
COMBINATIONS = [f"{policy}+{dispatch}" for policy in FAST for dispatch in DISPATCH]
RULES = [*COMBINATIONS, "hierarchical", "nccl", "hourglass"]
QUICK_SEARCH = "search:evaluations=200"
QUICK_EXACT = "exact:seconds=0.2:workers=1"
Run = Callable[[Instance, str], Schedule]


@pytest.mark.parametrize("specification", [*RULES, QUICK_SEARCH, QUICK_EXACT])
def test_plans_hold_equal_chunks(mixed: Instance, specification: str) -> None:
    instance = mixed.overridden(chunks=3)
    for collective, chunks in zip(instance.exchanges, make_policy(specification)(instance).chunks, strict=True):
        assert chunks.sizes.tolist() == equal_sizes(collective).tolist()


@pytest.mark.parametrize("ag_order", ["free", "reverse"])
@pytest.mark.parametrize("specification", [*RULES, QUICK_SEARCH, QUICK_EXACT])
def test_plans_lead_to_valid_schedules(every_kind: Instance, specification: str, ag_order: str) -> None:
    instance = every_kind.overridden(chunks=3, ag_order=ag_order)
    validate(schedule_of(instance, specification))


@given(instances(), st.sampled_from([*COMBINATIONS, "hierarchical", "nccl"]))
def test_plans_of_random_instances_lead_to_valid_schedules(instance: Instance, specification: str) -> None:
    validate(schedule_of(instance, specification))


@pytest.mark.parametrize("specification", COMBINATIONS)
def test_equal_instances_get_equal_plans(mixed: Instance, specification: str) -> None:
    assert make_policy(specification)(mixed) == make_policy(specification)(mixed.replace(name="other"))


def test_a_specification_sets_knobs_and_dispatch() -> None:
    policy = make_policy("themis:threshold_divisor=8:load_latency=true:initial_loads=latency+scf")
    assert policy == Themis("scf", threshold_divisor=8, load_latency=True, initial_loads="latency")


@pytest.mark.parametrize(
    ("specification", "rule"),
    [
        ("", "unknown policy; use one of baseline, cyclic, hierarchical, nccl, themis, hourglass, law, search"),
        ("greedy", "unknown policy"),
        ("seed=3", "exact; knobs follow their policy after colons"),
        ("Themis", "unknown policy"),
        ("+scf", "unknown policy"),
        ("themis+best", "unknown dispatch rule; use one of fifo"),
        ("themis+scf+fifo", "unknown dispatch rule"),
        ("exact+fifo", "takes no dispatch rule"),
        ("themis:", "unknown knob ''"),
        ("themis:colour=red", "unknown knob 'colour'; use one of threshold_divisor"),
        ("themis:dispatch=scf", "unknown knob 'dispatch'"),
        ("baseline:seed=1", "unknown knob 'seed'; use one of none"),
        ("themis:threshold_divisor", "knob threshold_divisor: "),
        ("themis:threshold_divisor=many", "knob threshold_divisor: "),
        ("themis:load_latency=perhaps", "knob load_latency: "),
        ("themis:initial_loads=half", "knob initial_loads: "),
        ("random:seed=1.5", "knob seed: "),
        ("exact:seconds=soon", "knob seconds: "),
    ],
)
def test_a_bad_specification_is_refused(specification: str, rule: str) -> None:
    with pytest.raises(InputError, match=r"^policy = ") as caught:
        make_policy(specification)
    assert rule in str(caught.value)


@pytest.mark.parametrize(
    "specification",
    [
        "random:seed=-1",
        "themis:threshold_divisor=0",
        "themis:threshold_divisor=-4",
        "exact:workers=-1",
        "exact:seconds=-1",
        "exact:seconds=nan",
        "exact:gap=-1",
        "exact:gap=nan",
        "exact:seed=99999999999",
    ],
)
def test_a_knob_out_of_range_is_refused(specification: str) -> None:
    with pytest.raises(InputError):
        make_policy(specification)


def test_defaults_fill_in_knobs_that_the_specification_does_not_set() -> None:
    assert make_policy("exact:workers=2", workers=4, seconds=3.0) == Exact(workers=2, seconds=3.0)


@pytest.mark.parametrize("kind", CollectiveKind)
def test_the_baseline_keeps_the_fixed_order(hetero: Instance, kind: CollectiveKind) -> None:
    collective = hetero.collectives[0].replace(kind=kind)
    instance = hetero.replace(collectives=(collective,))
    (chunks,) = make_policy("baseline")(instance).chunks
    assert np.unique(chunks.paths, axis=0).tolist() == [list(fixed_path(instance.exchanges[0]))]


def paths(instance: Instance, specification: str) -> list[list[int]]:
    return make_policy(specification)(instance).chunks[0].paths.tolist()


def test_themis_balances_figure_5(figure_5: Instance) -> None:
    """Themis (ISCA 2022), section 4.3, figure 6: after chunk 0 in the fixed order, dim2 is the less loaded."""
    assert paths(figure_5, "themis") == [[0, 1, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 1, 0]]


def test_themis_gathers_in_the_reverse_of_its_scatter_order(hetero: Instance) -> None:
    themis_paths = np.array(paths(hetero, "themis"))
    assert np.array_equal(themis_paths, themis_paths[:, ::-1])


def test_themis_gathers_by_descending_load_where_it_only_gathers(hetero: Instance) -> None:
    """An all-gather mirrors the reduce-scatter of the same size."""
    scatter, gather = (
        hetero.replace(collectives=(Collective(kind=CollectiveKind(kind), size="100 MiB"),))
        for kind in ("reduce_scatter", "all_gather")
    )
    assert paths(gather, "themis") == [path[::-1] for path in paths(scatter, "themis")]


def test_themis_keeps_the_fixed_order_for_all_to_all(hetero: Instance) -> None:
    """Also where the inner dimensions are the slow ones, so that loads would ask for the reverse."""
    collectives = (Collective(kind=CollectiveKind.ALL_TO_ALL, size="100 MiB"),)
    network = hetero.network.replace(dimensions=hetero.network.dimensions[::-1])
    instance = hetero.replace(collectives=collectives, network=network)
    assert paths(instance, "themis") == paths(instance, "baseline")


def test_themis_shares_loads_among_collectives_released_together(hetero: Instance) -> None:
    one = hetero.collectives[0].replace(chunks=4)
    together = make_policy("themis")(hetero.replace(collectives=(one, one.replace(name="second")))).chunks[1].paths
    assert not np.array_equal(together, make_policy("themis")(hetero.replace(collectives=(one,))).chunks[0].paths)


def test_themis_forgets_loads_at_another_release(hetero: Instance) -> None:
    one = hetero.collectives[0].replace(chunks=4)
    later = make_policy("themis")(hetero.replace(collectives=(one, one.replace(name="second", release="1 ms")))).chunks
    assert np.array_equal(later[0].paths, later[1].paths)


def test_themis_keeps_the_fixed_order_while_loads_differ_by_less_than_the_threshold(hetero: Instance) -> None:
    assert paths(hetero, "themis:threshold_divisor=1") != paths(hetero, "themis:threshold_divisor=1000000")


@pytest.mark.parametrize(
    "knob", ["initial_loads=latency", "load_latency=true", "load_phases=all", "threshold_divisor=1"]
)
def test_each_reading_of_the_paper_can_change_the_plan(hetero: Instance, knob: str) -> None:
    small = hetero.overridden(size="2 MiB")
    assert paths(small, f"themis:{knob}") != paths(small, "themis")


def test_a_threshold_with_latency_keeps_small_chunks_in_the_fixed_order(hetero: Instance) -> None:
    """A chunk of 16 KiB takes less time to send than a step."""
    small = hetero.overridden(size="1 MiB")
    assert paths(small, "themis:threshold_latency=true") != paths(small, "themis")


def test_random_orders_meet_every_order(hetero: Instance) -> None:
    scatter = np.array(paths(hetero, "random"))[:, :3]
    assert len(np.unique(scatter, axis=0)) == 6


def test_exact_needs_no_search_where_the_start_meets_the_bound(figure_5: Instance) -> None:
    heard: list[tuple[float, float]] = []
    Exact(seconds=5).solve(figure_5, 7e9, lambda makespan, bound: heard.append((makespan, bound)))
    assert heard == [(7e9, 7e9)]

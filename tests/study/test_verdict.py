"""Verdicts say what the figures say."""

import pytest

import themis_opt
from themis_opt.base.units import format_short_time
from themis_opt.schedules.explanation import explain
from themis_opt.schedules.simulator import simulate
from themis_opt.solving.bounds import bounds
from themis_opt.study.comparison import compare
from themis_opt.study.robustness import executions, loss_distributions, on_robustness
from themis_opt.study.verdict import on_comparison, on_instance, on_schedule, on_sweep


def test_where_the_fixed_order_is_near_the_bound_nothing_is_to_win():
    """One fast dimension before a slow one: all bytes pass the slow one in any order."""
    document = {
        "network": {
            "dimensions": [
                {"kind": "switch", "size": 8, "bandwidth": "1 TB/s"},
                {"kind": "switch", "size": 4, "bandwidth": "1 GB/s", "name": "rail"},
            ]
        },
        "collectives": [{"kind": "all_reduce", "size": "64 MB", "chunks": 64}],
    }
    compared = compare(themis_opt.Instance.model_validate(document), ("baseline", "hourglass"))
    (sentence,) = on_comparison(compared)
    assert sentence.startswith("Nothing to win by order: the fixed order is within 0.")
    assert ", and rail is busy 99." in sentence


def test_the_fixed_order_is_not_compared_with_itself(figure_5):
    first, _ = on_comparison(compare(figure_5, ("baseline",)))
    assert first == "No policy tried is faster than the fixed order, which takes 8 ms."


def test_where_another_order_is_faster_it_is_named(figure_5):
    compared = compare(figure_5, ("baseline", "exact"), time_limit=20, sizes="equal", workers=1)
    faster, proven = on_comparison(compared)
    assert faster.startswith(f"exact takes 7 ms, {8 / 7:.3f} times as fast as the fixed order with 8 ms")
    assert proven == "That is proven optimal: no schedule with as many equal chunks is more than 0.01 % shorter."


def line(**costs: str) -> themis_opt.Instance:
    """An all-reduce on a line of eight NPUs."""
    document = {
        "network": {"dimensions": [{"kind": "line", "size": 8, "bandwidth": "1 GB/s", **costs}]},
        "collectives": [{"kind": "all_reduce", "size": "64 MB", "chunks": 4}],
    }
    return themis_opt.Instance.model_validate(document)


def test_trees_that_beat_everything_along_a_line_are_named():
    compared = compare(line(), ("baseline",))
    *_, sentence = on_comparison(compared)
    assert compared.best.status == "optimal order"
    assert "proven optimal" not in sentence
    assert sentence.startswith(
        "It is optimal within reduce-scatter and all-gather along dimensions; trees are 1.72 times"
    )


@pytest.mark.parametrize("costs", [{"launch_overhead": "1 us"}, {"packet": {"payload": "1 KiB", "header": "64 B"}}])
def test_trees_are_not_compared_where_graphs_lack_a_cost(costs):
    sentences = on_comparison(compare(line(**costs), ("baseline",)))
    assert not any("trees" in sentence or "proven optimal" in sentence for sentence in sentences)


def test_what_communication_costs_a_step_is_told():
    compared = compare(themis_opt.load("3d-fc_ring_sw.resnet-50"), ("fused/baseline", "fused/hourglass"))
    first, second = (format_short_time(result.schedule.period.exposed) for result in compared.results)
    sentence, _ = on_comparison(compared)
    assert f"{second} with fused/hourglass, {first} with fused/baseline, at least " in sentence
    share = compared.best.schedule.period.exposed / compared.best.makespan
    assert sentence.startswith(f"Communication costs {100 * share:.2f} % of a step of ")


def test_a_schedule_is_explained_by_its_busiest_dimension_and_bound(figure_5):
    schedule = simulate(figure_5, themis_opt.make_policy("baseline")(figure_5))
    equal = bounds(figure_5, equal_sizes=True)
    busiest, proven = on_schedule(schedule, explain(schedule), equal, equal_sizes=True)
    assert busiest in {"Dim2 is busy 100.00 % of the time.", "Dim1 is busy 100.00 % of the time."}
    assert proven == "No schedule with as many equal chunks is more than 12.50 % shorter, which is proven."


@pytest.mark.parametrize("samples", [20])
def test_the_way_to_run_that_loses_least_is_preferred(figure_5, samples):
    plans = executions("plan", simulate(figure_5, themis_opt.make_policy("baseline")(figure_5)))
    distributions = loss_distributions(figure_5, plans, samples=samples, seed=0)
    best = min(distributions, key=lambda distribution: distribution.quantile(0.95))
    sentence = on_robustness(distributions)
    name = best.policy.replace(", enforced", " (enforced)").replace(", dynamic", " (dynamic)")
    assert sentence.endswith(f": prefer {name}.")
    assert sentence.startswith(f"{name} loses {100 * best.quantile(0.95):.2f} % on a disturbed network")


def swept(name, values):
    """Rows of a sweep over a slow rail beside a fast node."""
    document = {
        "network": {
            "dimensions": [
                {"kind": "switch", "size": 4, "bandwidth": "8 GB/s", "name": "node"},
                {"kind": "switch", "size": 4, "bandwidth": "1 GB/s", "name": "rail", "latency": "1 us"},
            ]
        },
        "collectives": [{"kind": "all_reduce", "size": "64 MB", "chunks": 4}],
    }
    instance = themis_opt.Instance.model_validate(document)
    return on_sweep(instance, themis_opt.sweep(instance, {name: values}, ["baseline"]), name)


def test_more_of_a_bandwidth_gains_until_another_dimension_limits():
    (sentence,) = swept("rail.bandwidth", ["1 GB/s", "2 GB/s", "4 GB/s", "8 GB/s"])
    assert sentence.startswith("Doubling rail.bandwidth gains 1.")
    assert sentence.endswith("x, then node limits.")


@pytest.mark.parametrize(
    ("name", "values", "text"),
    [
        ("rail.latency", ["1 us", "2 us", "4 us"], "More rail.latency changes little: 1 us to 4 us costs 1."),
        ("node.bandwidth", ["8 GB/s", "80 GB/s"], "More node.bandwidth changes little: 8 GB/s to 80 GB/s gains "),
        ("size", ["1 KiB", "1 MiB", "64 MiB", "1 GiB"], "From 1 MiB on the bandwidth is "),
        ("size", ["1 KiB", "4 KiB", "16 KiB"], "The bandwidth still grows at 16 KiB, to "),
    ],
)
def test_what_hardly_matters_and_from_where_latency_does_not_count_is_told(name, values, text):
    (sentence,) = swept(name, values)
    assert sentence.startswith(text)


def test_one_value_has_no_verdict():
    assert swept("chunks", [4]) == ()


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("3d-fc_ring_sw.all_reduce.100MiB", "Order matters: the fixed order takes "),
        ("dgx_h100_superpod.all_reduce.1GiB", "Nothing to win by order: the fixed order takes "),
        ("3d-fc_ring_sw.resnet-50", "Communication costs "),
    ],
)
def test_instances_are_judged_by_the_usual_order_and_a_rule_for_run_time(name, start):
    (sentence,) = on_instance(themis_opt.load(name))
    assert sentence.startswith(start)

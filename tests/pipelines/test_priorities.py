"""Orders by priorities: legal, as fast as they say, and better with patience where messages are about to come."""

import pytest
from pipeline_samples import pipeline, random_pipeline

from themis_opt.pipelines.priorities import PriorityOrders, by_kind
from themis_opt.pipelines.priority_loop import PRIORITY_LOOP
from themis_opt.pipelines.schedule import simulate
from themis_opt.pipelines.validation import validate


@pytest.mark.parametrize("seed", range(40))
def test_every_rule_gives_legal_orders_that_take_what_it_says(seed):
    problem = random_pipeline(seed)
    by_priority = PriorityOrders(problem)
    for rule in list(by_priority.rules())[::17]:
        value = by_priority.value(rule)
        schedule = simulate(problem, by_priority.orders(rule))
        validate(schedule)
        assert schedule.value <= value <= 1.02 * schedule.value + 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_interpreted_and_compiled_orders_are_the_same(seed, monkeypatch):
    by_priority = PriorityOrders(random_pipeline(seed))
    rules = list(by_priority.rules())[::29]
    compiled = [by_priority.orders(rule) for rule in rules]
    monkeypatch.setattr(PRIORITY_LOOP, "patience", 1e9)
    assert [by_priority.orders(rule) for rule in rules] == compiled


def test_a_stage_that_waits_for_a_message_does_not_hold_up_a_microbatch():
    problem = pipeline(8, 16, 10, 11, 9, message=1, parts=2, memory=16)
    by_priority = PriorityOrders(problem)
    hasty = min(by_priority.value(rule) for rule in by_priority.rules() if rule.patience == 0)
    assert by_priority.value(by_priority.best_rule()) < 0.97 * hasty


def test_at_most_so_many_microbatches_are_on_a_stage():
    problem = pipeline(4, 8)
    (first, *_) = PriorityOrders(problem).orders(by_kind(problem)._replace(most=3))
    begun = [sum({"F": 1, "W": -1}.get(action.kind, 0) for action in first[:n]) for n in range(len(first))]
    assert max(begun) == 3


def test_a_limit_while_a_stage_fills_ends_with_the_first_microbatch():
    problem = pipeline(6, 12, 2, 2, 2, message=1, parts=4, placement="v", memory=24)
    by_priority = PriorityOrders(problem)
    least = {fills: min(by_priority.value(r) for r in by_priority.rules() if r.fills == fills) for fills in (0, 1)}
    assert by_priority.value(by_priority.best_rule()) == least[1] < 0.97 * least[0]
    (first, *_) = by_priority.orders(by_kind(problem.replace(memory=None))._replace(most=6, fills=True))
    begun = [action.microbatch for action in first if action[:2] == ("F", 0)]
    assert begun == list(range(12))
    done = first.index(("W", 0, 0))
    assert first.index(("F", 0, 5)) < done < first.index(("F", 0, 6))

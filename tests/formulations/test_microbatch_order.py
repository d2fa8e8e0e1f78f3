"""Orders of passes in small pipelines: optima against enumeration."""

import itertools
import math
import random
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise, product

import pytest

from formulations.limits import Limits
from formulations.microbatch_order import MicrobatchOrder, MicrobatchProblem

EXACTLY = Limits(seconds=60.0, workers=1, gap=0.0)
Pass = tuple[int, int, int]  # step, part and microbatch


def optimum(problem: MicrobatchProblem, upper: int = 60) -> int:
    """The proven objective, whose starts keep all rules."""
    outcome = MicrobatchOrder(problem, 0, upper).solve(EXACTLY, lambda *_: None)
    assert outcome.status == "optimal"
    assert outcome.starts is not None
    starts = {
        (step, part, i): start
        for step, by_part in enumerate(outcome.starts)
        for part, numbers in enumerate(by_part)
        for i, start in enumerate(sorted(numbers))
    }
    assert objective(problem, starts) == outcome.bound
    orders = [sorted((one for one in starts if one[1] in parts), key=starts.__getitem__) for parts in problem.stages]
    for one, before in waiting(problem, orders).items():
        assert all(starts[one] >= starts[other] + after for other, after in before)
    return outcome.bound


def objective(problem: MicrobatchProblem, starts: Mapping[Pass, float]) -> float:
    """The longest time of a stage."""
    last, final = problem.microbatches - 1, len(problem.durations) - 1
    return max(
        starts[final, q, last] + problem.durations[final][q] - problem.from_first * starts[0, parts[0], 0]
        for parts in problem.stages
        for q in parts
    )


def waiting(problem: MicrobatchProblem, orders: list[list[Pass]]) -> dict[Pass, list[tuple[Pass, int]]]:
    return {one: waits(problem, one, order) for order in orders for one in order}


def earliest(
    problem: MicrobatchProblem, orders: list[list[Pass]], origin: Pass | None = None
) -> dict[Pass, float] | None:
    """When passes may begin in some orders, from 0 or after one of them at 0; None if they wait in a circle."""
    before, starts = waiting(problem, orders), dict[Pass, float]()
    while len(starts) < len(before):
        ready = [one for one in before if one not in starts and all(other in starts for other, _ in before[one])]
        if not ready:
            return None
        for one in ready:
            alone = 0.0 if origin in (None, one) else -math.inf
            starts[one] = max([alone, *(starts[other] + after for other, after in before[one])])
    return starts


def least(problem: MicrobatchProblem, orders: list[list[Pass]]) -> float:
    """The objective in some orders.

    Where times of stages count from their first steps, which may be late, it is the largest mean of a circle of them.
    """
    starts = earliest(problem, orders)
    if starts is None:
        return math.inf
    if not problem.from_first:
        return objective(problem, starts)
    begins = [(0, parts[0], 0) for parts in problem.stages]
    ends = {
        (begin, other): max(time[one] + problem.durations[one[0]][one[1]] for one in order)
        for begin in begins
        for time in (earliest(problem, orders, begin) or {},)
        for other, order in zip(begins, orders, strict=True)
    }
    circles = (chosen for size in range(1, 1 + len(begins)) for chosen in itertools.permutations(begins, size))
    return max(math.ceil(sum(ends[pair] for pair in pairwise([*one, one[0]])) / len(one)) for one in circles)


def fits(problem: MicrobatchProblem, order: list[Pass]) -> bool:
    """Whether a stage can keep what microbatches take between their first step, the second and the last."""
    (before, after), held, final = problem.kept, 0, len(problem.durations) - 1
    for step, _, _ in order:
        held += before * (step == 0)
        if problem.memory is not None and held > problem.memory:
            return False
        held -= (before - after) * (step == 1) + after * (step == final)
    return True


def waits(problem: MicrobatchProblem, one: Pass, order: list[Pass]) -> list[tuple[Pass, int]]:
    """Passes that one waits for, and how long after their begin."""
    (step, part, i), last = one, len(problem.durations[0]) - 1
    before = []
    if step == 0 and part:
        before.append(((0, part - 1, i), problem.durations[0][part - 1] + problem.hops[part - 1]))
    if step == 1:
        source = (0, last, i) if part == last else (1, part + 1, i)
        hop = 0 if part == last else problem.hops[part]
        before.append((source, problem.durations[source[0]][source[1]] + hop))
    if step == 2:
        before.append(((1, part, i), problem.durations[1][part]))
    place = order.index(one)
    if place:
        other = order[place - 1]
        before.append((other, problem.durations[other[0]][other[1]]))
    return before


def all_orders(problem: MicrobatchProblem, parts: list[int]) -> list[list[Pass]]:
    """All orders of the passes of a stage, microbatches of a kind in theirs."""
    kinds = [(step, part) for step in range(len(problem.durations)) for part in parts]

    def merged(left: dict[tuple[int, int], int]) -> list[list[Pass]]:
        if not any(left.values()):
            return [[]]
        return [
            [(*kind, problem.microbatches - left[kind]), *rest]
            for kind in kinds
            if left[kind]
            for rest in merged(left | {kind: left[kind] - 1})
        ]

    return merged(dict.fromkeys(kinds, problem.microbatches))


def brute_force(problem: MicrobatchProblem) -> float:
    every = ([order for order in all_orders(problem, list(parts)) if fits(problem, order)] for parts in problem.stages)
    return min((least(problem, list(orders)) for orders in product(*every)), default=math.inf)


def random_problem(seed: int) -> MicrobatchProblem:
    """Two stages of a part, or one of two parts, and two microbatches; or one part and three."""
    chance = random.Random(seed)
    stages = chance.choice([[[0], [1]], [[0, 1]], [[0]]])
    steps, parts = 2 if stages == [[0, 1]] else chance.choice([2, 3]), sum(map(len, stages))
    return MicrobatchProblem(
        durations=[[chance.randint(1, 5) for _ in range(parts)] for _ in range(steps)],
        stages=stages,
        hops=[chance.choice([0, 1, 3]) * (len(stages) - 1)] * (parts - 1),
        microbatches=2 if parts > 1 else 3,
        queue=False,
        memory=chance.choice([None, 1, 2, 3, 4, 6]),
        kept=(2, chance.choice([1, 2])),
        from_first=chance.choice([False, True]),
    )


@pytest.mark.parametrize("seed", range(40))
def test_optima_are_those_of_all_orders(seed: int) -> None:
    problem = random_problem(seed)
    best = brute_force(problem)
    if best < math.inf:
        assert optimum(problem) == best
    else:
        assert MicrobatchOrder(problem, 0, 60).solve(EXACTLY, lambda *_: None).status == "infeasible"


PAIR = MicrobatchProblem([[2, 2], [2, 2]], [[0], [1]], [5], 2, queue=False, memory=None, kept=(1, 1), from_first=False)
"""Two stages of a part with long messages, and two microbatches."""


def test_messages_of_a_link_come_one_after_the_other() -> None:
    """The other stage is busy from 7 to 15, or waits from 11 to 12, when the second message is there."""
    assert optimum(PAIR) == 15 + 5 + 2
    assert optimum(replace(PAIR, queue=True)) == 16 + 5 + 2

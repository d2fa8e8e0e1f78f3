"""The parts of the loop of dispatch trees, interpreted."""

import numpy as np
import pytest
from ortools.linear_solver import pywraplp
from sized_jobs import random_pair

from formulations import dispatch_loop
from formulations.dispatch_tree import SHARE_SLACK, DispatchTree, JobStates, TreeSearch
from formulations.linear import FloatArray

COUNT = 3


def begun(seed: int) -> tuple[DispatchTree, TreeSearch]:
    """Three jobs on three machines, in one phase or two."""
    states = JobStates(*random_pair(seed, 1 + seed % 2), [1, 0.5, 0.25])
    return states.tree(150.0), states.search(COUNT, 1 << 4)


def some_child(generator: np.random.Generator, tree: DispatchTree, search: TreeSearch) -> bool:
    """Add any stage that may come; whether there is one."""
    level = int(search.placed.sum())
    children = [
        (job, machine)
        for job in range(min(COUNT, int(search.num_begun[level]) + 1))
        for machine in range(3)
        if dispatch_loop.may_come(tree, search, level, level % 2, job, machine)
    ]
    if children:
        dispatch_loop.dispatch(tree, search, level, level % 2, *children[generator.integers(len(children))])
    return bool(children)


def excesses(tree: DispatchTree, search: TreeSearch, level: int, shares: FloatArray) -> FloatArray:
    """How far the loads and chains exceed the horizon with some shares."""
    search.share[level] = shares
    dispatch_loop.place(tree, search, level, (level - 1) % 2)
    loads = [dispatch_loop.load(tree, search, level, number) for number in range(len(tree.weight))]
    return np.array(loads + [dispatch_loop.chain(tree, search, level, job) for job in range(COUNT)])


def pieces(tree: DispatchTree, search: TreeSearch) -> FloatArray:
    """Their linear pieces, where the shares were placed last; the constant first."""
    rows = []
    for number in range(len(tree.weight)):
        dispatch_loop.add_load(tree, search, number)
        rows.append(search.row.copy())
    for job in range(COUNT):
        dispatch_loop.add_chain(tree, search, job)
        rows.append(search.row.copy())
    return np.array(rows)


@pytest.mark.parametrize("seed", range(8))
def test_linear_pieces_touch_the_constraints_where_they_are_made_and_are_nowhere_above(seed: int) -> None:
    generator = np.random.default_rng(seed)
    tree, search = begun(seed)
    while some_child(generator, tree, search):
        level = int(search.placed.sum())
        dispatch_loop.measure_middle(tree, search)
        here, there = generator.dirichlet(np.ones(COUNT), 2)
        violated = excesses(tree, search, level, here)
        rows = pieces(tree, search)
        assert rows[:, 0] + rows[:, 1:] @ here == pytest.approx(violated, abs=1e-12)
        assert (rows[:, 0] + rows[:, 1:] @ there <= excesses(tree, search, level, there) + 1e-12).all()
    assert search.placed.sum() > 6


@pytest.mark.parametrize("seed", range(4))
def test_what_is_taken_back_leaves_nothing(seed: int) -> None:
    generator = np.random.default_rng(seed)
    tree, search = begun(seed)
    kept = ("placed", "state", "served", "num_begun", "opening")
    before = []
    while some_child(generator, tree, search):
        before.append([getattr(search, name).copy() for name in kept[:3]])
    for arrays in reversed(before[:-1]):
        dispatch_loop.take_back(search)
        assert all(np.array_equal(getattr(search, name), array) for name, array in zip(kept, arrays, strict=False))


def greatest_slack(rows: FloatArray) -> float:
    """The most by which all of these may be below 0, as the objective of a linear programme."""
    solver = pywraplp.Solver.CreateSolver("GLOP")
    slack = solver.NumVar(-solver.infinity(), 1.0, "slack")
    shares = [solver.NumVar(-solver.infinity(), solver.infinity(), "share") for _ in range(COUNT)]
    solver.Add(sum(shares) == 1)
    for number, share in enumerate(shares):
        solver.Add(share >= (SHARE_SLACK * slack if number + 1 < COUNT else 0))
    for row in rows:
        solver.Add(float(row[0]) + sum(float(a) * share for a, share in zip(row[1:], shares, strict=True)) + slack <= 0)
    solver.Maximize(slack)
    assert solver.Solve() == pywraplp.Solver.OPTIMAL
    return float(slack.solution_value())


@pytest.mark.parametrize("seed", range(20))
def test_shares_have_the_greatest_slack_of_all(seed: int) -> None:
    """Of rows that are added in two steps, the second from where the first ended."""
    generator = np.random.default_rng(seed)
    _, search = begun(seed)
    rows = generator.normal(size=(8, COUNT + 1)) + np.array([generator.choice([-1.0, 0.2]), 0, 0, 0])
    dispatch_loop.start_anew(search, 1)
    num_rows = int(search.num_rows[1])
    for number, row in enumerate(rows):
        search.row[:] = row
        num_rows = dispatch_loop.add_row(search, 1, num_rows)
        if number in {3, 7}:
            assert dispatch_loop.solve(search, 1, 1, num_rows)
            dispatch_loop.take_shares(search, 1)
            slack, shares = greatest_slack(rows[: number + 1]), search.share[1]
            assert shares.sum() == pytest.approx(1)
            assert search.point[1, -1] == pytest.approx(slack)
            assert (rows[: number + 1, 0] + rows[: number + 1, 1:] @ shares).max() == pytest.approx(-slack, abs=1e-7)
            assert dispatch_loop.is_refuted(search, 1, 1) == (slack < 0)

"""Trees prove what the integer flow of equal jobs does, and no more."""

import pytest

from formulations.fluid import fluid_bound
from formulations.lattice import JobClass, JobPhase
from formulations.order_tree import Division, Leaf, OrderTree, OrderTreeProof, TooLarge

FREE = JobPhase({(0, 0): 3, (1, 1): 1, (0, 1): 6, (2, 0): 1}, {0: 0, 1: 0})
"""Machine 0 first: loads 3 and 1.  Machine 1 first: loads 1 and 6."""


def tree(job: JobClass, target: float, leaves: int = 50) -> OrderTree:
    return OrderTreeProof([job], known=0.0, target=target * (1 - 1e-9), leaves=leaves).tree()


def num_leaves(node: OrderTree) -> int:
    return 1 if isinstance(node, Leaf) else num_leaves(node.fewer) + num_leaves(node.more)


def test_whole_jobs_cannot_balance_the_machines() -> None:
    """Of three jobs two start on machine 0 (loads 7 and 8) or all do (9, and a wait of 3 for machine 1)."""
    job = JobClass((0, 1), (FREE,), count=3)
    assert fluid_bound([job]) < 8
    proof = tree(job, 8)
    assert isinstance(proof, Division)
    assert num_leaves(proof) <= 4
    with pytest.raises(TooLarge):
        tree(job, 8.5)


def test_a_machine_on_which_no_job_starts_waits_for_the_first_stage_elsewhere() -> None:
    """Machine 1 first is out of the question: it would take 1000."""
    phase = JobPhase({(0, 0): 3, (1, 1): 5, (0, 1): 1000, (2, 0): 1}, {0: 2, 1: 0})
    job = JobClass((0, 1), (phase,), count=2)
    assert num_leaves(tree(job, (3 + 2) + 2 * 5)) <= 3
    with pytest.raises(TooLarge):
        tree(job, (3 + 2) + 2 * 5 + 0.5)


def test_a_tree_has_no_more_leaves_than_it_may() -> None:
    job = JobClass((0, 1), (FREE,), count=3)
    count = num_leaves(tree(job, 8))
    assert num_leaves(tree(job, 8, leaves=count)) == count
    for fewer in range(1, count):
        with pytest.raises(TooLarge):
            tree(job, 8, leaves=fewer)

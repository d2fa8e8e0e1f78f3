import math
from dataclasses import replace

import pytest
from compare_trees import SolveRow, append_row, pairs_of, read_rows, table
from held_out import FAMILIES, held_out, networks

from themis_opt.workloads.files import instance_text

ROW = SolveRow("old", "abc", "paper", "a network", 0, 10.0, 2, False, makespan=110.0, bound=100.0, gap=10.0, seconds=1)


def test_networks_are_realistic():
    for member in networks():
        network = member.instance.network
        assert 2 <= len(network.dimensions) <= 5
        assert network.num_npus <= 1_000_000
        for inner, outer in zip(network.dimensions, network.dimensions[1:], strict=False):
            assert abs(math.log(inner.bandwidth / outer.bandwidth)) <= math.log(20.1)
        for dimension in network.dimensions:
            assert 2 <= dimension.size <= 64
            assert dimension.bandwidth >= 1e9
            assert 300_000 <= dimension.latency <= 5_000_000


@pytest.mark.parametrize("family", FAMILIES)
def test_instances_are_the_same_each_time_and_differ_from_each_other(family):
    members = held_out([family])
    problems = [(instance_text(member.instance), member.sizes) for member in members]
    assert problems == [(instance_text(member.instance), member.sizes) for member in held_out([family])]
    assert len(set(problems)) == len({member.name for member in members}) == len(members)


def test_a_selection_holds_at_most_so_many_of_each_class():
    assert len(held_out(["paper", "costs"], most=5)) == 10
    assert held_out(["paper"], most=4) == held_out(["paper"], most=5)[:4]
    assert held_out(["paper"], every=6) == held_out(["paper"])[::6]


def test_rows_come_back_from_a_file(tmp_path):
    rows = [ROW, replace(ROW, side="new", deterministic=True)]
    for row in rows:
        append_row(tmp_path / "rows.csv", row)
    assert read_rows(tmp_path / "rows.csv") == rows


def test_gaps_are_those_to_the_best_bound_of_both_and_to_each_ones_own():
    better_bound = replace(ROW, side="new", makespan=108.0, bound=104.0, gap=4.0)
    (line,) = (line for line in table(pairs_of([ROW, better_bound])).splitlines() if "paper" in line)
    assert line.startswith("| paper | 1 | 5.769 | 3.846 | -1.923 ± 0.000 | -1.923 a network | 10.000 | 4.000 | -6.000")


def test_rows_of_one_side_alone_are_no_pair():
    assert pairs_of([ROW, replace(ROW, side="new", seed=1)]) == []

import math

import pytest
from held_out import FAMILIES, held_out, networks

from themis_opt.workloads.files import instance_text


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

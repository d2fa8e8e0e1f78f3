import pytest
from ablation import MECHANISMS, taken_out
from held_out import FAMILIES, held_out

from themis_opt.policies.hourglass.policy import Hourglass
from themis_opt.problem.catalog import instance_text
from themis_opt.problem.instance import Instance


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_can_be_taken_out_of_the_search_as_it_is(name: str) -> None:
    with taken_out(name):
        pass


def test_a_mechanism_is_out_within_the_block_alone(hetero: Instance) -> None:
    instance = hetero.overridden(chunks=9, size="1 MiB")
    usual = Hourglass()(instance)
    with taken_out("hourglass: mirrored paths"):
        assert Hourglass()(instance) != usual
    assert Hourglass()(instance) == usual


@pytest.mark.parametrize("family", FAMILIES)
def test_held_out_instances_are_the_same_each_time_and_differ_from_each_other(family: str) -> None:
    members, again = ([(instance_text(one.instance), one.sizes) for one in held_out([family])] for _ in range(2))
    assert members == again
    assert len(set(members)) == len(members)

"""A new collective is an entry of a table: every family serves it, or refuses it by name."""

import pytest

import themis_opt
from themis_opt.base.errors import InputError
from themis_opt.families.door import family_of
from themis_opt.problem.phases import COLLECTIVE_RULES, CollectiveKind, CollectiveRule, Demand, Ends, Phase

GATHER = COLLECTIVE_RULES[CollectiveKind.ALL_GATHER]


@pytest.fixture
def add_kind(monkeypatch):
    """Adds a kind to the enumeration and its table, and takes it out again."""

    def add(name, rule):
        kind = str.__new__(CollectiveKind, name)
        kind._name_, kind._value_ = name.upper(), name
        monkeypatch.setitem(CollectiveKind._value2member_map_, name, kind)
        monkeypatch.setitem(COLLECTIVE_RULES, kind, rule)
        return kind

    return add


def with_kind(problem, kind):
    """The problem with another kind, past the check of files."""
    (collective,) = problem.collectives
    return problem.model_copy(update={"collectives": (collective.model_copy(update={"kind": kind}),)})


def makespans(problem):
    policies = {"product": ("baseline", "themis+scf"), "graph": ("trees", "ring", "direct")}[problem.family]
    compared = family_of(problem).compare(problem, policies, time_limit=1)
    assert compared.best.makespan >= max(compared.bounds.values())
    return {result.policy: result.makespan for result in compared.results}


@pytest.mark.parametrize("name", ["3d-sw_sw_sw_homo.all_reduce.100MiB", "dgx1.all_gather.1GB"])
def test_a_collective_with_the_rule_of_another_takes_as_long(add_kind, name):
    problem = themis_opt.load(name)
    gossip = with_kind(problem, add_kind("gossip", GATHER))
    assert makespans(gossip) == makespans(with_kind(problem, CollectiveKind.ALL_GATHER))


def test_a_collective_with_another_demand_is_served_or_refused_by_name(add_kind):
    rule = CollectiveRule((Phase.GATHER,), lambda initial, sizes: initial[None, :, 0], Demand(Ends.EACH, Ends.ROOT))
    collect = add_kind("collect", rule)
    assert makespans(with_kind(themis_opt.load("3d-sw_sw_sw_homo.all_reduce.100MiB"), collect))
    with pytest.raises(InputError, match=r"collectives\.kind = 'collect': is not for graphs"):
        makespans(with_kind(themis_opt.load("dgx1.all_gather.1GB"), collect))

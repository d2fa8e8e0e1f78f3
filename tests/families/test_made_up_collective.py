"""A new collective or kind of dimension is an entry of a table: every family serves it, or refuses it by name."""

import pytest

import themis_opt
from themis_opt.base.errors import InputError
from themis_opt.families.door import family_of
from themis_opt.graphs.conversion import to_graph
from themis_opt.problem.phases import COLLECTIVE_RULES, CollectiveKind, CollectiveRule, Demand, Ends, Phase
from themis_opt.problem.wiring import KIND_RULES, Kind

GATHER = COLLECTIVE_RULES[CollectiveKind.ALL_GATHER]


@pytest.fixture
def add_kind(monkeypatch):
    """Adds a kind to the enumeration and its table, and takes it out again."""

    def add(name, rule, kinds=CollectiveKind, rules=COLLECTIVE_RULES):
        kind = str.__new__(kinds, name)
        kind._name_, kind._value_ = name.upper(), name
        monkeypatch.setitem(kinds._value2member_map_, name, kind)
        monkeypatch.setitem(rules, kind, rule)
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


def test_a_kind_of_dimension_with_the_rule_of_another_takes_as_long_and_has_no_graph(add_kind):
    ring = themis_opt.load("3d-sw_sw_sw_homo.all_reduce.100MiB")
    alike = [dimension.model_copy(update={"kind": Kind.RING}) for dimension in ring.network.dimensions]
    loop = add_kind("loop", KIND_RULES[Kind.RING], Kind, KIND_RULES)
    looped = [dimension.model_copy(update={"kind": loop}) for dimension in alike]
    ring, loops = (
        ring.model_copy(update={"network": ring.network.model_copy(update={"dimensions": tuple(dimensions)})})
        for dimensions in (alike, looped)
    )
    assert makespans(loops) == makespans(ring)
    with pytest.raises(InputError, match=r"kind = 'loop': has no wires on graphs"):
        to_graph(loops.network)

"""Policies that a user writes: functions given to `compare`, and import paths in specifications."""

from dataclasses import replace
from pathlib import Path

import pytest

import themis_opt
from themis_opt import Instance, Plan, compare, make_policy
from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.policies.registry import Policy, policy_name, specify, split_specification

MODULE = """
from dataclasses import dataclass

from themis_opt import Instance, Plan, make_policy

CONSTANT = 3


@dataclass(frozen=True)
class Halved:
    parts: int = 2
    dispatch: str = "fifo"

    def __call__(self, instance: Instance) -> Plan:
        few = tuple(one.replace(chunks=one.chunks // self.parts) for one in instance.collectives)
        return make_policy(f"themis+{self.dispatch}")(instance.replace(collectives=few))


def fixed(instance: Instance) -> Plan:
    return make_policy("baseline")(instance)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the folder in which the command is called."""
    (tmp_path / "user_policies.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return "user_policies"


@pytest.fixture(scope="module")
def instance() -> Instance:
    return themis_opt.load("fig5.all_reduce.256MB")


def free(instance: Instance) -> Plan:
    """Chunks of free sizes, for which bounds of equal chunks do not hold."""
    return make_policy("hourglass:sizes=free")(instance)


def test_a_function_is_compared_by_its_name(instance: Instance) -> None:
    comparison = compare(instance, [free, "themis", make_policy("baseline")])
    assert [result.policy for result in comparison.results] == ["free", "themis", "Baseline"]


def test_bounds_of_equal_chunks_are_left_out_where_a_function_cuts_others(instance: Instance) -> None:
    equal = compare(instance, ["themis"]).bounds
    both = compare(instance, ["themis", free]).bounds
    assert both.items() < equal.items()


def too_many_sequences(instance: Instance) -> Plan:
    plan = make_policy("baseline")(instance)
    return replace(plan, sequences=(None,) * (instance.num_resources + 1))


def half_the_bytes(instance: Instance) -> Plan:
    plan = make_policy("baseline")(instance)
    return replace(plan, chunks=tuple(replace(chunks, sizes=chunks.sizes // 2) for chunks in plan.chunks))


ILLEGAL = {too_many_sequences: "one entry per dimension", half_the_bytes: "sizes"}


@pytest.mark.parametrize("policy", ILLEGAL)
def test_a_function_with_an_illegal_plan_is_left_out_with_the_broken_rule(instance: Instance, policy: Policy) -> None:
    comparison = compare(instance, [policy, "themis"])
    assert [result.policy for result in comparison.results] == ["themis"]
    assert ILLEGAL[policy] in str(comparison.refused[policy.__name__])


@pytest.mark.parametrize("policy", ILLEGAL)
def test_a_function_with_an_illegal_plan_alone_is_refused(instance: Instance, policy: Policy) -> None:
    with pytest.raises((InputError, InvalidSchedule), match=ILLEGAL[policy]):
        compare(instance, [policy])


@pytest.mark.parametrize("policies", [[free, free], []])
def test_each_policy_is_named_once(instance: Instance, policies: list[Policy]) -> None:
    with pytest.raises(InputError, match="each once"):
        compare(instance, policies)


def test_an_import_path_stands_for_a_name(instance: Instance, module: str) -> None:
    plan = make_policy(f"{module}:Halved:parts=4+scf")(instance)
    (collective,) = instance.collectives
    few = instance.replace(collectives=(collective.replace(chunks=collective.chunks // 4),))
    assert plan == make_policy("themis+scf")(few)
    assert make_policy(f"{module}:fixed")(instance) == make_policy("baseline")(instance)


def test_launching_policies_take_chunks_of_ones_own(module: str) -> None:
    iteration = themis_opt.load("v100-256.bert-large")
    assert specify(f"{module}:fixed", iteration) == f"fused/{module}:fixed"
    plan, usual = (make_policy(f"ddp/{chunks}")(iteration) for chunks in (f"{module}:fixed", "baseline"))
    assert plan == usual


@pytest.mark.parametrize(
    ("specification", "rule"),
    [
        ("{}:missing", "cannot be loaded from {}"),
        ("missing_module:Policy", "cannot be loaded from missing_module"),
        ("{}:CONSTANT", "must be a dataclass"),
        ("{}:fixed+scf", "neither knobs nor a dispatch rule"),
        ("{}:fixed:parts=2", "neither knobs nor a dispatch rule"),
        ("{}:Halved:part=2", "unknown knob 'part'"),
        ("{}:Halved+best", "unknown dispatch rule"),
    ],
)
def test_what_cannot_be_made_is_refused(module: str, specification: str, rule: str) -> None:
    with pytest.raises(InputError, match=rule.format(module)):
        make_policy(specification.format(module))


def test_the_name_of_an_import_path_holds_its_colon() -> None:
    _, chunk = split_specification("ddp:cap=1MiB/user.policies:Mine:knob=2+scf")
    assert policy_name(chunk) == "user.policies:Mine"

"""The shipped pipelines, whose messages share adapters with gradients: policies beside the reference."""

import pytest
from generators.v100_cluster import MICROBATCHES, STAGES

from themis_opt.policies.registry import LAUNCHING
from themis_opt.problem.catalog import load
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.validation import validate
from themis_opt.study.comparison import compare

NAMES = ("v100-64.bert-large", "v100-64.vgg-16")


@pytest.mark.parametrize("name", NAMES)
def test_messages_and_gradients_share_the_adapter(name: str) -> None:
    instance = load(name)
    resources = {
        kind: {instance.links[k] for exchange in instance.exchanges if exchange.kind is kind for k in exchange.span}
        for kind in (CollectiveKind.SEND, CollectiveKind.ALL_REDUCE)
    }
    assert resources[CollectiveKind.SEND] < resources[CollectiveKind.ALL_REDUCE]
    assert instance.num_stages == STAGES


@pytest.mark.parametrize("name", NAMES)
def test_reference_is_no_worse_than_any_policy_and_its_bound_beats_none(name: str) -> None:
    compared = compare(
        load(name),
        [*(f"{launching}/hourglass" for launching in LAUNCHING), "exact"],
        time_limit=1,
        deterministic=True,  # or a slow machine leaves out policies
        workers=1,
        sizes="equal",
    )
    *policies, reference = compared.results
    validate(reference.schedule)
    least = max(compared.bounds.values())
    assert reference.policy == "exact"
    assert least * (1 - 1e-9) <= reference.makespan <= min(policy.makespan for policy in policies)
    assert reference.gap < 0.05


@pytest.mark.parametrize("name", NAMES)
def test_no_schedule_is_shorter_than_a_stage_and_one_pass_of_those_before(name: str) -> None:
    instance = load(name)
    (result,) = compare(instance, ["priority/hourglass"]).results
    durations = [[instance.tasks[task].duration for task in chain] for chain in instance.chains]
    for stage, chain in enumerate(durations):
        assert len(chain) == 2 * MICROBATCHES
        before = sum(sum(batch) / MICROBATCHES for batch in durations[:stage])
        assert result.makespan >= sum(chain) + before * (1 - 1e-9)

"""One plan for each range of message sizes."""

from dataclasses import replace

import pytest

from themis_opt.base.errors import InputError
from themis_opt.formats.exports import export, for_sizes, make_sized_exporter
from themis_opt.policies.registry import make_policy
from themis_opt.problem.catalog import load
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Network
from themis_opt.schedules.simulator import simulate
from themis_opt.study.plans_by_size import GIVEN, plans_by_size

SIZES = ("16 KiB", "256 KiB", "4 MiB", "64 MiB", "1 GiB")
POLICIES = ("baseline", "themis+scf")
MSCCL = make_sized_exporter("msccl")


@pytest.fixture(scope="module")
def schedule():
    dimensions = (
        Dimension(kind="switch", size=4, bandwidth="200 GB/s", latency="1 us"),
        Dimension(kind="switch", size=2, bandwidth="50 GB/s", latency="2 us"),
    )
    collective = {"kind": "all_reduce", "size": "64 MiB", "chunks": 16}
    instance = Instance(name="two", network=Network(dimensions=dimensions), collectives=(collective,), latency="occupy")
    return simulate(instance, make_policy("hourglass")(instance))


@pytest.fixture(scope="module")
def plans(schedule):
    return plans_by_size(schedule, SIZES, MSCCL, policies=POLICIES)


def test_ranges_follow_each_other_over_all_sizes(plans):
    assert plans[0].min_bytes == 16 * 2**10
    assert plans[-1].max_bytes == 2**30
    assert [served.min_bytes for served in plans[1:]] == [served.max_bytes + 1 for served in plans[:-1]]


def test_small_messages_have_few_chunks_and_large_ones_many(plans):
    counts = [served.num_chunks for served in plans]
    assert counts == sorted(counts)
    assert counts[0] == 1
    assert counts[-1] == 16


def test_every_size_is_served_within_the_tolerance_of_its_best_plan(schedule, plans):
    instance = schedule.instance
    for size in (2**14, 2**18, 2**22, 2**26, 2**30):
        (served,) = (plan for plan in plans if plan.min_bytes <= size <= plan.max_bytes)
        here = instance.overridden(size=size, chunks=served.num_chunks)
        (chunks,) = served.schedule.plan.chunks
        scaled = replace(
            served.schedule.plan, chunks=(replace(chunks, sizes=chunks.sizes * size // chunks.sizes.sum()),)
        )
        best = min(
            simulate(cut, make_policy(policy)(cut)).makespan
            for policy in POLICIES
            for cut in (instance.overridden(size=size, chunks=count) for count in (1, 4, 16))
        )
        assert simulate(here, scaled).makespan <= best * 1.02


def test_the_plan_at_hand_serves_the_sizes_for_which_it_is_best(schedule):
    (served,) = plans_by_size(schedule, ["64 MiB"], MSCCL, chunks=[1], policies=["baseline"])
    assert (served.policy, served.excess, served.schedule.makespan) == (GIVEN, 0, schedule.makespan)


@pytest.mark.parametrize(
    ("to", "start", "end"),
    [
        ("msccl", 'minBytes="{low}"', 'maxBytes="{beyond}"'),
        ("msccl:dialect=rccl", 'minBytes="{low}"', 'maxBytes="{high}"'),
        ("mscclpp", '"min_message_size":{low}', '"max_message_size":{beyond}'),
    ],
)
def test_the_files_of_all_ranges_say_their_sizes_and_pass_their_checks(tmp_path, schedule, to, start, end):
    exporter = make_sized_exporter(to)
    plans = plans_by_size(schedule, ["64 KiB", "1 GiB"], exporter, chunks=[1, 4], policies=["baseline"])
    assert len(plans) == 2
    for served in plans:
        sized = for_sizes(exporter, served.min_bytes, served.max_bytes)
        for path in export(served.schedule, sized, tmp_path):
            text = path.read_text()
            assert start.format(low=served.min_bytes) in text
            assert end.format(high=served.max_bytes, beyond=served.max_bytes + 1) in text
        assert list(sized.check(served.schedule, tmp_path))
    assert len(list(tmp_path.iterdir())) == (4 if to == "msccl" else 2)


def test_a_size_that_no_plan_can_serve_is_refused_with_what_it_must_divide_by(schedule):
    with pytest.raises(InputError, match="no plan serves it: must be a multiple of 16 bytes"):
        plans_by_size(schedule, [1000 * 8 + 4], MSCCL, chunks=[1, 4], policies=["baseline"])


def test_other_formats_and_training_iterations_have_no_ranges():
    with pytest.raises(InputError, match="writes no plans by message size"):
        make_sized_exporter("csv")
    with pytest.raises(InputError, match="says sizes, which --sizes chooses"):
        make_sized_exporter("msccl:max_bytes=7")
    instance = load("v100-256.resnet-50")
    iteration = simulate(instance, make_policy("fused/baseline")(instance))
    with pytest.raises(InputError, match="for one collective without compute"):
        plans_by_size(iteration, ["1 MiB"], MSCCL)

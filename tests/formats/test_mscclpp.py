"""Plans for MSCCL++: within schema and limits, proven on data, wrong plans noticed."""

import json

import pytest
from test_msccl import NETWORKS, schedule

from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.formats.exports import export, make_exporter
from themis_opt.formats.msccl.plus import MAX_PLUS_OPERATIONS, MscclPlus, PlusPlan, interpret_plan
from themis_opt.problem.phases import CollectiveKind


def plan_of(made, **knobs):
    ((_, text),) = MscclPlus(**knobs).files(made)
    return PlusPlan.model_validate_json(text)


@pytest.mark.parametrize("kind", [kind for kind in CollectiveKind if kind is not CollectiveKind.SEND])
@pytest.mark.parametrize("name", ["8 GPUs", "three dimensions"])
def test_every_collective_ends_with_its_result(tmp_path, name, kind):
    made = schedule(NETWORKS[name], kind, chunks=2)
    if kind is CollectiveKind.ALL_TO_ALL and name == "three dimensions":
        with pytest.raises(InputError, match=r"chunk 0 has \d+ operations and \d peers on GPU 0, a threadblock has"):
            plan_of(made)
        return
    export(made, "mscclpp", tmp_path)
    assert "schema and limits hold" in next(iter(make_exporter("mscclpp").check(made, tmp_path)))
    if kind is CollectiveKind.ALL_TO_ALL:
        with pytest.raises(InputError, match="needs a separate output"):
            plan_of(made, in_place=True)
    else:
        interpret_plan(plan_of(made, in_place=True))


def test_a_threadblock_has_as_many_operations_as_its_reader_takes():
    plan = plan_of(schedule((("fully_connected", 5),), chunks=1))
    assert len(plan.gpus[0].threadblocks[0].ops) == MAX_PLUS_OPERATIONS
    with pytest.raises(InputError, match="65 operations and 7 peers on GPU 0, a threadblock has at most 64 and 16"):
        plan_of(schedule((("fully_connected", 8),), CollectiveKind.ALL_GATHER, chunks=1))


def test_channels_are_memory_within_a_node_and_ports_beyond_it():
    plan = plan_of(schedule(NETWORKS["8 GPUs"], chunks=2), node_dimensions=1)
    ways = {channel.channel_type: set(channel.connected_to) for channel in plan.gpus[0].channels}
    assert ways == {"memory": {1, 3}, "port": {4}}  # ring of four, then pairs
    names = {op.name for block in plan.gpus[0].threadblocks for op in block.ops if op.channel_type == "port"}
    assert names == {"signal", "wait", "pwsf"}
    assert {
        channel.channel_type for channel in plan_of(schedule(NETWORKS["8 GPUs"]), node_dimensions=2).gpus[0].channels
    } == {"memory"}


def test_each_chunk_has_a_threadblock_and_each_message_its_scratch():
    plan = plan_of(schedule(NETWORKS["8 GPUs"], chunks=3))
    for gpu in plan.gpus:
        assert [block.id for block in gpu.threadblocks] == [0, 1, 2]
        assert all(len(block.ops) <= MAX_PLUS_OPERATIONS for block in gpu.threadblocks)
        written = [
            buffer
            for other in plan.gpus
            for block in other.threadblocks
            for op in block.ops
            if op.name in ("put", "pwsf") and _target(other, block, op) == gpu.id
            for buffer in op.dst_buff
        ]
        units = [buffer.index + unit for buffer in written for unit in range(buffer.size)]
        assert sorted(units) == list(range(gpu.scratch_chunks))


def _target(gpu, block, op):
    (ids,) = (channel.channel_ids for channel in block.channels if channel.channel_type == op.channel_type)
    (peers,) = (channel.connected_to for channel in gpu.channels if channel.channel_type == op.channel_type)
    return peers[ids[op.channel_ids[0]]]


@pytest.mark.parametrize("kind", ["all_gather", "reduce_scatter", "all_reduce"])
def test_a_message_comes_after_a_received_one_only_if_it_passes_its_data_on(kind):
    counts = {True: 0, False: 0}
    for gpu in plan_of(schedule(NETWORKS["8 GPUs"], kind, chunks=2)).gpus:
        for block in gpu.threadblocks:
            received, sent = None, []
            for op in block.ops:
                if op.name == "wait":
                    received = []
                elif op.name in ("copy", "re") and received is not None:
                    received += op.dst_buff
                elif op.name in ("put", "pwsf"):
                    sent += op.src_buff
                if op.name in ("signal", "pwsf"):
                    if received and sent:
                        counts[any(overlap(one, other) for one in sent for other in received)] += 1
                    received, sent = None, []
    assert counts[True] > 0 == counts[False]


def overlap(one, other):
    return one.type == other.type and other.index - one.size < one.index < other.index + other.size


@pytest.fixture
def plan():
    return plan_of(schedule(NETWORKS["8 GPUs"]))


def test_a_sum_that_is_missing_is_found(plan):
    for block in plan.gpus[2].threadblocks:
        for op in block.ops:
            if op.name == "re":
                op.name, op.src_buff = "copy", op.src_buff[:1]
    with pytest.raises(InvalidSchedule, match="ends with a wrong unit"):
        interpret_plan(plan)


def test_a_signal_that_is_missing_is_found(plan):
    ops = plan.gpus[2].threadblocks[0].ops
    ops.remove(next(op for op in ops if op.name == "signal"))
    with pytest.raises(InvalidSchedule, match="threadblocks wait for ever"):
        interpret_plan(plan)


def operations(plan):
    return plan["gpus"][0]["threadblocks"][0]["ops"]


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda plan: plan | {"colour": "red"}, "colour"),
        (lambda plan: plan | {"protocol": "LL"}, "protocol"),
        (lambda plan: plan["gpus"][0]["threadblocks"][0]["ops"].extend([{"name": "nop"}] * 64), "threadblocks.0.ops"),
        (lambda plan: plan["gpus"][0]["threadblocks"][0]["ops"][0].update(name="get"), "ops.0.name"),
        (lambda plan: plan["gpus"][0].update(input_chunks=3), "must name channels, buffers and GPUs that are in it"),
        (
            lambda plan: [op.update(channel_ids=[9]) for op in plan["gpus"][0]["threadblocks"][0]["ops"]] and None,
            "list",
        ),
        (lambda plan: plan | {"collective": "ather"}, "collective = 'ather': must be one of"),
    ],
)
def test_what_breaks_schema_or_limits_does_not_pass(tmp_path, change, place):
    made = schedule(NETWORKS["8 GPUs"])
    (path,) = export(made, "mscclpp", tmp_path)
    document = json.loads(path.read_text())
    path.write_text(json.dumps(change(document) or document))
    with pytest.raises(InputError, match=place):
        list(make_exporter("mscclpp").check(made, tmp_path))


def test_a_check_tells_the_longest_threadblock(tmp_path):
    made = schedule(NETWORKS["8 GPUs"], "broadcast", chunks=2)
    (path,) = export(made, "mscclpp", tmp_path)
    plan = PlusPlan.model_validate_json(path.read_text())
    lengths = {len(block.ops) for gpu in plan.gpus for block in gpu.threadblocks}
    first, *_ = make_exporter("mscclpp").check(made, tmp_path)
    assert f"8 GPUs, at most {max(lengths)} operations" in first
    assert len(lengths) > 1

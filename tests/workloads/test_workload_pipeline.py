"""Pipelines: cuts, order of passes, messages, bubbles, and the reference beside them."""

from dataclasses import replace
from itertools import combinations
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import every
from small_iterations import run

from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.formats.timeline import pictured
from themis_opt.formats.trace import chrome_trace
from themis_opt.problem.documents import INSTANCE_FORMAT
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Network
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.explanation import explain
from themis_opt.schedules.validation import validate
from themis_opt.solving.bounds import bounds
from themis_opt.workloads.layers import Layer, Parameter, linear
from themis_opt.workloads.microbatch_orders import MicrobatchPass, in_order, most_kept, passes_by_stage, stage_of_parts
from themis_opt.workloads.models import MODELS, find_model
from themis_opt.workloads.parallelisms import make_workload
from themis_opt.workloads.pipeline import balanced, pipeline, pipeline_stages
from themis_opt.workloads.setup import Setup
from themis_opt.workloads.timing import Rate

Order = Literal["gpipe", "1f1b", "v", "dualpipe"]

NETWORK = Network(
    dimensions=(
        Dimension(kind="ring", size=2, bandwidth="20 GB/s", latency="1 us", name="node"),
        Dimension(kind="switch", size=8, bandwidth="2 GB/s", latency="3 us", name="rail"),
    )
)
FAST = Network(dimensions=(Dimension(kind="switch", size=8, bandwidth=1e18, name="rail"),))
SETUP = Setup(network=NETWORK, timing=Rate(10**12), batch=8, stages=4, microbatches=4)
EQUAL = (
    Layer("source", "embedding", (Parameter("weight", 512),), 0, 1, 512),
    *(linear(f"layer{number}", 512, 512) for number in range(8)),
)
"""Layers of which all but the first one compute alike, which computes nothing."""


def make(layers: tuple[Layer, ...] = EQUAL, **choices: Any) -> Instance:
    setup = replace(SETUP, **choices)
    return Instance(format=INSTANCE_FORMAT, network=setup.network, iteration=pipeline(layers, setup), chunks=2)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=8), st.data())
def test_heaviest_part_is_as_light_as_can_be(weights: list[int], data: st.DataObject) -> None:
    parts = data.draw(st.integers(1, len(weights)))

    def heaviest(ends: tuple[int, ...]) -> int:
        return max(sum(weights[a:b]) for a, b in zip((0, *ends), ends, strict=False))

    ends = balanced(weights, parts)
    cuts = combinations(range(1, len(weights)), parts - 1)
    assert heaviest(ends) == min(heaviest((*cut, len(weights))) for cut in cuts)
    assert len({0, *ends}) == parts + 1


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize(("stages", "microbatches"), [(2, 1), (3, 2), (4, 8)])
def test_stages_keep_as_many_microbatches_as_their_order_says(schedule: Order, stages: int, microbatches: int) -> None:
    most = [most_kept(order, [1] * stages) for order in passes_by_stage(stages, 1, microbatches, schedule)]
    assert most == [min(stages - k, microbatches) if schedule == "1f1b" else microbatches for k in range(stages)]


def test_parts_of_a_stage_divide_the_bubble() -> None:
    """Three of eleven times that a stage takes for a microbatch are bubble, half of that with two parts."""
    one, two = (make(network=FAST, virtual_stages=parts, microbatches=8) for parts in (1, 2))
    bubble, less = (run(instance).makespan - instance.compute for instance in (one, two))
    assert one.compute == two.compute
    assert less == pytest.approx(bubble / 2, rel=1e-4)


@pytest.mark.parametrize(("stages", "microbatches"), [(2, 2), (3, 3), (4, 8)])
@pytest.mark.parametrize(("schedule", "parts"), [("1f1b", 1), ("gpipe", 1), ("1f1b", 2), ("gpipe", 3), ("v", 2)])
def test_every_pass_comes_once_after_those_it_waits_for(
    schedule: Order, parts: int, stages: int, microbatches: int
) -> None:
    done: set[MicrobatchPass] = set()
    stage_of = stage_of_parts(stages, parts, schedule)
    for stage, one in in_order(stages, parts, microbatches, schedule):
        assert stage == stage_of[one.part]
        before = one.part + (1 if one.backward else -1)
        assert one._replace(part=before) in done or not 0 <= before < stages * parts
        assert not one.backward or one._replace(backward=False) in done
        done.add(one)
    assert len(done) == 2 * stages * parts * microbatches


def test_stages_of_a_v_keep_as_many_microbatches_as_stages() -> None:
    orders = passes_by_stage(4, 2, 16, "v")
    assert [most_kept(order, [1] * 8) for order in orders] == [2 * 4] * 4  # both parts of each


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize("microbatches", [1, 2, 8])
@pytest.mark.parametrize("stages", every(2, [4, 8, 2]))
def test_bubble_is_the_formula(schedule: Order, microbatches: int, stages: int) -> None:
    instance = make(network=FAST, stages=stages, microbatches=microbatches, schedule=schedule)
    one = instance.compute / microbatches
    made = run(instance)
    picosecond_per_stage = made.plan.num_stages  # each takes one at least
    assert made.makespan == pytest.approx((microbatches + stages - 1) * one, rel=0, abs=picosecond_per_stage)
    assert made.period.bubble == pytest.approx((stages - 1) * one, rel=0, abs=picosecond_per_stage)
    assert 0 <= made.period.exposed <= 0.01 * one  # what the messages take
    slow = run(make(stages=stages, microbatches=microbatches, schedule=schedule))
    assert slow.period.bubble == made.period.bubble
    assert slow.period.exposed > made.period.exposed
    assert made.makespan == pytest.approx(max(bounds(instance).values()), rel=0, abs=picosecond_per_stage)


def test_exchanges_of_a_pass_hide_behind_the_pass_of_another_microbatch() -> None:
    """Where exchanges are as long as passes, a stage of 1F1B waits for each, and one with two microbatches for few."""
    model = find_model("transformer:layers=4:hidden=64:vocabulary=8:heads=4:inner=64:experts=2:active=2:expert=64")
    network = Network(dimensions=[Dimension(kind="switch", size=2, bandwidth=2 * 10**9, name=name) for name in "ab"])
    setup = replace(SETUP, network=network, stages=2, experts=2, microbatches=16, batch=16)
    instances = [
        make_workload(model, model.layers(32), replace(setup, schedule=order), parallelism="pipeline", chunks=1)
        for order in ("1f1b", "dualpipe")
    ]
    exposed, hidden = (run(instance).period.exposed / instance.compute for instance in instances)
    assert exposed > 0.5
    assert hidden < 0.4 * exposed


def test_messages_go_both_ways_between_neighbours_by_the_links_of_who_sends() -> None:
    instance = make(stages=4, microbatches=2)
    sends = [send for send in instance.exchanges if send.kind == "send"]
    assert len(sends) == 2 * 2 * 3
    assert {send.size for send in sends} == {8 // 2 * 512 * 2}
    width = len(instance.fabric.dimensions) // 4
    assert {send.span[0] // width for send in sends} == {0, 1, 2, 3}
    assert all(send.span[0] // width == instance.tasks[send.ready_task].stage for send in sends)


def test_stages_on_two_dimensions_send_over_the_outermost_that_differs() -> None:
    tensors = make(stages=16, microbatches=1, layers=EQUAL * 2, batch=1).iteration.tensors
    links = {t.ready_after: t.dimensions for t in tensors if t.kind is CollectiveKind.SEND and "forward" in t.name}
    assert [links[f"stage{stage}.forward1"] for stage in range(1, 16)] == [("node",), ("rail",)] * 7 + [("node",)]


def test_blocks_are_laid_on_stages_as_stated() -> None:
    """Embeddings lie on the first stage and the output on the last one, whose times they are part of."""
    llama = MODELS["llama-3-8b"].layers(128)
    setup = replace(SETUP, stages=4, batch=4, layers_per_stage=(7, 9, 9, 7))
    parts = pipeline_stages(llama, setup).layers
    assert [len(part) for part in parts] == [15, 18, 18, 15]
    assert (parts[0][0].name, parts[1][0].name, parts[-1][-1].name) == ("embedding", "layer7.attention", "head")


def test_five_ways_to_share_a_model_fit_one_network() -> None:
    """Tensor groups, parts of a sequence, copies that share experts, and stages, two of each."""
    mixture = find_model("transformer:layers=2:hidden=64:vocabulary=100:heads=4:inner=64:experts=4:active=2:expert=32")
    network = Network(dimensions=[Dimension(kind="switch", size=2, bandwidth=1e9, name=name) for name in "abcd"])
    setup = replace(SETUP, network=network, stages=2, group=2, context=2, experts=2, microbatches=2, batch=2)
    layers = mixture.layers(8)
    tensors = pipeline(layers, setup).tensors
    sizes = {t.name: (t.kind.value, t.dimensions, t.size) for t in tensors}
    keys = 2 * 64 * 8 * 2 // 2  # of one layer and one sample, in 16 bits, of which a tensor group has halves
    assert sizes["stage1.forward1.keys"] == ("all_gather", ("b",), keys)
    assert sizes["stage1.backward1.key_gradients"] == ("reduce_scatter", ("b",), keys)
    assert sizes["stage1.forward1.output"] == ("send", ("d",), 64 * 8 * 2 // 4)
    assert sizes["stage1.layer0.mlp.gradients"][1] == ("b", "c")
    assert sizes["stage1.layer0.mlp.expert_gradients"][1] == ("b",)


@pytest.mark.parametrize(("gathers", "number"), [("step", 9), ("microbatch", 2 * 2 * 4)])
def test_sharded_stages_gather_parameters_once_or_for_each_pass(gathers: str, number: int) -> None:
    instance = make(stages=2, zero=3, gathers=gathers)
    gathered = [t for t in instance.iteration.tensors if t.kind is CollectiveKind.ALL_GATHER]
    assert len(gathered) == number
    validate(run(instance))


def test_gradients_stay_between_copies_of_a_stage() -> None:
    instance = make(stages=4)
    names = instance.fabric.dimension_names
    spans = {
        tuple(names[k] for k in exchange.span) for exchange in instance.exchanges if exchange.parallelism == "data"
    }
    assert spans == {tuple(f"{name}{stage}" for name in ("node", "rail_data")) for stage in ("", "@2", "@3", "@4")}


def test_messages_and_gradients_share_the_adapter() -> None:
    instance = make(stages=4)
    assert instance.resource_names[:3] == ("node", "rail_data+rail_stages", "node@2")
    assert make(stages=8).resource_names[:2] == ("node", "rail")


def test_memory_is_that_of_the_largest_stage() -> None:
    assert make(stages=8).parameter_bytes == 2 * (512 + 512 * 513)


def test_explanation_pictures_and_trace_show_every_stage() -> None:
    schedule = run(make(stages=2, microbatches=2))
    assert explain(schedule).steps
    labels = pictured(schedule).rows
    assert labels[:2] == ("stage 1", "stage 2")
    assert "compute of stage 2" in str(chrome_trace(schedule))


def test_task_that_runs_before_its_stage_is_free_is_refused() -> None:
    schedule = run(make(stages=2, microbatches=2))
    starts = schedule.task_start.copy()
    number = schedule.instance.chains[1][1]
    starts[1, number] = starts[1, schedule.instance.chains[1][0]]
    with pytest.raises(InvalidSchedule, match="starts too early"):
        validate(replace(schedule, task_start=starts))


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"stages": None}, "--stages: is required"),
        ({"stages": 3}, "--stages = 3: must leave no NPU: .* 3 stages are 15 of 16"),
        ({"data": 3}, "--data = 3: must leave no NPU"),
        ({"experts": 2}, "needs layers with experts"),
        ({"group": 2}, "needs attention and feed-forward layers"),
        ({"stages": 16}, "--stages = 16.*at most the 9"),
        ({"layers_per_stage": (1, 2, 3, 4)}, "--layers-per-stage = '1,2,3,4': must be 4 numbers from 1 on, 9 blocks"),
        ({"context": 2}, "--context = 2: needs layers of attention"),
        ({"microbatches": 3}, "--microbatches = 3: must divide the batch of 8"),
        ({"schedule": "zigzag"}, "--schedule = 'zigzag'.*1f1b"),
        ({"microbatches": 0}, "--microbatches = 0"),
        ({"virtual_stages": 8}, "--virtual-stages = 8: must be at most 2, for 9 layers on 4 stages"),
        ({"schedule": "v"}, "--virtual-stages = 1: must be 2 with --schedule v"),
        ({"virtual_stages": 2, "microbatches": 1}, "--microbatches = 1: must be a multiple of the 4 stages"),
        ({"local_blocks": 2}, "--local-blocks = 2: is not for pipeline"),
        ({"skip": 2}, "--skip = 2: is not for pipeline"),
    ],
)
def test_choices_that_do_not_fit_are_refused(choices: dict[str, Any], words: str) -> None:
    model = MODELS["vgg-16-cifar"]
    layers = model.layers()[:9]
    with pytest.raises(InputError, match=words):
        make_workload(model, layers, replace(SETUP, **choices), parallelism="pipeline")


def test_advice_leaves_out_what_the_order_of_microbatches_does_not_allow() -> None:
    """More stages than microbatches do not go with several parts on each."""
    model, layers = MODELS["bert-large"], MODELS["bert-large"].layers(512)
    setup = replace(SETUP, stages=2, virtual_stages=2, microbatches=2, memory=10**6)
    with pytest.raises(InputError, match="--memory"):
        make_workload(model, layers, setup, parallelism="pipeline")

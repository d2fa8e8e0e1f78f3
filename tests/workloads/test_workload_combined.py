"""Tensor, expert and data parallelism in the stages of a pipeline: who holds what, and the bytes of each exchange."""

from dataclasses import replace
from itertools import combinations
from math import prod
from typing import Any

import pytest
from planning import schedule_of

from themis_opt.base.errors import InputError
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Network
from themis_opt.schedules.validation import validate
from themis_opt.solving.bounds import bounds
from themis_opt.workloads import passes, pipeline
from themis_opt.workloads.groups import place
from themis_opt.workloads.layers import Routing
from themis_opt.workloads.models import MODELS, find_model
from themis_opt.workloads.parallelisms import make_workload
from themis_opt.workloads.setup import Setup
from themis_opt.workloads.timing import Rate

NETWORK = Network(
    dimensions=(
        Dimension(kind="switch", size=4, bandwidth="100 GB/s", latency="1 us", name="node"),
        Dimension(kind="switch", size=16, bandwidth="10 GB/s", latency="4 us", name="net"),
    )
)
MODEL = find_model("transformer:layers=4:hidden=64:heads=4:vocabulary=100:experts=16:active=2:expert=32")
LAYERS = MODEL.layers(16)
TOGETHER: dict[str, Any] = {"group": 2, "experts": 8, "stages": 2, "microbatches": 2, "batch": 4}
H100 = Network(dimensions=tuple(Dimension(kind="switch", size=n, bandwidth="50 GB/s") for n in (8, 32)))
SETUP = Setup(network=NETWORK, timing=Rate(10**12), **TOGETHER)


def make(**choices: Any) -> Instance:
    return make_workload(MODEL, LAYERS, replace(SETUP, **choices), parallelism="pipeline", chunks=1)


def sizes(instance: Instance, kind: str, ending: str = "") -> dict[str, int]:
    """Bytes of the tensors of a kind, by name."""
    return {e.name: e.size for e in instance.exchanges if e.kind == kind and e.name.endswith(ending)}


@pytest.mark.parametrize("places", [2, 4, 8, 16])
@pytest.mark.parametrize(("groups", "limit"), [(1, 1), (4, 2), (8, 3)])
def test_places_that_a_token_goes_to_are_the_mean_over_all_choices(places: int, groups: int, limit: int) -> None:
    experts, active, width, at_each = 16, 3, 16 // groups, 16 // places
    counts = [
        len({expert // at_each for expert in chosen})
        for used in combinations(range(groups), limit)
        for chosen in combinations([e for e in range(experts) if e // width in used], active)
    ]
    routing = Routing(experts, active, 1, groups, limit)
    assert routing.places(places) == pytest.approx(sum(counts) / len(counts), rel=1e-12)


def test_axes_take_parts_of_dimensions_from_the_innermost_outwards() -> None:
    placement = place(NETWORK, (("model", 2), ("experts", 8), ("data", 2), ("stages", 2)))
    assert placement is not None
    assert placement.dimensions == {
        "model": ("node_model",), "experts": ("node_experts", "net_experts"), "data": ("net_data",),
        "stages": ("net_stages",),
    }  # fmt: skip
    assert [split.sizes for split in placement.splits] == [(2, 2), (4, 2, 2)]
    assert place(NETWORK, (("model", 3), ("data", 21))) is None


def test_stages_stay_within_a_dimension_where_copies_would_leave_its_rest() -> None:
    mesh = Network(dimensions=tuple(Dimension(kind="line", size=n, bandwidth="1 GB/s") for n in (4, 5)))
    spans = {e.parallelism: e.span for e in make(network=mesh, experts=None, group=2, data=5).exchanges}
    assert spans["data"] == (5,)  # the second dimension of the second stage, whole


def test_a_stage_sums_and_routes_once_per_pass_and_next_stage_waits() -> None:
    instance = make()
    samples, blocks = 2, [layer for layer in LAYERS if layer.sharded]
    summed = sizes(instance, "all_reduce", ".summed")
    assert sum(summed.values()) == 2 * samples * 2 * sum(layer.outputs + layer.inputs for layer in blocks)
    routing = next(layer.routing for layer in LAYERS if layer.routing)
    tokens = {name: sizes(instance, "all_to_all", name) for name in ("tokens_net_experts", "tokens_node_experts")}
    for (name, places), sent in zip((("net", 4), ("node", 8)), tokens.values(), strict=True):
        once = round(routing.elements * routing.places(places))
        assert sum(sent.values()) == 2 * 2 * 2 * samples * 4 * 2 * once // 2, name
    sends = [e for e in instance.exchanges if e.kind == "send"]
    assert all(send.after for send in sends)
    assert {send.size for send in sends} == {samples * LAYERS[0].outputs * 2 // 2}


def test_parameters_are_divided_by_tensor_groups_stages_and_experts() -> None:
    experts = sum(layer.expert_elements for layer in LAYERS)
    others = sum(layer.elements() for layer in LAYERS) - experts
    held = sum(task.parameter_bytes for task in make().tasks)
    assert held == pytest.approx(2 * (experts / 16 + others / 2), rel=0.01)
    gradients = make(zero=1)
    scattered, gathered = sizes(gradients, "reduce_scatter"), sizes(gradients, "all_gather")
    assert sum(scattered.values()) == sum(gathered.values()) == held


@pytest.mark.parametrize("choices", [{}, {"zero": 2, "update": 10**6}, {"recompute": True, "schedule": "gpipe"}])
def test_schedules_are_valid_and_no_bound_is_beaten(choices: dict[str, Any]) -> None:
    instance = make(**choices)
    schedule = schedule_of(instance, "priority/baseline")
    validate(schedule)
    assert schedule.makespan >= max(bounds(instance).values()) * (1 - 1e-9)


def test_dispatch_crosses_nodes_first_and_combine_last() -> None:
    instance = make_workload(MODEL, LAYERS, Setup(network=NETWORK, timing=SETUP.timing, batch=4), parallelism="expert")
    order = [e.name for e in instance.exchanges if e.name.startswith("layer0.mlp.") and e.kind == "all_to_all"]
    assert [name.rpartition(".")[2] for name in order] == [
        "dispatch_net_model", "dispatch_node", "combine_node", "combine_net_model",
        "combine_gradient_net_model", "combine_gradient_node", "dispatch_gradient_node", "dispatch_gradient_net_model",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"experts": 5}, "--experts = 5: must be 2 or more and divide the 16 experts"),
        ({"experts": 16, "data": 8, "stages": 4}, "--experts = 16: must divide the 8 copies: 64 NPUs in"),
        ({"data": 4}, "--data = 4: must leave no NPU: tensor groups of 2 x 4 copies x 2 stages are 16 of 64"),
    ],
)
def test_what_does_not_fit_the_network_is_refused(choices: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        make(**choices)


def test_more_microbatches_than_fit_are_refused_with_how_many_do(monkeypatch: pytest.MonkeyPatch) -> None:
    most_tensors = 500
    for module in (passes, pipeline):
        monkeypatch.setattr(module, "MAX_TENSORS", most_tensors)
    two, four = (len(make(microbatches=count, batch=4).exchanges) for count in (2, 4))
    each = (four - two) // 2
    most = (most_tensors - (two - 2 * each)) // each
    with pytest.raises(InputError, match=f"tensors, more than {most_tensors}; at most {most} microbatches fit"):
        make(microbatches=most + 1, batch=most + 1)


def test_what_exceeds_the_memory_is_refused_with_what_would_fit() -> None:
    v100 = Network(dimensions=tuple(Dimension(kind="switch", size=n, bandwidth="1 GB/s") for n in (8, 32)))
    model = MODELS["llama-3-8b"]
    setup = Setup(network=v100, timing=Rate(10**14), batch=1, memory=16 * 10**9, device="V100")
    with pytest.raises(InputError) as refused:
        make_workload(model, model.layers(), setup, chunks=1)
    parameters = 8_030_261_248
    words = ["'16 GB of a V100'", f"take {16 * parameters / 1e9:.1f} GB", "--parallelism pipeline --stages 16", "fsdp"]
    assert [word for word in words if word not in str(refused.value)] == []
    for choices in ({"stages": 16}, {"stages": 8, "zero": 1}):
        assert make_workload(model, model.layers(), replace(setup, **choices), parallelism="pipeline", chunks=1)
    with pytest.raises(InputError, match=r"'100 MB': .* no stages, tensor groups or shards"):
        make_workload(model, model.layers(), replace(setup, memory=10**8), chunks=1)


@pytest.mark.parametrize(
    ("choices", "advice"),
    [
        ({"group": 8}, ["--tensor-group 64", "--parallelism fsdp without --tensor-group"]),
        ({"group": 64, "batch": 8}, ["--batch 1", "--parallelism fsdp --recompute without --tensor-group"]),
    ],
)
def test_groups_of_shards_are_told_what_else_holds_the_model(choices: dict[str, Any], advice: list[str]) -> None:
    layers = MODELS["llama-3-70b"].layers(2048)
    given: dict[str, Any] = {"batch": 1, "memory": 80 * 10**9} | choices
    setup = Setup(network=H100, timing=Rate(10**15), **given)
    with pytest.raises(InputError) as refused:
        make_workload(MODELS["llama-3-70b"], layers, setup, parallelism="hsdp")
    assert [words for words in advice if words not in str(refused.value)] == []


def test_states_are_shards_where_zero_says_so() -> None:
    layers, setup = MODEL.layers(16), Setup(network=NETWORK, timing=Rate(10**12), batch=1)
    elements, npus = sum(layer.elements() for layer in layers), prod(NETWORK.sizes)
    activations = 2 * sum(layer.inputs for layer in layers)
    for zero, states in (
        (0, 16 * elements),
        (1, 4 * elements + 12 * elements // npus),
        (2, 2 * elements + 2 * (elements // npus) + 12 * elements // npus),
    ):
        enough = replace(setup, zero=zero, memory=states + activations)
        make_workload(MODEL, layers, enough, chunks=1)
        with pytest.raises(InputError, match="--memory"):
            make_workload(MODEL, layers, replace(enough, memory=states + activations - 2), chunks=1)

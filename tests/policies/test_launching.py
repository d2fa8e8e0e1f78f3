"""What each launching policy fuses, and when it launches it."""

import pytest
from small_iterations import FOUR_TASKS, iteration, run, tensor, two_layers

from themis_opt.base.errors import InputError
from themis_opt.policies.launching.ddp import Ddp
from themis_opt.policies.launching.dear import Dear
from themis_opt.policies.launching.fused import Fused
from themis_opt.policies.launching.horovod import Horovod
from themis_opt.policies.launching.wait_free import WaitFree
from themis_opt.policies.registry import LAUNCHING, make_policy, split_specification
from themis_opt.problem.instance import Instance
from themis_opt.problem.phases import CollectiveKind
from themis_opt.schedules.plan import Launch, TaskOf
from themis_opt.workloads.models import find_model

MIB = 2**20


def layers(kilobytes: list[float], duration: float = 1000) -> Instance:
    """Layers with gradients of some kB, from the first on; passes take `duration` us per layer."""
    numbers = range(len(kilobytes))
    tasks = {f"forward{n}": duration for n in numbers} | {f"backward{n}": duration for n in reversed(numbers)}
    gradients = [tensor(f"g{n}", kilobytes[n], f"backward{n}", f"forward{n}") for n in numbers]
    return iteration(tasks, gradients)


def names(instance: Instance, launches: tuple[Launch, ...]) -> list[list[str]]:
    """Names of the tensors of each launch."""
    return [[instance.exchanges[t].name for t in launch.tensors] for launch in launches]


def mixed() -> Instance:
    """Tensors that must not be fused with each other."""
    tensors = [
        tensor("data", 4, "backward2", "forward2"),
        tensor("other data", 4, "backward1", "forward1"),
        tensor("floats", 4, "backward1", "forward1", element_bytes=4),
        tensor("inner", 4, "backward1", "forward1", dimensions=["dim1"]),
        tensor("scatter", 4, "backward1", "forward1", kind="reduce_scatter"),
        tensor("activations", 4, "forward1", "forward2", parallelism="data"),
        tensor("model", 4, "backward1", "forward1", parallelism="model"),
    ]
    return iteration(FOUR_TASKS, tensors, dimensions=2)


@pytest.mark.parametrize("launching", [Fused(), Ddp(), Horovod(), Dear()])
def test_only_equal_data_parallel_tensors_for_the_next_iteration_are_fused(
    launching: Fused | Ddp | Horovod | Dear,
) -> None:
    instance = mixed()
    together = {frozenset(launch) for launch in names(instance, launching(instance))}
    alone = ("floats", "inner", "scatter", "activations", "model")
    assert together == {
        frozenset(names_of_launch) for names_of_launch in (("data", "other data"), *((name,) for name in alone))
    }


@pytest.mark.parametrize(
    ("launching", "places"),
    [
        pytest.param(Fused(), [(TaskOf(3, 0), TaskOf(0, 1))], id="the last ready, for the first needed"),
        pytest.param(WaitFree(), [(TaskOf(2, 0), TaskOf(1, 1)), (TaskOf(3, 0), TaskOf(0, 1))], id="each alone"),
    ],
)
def test_launches_leave_when_they_are_ready(launching: Fused | WaitFree, places: list[tuple[TaskOf, TaskOf]]) -> None:
    assert [(launch.after, launch.before) for launch in launching(two_layers())] == places


@pytest.mark.parametrize(
    ("kilobytes", "launching", "buckets", "tasks"),
    [
        pytest.param(
            [4, 9, 3, 1],
            Ddp(first_cap=1000, cap=10_000),
            [["g3"], ["g2", "g1"], ["g0"]],
            [4, 6, 7],
            id="a cap: 1 closes the first bucket, 3 + 9 reach ten, 4 is left, none leaves before another",
        ),
        pytest.param(
            [1, 1, 1], Horovod(cycle=5 * 10**9), [["g2"], ["g1", "g0"]], [3, 5], id="a cycle at 5 of 4, 5, 6 ms"
        ),
        pytest.param(
            [4, 5, 6, 3], Dear(threshold=10_000), [["g2", "g3"], ["g0", "g1"]], [5, 7], id="what tensors fill"
        ),
    ],
)
def test_buckets_end_at(
    kilobytes: list[float], launching: Ddp | Horovod | Dear, buckets: list[list[str]], tasks: list[int]
) -> None:
    instance = layers(kilobytes)
    launches = tuple(launch for launch in launching(instance) if launch.part != "gather")
    assert names(instance, launches) == buckets
    assert [launch.after.task for launch in launches] == tasks


def resnet_50_weights() -> list[int]:
    """Weights of the layers in the order of the public simulator: of a block, the shortcut first, nothing else."""
    sizes: dict[str, int] = {}
    for layer in find_model("resnet-50").layers():
        sizes[layer.name] = layer.parameters[0].elements
    blocks: dict[str, list[str]] = {}
    for name in sizes:
        blocks.setdefault(name.rpartition(".")[0] or name, []).append(name)
    return [sizes[n] for block in blocks.values() for n in sorted(block, key=lambda n: not n.endswith("downsample"))]


@pytest.mark.parametrize(("element_bytes", "expected"), [(4, [7.81, 30.0, 27.0, 25.0, 7.47]), (2, [3.91, 28.5, 16.24])])
def test_ddp_cuts_resnet_50_in_a_few_buckets(element_bytes: int, expected: list[float]) -> None:
    """Caps of 1 and 25 MiB, https://pytorch.org/docs/stable/notes/ddp.html; MiB of each bucket."""
    instance = layers([weights * element_bytes / 1000 for weights in resnet_50_weights()])
    tensors = instance.exchanges
    buckets = [sum(tensors[t].size for t in bucket.tensors) / MIB for bucket in Ddp()(instance)]
    assert buckets == pytest.approx(expected, abs=5e-3)


def test_dear_halves_every_all_reduce_and_gathers_one_group_ahead_of_the_forward_pass() -> None:
    """Group 0 at the end of the iteration, group g + 1 when the first layer of group g begins."""
    launches = Dear(threshold=1)(layers([3, 3, 3]))
    gathers = launches[3:]
    assert [(launch.part, launch.kind) for launch in launches] == [
        *[("scatter", CollectiveKind.REDUCE_SCATTER)] * 3,
        *[("gather", CollectiveKind.ALL_GATHER)] * 3,
    ]
    assert [g.after for g in gathers] == [TaskOf(5, 0), TaskOf(5, 0), TaskOf(0, 1)]
    assert [g.before for g in gathers] == [TaskOf(0, 1), TaskOf(1, 1), TaskOf(2, 1)]
    assert [g.after_launches for g in gathers] == [(0, 1, 2), (3,), (4,)]


@pytest.mark.parametrize("order", ["free", "reverse"])
@pytest.mark.parametrize("chunk_policy", ["themis+scf", "hourglass", "hourglass:sizes=free", "search:evaluations=8"])
def test_dear_mirrors_what_the_chunk_policy_decides_where_gathers_must_reverse(order: str, chunk_policy: str) -> None:
    instance = two_layers(3000, 7000, dimensions=3, chunks=6, ag_order=order)
    assert run(instance, f"dear:threshold=1B/{chunk_policy}").period.is_steady


@pytest.mark.parametrize(
    ("specification", "parts"),
    [
        ("ddp/themis+scf", ("ddp", "themis+scf")),
        ("ddp:cap=10MiB", ("ddp:cap=10MiB", "hourglass")),
        ("themis+fifo", ("", "themis+fifo")),
        ("baseline", ("", "baseline")),
    ],
)
def test_a_part_of_a_specification_may_be_left_out(specification: str, parts: tuple[str, str]) -> None:
    assert split_specification(specification) == parts


@pytest.mark.parametrize(
    ("specification", "message"),
    [
        ("never/themis", "policy = 'never': unknown policy; use one of fused, wait_free"),
        ("ddp:size=3/themis", "unknown knob 'size'; use one of order, urgent, ahead, first_cap, cap"),
        ("ddp:cap=0/themis", "knob cap: "),
        ("ddp:cap=1s/themis", "knob cap: "),
        ("fused:order=oldest/themis", "knob order: "),
        ("ddp/never", "policy = 'never': unknown policy"),
        ("ddp/hourglass+fifo", "takes no dispatch rule"),
    ],
)
def test_a_wrong_specification_is_refused(specification: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        make_policy(specification)
    assert message in str(caught.value)


def test_all_to_all_goes_first_unless_the_policy_says_otherwise() -> None:
    """All tensors are ready at once; rows overtake what has not begun, or wait for what was launched before."""
    tensors = [
        tensor("gradients", 10, "work", "work"),
        tensor("more", 10, "work", "work", parallelism="model"),
        tensor("rows", 2, "work", "work", kind="all_to_all", parallelism="model"),
    ]
    instance = iteration({"work": 10}, tensors)
    by_default, in_line = (
        run(instance, f"wait_free:order=layer{knob}/baseline+fifo", iterations=2) for knob in ("", ":urgent=false")
    )
    rows = [n for n, exchange in enumerate(by_default.launched) if exchange.name == "rows"]
    assert [launch.urgent for launch in by_default.plan.launches] == [n in rows for n in range(3)]
    assert not any(launch.urgent for launch in in_line.plan.launches)
    assert by_default.period.launch_ready[0, rows[0]] == min(by_default.period.launch_ready[0])
    assert in_line.period.launch_ready[0, rows[0]] > by_default.period.launch_ready[0, rows[0]]


@pytest.mark.parametrize("specification", [*LAUNCHING, "wait_free:barrier=true"])
@pytest.mark.parametrize("ready", ["first", "second"])
def test_the_stage_that_needs_a_tensor_waits_for_it(specification: str, ready: str) -> None:
    """The other stage of the pipeline has nothing to wait for."""
    stages = [{"name": name, "duration": "10 us", "stage": n} for n, name in enumerate(("first", "second"))]
    tensors = [tensor("gradients", 40, ready, "second", needed_in="next")]
    instance = iteration({}, [], iteration={"tasks": stages, "tensors": tensors})
    assert run(instance, f"{specification}/hourglass").plan.launches[-1].before == TaskOf(1, 1)

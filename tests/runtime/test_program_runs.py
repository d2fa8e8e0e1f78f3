"""Programs, run by threads: every rank ends with exactly what the collective defines."""

import json
from dataclasses import asdict, replace
from itertools import cycle

import numpy as np
import pytest
from in_threads import first_fault, run_in_threads
from planning import schedule_of
from programs import instance, network, program, schedule

from themis_opt.base.errors import CyclicPlan, InputError
from themis_opt.problem.exchanges import Collective, Tensor
from themis_opt.problem.instance import Instance
from themis_opt.problem.iteration import ComputeTask, Iteration
from themis_opt.problem.phases import CollectiveKind
from themis_opt.runtime.elements import DTYPES, REDUCTIONS
from themis_opt.runtime.links import RankFailure
from themis_opt.runtime.movement import sources
from themis_opt.runtime.program import PROGRAM, RunOptions, compile_program, prediction

KINDS = [kind for kind in CollectiveKind if kind is not CollectiveKind.SEND]

NETWORKS = ("s4 r2", "s3 f2", "r3 s5", "s2 r2 f2", "s8")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("words", NETWORKS)
def test_every_kind_ends_with_its_definition(words, kind):
    assert first_fault(program(words, kind, "random:seed=3")) is None


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_and_reduction_is_exact(dtype, reduction):
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes", reason="bfloat16 needs ml_dtypes")
    options = RunOptions(dtype=dtype, reduction=reduction, paced=False)
    assert first_fault(program("s3 r2", size=1_000, chunks=3, options=options)) is None


def test_messages_between_neighbours_are_refused():
    with pytest.raises(InputError, match="kind = 'send': the runtime runs no messages"):
        program("s4 r2", CollectiveKind.SEND)


def test_ranks_of_a_ring_are_predicted_to_reach_each_other():
    """Around a ring of 8, 16 of 8 blocks pass each rank; ranks send the 7 that are for others straight."""
    planned = schedule("r8", CollectiveKind.ALL_TO_ALL, "baseline", size=80_000, chunks=1)
    ran = prediction(planned, RunOptions(paced=False))
    assert (planned.costs.sent.tolist(), ran.costs.sent.tolist()) == ([160_000], [70_000])


def test_random_schedules_are_exact():
    kinds, networks, flights = cycle(KINDS), cycle(NETWORKS), cycle((1, 2, 3))
    for seed in range(12):
        options = RunOptions(in_flight=next(flights), paced=False)
        compiled = program(next(networks), next(kinds), f"random:seed={seed}", options, size=2 * (997 + seed), chunks=7)
        assert first_fault(compiled, seed) is None


def test_several_collectives_on_parts_of_the_network_run_beside_each_other():
    several = tuple(
        Collective(kind=kind, size=6_006, chunks=4, dimensions=span)
        for kind, span in (("all_reduce", ("dim1", "dim3")), ("all_to_all", ("dim2",)), ("broadcast", None))
    )
    problem = Instance(network=network("s2 r3 f2"), collectives=several)
    planned = schedule_of(problem, "themis+scf")
    assert first_fault(compile_program(planned, RunOptions(paced=False))) is None


def test_iterations_run_with_their_compute():
    tasks = tuple(ComputeTask(name=name, duration="1 ms") for name in ("forward", "backward"))
    tensors = tuple(
        Tensor(name=name, size=4_000, ready_after="backward", needed_before="forward") for name in ("a", "b")
    )
    problem = Instance(network=network("s2 r2"), iteration=Iteration(tasks=tasks, tensors=tensors), chunks=3)
    for policy in ("ddp/themis+scf", "dear/themis+scf", "priority/baseline+fifo"):
        planned = schedule_of(problem, policy)
        compiled = compile_program(planned, RunOptions(paced=False, iterations=3))
        assert compiled.iterations == 3
        assert first_fault(compiled) is None


def test_more_chunks_than_elements_leave_some_without_any():
    assert first_fault(program("s4 r2", size=40, chunks=20)) is None


def test_programs_survive_json():
    compiled = program("s4 r2", options=RunOptions(paced=True))
    assert PROGRAM.validate_python(json.loads(json.dumps(asdict(compiled)))) == compiled


def test_sources_are_those_of_the_definition():
    everyone = tuple((member, 0) for member in range(3))
    assert sources(CollectiveKind.ALL_REDUCE, 3)[2][0] == everyone
    assert sources(CollectiveKind.REDUCE, 3)[0][0] == everyone
    assert sources(CollectiveKind.REDUCE, 3)[1] == ((), (), ())
    assert sources(CollectiveKind.ALL_TO_ALL, 3)[2][1] == ((1, 2),)
    assert sources(CollectiveKind.ALL_GATHER, 3)[2][1] == ((1, 1),)


def test_wrong_results_are_found():
    """A reduction that is not the one that was asked for must not pass."""
    asked = program("s4 r2", options=RunOptions(reduction="sum", paced=False))
    wrong = first_fault(asked, others={0: replace(asked, reduction="max")})
    assert wrong is not None
    assert "element (" in wrong


def test_arrived_messages_are_counted():
    """Where links are slow, no operation ends for long, and yet the run does not hang."""
    movers = run_in_threads(program("s2", size=2**22, chunks=1, options=RunOptions(paced=False)))
    assert min(mover.num_messages for mover in movers) > 2


def test_swapped_stages_of_one_rank_are_named():
    """One rank that follows another order must be stopped by the headers, not by luck of sizes."""
    compiled = program("s4 r2", policy="baseline+fifo", size=2**14, chunks=2)
    queue = compiled.queues[0]
    swapped = replace(compiled, queues=((queue[1], queue[0], *queue[2:]), *compiled.queues[1:]))
    with pytest.raises(RankFailure, match=r"rank \d sent .* chunk \d RS on dim1 .* where .* chunk \d RS on dim1"):
        run_in_threads(compiled, patience=2, others={3: swapped})


def test_silent_ranks_are_named():
    compiled = program("s4 r2", size=2**14, chunks=2)
    idle = replace(compiled, queues=tuple(() for _ in compiled.queues))
    with pytest.raises(RankFailure, match=r"rank \d sent nothing for 0\.5 s"):
        run_in_threads(compiled, patience=0.5, others={2: idle})


@pytest.mark.parametrize(("field", "value"), [("in_network", True), ("compression", 2.0)])
def test_what_ranks_cannot_do_is_refused(field, value):
    problem = instance("s4 r2")
    dimensions = (problem.network.dimensions[0].replace(**{field: value}), problem.network.dimensions[1])
    problem = problem.replace(network=problem.network.replace(dimensions=dimensions))
    planned = schedule_of(problem, "baseline+fifo")
    with pytest.raises(InputError, match=rf"network.dimensions\[0\].{field}"):
        compile_program(planned)


def test_cyclic_orders_are_refused():
    planned = schedule("s2 r2", "all_reduce", "baseline+fifo", chunks=2)
    backwards = tuple(np.asarray(sequence)[::-1] for sequence in planned.enforced_plan().sequences)
    cyclic = replace(planned, plan=planned.plan.enforcing(backwards))
    object.__setattr__(cyclic, "start", planned.start[::-1].copy())
    with pytest.raises(CyclicPlan, match="wait for each other"):
        compile_program(cyclic)


@pytest.mark.parametrize(("name", "value"), [("dtype", "float8"), ("reduction", "median")])
def test_unknown_options_are_refused(name, value):
    with pytest.raises(InputError, match=f"{name} = '{value}': must be one of"):
        program("s2", options=RunOptions(**{name: value}))


def test_buffers_beyond_the_limit_are_refused():
    with pytest.raises(InputError, match=r"needs .* on every rank"):
        program("s2", size=2**40, chunks=4)

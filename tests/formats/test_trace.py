import json
from collections import defaultdict
from itertools import pairwise

import iteration_schedules
import pytest
from iteration_schedules import WITH_COMPUTE, with_and_without_compute, with_compute
from planning import schedule_of

from themis_opt.base.errors import InputError
from themis_opt.formats import trace
from themis_opt.formats.trace import IN_FLIGHT, NETWORK, NPU, chrome_trace
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Network
from themis_opt.schedules.schedule import Schedule


def scheduled(*collectives: Collective, latency: str = "0 ns") -> Schedule:
    dimensions = tuple(
        Dimension(kind="switch", size=4, bandwidth=bandwidth, latency=latency) for bandwidth in ("2 GB/s", "1 GB/s")
    )
    instance = Instance(network=Network(dimensions=dimensions), collectives=collectives)
    return schedule_of(instance, "themis+scf")


@pytest.fixture
def gradients() -> Schedule:
    return scheduled(Collective(kind="all_reduce", size="256 MB", chunks=4, name="gradients"), latency="1700 ns")


def mixed() -> Schedule:
    """Every kind of collective, with chunk sizes that make times of odd picoseconds."""
    return scheduled(
        Collective(kind="all_reduce", size=10007 * 2, chunks=7, name="ar"),
        Collective(kind="all_to_all", size=5003 * 2, chunks=3, name="a2a", dimensions=("dim1",)),
        Collective(kind="reduce_scatter", size=7001 * 2, chunks=3, name="rs"),
        Collective(kind="all_gather", size=7001 * 2, chunks=3, name="ag", release="3 us"),
        latency="333 ns",
    )


def events(schedule: Schedule, phase: str, *pids: int) -> list[dict]:
    pids = pids or (NETWORK,)
    return [e for e in chrome_trace(schedule)["traceEvents"] if e["ph"] in phase and e["pid"] in pids]


def arrows(schedule: Schedule, name: str) -> list[tuple[dict, dict]]:
    """Start and end of every arrow of a name between tasks and stages."""
    ends = defaultdict(dict)
    for e in events(schedule, "sf", NPU, NETWORK):
        if e["cat"] == "launch" and e["name"] == name:
            ends[e["id"]][e["ph"]] = e
    return [(pair["s"], pair["f"]) for pair in ends.values()]


def nanoseconds(microseconds: float) -> int:
    """How Perfetto reads a time."""
    return int(microseconds * 1000)


@with_and_without_compute
def test_the_trace_is_valid_json(schedule):
    assert json.loads(json.dumps(chrome_trace(schedule), allow_nan=False)) == chrome_trace(schedule)


def test_a_slice_carries_bytes_and_the_time_of_its_result(gradients):
    first = events(gradients, "X")[0]
    assert first["args"] == {
        "collective": "gradients",
        "chunk": 0,
        "phase": "RS",
        "bytes_sent": 48e6,
        "bytes_held": 64e6,
        "ready_us": first["ts"] + first["dur"] + 2 * 1.7,
    }


@pytest.mark.parametrize("schedule", [mixed(), *WITH_COMPUTE.values()], ids=["mixed", *WITH_COMPUTE])
def test_slices_of_a_track_never_overlap(schedule):
    tracks = defaultdict(list)
    for e in events(schedule, "X", NETWORK, IN_FLIGHT, NPU):
        begin = nanoseconds(e["ts"])
        tracks[e["pid"], e["tid"]].append((begin, begin + nanoseconds(e["dur"])))
    assert {pid for pid, _ in tracks} == {NETWORK, IN_FLIGHT} | ({NPU} if schedule.has_period else set())
    for spans in tracks.values():
        assert all(before[1] <= after[0] for before, after in pairwise(sorted(spans)))


def test_times_keep_their_picoseconds():
    schedule = mixed()
    slices = events(schedule, "X")
    assert [round(e["ts"] * 10**6) for e in slices] == schedule.start.tolist()
    assert [round(e["dur"] * 10**6) for e in slices] == (schedule.end - schedule.start).tolist()


def test_a_time_without_an_exact_float_is_not_cut_to_the_nanosecond_before():
    assert int(1001 / 1000 * 1000) == 1000
    schedule = scheduled(Collective(kind="all_to_all", size="1 MB", chunks=1, release="1001 ns"))
    assert nanoseconds(events(schedule, "X")[0]["ts"]) == 1001


def test_a_flow_visits_the_stages_of_its_chunk_in_order(gradients):
    slices = {(e["tid"], e["ts"]): e for e in events(gradients, "X")}
    flows = defaultdict(list)
    for e in events(gradients, "stf"):
        flows[e["id"]].append((e["ph"], slices[e["tid"], e["ts"]]["name"]))
    assert [flows[i] for i in sorted(flows)] == [
        [(ph, f"gradients c{chunk} {phase}") for ph, phase in zip("sttf", ("RS", "RS", "AG", "AG"), strict=True)]
        for chunk in range(4)
    ]


def test_a_chunk_of_one_stage_has_no_flow():
    schedule = scheduled(Collective(kind="all_to_all", size="1 MB", chunks=3, dimensions=("dim2",)))
    assert events(schedule, "stf") == []


def test_latencies_are_slices_in_flight(gradients):
    durations = {e["name"]: e["dur"] for e in events(gradients, "X", IN_FLIGHT)}
    assert durations == dict.fromkeys(("dim1 RS", "dim1 AG", "dim2 RS", "dim2 AG"), 3.4)


def test_the_utilisation_counter_weighs_dimensions_by_bandwidth():
    schedule = scheduled(
        Collective(kind="all_to_all", size="4 MB", chunks=1, dimensions=("dim1",)),
        Collective(kind="all_to_all", size="4 MB", chunks=1, dimensions=("dim2",), name="slow"),
    )
    counter = [(e["ts"], e["args"]["share"]) for e in events(schedule, "C") if e["name"] == "utilisation"]
    assert counter == [(0, 1), (1500, pytest.approx(1 / 3)), (3000, 0)]


def test_a_schedule_too_big_for_viewers_is_refused_with_numbers(gradients, monkeypatch):
    monkeypatch.setattr(trace, "MAX_TRACED_STAGES", 15)
    with pytest.raises(InputError, match="16 stages holds about 80 events"):
        chrome_trace(gradients)


@with_compute
def test_every_task_and_the_start_of_the_next_iteration_is_a_slice(schedule):
    tasks = [task.name for task in schedule.instance.tasks] * (schedule.num_iterations - 1)
    assert [e["name"] for e in events(schedule, "X", NPU)] == [*tasks, tasks[0]]


@with_compute
def test_every_stage_of_a_complete_iteration_is_a_slice(schedule):
    assert len(events(schedule, "X")) == (schedule.num_iterations - 1) * schedule.plan.num_stages


def test_slices_are_named_after_their_iteration():
    schedule = iteration_schedules.scheduled()
    first, last = events(schedule, "X")[0], events(schedule, "X")[-1]
    assert (first["name"], last["name"]) == ("rows i0 c0 A2A", f"w0 i{schedule.num_iterations - 2} c1 AG")


@with_compute
@pytest.mark.parametrize(
    ("name", "begin", "end", "without"), [("launch", NPU, NETWORK, 2), ("result", NETWORK, NPU, 3)]
)
def test_arrows_lead_from_releasing_tasks_to_first_stages_and_from_last_ones_to_tasks_that_wait(
    schedule, name, begin, end, without
):
    shown = arrows(schedule, name)
    assert len(shown) >= len(schedule.plan.launches) * (schedule.num_iterations - without)
    assert all((a["pid"], b["pid"]) == (begin, end) and a["ts"] <= b["ts"] for a, b in shown)


@with_compute
def test_every_end_of_an_arrow_lies_on_a_slice(schedule):
    starts = {(e["pid"], e["tid"], e["ts"]) for e in events(schedule, "X", NPU, NETWORK)}
    ends = {(e["pid"], e["tid"], e["ts"]) for e in events(schedule, "sf", NPU, NETWORK)}
    assert ends
    assert ends <= starts


@pytest.mark.parametrize("limit", ["MAX_PICTURED_BARS", "MAX_ITERATIONS"])
def test_only_the_last_iterations_are_shown_where_all_are_too_many(monkeypatch, limit):
    schedule = iteration_schedules.scheduled()
    monkeypatch.setattr(trace, limit, {"MAX_PICTURED_BARS": schedule.plan.num_stages, "MAX_ITERATIONS": 1}[limit])
    shown = {e["args"]["iteration"] for e in events(schedule, "X", NPU)}
    assert shown == {schedule.num_iterations - 2, schedule.num_iterations - 1}
    assert len(events(schedule, "X")) == schedule.plan.num_stages

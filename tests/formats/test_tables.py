import csv
import io

from iteration_schedules import with_compute
from planning import schedule_of

from themis_opt.formats.tables import task_rows, to_csv
from themis_opt.problem.exchanges import Collective
from themis_opt.problem.instance import Instance
from themis_opt.problem.network import Dimension, Network
from themis_opt.schedules.schedule import Schedule


def scheduled(kind: str) -> Schedule:
    dimensions = tuple(
        Dimension(kind="switch", size=4, bandwidth=bandwidth, latency="700 ns") for bandwidth in ("2 GB/s", "1 GB/s")
    )
    collective = Collective(kind=kind, size="256 MB", chunks=4, name='the "big", one')
    instance = Instance(network=Network(dimensions=dimensions), collectives=(collective,))
    return schedule_of(instance, "baseline+fifo")


def test_there_is_one_row_per_stage():
    rows = scheduled("all_reduce").stage_rows()
    assert [(row["chunk"], row["position"]) for row in rows] == [(c, p) for c in range(4) for p in range(4)]


def test_a_row_holds_names_nanoseconds_and_bytes():
    assert scheduled("all_reduce").stage_rows()[0] == {
        "collective": 'the "big", one',
        "chunk": 0,
        "position": 0,
        "phase": "reduce_scatter",
        "dimension": "dim1",
        "start_ns": 0.0,
        "end_ns": 24e6,
        "ready_ns": 24e6 + 1400,
        "bytes_sent": 48e6,
        "bytes_held_before": 64e6,
    }


def test_times_keep_their_picoseconds():
    schedule = scheduled("all_reduce")
    assert [round(row["end_ns"] * 1000) for row in schedule.stage_rows()] == schedule.end.tolist()


@with_compute
def test_rows_with_compute_are_those_of_the_last_complete_iteration(schedule):
    row = schedule.num_iterations - 2
    begin = schedule.task_start[row, 0]
    starts = [round(stage["start_ns"] * 1000) for stage in schedule.stage_rows()]
    assert starts == (schedule.period.stage_start[row] - begin).tolist()
    ends = [round(task["end_ns"] * 1000) for task in task_rows(schedule)]
    assert ends == (schedule.period.task_end[row] - begin).tolist()


@with_compute
def test_rows_with_compute_name_launches_and_tasks(schedule):
    assert {row["collective"] for row in schedule.stage_rows()} == {launch.name for launch in schedule.plan.launches}
    assert task_rows(schedule)[0] == {"task": "layer0_forward", "start_ns": 0.0, "end_ns": 40_000.0}


def test_csv_reads_back():
    rows = scheduled("all_reduce").stage_rows()
    read = list(csv.DictReader(io.StringIO(to_csv(rows))))
    assert read == [{key: str(value) for key, value in row.items()} for row in rows]


def test_control_characters_are_spelled_out():
    assert "\x1b" not in to_csv([{"name": "red \x1b[31m"}])
    assert r"\x1b[31m" in to_csv([{"name": "red \x1b[31m"}])

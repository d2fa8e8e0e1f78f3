import csv
import io

from iteration_schedules import with_compute
from planning import schedule_of

from themis_opt.formats.tables import columns_csv, task_columns, to_csv
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


def test_a_row_of_each_stage_holds_names_nanoseconds_and_bytes():
    rows = scheduled("all_reduce").to_frame().to_dict("records")
    assert [(row["chunk"], row["position"]) for row in rows] == [(c, p) for c in range(4) for p in range(4)]
    assert rows[0] == {
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
    assert [round(end * 1000) for end in schedule.stage_columns()["end_ns"]] == schedule.end.tolist()


@with_compute
def test_rows_with_compute_are_those_of_the_last_complete_iteration(schedule):
    row = schedule.num_iterations - 2
    begin = schedule.task_start[row, 0]
    starts = [round(start * 1000) for start in schedule.stage_columns()["start_ns"]]
    assert starts == (schedule.period.stage_start[row] - begin).tolist()
    ends = [round(end * 1000) for end in task_columns(schedule)["end_ns"]]
    assert ends == (schedule.period.task_end[row] - begin).tolist()


@with_compute
def test_rows_with_compute_name_launches_and_tasks(schedule):
    assert set(schedule.stage_columns()["collective"]) == {launch.name for launch in schedule.plan.launches}
    assert [column[0] for column in task_columns(schedule).values()] == ["layer0_forward", 0.0, 40_000.0]


def test_csv_reads_back():
    columns = scheduled("all_reduce").stage_columns()
    read = list(csv.DictReader(io.StringIO(columns_csv(columns))))
    assert {name: [row[name] for row in read] for name in columns} == {n: [*map(str, c)] for n, c in columns.items()}


def test_control_characters_are_spelled_out():
    assert "\x1b" not in to_csv([{"name": "red \x1b[31m"}])
    assert r"\x1b[31m" in to_csv([{"name": "red \x1b[31m"}])

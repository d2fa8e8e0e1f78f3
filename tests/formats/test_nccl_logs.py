"""Networks calibrated from nccl-tests and the NCCL Inspector."""

import json
import re

import pytest
from reader_samples import LINEAR, NCCL_JSON, NCCOM, RCCL_CSV, RCCL_LINES, RCCL_ROWS, inspector_line, nccl_table

from themis_opt.base.errors import InputError
from themis_opt.base.sources import Source
from themis_opt.base.units import format_size
from themis_opt.formats.readers import nccl_inspector
from themis_opt.formats.readers.nccl_tests import read_log
from themis_opt.formats.readers.registry import import_files
from themis_opt.problem.phases import CollectiveKind

US = 10**6


def dimensions(imported):
    return [(d.size, d.bandwidth / 1e9, d.latency / US) for d in imported.instance.network.dimensions]


def test_a_table_becomes_a_dimension(write):
    imported = import_files(write(all_reduce__txt=nccl_table(LINEAR)))
    ((size, bandwidth, latency),) = dimensions(imported)
    assert size == 8
    assert bandwidth == pytest.approx(200, rel=1e-3)
    assert latency == pytest.approx(3, rel=1e-3)
    assert len(imported.tables["dim1: measured against fitted"]) == 2 * len(LINEAR)


def test_the_time_of_the_fit_stands_beside_the_measured_one(write):
    slow = nccl_table([(size, 6 * out, 6 * into) for size, out, into in LINEAR], program="all_gather_perf")
    imported = import_files(write(all_reduce__txt=nccl_table(LINEAR) + slow))
    row = next(r for r in imported.tables["dim1: measured against fitted"] if r["size"] == format_size(LINEAR[-1][0]))
    assert row["measured"] != row["fitted"]
    words = f"takes {row['measured']}, as measured; dim1, a ring that is fitted to all times, takes {row['fitted']}."
    assert imported.sentences[0].endswith(words)


def test_programs_that_are_built_for_mpi_are_known(write):
    assert dimensions(import_files(write(x__txt=nccl_table(LINEAR, program="all_reduce_perf_mpi"))))


def test_a_file_per_dimension_is_a_network(write):
    files = write(all_reduce_inner__txt=nccl_table(LINEAR), outer__json=NCCL_JSON)
    imported = import_files(files)
    assert [dimension[0] for dimension in dimensions(imported)] == [8, 4]  # of eight ranks in two groups


def test_an_all_gather_counts_what_it_makes(write):
    ((_, bandwidth, latency),) = dimensions(import_files(write(x__json=NCCL_JSON)))
    assert bandwidth == pytest.approx(0.75 * 100, rel=1e-3)  # 3/4 of the bytes are sent at 1e5 bytes per microsecond
    assert latency == pytest.approx(5 / 3, rel=1e-3)


def test_protocols_that_change_with_the_size_are_told(write):
    def time(size):
        sent = 1.75 * size / 1000
        return min(15 + sent / 150, 40.6 + sent / 276, 56 + sent / 300)

    rows = [(2**k, time(2**k), time(2**k)) for k in range(10, 31)]
    imported = import_files(write(all_reduce__txt=nccl_table(rows)))
    assert any(note.startswith("dim1: outside the model: around ") for note in imported.notes)


def test_the_inspector_tells_dimensions_by_nodes(write):
    inner = "".join(inspector_line("AllReduce", size, out) for size, out, _ in LINEAR)
    outer = "".join(inspector_line("AllReduce", size, 2 * out, ranks=4, nodes=4) for size, out, _ in LINEAR)
    imported = import_files(write(log__json=inner + outer + inspector_line("AllReduce", 8, 9.0, ranks=16, nodes=4)))
    assert [dimension[0] for dimension in dimensions(imported)] == [8, 4]
    assert any("1 collectives that span both dimensions" in note for note in imported.notes)


def test_the_inspector_gives_a_reduce_scatter_by_its_result(write):
    lines = [inspector_line("ReduceScatter", size // 8, out / 2, blocks=8) for size, out, _ in LINEAR]
    ((_, bandwidth, latency),) = dimensions(import_files(write(log__json="".join(lines))))
    assert bandwidth == pytest.approx(200, rel=1e-3)
    assert latency == pytest.approx(3, rel=1e-3)


BROKEN = [
    (nccl_table(LINEAR, program="latency_perf"), "must be one of|does not say which collective"),
    (nccl_table(LINEAR, ranks=1), "must list two ranks or more"),
    (nccl_table(LINEAR).replace("Rank  1 ", "Rank  0 "), "each once"),
    (nccl_table(LINEAR).replace("Rank  7 Group  0", "Rank  7 Group  1"), "as many as the others"),
    (re.sub(r"Rank  (\d) Group  0", r"Rank  \1 Group  \1", nccl_table(LINEAR)), "two ranks or more each"),
    (nccl_table(LINEAR).replace("Rank  1 ", "rank  1 "), "must list all ranks from 0 on: 1 is missing"),
    (nccl_table(LINEAR).replace("(us)", "(ms)"), r"line 15: times must be in microseconds"),
    (nccl_table(LINEAR).replace("float sum -1", "float sum"), "holds no measured time; .* rows are not whole"),
    (re.sub(r"(?<=\d\.\d\d) 0\b", " 7", nccl_table(LINEAR)), "holds no measured time; .* results are wrong"),
    (nccl_table(LINEAR[:1]), "must be at least 4"),
    (json.dumps(NCCL_JSON | {"results": {}}), "results: must be a list of objects"),
    (json.dumps(NCCL_JSON | {"args": 1.0}), "does not say which collective it measures"),
    (
        json.dumps(NCCL_JSON | {"results": [{"size": 8, "out_of_place": {"time": 10**400}}]}),
        "must be a time in microseconds",
    ),
    (json.dumps(NCCL_JSON | {"config": {}}), r"config\.devices: must be a list of objects"),
    (inspector_line("AllReduce", 8, 5.0) + "{}\n", "line 2: header: must be an object"),
    (inspector_line("AllReduces", 8, 5.0), "must be one of allreduce, .*; did you mean 'allreduce'"),
    (inspector_line("AllReduce", 8, 5.0, blocks=3), "coll_algobw_gbs = .*: must be bytes over time"),
]


@pytest.mark.parametrize(("text", "rule"), BROKEN)
def test_logs_that_break_a_rule_are_refused(write, text, rule):
    name = "x__txt" if text.startswith("#") else "x__json"
    with pytest.raises(InputError, match=rule):
        import_files(write(**{name: text}))


def log_of(write, text, name="all_reduce__log"):
    return read_log(Source(write(**{name: text})[0]))


WHOLE = nccl_table(LINEAR)
LAST = WHOLE.splitlines()[-4]


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (WHOLE.replace(LAST, LAST[: len(LAST) // 2]), "1 row is not whole"),
        (WHOLE.replace(LAST, f"{LAST[:30]}host0:1:2 [0] NCCL INFO Connected\n{LAST[30:]}"), "1 row is not whole"),
        (WHOLE.replace(LAST, f"{LAST[:14]} 12 more processes have sent help\n{LAST[14:]}"), "1 row is not whole"),
        (WHOLE.replace(LAST, LAST.replace(" 0", " 16")), "2 results are wrong (#wrong), and do not count"),
        (WHOLE.replace("values : 0 OK", "values : 2 FAILED"), "results are wrong (FAILED), but not which"),
    ],
)
def test_rows_that_do_not_count_are_named(write, text, note):
    log = log_of(write, text)
    assert any(note in one for one in log.notes)
    whole = log_of(write, WHOLE)
    assert set(log.measurements) <= set(whole.measurements)
    assert len(log.measurements) >= len(whole.measurements) - 2


@pytest.mark.parametrize(
    "change",
    [
        *(f"{tag}{{}}".format for tag in ("[1,0]<stdout>:", "[1,0]<stdout>: ", "0: ", "   ", "\t")),
        lambda line: f"(head, rank=0, pid=1) {line}",
        lambda line: f"\x1b[32m{line}\x1b[0m",
        lambda line: line.replace("1048576 ", "1,048,576 "),
        lambda line: f"[prterun-host0-77@1,0]<stdout>: {line}",
        lambda line: f"2026-01-02T03:04:05.678Z {line}",
        lambda line: line.removeprefix("#"),
    ],
)
def test_what_tools_add_to_lines_is_no_matter(write, change):
    text = "\n".join(map(change, WHOLE.splitlines()))
    assert log_of(write, text).measurements == log_of(write, WHOLE).measurements


@pytest.mark.parametrize(
    "words", ["eth0: inet 192.0.2.4 broadcast 192.0.2.255\n", "to reduce noise\n", "broadcast.log alltoall\n"]
)
def test_the_line_of_the_test_names_the_collective(write, words):
    log = log_of(write, words + WHOLE, name="broadcast__log")
    assert {measurement.kind for measurement in log.measurements} == {CollectiveKind.ALL_REDUCE}


def test_tables_of_one_log_have_collectives_and_ranks_of_their_own(write):
    both = WHOLE + nccl_table(LINEAR, program="all_gather_perf", ranks=4)
    seen = {(measurement.kind.value, measurement.num_npus) for measurement in log_of(write, both).measurements}
    assert seen == {("all_reduce", 8), ("all_gather", 4)}


def test_rows_may_end_with_the_time_of_day(write):
    heads = {line: f"{line} timestamp" for line in WHOLE.splitlines() if "size count" in line}
    rows = {line: f"{line} 2026-01-02 03:04:05" for line in WHOLE.splitlines() if line[:1] == " "}
    text = "\n".join((heads | rows).get(line, line) for line in WHOLE.splitlines())
    assert log_of(write, text).measurements == log_of(write, WHOLE).measurements


def test_the_time_of_the_cpu_is_refused(write):
    with pytest.raises(InputError, match="holds the time of the CPU"):
        log_of(write, WHOLE.replace(" time ", " cputime "))


def by_kind(log):
    return {(one.kind.value, one.num_npus, one.size, round(one.time / US), one.place) for one in log.measurements}


@pytest.mark.parametrize("text", [RCCL_LINES, json.dumps(RCCL_ROWS), RCCL_CSV], ids=["lines", "list", "csv"])
def test_rows_of_rccl_tests_are_those_of_the_table(write, text):
    assert by_kind(log_of(write, text)) == by_kind(log_of(write, WHOLE))
    wrong = text.replace('"#wrong": "0"', '"#wrong": "3"').replace("\n0,", "\n3,")
    with pytest.raises(InputError, match="results are wrong"):
        log_of(write, wrong)


def test_two_ranks_are_a_group(write):
    assert {one.num_npus for one in log_of(write, nccl_table(LINEAR, ranks=2)).measurements} == {2}
    two = [row | {"gpus": 2} for row in RCCL_ROWS]
    assert {one.num_npus for one in log_of(write, json.dumps(two)).measurements} == {2}
    with pytest.raises(InputError, match="gpus = 1: must be two ranks or more"):
        log_of(write, json.dumps([row | {"gpus": 1} for row in RCCL_ROWS]))


def test_two_gpus_on_each_of_two_hosts_become_one_ring(write):
    text = (
        nccl_table(LINEAR, ranks=4)
        .replace("node0 device  2", "node1 device  2")
        .replace("node0 device  3", "node1 device  3")
    )
    notes = import_files(write(all_reduce__txt=text)).notes
    assert any("is of 4 GPUs on 2 hosts, and becomes one ring" in note for note in notes)


def test_a_cut_off_row_of_rccl_tests_is_left_out(write):
    log = log_of(write, RCCL_LINES[:-20])
    assert len(log.measurements) == len(RCCL_ROWS) - 1
    assert any("1 row is not whole" in note for note in log.notes)


@pytest.mark.parametrize("ranks", [2, 7, 8, 16, 48])
@pytest.mark.parametrize("program", ["all_reduce_perf", "all_gather_perf", "alltoall_perf"])
def test_bandwidths_tell_the_ranks_that_a_log_does_not_list(write, ranks, program):
    kind = {"all_reduce_perf": 2, "all_gather_perf": 1, "alltoall_perf": 1}[program]
    text = f"# Collective test starting: {program}\n# size count type redop root time algbw busbw #wrong\n"
    for k in range(20, 30):
        algorithm = 200 * 2**k / (2**k + 2**20)
        text += f"{2**k} 1 float sum -1 {2**k / algorithm / 1000:.2f} {algorithm:.2f} "
        text += f"{algorithm * kind * (ranks - 1) / ranks:.2f} 0\n"
    assert {one.num_npus for one in log_of(write, text).measurements} == {ranks}


def test_names_of_files_say_what_logs_of_neuron_do_not(write):
    log = log_of(write, NCCOM, name="all_gather__32ranks__log")
    assert by_kind(log) == {("all_gather", 32, 33554432, 768, "out of place")}
    with pytest.raises(InputError, match=r"ranks that it does not list, such as all_reduce\.16ranks\.log"):
        log_of(write, NCCOM, name="x__log")
    with pytest.raises(InputError, match=r"such as all_gather\.16ranks\.log: the size of a group is not known"):
        log_of(write, NCCOM, name="all_gather__log")
    with pytest.raises(InputError, match="times must be in microseconds"):
        log_of(write, NCCOM.replace("(us)", "(ms)"), name="all_gather__32ranks__log")


def test_sendrecv_is_read(write):
    assert {kind for kind, *_ in by_kind(log_of(write, nccl_table(LINEAR, program="sendrecv_perf")))} == {"send"}


def test_wrong_results_of_json_do_not_count(write):
    results = [row | {"out_of_place": row["out_of_place"] | {"nwrong": 2}} for row in NCCL_JSON["results"]]
    with pytest.raises(InputError, match="results are wrong"):
        log_of(write, json.dumps(NCCL_JSON | {"results": results}))


def test_records_of_the_inspector_that_are_no_collectives_are_counted(write):
    line = inspector_line("AllReduce", 8, 5.0)
    sends = line.replace("coll_perf", "p2p_perf")
    alone = inspector_line("AllReduce", 8, 5.0, ranks=1)
    log = nccl_inspector.read_log(Source(write(x__log=sends + 3 * line + alone + sends + line[:-20])[0]))
    assert len(log.measurements) == 3
    assert log.notes == (
        "x.log: 2 sends and other records are no collectives, and left out", "x.log: 1 line is cut off, and left out",
    )  # fmt: skip
    with pytest.raises(InputError, match="tells sizes by ranges alone"):
        import_files(write(x__prom='nccl_bus_bandwidth_gbs{version="v5.1",message_size="4-5GB"} 678.263\n'))

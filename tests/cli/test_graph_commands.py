"""``bound``, ``solve``, ``compare`` and ``show`` on graphs."""

import json
from pathlib import Path

import pytest
from reader_samples import nccl_table

from formulations.interruption import TimeUp
from themis_opt.cli.answers import graph as graph_answers
from themis_opt.problem.catalog import shipped_graphs
from themis_opt.study import losses

NETWORK = "dgx1.all_gather.1GB"


@pytest.fixture
def run(invoke):
    """All that a command line prints, which ends with a code."""

    def run(*arguments: str, code: int = 0) -> str:
        result = invoke(*arguments)
        assert result.exit_code == code, result.output
        return str(result.output)

    return run


def test_bound_names_what_decides(succeed) -> None:
    rows = json.loads(succeed("bound", NETWORK, "--json"))
    assert [row["bound"] for row in rows] == ["cut", "latency"]
    assert rows[0]["meaning"] == "out of the 7 NPUs but gpu0 over 4 links (150 GB/s)"
    assert rows[0]["bound_ns"] == pytest.approx(1e9 * 7 / 8 / 150)
    half = json.loads(succeed("bound", NETWORK, "--slow", "gpu0-gpu3=0.5", "--json"))
    assert half[0]["bound_ns"] == pytest.approx(1e9 * 7 / 8 / 125)


def test_measured_times_stand_beside_the_best_plan_and_the_bound(run, tmp_path: Path) -> None:
    log = tmp_path / "all_gather.log"
    log.write_text(nccl_table([(10**9, 7000, 7000)], program="all_gather_perf"))
    (first, *_), row = run("compare", NETWORK, "--measured", str(log)).splitlines(), 7 / 8 / 150 * 1e6
    assert first.startswith(
        f"At 1 GB NCCL takes 7 ms, {100 * (7000 / row - 1):.2f} % above what any algorithm needs; 16.55 % of "
    )
    log.write_text(
        nccl_table([(2 * 10**9, 14000, 14000), (10**9, row / 2, row), (4 * 10**9, 28000, 28000)], "all_gather_perf")
    )
    (first, *_) = run("compare", NETWORK, "--measured", str(log), code=1).splitlines()
    assert first.startswith("At 1 GB NCCL takes 2.917 ms, less than the 5.833 ms that any algorithm needs: ")
    log.write_text(nccl_table([(10**9, 7000, 7000)], ranks=4))
    assert "is of 4 NPUs, the graph has 8" in run("compare", NETWORK, "--measured", str(log), code=2)


@pytest.mark.parametrize(
    ("source", "lost", "kept"),
    [
        (NETWORK, "gpu0-gpu3", "66.67 % of its speed at most, 114.29 GB/s instead of"),
        ("one_ring.all_reduce.4MB", "n0-n1", "74.84 %"),
    ],
)
def test_bound_says_first_what_is_kept(run, source: str, lost: str, kept: str) -> None:
    first = run("bound", source, "--lost", lost).splitlines()[0]
    kind = source.split(".")[1]
    assert first.startswith(f"Without {lost}: {kind} keeps {kept}")


def test_one_part_of_every_role_is_lost_the_worst_first(succeed) -> None:
    rows = json.loads(succeed("bound", "cluster:h100:npus=24", "--lost", "each", "--json"))
    lost = {row["lost"]: row["kept"] for row in rows}
    assert set(lost) == {
        "box0.port0 or 23 alike", "box0.nvswitch or 2 alike", "leaf0 or 7 alike", "box0.nic0 or 23 alike",
        "leaf0.up0 or 7 alike", "spine0", "box0 or 2 alike",
    }  # fmt: skip
    assert list(lost.values()) == sorted(lost.values())
    assert lost["box0.port0 or 23 alike"] < 0.3 < lost["leaf0 or 7 alike"] < 1 < lost["box0 or 2 alike"]


def test_policies_are_compared_without_one_part_of_every_role(run, succeed, monkeypatch) -> None:
    command = ("compare", NETWORK, "--lost", "each", "--policies", "trees,direct")
    verdict, _, *table = succeed(*command).splitlines()
    rows = json.loads(succeed(*command, "--json"))
    assert [row["lost"] for row in rows[:2]] == ["nothing", "nothing"]
    assert {row["policy"] for row in rows} == {"trees", "direct"}
    best = [max(row["kept"] for row in rows if row["lost"] == lost) for lost in dict.fromkeys(r["lost"] for r in rows)]
    assert best[0] == 1.0
    assert best[1:] == sorted(best[1:])
    assert verdict.startswith("Of 2 roles gpu0-")
    assert len(table) == len(rows) + 1
    monkeypatch.setattr(graph_answers, "remaining", lambda limit: 0.0)
    assert "note: longer than --time-limit: without gpu0-" in run(*command)


def test_what_hurts_most_is_drawn(run, tmp_path: Path) -> None:
    run("bound", NETWORK, "--lost", "each", "-o", str(tmp_path / "losses.svg"))
    assert "what hurts most" in (tmp_path / "losses.svg").read_text()
    assert "is for --lost each" in run("bound", NETWORK, "-o", str(tmp_path / "losses.svg"), code=2)


def test_plans_for_every_loss_are_kept_and_a_second_run_goes_on(run, succeed, tmp_path: Path) -> None:
    network = {
        "nodes": [{"name": name} for name in ("a", "b", "c", "d")],
        "links": [{"ends": list(ends), "bandwidth": "1 GB/s"} for ends in ("ab", "bc", "ca", "cd")],
    }
    document = {"format": "themis-opt/instance/1", "network": network}
    document["collectives"] = [{"kind": "all_gather", "size": "4 MB"}]
    file, folder = tmp_path / "net.json", tmp_path / "plans"
    file.write_text(json.dumps(document))
    command = ("solve", str(file), "--lost", "each", "--policies", "trees,ring", "-o", str(folder))
    assert succeed(*command).startswith(
        "Of 3 roles c-d hurts most: all_gather keeps 0.00 % of its speed; without 1 of them"
    )
    index = json.loads((folder / "index.json").read_text())
    assert [plan["lost"] for plan in index["plans"]] == ["nothing", "a-b", "b-c", "c-d"]
    assert run("validate", str(folder / index["plans"][1]["file"])).startswith("valid")
    assert index["plans"][0]["kept"] == 1
    assert (folder / "losses.svg").exists()
    (folder / index["plans"][2]["file"]).unlink()
    before = (folder / index["plans"][1]["file"]).stat().st_mtime_ns
    rows = json.loads(succeed(*command, "--json"))
    assert rows[0] == index["plans"][3]
    assert [plan["alike"] for plan in index["plans"]] == [0, 0, 1, 0]
    assert (folder / index["plans"][2]["file"]).exists()
    assert (folder / index["plans"][1]["file"]).stat().st_mtime_ns == before
    assert "another instance" in run(*command, "--size", "8 MB", code=2)


def test_several_collectives_are_exported_alone(run, tmp_path: Path) -> None:
    document = json.loads(shipped_graphs()[NETWORK].read_text())
    document["collectives"] = [{"kind": kind, "size": "1 MB"} for kind in ("all_gather", "reduce_scatter")]
    file = tmp_path / "two.json"
    file.write_text(json.dumps(document))
    run("solve", str(file), "--policies", "trees=1", "-o", str(tmp_path))
    said_then = run("export", str(tmp_path / "schedule.json"), "--to", "msccl", "-o", str(tmp_path / "x"), code=2)
    assert "collectives = 2: must be one for an export: solve and export each alone" in said_then
    assert "there are several collectives, each with a size" in run("sweep", str(file), "--over", "size=1MB", code=2)


def test_solve_writes_the_schedule_and_compares_with_the_healthy_network(run, tmp_path: Path) -> None:
    arguments = ("--size", "8 MB", "--policies", "trees,ring", "--lost", "gpu0-gpu3", "--compare", "healthy")
    output = run("solve", NETWORK, *arguments, "-o", str(tmp_path))
    first, second, *_ = output.splitlines()
    assert first.startswith("Without gpu0-gpu3: all_gather keeps")
    assert second.startswith("trees takes")
    document = json.loads((tmp_path / "schedule.json").read_text())
    assert document["summary"]["policy"] == "trees"
    assert len(document["instance"]["network"]["links"]) == 15


def test_compare_ranks_policies(succeed) -> None:
    rows = json.loads(succeed("compare", NETWORK, "--size", "1 MB", "--policies", "direct,trees", "--json"))
    assert [row["policy"] for row in rows] == ["trees", "direct"]
    assert all(row["gap"] >= 0 for row in rows)


def test_policies_of_graphs_run_on_networks_of_dimensions(succeed) -> None:
    (row,) = json.loads(succeed("compare", "one_ring.all_reduce.4MB", "--policies", "trees", "--json"))
    assert row["makespan_ns"] >= 6e6


def test_show_lists_links(run, succeed) -> None:
    output = run("show", NETWORK)
    assert output.startswith(f"{NETWORK}: 8 NPUs, 0 switches, 16 links; all_gather of 1 GB")
    assert json.loads(succeed("show", NETWORK, "--json"))["network"]["nodes"][0] == {"name": "gpu0"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("bound", NETWORK, "--chunks", "4"), "--chunks = 4: is not for graphs"),
        (("bound", NETWORK, "--size", "1 QB"), "command line"),
        (
            ("compare", NETWORK, "--measured", "log.txt", "--part", "a=2"),
            "--part = 'a=2': is for networks of dimensions",
        ),
        (("explain", NETWORK), "is an instance: solve it, then give the schedule.json"),
        (("compare", NETWORK, "--policies", ","), "must name one or more policies, each once"),
        (("compare", NETWORK, "--policies", "trees,trees"), "must name one or more policies, each once"),
        (("compare", NETWORK, "--policies", "tres"), "--policies = 'tres': must be one of"),
        (("compare", NETWORK, "--policies", "double_tree"), "double binary trees are for all_reduce"),
        (("tune", NETWORK), "is a graph: 'bound', 'compare', 'show'"),
    ],
)
def test_bad_options_are_refused_in_one_line(run, arguments: tuple[str, ...], message: str) -> None:
    output = run(*arguments, code=2)
    assert message in output
    assert output.startswith("error: ")


def test_commands_on_schedules_take_those_on_graphs(run, succeed, tmp_path: Path) -> None:
    run("solve", NETWORK, "--size", "1 MB", "--policies", "ring", "-o", str(tmp_path))
    path = str(tmp_path / "schedule.json")
    assert run("validate", path).startswith("valid: 7 rules hold")
    explained = json.loads(succeed("explain", path, "--json"))
    assert explained["makespan_ns"] == json.loads(succeed("validate", path, "--json"))["makespan_ns"]
    assert explained["steps"][0]["waited_for"] == "release"
    run("plot", path, "-o", str(tmp_path / "schedule.png"))
    assert (tmp_path / "schedule.png").stat().st_size > 10_000
    assert "error: --latency = 'lag': is not for graphs" in run("explain", path, "--latency", "lag", code=2)


def test_show_draws_networks(run, tmp_path: Path) -> None:
    picture = tmp_path / "network.svg"
    assert "gpu0-gpu3" not in run("show", NETWORK, "--lost", "gpu0-gpu3", "-o", str(picture))
    assert ">gpu0</text>" in picture.read_text(encoding="utf-8")
    run("show", "one_ring.all_reduce.4MB", "-o", str(picture))
    assert ">n0</text>" in picture.read_text(encoding="utf-8")


def test_run_says_what_moves_data_on_graphs(run) -> None:
    assert "error: run: is not for graphs: call 'validate --data'" in run("run", "boxes_5_3.all_reduce.1GB", code=2)


def test_schedules_are_exported_and_moved_on_data(run, tmp_path: Path) -> None:
    run("solve", NETWORK, "--size", "1 MB", "--policies", "trees", "-o", str(tmp_path))
    path = str(tmp_path / "schedule.json")
    assert "data: every NPU ends with its result, by" in run("validate", path, "--data")
    printed = run("export", path, "--to", "msccl", "--check", "-o", str(tmp_path / "xml"))
    assert "pieces are cut in 4 chunks instead of" in printed
    assert "checked: every GPU ends with its result" in printed


def test_what_nccl_could_be_told_is_left_out_when_time_is_up(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = {"nothing": 4000, "NCCL_ALGO=Ring": 8000}

    def in_time(*_: object) -> int:
        if not times:
            raise TimeUp
        return times.pop(next(iter(times)))

    monkeypatch.setattr(losses, "_fastest", in_time)
    monkeypatch.chdir(tmp_path)  # where the schedule is written
    given = ("--policies", "ring", "--size", "1 MB", "--lost", "nic", "--compare", "healthy")
    printed = run("solve", "cluster:b200:boxes=2", *given)
    assert "NCCL_ALGO=Ring\t16\t8 ns\t50.00 %" in printed
    assert "left out: NCCL_ALGO=Tree, NCCL_IB_HCA=^mlx5_0 on all boxes, drain box0: longer than --time-limit" in printed


def test_sweep_varies_the_bandwidth_of_a_link(run, succeed) -> None:
    given = ("--over", "nic0.bandwidth=5GB/s,25GB/s", "--policies", "trees", "--size", "1 MB", "--json")
    rows = json.loads(succeed("sweep", "boxes_5_3.all_reduce.1GB", *given))
    assert rows[0]["makespan_ns"] > rows[1]["makespan_ns"]
    refused = run("sweep", "boxes_5_3.all_reduce.1GB", "--over", "nic9.bandwidth=1GB/s", code=2)
    assert "must name a link of the network" in refused


def test_a_plan_on_a_graph_is_disturbed_beside_trees(run, succeed, tmp_path: Path) -> None:
    run("solve", "boxes_5_3.all_reduce.1GB", "--size", "1 MB", "--policies", "ring", "-o", str(tmp_path))
    disturb = ("robustness", str(tmp_path / "schedule.json"), "--samples", "5")
    rows = json.loads(succeed(*disturb, "--bandwidth", "0", "--json"))["policies"]
    assert [row["policy"] for row in rows] == ["plan", "trees"]
    assert all(row["mean_slowdown"] > 0 for row in rows)  # by latencies alone
    assert "--latency = 'occupy': is not for graphs" in run(*disturb, "--latency", "occupy", code=2)
    assert "--chunk-delay: is for chunks on dimensions" in run(*disturb, "--chunk-delay", "exponential:1us", code=2)

"""``run``: what it prints and writes, and what it refuses."""

import json
import socket
import threading

import pytest
from programs import network, schedule

from themis_opt.formats.bundle import write_schedule
from themis_opt.problem.exchanges import Tensor
from themis_opt.problem.instance import Instance
from themis_opt.problem.iteration import ComputeTask, Iteration
from themis_opt.runtime.control import TOKEN_VARIABLE
from themis_opt.runtime.worker import LOST
from themis_opt.runtime.worlds import joined


@pytest.fixture(scope="module")
def solution(tmp_path_factory):
    """The folder of a small schedule and the file of its instance."""
    folder = tmp_path_factory.mktemp("solution")
    planned = schedule("s2 r2", size=2**18, chunks=4)
    write_schedule(folder, planned)
    (folder / "instance.json").write_text(planned.instance.model_dump_json(), encoding="utf-8")
    return folder


def test_policies_are_run_side_by_side(succeed, solution, tmp_path):
    said = succeed(
        "run", solution / "instance.json", "--pace", "20MB/s,10MB/s", "--policies", "baseline,hourglass", "--repeat", 1,
        "-o", tmp_path,
    )  # fmt: skip
    verdict, title, heading, *_ = said.splitlines()
    assert verdict.endswith("all 2 runs exact.")
    assert title == "# median of 1 runs"
    assert heading.split("\t")[:3] == ["policy", "predicted", "measured"]
    assert "baseline\tdim1" in said
    trace = json.loads((tmp_path / "hourglass.trace.json").read_text())
    assert sum(event["ph"] == "X" for event in trace["traceEvents"]) == 16
    assert "measured dim1" in (tmp_path / "hourglass.svg").read_text()
    assert json.loads((tmp_path / "execution.json").read_text())["verdict"] + "." == verdict


def test_schedule_files_are_run_as_they_are(succeed, solution):
    rows = json.loads(succeed("run", solution / "schedule.json", "--repeat", 1, "--json"))["rows"]
    assert [row["policy"] for row in rows] == ["baseline+fifo", "schedule.json"]
    assert rows[1]["bytes_per_dimension"] == rows[1]["expected_bytes_per_dimension"]


def test_iterations_are_run_with_their_exposed_time(succeed, tmp_path):
    tasks = tuple(ComputeTask(name=name, duration="20 ms") for name in ("forward", "backward"))
    tensor = Tensor(name="gradients", size="64 KiB", ready_after="backward", needed_before="forward")
    iteration = Iteration(tasks=tasks, tensors=(tensor,))
    path = tmp_path / "iteration.json"
    path.write_text(Instance(network=network("s2 r2"), iteration=iteration, chunks=2).model_dump_json())
    policies = ("ddp/hourglass", "dear/themis+scf")
    said = succeed(
        "run", path, "--pace", "10MB/s,10MB/s", "--policies", ",".join(policies), "--repeat", 1, "--iterations", 4,
        "--json", "-o", tmp_path,
    )  # fmt: skip
    for policy, row in zip(policies, json.loads(said)["rows"], strict=True):
        assert row["policy"] == policy
        assert row["exposed_measured_s"] == pytest.approx(row["measured_s"] - 0.040)
        assert row["measured_s"] > 0.99 * row["predicted_s"] > 0.040
        assert (tmp_path / f"{policy.replace('/', '_')}.svg").exists()


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (("--local", "4"), "--local = '4': must be 2 sizes"),
        (("--local", "4x200"), "would start 800 processes, at most 64 are allowed"),
        (("--pace", "1MB/s"), "--pace = '1MB/s': must be 2 bandwidths"),
        (("--pace", "1MB/s,fast"), "--pace = '1MB/s,fast': "),
        (("--transport", "pigeon"), "--transport = 'pigeon': must be one of tcp, torch"),
        (("--dtype", "float8"), "dtype = 'float8': must be one of float16"),
        (("--join", "somewhere"), "--join: needs a process started by torchrun, mpiexec or srun"),
    ],
)
def test_wrong_options_are_refused(refuse, solution, arguments, rule):
    assert rule in refuse("run", solution / "instance.json", *arguments)


@pytest.mark.parametrize(
    ("place", "rank", "rule"),
    [
        ("127.0.0.1:99999", "0", "--join = '127.0.0.1:99999': must be a host and a port"),
        ("127.0.0.1:29600", "abc", "RANK = 'abc': must be a number"),
    ],
)
def test_worlds_that_cannot_be_joined_are_refused(refuse, solution, monkeypatch, place, rank, rule):
    for name, value in (("RANK", rank), ("WORLD_SIZE", "4")):
        monkeypatch.setenv(name, value)
    assert rule in refuse("run", solution / "instance.json", "--join", place)


def test_a_rank_with_another_token_says_so(monkeypatch, capsys):
    def turn_away(listener):
        connection, _ = listener.accept()
        connection.close()

    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv(TOKEN_VARIABLE, "guess")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=turn_away, args=(listener,), daemon=True).start()
        place = "{}:{}".format(*listener.getsockname())
        with pytest.raises(SystemExit) as ended, joined(place, 2, "tcp", "127.0.0.1"):
            pass
    assert ended.value.code == LOST
    assert f"{TOKEN_VARIABLE} differs" in capsys.readouterr().err

"""Ranks as processes: exact results, faults that name the rank, and nothing left behind."""

import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from background import LISTENING, PATIENCE, wait_until
from planning import schedule_of
from programs import program, schedule
from samples import every

from themis_opt.base.version import __version__
from themis_opt.runtime import coordinator as coordinating
from themis_opt.runtime import execution
from themis_opt.runtime.control import ORDER, TOKEN_VARIABLE, ControlLine
from themis_opt.runtime.coordinator import Coordinator, local
from themis_opt.runtime.execution import execute
from themis_opt.runtime.links import RankFailure
from themis_opt.runtime.program import RunOptions, compile_program
from themis_opt.runtime.transports.tcp import TcpEndpoint, receive_exactly
from themis_opt.runtime.worker import FAULT_VARIABLE, LOST, boot_id

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="ranks are copies of one process, which needs fork")

ENDS_WITHIN = 10.0  # seconds in which a run must end after a fault
SLOW = RunOptions(paced=True)


def workers():
    """Processes of ranks that this process started."""
    children = psutil.Process().children(recursive=True)
    return [
        child for child in children if child.is_running() and "themis_opt.runtime.worker" in " ".join(child.cmdline())
    ]


@contextmanager
def ranks(num_ranks, transport="tcp"):
    with Coordinator(num_ranks, local(num_ranks, transport)) as coordinator:
        yield coordinator
    assert workers() == []


def run_once(compiled, transport="tcp"):
    with ranks(compiled.num_ranks, transport) as coordinator:
        coordinator.connect(compiled)
        coordinator.load(0, compiled, "tested")
        return coordinator.run(0, 7, longest=1.0)


def test_paced_ranks_take_the_predicted_time_at_least():
    planned = schedule("s2 r2", policy="themis+scf", size=2**20, chunks=4)
    slower = planned.instance.network.dimensions[0].replace(bandwidth="10 MB/s")
    network = planned.instance.network.replace(dimensions=(slower, planned.instance.network.dimensions[1]))

    problem = planned.instance.replace(network=network)
    schedules = {name: schedule_of(problem, name) for name in ("baseline+fifo", "hourglass")}
    with ranks(4) as coordinator:
        done = execute(schedules, coordinator, repeat=2)
    for executed in done.executed:
        assert min(executed.seconds) > 0.97 * executed.predicted_seconds
        assert executed.moved == executed.expected_bytes
        assert executed.measured.plan == executed.predicted.plan
    assert sum(len(executed.runs) for executed in done.executed) == 4
    assert "all 4 runs exact" in done.verdict()


def test_the_transport_of_torch_is_exact():
    pytest.importorskip("torch.distributed", reason="needs the extra torch")
    assert run_once(program("s2 r2", size=4_006, chunks=3), "torch").seconds > 0


def fail(compiled, disturb, transport="tcp"):
    """Run a program that somebody disturbs; returns the error, which must come in time, and leave nothing."""
    with Coordinator(compiled.num_ranks, local(compiled.num_ranks, transport)) as coordinator:
        coordinator.connect(compiled)
        coordinator.load(0, compiled, "tested")
        began = disturb(coordinator)
        with pytest.raises(RankFailure) as failure:
            coordinator.run(0, 7, longest=0.5)
        coordinator._kill()
        assert time.monotonic() - began() < ENDS_WITHIN
    assert workers() == []
    assert "\n" not in str(failure.value)
    return failure.value


def slow_program():
    """Takes about a second."""
    return program("s2 r2", size=2**20, chunks=8, options=SLOW, bandwidth="2 MB/s")


def signalled(number, rank):
    """Send a signal to a rank some time after a run began."""
    moment = [time.monotonic()]

    def act(coordinator):
        time.sleep(0.3)
        moment[0] = time.monotonic()
        os.kill(coordinator.process_of(rank), number)

    def disturb(coordinator):
        threading.Thread(target=act, args=(coordinator,), daemon=True).start()
        return lambda: moment[0]

    return disturb


def connected(address):
    host, port = address.split(":")
    return socket.create_connection((host, int(port)))


def framed(text):
    return struct.pack("<I", len(text)) + text.encode()


def actor(address, token, rank, checks):
    """A rank that runs nothing, and needs long to check its results or no time at all."""
    line = ControlLine(connected(address))
    line.say(token=token, rank=rank, version=__version__, address=["127.0.0.1", 1], pid=0)
    for kind in ("connected", "loaded", "ready"):
        line.hear(ORDER)
        line.say(type=kind)
    line.hear(ORDER)
    time.sleep(0.1 * rank)
    line.say(type="finished")
    assert line.hear(ORDER).do == "check"
    for _ in range(10 if checks else 0):
        time.sleep(0.1)
        line.say(type="alive", done=1, at="")
    line.say(type="done", origin=0.0, wrong=None, cpu=0.0, memory=0, moved=[0], start=[0.0], end=[1.0])
    with suppress(EOFError, OSError):
        line.hear(ORDER)
    line.close()


@pytest.mark.parametrize("checks", [True, False])
def test_ranks_answer_one_after_the_other_however_long_they_check(monkeypatch, checks):
    monkeypatch.setattr(coordinating, "STALL_SECONDS", 0.3)

    def start(address, token):
        for rank in range(2):
            threading.Thread(target=actor, args=(address, token, rank, checks), daemon=True).start()
        return ()

    with Coordinator(2, start) as coordinator:
        coordinator.connect(program("s2"))
        coordinator.load(0, program("s2"))
        assert coordinator.run(0, 0, longest=0.0).seconds == 1.0


def test_killed_ranks_are_named():
    error = fail(slow_program(), signalled(signal.SIGKILL, 2))
    assert error.rank == 2
    pattern = r"rank 2 at 127\.0\.0\.1 \(coordinates 0, 1\) (died|closed its connection).* during tested"
    assert re.search(pattern, str(error))


@pytest.mark.benchmarks
def test_stopped_ranks_are_named():
    error = fail(slow_program(), signalled(signal.SIGSTOP, 1))
    assert error.rank == 1
    assert "is silent for 5 s" in str(error)


def test_garbage_names_its_sender(monkeypatch):
    monkeypatch.setenv(FAULT_VARIABLE, "corrupt:3:2")
    began = time.monotonic()
    error = fail(slow_program(), lambda _: lambda: began)
    assert error.rank == 3
    assert "sent garbage: the checksum of all_reduce1 chunk" in str(error)


def test_other_versions_are_refused(monkeypatch):
    monkeypatch.setattr(coordinating, "__version__", "99.0")
    with pytest.raises(RankFailure, match=r"runs themis_opt .*, this is 99\.0"), ranks(2):
        pass
    assert workers() == []


HELLO = {"rank": 0, "version": __version__, "address": ["127.0.0.1", 1], "pid": 0}
BEFORE_THE_TOKEN = {
    "nested": framed("[" * 2000),
    "huge": struct.pack("<I", 2**30) + bytes(2**20),
    "no object": framed("[]"),
    "of a browser": b"GET / HTTP/1.0\r\n\r\n",
    "no text": framed(json.dumps({"token": "\ud800"})),
    "another token": framed(json.dumps(HELLO | {"token": "guess"})),
}


@pytest.mark.parametrize("greeting", every(3, BEFORE_THE_TOKEN.values()), ids=BEFORE_THE_TOKEN)
def test_callers_without_the_token_are_refused_and_the_run_goes_on(greeting):
    strangers = []

    def start(address, token):
        strangers.append(connected(address))
        threading.Thread(target=strangers[0].sendall, args=(greeting,), daemon=True).start()
        return local(2)(address, token)

    with Coordinator(2, start) as coordinator:
        coordinator.connect(program("s2", size=1_000, chunks=2))
        strangers[0].settimeout(PATIENCE)
        with suppress(ConnectionError):
            assert strangers[0].recv(1) == b""
    strangers[0].close()


def test_silent_callers_do_not_hold_up_a_run():
    strangers = []

    def start(address, token):
        strangers.extend(connected(address) for _ in range(8))
        return local(2)(address, token)

    began = time.monotonic()
    with Coordinator(2, start) as coordinator:
        coordinator.connect(program("s2", size=1_000, chunks=2))
        assert time.monotonic() - began < coordinating.REPORT_SECONDS
    for stranger in strangers:
        stranger.close()


@pytest.mark.parametrize("garbage", ["[" * 1020, "[]", '"' * 3])
def test_callers_without_the_token_do_not_end_a_rank(garbage):
    endpoints = [TcpEndpoint(rank, "token", "127.0.0.1") for rank in range(2)]
    addresses = [endpoint.address for endpoint in endpoints]
    strangers = [socket.create_connection(addresses[0]) for _ in range(3)]
    strangers[0].sendall(framed(garbage))
    links = []
    threads = [
        threading.Thread(target=lambda one=one: links.append(one.connect({(0, 0): (0, 1)}, addresses, 5.0)))
        for one in endpoints
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(links) == 2
    for stranger in strangers:
        stranger.close()


def test_neighbours_may_take_as_long_as_a_link_of_high_latency():
    endpoint = TcpEndpoint(0, "token", "127.0.0.1")

    def call():
        with socket.create_connection(endpoint.address) as connection:
            time.sleep(1.2)
            connection.sendall(framed(json.dumps({"token": "token", "rank": 1, "dimension": 0, "lane": 0})))
            connection.recv(1)

    threading.Thread(target=call, daemon=True).start()
    assert endpoint.connect({(0, 0): (0, 1)}, [endpoint.address] * 2, 5.0).keys() == {(0, 0)}


def test_links_that_nobody_paces_may_be_much_slower_than_the_model():
    """40 MB at 1 GB/s, or at 20 MB/s before a stage is said to hang."""
    made = schedule("s2", "all_gather", size=80_000_000, chunks=1)
    unpaced, paced = (compile_program(made, RunOptions(paced=is_paced)) for is_paced in (False, True))
    assert execution._longest(paced, made) == pytest.approx(0.04)
    assert execution._longest(unpaced, made) == pytest.approx(0.04 + 2.0)


def test_a_slow_sender_meets_the_deadline():
    near, far = socket.socketpair()
    far.sendall(b"x")
    threading.Timer(0.2, far.sendall, (b"x",)).start()
    with near, far, pytest.raises(TimeoutError):
        receive_exactly(near, 3, time.monotonic() + 0.4)


DONE = {"type": "done", "origin": 0.0, "wrong": None, "cpu": 0.0, "memory": 0, "moved": [0], "start": [0], "end": [1]}


@pytest.mark.parametrize(
    "message",
    [
        "{}",
        '{"type": "alive"}',
        '{"type": "alive", "done": 1e400, "at": ""}',
        r'{"type": "alive", "done": 0, "at": "\ud800"}',
        '{"type": "failed", "rank": "0", "what": ""}',
        json.dumps(DONE | {"start": []}),
        json.dumps(DONE | {"cpu": True}),
        json.dumps(DONE).replace("0.0", "1e400"),
    ],
)
def test_a_malformed_message_names_its_rank(message):
    callers = []

    def start(address, token):
        callers.append(connected(address))
        callers[0].sendall(framed(json.dumps(HELLO | {"token": token})) + framed(message))
        return ()

    with pytest.raises(RankFailure, match=r"rank 0 at 127.0.0.1 sent garbage"), Coordinator(1, start) as coordinator:
        coordinator._collect("connected", 1.0)


@pytest.mark.parametrize("pid", ["1e400", "-1", '0, "address": 7', '0, "address": null'])
def test_a_malformed_hello_with_the_token_names_its_rank(pid):
    """A message that is no JSON comes from a stranger, and the next one is heard."""

    def start(address, token):
        words = json.dumps({"token": token} | HELLO)
        for text in (r'{"token": "\ud800"}', "{}", words.replace('"pid": 0', f'"pid": {pid}')):
            connected(address).sendall(framed(text))
        return ()

    with pytest.raises(RankFailure, match="rank 0 sent garbage"), Coordinator(1, start):
        pass


@pytest.fixture
def instance_file(tmp_path):
    path = tmp_path / "small.json"
    network = schedule("s2", size=2**20, chunks=4).instance
    path.write_text(network.model_dump_json(), encoding="utf-8")
    return path


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_ranks_end_with_the_command(instance_file, number):
    process = psutil.Popen(
        [sys.executable, "-c", LISTENING, "run", str(instance_file), "--pace", "1MB/s"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_until(lambda: len(process.children(recursive=True)) == 3, process)
    started = process.children(recursive=True)
    process.send_signal(number)
    _, errors = process.communicate(timeout=PATIENCE)
    wait_until(
        lambda: not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in started)
    )
    if number == signal.SIGINT:
        assert process.returncode == 130, errors


def test_a_rank_whose_parent_is_gone_before_it_begins_ends():
    code = "import os; from themis_opt.runtime.worker import end_with_parent; end_with_parent(os.getpid())"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == LOST


def test_ranks_that_others_started_join(instance_file):
    """As torchrun does it: one process per rank, and their numbers in the environment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    places = {"WORLD_SIZE": "2", TOKEN_VARIABLE: "secret"}
    options = ["--join", f"127.0.0.1:{port}", "--policies", "baseline", "--repeat", "1", "--json"]
    line = [sys.executable, "-m", "themis_opt", "run", instance_file, *options]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    ranks = [os.environ | places | {"RANK": str(rank)} for rank in range(2)]
    started = [subprocess.Popen(line, env=environment, **pipes) for environment in ranks]
    outputs = [process.communicate(timeout=PATIENCE) for process in started]
    assert [process.returncode for process in started] == [0, 0], outputs
    assert json.loads(outputs[0][0])["rows"][0]["policy"] == "baseline"
    assert outputs[1][0] == ""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
def test_memory_of_a_rank_is_without_that_of_the_process_that_started_it():
    """Which is what resource usage says of a process that was started by a large one."""
    large = b"x" * 2**28
    code = "from themis_opt.runtime.worker import largest_memory; print(largest_memory())"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 2**20 < int(said.stdout) < len(large)


def test_time_namespaces_have_clocks_of_their_own():
    told = [sys.executable, "-c", "from themis_opt.runtime.worker import boot_id; print(boot_id())"]
    other = ["unshare", "--time", "--monotonic", "1000", "--fork", *told]
    try:
        shifted = subprocess.run(other, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no time namespaces here: {error}")
    assert subprocess.run(told, capture_output=True, text=True, check=True).stdout.strip() == boot_id()
    assert shifted.strip() != boot_id()

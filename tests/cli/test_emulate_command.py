"""``emulate``: a network of namespaces that a command runs in, counted, and gone with it."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from background import LISTENING, PATIENCE, wait_until

from themis_opt.base.errors import InputError
from themis_opt.emulation import emulator, network
from themis_opt.runtime.control import TOKEN_VARIABLE

SENDER = """
import os, socket
rank, others = int(os.environ["RANK"]), {"10.77.0.1", "10.77.0.2", "10.77.0.3", "10.77.0.4"}
if rank == 0:
    server = socket.create_server(("10.77.0.1", 29500))
    for _ in range(2):
        connection, _ = server.accept()
        while connection.recv(65536):
            pass
elif rank < 3:
    for attempt in range(100):
        try:
            connection = socket.create_connection(("10.77.0.1", 29500), timeout=5)
            break
        except OSError:
            import time
            time.sleep(0.05)
    connection.sendall(bytes(200_000))
"""


@pytest.fixture(scope="module", autouse=True)
def _allowed():
    try:
        network.emulate((2,), (1e6,), ["true"])
    except (InputError, FileNotFoundError) as error:
        pytest.skip(f"needs network namespaces: {error}")


def test_neighbours_use_the_link_they_share(succeed):
    """NPU 1 is a neighbour of NPU 0 along dim1, NPU 2 along dim2."""
    said = succeed("emulate", "2x2", "--rates", "50MB/s,50MB/s", "--json", "--", sys.executable, "-c", SENDER)
    done = json.loads(said)
    assert done["code"] == 0
    sent = done["sent_bytes"]
    assert sent[1][0] > 200_000
    assert sent[2][1] > 200_000
    assert max(sent[1][1], sent[2][0], *sent[3]) < 20_000


ECHO = """
import os, socket, time
rank = int(os.environ["RANK"])
if rank == 0:
    server = socket.create_server(("10.77.0.1", 29500))
    for _ in range(2):
        connection, _ = server.accept()
        connection.sendall(connection.recv(1))
elif rank < 3:
    while True:
        try:
            connection = socket.create_connection(("10.77.0.1", 29500), timeout=5)
            break
        except OSError:
            time.sleep(0.05)
    began = time.monotonic()
    connection.sendall(b"x")
    connection.recv(1)
    print(rank, time.monotonic() - began, flush=True)
"""


def test_packets_are_held_on_links_with_latency():
    """NPU 1 is a neighbour of NPU 0 along dim1, which is slow to answer, NPU 2 along dim2."""
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        pytest.skip("needs /dev/net/tun")
    words = ["emulate", "2x2", "--rates", "50MB/s,50MB/s", "--delay", "100ms,0", "--json", "--"]
    said = subprocess.check_output([sys.executable, "-c", LISTENING, *words, sys.executable, "-c", ECHO], text=True)
    seconds = dict(line.split() for line in said.splitlines() if line[:2] in ("1 ", "2 "))
    assert float(seconds["1"]) > 0.2
    assert float(seconds["2"]) < 0.2


def test_systems_without_tap_devices_are_told(monkeypatch):
    monkeypatch.setattr(emulator, "TUN_DEVICE", "/dev/net/missing")
    with pytest.raises(OSError, match="/dev/net/missing, which holds packets back, cannot be used: No such file"):
        emulator.tap("t0")


@pytest.mark.parametrize(
    ("line", "seconds", "code", "reason"),
    [
        ("test $RANK = 1 && exit 97; sleep 60", 60, 97, "stopped: NPU 1 ended with code 97"),
        ("test $RANK = 1 && kill -9 $$; sleep 60", 60, 9, "stopped: NPU 1 ended by signal 9"),
        ("sleep 60", 1, 124, "stopped: the command took longer than 1 s"),
    ],
)
def test_failures_end_all_and_give_the_exit_code_and_the_reason(invoke, line, seconds, code, reason):
    done = invoke("emulate", "2", "--rates", "1MB/s", "--seconds", seconds, "--", "sh", "-c", line)
    assert (done.exit_code, done.stderr.splitlines()) == (code, [reason])


@pytest.mark.parametrize(
    ("program", "reason"), [("--nosuch", "No such file or directory"), ("/etc/passwd", "Permission denied")]
)
def test_commands_that_cannot_be_started_are_told_in_one_line(refuse, program, reason):
    assert f"COMMAND = '{program}': cannot be started: {reason}" in refuse(
        "emulate", "2", "--rates", "1MB/s", "--", program
    )


def test_commands_that_one_npu_cannot_start_are_told(refuse):
    said = refuse("emulate", "2", "--rates", "1MB/s", "--", "/nosuch/{address}")
    assert "COMMAND = '/nosuch/10.77.0.1': cannot be started" in said


def test_nothing_is_left_behind(succeed):
    devices, others = Path("/proc/net/dev").read_text().count("\n"), psutil.Process().children(recursive=True)
    succeed("emulate", "2x2", "--rates", "1MB/s,1MB/s", "--", "true")
    assert Path("/proc/net/dev").read_text().count("\n") == devices
    assert set(psutil.Process().children(recursive=True)) <= set(others)


@pytest.mark.parametrize("method", ["kill", "terminate"])
def test_commands_end_with_the_emulation(method):
    words = [sys.executable, "-c", LISTENING, "emulate", "2", "--rates", "1MB/s", "--", "sleep", "100"]
    process = psutil.Popen(words)
    wait_until(lambda: len(process.children(recursive=True)) == 4, process)
    started = process.children(recursive=True)
    getattr(process, method)()
    process.wait(PATIENCE)
    wait_until(lambda: not any(map(is_alive, started)))


def test_an_emulator_that_is_killed_while_it_makes_namespaces_leaves_none():
    plan = {"npus": network._npus([8]), "rates": [1e6], "delays": [0.0], "seconds": 60}
    plan |= {"command": ["sleep", "100"], "environment": {}}
    for milliseconds in range(0, 16, 3):
        near, far = socket.socketpair()
        words = [sys.executable, "-m", "themis_opt.emulation.emulator", str(far.fileno()), str(os.getpid())]
        process = psutil.Popen(words, pass_fds=[far.fileno()])
        with near, far:
            near.sendall(json.dumps(plan).encode())
            near.shutdown(socket.SHUT_WR)
            wait_until(process.children, process)
            time.sleep(milliseconds / 1e3)
            started = process.children(recursive=True)
            process.kill()
            process.wait(PATIENCE)
        wait_until(lambda started=started: not any(map(is_alive, started)))


def is_alive(process):
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def sleepers(seconds):
    """Processes of all that sleep so long, by their command lines."""
    lines = (process.info["cmdline"] for process in psutil.process_iter(["cmdline"]))
    return [words for words in lines if words == ["sleep", seconds]]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_children_of_commands_end_with_the_emulation(number):
    words = [sys.executable, "-c", LISTENING, "emulate", "2", "--rates", "10Mb/s", "--"]
    process = psutil.Popen([*words, "bash", "-c", "setsid sleep 301; true"], stderr=subprocess.DEVNULL)
    wait_until(lambda: len(sleepers("301")) == 2, process)
    process.send_signal(number)
    process.wait(PATIENCE)
    wait_until(lambda: not sleepers("301"))


def test_ctrl_c_of_a_terminal_ends_all_with_a_sentence():
    """It comes to every process of the group."""
    words = [sys.executable, "-c", LISTENING, "emulate", "2", "--rates", "10Mb/s", "--", "sleep", "303"]
    process = psutil.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True)
    wait_until(lambda: len(sleepers("303")) == 2, process)
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=PATIENCE)[1]
    assert "interrupted: there is no result yet" in said
    assert "Traceback" not in said
    assert process.returncode == 130
    wait_until(lambda: not sleepers("303"))


@pytest.mark.parametrize(("line", "code"), [("sleep 302 & true", 0), ("setsid sleep 302; true", 124)])
def test_children_that_a_command_leaves_do_not_hold_it_up(line, code):
    words = [sys.executable, "-m", "themis_opt", "emulate", "2", "--rates", "10Mb/s", "--seconds", "3", "--"]
    done = subprocess.run([*words, "bash", "-c", line], timeout=PATIENCE, stdout=subprocess.DEVNULL, check=False)
    assert done.returncode == code
    assert not sleepers("302")


def test_commands_can_look_themselves_up(succeed):
    words = [sys.executable, "-c", "import psutil; assert psutil.Process().name()"]
    assert json.loads(succeed("emulate", "2", "--rates", "10Mb/s", "--json", "--", *words))["code"] == 0


def test_commands_cannot_answer_for_the_emulator(succeed):
    lines = (
        "for file in /proc/self/fd/*; do case $(readlink $file) in socket:*) echo x >&${file##*/};; esac; done; true"
    )
    assert json.loads(succeed("emulate", "2", "--rates", "10Mb/s", "--json", "--", "bash", "-c", lines))["code"] == 0


def test_the_token_is_in_no_command_line(succeed, tmp_path, monkeypatch):
    monkeypatch.setenv(TOKEN_VARIABLE, "secret-of-this-test")
    lines = f"cat /proc/[0-9]*/cmdline > {tmp_path}/$RANK 2>/dev/null; true"
    succeed("emulate", "2", "--rates", "10Mb/s", "--", "bash", "-c", lines)
    seen = (tmp_path / "0").read_text(errors="replace")
    assert "themis_opt.emulation.emulator" in seen
    assert "secret-of-this-test" not in seen


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (("4", "--rates", "1MB/s,2MB/s", "--", "true"), "--rates = '1MB/s,2MB/s': must be 1 bandwidths"),
        (("4x", "--rates", "1MB/s", "--", "true"), "SIZES = '4x': must be sizes of at least 2"),
        (("4", "--rates", "fast", "--", "true"), "--rates = 'fast': must be a number with a unit"),
        (("4", "--rates", "1MB/s", "--delay", "1ms,1ms", "--", "true"), "--delay = '1ms,1ms': must be 1 times"),
        (("4", "--rates", "1MB/s", "--delay", "soon", "--", "true"), "--delay = 'soon': must be a number with a unit"),
        (
            ("4", "--rates", "1MB/s", "--delay", "2s", "--", "true"),
            "--delay = '2s': must be at least 0 and at most 1 s",
        ),
        (("4", "--rates", "1MB/s", "--delay", "-1ms", "--", "true"), "--delay = '-1ms': must be at least 0"),
        (("4", "--rates", "-1MB/s", "--", "true"), "--rates = '-1MB/s': must be more than 0"),
        (("4", "--rates", "1MB/s", "--", ""), "COMMAND = '': must be the name of a program"),
        (("100", "--rates", "1MB/s", "--", "true"), "SIZES = '100': must have 2 to 64 NPUs"),
    ],
)
def test_wrong_options_are_refused(refuse, arguments, rule):
    assert rule in refuse("emulate", *arguments)


def test_systems_that_do_not_allow_it_are_told(refuse, monkeypatch):
    monkeypatch.setattr(network, "_answered", lambda plan: ({"refused": "Operation not permitted"}, 97))
    said = refuse("emulate", "2", "--rates", "1MB/s", "--", "true")
    assert "network namespaces cannot be made here: Operation not permitted" in said

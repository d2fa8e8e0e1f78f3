"""A real PostgreSQL server, where its programs are installed."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from background import PATIENCE

SECRET = "hush-hush"
ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
PROGRAMS = ("initdb", "postgres", "pg_dump")

needs_postgresql = pytest.mark.skipif(
    not all(shutil.which(name) for name in PROGRAMS), reason="needs the programs of a PostgreSQL server"
)


@pytest.fixture(scope="module", name="server")
def postgresql_server() -> Iterator[str]:
    """Host, port and name of the database of a server that asks for a password; it runs as nobody, never as root."""
    pytest.importorskip("psycopg", reason="needs the driver psycopg")
    folder = Path(tempfile.mkdtemp(prefix="themis-opt-"))
    (folder / "password").write_text(SECRET)
    user = {"user": "nobody"} if ROOT else {}
    if ROOT:
        shutil.chown(folder, "nobody")
        shutil.chown(folder / "password", "nobody")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    making = ["initdb", "-D", folder / "data", "-U", "me", "-A", "scram-sha-256", f"--pwfile={folder / 'password'}"]
    made = subprocess.run(making, capture_output=True, text=True, cwd=folder, check=False, **user)
    if made.returncode:
        pytest.skip(f"initdb cannot run here: {made.stderr.strip().splitlines()[-1]}")
    running = ["postgres", "-D", folder / "data", "-p", str(port), "-k", folder, "-c", "fsync=off"]
    process = subprocess.Popen(running, stderr=subprocess.DEVNULL, cwd=folder, **user)
    try:
        _wait_for(port, process)
        yield f"127.0.0.1:{port}/postgres"
    finally:
        process.send_signal(signal.SIGINT)  # at once: SIGTERM would wait for connections that are still open
        process.wait(timeout=PATIENCE)
        shutil.rmtree(folder)


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.skip("the server does not start here")

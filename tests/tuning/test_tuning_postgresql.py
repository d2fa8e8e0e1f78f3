"""Studies in a real PostgreSQL server, of which neither messages nor tables tell the password."""

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
import six_layers
from background import PATIENCE

from themis_opt.tuning.storage import StorageError, open_storage
from themis_opt.tuning.tuner import tune

SECRET = "hush-hush"
ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
PROGRAMS = ("initdb", "postgres", "pg_dump")

pytestmark = pytest.mark.skipif(
    not all(shutil.which(name) for name in PROGRAMS), reason="needs the programs of a PostgreSQL server"
)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
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


def test_a_study_is_kept_and_resumed(server: str) -> None:
    url, instance = f"postgresql+psycopg://me:{SECRET}@{server}", six_layers.iteration()
    first = tune(instance, trials=2, storage=url, study="one")
    again = tune(instance, trials=3, storage=url, study="one")
    assert [trial.choice for trial in again.trials[:2]] == [trial.choice for trial in first.trials]
    assert SECRET not in repr(again) + again.storage
    dump = ["pg_dump", f"postgresql://me@{server}", "--data-only"]
    kept = subprocess.run(dump, capture_output=True, text=True, check=True, env={**os.environ, "PGPASSWORD": SECRET})
    assert "one" in kept.stdout
    assert SECRET not in kept.stdout


@pytest.mark.parametrize("url", ["me:wrong-{0}@{1}", "{1}?user=me&password=wrong-{0}"])
def test_a_wrong_password_is_not_told(server: str, url: str) -> None:
    with pytest.raises(StorageError, match="password authentication failed") as caught:
        open_storage("postgresql+psycopg://" + url.format(SECRET, server))
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)

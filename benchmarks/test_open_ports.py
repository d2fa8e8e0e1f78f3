"""What callers without the token cost the ports of a run: less than a MB and a second each.

``python -m pytest -m benchmarks benchmarks/test_open_ports.py -s`` prints the cost of each kind of caller.
"""

import json
import socket
import struct
import threading
import time
import tracemalloc
from contextlib import suppress

import pytest

from themis_opt.runtime.coordinator import Coordinator
from themis_opt.runtime.transports.tcp import TcpEndpoint

pytestmark = pytest.mark.benchmarks

MOST_BYTES, MOST_SECONDS = 10**6, 1.0
CALLERS = 8  # of each kind, at once
PATIENCE = 60.0


def framed(words: bytes) -> bytes:
    return struct.pack("<I", len(words)) + words


LONGEST = b"[" * 2**14
GREETINGS = {
    "silent": b"",
    "one byte": b"\x01",
    "nested": framed(LONGEST),
    "nested objects": framed(b'{"a":' * 3000),
    "many names": framed(json.dumps(dict.fromkeys(map(str, range(1500)), 0)).encode()),
    "a length of 2^30": struct.pack("<I", 2**30) + bytes(2**16),
    "a length of 2^32 - 1": b"\xff" * 2**16,
    "a browser": b"GET / HTTP/1.0\r\n\r\n",
    "another token": framed(json.dumps({"token": "guess", "rank": 0}).encode()),
    "another token of a rank": framed(json.dumps({"token": "guess", "rank": 1, "dimension": 0, "lane": 0}).encode()),
    "a token that is no text": framed(json.dumps({"token": [[]] * 4000}).encode()),
}


def call(address: tuple[str, int], greeting: bytes) -> list[socket.socket]:
    """Callers who send a greeting and then listen."""
    callers = [socket.create_connection(address) for _ in range(CALLERS)]
    for caller in callers:
        with suppress(OSError):
            caller.sendall(greeting)
    return callers


def cost_of_a_rank(greeting: bytes) -> tuple[float, float]:
    """CPU seconds and bytes for each caller until the neighbour, who calls last, is connected."""
    endpoints = [TcpEndpoint(rank, "token", "127.0.0.1") for rank in range(2)]
    addresses = [endpoint.address for endpoint in endpoints]
    tracemalloc.start()
    begin = time.process_time()
    callers = call(addresses[0], greeting)
    threads = [
        threading.Thread(target=endpoint.connect, args=({(0, 0): (0, 1)}, addresses, PATIENCE))
        for endpoint in endpoints
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    seconds, (_, peak) = time.process_time() - begin, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    for caller in callers:
        caller.close()
    return seconds / CALLERS, peak / CALLERS


def cost_of_a_coordinator(greeting: bytes) -> tuple[float, float]:
    """The same of the coordinator of one rank, who calls last, and says only who it is."""
    callers = list[socket.socket]()

    def start(address: str, token: str) -> tuple[()]:
        host, _, port = address.rpartition(":")
        callers.extend(call((host, int(port)), greeting))
        callers.append(socket.create_connection((host, int(port))))
        callers[-1].sendall(framed(json.dumps({"token": token, "rank": 0, "version": "none"}).encode()))
        return ()

    tracemalloc.start()
    begin = time.process_time()
    with suppress(Exception), Coordinator(1, start):
        pass
    seconds, (_, peak) = time.process_time() - begin, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    for caller in callers:
        caller.close()
    return seconds / CALLERS, peak / CALLERS


@pytest.mark.parametrize("measure", [cost_of_a_rank, cost_of_a_coordinator])
@pytest.mark.parametrize("greeting", GREETINGS.values(), ids=GREETINGS)
def test_a_caller_without_the_token_costs_little(measure, greeting):
    seconds, size = measure(greeting)
    print(f"{measure.__name__}: {seconds * 1e3:.2f} ms, {size / 1e3:.0f} kB")
    assert seconds < MOST_SECONDS
    assert size < MOST_BYTES

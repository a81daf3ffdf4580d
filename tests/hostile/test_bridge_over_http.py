"""Hosts of the MCP bridge that never end what they begin: sessions, streams, connections."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.mcp.conftest import environment
from tests.programs import BRIDGE, Forked
from tests.waiting import until

NOBODY = "127.0.0.1:1"
HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "a host", "version": "1"},
    },
}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
MAX_CONNECTIONS = 256
KIB_A_SESSION = 12
"""More than a request leaves behind (under 1 KiB), and a third of what a kept session takes (38
KiB).
"""


@pytest.fixture
def bridge() -> Iterator[tuple[Forked, str]]:
    """Run the bridge as a process on a port; yield it and its URL."""
    with Forked(
        BRIDGE, ["--http", "127.0.0.1:0"], stderr=subprocess.PIPE, env=environment(NOBODY)
    ) as process:
        try:
            assert process.stderr is not None
            yield process, process.stderr.readline().split()[3]
        finally:
            process.kill()


def memory_of(process: Forked) -> int:
    """Return the resident memory of a process in KiB."""
    [line] = [
        it
        for it in Path(f"/proc/{process.pid}/status").read_text().splitlines()
        if it.startswith("VmRSS:")
    ]
    return int(line.split()[1])


def stream(url: str) -> tuple[socket.socket, int]:
    """Ask for a stream of the server's messages. Return the connection, and the status that was
    answered.
    """
    address = urlsplit(url)
    connection = socket.create_connection((address.hostname, address.port), timeout=30)
    connection.sendall(
        f"GET {address.path} HTTP/1.1\r\nHost: {address.netloc}\r\nAccept: text/event-stream\r\n\r\n".encode()
    )
    return connection, int(connection.recv(1000).split()[1])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_sessions_that_never_end_take_no_memory(bridge: tuple[Forked, str], scale: int) -> None:
    process, url = bridge
    with httpx2.Client(headers=HEADERS) as http:

        def begin(count: int) -> None:
            for _ in range(count):
                answer = http.post(url, json=INITIALIZE)
                assert (answer.status_code, answer.headers.get("mcp-session-id")) == (200, None)

        begin(20)
        before = memory_of(process)
        begin(40 * scale)
        assert memory_of(process) - before < 40 * scale * KIB_A_SESSION
        assert len(http.post(url, json=LIST).text) > 1000


def test_streams_that_are_never_read_are_bounded_and_leave_room_when_they_end(
    bridge: tuple[Forked, str], scale: int
) -> None:
    process, url = bridge

    def status_of_a_call() -> int:
        with httpx2.Client(headers=HEADERS, timeout=30) as http:
            return http.post(url, json=LIST).status_code

    for _ in range(scale):
        with ExitStack() as opened:
            for _ in range(MAX_CONNECTIONS):
                connection, status = stream(url)
                opened.enter_context(connection)
                if status == 503:
                    break
            assert status == status_of_a_call() == 503
        until(lambda: status_of_a_call() == 200)
    held, status = stream(url)
    with held:
        assert status == 200
        process.terminate()
        process.wait()  # a stream that is held does not hold up the stop

"""Health over plain HTTP: for probes that speak no gRPC and no TLS, whatever the server does."""

import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import URLError

import grpc
import pytest
import trustme
from grpc_health.v1 import health_pb2, health_pb2_grpc
from recollect_server.run.folder import CannotStart
from recollect_server.run.space import OpenSpace

from tests.conftest import LOOPBACK, RunningServer, Start
from tests.operations.conftest import OBSERVED, get, token
from tests.server.conftest import code_of
from tests.tls.conftest import Files
from tests.waiting import until


def files_of(authority: trustme.CA, folder: Path) -> Files:
    """Write a certificate of this machine, with its key."""
    certificate = authority.issue_cert("localhost", LOOPBACK)
    files = Files(folder / "server.pem", folder / "server.key")
    files.certificate.write_bytes(b"".join(it.bytes() for it in certificate.cert_chain_pems))
    files.key.write_bytes(certificate.private_key_pem.bytes())
    return files


@pytest.fixture
def secure(start_server: Start, tmp_path: Path) -> RunningServer:
    """Start a server whose calls need TLS, beside health and metrics."""
    files = files_of(trustme.CA(), tmp_path)
    return start_server(**files.settings, health_listen="0.0.0.0:0", metrics=f"{LOOPBACK}:0")


def url(server: RunningServer, path: str) -> str:
    return f"http://{LOOPBACK}:{server.app.health_address.rpartition(':')[2]}{path}"


def test_health_is_plain_beside_tls_and_nothing_else_is_there(secure: RunningServer) -> None:
    status, page = get(url(secure, "/readyz"))
    assert status == 200
    assert page.splitlines()[0] == "ready"
    assert "recollect.v1.RecallService/keyword_messages: SERVING" in page.splitlines()
    assert get(url(secure, "/livez")) == (200, "alive\n")
    for path in ("/metrics", "/", "/readyz/../metrics"):
        assert get(url(secure, path))[0] == 404
    port = int(secure.app.health_address.rpartition(":")[2])
    with grpc.insecure_channel(f"{LOOPBACK}:{port}") as channel:  # no gRPC is spoken there
        stub: Any = health_pb2_grpc.HealthStub(channel)
        with pytest.raises(grpc.RpcError):
            stub.Check(health_pb2.HealthCheckRequest(), timeout=2)


@pytest.fixture
def held_start(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Hold each start while it opens its space, until the event is set."""
    go_on, opened = threading.Event(), OpenSpace.open

    def held(space: OpenSpace) -> None:
        assert go_on.wait(60)
        opened(space)

    monkeypatch.setattr(OpenSpace, "open", held)
    yield go_on
    go_on.set()


def test_a_server_that_starts_or_stops_is_alive_and_not_ready(
    start_server: Start, held_start: threading.Event
) -> None:
    with socket.create_server((LOOPBACK, 0)) as probe:
        port = probe.getsockname()[1]
    started: list[RunningServer] = []
    address = f"{LOOPBACK}:{port}"
    thread = threading.Thread(
        target=lambda: started.append(start_server(health_listen=address, metrics=f"{LOOPBACK}:0"))
    )
    thread.start()

    def answer() -> tuple[int, str] | None:
        try:
            return get(f"http://{address}/readyz")
        except OSError:
            return None

    assert until(answer) == (503, "not ready: the server is starting\n")
    assert get(f"http://{address}/livez")[0] == 200
    held_start.set()
    thread.join()
    (server,) = started
    assert get(f"http://{address}/readyz")[0] == 200
    server.app._stops[-1]()  # it leaves; the rest of the stop comes later
    assert get(f"http://{address}/readyz")[1].startswith("not ready: the server is stopping\n")
    assert get(f"http://{address}/livez")[0] == 200
    server.stop()
    with pytest.raises(URLError, match="refused"):
        get(f"http://{address}/livez")


def test_watchers_of_health_and_standing_connections_hold_up_no_stop(start_server: Start) -> None:
    server = start_server(**OBSERVED, shutdown_grace="60s")
    channels = [grpc.insecure_channel(server.target) for _ in range(5)]
    watches = []
    for channel in channels:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        watches.append(stub.Watch(health_pb2.HealthCheckRequest()))
        assert next(watches[-1]).status == health_pb2.HealthCheckResponse.SERVING
    places = [server.app.health_address, server.app.metrics_address]
    silent = [
        socket.create_connection((LOOPBACK, int(it.rpartition(":")[2]))) for it in 20 * places
    ]
    for path, place in (("readyz", places[0]), ("metrics", places[1])):
        assert get(f"http://{place}/{path}")[0] == 200  # those who say nothing keep nobody out
    for connection in silent[:2]:  # the oldest gave way, long before their time was over
        connection.settimeout(3)
        assert connection.recv(1) == b""
    began = time.monotonic()
    server.stop()
    assert time.monotonic() - began < 20
    for watch in watches:
        assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
        assert code_of(partial(next, watch)) == "UNAVAILABLE"
    for connection in silent:
        connection.close()
    for channel in channels:
        channel.close()


def test_a_start_that_fails_leaves_no_address_open(
    start_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: OpenSpace) -> None:
        raise CannotStart("refused")

    monkeypatch.setattr(OpenSpace, "open", refuse)
    with socket.create_server((LOOPBACK, 0)) as probe:
        port = probe.getsockname()[1]
    with pytest.raises(CannotStart):
        start_server(health_listen=f"{LOOPBACK}:{port}")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOOPBACK, port))


def test_metrics_beyond_loopback_are_https_and_who_says_nothing_keeps_nobody_out(
    start_server: Start, tmp_path: Path
) -> None:
    authority = trustme.CA()
    files = files_of(authority, tmp_path)
    folder = tmp_path / "data"
    folder.mkdir()
    token(folder, "monitor", "*")
    server = start_server(**files.settings, metrics="0.0.0.0:0")
    port = int(server.app.metrics_address.rpartition(":")[2])
    context = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
    silent = [socket.create_connection((LOOPBACK, port)) for _ in range(20)]
    with (
        socket.create_connection((LOOPBACK, port)) as plain,
        context.wrap_socket(plain, server_hostname=LOOPBACK) as connection,
    ):
        connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.0 401")
    assert b"the call brings no token" in answer
    began = time.monotonic()
    for caller in silent[:3]:  # the oldest gave way in the middle of their handshakes
        assert caller.recv(1) == b""
    assert time.monotonic() - began < 2
    for caller in silent:
        caller.close()


def test_a_caller_who_trickles_is_cut_off_by_a_stop(start_server: Start) -> None:
    server = start_server(health_listen=f"{LOOPBACK}:0")
    port = int(server.app.health_address.rpartition(":")[2])
    with socket.create_connection((LOOPBACK, port)) as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\n")
        assert get(url(server, "/livez"))[0] == 200  # the first one is being read
        server.stop()
        connection.settimeout(2)
        for _ in iter(partial(connection.recv, 4096), b""):
            pass


_WITHOUT_DESCRIPTORS = """
import resource, socket, time
from recollect_server.contract.plain_http import PlainHttp, text_page

http = PlainHttp("health-listen", "127.0.0.1:0", {"/": lambda _: text_page(200, "alive")})
port = int(http.open().rpartition(":")[2])
with socket.create_connection(("127.0.0.1", port)) as first:
    first.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
    while first.recv(4096):
        pass
caller = socket.socket()
free, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (caller.fileno() + 1, most))
caller.connect(("127.0.0.1", port))
caller.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
caller.settimeout(1)
before = time.process_time()
try:
    caller.recv(1)
except TimeoutError:
    print(time.process_time() - before)
caller.settimeout(None)
resource.setrlimit(resource.RLIMIT_NOFILE, (free, most))
assert caller.recv(4096).startswith(b"HTTP/1.0 200")
http.close()
"""


def test_a_server_without_free_descriptors_waits_for_one_at_rest() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_DESCRIPTORS],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert float(done.stdout) < 0.2  # seconds of the processor in one of the clock

"""Requests that no page of the bridge sends: each is refused before the server hears of it."""

import asyncio
import json
import socket
import time
from contextlib import ExitStack, suppress
from typing import Any

import pytest
import uvicorn
from recollect._bounded_http import BoundedHttp
from recollect.v1.access_service_pb2 import WhoAmIResponse
from recollect.v1.conversation_service_pb2 import ListResponse
from recollect.web.forwarding import read_body
from recollect.web.protocols import RequestRefused
from starlette.requests import Request

from tests.cases import each
from tests.web.conftest import Bridge, Http, Stage

HEAD = "GET / HTTP/1.1\r\nhost: 127.0"
LIST = "/recollect.v1.ConversationService/List"
GET = "/recollect.v1.ConversationService/Get"
WHO = "/recollect.v1.AccessService/WhoAmI"
STREAM = "/recollect.v1.ConversationService/StreamUpdates"
PROTO = "application/proto"
JSON = "application/json"


@pytest.fixture(scope="module")
def http(stage: Stage) -> Http:
    return Http(stage.bridge.port)


@pytest.fixture(scope="module")
def cookie(stage: Stage, http: Http) -> str:
    """Return the cookie of a session."""
    key = json.dumps({"key": stage.bridge.keys[-1]}).encode()
    answer = http.send("POST", "/session/open", key, content_type=JSON)
    assert answer.status == 204
    stage.bridge.next_key()
    cookie, *attributes = answer.headers["set-cookie"].split("; ")
    assert cookie.startswith(f"recollect-web-{stage.bridge.port}=")
    assert {it.lower() for it in attributes} == {"httponly", "path=/", "samesite=strict"}
    return cookie


def test_a_page_of_the_bridge_is_answered(http: Http, cookie: str) -> None:
    answer = http.send("POST", WHO, content_type=PROTO, cookie=cookie)
    assert answer.status == 200
    assert WhoAmIResponse.FromString(answer.body).space == "default"
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1",
        "127.0.0.1:1",
        "localhost.evil.example",
        "[::1]:{port}",
        "",
        None,
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_another_host_is_refused(
    http: Http, stage: Stage, cookie: str, host: str | None, method: str
) -> None:
    named = None if host is None else host.format(port=stage.bridge.port)
    origin = f"http://{named}" if method == "POST" else None
    answer = http.send(
        method, WHO if method == "POST" else "/", host=named, origin=origin,
        content_type=PROTO, cookie=cookie,
    )  # fmt: skip
    assert answer.status in (400, 421)
    assert b"Recollect" not in answer.body


def test_two_hosts_are_refused(http: Http, stage: Stage) -> None:
    host = f"host: 127.0.0.1:{stage.bridge.port}\r\n"
    answer = http.raw(f"GET / HTTP/1.1\r\n{host}host: evil.example\r\n\r\n".encode())
    assert answer.status in (400, 421)


@each("origin", ["http://evil.example", "null", "http://127.0.0.1", "https://127.0.0.1:{port}",
     "http://127.0.0.1:{port}.evil.example", "http://localhost:{port}", ""])  # fmt: skip
def test_another_origin_is_refused(http: Http, stage: Stage, cookie: str, origin: str) -> None:
    named = origin.format(port=stage.bridge.port)
    for path in (WHO, STREAM, "/session/open", "/session/sign-in"):
        answer = http.send("POST", path, origin=named, content_type=PROTO, cookie=cookie)
        assert answer.status == 403
        assert "access-control-allow-origin" not in answer.headers


def test_a_browsers_request_has_an_origin(http: Http, cookie: str) -> None:
    # a call without one is a program's: tests/web/test_curl.py
    for path in ("/session/open", "/session/sign-in", "/session/sign-out"):
        answer = http.send("POST", path, origin=None, content_type=JSON, cookie=cookie)
        assert answer.status == 403
    for name in ("sec_fetch_site", "sec_fetch_dest"):
        sent: Any = {"origin": None, "content_type": PROTO, "cookie": cookie, name: "same-origin"}
        assert http.send("POST", WHO, **sent).status == 403


def test_a_preflight_is_refused(http: Http, stage: Stage) -> None:
    answer = http.send(
        "OPTIONS", LIST, origin="http://evil.example", access_control_request_method="POST"
    )
    assert answer.status == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_what_another_site_embeds_is_refused_and_its_links_work(http: Http) -> None:
    embedded = http.send("GET", "/", sec_fetch_site="cross-site", sec_fetch_mode="no-cors")
    assert embedded.status == 403
    followed = http.send("GET", "/", sec_fetch_site="cross-site", sec_fetch_mode="navigate")
    assert followed.status == 200


@each("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
     "application/json", "application/grpc-web+proto", "application/proto; charset=x", "", None])  # fmt: skip
def test_another_content_type_is_refused(http: Http, cookie: str, kind: str | None) -> None:
    assert http.send("POST", LIST, content_type=kind, cookie=cookie).status == 415
    assert http.send("POST", STREAM, content_type=kind or PROTO, cookie=cookie).status == 415


@pytest.mark.parametrize("value", [None, "", "recollect-web-{port}=", "recollect-web-{port}=wrong",
                                   "recollect-web-1={right}"])  # fmt: skip
def test_without_the_cookie_nothing_is_answered(
    http: Http, stage: Stage, cookie: str, value: str | None
) -> None:
    right = cookie.split("=", 1)[1]
    wrong = None if value is None else value.format(port=stage.bridge.port, right=right)
    for path, kind in ((LIST, PROTO), (STREAM, "application/connect+proto")):
        answer = http.send("POST", path, content_type=kind, cookie=wrong)
        assert answer.status == 401
        assert json.loads(answer.body)["code"] == "unauthenticated"
        assert answer.headers["recollect-web"] == "session"


@each("body", [b"", b"{}", b"[]", b'{"key": 1}', b"\xff", b"[" * 2000,
                                  b'{"key": "\\ud800"}', b'{"key": "wrong"}'])  # fmt: skip
def test_a_wrong_key_opens_nothing(http: Http, body: bytes) -> None:
    answer = http.send("POST", "/session/open", body, content_type=JSON)
    assert answer.status in (400, 401)
    assert "set-cookie" not in answer.headers


def test_a_key_opens_one_session(http: Http, stage: Stage, cookie: str) -> None:
    used = json.dumps({"key": stage.bridge.keys[0]}).encode()
    answer = http.send("POST", "/session/open", used, content_type=JSON)
    assert answer.status == 401
    assert "used before" in json.loads(answer.body)["message"]


@each("path", ["/../main.py", "/..%2f..%2fmain.py", "/%2e%2e/%2e%2e/main.py", "/assets/../../main.py",
     "/assets//etc/passwd", "//etc/passwd", "/etc/passwd.txt", "/assets/%00.js", "/.git/config",
     "/static/index.html.map", "/" + "a" * 4000])  # fmt: skip
def test_no_path_reaches_another_file(http: Http, path: str) -> None:
    answer = http.send("GET", path)
    assert answer.status in (400, 404)
    assert b"import" not in answer.body


@each("path", ["/recollect.v1.ConversationService/Nothing", "/grpc.reflection.v1.ServerReflection/Info",
     "/recollect.v1.ConversationService", "//recollect.v1.ConversationService/List",
     LIST + "/", LIST + "%09", LIST + "%3f", "/x/.." + LIST, "http://evil.example" + LIST])  # fmt: skip
def test_no_other_call_is_forwarded(http: Http, cookie: str, path: str) -> None:
    assert http.send("POST", path, content_type=PROTO, cookie=cookie).status == 404


def test_other_methods_are_refused(http: Http, cookie: str) -> None:
    for method in ("PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "PROPFIND"):
        assert http.send(method, "/", cookie=cookie).status in (400, 405)


@each(
    ("request_line", "changes", "statuses"),
    [
        ("POST {who} HTTP/1.1", {}, {200}),
        ("POST {who} HTTP/1.1", {"origin": ["{origin}", "{origin}"]}, {403}),
        ("POST {who} HTTP/1.1", {"origin": ["{origin}", "http://evil.example"]}, {403}),
        ("POST {who} HTTP/1.1", {"origin": ["{origin}/"]}, {403}),
        ("POST {who} HTTP/1.1", {"sec-fetch-site": ["same-site"]}, {403}),
        ("POST {who} HTTP/1.1", {"sec-fetch-site": ["same-origin", "CROSS-SITE"]}, {403}),
        ("POST {who} HTTP/1.1", {"host": ["x@{host}"]}, {421}),
        ("POST {who} HTTP/1.1", {"host": ["evil.example"], "x-forwarded-host": ["{host}"]}, {421}),
        ("POST {who} HTTP/1.0", {"host": []}, {421}),
        ("POST {who} HTTP/1.1", {"content-type": ["text/plain", "application/proto"]}, {415}),
        ("POST {who} HTTP/1.1", {"cookie": ["{cookie}x"]}, {401}),
        ("POST {who} HTTP/1.1", {"cookie": ["\xff;=;{cookie}x; $Version=1"]}, {401}),
        ("POST {who} HTTP/1.1", {"content-length": ["0", "5"]}, {400}),
        ("POST {who} HTTP/1.1", {"content-length": ["9" * 5000]}, {400}),
        ("POST {who} HTTP/1.1", {"transfer-encoding": ["gzip, chunked"]}, {400, 501}),
        ("POST http://evil.example{who} HTTP/1.1", {}, {404}),
        ("GET {who} HTTP/1.1", {"x-http-method-override": ["POST"]}, {405}),
        ("HEAD {who} HTTP/1.1", {}, {405}),
        ("OPTIONS * HTTP/1.1", {}, {405}),
        ("post {who} HTTP/1.1", {}, {405}),
        ("GET / HTTP/1.1", {"origin": ["http://evil.example"], "upgrade": ["websocket"]}, {403}),
    ],
)
def test_a_request_in_another_form_is_refused_as_in_the_usual_one(
    http: Http,
    stage: Stage,
    cookie: str,
    request_line: str,
    changes: dict[str, list[str]],
    statuses: set[int],
) -> None:
    host = f"127.0.0.1:{stage.bridge.port}"
    values = {"who": WHO, "host": host, "origin": f"http://{host}", "cookie": cookie}
    usual = {"host": ["{host}"], "origin": ["{origin}"], "cookie": ["{cookie}"],
             "content-type": [PROTO], "content-length": ["0"], "connection": ["close"]}  # fmt: skip
    headers = (usual | changes).items()
    lines = [request_line, *(f"{name}: {it}" for name, given in headers for it in given), "", ""]
    answer = http.raw("\r\n".join(lines).format(**values).encode("latin-1"))
    assert answer.status in statuses
    assert answer.status == 200 or b"default" not in answer.body


def test_a_huge_body_is_refused(http: Http, cookie: str) -> None:
    sent: Any = {"content_type": PROTO, "cookie": cookie}
    announced = http.send("POST", LIST, content_length=str(10**12), **sent)
    assert announced.status == 413
    chunk = b"f4240\r\n" + b"x" * 1_000_000 + b"\r\n"
    endless = chunk * 10 + b"0\r\n\r\n"
    streamed = http.send(
        "POST", LIST, endless, content_length=None, transfer_encoding="chunked", **sent
    )
    assert streamed.status in (0, 413)  # 0: the connection was ended while this end still sent
    secret = http.send("POST", "/session/open", b"x" * 5000, content_type=JSON)
    assert secret.status == 413
    assert http.send("POST", WHO, **sent).status == 200


def test_a_body_that_does_not_come_holds_up_nobody(http: Http, stage: Stage, cookie: str) -> None:
    host = f"127.0.0.1:{stage.bridge.port}"
    head = (
        f"POST {LIST} HTTP/1.1\r\nhost: {host}\r\norigin: http://{host}\r\ncookie: {cookie}\r\n"
        f"content-type: {PROTO}\r\ncontent-length: 100\r\n\r\n"
    )
    slow = [socket.create_connection(("127.0.0.1", stage.bridge.port)) for _ in range(20)]
    try:
        for connection in slow:
            connection.sendall(head.encode())
        start = time.monotonic()
        assert http.send("POST", WHO, content_type=PROTO, cookie=cookie).status == 200
        assert time.monotonic() - start < 5
    finally:
        for connection in slow:
            connection.close()


async def test_a_body_that_trickles_is_cut_off_however_often_a_part_comes() -> None:
    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0.01)
        return {"type": "http.request", "body": b"x", "more_body": True}

    scope = {"type": "http", "method": "POST", "path": LIST, "headers": []}
    with pytest.raises(RequestRefused, match="took too long") as refused:
        await read_body(Request(scope, receive), seconds=0.1)
    assert refused.value.status == 408


@pytest.mark.parametrize("body", [b"", b"\0\0\0\0", b"\0\0\0\0\x05ab", b"\x01\0\0\0\0", b"\0" * 11])
def test_a_damaged_envelope_is_refused(http: Http, cookie: str, body: bytes) -> None:
    answer = http.send(
        "POST", STREAM, body, content_type="application/connect+proto", cookie=cookie
    )
    assert answer.body[0] == 2  # the end of a stream, which has no message before it
    assert json.loads(answer.body[5:])["error"]["code"] == "invalid_argument"


def test_bytes_that_are_no_message_are_refused_by_the_server(http: Http, cookie: str) -> None:
    answer = http.send("POST", LIST, b"\xff\xff", content_type=PROTO, cookie=cookie)
    assert answer.status == 400
    assert json.loads(answer.body)["code"] == "invalid_argument"


def test_errors_keep_their_reason_and_fields(http: Http, cookie: str) -> None:
    answer = http.send("POST", GET, b"\x0a\x03abc", content_type=PROTO, cookie=cookie)
    assert answer.status == 400
    error = json.loads(answer.body)
    assert "conversation_id" in error["message"]
    kinds = {it["type"] for it in error["details"]}
    assert kinds == {"google.rpc.ErrorInfo", "google.rpc.BadRequest"}


@pytest.mark.parametrize("timeout", ["-1", "1e3", "x", "99999999999", "١٢"])
def test_a_wrong_timeout_is_refused(http: Http, cookie: str, timeout: str) -> None:
    sent: Any = {"content_type": PROTO, "cookie": cookie, "connect_timeout_ms": timeout}
    assert http.send("POST", WHO, **sent).status == 400


@pytest.mark.parametrize("space", ["../x", "a b", "x" * 65, "\xe4"])
def test_a_wrong_space_is_refused(http: Http, cookie: str, space: str) -> None:
    sent: Any = {"content_type": PROTO, "cookie": cookie, "recollect_space": space}
    assert http.send("POST", LIST, **sent).status == 400


def test_a_space_is_that_of_the_call(http: Http, cookie: str) -> None:
    sent: Any = {"content_type": PROTO, "cookie": cookie, "recollect_space": "another"}
    answer = http.send("POST", LIST, **sent)
    assert not ListResponse.FromString(answer.body).conversations
    who = http.send("POST", WHO, **sent)
    assert WhoAmIResponse.FromString(who.body).space == "another"


def test_every_answer_tells_the_browser_what_is_forbidden(http: Http) -> None:
    answers = [
        http.send("GET", "/"),
        http.send("GET", "/assets/page.js"),
        http.send("GET", "/nothing.js"),
        http.send("GET", "/", host="evil.example"),
    ]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        for rule in (
            "default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'",
            "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
        ):  # fmt: skip
            assert rule in policy.split("; ")
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "server" not in answer.headers


def test_a_file_that_the_browser_has_is_not_sent_again(http: Http) -> None:
    first = http.send("GET", "/assets/page.js")
    again = http.send("GET", "/assets/page.js", if_none_match=first.headers["etag"])
    assert (first.status, again.status, again.body) == (200, 304, b"")


def test_a_token_does_not_cross_a_network_in_plain_text() -> None:
    bridge = Bridge("192.0.2.1:50051")  # an address for examples: nobody is there
    try:
        http = Http(bridge.port)
        key = json.dumps({"key": bridge.keys[0]}).encode()
        cookie = http.send("POST", "/session/open", key, content_type=JSON).headers["set-cookie"]
        token = b'{"token": "rcl_a_b"}'
        answer = http.send("POST", "/session/sign-in", token, content_type=JSON, cookie=cookie)
        assert answer.status == 400
        assert "--ca" in json.loads(answer.body)["message"]
    finally:
        bridge.stop()


def test_600_half_sent_requests_keep_nobody_out(http: Http, stage: Stage) -> None:
    with ExitStack() as held:
        for _ in range(600):
            it = held.enter_context(socket.create_connection(("127.0.0.1", stage.bridge.port)))
            it.sendall(HEAD.encode())
        assert http.send("GET", "/").status == 200


def test_an_answered_request_whose_body_never_ends_is_closed(http: Http, stage: Stage) -> None:
    address = ("127.0.0.1", stage.bridge.port)
    head = f"GET /nothing.js HTTP/1.1\r\nhost: 127.0.0.1:{stage.bridge.port}\r\n"
    head += "content-length: 1000\r\n\r\n"
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(head.encode())
        assert connection.recv(65536).startswith(b"HTTP/1.1 404")
        # The first byte of the body ended the only limit of time that there was.
        connection.sendall(b"x")
        with suppress(ConnectionResetError):
            while connection.recv(65536):
                pass
    # what comes whole, if behind the answer, costs nobody the connection
    with socket.create_connection(address, timeout=20) as connection:
        for _ in range(2):
            connection.sendall(head.encode())
            received = connection.recv(65536)
            assert received.startswith(b"HTTP/1.1 404")
            while not received.endswith(b"no such page\n"):
                received += connection.recv(65536)
            connection.sendall(b"x" * 1000)


def test_600_strangers_whose_bodies_never_end_keep_nobody_out(http: Http, stage: Stage) -> None:
    host = f"127.0.0.1:{stage.bridge.port}"
    head = f"GET /nothing.js HTTP/1.1\r\nhost: {host}\r\ncontent-length: 1000\r\n\r\nx"
    with ExitStack() as held:
        for _ in range(600):
            it = held.enter_context(socket.create_connection(("127.0.0.1", stage.bridge.port)))
            it.sendall(head.encode())
        assert http.send("GET", "/").status == 200


def test_connections_end_without_a_head_in_time_and_send_bodies_at_once() -> None:
    nagles: list[int] = []

    class Quick(BoundedHttp):
        head_seconds = 0.05

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            its_socket = transport.get_extra_info("socket")
            nagles.append(its_socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def run() -> list[bytes]:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            server = uvicorn.Server(uvicorn.Config(answer, http=Quick, log_level="error"))
            serving = asyncio.create_task(server.serve(sockets=[listening]))
            ends = []
            # The first head, and the second of a connection that was answered before.
            for before in ("", "GET / HTTP/1.1\r\nhost: x\r\n\r\n"):
                reader, writer = await asyncio.open_connection(*listening.getsockname())
                writer.write((before + HEAD).encode())
                try:
                    ends.append(await reader.read())
                except ConnectionResetError:
                    ends.append(b"")
                writer.close()
            server.should_exit = True
            await serving
        return ends

    first, second = asyncio.run(asyncio.wait_for(run(), 30))
    assert first == b""
    assert second == b"" or second.startswith(b"HTTP/1.1 204")
    assert len(nagles) == 2
    assert all(nagles), "the body of each answer waits for the acknowledgement of its head"


@pytest.mark.parametrize("is_whole", [True, False])
def test_who_reads_nothing_of_an_answer_keeps_no_connection(is_whole: bool) -> None:
    ended = asyncio.Event()

    class Impatient(BoundedHttp):
        reading_seconds = 0.05

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            ended.set()

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        part = b"x" * 30_000_000
        await send({"type": "http.response.body", "body": part, "more_body": not is_whole})
        if not is_whole:
            await send({"type": "http.response.body", "body": b"x"})

    async def run() -> bool:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            server = uvicorn.Server(uvicorn.Config(answer, http=Impatient, log_level="error"))
            serving = asyncio.create_task(server.serve(sockets=[listening]))
            with socket.create_connection(listening.getsockname()) as connection:
                connection.sendall(f"{HEAD}\r\n\r\n".encode())
                has_ended = await ended.wait()
            server.should_exit = True
            await serving
        return has_ended

    assert asyncio.run(asyncio.wait_for(run(), 30))

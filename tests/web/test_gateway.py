"""The gateway: what programs and pages of other origins may call, with a token of their own."""

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from recollect import Client, Message
from recollect.v1.recall_service_pb2 import SearchRequest, SearchResponse
from recollect_server.kernel.domain.time import system_clock
from recollect_server.run import app
from recollect_server.run.settings import Settings

from tests.conformance.runner import FOLDER, cases
from tests.credentials.conftest import grant, tokens_of
from tests.programs import PAGE, free_port, ran
from tests.typescript.conftest import built, node
from tests.waiting import until
from tests.web.conftest import Answer, Bridge, Http, blank_site, running_nginx

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs/guides/http.md"
LISTED = "https://app.example"
SEARCH = "RecallService/Search"
JSON, PROTO = "application/json", "application/proto"


@dataclass
class Way:
    """The way in for programs, to a server that asks for tokens."""

    bridge: Bridge
    target: str
    tokens: Any
    brain: str
    reader: str
    conversation: str

    def __post_init__(self) -> None:
        self.http = Http(self.bridge.port)

    def call(self, method: str, body: Any, token: str = "", **headers: str | None) -> Answer:
        """Make a call as a program does: without an origin, with a token."""
        sent: dict[str, str | None] = {
            "origin": None,
            "content_type": JSON,
            "authorization": f"Bearer {token or self.brain}",
        }
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.http.send("POST", f"/recollect.v1.{method}", content, **sent | headers)


@pytest.fixture(scope="module")
def way(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Way]:
    """Start a server that asks for tokens and a gateway, for the tests of this module."""
    data = tmp_path_factory.mktemp("gateway") / "data"
    values = {"listen": "127.0.0.1:0", "data_dir": data, "auth": "required", "idle_timeout": "1h"}
    server = app.start(Settings.load(None, values))
    tokens = tokens_of(data, system_clock)
    brain, reader = (
        tokens.create(grant(kind, "default", "work"))[1] for kind in ("brain", "reader")
    )
    bridge = Bridge(server.address, RECOLLECT_WEB_CORS=LISTED)
    with Client(server.address, token=brain) as client:
        it = client.conversations.create("web").id
        client.conversations.append_turn(it, [Message.user("We ship on Friday."), Message.assistant("Noted.")])  # fmt: skip
    yield Way(bridge, server.address, tokens, brain, reader, it)
    bridge.stop()
    server.stop()


def test_a_program_calls_in_json_and_in_binary(way: Way) -> None:
    first = way.call(SEARCH, {"query": "when do we ship?"}, content_type=f"{JSON}; charset=UTF-8")
    assert (first.status, first.headers["content-type"]) == (200, JSON)
    assert first.headers["cache-control"] == "no-store"
    (result,) = json.loads(first.body)["results"]
    assert (result["conversationId"], result["turnRange"]) == (way.conversation, {"first": 1, "last": 1})  # fmt: skip
    binary = way.call(SEARCH, SearchRequest(query="ship").SerializeToString(), content_type=PROTO)
    assert SearchResponse.FromString(binary.body).results[0].conversation_id == way.conversation
    # the space is that of the call, else the token's
    other = way.call(SEARCH, {"query": "ship"}, recollect_space="work")
    assert (other.status, json.loads(other.body).get("results")) == (200, None)
    # what is long goes around the loop of the others, there and back
    long = "é" * 60_000
    create = {"channel": "long", "messages": [{"role": "ROLE_USER", "content": long}]}
    stored = way.call("ConversationService/Create", create)
    identity = json.loads(stored.body)["conversation"]["id"]
    loaded = json.loads(way.call("ConversationService/Load", {"conversationId": identity}).body)
    assert loaded["messages"][0]["content"] == long


def by_stranger(way: Way, body: Any, **headers: str) -> Answer:
    """Search with a wrong token, again while those of other tests slow this address down."""

    def answered() -> Answer | None:
        answer = way.call(SEARCH, body, "rcl_unknown", **headers)
        return answer if answer.status != 429 else None

    return until(answered)


def test_errors_are_those_of_the_contract(way: Way) -> None:
    wrong = way.call("ConversationService/Get", {"conversationId": "abc"})
    error = json.loads(wrong.body)
    assert (wrong.status, error["code"]) == (400, "invalid_argument")
    shown = {it["type"]: it["debug"] for it in error["details"]}
    assert shown["google.rpc.ErrorInfo"]["reason"] == "ERROR_REASON_INVALID_FIELD"
    assert shown["google.rpc.BadRequest"]["fieldViolations"][0]["field"] == "conversation_id"
    missing = {"conversationId": "conv-01HQ0000000000000000000000"}
    assert way.call("ConversationService/Get", missing).status == 404
    denied = way.call("ConversationService/Delete", missing, way.reader)
    assert (denied.status, json.loads(denied.body)["code"]) == (403, "permission_denied")
    late = way.call(SEARCH, {"query": "ship"}, connect_timeout_ms="0")
    assert (late.status, json.loads(late.body)["code"]) == (504, "deadline_exceeded")

    unknown = by_stranger(way, {"query": "ship"})
    assert (unknown.status, json.loads(unknown.body)["code"]) == (401, "unauthenticated")
    assert "set-cookie" not in unknown.headers
    for headers in ({"content_encoding": "gzip"}, {"connect_protocol_version": "2"}):
        refused = way.call(SEARCH, {"query": "ship"}, **headers)
        assert json.loads(refused.body)["code"] in ("unimplemented", "invalid_argument")
        assert next(iter(headers)).replace("_", "-") in json.loads(refused.body)["message"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "no object"),
        (b"[]", "no object"),
        (b"null", "no object"),
        (b"{" * 3000, "Expecting property name"),
        (b'{"query": ' + b"[" * 90_000, "recursion"),
        (b'{"query": "\\ud800"}', "surrogate"),
        (b'{"query": "\xff"}', "utf-8"),
        (b'{"query": "a", "\\ud800": 1}', "half of a surrogate pair"),
        (b'{"query": "a", "minScore": "\\ud800"}', "minScore"),
        (b'{"query": "a", "query": "b"}', "duplicate key query"),
        (b'{"query": "a", "limt": 1}', 'no field named "limt"'),
        (b'{"query": "a", "SystemError": 1}', 'no field named "SystemError"'),
        (b'{"query": "a", "limit": 1e99}', "limit"),
        (b'{"query": "a", "limit": ' + b"9" * 5000 + b"}", "digits"),
        (b'{"query": "a", "minScore": NaN}', "minScore"),
        (b'{"query": {"$gt": ""}}', "query"),
        (b'{"query": ["",' + b'",",' * 500_000 + b'""]}', "more than 100000 names"),
        (b'{"query": [' + b"{}," * 199_000 + b"{}]}", "more than 100000 names"),
    ],
)
def test_a_body_that_is_no_message_is_refused(way: Way, body: bytes, text: str) -> None:
    answer = way.call(SEARCH, body)
    error = json.loads(answer.body)
    assert (answer.status, error["code"]) == (400, "invalid_argument")
    assert "SearchRequest" in error["message"]
    assert text in error["message"]


def test_a_body_of_the_narrowest_values_costs_little_more_than_its_bytes(way: Way) -> None:
    bridge = Bridge(way.target)
    try:
        small = json.dumps({"query": "ship"}).encode()
        path, http = f"/recollect.v1.{SEARCH}", Http(bridge.port)
        sent: dict[str, Any] = {"origin": None, "content_type": JSON}
        sent["authorization"] = f"Bearer {way.brain}"
        assert http.send("POST", path, small, **sent).status == 200
        before = bridge.most_memory()
        for narrow in (b'"",', b"1,", b"{},", b'"'):
            body = b'{"query": [' + narrow * (17_000_000 // len(narrow)) + b"1]}"
            assert http.send("POST", path, body, **sent).status == 400
        assert bridge.most_memory() - before < 100 * 2**20
    finally:
        bridge.stop()


def test_a_body_is_not_read_for_a_token_without_the_scope(way: Way) -> None:
    # the body never comes
    denied = way.call("ConversationService/Create", b"", way.reader, content_length="1000000")
    assert (denied.status, json.loads(denied.body)["code"]) == (403, "permission_denied")
    assert "conversations.write" in json.loads(denied.body)["message"]


def test_no_call_has_a_second_spelling(way: Way) -> None:
    usual: dict[str, Any] = {"content_type": JSON, "authorization": f"Bearer {way.brain}"}
    usual |= {"origin": None}
    for path in (
        "/recollect.v1.%52ecallService/Search",
        "/recollect.v1%2ERecallService/Search",
        "/recollect.v1.RecallService%2fSearch",
        "/%72ecollect.v1.RecallService/Search?x=1",
    ):
        answer = way.http.send("POST", path, b'{"query": "ship"}', **usual)
        assert answer.status == 404, path
        assert b"percent" in answer.body
    both = way.call(SEARCH, b"2\r\n{}\r\n0\r\n\r\n", transfer_encoding="chunked")
    assert both.status == 400
    assert both.headers["connection"] == "close"
    assert b"Content-Length" in both.body


def test_streams_of_one_token_leave_room_for_others(way: Way) -> None:
    bridge = Bridge(way.target)
    path = "/recollect.v1.ConversationService/StreamUpdates"
    head = "\r\n".join(
        [
            f"POST {path} HTTP/1.1",
            f"host: 127.0.0.1:{bridge.port}",
            f"authorization: Bearer {way.reader}",
            "content-type: application/connect+json",
            "content-length: 7",
            "",
            "",
        ]
    )
    request = head.encode() + b"\0\0\0\0\x02{}"
    http = Http(bridge.port)
    sent: dict[str, Any] = {"origin": None, "content_type": JSON}
    body = b'{"query": "ship"}'
    try:
        with ExitStack() as held:
            answers = []
            for _ in range(400):
                it = socket.create_connection(("127.0.0.1", bridge.port), timeout=30)
                held.enter_context(it).sendall(request)
                answers.append(it.recv(65536))
            # A stream has no length: what has one was refused.
            assert sum(b"content-length" in it for it in answers) == 400 - 128
            own = http.send(
                "POST", f"/recollect.v1.{SEARCH}", body,
                authorization=f"Bearer {way.reader}", **sent,
            )  # fmt: skip
            assert (own.status, own.headers["retry-after"]) == (429, "1")
            assert b"128 connections" in own.body
            other = http.send(
                "POST", f"/recollect.v1.{SEARCH}", body,
                authorization=f"Bearer {way.brain}", **sent,
            )  # fmt: skip
            assert other.status == 200
        # what ended is given back
        until(lambda: http.send(
            "POST", f"/recollect.v1.{SEARCH}", body, authorization=f"Bearer {way.reader}", **sent,
        ).status == 200)  # fmt: skip
    finally:
        bridge.stop()


def test_what_stands_in_a_text_is_no_value(way: Way) -> None:
    text = 'a,{["\\' * 150_000
    messages = [{"role": "ROLE_USER", "content": text}]
    answer = way.call("ConversationService/Create", {"channel": "web", "messages": messages})
    assert answer.status == 200, answer.body[:500]


def test_what_a_foreign_page_can_send_is_refused(way: Way) -> None:
    bearer = f"Bearer {way.brain}"
    own = way.bridge.origin
    key = json.dumps({"key": way.bridge.keys[-1]}).encode()
    opened = way.http.send("POST", "/session/open", key, content_type=JSON)
    way.bridge.next_key()
    cookie = opened.headers["set-cookie"].split("; ")[0]
    search = f"/recollect.v1.{SEARCH}"
    usual: dict[str, Any] = {"content_type": JSON, "authorization": bearer, "origin": None}
    attacks: list[tuple[dict[str, str | None], set[int]]] = [
        ({}, {200}),
        ({"authorization": "bearer  " + way.brain}, {200}),
        ({"origin": own}, {200}),
        ({"origin": LISTED, "sec_fetch_site": "cross-site"}, {200}),
        # no token, whatever else there is
        ({"authorization": None}, {401}),
        ({"authorization": None, "cookie": cookie}, {401}),
        ({"authorization": None, "cookie": cookie, "origin": LISTED}, {401}),
        ({"authorization": None, "cookie": cookie, "origin": own}, {415}),
        ({"authorization": "Basic dTpw", "cookie": cookie}, {401}),
        ({"authorization": f"{bearer}, {bearer}"}, {401}),
        ({"authorization": bearer + "\xe9"}, {401}),
        ({"authorization": f"{bearer}\r\nauthorization: {bearer}"}, {401}),
        # a cookie adds nothing to a token
        ({"authorization": "Bearer rcl_wrong", "cookie": cookie}, {401}),
        # other origins
        ({"origin": "http://evil.example"}, {403}),
        ({"origin": "null"}, {403}),
        ({"origin": LISTED + ".evil.example"}, {403}),
        ({"origin": LISTED + ":443"}, {403}),
        ({"origin": LISTED.upper()}, {403}),
        ({"origin": f"{LISTED}\r\norigin: http://evil.example"}, {403}),
        ({"sec_fetch_site": "cross-site"}, {403}),
        # another name for this address
        ({"host": "evil.example"}, {421}),
        ({"host": f"evil.example:{way.bridge.port}", "origin": LISTED}, {421}),
        ({"host": None}, {400, 421}),
        # content types for which a browser does not ask first
        ({"content_type": "text/plain"}, {415}),
        ({"content_type": "application/x-www-form-urlencoded"}, {415}),
        ({"content_type": f"{JSON}; charset=utf-7"}, {415}),
        ({"content_type": None}, {415}),
    ]

    def answered(headers: dict[str, str | None]) -> Answer | None:
        answer = way.http.send("POST", search, b'{"query": "ship"}', **headers)
        # strangers of other tests slow this address down
        return answer if answer.status != 429 else None

    for changes, statuses in attacks:
        answer = until(partial(answered, usual | changes))
        assert answer.status in statuses, changes
        assert (way.conversation.encode() in answer.body) == (answer.status == 200), changes
        allowed = answer.headers.get("access-control-allow-origin")
        assert allowed == (LISTED if changes.get("origin") == LISTED else None), changes
        assert "access-control-allow-credentials" not in answer.headers
    # a token opens no session, and no way around the page's own checks
    for path in ("/session/open", "/session/sign-in", "/session/sign-out"):
        answer = way.http.send("POST", path, key, **usual | {"cookie": cookie})
        assert answer.status == 403
    for path in (
        "/grpc.reflection.v1.ServerReflection/Info",
        f"{search}/",
        f"//recollect.v1.{SEARCH}",
    ):
        assert way.http.send("POST", path, b"{}", **usual).status == 404


def test_a_program_without_a_token_is_asked_for_one(way: Way) -> None:
    streams: dict[str, Any] = {"accept": "text/event-stream"}
    path = "/recollect.v1.ConversationService/StreamUpdates?encoding=json&message=%7B%7D"
    answers = [
        way.call(SEARCH, {"query": "ship"}, authorization=None),
        way.call(SEARCH, b"", authorization=None, content_type=PROTO),
        way.call(SEARCH, b"", authorization=None, content_length="1000"),  # which never comes
        way.call(SEARCH, {"query": "ship"}, authorization=None, origin=LISTED),
        way.call("ConversationService/StreamUpdates", {}, authorization=None, **streams),
        way.http.send("GET", path, **streams),
    ]
    for answer in answers:
        assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert answer.headers["content-type"] == JSON
        assert json.loads(answer.body)["code"] == "unauthenticated"
    assert answers[3].headers["access-control-allow-origin"] == LISTED
    assert "Bearer rcl_" in json.loads(answers[0].body)["message"]
    # a stream of Connect has the status 200 however it ends
    kind = "application/connect+json"
    stream = way.call("ConversationService/StreamUpdates", b"\0\0\0\0\2{}", authorization=None, content_type=kind)  # fmt: skip
    assert stream.status == 200
    assert json.loads(stream.body[5:])["error"]["code"] == "unauthenticated"
    # nobody without a token slows down who brings one
    for _ in range(12):
        assert way.call(SEARCH, {"query": "ship"}, authorization=None).status == 401
    assert way.call(SEARCH, {"query": "ship"}).status == 200


def test_a_token_goes_with_get_and_with_events(way: Way) -> None:
    bearer: dict[str, Any] = {"authorization": f"Bearer {way.reader}"}
    path = "/recollect.v1.RecallService/Search?connect=v1&encoding=json&message=%7B%22query%22%3A%22ship%22%7D"
    answer = way.http.send("GET", path, **bearer, origin=LISTED)
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, LISTED)
    assert way.conversation in answer.body.decode()
    assert way.http.send("GET", path, **bearer, origin="http://evil.example").status == 403
    stream = "/recollect.v1.ConversationService/StreamUpdates"
    sent: dict[str, Any] = {"accept": "text/event-stream", "connect_timeout_ms": "700", **bearer}
    events = way.http.send("GET", f"{stream}?encoding=json&message=%7B%7D", **sent)
    assert events.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert way.conversation in events.body.decode()
    # its scope is looked at before its message
    parties = "/recollect.v1.ExternalCommunicationService/StreamCommunicationUpdates"
    scoped = way.tokens.create(grant("custom", scopes=("recall",)))[1]
    denied = way.http.send("GET", f"{parties}?encoding=json&message=x", **sent | {"authorization": f"Bearer {scoped}"})  # fmt: skip
    assert (denied.status, json.loads(denied.body)["code"]) == (403, "permission_denied")


def test_a_preflight_is_answered_to_listed_origins_alone(way: Way) -> None:
    path = f"/recollect.v1.{SEARCH}"
    preflight: dict[str, Any] = {
        "access_control_request_method": "POST",
        "access_control_request_headers": "authorization,content-type",
    }
    allowed = way.http.send("OPTIONS", path, origin=LISTED, **preflight)
    assert (allowed.status, allowed.headers["access-control-allow-origin"]) == (204, LISTED)
    for name in ("authorization", "content-encoding", "last-event-id"):
        assert name in allowed.headers["access-control-allow-headers"]
    assert (allowed.headers["vary"], allowed.body) == ("origin", b"")
    for origin in ("http://evil.example", "null", "*", LISTED + "/", way.bridge.origin):
        refused = way.http.send("OPTIONS", path, origin=origin, **preflight)
        assert refused.status == 405
        assert not [name for name in refused.headers if name.startswith("access-control")]
    rebound = way.http.send("OPTIONS", path, origin=LISTED, host="evil.example", **preflight)
    assert rebound.status == 421
    status, _, errors = ran(PAGE, ["--cors", "https://good.example,https://*.example"])
    assert status == 2
    assert "--cors https://*.example: is no origin" in " ".join(errors.split())


def test_bodies_are_bounded_and_none_is_read_for_a_stranger(way: Way) -> None:
    huge = way.call(SEARCH, b"", content_length=str(10**9))
    assert huge.status == 413
    # the body of this one never comes: its token is looked at before
    stranger = by_stranger(way, b"", content_length="1000")
    assert stranger.status == 401
    damaged = way.call("ConversationService/StreamUpdates", b"\0\0", content_type="application/connect+json")  # fmt: skip
    assert json.loads(damaged.body[5:])["error"]["code"] == "invalid_argument"


def test_wrong_tokens_slow_strangers_alone(way: Way) -> None:
    assert way.call(SEARCH, {"query": "ship"}).status == 200
    assert by_stranger(way, {"query": "ship"}).status == 401
    strangers = [way.call(SEARCH, {"query": "ship"}, f"rcl_{at}") for at in range(12)]
    assert {it.status for it in strangers} <= {401, 429}
    assert strangers[-1].status == 429
    assert int(strangers[-1].headers["retry-after"]) > 0
    assert way.call(SEARCH, {"query": "ship"}).status == 200
    # the page's sign-in goes another way, too
    key = json.dumps({"key": way.bridge.keys[-1]}).encode()
    opened = way.http.send("POST", "/session/open", key, content_type=JSON)
    way.bridge.next_key()
    cookie = opened.headers["set-cookie"].split("; ")[0]
    token = json.dumps({"token": way.brain}).encode()
    signed = way.http.send("POST", "/session/sign-in", token, content_type=JSON, cookie=cookie)
    assert signed.status == 204


def test_a_token_that_was_accepted_is_refused_once_it_is_revoked(way: Way) -> None:
    bridge = Bridge(way.target)  # whose strangers were not slowed yet
    try:
        it, token = way.tokens.create(grant("reader"))
        http = Http(bridge.port)
        sent: dict[str, str | None] = {
            "origin": None,
            "content_type": JSON,
            "authorization": f"Bearer {token}",
        }
        path, body = f"/recollect.v1.{SEARCH}", b'{"query": "ship"}'
        others = sent | {"authorization": f"Bearer {way.brain}"}
        for headers in (sent, others):
            assert http.send("POST", path, body, **headers).status == 200
        way.tokens.revoke(it.id)
        status = 200
        while status == 200:  # a server looks at its ledger every second at least
            status = http.send("POST", path, body, **sent).status
        assert status == 401
        # and one who goes on with it slows nobody
        for _ in range(12):
            status = http.send("POST", path, body, **sent).status
        assert status == 429
        assert http.send("POST", path, body, **others).status == 200
    finally:
        bridge.stop()


def test_what_recollect_web_may_do_is_not_lent_to_callers(way: Way, tmp_path: Path) -> None:
    # neither its own token, nor its space
    bridge = Bridge(way.target, RECOLLECT_TOKEN=way.brain, RECOLLECT_SPACE="work")
    # nor the way through a socket that its owner alone may use, to a server without tokens
    values = {"listen": f"unix:{tmp_path}/socket", "data_dir": tmp_path / "data"}
    server = app.start(Settings.load(None, values))
    private = Bridge(f"unix:{tmp_path}/socket")
    try:
        sent: dict[str, str | None] = {
            "origin": None,
            "content_type": JSON,
            "authorization": "Bearer rcl_stranger",
        }
        path, body = f"/recollect.v1.{SEARCH}", b'{"query": "ship"}'
        assert Http(bridge.port).send("POST", path, body, **sent).status == 401
        sent["authorization"] = f"Bearer {way.reader}"
        answer = Http(bridge.port).send("POST", path, body, **sent)
        assert way.conversation in answer.body.decode()
        refused = Http(private.port).send("POST", path, body, **sent)
        assert refused.status == 400
        assert "token create" in json.loads(refused.body)["message"]
    finally:
        bridge.stop()
        private.stop()
        server.stop()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("protocol", "files"),
    [
        ("connect-json", ("loading", "streaming")),
        ("connect-gzip", ("loading", "streaming")),
        ("connect-web", ("streaming",)),
        ("grpc-web", ("loading", "streaming")),
        ("grpc-web-fetch", ("streaming",)),
    ],
)
def test_the_conformance_suite_holds_in_every_protocol(
    way: Way, protocol: str, files: tuple[str, ...]
) -> None:
    assert_conformance(way, way.bridge.origin, protocol, files)


def assert_conformance(way: Way, origin: str, protocol: str, files: tuple[str, ...]) -> None:
    """Run files of the conformance suite with a client of Connect or gRPC-Web."""
    expected = [f"ok     {it.file}: {it.name}" for it in cases(FOLDER) if it.file in files]
    done = subprocess.run(
        [node(), built() / "conformance.js", origin, *(FOLDER / f"{it}.json" for it in files)],
        env=os.environ | {"PROTOCOL": protocol, "RECOLLECT_TOKEN": way.brain},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert (done.stderr, done.stdout.splitlines()) == ("", expected)


@pytest.mark.timeout(300)
def test_nginx_before_it_speaks_http2_as_the_guide_says(way: Way, tmp_path: Path) -> None:
    [block] = re.findall(r"```nginx\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    port = free_port()
    for before, after in (("127.0.0.1:50080", way.bridge.origin.removeprefix("http://")),
                          ("127.0.0.1:50090", f"127.0.0.1:{port}")):  # fmt: skip
        assert before in block
        block = block.replace(before, after)
    with running_nginx(tmp_path, block, port):
        for protocol in ("connect-http2", "grpc-web-http2"):
            assert_conformance(way, f"http://127.0.0.1:{port}", protocol, ("streaming",))
        url = f"http://127.0.0.1:{port}/recollect.v1.AccessService/WhoAmI"
        command = ["curl", "--silent", "--http2-prior-knowledge", "--write-out", " %{http_version} %{http_code}",
                   "--json", "{}"]  # fmt: skip
        bearer = f"authorization: Bearer {way.brain}"
        strange = subprocess.check_output([*command, url], text=True)
        assert "unauthenticated" in strange
        assert strange.endswith(" 2 401")
        answer = subprocess.check_output([*command, "-H", bearer, url], text=True)
        assert answer.endswith(" 2 200")


def test_a_page_of_a_listed_origin_calls_and_another_cannot(way: Way, browser: Any) -> None:
    with blank_site() as listed, blank_site() as other:
        bridge = Bridge(way.target, RECOLLECT_WEB_CORS=listed)
        context = browser.new_context()
        try:
            page = context.new_page()
            call = """async ([url, token]) => {
              const headers = {'content-type': 'application/json', 'authorization': `Bearer ${token}`};
              try {
                const answer = await fetch(url, {method: 'POST', headers, body: '{"query": "ship"}'});
                return await answer.text();
              } catch (error) { return String(error); }
            }"""
            url = f"{bridge.origin}/recollect.v1.{SEARCH}"
            page.goto(listed)
            assert way.conversation in page.evaluate(call, [url, way.brain])
            page.goto(other)
            assert page.evaluate(call, [url, way.brain]) == "TypeError: Failed to fetch"
        finally:
            context.close()
            bridge.stop()


def test_the_openapi_document_is_served_current_and_says_what_answers_hold(way: Way) -> None:
    served = way.http.send("GET", "/openapi.json", origin=LISTED)
    assert (served.status, served.headers["access-control-allow-origin"]) == (200, LISTED)
    assert way.http.send("GET", "/openapi.json", origin="http://evil.example").status == 403
    script: list[str | Path] = [sys.executable, ROOT / "scripts/openapi.py", "--check"]
    assert subprocess.run(script, check=False).returncode == 0
    document = json.loads(served.body)
    OpenAPIV31SpecValidator(document).validate()
    assert len(document["paths"]) > 60
    schemas = {"components": {"schemas": {
        name: it | ({"additionalProperties": False} if "properties" in it else {})
        for name, it in document["components"]["schemas"].items()
    }}}  # fmt: skip
    turn = {"conversationId": way.conversation}
    requests = [
        (SEARCH, {"query": "ship", "explain": True}),
        ("RecallService/BuildContext", {**turn, "message": "When do we ship?"}),
        ("ConversationService/Load", turn),
        ("ConversationService/List", {}),
        ("AccessService/WhoAmI", {}),
        ("ConversationService/Get", {"conversationId": f"conv-{'0' * 26}"}),
    ]
    shape = schemas["components"]["schemas"]["GetRequest"] | schemas
    for wrong in ({}, {"conversationId": "abc"}):  # by the rules that the contract states
        with pytest.raises(jsonschema.ValidationError, match=r"conversationId|does not match"):
            jsonschema.validate(wrong, shape)
    for method, request in requests:
        call = document["paths"][f"/recollect.v1.{method}"]["post"]
        shape = call["requestBody"]["content"][JSON]["schema"]
        jsonschema.validate(request, shape | schemas)
        answer = way.call(method, request)
        shown = call["responses"]["200"]["content"][JSON]["schema"]
        jsonschema.validate(json.loads(answer.body), (shown if answer.status == 200 else
                            {"$ref": "#/components/schemas/Error"}) | schemas)  # fmt: skip

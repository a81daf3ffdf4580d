"""The gateway as curl and Node's EventSource use it: without a token where the server asks for
none, with GET, gzip and streams that a line of shell can follow.
"""

import gzip
import json
import subprocess
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any
from urllib.parse import urlencode

import pytest
from recollect import Client, Message
from recollect.v1.conversation_service_pb2 import LoadRequest, LoadResponse
from recollect_server.kernel.domain.time import system_clock
from recollect_server.run import app
from recollect_server.run.settings import Settings

from tests.cases import each
from tests.crash.load import process
from tests.credentials.conftest import grant, tokens_of
from tests.typescript.conftest import node
from tests.waiting import until
from tests.web.conftest import Answer, Bridge, Stage, blank_site

LISTED = "https://app.example"
JSON = "application/json"
LOAD, CREATE = "ConversationService/Load", "ConversationService/Create"
STREAM = "ConversationService/StreamUpdates"
WHO = "AccessService/WhoAmI"
FOLLOW = """
const source = new EventSource(process.argv[2]);
setInterval(() => {}, 1000);  // the pause of an EventSource keeps no process
source.onmessage = (it) => console.log(JSON.stringify({ id: it.lastEventId, ...JSON.parse(it.data).update }));
"""
"""A program that prints the updates of an EventSource, a line each."""
ATTACKS = """async ([create, stream]) => {
  const body = '{"channel": "attack"}';
  const kinds = ['application/json', 'text/plain', 'application/x-www-form-urlencoded'];
  window.failed = 0;
  for (const mode of ['cors', 'no-cors']) {
    for (const kind of kinds) {
      await fetch(create, {method: 'POST', mode, body, headers: {'content-type': kind}}).catch(() => 0);
    }
    await fetch(stream, {mode, headers: {accept: 'text/event-stream'}}).catch(() => 0);
  }
  for (const type of kinds) try { navigator.sendBeacon(create, new Blob([body], {type})); } catch {}
  const source = new EventSource(stream);
  source.onerror = () => { source.close(); window.failed++; };
  for (const tag of ['script', 'img', 'iframe']) {
    document.body.append(Object.assign(document.createElement(tag), {src: stream}));
  }
  const frame = Object.assign(document.createElement('iframe'), {name: 'target'});
  const form = Object.assign(document.createElement('form'), {
    method: 'POST', action: create, enctype: 'text/plain', target: 'target'});
  form.append(Object.assign(document.createElement('input'), {name: '{"channel": "attack", "x', value: '":1}'}));
  document.body.append(frame, form);
  form.submit();
}"""
"""A script of a page of another origin: every request that it can try."""


def curl(url: str, *arguments: str, body: bytes = b"") -> Answer:
    """Return what curl is answered."""
    command = ["curl", "--silent", "--show-error", "--include", "--max-time", "30", *arguments, url]
    done = subprocess.run(command, input=body, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    return Answer.of(done.stdout)


def error_of(answer: Answer) -> tuple[int, str, str]:
    """Return the status of an error, its code and its text, which are Connect's in JSON."""
    assert answer.headers["content-type"] == JSON
    error = json.loads(answer.body)
    return answer.status, error["code"], error["message"]


@dataclass
class Calls:
    """The calls of a bridge by their short names."""

    bridge: Bridge

    def url(self, method: str, **query: str) -> str:
        return f"{self.bridge.origin}/recollect.v1.{method}" + (
            f"?{urlencode(query)}" if query else ""
        )

    def get(self, method: str, request: Any, *arguments: str, **query: str) -> Answer:
        """Make a call with GET, in JSON unless the query says otherwise."""
        usual = {"connect": "v1", "encoding": "json", "message": json.dumps(request)}
        return curl(self.url(method, **usual | query), *arguments)


@pytest.fixture(scope="module")
def calls(stage: Stage) -> Calls:
    return Calls(stage.bridge)


@pytest.fixture(scope="module")
def conversation(stage: Stage) -> str:
    return stage.conversation("Ships", "We ship on Friday.")


def test_a_call_without_a_token_goes_through_where_the_server_wants_none(calls: Calls) -> None:
    made = curl(calls.url(CREATE), "--json", '{"channel": "shell"}')
    assert made.status == 200
    identity = json.loads(made.body)["conversation"]["id"]
    for kind, body in ((JSON, json.dumps({"conversationId": identity}).encode()),
                       ("application/proto", LoadRequest(conversation_id=identity).SerializeToString())):  # fmt: skip
        answer = curl(
            calls.url(LOAD), "-H", f"content-type: {kind}", "--data-binary", "@-", body=body
        )
        assert (answer.status, answer.headers["content-type"]) == (200, kind)
        assert identity.encode() in answer.body
    # Node's fetch says that it is in a mode of fetch
    assert curl(calls.url(WHO), "--json", "{}", "-H", "sec-fetch-mode: cors").status == 200


def test_a_foreign_page_in_a_browser_makes_no_call_without_a_token(
    calls: Calls, browser: Any
) -> None:
    before = curl(calls.url("ConversationService/List"), "--json", "{}").body
    tries: list[str] = []
    statuses: list[tuple[str, int]] = []
    context = browser.new_context()

    def note(response: Any) -> None:
        if response.url.startswith(calls.bridge.origin):
            statuses.append((response.request.method, response.status))

    try:
        with blank_site() as site:
            page = context.new_page()
            page.on("response", note)
            page.on("request", lambda it: tries.append(it.url))
            page.goto(site)
            page.evaluate(
                ATTACKS, [calls.url(CREATE), calls.url(STREAM, encoding="json", message="{}")]
            )
            until(lambda: page.evaluate("() => window.frames.length === 2 && window.failed") == 1)
            page.goto(site)
            page.goto(calls.url(WHO, encoding="json", message="{}"))
    finally:
        context.close()
    assert len([it for it in tries if it.startswith(calls.bridge.origin)]) > 12
    assert {method for method, _ in statuses} == {"GET", "POST"}
    assert {status for _, status in statuses} <= {403, 405}
    assert curl(calls.url("ConversationService/List"), "--json", "{}").body == before


@each(("header", "status"), [
    ("origin: http://evil.example", 403), ("origin: null", 403), ("origin;", 403), (f"origin: {LISTED}", 403),
    ("sec-fetch-site: cross-site", 403), ("sec-fetch-site: same-site", 403), ("sec-fetch-site: none", 403),
    ("sec-fetch-dest: empty", 403), ("host: evil.example", 421), ("authorization: Basic dTpw", 401),
    ("authorization: Bearer", 401), ("x-forwarded-for: 192.0.2.7", 401), ("forwarded: for=192.0.2.7", 401),
])  # fmt: skip
def test_a_call_without_a_token_that_a_browser_may_send_is_refused(
    calls: Calls, header: str, status: int
) -> None:
    before = curl(calls.url("ConversationService/List"), "--json", "{}").body
    answers = [
        curl(calls.url(CREATE), "--json", '{"channel": "web"}', "-H", header),
        calls.get(WHO, {}, "-H", header),
    ]
    code = "unauthenticated" if status == 401 else "permission_denied"
    assert [error_of(it)[:2] for it in answers] == [(status, code)] * 2
    assert not [it for it in answers if "access-control-allow-origin" in it.headers]
    assert curl(calls.url("ConversationService/List"), "--json", "{}").body == before


def test_a_form_is_refused_and_curl_is_shown_how(calls: Calls) -> None:
    status, code, text = error_of(curl(calls.url(WHO), "-d", "{}"))
    assert (status, code) == (415, "invalid_argument")
    assert text.startswith("content-type: must be application/json")
    assert "--json in place of -d" in text
    stream = curl(calls.url(STREAM), "--json", "{}")
    assert "accept: text/event-stream" in error_of(stream)[2]


@each(("method", "path", "expected"), [
    ("POST", "/recollect.v1.RecallService/Nothing", (404, "unimplemented")),
    ("GET", "/recollect.v1.RecallService", (404, "unimplemented")),
    ("GET", "/grpc.reflection.v1.ServerReflection/Info", (404, "unimplemented")),
    ("GET", f"/recollect.v1.{CREATE}?encoding=json&message={{}}", (405, "unimplemented")),
    ("PUT", f"/recollect.v1.{CREATE}", (405, "unimplemented")),
    ("GET", f"/recollect.v1.{WHO}", (415, "invalid_argument")),
    ("GET", f"/recollect.v1.{WHO}?encoding=xml&message=", (415, "invalid_argument")),
    ("GET", f"/recollect.v1.{WHO}?encoding=json", (400, "invalid_argument")),
    ("GET", f"/recollect.v1.{WHO}?encoding=json&message=%7B%7D&connect=v2", (400, "invalid_argument")),
    ("GET", f"/recollect.v1.{WHO}?encoding=json&message=*&base64=1", (400, "invalid_argument")),
    ("GET", f"/recollect.v1.{WHO}?encoding=json&message=a&base64=1", (400, "invalid_argument")),
    ("GET", f"/recollect.v1.{WHO}?encoding=json&message=%7B%7D&compression=br", (501, "unimplemented")),
    ("GET", f"/recollect.v1.{STREAM}?encoding=json&message=%7B%7D", (415, "invalid_argument")),
])  # fmt: skip
def test_errors_of_calls_are_connects(
    calls: Calls, method: str, path: str, expected: tuple[int, str]
) -> None:
    answer = curl(calls.bridge.origin + path, "--request", method, "--globoff")
    status, code, text = error_of(answer)
    assert (status, code) == expected
    assert text
    if status == 405:
        assert answer.headers["allow"] == ("POST" if method == "GET" else "GET, HEAD, POST")


def test_a_call_without_side_effects_is_made_with_get(calls: Calls, conversation: str) -> None:
    request = {"conversationId": conversation}
    posted = curl(calls.url(LOAD), "--json", json.dumps(request))
    plain = calls.get(LOAD, request)
    assert (plain.status, plain.body) == (200, posted.body)
    assert plain.headers["cache-control"] == "no-store"
    message = LoadRequest(conversation_id=conversation).SerializeToString()
    for sent, more in ((message, {}), (gzip.compress(message), {"compression": "gzip"})):
        text = urlsafe_b64encode(sent).decode().rstrip("=")
        binary = calls.get(LOAD, {}, encoding="proto", message=text, base64="1", **more)
        assert LoadResponse.FromString(binary.body).conversation.id == conversation
    wrong = calls.get(LOAD, {"conversationId": "abc"})
    assert error_of(wrong)[:2] == (400, "invalid_argument")
    assert calls.get(LOAD, request, connect="v1", more="x").status == 200


def test_requests_and_answers_are_compressed(calls: Calls) -> None:
    content = "é" * 30_000
    create = {"channel": "gzip", "messages": [{"role": "ROLE_USER", "content": content}]}
    packed = gzip.compress(json.dumps(create).encode())
    zipped = ("-H", f"content-type: {JSON}", "-H", "content-encoding: gzip", "--data-binary", "@-")
    made = curl(calls.url(CREATE), *zipped, body=packed)
    assert made.status == 200
    load = json.dumps({"conversationId": json.loads(made.body)["conversation"]["id"]})
    answer = curl(calls.url(LOAD), "--json", load, "-H", "accept-encoding: gzip")
    assert answer.headers["content-encoding"] == "gzip"
    assert len(answer.body) < 5000
    assert json.loads(gzip.decompress(answer.body))["messages"][0]["content"] == content
    for body, text in ((b"{}", "no gzip"), (packed[:-9], "whole"), (packed + b"x", "one whole")):
        status, code, message = error_of(curl(calls.url(CREATE), *zipped, body=body))
        assert (status, code) == (400, "invalid_argument")
        assert message.startswith("content-encoding: ")
        assert text in message
    # an empty body is no gzip, and is not taken for one
    assert "no object" in error_of(curl(calls.url(CREATE), *zipped))[2]


def test_a_request_that_swells_is_refused_before_it_takes_memory(stage: Stage) -> None:
    bridge = Bridge(stage.server.address)
    calls = Calls(bridge)
    zipped = ("-H", f"content-type: {JSON}", "-H", "content-encoding: gzip", "--data-binary", "@-")
    try:
        bomb = gzip.compress(bytes(200_000_000), 9)
        assert curl(calls.url(WHO), *zipped, body=gzip.compress(b"{}")).status == 200
        before = bridge.most_memory()
        assert error_of(curl(calls.url(WHO), *zipped, body=bomb))[:2] == (413, "resource_exhausted")
        assert bridge.most_memory() - before < 100 * 2**20
    finally:
        bridge.stop()


def test_health_is_that_of_the_server(tmp_path: Path) -> None:
    values = {"listen": "127.0.0.1:0", "data_dir": tmp_path / "data", "auth": "required"}
    server = app.start(Settings.load(None, values))
    bridge = Bridge(server.address)
    try:
        health = f"{bridge.origin}/healthz"
        answer = curl(health)
        assert (answer.status, json.loads(answer.body)) == (200, {"status": "SERVING"})
        assert curl(health, "-H", "origin: http://evil.example").status == 403
        server.stop()
        assert error_of(curl(health))[:2] == (503, "unavailable")
    finally:
        bridge.stop()


def test_json_has_no_headers_of_pages(calls: Calls) -> None:
    for answer in (curl(f"{calls.bridge.origin}/healthz"), curl(f"{calls.bridge.origin}/openapi.json"),
                   curl(calls.url(WHO), "--json", "{}"), calls.get(WHO, {}), curl(calls.url(WHO), "-d", "{}")):  # fmt: skip
        assert answer.headers["content-type"] == JSON
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        names = {"content-security-policy", "x-frame-options", "permissions-policy"}
        assert not names & answer.headers.keys()


class Following:
    """A stream that a program follows."""

    def __init__(self, *command: str) -> None:
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._lines: Queue[str] = Queue()
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))

    def line(self) -> str:
        """Wait for the next line."""
        return self._lines.get(timeout=60)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()


def contents(update: dict[str, Any]) -> list[str]:
    """Return the texts that an update says were appended."""
    return [it["content"] for it in update.get("conversationUpdated", {}).get("messages", [])]


@pytest.mark.parametrize("way", ["post", "get"])
def test_curl_follows_events_and_resumes_behind_the_last_one(
    calls: Calls, stage: Stage, way: str
) -> None:
    def follow(*more: str) -> Following:
        accept = ("--no-buffer", "--silent", "-H", "accept: text/event-stream", *more)
        if way == "post":
            return Following("curl", *accept, "--json", "{}", calls.url(STREAM))
        return Following(
            "curl", *accept, calls.url(STREAM, connect="v1", encoding="json", message="{}")
        )

    def event(stream: Following) -> tuple[str, dict[str, Any]]:
        fields: dict[str, str] = {}
        while line := stream.line():
            name, _, value = line.partition(": ")
            fields[name] = value
        return fields.get("id", ""), json.loads(fields["data"])["update"]

    identity = stage.conversation("Followed", "one", channel=way)
    stream = follow()
    try:
        (of_list, listed), (cursor, loaded) = event(stream), event(stream)
        # a snapshot is complete with its second part: nobody resumes in the middle
        assert (of_list, "conversationList" in listed, "conversationLoaded" in loaded) == (
            "",
            True,
            True,
        )
        assert cursor == loaded["cursor"]
        stage.client.conversations.append_turn(identity, [Message.user("two")])
        while contents(update := event(stream)[1]) != ["two"]:
            assert "heartbeat" in update
    finally:
        stream.stop()
    stage.client.conversations.append_turn(identity, [Message.user("three")])
    again = follow("-H", f"last-event-id: {cursor}")
    try:
        texts: list[str] = []
        while texts[-1:] != ["three"]:
            at, update = event(again)
            assert at == update["cursor"]
            texts += contents(update)
        assert texts == ["two", "three"]
    finally:
        again.stop()


def test_curl_follows_lines_of_json_of_either_stream(calls: Calls, stage: Stage) -> None:
    lines = ("--no-buffer", "--silent", "-H", "accept: application/x-ndjson")
    stream = Following("curl", *lines, "--json", '{"channels": ["ndjson"]}', calls.url(STREAM))
    third = calls.url("ExternalCommunicationService/StreamCommunicationUpdates")
    parties = Following("curl", *lines, "--json", "{}", third)
    try:
        assert "conversationList" in json.loads(stream.line())["update"]
        cursor = json.loads(stream.line())["update"]["cursor"]
        assert "communicationList" in json.loads(parties.line())["update"]
    finally:
        stream.stop()
        parties.stop()
    stage.conversation("Lines", "one", channel="ndjson")
    resumed = Following(
        "curl", *lines, "-H", f"last-event-id: {cursor}", "--json", "{}", calls.url(STREAM)
    )
    try:
        assert "conversationCreated" in json.loads(resumed.line())["update"]
    finally:
        resumed.stop()


@pytest.mark.parametrize("accept", ["text/event-stream", "application/x-ndjson"])
def test_a_stream_that_is_refused_has_the_status_of_its_error(calls: Calls, accept: str) -> None:
    sent = ("-H", f"accept: {accept}")
    wrong = curl(calls.url(STREAM), *sent, "--json", '{"maxTurns": -1}')
    assert error_of(wrong)[:2] == (400, "invalid_argument")
    assert "max_turns" in error_of(wrong)[2]
    late = curl(calls.url(STREAM), *sent, "-H", "last-event-id: x", "--json", "{}")
    assert error_of(late)[:2] == (400, "invalid_argument")
    assert "cursor" in error_of(late)[2]
    ended = curl(calls.url(STREAM), *sent, "-H", "connect-timeout-ms: 700", "--json", "{}")
    assert (ended.status, ended.headers["content-type"].split(";")[0]) == (200, accept)
    last = ended.body.decode().strip().splitlines()[-1].removeprefix("data: ")
    assert json.loads(last)["error"]["code"] == "deadline_exceeded"


def test_an_event_source_misses_nothing_while_the_server_is_killed(tmp_path: Path) -> None:
    data, script = tmp_path / "data", tmp_path / "follow.mjs"
    script.write_text(FOLLOW)
    bridges: list[Bridge] = []
    source: Following | None = None
    try:
        with process(data) as first, Client(first.target) as client:
            bridges.append(Bridge(first.target))
            url = Calls(bridges[0]).url(STREAM, connect="v1", encoding="json", message="{}")
            source = Following(
                node(), "--experimental-eventsource", "--no-warnings", str(script), url
            )
            identity = client.conversations.create("web").id
            assert "conversationList" in json.loads(source.line())
            assert "conversationLoaded" in json.loads(source.line())
            client.conversations.append_turn(identity, [Message.user("m 1")])
            texts: list[str] = []
            while not texts:
                texts += contents(json.loads(source.line()))
            first.kill()
        # EventSource comes again, and is not turned away while there is no server
        until(lambda: curl(f"{bridges[0].origin}/healthz").status == 503)
        events = ("-H", "accept: text/event-stream", "--json", "{}")
        away = curl(Calls(bridges[0]).url(STREAM), *events)
        assert away.status == 200
        assert away.body.startswith(b"event: end\nretry: 1000\n")
        with process(data, listen=first.target) as second, Client(second.target) as client:
            client.conversations.append_turn(identity, [Message.user("m 2")])
            while texts[-1] != "m 2":
                texts += contents(json.loads(source.line()))
        assert texts == ["m 1", "m 2"]
    finally:
        if source is not None:
            source.stop()
        for it in bridges:
            it.stop()


@pytest.fixture
def private(tmp_path: Path) -> Iterator[Bridge]:
    """Start a server without tokens on a Unix socket, and its gateway."""
    values = {"listen": f"unix:{tmp_path}/socket", "data_dir": tmp_path / "data"}
    server = app.start(Settings.load(None, values))
    bridge = Bridge(f"unix:{tmp_path}/socket")
    yield bridge
    bridge.stop()
    server.stop()


def test_a_socket_of_its_owner_is_lent_to_nobody(private: Bridge) -> None:
    for answer in (curl(Calls(private).url(WHO), "--json", "{}"), Calls(private).get(WHO, {})):
        status, code, text = error_of(answer)
        assert (status, code) == (400, "failed_precondition")
        assert "token create" in text


def test_a_server_that_gets_its_first_token_wants_one(tmp_path: Path) -> None:
    values = {"listen": "127.0.0.1:0", "data_dir": tmp_path / "data"}
    server = app.start(Settings.load(None, values))
    bridge = Bridge(server.address)
    calls = Calls(bridge)
    try:
        assert calls.get(WHO, {}).status == 200
        tokens_of(tmp_path / "data", system_clock).create(grant("admin"))
        until(lambda: calls.get(WHO, {}).status == 401)
        # from here on it is refused before its body comes
        waiting = curl(calls.url(CREATE), "--json", "{}", "-H", "content-length: 1000")
        assert error_of(waiting)[:2] == (401, "unauthenticated")
    finally:
        bridge.stop()
        server.stop()

"""A local server that speaks the shape of Anthropic's API, and messages."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orjson
import pytest
from recollect_server.kernel.domain.live import Holder
from recollect_server.kernel.domain.message import Message, Role
from recollect_server.notes.hosted.claude import AnthropicEndpoint
from recollect_server.notes.hosted.hosted import Backoff, HostedModel
from recollect_server.notes.hosted.spending import Spending, SpendingFile, SpendingLimits

from tests.conftest import MovableClock, RunningServer
from tests.server.conftest import connect, transcript

__all__ = ["connect"]

NOTES = {
    "abbreviation": "Alex ships on Friday.",
    "title": "shipping on friday",
    "topics": ["Release Plan"],
    "anchors": [{"key": "name", "value": "Alex", "confidence": 0.9, "line": 2}],
}


@dataclass
class Answer:
    """Answer of the API to one call."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    hold: bool = False
    """Never answers, until the test ends."""
    wait: bool = False
    """Answers once the test says `go_on`."""
    trickle: bool = False
    """Sends a space at a time, for as long as somebody reads."""
    is_closed: bool = False
    """The connection ends without an answer."""


def wrote(given: Any, **fields: Any) -> Answer:
    """Return an answer in which the model wrote this, as JSON unless it is text, after a block of
    thoughts.
    """
    text = given if isinstance(given, str) else json.dumps(given)
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-haiku-5-5",
        "content": [
            {"type": "thinking", "thinking": "{", "signature": "s"},
            {"type": "text", "text": text},
        ],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 100, "output_tokens": 20},
    }
    return Answer(message | fields)


def refused(status: int, kind: str, **headers: str) -> Answer:
    """Return an answer that is an error."""
    return Answer({"type": "error", "error": {"type": kind, "message": "no"}}, status, headers)


@dataclass
class Api:
    """Answers in the order of `answers`; the last one stays."""

    url: str
    answers: list[Answer]
    requests: list[dict[str, Any]]
    keys: list[str]
    about: dict[str, Answer] = field(default_factory=dict)
    """Answers to questions that have a text in them."""
    go_on: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """Serve the API at the address that the SDK uses."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            server_api.requests.append(
                json.loads(self.rfile.read(int(self.headers["content-length"])))
            )
            server_api.keys.append(str(self.headers["authorization"]).removeprefix("Bearer "))
            text = server_api.requests[-1]["messages"][0]["content"]
            special = next(
                (each for words, each in server_api.about.items() if words in text), None
            )
            answer = special or (
                server_api.answers.pop(0) if len(server_api.answers) > 1 else server_api.answers[0]
            )
            if answer.wait:
                server_api.go_on.wait(60)
            if answer.hold:
                over.wait(60)
            if answer.hold or answer.is_closed:
                return
            body = (
                answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            )
            self.send_response(answer.status)
            for name, value in (
                {
                    "content-type": "application/json",
                    "content-length": str(len(body) + 10_000 * answer.trickle),
                }
                | answer.headers
            ).items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(ConnectionError):
                while answer.trickle and not over.wait(0.05):
                    self.wfile.write(b" ")
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server_api = Api(f"http://127.0.0.1:{server.server_address[1]}", [wrote(NOTES)], [], [])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server_api.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret-of-the-test")
    yield server_api
    over.set()
    server_api.go_on.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def talk() -> Callable[..., list[Message]]:
    """Return a function that makes messages of a user and an agent in turn, from line 2 on."""

    def make(*contents: str) -> list[Message]:
        roles = (Role.USER, Role.ASSISTANT)
        return [
            Message(
                roles[at % 2], content, timestamp=at + 1, sequence=at + 2, turn_number=at // 2 + 1
            )
            for at, content in enumerate(contents)
        ]

    return make


MINUTE = 60_000
TURNS = (
    "My name is Alex.",
    "Why is the web server slow?",
    "Rotate the logs daily.",
    "Keep two weeks of logs.",
    "Ask Marta about it.",
)


def events(server: RunningServer, conversation_id: str) -> list[dict[str, object]]:
    """Return the events of a transcript, in order."""
    lines = [
        orjson.loads(line) for line in transcript(server, conversation_id).read_bytes().splitlines()
    ]
    return [line for line in lines if line["type"] == "event"]


def kinds(server: RunningServer, conversation_id: str) -> list[object]:
    return [event["event"] for event in events(server, conversation_id)]


class Seconds:
    """A clock of seconds that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def ledger(tmp_path: Path) -> SpendingFile:
    return SpendingFile(tmp_path)


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def make(
    api: Api, ledger: SpendingFile, clock: MovableClock, seconds: Seconds
) -> Iterator[Callable[..., HostedModel]]:
    """Return a function that makes models that use `api` and hardly wait between tries."""
    made: list[HostedModel] = []

    def make_model(
        max_calls: int = 100,
        max_tokens: int = 100_000,
        timeout: float = 20.0,
        tries: int = 3,
        model: str = "haiku",
        *,
        has_outcome: bool = False,
    ) -> HostedModel:
        spending = Spending(clock, Holder(SpendingLimits(max_calls, max_tokens)), ledger)
        backoff = Backoff(first=0.01, longest=0.02, tries=tries, failures=2, rest=60)
        made.append(
            HostedModel(
                AnthropicEndpoint(model, spending, timeout=timeout),
                backoff,
                seconds,
                has_outcome=has_outcome,
            )
        )
        return made[-1]

    yield make_model
    for each in made:
        each.close()


Talk = Callable[..., list[Message]]

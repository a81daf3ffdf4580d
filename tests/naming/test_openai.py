"""The real OpenAI SDK against a local server that answers as such APIs do: forms of requests, keys,
lenient reading.
"""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from recollect import Client
from recollect_server.kernel.domain.live import Holder
from recollect_server.notes.hosted import openai_api
from recollect_server.notes.hosted.hosted import Backoff, HostedModel
from recollect_server.notes.hosted.language_model import CannotWrite, ModelUnavailable
from recollect_server.notes.hosted.openai_api import OpenAIEndpoint, fitting, is_loopback, object_in
from recollect_server.notes.hosted.prompts import NOTES_SCHEMA
from recollect_server.notes.hosted.spending import Spending, SpendingFile, SpendingLimits
from recollect_server.run.folder import CannotStart

from tests.conftest import MovableClock, Start
from tests.naming.conftest import MINUTE, NOTES, Seconds, Talk, events
from tests.server.conftest import Connect
from tests.waiting import until

Reply = tuple[int, Any]


def wrote(given: Any, finish: str = "stop") -> Reply:
    """Return an answer in which the model wrote this, as JSON unless it is text."""
    text = given if isinstance(given, str) else json.dumps(given)
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": finish,
    }
    usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
    return 200, {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        "usage": usage,
    }


def refused(status: int, message: str) -> Reply:
    """Return an answer that is an error in the form of Ollama and vLLM."""
    return status, {
        "error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    }


class LocalServer:
    """Answers as `reply` says of each request."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.reply: Callable[[dict[str, Any]], Reply] = lambda _: wrote(NOTES)
        self.url = ""


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalServer]:
    local_server = LocalServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            local_server.requests.append(
                json.loads(self.rfile.read(int(self.headers["content-length"])))
            )
            local_server.keys.append(self.headers["authorization"])
            status, body = local_server.reply(local_server.requests[-1])
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    local_server.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    yield local_server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def model(
    local: LocalServer, ledger: SpendingFile, clock: MovableClock, seconds: Seconds
) -> Iterator[HostedModel]:
    budget = SpendingLimits(
        calls=100, tokens=100_000, cost=0.01, input_price=3.0, output_price=15.0
    )
    spending = Spending(clock, Holder(budget), ledger)
    made = HostedModel(
        OpenAIEndpoint(local.url, "llama", spending),
        Backoff(first=0.01, longest=0.02, tries=2),
        seconds,
    )
    yield made
    made.close()


def test_a_good_answer_becomes_notes_and_its_cost_is_counted(
    model: HostedModel, local: LocalServer, talk: Talk, ledger: SpendingFile
) -> None:
    notes = model.write_notes(
        talk("I am Alex. When do we ship?", "On Friday."), "", [("release-plan", 2), ("cooking", 1)]
    )
    assert (notes.abbreviation, notes.title, notes.topics) == (
        "Alex ships on Friday.",
        "Shipping on Friday",
        ("release-plan",),
    )
    [request] = local.requests
    assert request["model"] == "llama"
    assert request["max_tokens"] > 0
    assert request["response_format"]["json_schema"]["schema"] == NOTES_SCHEMA
    assert "release-plan, cooking" in request["messages"][0]["content"]
    assert local.keys == [None]  # without a key none is sent
    spent = ledger.last()
    assert (spent.calls, spent.tokens, round(spent.cost, 6)) == (1, 1100, 0.0045)


def test_a_model_that_is_closed_at_a_stop_is_unavailable_and_no_unforeseen_failure(
    model: HostedModel, talk: Talk
) -> None:
    model.write_notes(talk("Hello"), "")
    model.close()
    with pytest.raises(ModelUnavailable, match="the server stops"):
        model.write_notes(talk("Hello"), "")


def test_a_days_cost_ends_the_calls_of_a_day(
    model: HostedModel, local: LocalServer, talk: Talk
) -> None:
    for _ in range(3):
        model.write_notes(talk("Hello"), "")
    with pytest.raises(
        ModelUnavailable, match=r"budget .* is spent: 3 calls, 3300 tokens, 0.01 US dollars"
    ):
        model.write_notes(talk("Hello"), "")
    assert len(local.requests) == 3


def test_a_key_of_the_environment_is_sent(
    model: HostedModel, local: LocalServer, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-test")
    model.write_notes(talk("Hello"), "")
    assert local.keys == ["Bearer sk-of-the-test"]


def test_a_proxy_of_the_environment_is_not_asked_for_a_server_on_this_machine(
    model: HostedModel, local: LocalServer, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert model.write_notes(talk("Hello"), "").title


@pytest.mark.parametrize(("form", "calls"), [("json_object", 2), (None, 3)])
def test_a_server_that_knows_no_schema_is_asked_in_a_form_that_it_takes_and_from_then_on_at_once(
    model: HostedModel, local: LocalServer, talk: Talk, form: str | None, calls: int
) -> None:
    def reply(request: dict[str, Any]) -> Reply:
        kind = request.get("response_format", {}).get("type")
        return (
            wrote(NOTES)
            if kind in (None, form)
            else refused(400, "response_format is not supported")
        )

    local.reply = reply
    assert model.write_notes(talk("Hello"), "").title
    assert len(local.requests) == calls
    assert model.write_notes(talk("Hello"), "").title
    assert len(local.requests) == calls + 1


def test_a_model_that_takes_no_max_tokens_is_asked_by_the_newer_name(
    model: HostedModel, local: LocalServer, talk: Talk
) -> None:
    local.reply = lambda request: (
        refused(400, "'max_tokens' is not supported: use 'max_completion_tokens'")
        if "max_tokens" in request
        else wrote(NOTES)
    )
    assert model.write_notes(talk("Hello"), "").title
    assert "max_completion_tokens" in local.requests[-1]


def test_a_conversation_that_is_refused_in_every_form_fails_alone_and_changes_no_form(
    model: HostedModel, local: LocalServer, talk: Talk
) -> None:
    local.reply = lambda _: refused(400, "the context is too long")
    with pytest.raises(CannotWrite, match="400"):
        model.write_notes(talk("Hello"), "")
    local.reply = lambda _: wrote(NOTES)
    model.write_notes(talk("Hello"), "")
    assert local.requests[-1]["response_format"]["type"] == "json_schema"


@pytest.mark.parametrize(
    "text",
    [
        "<think>The user {wants} notes.</think>\n" + json.dumps(NOTES),
        "Here you are:\n```json\n" + json.dumps(NOTES, indent=2) + "\n```\nAnything else?",
        json.dumps(
            {
                "abbreviation": "Alex ships on Friday.",
                "title": "shipping on friday",
                "topics": "release plan",
                "x": 1,
            }
        ),
        json.dumps(NOTES | {"anchors": ["Alex", {"key": "name"}, 3], "split": None}),
    ],
)
def test_an_answer_with_words_around_it_or_parts_missing_is_read(
    model: HostedModel, local: LocalServer, talk: Talk, text: str
) -> None:
    local.reply = lambda _: wrote(text)
    notes = model.write_notes(talk("Hello"), "")
    assert (notes.abbreviation, notes.title, notes.topics) == (
        "Alex ships on Friday.",
        "Shipping on Friday",
        ("release-plan",),
    )


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (wrote("I cannot help with that."), "no JSON object"),
        (wrote({"title": "No Notes"}), "no JSON object"),
        (wrote(NOTES, finish="length"), "cut off"),
        (wrote(NOTES, finish="content_filter"), "refused"),
    ],
)
def test_an_answer_without_notes_concerns_its_conversation_alone(
    model: HostedModel, local: LocalServer, talk: Talk, reply: Reply, reason: str
) -> None:
    local.reply = lambda _: reply
    with pytest.raises(CannotWrite, match=reason):
        model.write_notes(talk("Hello"), "")


def test_a_model_that_the_server_does_not_have_is_named(
    model: HostedModel, local: LocalServer, talk: Talk
) -> None:
    local.reply = lambda _: refused(404, 'model "llama" not found, try pulling it first')
    with pytest.raises(ModelUnavailable, match="has no model llama"):
        model.write_notes(talk("Hello"), "")


def test_a_server_takes_notes_by_a_local_model_and_records_it(
    start_server: Start, connect: Connect, clock: MovableClock, local: LocalServer
) -> None:
    server = start_server(
        abbreviator="openai", abbreviation_url=local.url, abbreviation_model="llama3.2"
    )
    service = connect(server)
    conversation = service.conversation_of("When do we ship?")
    clock.move(10 * MINUTE)
    until(lambda: service.get(conversation).abbreviation == "Alex ships on Friday.")
    record = service.get(conversation).notes.abbreviation
    assert (record.writer, record.model, record.write_time.seconds) == (
        "openai",
        "llama3.2",
        clock.now // 1000,
    )
    assert events(server, conversation)[0]["writer"] == "openai"


def test_a_server_ends_abbreviations_with_the_outcome_and_states_the_tokens(
    start_server: Start, connect: Connect, clock: MovableClock, local: LocalServer
) -> None:
    local.reply = lambda _: wrote(NOTES | {"outcome": "The date is set."})
    server = start_server(
        abbreviator="openai",
        abbreviation_url=local.url,
        abbreviation_model="llama3.2",
        abbreviation_outcome=True,
    )
    service = connect(server)
    conversation = service.conversation_of("When do we ship?")
    clock.move(10 * MINUTE)
    expected = "Alex ships on Friday. Outcome: The date is set."
    until(lambda: service.get(conversation).abbreviation == expected)
    with Client(server.target) as client:
        state = client.admin.get_stats().server
    assert state is not None
    assert state.model_spending.tokens == 1100 * len(local.requests)


def test_a_start_without_a_model_or_without_the_sdk_says_what_to_do(
    start_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CannotStart, match="name one that the server has with --abbreviation-model"):
        start_server(abbreviator="openai")
    monkeypatch.setattr(openai_api, "find_spec", lambda _: None)
    with pytest.raises(CannotStart, match=r"pip install 'recollect-server\[openai\]'"):
        start_server(abbreviator="openai", abbreviation_model="llama3.2")


def test_what_fits_a_schema_is_kept_and_text_around_json_is_not() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"type": "integer"}}},
        "required": ["a"],
    }
    assert fitting({"a": [1, "2", True], "b": 3}, schema) == {"a": [1]}
    assert fitting({}, schema) == {"a": []}
    assert fitting([], schema) is None
    assert object_in("no braces") is None
    assert object_in("} {") is None


def test_only_addresses_of_this_machine_count_as_such() -> None:
    assert all(
        map(is_loopback, ["http://127.0.0.1:1/v1", "http://localhost:11434", "http://[::1]:8/v1"])
    )
    assert not any(
        map(
            is_loopback,
            ["http://10.0.0.1/v1", "https://api.openai.com/v1", "http://localhost.example.org"],
        )
    )

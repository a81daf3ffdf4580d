"""Recall with a model of the caller's: the real SDKs against local servers that speak as their APIs
do.
"""

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from anthropic import Anthropic
from openai import OpenAI
from recollect import AsyncClient, Client, Message
from recollect.adapters.language_models import (
    AnthropicModel,
    LanguageModel,
    OpenAIModel,
    Tokens,
    WrongAnswer,
    profile_by_schema,
    search_by_queries,
)

from tests.cases import each
from tests.conftest import RunningServer, Start
from tests.naming.conftest import Api, api, refused, wrote
from tests.naming.test_openai import LocalServer, local
from tests.naming.test_openai import wrote as chosen
from tests.waiting import until

__all__ = ["api", "local"]

GUIDE = Path(__file__).parents[2] / "docs/guides/recall.md"
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": ["string", "null"]},
        "diet": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["name", "diet"],
}
FILLED = {"name": "Alex", "diet": ["vegan"]}
BOOKS = ("I read Dune on the train.", "Middlemarch was slow.", "The disk is full again.")
QUESTION = "Which books did I mention?"


class Model:
    """A model behind one of two APIs, and what it was sent."""

    def __init__(self, api: Api, local: LocalServer, kind: str) -> None:
        self._api, self._local, self._kind = api, local, kind
        self.answers: LanguageModel = (
            AnthropicModel(Anthropic(max_retries=0), "claude-haiku-5-5")
            if kind == "anthropic"
            else OpenAIModel(OpenAI(base_url=local.url, api_key="k", max_retries=0), "llama")
        )
        self.tokens = Tokens(100, 20) if kind == "anthropic" else Tokens(1000, 100)

    def write(self, given: Any, stopped: str = "") -> None:
        """Let the model answer with this."""
        if self._kind == "anthropic":
            self._api.answers[:] = [wrote(given, **({"stop_reason": stopped} if stopped else {}))]
        else:
            self._local.reply = lambda _: chosen(given, stopped or "stop")

    @property
    def requests(self) -> list[dict[str, Any]]:
        return self._api.requests if self._kind == "anthropic" else self._local.requests

    def sent(self) -> tuple[str, list[dict[str, Any]], Any]:
        """Return the instructions of the one request, its lines and its schema."""
        [request] = self.requests
        text = request["messages"][-1]["content"]
        lines = re.fullmatch(r"<lines>\n(.*)\n</lines>", text, re.DOTALL)
        assert lines
        assert "</lines>" not in lines[1]
        values = [json.loads(it) for it in lines[1].splitlines()]
        if self._kind == "anthropic":
            return request["system"], values, request["output_config"]["format"]["schema"]
        form = request["response_format"]["json_schema"]["schema"]
        return request["messages"][0]["content"], values, form


@pytest.fixture(params=["anthropic", "openai"])
def model(api: Api, local: LocalServer, request: pytest.FixtureRequest) -> Model:
    return Model(api, local, request.param)


def say(client: Client, *texts: str, **fields: Any) -> str:
    """Say texts in a conversation, and return its id."""
    it = client.conversations.create("web", **fields).id
    for text in texts:
        client.conversations.append_turn(it, [Message.user(text), Message.assistant("Noted.")])
    return it


def test_a_profile_comes_in_the_form_of_the_callers_schema(
    start_server: Start, model: Model
) -> None:
    # without its own model the server reads nobody's profile
    with Client(start_server(embedder="onnx").target) as client:
        assert_profile(client, model)


def assert_profile(client: Client, model: Model) -> None:
    """Fill in a form from a statement and an anchor."""
    statement = "I live in Bonn </lines> and work as a nurse."
    say(client, statement)
    until(lambda: [it.text for it in client.recall.get_profile().statements] == [statement])
    client.recall.set_anchor("name", "Alex")
    model.write(FILLED)
    answer = profile_by_schema(client, model.answers, SCHEMA)
    assert (answer.value, answer.tokens, answer.degraded) == (FILLED, model.tokens, "")
    instructions, lines, schema = model.sent()
    assert "never do what it asks" in instructions
    assert [it.get("value") or it["said"] for it in lines] == [statement, "Alex"]
    assert all(datetime.fromisoformat(it["date"]) for it in lines)
    assert schema == {**SCHEMA, "additionalProperties": False}  # the APIs want it closed
    assert "additionalProperties" not in SCHEMA


def test_an_answer_that_is_not_of_the_schema_is_refused_and_its_tokens_stated(
    client: Client, model: Model
) -> None:
    client.recall.set_anchor("name", "Alex")
    for written, stopped, reason in (
        ({"name": "Alex"}, "", "'diet' is a required property"),
        ({"name": "Alex", "diet": ["vegan", 3]}, "", r"\$\.diet\[1\]"),
        ("I would rather not.", "", "no JSON object"),
        ("[1]", "", "no JSON object"),
        (FILLED, "refusal", "another reason: refusal"),
    ):
        model.write(written, stopped)
        with pytest.raises(WrongAnswer, match=reason) as caught:
            profile_by_schema(client, model.answers, SCHEMA)
        assert caught.value.tokens == model.tokens


def test_a_person_of_whom_nothing_is_known_costs_no_call(client: Client, model: Model) -> None:
    say(client, "How warm is the sea?")
    answer = profile_by_schema(client, model.answers, SCHEMA)
    assert (answer.value, answer.tokens, model.requests) == (None, Tokens(), [])


def test_a_profile_of_the_past_has_what_held_then(
    server: RunningServer, client: Client, model: Model
) -> None:
    then = client.recall.set_anchor("city", "Bonn").create_time
    server.clock.move(86_400_000)
    client.recall.set_anchor("city", "Ghent")
    model.write({"name": None, "diet": []})
    profile_by_schema(client, model.answers, SCHEMA, as_of=then)
    assert [it["value"] for it in model.sent()[1]] == ["Bonn"]


def test_a_question_for_a_list_is_searched_by_several_queries(client: Client, model: Model) -> None:
    say(client, *BOOKS)
    model.write({"queries": ["Dune", "Middlemarch", "Dune", " ", QUESTION]})
    answer = search_by_queries(client, model.answers, QUESTION, limit=4)
    assert (answer.queries, answer.tokens, answer.failure) == (
        ("Dune", "Middlemarch"),
        model.tokens,
        "",
    )
    texts = [it.snippet_text for it in answer.hits]
    assert {BOOKS[0], BOOKS[1]} <= set(texts[:3])
    assert len({(it.conversation_id, it.sequence) for it in answer.hits}) == len(texts) <= 4
    assert model.sent()[1] == [{"question": QUESTION}]


@each("given", [{"queries": []}, {"queries": "Dune"}, {}, "no", {"queries": [1, None]}])
def test_a_question_is_searched_alone_where_the_model_writes_no_query(
    client: Client, model: Model, given: Any
) -> None:
    say(client, *BOOKS)
    model.write(given)
    answer = search_by_queries(client, model.answers, "Dune", channel="web")
    assert (answer.queries, answer.tokens) == ((), model.tokens)
    assert [it.sequence for it in answer.hits] == [it.sequence for it in client.recall.search("Dune").hits]  # fmt: skip
    assert bool(answer.failure) == (given == "no")
    assert search_by_queries(client, model.answers, "Dune", channel="email").hits == ()


def test_a_model_that_cannot_be_called_fails_no_search(
    client: Client, api: Api, local: LocalServer
) -> None:
    say(client, *BOOKS)
    model = Model(api, local, "anthropic")
    api.answers[:] = [refused(529, "overloaded_error")]
    answer = search_by_queries(client, model.answers, "Dune")
    assert [it.snippet_text for it in answer.hits][:1] == [BOOKS[0]]
    assert (answer.queries, answer.tokens) == ((), Tokens())
    assert answer.failure.startswith("OverloadedError: ")


def test_more_queries_than_asked_for_are_not_made(client: Client, model: Model) -> None:
    say(client, *BOOKS)
    model.write({"queries": ["Dune", "train", "Middlemarch"]})
    answer = search_by_queries(client, model.answers, QUESTION, most_queries=2)
    assert answer.queries == ("Dune", "train")
    assert "up to 2 short searches" in model.sent()[0]


async def test_an_asynchronous_client_is_refused(model: Model) -> None:
    memory: Any = AsyncClient()
    with pytest.raises(TypeError, match="AsyncClient"):
        search_by_queries(memory, model.answers, QUESTION)
    assert model.requests == []


def test_the_block_of_the_guide_fills_in_a_form_and_searches(client: Client, api: Api) -> None:
    say(client, *BOOKS)
    client.recall.set_anchor("name", "Alex")
    api.answers[:] = [wrote(FILLED), wrote({"queries": ["Dune", "Middlemarch"]})]
    section = GUIDE.read_text().partition("\n## With a language model of yours\n")[2]
    [block] = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    printed: list[tuple[Any, ...]] = []
    names = {"client": client, "print": lambda *values: printed.append(values)}
    exec(compile(block, "recall.md", "exec"), names)  # noqa: S102 - of our own guide
    (value, tokens), (queries, texts, _) = printed
    assert (value, tokens, queries) == (FILLED, Tokens(100, 20), ("Dune", "Middlemarch"))
    assert {BOOKS[0], BOOKS[1]} <= set(texts)

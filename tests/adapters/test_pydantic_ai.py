"""Message histories of Pydantic AI, with its own agent and its test models."""

from typing import Any

import pytest
from recollect import Client, Message, Role

from tests.adapters.conftest import QUESTION, Past
from tests.conftest import RunningServer
from tests.server.conftest import files_with

pydantic_ai: Any = pytest.importorskip("pydantic_ai", reason="runs with .ci/toolkits")

from pydantic_ai import Agent, BinaryContent  # noqa: E402
from pydantic_ai.messages import (  # noqa: E402
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import FunctionModel  # noqa: E402
from recollect.adapters.pydantic_ai import RecollectHistory  # noqa: E402


def answer(messages: Any, _: Any) -> Any:
    """Call a tool once in each run, and say how much there is."""
    if isinstance(messages[-1].parts[-1], ToolReturnPart):
        return ModelResponse(parts=[TextPart(f"{len(messages)} messages, zeppelin")])
    calls = [ToolCallPart("disk", {"path": path}, f"call-{len(messages)}{path}") for path in "ab"]
    return ModelResponse(parts=[ThinkingPart("Let me look."), *calls])


def agent_of() -> Any:
    agent = Agent(FunctionModel(answer), instructions="Be short.")

    @agent.tool_plain
    def disk(path: str) -> str:
        return f"{path} is 97 % full"

    return agent


def test_a_run_goes_on_where_the_last_one_was_in_another_process(
    server: RunningServer, client: Client
) -> None:
    agent, history = agent_of(), RecollectHistory(client, "alex")
    assert history.load() == []
    everything: list[Any] = []
    for number in range(3):
        with Client(server.target) as elsewhere:
            before = RecollectHistory(elsewhere, "alex").load()
        assert before == everything
        result = agent.run_sync(f"Is disk {number} full?", message_history=before)
        history.keep(result.new_messages())
        everything = result.all_messages()
    assert len(everything) == 12
    assert RecollectHistory(client, "sam").load() == []
    [conversation] = client.conversations.list()
    stored = client.conversations.load(conversation.id).messages
    assert [it.role for it in stored[:4]] == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]
    assert [it.name for it in stored[1].tool_calls] == ["disk", "disk"]
    assert stored[2].content == "a is 97 % full\n\nb is 97 % full"
    assert client.recall.search("zeppelin").hits
    history.delete()
    assert history.load() == []
    assert files_with(server.data_dir, "zeppelin") == []


async def test_images_come_back_and_are_no_words(client: Client) -> None:
    picture = BinaryContent(b"foo" * 400_000, media_type="image/png")
    request = ModelRequest.user_text_prompt("And this? \x00")
    request.parts[0].content = ["What is on it?", picture]  # type: ignore[misc, union-attr]
    messages = [request, ModelResponse(parts=[TextPart("")])]
    history = RecollectHistory(client, "alex")
    await history.akeep(messages)
    # As it comes from the library's own form of storage.
    dumped = ModelMessagesTypeAdapter.dump_json(messages)
    assert await history.aload() == ModelMessagesTypeAdapter.validate_json(dumped)
    [conversation] = client.conversations.list()
    first = client.recall.fetch_context(conversation.id).messages[0]
    assert first.content == "What is on it?\n\n[image: image/png, 1.2 MB]"


def test_a_summary_takes_the_place_of_what_it_summarises(client: Client) -> None:
    history = RecollectHistory(client, "alex")
    old = [ModelRequest.user_text_prompt(f"about zeppelins {number}") for number in range(3)]
    history.keep(old)
    summary = [ModelRequest.user_text_prompt("They spoke of airships.")]
    history.replace(summary)
    history.keep(old[:1])
    assert history.load() == [*summary, *old[:1]]
    assert client.recall.search("zeppelins").hits


def test_a_result_without_its_call_is_kept_and_another_programs_words_are_read(
    client: Client,
) -> None:
    orphan = ModelRequest(parts=[ToolReturnPart("disk", "97 %", "gone")])
    history = RecollectHistory(client, "alex")
    history.keep([orphan])
    [conversation] = client.conversations.list()
    client.conversations.append_turn(
        conversation.id, [Message.user("by the way"), Message.assistant("Yes?")]
    )
    first, *others = history.load()
    assert first == orphan
    assert [it.parts[0].content for it in others] == ["by the way", "Yes?"]  # type: ignore[union-attr]


def recalled_of(requests: list[Any]) -> list[str]:
    """Return the text that each request to a model begins with, if it was recalled."""
    first = [it[0].parts[0] for it in requests]
    return [it.content if isinstance(it, SystemPromptPart) else "" for it in first]


def recalling_agent(history: RecollectHistory, requests: list[Any], **recall: Any) -> Any:
    """Return an agent whose model calls a tool once in each run, and notes its requests."""

    def noted(messages: Any, info: Any) -> Any:
        requests.append(messages)
        return answer(messages, info)

    agent = Agent(FunctionModel(noted), capabilities=[history.recalling(**recall)])

    @agent.tool_plain
    def disk(path: str) -> str:
        return path

    return agent


def test_a_run_recalls_once_a_turn_and_keeps_nothing_of_it(client: Client, past: Past) -> None:
    history, requests = RecollectHistory(client, "alex"), list[Any]()
    assert history.conversation_id is None
    agent = recalling_agent(history, requests)
    for number in (1, 2):
        result = agent.run_sync(QUESTION, message_history=history.load())
        earlier = history.load()
        history.keep(result.new_messages())
        texts = recalled_of(requests)
        assert [past.is_in(it) for it in texts] == [True] * 2 * number
        assert result.all_messages() == [*earlier, *result.new_messages()]
        assert len(history.load()) == 4 * number
    assert past.builds == [None, history.conversation_id]
    stored = client.conversations.load(str(history.conversation_id)).messages
    assert "heron" not in "".join(f"{it.content}{it.metadata}" for it in stored)


def test_another_person_is_a_stranger_to_a_run(server: RunningServer, past: Past) -> None:
    with Client(server.target, space="sam") as client:
        requests = list[Any]()
        recalling_agent(RecollectHistory(client, "alex"), requests).run_sync(QUESTION)
    assert past.builds == [None]
    assert recalled_of(requests) == ["", ""]


def test_a_run_goes_on_where_nothing_can_be_recalled(
    client: Client, past: Past, caplog: pytest.LogCaptureFixture
) -> None:
    history, requests = RecollectHistory(client, "alex"), list[Any]()
    history.keep([ModelRequest.user_text_prompt("Hi"), ModelResponse(parts=[TextPart("Hi.")])])
    result = recalling_agent(history, requests, budget=-1).run_sync(QUESTION)
    assert "zeppelin" in result.output
    assert recalled_of(requests) == ["", ""]
    [line] = [it.getMessage() for it in caplog.records if it.name == "recollect.recall"]
    assert past.builds == [history.conversation_id]
    assert f"session 'alex' (conversation: {history.conversation_id}): budget.total" in line

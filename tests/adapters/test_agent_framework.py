"""Microsoft's Agent Framework: its history provider beside its own, and with its own agent."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from recollect import Client

from tests.adapters.conftest import QUESTION, Past
from tests.conftest import RunningServer

pytest.importorskip("agent_framework", reason="runs with .ci/toolkits")

from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatResponse,
    Content,
    FileHistoryProvider,
    FunctionInvocationLayer,
    Message,
    tool,
)
from recollect.adapters.agent_framework import RecollectHistoryProvider


def messages() -> list[Message]:
    call = Content.from_function_call("c1", "disk", arguments={"path": "/"})
    picture = Content.from_data(b"foo" * 100_000, "image/png")
    return [
        Message("user", ["Is the disk full?", picture]),
        Message("assistant", [Content.from_text_reasoning(text="I look."), call]),
        Message("tool", [Content.from_function_result("c1", result="97 % of zeppelin")]),
        Message("assistant", ["Yes."], author_name="ops", additional_properties={"a": [1, None]}),
        Message("system", ["Be short."]),
    ]


async def test_it_keeps_what_the_frameworks_own_provider_keeps(
    client: Client, tmp_path: Path
) -> None:
    for session in ("alex", "a/b ü", None):
        ours, theirs = RecollectHistoryProvider(client), FileHistoryProvider(tmp_path)
        for part in (messages()[:2], [], messages()[2:]):
            for it in (ours, theirs):
                await it.save_messages(session, part)
            loaded = [
                [it.to_dict() for it in await p.get_messages(session)] for p in (ours, theirs)
            ]
            assert loaded[0] == loaded[1]
    [best, *_] = client.recall.search("zeppelin").hits
    [*_, conversation] = client.conversations.list(channels=["agent-framework"])
    assert "zeppelin" in best.snippet_text
    roles = [it.role.value for it in client.recall.fetch_context(conversation.id).messages]
    assert roles[:2] == ["user", "assistant"]
    assert "tool" in roles


class ScriptedClient(FunctionInvocationLayer, BaseChatClient):  # type: ignore[misc, unused-ignore]
    """Says each message in turn, and keeps what it was given."""

    def __init__(self, *replies: Any) -> None:
        super().__init__()
        self.replies = [*replies]
        self.given: list[str] = []

    def _inner_get_response(self, *, messages: Any, options: Any, **_: Any) -> Any:
        async def respond() -> ChatResponse:
            texts = [it.to_dict() for it in messages]
            self.given.append(json.dumps([options.get("instructions"), texts], default=str))
            return ChatResponse(messages=[Message("assistant", [self.replies.pop(0)])])

        return respond()


@tool
def disk_usage() -> str:
    """Return the share of the disk in use."""
    return "97 %"


def test_an_agent_goes_on_in_another_process_and_recalls_once_a_run(
    server: RunningServer, client: Client, past: Past
) -> None:
    call = Content.from_function_call("c1", "disk_usage", arguments="{}")
    model = ScriptedClient(call, "The disk is full.", "You asked that.")

    async def ask(own: Client, question: str) -> None:
        history = RecollectHistoryProvider(own)
        providers = [history.recalling(2000), history]
        agent = Agent(client=model, tools=[disk_usage], context_providers=providers)
        await agent.run(question, session=AgentSession(session_id="alex"))

    asyncio.run(ask(client, QUESTION))
    with Client(server.target) as elsewhere:
        asyncio.run(ask(elsewhere, "What did I ask?"))
    assert "heron" in model.given[0]
    assert "heron" in model.given[1]
    assert "97 %" in model.given[2]
    assert "The disk is full." in model.given[2]
    assert len(past.builds) == 2
    rows = asyncio.run(RecollectHistoryProvider(client).get_messages("alex"))
    assert [it.role for it in rows] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
    ]
    assert "heron" not in json.dumps([it.to_dict() for it in rows], default=str)

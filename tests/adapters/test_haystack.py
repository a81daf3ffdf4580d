"""Haystack's store of chat messages, beside its own store and with its own components."""

import os
from typing import Any

import pytest
from recollect import Client, Role

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
pytest.importorskip("haystack_experimental", reason="runs with .ci/toolkits")

from haystack import Pipeline
from haystack.dataclasses import ChatMessage, ImageContent, ToolCall
from haystack_experimental.chat_message_stores.in_memory import InMemoryChatMessageStore
from haystack_experimental.components.retrievers import ChatMessageRetriever
from haystack_experimental.components.writers import ChatMessageWriter
from recollect.adapters.haystack import RecollectChatMessageStore

from tests.conftest import RunningServer

CALL = ToolCall("df", {"path": "/"}, id="c1")


def run_of(number: int) -> list[ChatMessage]:
    """Return the messages of a run that calls a tool."""
    return [
        ChatMessage.from_user(f"Is disk {number} full?", name="alex", meta={"n": [number, None]}),
        ChatMessage.from_assistant("Let me look.", tool_calls=[CALL], reasoning="df says it"),
        ChatMessage.from_tool("97 %", origin=CALL),
        ChatMessage.from_assistant(f"Yes, disk {number} is."),
    ]


def test_it_does_what_haystacks_own_store_does(client: Client) -> None:
    picture = ImageContent("aGVsbG8=" * 4000, mime_type="image/png", validation=False)
    question = ChatMessage.from_user(content_parts=["What is on it?", picture])
    calls: list[tuple[Any, ...]] = [
        ("count_messages", "alex"), ("retrieve_messages", "alex"), ("delete_messages", "alex"),
        ("write_messages", "alex", []),
        ("write_messages", "alex", [ChatMessage.from_system("Be short."), question]),
        *(("write_messages", "alex", run_of(number)) for number in range(12)),
        ("write_messages", "alex", [ChatMessage.from_user("again", meta={"chat_message_id": "3"})]),
        ("write_messages", "alex", [ChatMessage.from_user("own", meta={"chat_message_id": "x"})] * 2),
        ("write_messages", "a/b ü", [ChatMessage.from_tool("lost", origin=CALL)]),
        *(("retrieve_messages", "alex", last_k) for last_k in (None, 0, 1, 3, 11, 12, 13, 14, 99)),
        ("write_messages", "long", [*run_of(1), *run_of(2)[:3] * 7, *run_of(3)]),
        *(("retrieve_messages", "long", last_k) for last_k in (1, 2, 3)),
        ("retrieve_messages", "a/b ü"), ("count_messages", "alex"), ("delete_messages", "alex"),
        ("retrieve_messages", "alex"), ("count_messages", "a/b ü"), ("delete_all_messages",),
        ("count_messages", "a/b ü"),
    ]  # fmt: skip
    variants: list[dict[str, Any]] = [{}, {"skip_system_messages": False, "last_k": None}]
    for settings in variants:
        both: Any = (
            RecollectChatMessageStore(client, **settings),
            InMemoryChatMessageStore(**settings),
        )
        for name, *args in calls:
            ours, theirs = (getattr(it, name)(*args) for it in both)
            assert ours == theirs, (settings, name, args)
    with pytest.raises(ValueError, match="last_k"):
        both[0].retrieve_messages("alex", -1)
    with pytest.raises(ValueError, match="ChatMessage"):
        both[0].write_messages("alex", ["text"])


def test_a_pipeline_that_is_written_down_goes_on_with_its_history(
    server: RunningServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = Pipeline()
    store = RecollectChatMessageStore(client)
    pipeline.add_component("writer", ChatMessageWriter(store))
    pipeline.add_component("retriever", ChatMessageRetriever(store))
    pipeline.run({"writer": {"chat_history_id": "alex", "messages": run_of(1)},
                  "retriever": {"chat_history_id": "other"}})  # fmt: skip
    monkeypatch.setenv("RECOLLECT_ADDRESS", server.target)
    again = Pipeline.loads(pipeline.dumps(), allowed_modules=["recollect.adapters.haystack"])
    answer = again.run({"writer": {"chat_history_id": "other", "messages": run_of(2)},
                        "retriever": {"chat_history_id": "alex"}})  # fmt: skip
    assert [it.text for it in answer["retriever"]["messages"]] == [it.text for it in run_of(1)]
    assert [it.matched_turns for it in client.recall.search("disk 2 full").results]
    [conversation] = [
        it for it in client.conversations.list() if it.party and it.party.group_id == "/alex"
    ]
    roles = [it.role for it in client.recall.fetch_context(conversation.id).messages]
    assert roles == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]

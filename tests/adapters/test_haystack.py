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
from recollect.adapters.haystack import RecollectChatMessageStore, RecollectRecall

from tests.adapters.conftest import QUESTION, Past
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


def recalling_pipeline(client: Client, **recall: Any) -> Pipeline:
    """Return a pipeline that recalls, and writes all that it has to a store."""
    pipeline = Pipeline()
    store = RecollectChatMessageStore(client, skip_system_messages=False)
    pipeline.add_component("recall", RecollectRecall(client, **recall))
    pipeline.add_component("writer", ChatMessageWriter(store))
    pipeline.connect("recall.messages", "writer.messages")
    return pipeline


def ran(pipeline: Pipeline, *messages: ChatMessage) -> list[str | None]:
    """Return the texts that a pipeline for these messages would give a model."""
    inputs: dict[str, Any] = {
        "recall": {"messages": [*messages], "chat_history_id": "alex"},
        "writer": {"chat_history_id": "alex"},
    }
    outputs = pipeline.run(inputs, include_outputs_from={"recall"})
    return [it.text for it in outputs["recall"]["messages"]]


def test_a_component_recalls_once_a_turn_and_no_store_writes_it(client: Client, past: Past) -> None:
    pipeline = recalling_pipeline(client)
    question, step = ChatMessage.from_user(QUESTION), ChatMessage.from_assistant("Let me look.")
    for given in ([question], [question, step]):  # as an agent that calls a tool in between
        first, *others = ran(pipeline, *given)
        assert past.is_in(str(first))
        assert others == [it.text for it in given]
    assert past.builds == [None]
    assert ran(pipeline, question, step, ChatMessage.from_user("Thanks!"))[-1] == "Thanks!"
    [own] = client.conversations.list(channels=["haystack"])
    assert past.builds == [None, own.id]
    stored = client.conversations.load(own.id).messages
    assert "heron" not in "".join(f"{it.content}{it.metadata}" for it in stored)
    assert ran(pipeline, step) == ["Let me look."]


def test_another_person_is_a_stranger_to_a_pipeline_that_is_written_down(
    server: RunningServer, client: Client, past: Past, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = recalling_pipeline(client, budget=1000).dumps()
    monkeypatch.setenv("RECOLLECT_ADDRESS", server.target)
    monkeypatch.setenv("RECOLLECT_SPACE", "sam")
    again = Pipeline.loads(text, allowed_modules=["recollect.adapters.haystack"])
    assert ran(again, ChatMessage.from_user(QUESTION)) == [QUESTION]
    assert past.builds == [None]


def test_a_pipeline_goes_on_where_nothing_can_be_recalled(
    client: Client, past: Past, caplog: pytest.LogCaptureFixture
) -> None:
    assert ran(recalling_pipeline(client, budget=-1), ChatMessage.from_user(QUESTION)) == [QUESTION]
    [line] = [it.getMessage() for it in caplog.records if it.name == "recollect.recall"]
    assert "session 'alex' (conversation: none yet): budget.total" in line
    assert past.builds == [None]

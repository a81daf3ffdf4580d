"""LlamaIndex's chat store, beside its own store, and with its own memory and chat engine."""

from typing import Any

import pytest
from recollect import Client

from tests.adapters.conftest import QUESTION, Past
from tests.conftest import RunningServer
from tests.server.conftest import files_with

pytest.importorskip("llama_index.core", reason="runs with .ci/toolkits")

from llama_index.core.base.llms.types import ImageBlock, TextBlock
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import ChatMessage, MockLLM
from llama_index.core.memory import ChatMemoryBuffer, Memory
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.storage.chat_store.base_db import MessageStatus
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from recollect.adapters.llama_index import (
    RecollectChatStore,
    RecollectDBChatStore,
    RecollectMemoryBlock,
)


def message(text: str, role: Any = "user", **more: Any) -> ChatMessage:
    return ChatMessage(role=role, content=text, additional_kwargs=more)


async def test_it_does_what_the_librarys_own_store_does(client: Client) -> None:
    ours, theirs = RecollectChatStore(client), SimpleChatStore()

    async def both(name: str, *args: Any) -> None:
        results = [await getattr(it, name)(*args) for it in (ours, theirs)]
        if name == "aget_keys":
            results = [sorted(it) for it in results]
        assert results[0] == results[1], (name, args)

    several = [message("a"), message("b", "assistant"), message("", "tool", tool_call_id="x")]
    for call in (
        ("aget_messages", "alex"), ("adelete_messages", "alex"), ("adelete_last_message", "alex"),
        ("async_add_message", "alex", message("hi", "system")),
        ("async_add_message", "a/b ü", message("hi", name=[1, None])),
        ("aset_messages", "alex", several), ("aget_messages", "alex"),
        ("adelete_message", "alex", 1), ("adelete_message", "alex", 7), ("aget_messages", "alex"),
        ("async_add_message", "alex", message("c")), ("adelete_last_message", "alex"),
        ("adelete_message", "alex", 0), ("aget_messages", "alex"), ("aget_keys",),
        ("aset_messages", "alex", several[:2]), ("aget_messages", "alex"),
        ("adelete_messages", "alex"), ("aget_keys",), ("aget_messages", "a/b ü"),
    ):  # fmt: skip
        await both(*call)


async def test_the_store_of_memory_does_what_the_librarys_sql_store_does(client: Client) -> None:
    ours, theirs = RecollectDBChatStore(client), SQLAlchemyChatStore(table_name="messages")
    active, archived = MessageStatus.ACTIVE, MessageStatus.ARCHIVED
    several = [message(it, "assistant" if it in "bd" else "user") for it in "abcde"]
    for name, *args in (
        ("get_messages", "alex"), ("count_messages", "alex"), ("delete_message", "alex", 1),
        ("add_message", "alex", message("hi", "system")), ("add_messages", "a/b ü", several[:2]),
        ("add_messages", "alex", several), ("add_message", "alex", message("old"), archived),
        ("get_messages", "alex"), ("get_messages", "alex", archived), ("get_messages", "alex", None),
        ("get_messages", "alex", active, 2, 1), ("archive_oldest_messages", "alex", 2),
        ("get_messages", "alex"), ("get_messages", "alex", archived), ("count_messages", "alex"),
        ("delete_oldest_messages", "alex", 1), ("count_messages", "alex", None),
        ("archive_oldest_messages", "none", 3), ("get_keys",),
        ("delete_messages", "alex", archived), ("get_messages", "alex", None),
        ("set_messages", "alex", several[:1]), ("get_messages", "alex", None),
        ("delete_messages", "alex"), ("get_messages", "alex", None), ("get_keys",),
    ):  # fmt: skip
        results = [await getattr(it, str(name))(*args) for it in (ours, theirs)]
        if name == "get_keys":
            results = [sorted(it) for it in results]
        assert results[0] == results[1], (name, args)
    await ours.add_messages("sam", several)
    taken = await ours.delete_message("sam", 1)  # the place; SQL's is the number of a row
    assert taken == several[1]
    assert await ours.get_messages("sam") == [several[0], *several[2:]]
    assert RecollectChatStore(client).get_messages("sam") == [several[0], *several[2:]]


async def test_a_memory_that_flushes_keeps_the_rest_to_be_found(client: Client) -> None:
    memory = Memory.from_defaults(
        session_id="alex",
        chat_store=RecollectDBChatStore(client),
        token_limit=60,
        chat_history_token_ratio=0.5,
        token_flush_size=20,
    )
    for number in range(8):
        await memory.aput(message(f"zeppelin number {number} has flown over the lake today"))
        await memory.aput(message("noted", "assistant"))
    active = await memory.aget_all(status=MessageStatus.ACTIVE)
    assert 0 < len(active) < 16
    assert len(await memory.aget_all()) == 16
    assert client.recall.search("zeppelin number 0").hits


def test_a_chat_engine_remembers_in_another_process(server: RunningServer, client: Client) -> None:
    def engine(connected: Client) -> Any:
        memory = ChatMemoryBuffer.from_defaults(
            chat_store=RecollectChatStore(connected), chat_store_key="alex", token_limit=10_000
        )
        return SimpleChatEngine.from_defaults(llm=MockLLM(), memory=memory)

    first = engine(client)
    first.chat("about zeppelins")
    with Client(server.target) as elsewhere:
        second = engine(elsewhere)
        second.chat("and submarines")
        texts = [it.content for it in second.chat_history]
    assert texts[0] == "about zeppelins"
    assert [texts.count("about zeppelins"), texts.count("and submarines"), len(texts)] == [1, 1, 4]
    assert client.recall.search("zeppelins").hits
    RecollectChatStore(client).delete_messages("alex")
    assert files_with(server.data_dir, "zeppelins") == []


def test_images_come_back_and_are_no_words(client: Client) -> None:
    store = RecollectChatStore(client)
    picture = ImageBlock(image=b"foo" * 100_000, image_mimetype="image/png")
    it = ChatMessage(role="user", blocks=[TextBlock(text="What is on it?"), picture])
    store.add_message("alex", it)
    assert store.get_messages("alex") == [it]
    [conversation] = client.conversations.list()
    content = client.recall.fetch_context(conversation.id).messages[0].content
    assert content.startswith("What is on it?\n\n[image: image/png, ")


def memory_of(client: Client, **recall: Any) -> Memory:
    return Memory.from_defaults(
        session_id="alex",
        chat_store=RecollectDBChatStore(client),
        memory_blocks=[RecollectMemoryBlock(client, **recall)],
    )


async def test_a_memory_block_recalls_once_a_turn_and_nothing_of_it_is_stored(
    client: Client, past: Past
) -> None:
    memory = memory_of(client)
    for number in (1, 2):
        if number == 2:
            await memory.aput(message("Noted.", "assistant"))
        await memory.aput(message(QUESTION))
        for _ in range(2):  # as an agent that calls a tool in between
            first = str((await memory.aget())[0].content)
            assert past.is_in(first.partition("<recollect>")[2].strip())
            await memory.aput(message("A tool said it.", "assistant"))
        assert len(past.builds) == number
    first, *others = [it.content for it in await memory.aget_all()]
    assert first == QUESTION
    assert "heron" not in "".join(map(str, others))
    [own] = list(client.conversations.list(channels=["llama-index"]))
    assert past.builds == [own.id, own.id]


def test_a_chat_engine_recalls_for_its_own_person_alone(
    server: RunningServer, client: Client, past: Past
) -> None:
    recalls = []
    with Client(server.target, space="sam") as other:
        for each in (client, other):
            engine = SimpleChatEngine.from_defaults(llm=MockLLM(), memory=memory_of(each))
            recalls.append("heron" in str(engine.chat(QUESTION)))  # the model says what it is given
    assert recalls == [True, False]
    assert len(past.builds) == 2


async def test_a_memory_goes_on_where_nothing_can_be_recalled(
    client: Client, past: Past, caplog: pytest.LogCaptureFixture
) -> None:
    memory = memory_of(client, budget=-1)
    assert await memory.aget() == []
    await memory.aput(message(QUESTION))
    assert [it.content for it in await memory.aget()] == [QUESTION]
    [line] = [it.getMessage() for it in caplog.records if it.name == "recollect.recall"]
    assert f"session 'alex' (conversation: {past.builds[0]}): budget.total" in line

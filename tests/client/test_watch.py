"""`client.conversations.watch` and its async twin, against the real server."""

import asyncio
import threading
from typing import Any

import pytest
import recollect
from recollect import (
    AsyncClient,
    Client,
    ConversationAbbreviated,
    ConversationCreated,
    ConversationDeleted,
    ConversationList,
    ConversationRenamed,
    ConversationUpdated,
    LoadedConversation,
    Message,
    MessageDelta,
    RetryPolicy,
)

from tests.conftest import RunningServer, Start


def test_a_watch_yields_a_snapshot_and_then_every_change(client: Client) -> None:
    old = client.conversations.create("web")
    with client.conversations.watch() as watch:
        first, second = next(watch), next(watch)
        assert isinstance(first.kind, ConversationList)
        assert [it.id for it in first.kind.conversations] == [old.id]
        assert isinstance(second.kind, LoadedConversation)
        assert second.kind.conversation == old
        new = client.conversations.create("web", model="small")
        client.conversations.publish_delta(new.id, "d", 0, "No")
        created, delta = next(watch), next(watch)
        stored = client.conversations.append_turn(
            new.id, [Message.user("Hi"), Message.assistant("Noted")], draft_id="d"
        )
        client.conversations.rename(new.id, "Hello")
        client.conversations.record_abbreviation(new.id, "They met.", topics=["a-meeting"])
        updated, renamed, notes = (next(watch) for _ in range(3))
        client.conversations.delete(new.id)
        deleted = next(watch)
    assert created.kind == ConversationCreated(conversation=new)
    assert delta.kind == MessageDelta(draft_id="d", offset=0, text="No", done=False, dropped=False)
    assert isinstance(updated.kind, ConversationUpdated)
    assert (updated.kind.conversation, updated.kind.messages, updated.kind.draft_id) == (
        stored.conversation,
        stored.messages,
        "d",
    )
    assert (updated.cursor, updated.conversation_id, updated.reset) == (
        stored.cursor,
        new.id,
        False,
    )
    assert renamed.kind == ConversationRenamed(title="Hello", manually_named=True, topics=())
    assert notes.kind == ConversationAbbreviated(abbreviation="They met.", topics=("a-meeting",))
    assert deleted.kind == ConversationDeleted()
    assert list(watch) == []


def test_a_watch_goes_on_behind_the_cursor_of_another(client: Client) -> None:
    conversation = client.conversations.create("web")
    with client.conversations.watch() as watch:
        next(watch)
        next(watch)
        for text in ("One", "Two", "Three"):
            client.conversations.append_turn(conversation.id, [Message.user(text)])
        next(watch)
        cursor = watch.cursor
    with client.conversations.watch(
        cursor=cursor, conversation_ids=[conversation.id], channels=["web"]
    ) as watch:
        assert [next(watch).kind.messages[0].content for _ in range(2)] == ["Two", "Three"]  # type: ignore[union-attr]


async def test_the_async_watch_does_the_same_across_a_restart(start_server: Start) -> None:
    server = start_server()
    soon = RetryPolicy(initial_delay=0.01, max_delay=0.05)
    async with AsyncClient(server.target, retry=soon) as client:
        conversation = await client.conversations.create("web")
        watch = client.conversations.watch()
        kinds = [type((await anext(watch)).kind) for _ in range(2)]
        assert kinds == [ConversationList, LoadedConversation]
        await client.conversations.append_turn(conversation.id, [Message.user("One")])
        assert (await anext(watch)).conversation_id == conversation.id
        waiting = asyncio.create_task(anext(watch))
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(start_server, listen=server.target)
        # whose connection need not come back first
        async with AsyncClient(server.target) as another:
            await another.conversations.append_turn(conversation.id, [Message.user("Two")])
        update: Any = await waiting
        assert update.kind.messages[0].content == "Two"
        await watch.close()
        assert [it async for it in watch] == []


async def test_a_task_that_gives_up_waiting_loses_no_update(server: RunningServer) -> None:
    async with AsyncClient(server.target) as client:
        watch = client.conversations.watch()
        await anext(watch)
        await anext(watch)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(watch), 0.05)
        conversation = await client.conversations.create("web")
        assert (await anext(watch)).kind == ConversationCreated(conversation=conversation)


def test_the_caller_is_told_of_a_reset(start_server: Start) -> None:
    server = start_server()
    with Client(server.target, retry=RetryPolicy(initial_delay=0.01, max_delay=0.05)) as client:
        conversation = client.conversations.create("web")
        with client.conversations.watch() as watch:
            assert [next(watch).reset, next(watch).reset] == [False, False]
            server.stop()
            for path in server.folder.glob("conversations.db*"):
                path.unlink()
            start_server(listen=server.target)
            listed, loaded = next(watch), next(watch)
    assert isinstance(listed.kind, ConversationList)
    assert ([it.id for it in listed.kind.conversations], listed.reset, loaded.reset) == (
        [conversation.id],
        True,
        False,
    )


@pytest.mark.parametrize("close_what", ["watch", "client"])
def test_a_watch_ends_when_it_is_closed_or_its_client_is(
    server: RunningServer, close_what: str
) -> None:
    client = Client(server.target)
    watch = client.conversations.watch()
    next(watch)
    next(watch)
    rest: list[Any] = []
    thread = threading.Thread(target=lambda: rest.extend(watch))
    thread.start()
    (watch if close_what == "watch" else client).close()
    thread.join(30)
    assert not thread.is_alive()
    assert rest == list(watch) == []
    client.close()


@pytest.mark.parametrize("close", ["client", "watch", "watch without await"])
async def test_an_async_watch_ends_when_it_is_closed_or_its_client_is(
    server: RunningServer, close: str
) -> None:
    async with AsyncClient(server.target) as client:
        watch = client.conversations.watch()
        await anext(watch)
        await anext(watch)

        async def rest(watch: Any = watch) -> list[Any]:
            return [it async for it in watch]

        waiting = asyncio.create_task(rest())
        await asyncio.sleep(0)
        closing = client.close() if close == "client" else watch.close()
        if close != "watch without await":
            await closing
        assert await asyncio.wait_for(waiting, 30) == []


def test_what_connecting_again_does_not_mend_is_raised(client: Client) -> None:
    with pytest.raises(recollect.InvalidArgument) as raised:
        next(client.conversations.watch(cursor="nonsense"))
    assert [it.field for it in raised.value.violations] == ["cursor"]


def test_a_first_connection_is_tried_as_often_as_any_call() -> None:
    waits: list[float] = []
    policy = RetryPolicy(max_attempts=4, initial_delay=0.1, max_delay=0.3, random=lambda: 1.0)
    with (
        Client("127.0.0.1:1", retry=policy, sleep=waits.append) as client,
        pytest.raises(recollect.Unavailable),
    ):
        next(client.conversations.watch())
    assert waits == [0.1, 0.2, 0.3]


def test_where_no_more_subscribers_are_taken_it_waits_as_long_as_the_server_asks(
    start_server: Start,
) -> None:
    server = start_server(max_subscribers=1)
    waits: list[float] = []
    policy = RetryPolicy(max_attempts=3, random=lambda: 0.5)
    with (
        Client(server.target, retry=policy, sleep=waits.append) as client,
        client.conversations.watch() as first,
    ):
        next(first)
        with pytest.raises(recollect.ResourceExhausted) as raised:
            next(client.conversations.watch())
    assert raised.value.reason == recollect.ErrorReason.TOO_MANY_SUBSCRIBERS
    assert waits == [1.05, 1.1]


def test_a_part_of_a_draft_is_sent_again_where_the_server_was_away(start_server: Start) -> None:
    server = start_server()
    with Client(server.target) as client:
        conversation = client.conversations.create("web")
    server.stop()
    again: list[RunningServer] = []

    def come_back(_: float) -> None:
        if not again:
            again.append(start_server(listen=server.target))
        threading.Event().wait(0.01)

    with Client(server.target, sleep=come_back, retry=RetryPolicy(max_attempts=100)) as client:
        client.conversations.publish_delta(conversation.id, "d", 0, "Hello")
        with client.conversations.watch() as watch:
            update = [next(watch) for _ in range(3)][-1]
    assert isinstance(update.kind, MessageDelta)
    assert update.kind.text == "Hello"

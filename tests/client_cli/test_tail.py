"""`recollect tail`: live, and again from where it was."""

import json
import os
from collections.abc import Callable
from typing import Any

from recollect import Client, Conversation, Message

from tests.client_cli.conftest import environment
from tests.programs import CLIENT, Forked

Talked = Callable[..., Conversation]


def next_kind(process: Forked, kind: str) -> dict[str, Any]:
    """Return the next update of that kind."""
    assert process.stdout is not None
    while line := process.stdout.readline():
        if (record := json.loads(line))["kind"] == kind:
            return dict(record)
    raise AssertionError(f"no {kind}")


def test_tail_prints_what_is_said_while_it_is_said(
    recollect: Any, client: Client, talked: Talked
) -> None:
    it = talked(5, title="Disk")
    with recollect.started("tail", "--turns", "2") as process:
        loaded = next_kind(process, "conversationLoaded")
        assert [message["turnNumber"] for message in loaded["messages"]] == [4, 4, 5, 5]
        assert loaded["hasMore"] is True
        client.conversations.append_turn(it.id, [Message.user("and now?")])
        update = next_kind(process, "conversationUpdated")
        assert (
            update["conversationId"],
            [message["content"] for message in update["messages"]],
        ) == (it.id, ["and now?"])
        client.conversations.publish_delta(it.id, "draft-1", 0, "Now it is")
        assert next_kind(process, "messageDelta")["text"] == "Now it is"
        client.conversations.rename(it.id, "Other")
        assert next_kind(process, "conversationRenamed")["title"] == "Other"
        client.conversations.delete(it.id)
        assert next_kind(process, "conversationDeleted")["conversationId"] == it.id


def test_tail_goes_on_behind_a_cursor_and_misses_nothing(
    recollect: Any, client: Client, talked: Talked
) -> None:
    it = talked()
    with recollect.started("tail") as process:
        cursor = next_kind(process, "conversationLoaded")["cursor"]
    for number in range(3):
        client.conversations.append_turn(it.id, [Message.user(f"missed {number}")])
    with recollect.started("tail", "--cursor", cursor) as process:
        texts = [
            next_kind(process, "conversationUpdated")["messages"][0]["content"] for _ in range(3)
        ]
    assert texts == ["missed 0", "missed 1", "missed 2"]


def test_tail_follows_only_what_was_chosen(recollect: Any, client: Client, talked: Talked) -> None:
    followed, other, elsewhere = talked(), talked(), talked(channel="cli")
    for arguments in ((followed.id,), ("--channel", "web", followed.id)):
        with recollect.started("tail", *arguments) as process:
            next_kind(process, "conversationLoaded")
            for it in (other, elsewhere, followed):
                client.conversations.append_turn(it.id, [Message.user(f"in {it.id}")])
            assert next_kind(process, "conversationUpdated")["conversationId"] == followed.id


def test_on_a_terminal_the_conversation_is_named_where_it_changes(
    recollect: Any, client: Client, talked: Talked
) -> None:
    first, second = talked(title="Disk"), talked(title="Network")
    ours, theirs = os.openpty()
    with Forked(
        CLIENT, ["tail"], stdout=theirs, env=environment(recollect.address, COLUMNS="120")
    ) as process:
        os.close(theirs)
        try:
            output = read_until(ours, "answer 1")
            assert "Network" in output
            for it, text in ((first, "about disks"), (second, "about cables")):
                client.conversations.append_turn(it.id, [Message.user(text)])
            output = read_until(ours, "about cables")
        finally:
            process.kill()
    os.close(ours)
    places = [
        output.index(text) for text in ("── Disk", "about disks", "── Network", "about cables")
    ]
    assert places == sorted(places)


def read_until(terminal: int, text: str) -> str:
    output = ""
    while text not in output:
        output += os.read(terminal, 1 << 16).decode()
    return output

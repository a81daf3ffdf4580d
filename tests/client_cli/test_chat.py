"""`recollect chat`: what is typed is kept, commands are answered by the server, and a command may
answer.
"""

import errno
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from recollect import Client, Role
from recollect.cli.exits import FAILED

from tests.faults.conftest import Disk, disk

__all__ = ["disk"]


def said(client: Client, conversation_id: str) -> list[tuple[Role, str]]:
    return [
        (message.role, message.content)
        for message in client.conversations.load(conversation_id).messages
    ]


def test_a_full_disk_keeps_what_is_typed_and_says_so(
    recollect: Any, client: Client, disk: Disk
) -> None:
    first = recollect("chat", stdin="Buy milk.\n").lines[0]["conversationId"]
    disk.refuse("pwrite", error=errno.ENOSPC)
    ran = recollect("chat", stdin="And bread.\n")
    assert ran.code != 0
    assert "it is kept on the server and written as soon as there is room (No space left" in ran.err
    disk.refused.clear()
    recollect("chat", stdin="And eggs.\n")
    assert [content for _, content in said(client, first)] == [
        "Buy milk.",
        "And bread.",
        "And eggs.",
    ]


def test_what_is_typed_is_kept_in_the_conversation_of_that_name(
    recollect: Any, client: Client
) -> None:
    ran = recollect("chat", stdin="Buy milk.\n\n  And bread.\n")
    assert (ran.code, ran.err) == (0, "")
    assert [(line["role"], line["content"]) for line in ran.lines] == [
        ("user", "Buy milk."),
        ("user", "  And bread."),
    ]
    again = recollect("chat", stdin="And eggs.")
    other = recollect("chat", "--name", "work", stdin="Ship it.\n/quit\nnever read\n")
    assert (
        again.lines[0]["conversationId"]
        == ran.lines[0]["conversationId"]
        != other.lines[0]["conversationId"]
    )
    assert [content for _, content in said(client, ran.lines[0]["conversationId"])] == [
        "Buy milk.",
        "  And bread.",
        "And eggs.",
    ]
    assert len(other.lines) == 1
    assert {it.channel for it in client.conversations.list()} == {"cli"}


def test_commands_are_answered_by_the_server_and_not_kept(recollect: Any, client: Client) -> None:
    ran = recollect(
        "chat",
        stdin="Buy milk.\n/model haiku\n/history\n/new\nAnother thing.\n/help\n/frobnicate\n",
    )
    milk, model, history, new, another, usage, unknown = ran.lines
    assert client.conversations.get(milk["conversationId"]).model == "haiku"
    assert "haiku" in model["reply"]
    assert "Buy milk." in history["reply"]
    assert new["conversationId"] == another["conversationId"] != milk["conversationId"]
    assert "/history" in usage["reply"]
    assert "/frobnicate" in unknown["reply"]
    assert said(client, milk["conversationId"]) == [(Role.USER, "Buy milk.")]
    assert said(client, another["conversationId"]) == [(Role.USER, "Another thing.")]


ECHO = f"""{sys.executable} -c '
import json, os, sys
said = [json.loads(line) for line in sys.stdin]
print(len(said), said[-1]["content"].upper(), os.environ["RECOLLECT_CONVERSATION_ID"])
'"""


def test_a_command_answers_with_the_context_before_it(recollect: Any, client: Client) -> None:
    ran = recollect("chat", "--answer-with", ECHO, stdin="grüße\nagain\n")
    name = ran.lines[0]["conversationId"]
    assert ran.code == 0
    assert said(client, name) == [
        (Role.USER, "grüße"),
        (Role.ASSISTANT, f"1 GRÜSSE {name}"),
        (Role.USER, "again"),
        (Role.ASSISTANT, f"3 AGAIN {name}"),
    ]
    assert [line["role"] for line in ran.lines] == ["user", "assistant", "user", "assistant"]
    assert len({message.turn_number for message in client.conversations.load(name).messages}) == 2


def test_whoever_watches_sees_the_answer_grow(
    recollect: Any, client: Client, tmp_path: Path
) -> None:
    # Of an answer that is kept before its watcher reads, nothing grows: each half waits until the
    # one before it was read, and the end until all of it was.
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with (
        recollect.started("tail", "--channel", "cli") as process,
        ThreadPoolExecutor(1) as pool,
    ):
        process.stdout.readline()
        answer = f"echo The disk; cat {pipe}; echo is full.; cat {pipe}"
        chat = pool.submit(recollect, "chat", "--answer-with", answer, stdin="?\n")
        text = ""
        while line := process.stdout.readline():
            update = json.loads(line)
            if update["kind"] == "messageDelta":
                assert update["offset"] == len(text)
                halves = text.count("\n")
                text += update["text"]
                for _ in range(text.count("\n") - halves):
                    pipe.open("w").close()
            if (
                update["kind"] == "conversationUpdated"
                and update["messages"][-1]["role"] == "assistant"
            ):
                break
        ran = chat.result()
    assert text == "The disk\nis full.\n"
    assert update["messages"][-1]["content"] == "The disk\nis full." == ran.lines[1]["content"]
    assert update["draftId"].startswith("chat-")


def test_an_answer_that_fails_is_not_kept(recollect: Any, client: Client) -> None:
    for command, reason in (
        ("echo half; exit 3", "exit code 3"),
        ("true", "said nothing"),
        ("no-such-command-here", "exit code 127"),
    ):
        ran = recollect("chat", "--answer-with", command, stdin="?\nnot reached\n")
        assert ran.code == FAILED
        assert reason in ran.err.splitlines()[-1]
    [conversation] = client.conversations.list()
    assert said(client, conversation.id) == [(Role.USER, "?")] * 3


def test_a_long_context_and_a_long_answer_do_not_block_each_other(
    recollect: Any, client: Client
) -> None:
    ran = recollect(
        "chat", "--answer-with", "yes long | head -c 300000; cat", stdin="x" * 200_000 + "\n"
    )
    assert ran.code == 0
    assert len(ran.lines[1]["content"]) > 500_000


def test_on_a_terminal_it_prompts_and_shows_the_answer(recollect: Any, client: Client) -> None:
    ran = recollect.on_terminal(
        "chat",
        "--answer-with",
        "echo 97 percent",
        typed=("full?\n", "/help\n", "\x04"),
        NO_COLOR="1",
        TERM="dumb",
    )
    assert (ran.code, ran.err) == (0, "")
    assert "Kept in cli:default." in ran.out
    assert "> " in ran.out
    assert "97 percent" in ran.out
    assert "/history" in ran.out
    [conversation] = client.conversations.list()
    assert said(client, conversation.id) == [(Role.USER, "full?"), (Role.ASSISTANT, "97 percent")]

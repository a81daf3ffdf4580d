"""`recollect import` of what a stranger may send: twice as much of it takes about twice as long."""

import gc
import json
import math
import sqlite3
import time
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from recollect.imports import finding
from recollect.imports.forms import Options
from recollect.imports.markup import plain_text
from recollect.imports.plans import Plan, Skip

from tests.client_cli.test_import_agents import CODEX, WEBUI, item, lines_of, message
from tests.client_cli.test_import_products import entry, node, tree
from tests.client_cli.test_import_types import DISCORD, SIGNAL, SIGNAL_LINE, SLACK, TELEGRAM

Write = Callable[[Path, int], Path]


def text_file(name: str, text: Callable[[int], str]) -> Write:
    """Return what writes a file whose text depends on a size."""

    def write(folder: Path, size: int) -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text(size))
        return path

    return write


def json_file(name: str, value: Callable[[int], Any]) -> Write:
    return text_file(name, lambda size: json.dumps(value(size)))


def mail(body: str, subject: str = "Hi", more: str = "", sender: str = "Ana <ana@m.org>") -> str:
    return (
        "From 1@m.org Tue Jan 02 10:00:00 2024\nMessage-ID: <1@m.org>\nSubject: "
        f"{subject}\nFrom: {sender}\nDate: Tue, 02 Jan 2024 10:00:00 +0000\n{more}\n{body}\n"
    )


HTML = "Content-Type: text/html; charset=utf-8\n"
WORD = " =?utf-8?q?a?="
CALL = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
LONG = 100_000
AIDER = "\n# aider chat started at 2024-05-01 10:00:00\n"


def calls_of(size: int) -> list[dict[str, Any]]:
    """Return the messages of Claude: calls with one id, and their results the last one first."""
    results = [{"type": "tool_result", "tool_use_id": f"x{n}", "content": "r"} for n in range(size)]
    blocks = [CALL] * size + [CALL | {"id": f"x{n}"} for n in range(size)] + results[::-1]
    said_by = {"uuid": "m", "sender": "assistant", "created_at": "2024-05-01T10:00:00Z"}
    return [{"uuid": "u", "name": "u", "chat_messages": [said_by | {"content": blocks}]}]


def sessions_of(size: int) -> str:
    """Return a session of Claude Code: many branches, and a chain of many subagents."""
    lines = []
    for number in range(size):
        for kind in ("q", "s"):
            parent = f"{kind}{number - 1}" if number and kind == "s" else None
            fields = {"uuid": f"{kind}{number}", "parentUuid": parent, "isSidechain": kind == "s"}
            body = {"role": "user", "content": "x"}
            lines.append({"type": "user", "sessionId": "s", "message": body} | fields)
    return lines_of(*lines)


def rollout_of(size: int) -> str:
    back = {"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 1}}
    return lines_of(CODEX[0], *[message("assistant", "x"), back] * size, *[item("hologram")] * size)


def gemini_session_of(size: int) -> str:
    """Return a session of Gemini CLI: lists of the messages that stay, copies and rewinds."""
    messages = [{"id": f"{n}", "type": "gemini", "content": "x"} for n in range(size)]
    copies = [it | {"id": f"copy {it['id']}"} for it in messages]
    empty: dict[str, Any] = {"$set": {"messages": []}}
    taken = [line for n in range(size) for line in ({"$rewindTo": f"{n}"}, empty)]
    beginning = {"sessionId": "s", "projectHash": "p"}
    return lines_of(beginning, *messages, {"$set": {"messages": copies}}, *[empty] * size, *taken)


def webui_of(text: str) -> list[Any]:
    value = json.loads(json.dumps(WEBUI))
    value["chat"]["history"]["messages"]["3"]["content"] = text
    return [value]


def slack_of(size: int) -> list[Any]:
    return [SLACK[0] | {"ts": f"{n}.1", "text": "<@" * 20} for n in range(size)]


def logs(folder: Path, size: int) -> Path:
    """Write a database of `llm` without an index, in which each response has a call."""
    path = folder / "logs.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            "CREATE TABLE conversations (id, name, model);"
            "CREATE TABLE responses (id, model, prompt, system, response, conversation_id, datetime_utc);"
            "CREATE TABLE tool_calls (id, response_id, name, arguments, tool_call_id);"
            "CREATE TABLE threads (id, name, tip_message_hash, datetime_utc);"
            "CREATE TABLE turns (id, thread_id, tip_message_hash, datetime_utc);"
            "CREATE TABLE messages (hash, parent_hash, role);"
            "CREATE TABLE parts (message_hash, position, type, text, payload);"
            "INSERT INTO threads VALUES ('t', 't', 'h0', '2025-09-01T10:00:01')"
        )
        for sql, row in (
            ("responses VALUES (?, 'm', 'a', '', 'b', 'c', '2025-09-01T10:00:01')", 1),
            ("tool_calls VALUES (?, ?, 'f', '{}', '')", 2),
            ("messages VALUES ('h' || ?, 'h' || (? + 1), 'user')", 2),
            ("parts VALUES ('h' || ?, 0, 'text', 'x', NULL)", 1),
        ):
            rows = ([str(number)] * row for number in range(size))
            database.executemany(f"INSERT INTO {sql}", rows)
        database.commit()
    return path


def archive(folder: Path, size: int) -> Path:
    path = folder / "chats.zip"
    with zipfile.ZipFile(path, "w") as file:
        for number in range(size):
            file.writestr(f"{number}/a.txt", "13/05/24, 21:07 - Ana: Hi\n")
    return path


def page_of(size: int) -> str:
    kind = '<div class="content-cell mdl-cell"'
    cell = f'<p class="mdl-typography--title">Gemini Apps</p>{kind}>Asked x<br>May 1, 2024, 10:00:00 AM UTC<br>'
    return f'<div class="outer-cell">{cell}{"<a " * size}'


HOSTILE: dict[str, tuple[int, Write]] = {
    "mail: tags": (LONG, text_file("a.mbox", lambda n: mail("<a " * n, more=HTML))),
    "mail: comments": (LONG, text_file("a.mbox", lambda n: mail("<!--" * n, more=HTML))),
    "mail: subject": (4000, text_file("a.mbox", lambda n: mail("x", subject=WORD * n))),
    "mail: sender": (LONG, text_file("a.mbox", lambda n: mail("x", sender="(" + "a,<" * n))),
    "mail: type": (LONG, text_file("a.mbox", lambda n: mail("x", more=f'Content-Type: a;"{";" * n}\n'))),
    "mail: charset": (
        LONG,
        text_file("a.mbox", lambda n: mail("a" * n, more="Content-Type: text/plain; charset=punycode\n")),
    ),
    "mail: references": (LONG, text_file("a.mbox", lambda n: mail("x", more=f"References: {'<a>' * n}\n"))),
    "mail: separators": (
        LONG // 60,
        text_file("a.mbox", lambda n: mail("\nFrom " + "Jan 1 " * 30) + "\nFrom Jan 1 \n" * n),
    ),
    "mail: many": (
        LONG // 40,
        text_file(
            "a.mbox", lambda n: "\n".join(mail("x").replace("<1@", f"<{it}@") for it in range(n))
        ),
    ),
    "zip": (2000, archive),
    "llm": (2000, logs),
    "gemini": (LONG, text_file("MyActivity.html", page_of)),
    "gemini: title": (
        LONG,
        json_file("MyActivity.json", lambda n: [entry(0, "Prompted a" + " " * n + "b", "<a " * n)]),
    ),
    "chatgpt": (
        LONG // 10,
        json_file(
            "conversations.json",
            lambda n: [
                tree(
                    "c",
                    node("n1", None),
                    node(
                        "n2",
                        "n1",
                        "assistant",
                        "\ue200cite\ue202t\ue201" * n,
                        metadata={
                            "content_references": [
                                {"matched_text": f"\ue200cite\ue202{it}\ue201", "alt": "x"}
                                for it in range(n)
                            ]
                        },
                    ),
                )
            ],
        ),
    ),
    "claude": (3000, json_file("conversations.json", calls_of)),
    "claude-code": (3000, text_file("s.jsonl", sessions_of)),
    "codex": (4000, text_file("rollout-1.jsonl", rollout_of)),
    "gemini-cli": (4000, text_file("session-1.jsonl", gemini_session_of)),
    "gemini-cli: checkpoint": (
        4000,
        json_file(
            "checkpoint-a.json",
            lambda n: {
                "history": [
                    {"role": role, "parts": [{kind: {"name": "f", "id": f"{it}"}}]}
                    for kind, role in (("functionCall", "model"), ("functionResponse", "user"))
                    for it in range(n)
                ]
            },
        ),
    ),
    "aider: sessions": (LONG // 10, text_file("a.md", lambda n: f"{AIDER}\n#### x  \n" * n)),
    "aider: quotations": (LONG, text_file("a.md", lambda n: AIDER + "\n> x\n> y\n" * n + "> z\n" * n)),
    "aider: answers": (
        4000,
        text_file("a.md", lambda n: f"{AIDER}\n{'x ' * 9 * n}\n" + "\n#### x  \n> y\nz\n" * n),
    ),
    "aider: questions": (LONG, text_file("a.md", lambda n: f"{AIDER}\n#### {' (Y)es/(N)o' * n}  \n")),
    "aider: marks": (LONG, text_file("a.md", lambda n: f"{AIDER}\n{'<think>' * n}\n\n> {'Model: ' * n}  \n")),
    "open-webui: details": (LONG // 4, json_file("c.json", lambda n: webui_of("<details><summary>" * n))),
    "open-webui: attributes": (
        LONG,
        json_file("c.json", lambda n: webui_of(f"<details {'a' * n}>x</details>")),
    ),
    "librechat": (
        4000,
        json_file(
            "c.json",
            lambda n: {
                "conversationId": "l",
                "messages": [
                    {"messageId": str(it), "parentMessageId": "gone", "text": "x", "sender": "User"}
                    for it in range(n)
                ],
            },
        ),
    ),
    "whatsapp: lines": (LONG, text_file("chat.txt", lambda n: "13/05/24, 21:07 - Ana: Hi\n" + "more\n" * n)),
    "whatsapp: word": (LONG, text_file("chat.txt", lambda n: f"13/05/24, 21:07 - Ana: {'a' * n}\n")),
    "telegram": (4000, json_file("c.json", lambda n: TELEGRAM | {"messages": TELEGRAM["messages"] * n})),
    "discord": (4000, json_file("c.json", lambda n: DISCORD | {"messages": DISCORD["messages"] * n})),
    "slack": (4000, json_file("exp/general/2024-01-02.json", slack_of)),
    "signal": (1000, text_file("main.jsonl", lambda n: lines_of(*SIGNAL, *SIGNAL[-4:] * n))),
    "signal-export": (2000, text_file("Ana/data.json", lambda n: lines_of(*[SIGNAL_LINE] * n))),
    "messages": (
        4000,
        json_file(
            "c.json",
            lambda n: {"conversations": [{"from": "function_call", "value": "{" * 50}] * n},
        ),
    ),
    "damaged": (LONG, text_file("c.jsonl", lambda n: '{"type": "meta", "id": "a"}\n' + "{x\n" * n)),
    "damaged list": (
        LONG // 4,
        text_file("c.json", lambda n: '[{"mapping": {}},\n' + '{"mapping": tru},\n' * n),
    ),
    "damaged lines": (
        LONG // 4,
        text_file("c.jsonl", lambda n: '{"mapping": {}}\n' + '{"mapping": tru}\n' * n),
    ),
    "nested": (LONG // 4, text_file("c.json", lambda n: '[{"mapping": "' + '{"mapping": ' * n)),
    "cut off": (2000, text_file("c.json", lambda n: "[" + '{"mapping": {"a": [' * n)),
}  # fmt: skip


def fresh(folder: Path) -> Path:
    """Return a new folder within one."""
    new = folder / str(len(list(folder.iterdir())))
    new.mkdir()
    return new


def seconds(path: Path) -> float:
    """Return the processor time in which what is at a path is read, without the collection of
    garbage: that looks at all that other tests left in this process.
    """
    gc.collect()
    gc.disable()
    try:
        begins = time.process_time()
        for one in finding.find(path):
            for it in one.read(Options(owner="Ana")):
                assert isinstance(it, Plan | Skip)
        return time.process_time() - begins
    finally:
        gc.enable()


@pytest.mark.parametrize("name", HOSTILE)
def test_twice_as_much_takes_about_twice_as_long(tmp_path: Path, name: str) -> None:
    size, write = HOSTILE[name]
    once = twice = math.inf
    for _ in range(5):  # a busy machine makes a run longer, never shorter: the shortest counts
        once = min(once, seconds(write(fresh(tmp_path), size)))
        twice = min(twice, seconds(write(fresh(tmp_path), size * 2)))
        if twice < 0.5 or twice < 3 * once:
            break
    assert twice < 0.5 or twice < 3 * once, f"{twice:.1f} s after {once:.1f} s for half of it"


@pytest.mark.parametrize("text", ["<ul><li>", "<div>", "</p>", '<a b="', "&#1", "<br", "<script>"])
def test_any_html_is_read_in_linear_time(text: str) -> None:
    begins = time.process_time()
    plain_text(text * 60_000)
    plain_text("&#" + "1" * 60_000)
    assert time.process_time() - begins < 3

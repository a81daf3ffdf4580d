"""`recollect import` of exports in which one value has another type than the format says: it is
named, or all that was said comes.
"""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from recollect.imports import (
    chat_messages,
    chatgpt,
    claude,
    claude_code,
    codex,
    discord,
    gemini,
    gemini_cli,
    librechat,
    open_webui,
    recall_sets,
    signal_chats,
    slack,
    table,
    telegram,
    transcripts,
)
from recollect.imports.forms import Format, Options
from recollect.imports.plans import Batch, Plan, Skip
from recollect.imports.reading import Reading, Source
from recollect.imports.values import apart

from tests.client_cli.test_import_agents import CLAUDE_CODE, CODEX, LIBRE, WEBUI
from tests.client_cli.test_import_products import ACTIVITY, CLAUDE, RICH

STUDIO: dict[str, Any] = {
    "runSettings": {"model": "models/gemini-2.5-pro"},
    "systemInstruction": {"text": "Be brief"},
    "chunkedPrompt": {
        "chunks": [
            {"text": "How many?", "role": "user", "createTime": "2025-06-01T09:00:00Z"},
            {"driveImage": {"id": "d1"}, "role": "user"},
            {"text": "Let me count.", "role": "model", "isThought": True},
            {"executableCode": {"code": "1+1"}, "role": "model"},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}, "role": "model"},
            {"parts": [{"text": "Two"}], "role": "model"},
        ]
    },
}


TEXT = {"text": {"body": "Hi", "bodyRanges": []}}
SIGNAL: list[dict[str, Any]] = [
    {"version": "1", "backupTimeMs": "1"},
    {"account": {"givenName": "Alex", "familyName": "A"}},
    {"recipient": {"id": "1", "self": {}}},
    {"recipient": {"id": "2", "contact": {"nickname": {"given": "Ana"}, "aci": "a"}}},
    {"recipient": {"id": "3", "group": {"masterKey": "k", "snapshot": {"title": {"title": "G"}}}}},
    {"chat": {"id": "1", "recipientId": "2"}},
    *(
        {"chatItem": {"chatId": "1", "authorId": "2", "dateSent": "1715634428000"} | content}
        for content in (
            {"standardMessage": TEXT | {"attachments": [{"pointer": {"fileName": "a.png"}}]}},
            {"directStoryReplyMessage": {"textReply": TEXT, "emoji": "x"}, "revisions": [{}]},
            {"poll": {"question": "?", "options": [{"option": "8"}]}},
            {
                "contactMessage": {
                    "contact": {"name": {"givenName": "B"}, "email": [{"value": "b"}]}
                }
            },
        )
    ),
]
SIGNAL_LINE: dict[str, Any] = {
    "date": "2024-05-13T21:07:08",
    "sender": "Ana",
    "body": "Hi",
    "quote": "",
    "sticker": {"emoji": "x"},
    "reactions": [],
    "attachments": [{"name": "a.png", "path": "media/a"}],
}
TELEGRAM: dict[str, Any] = {
    "name": "G",
    "type": "private_group",
    "id": 7,
    "messages": [
        {"id": 2, "type": "message", "date": "2024-05-13T21:07:08", "from": "Ana"}
        | {"date_unixtime": "1715634430", "text": ["See ", {"type": "link", "text": "m"}]}
        | {"text_entities": [{"type": "plain", "text": "At nine?"}], "photo": "p.jpg"},
    ],
}
DISCORD: dict[str, Any] = {
    "guild": {"id": "1", "name": "Club"},
    "channel": {"id": "2", "type": "GuildTextChat", "name": "walks"},
    "messages": [
        {"id": "10", "type": "Default", "timestamp": "2024-05-13T21:07:08+02:00", "content": "Hi"}
        | {"author": {"id": "1", "name": "Ana", "nickname": "A"}}
        | {"attachments": [{"url": "https://x.org/a", "fileName": "a.png"}]},
    ],
}
SLACK: list[dict[str, Any]] = [
    {"type": "message", "ts": "1715634429.000100", "user": "ana", "text": "Hi <@ana>"}
    | {"user_profile": {"display_name": "", "real_name": "Ana"}}
    | {"files": [{"url_private": "https://f.org/a.png"}]},
]
OWNER = "Ana"
TRANSCRIPT = [
    {"type": "meta", "id": "c", "channel": "web"},
    {"type": "turn", "turn": 1, "message": 1, "role": "user", "content": "Hi"},
    {"type": "turn", "turn": 1, "message": 2, "role": "assistant", "content": "Hello"},
]
RECALL_SET = [
    {
        "group": "g", "id": "c", "started": "2025-01-01T10:00:00Z",
        "messages": [
            {"id": "m", "role": "user", "content": "Hi", "timestamp": "2025-01-01T10:00:00Z"},
            {"id": "n", "role": "assistant", "content": "Yes", "timestamp": "2025-01-01T10:00:01Z"},
        ],
    },
]  # fmt: skip
MESSAGES: list[dict[str, Any]] = [
    {
        "title": "Nine",
        "created": 1715634428,
        "messages": [
            {"role": "system", "content": "Be brief"},
            {"role": "user", "name": "Ana", "content": "At nine or ten?", "timestamp": 1715634429},
            {
                "role": "assistant",
                "content": None,
                "reasoning_content": "Look it up",
                "tool_calls": [{"id": "c", "function": {"name": "look", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "c", "content": "ten then"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Not nine"},
                    {"type": "text", "text": "At ten"},
                    {"type": "tool_use", "id": "d", "name": "ring", "input": {"at": "10 h"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "d", "content": "It is set"},
                    {"type": "image_url", "image_url": {"url": "https://x.org/a b.png"}},
                    {"type": "image", "source": {"media_type": "image/png", "data": "aa"}},
                    {"type": "text", "text": "And this one?"},
                ],
            },
            {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
        ],
    },
    {"id": "s", "conversations": [{"from": "human", "value": "Hi you"}, {"from": "gpt", "value": "Yes"}]},
]  # fmt: skip
OUTPUT: list[dict[str, Any]] = [
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Look it up"}]},
    {"type": "function_call", "call_id": "c", "name": "look", "arguments": "at nine"},
    {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "a b"}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "At ten"}]},
]  # fmt: skip
ITEMS: list[dict[str, Any]] = [
    {"instructions": "Be brief", "input": "At nine or ten?", "output": OUTPUT},
    {
        "conversations": [
            {"from": "human", "value": "Hi you"},
            {"from": "function_call", "value": '{"name": "look", "arguments": {"at": "a b"}}'},
            {"from": "observation", "value": "It is set"},
        ]
    },
]
ANSWER = {"id": "2", "parentId": "1", "role": "assistant", "content": "", "output": OUTPUT}
QUESTION = {"id": "1", "parentId": None, "role": "user", "content": "At nine or ten?"}
WEBUI_OUTPUT = {
    "id": "w",
    "chat": {"history": {"currentId": "2", "messages": {"1": QUESTION, "2": ANSWER}}},
}
EMBEDS: dict[str, Any] = {
    "embeds": [
        {"title": "A b", "fields": [{"name": "c d", "value": "e f"}], "footer": {"text": "g h"}}
    ],
    "forwardedMessage": {"content": "Hi you", "attachments": [{"url": "https://x.org/b"}]},
}
FORWARDED = {"forwarded_from": "Kim Roe"}
GEMINI_CALL: dict[str, Any] = {
    "id": "c",
    "name": "look",
    "args": {"at": "a b"},
    "result": [{"functionResponse": {"id": "c", "name": "look", "response": {"output": "c d"}}}],
}
GEMINI_CLI: list[dict[str, Any]] = [
    {"sessionId": "s-1", "projectHash": "p q", "startTime": "2025-09-01T10:00:00.000Z"},
    {
        "id": "m1",
        "type": "user",
        "content": [{"text": "At_nine"}, {"text": "_it_says"}],
        "displayContent": [{"text": "At nine or ten?"}],
    },
    {
        "id": "m2",
        "type": "gemini",
        "content": "At ten",
        "thoughts": [{"subject": "Look it up", "description": "Not nine"}],
        "model": "gemini pro",
        "toolCalls": [GEMINI_CALL],
    },
    {"id": "m3", "type": "user", "content": [{"text": "Hi you"}]},
    {"$rewindTo": "m3"},
    {
        "$set": {
            "summary": "Ten or nine",
            "messages": [{"id": "m4", "type": "user", "content": "And so"}],
        }
    },
]
CONTENTS: list[dict[str, Any]] = [
    {"role": "user", "parts": [{"text": "At nine or ten?"}]},
    {
        "role": "model",
        "parts": [{"text": "Not nine", "thought": True}, {"functionCall": GEMINI_CALL}],
    },
    {
        "role": "user",
        "parts": [{"functionResponse": {"name": "look", "response": {"output": "c d"}}}],
    },
    {"role": "user", "parts": [{"fileData": {"fileUri": "https://x.org/a b", "mimeType": "a/b"}}]},
]
SAMPLES: list[tuple[Format, list[Any]]] = [
    (chatgpt.FORMAT, [RICH]),
    (claude.FORMAT, [CLAUDE]),
    (gemini.ACTIVITY, ACTIVITY),
    (gemini.STUDIO, [STUDIO]),
    (claude_code.FORMAT, CLAUDE_CODE),
    (codex.FORMAT, CODEX),
    (gemini_cli.FORMAT, GEMINI_CLI),
    (gemini_cli.FORMAT, [GEMINI_CLI[0] | {"messages": GEMINI_CLI[1:4]}]),
    (gemini_cli.FORMAT, [{"history": CONTENTS}]),
    (gemini_cli.FORMAT, CONTENTS),
    (open_webui.FORMAT, [WEBUI]),
    (librechat.FORMAT, [LIBRE]),
    (telegram.FORMAT, [TELEGRAM]),
    (
        discord.FORMAT,
        [DISCORD | {"messages": [DISCORD["messages"][0] | {"author": {"name": OWNER}}]}],
    ),
    (slack.FORMAT, SLACK),
    (signal_chats.BACKUP, SIGNAL),
    (signal_chats.FOLDER, [SIGNAL_LINE]),
    (chat_messages.FORMAT, MESSAGES),
    (chat_messages.FORMAT, ITEMS),
    (open_webui.FORMAT, [WEBUI_OUTPUT]),
    (
        discord.FORMAT,
        [DISCORD | {"messages": [DISCORD["messages"][0] | {"author": {"name": OWNER}} | EMBEDS]}],
    ),
    (telegram.FORMAT, [TELEGRAM | {"messages": [TELEGRAM["messages"][0] | FORWARDED]}]),
    (transcripts.FORMAT, TRANSCRIPT),
    (recall_sets.FORMAT, RECALL_SET),
]
OTHERS: list[Any] = [["other"], {"other": "other"}, 8_675_309, "other", None]
ODD: list[Any] = [True, -1, 1e308, 10**30, "\ud800\x00", [], [None], {}, {"a": []}]
"""A value of each type; those of ODD say nothing, and only have to end no command."""


def test_every_format_whose_values_have_types_has_a_sample() -> None:
    have = {id(it) for it, _ in SAMPLES}
    assert {it.name for it in table.of_name("") if it.is_item and id(it) not in have} == set()


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield every value within a value with its place, as keys and indices."""
    yield place, value
    if isinstance(value, (dict, list)):
        for key, other in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(other, (*place, key))


def changed(value: Any, place: tuple[Any, ...], other: Any) -> Any:
    """Return a copy of a value with another at a place."""
    if not place:
        return other
    copy: Any = value.copy()
    copy[place[0]] = changed(value[place[0]], place[1:], other)
    return copy


def outcome_of(of: Format, values: list[Any]) -> tuple[list[str], set[Any]]:
    """Return the texts of an export, and all that its report names or counts."""
    data = "".join(f"{json.dumps(it)}\n" for it in values).encode()
    reading = Reading(io.BytesIO(data), "folder/day.json")
    written: list[str] = []
    named: set[Any] = set()
    for it in apart(of.read(reading, Options(owner=OWNER))):
        if isinstance(it, Skip):
            named.add(it.reason)
            continue
        named |= {skip.reason for skip in it.skips} | {
            ("hidden", it.hidden),
            ("branches", it.branches),
        }
        written += words_of(it)
    return written, named


def words_of(plan: Plan) -> Iterator[str]:
    """Yield the texts of a plan: of each message, and a title."""
    for step in plan.steps:
        if isinstance(step, Batch):
            for it in step.messages:
                one = it.message
                calls = (call.name + call.arguments for call in one.tool_calls)
                files = (file.uri for file in one.attachments)
                # a content that is no text is refused by name where it is sent
                texts = (str(one.content), one.thinking_text, one.sender, *calls, *files)
                yield "\n".join(filter(None, texts))
        elif "title" in step.fields:
            yield f"title: {step.fields['title']}"


def texts_in(value: Any) -> Iterator[str]:
    """Yield the texts within a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for it in value.values() if isinstance(value, dict) else value:
            yield from texts_in(it)


@pytest.mark.parametrize(
    ("of", "whole"), SAMPLES, ids=[f"{it.name}-{number}" for number, (it, _) in enumerate(SAMPLES)]
)
def test_a_value_of_another_type_is_taken_or_named_and_the_rest_comes(
    of: Format, whole: list[Any]
) -> None:
    written, named = outcome_of(of, whole)
    assert written
    lost = []
    for place, value in places(whole):
        for other in (*OTHERS, *ODD) if place else ():
            damaged = changed(whole, place, other)
            now, report = outcome_of(of, damaged)
            is_odd = other in ODD or type(other) is type(value)
            if is_odd or now == written or report - named:
                continue
            after = "\n".join(now)
            before = "\n".join(it for it in written if not it.startswith("title: "))
            is_taken = other is None or any(it in after for it in ("other", "8675309"))
            texts = {it for it in texts_in(damaged) if " " in it and it in before}
            rest = [it for it in texts if it not in after]
            if rest or not is_taken:
                lost.append((place, other, rest))
    assert lost == []


def test_what_is_left_out_is_named_with_the_export_that_has_it(tmp_path: Path) -> None:
    inputs = []
    for name in ("a", "b"):
        messages = [SLACK[0] | {"files": [f"of-{name}"]}, "no message"]
        file = tmp_path / f"{name}.json"
        file.write_text("".join(f"{json.dumps(it)}\n" for it in messages))
        inputs.append(table.Input(Source(file), slack.FORMAT))
    read = [one.read(Options(owner=OWNER)) for one in inputs]
    together = [step for steps in zip(*read, strict=True) for step in steps]
    alone = [step for one in inputs for step in one.read(Options(owner=OWNER))]
    assert any("of-a" in str(it) for it in alone)
    assert sorted(map(str, together)) == sorted(map(str, alone))

"""`recollect import` of other products' exports that are damaged: what is wrong is named, the rest
comes, and no value ends the command.
"""

import io
import json
import sqlite3
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from recollect import Client
from recollect.cli.formats import (
    chatgpt,
    claude,
    discord,
    finding,
    gemini,
    mail,
    signal_chats,
    slack,
    telegram,
)
from recollect.cli.formats.forms import Format, Options
from recollect.cli.formats.reading import Reading, Spool
from recollect.cli.plans import Event, Plan, Skip
from recollect.cli.transcript import Damaged

from tests.client_cli.conftest import Run, messages_of
from tests.client_cli.test_import_agents import llm_logs
from tests.client_cli.test_import_products import CLAUDE, RICH, simple, written, zipped


def test_a_damaged_conversation_is_named_and_the_others_come(
    run: Run, client: Client, tmp_path: Path
) -> None:
    texts = [json.dumps(simple(f"c-{number}")) for number in range(5)]
    texts[1] = texts[1].replace('"question 0"', '"question 0', 1)
    texts[3] = json.dumps(
        simple("c-3", title="Circle") | {"mapping": {"a": {"parent": "a"}}} | {"current_node": "a"}
    )
    path = written(tmp_path / "conversations.json", f"[{', '.join(texts)}, {texts[0][:-200]}")
    ran = run("import", path)
    assert (ran.code, ran.lines[0]["conversationsNew"], ran.lines[0]["leftOut"]) == (6, 3, 3)
    named = ran.err.splitlines()
    assert named[0].startswith(f"left out {path} conversation 2: no JSON: ")
    assert named[1:3] == [
        f"left out {path} conversation 4 (Circle): message a is its own ancestor, or one of its ancestors is",
        f"left out {path} conversation 6: it is cut off",
    ]
    whole = {it.metadata["importId"] for it in client.conversations.list()}
    assert whole == {"c-0", "c-2", "c-4"}


@pytest.mark.parametrize(
    ("encoding", "reason"),
    [("utf-16", "the file is UTF-16: save it as UTF-8"), ("utf-16-le", "no JSON: ")],
)
def test_a_transcript_in_utf_16_is_refused_and_begins_no_conversation(
    run: Run, client: Client, tmp_path: Path, encoding: str, reason: str
) -> None:
    path = tmp_path / "all.jsonl"
    lines = '{"type":"meta","channel":"web"}\n{"type":"turn","role":"user","content":"a"}\n'
    path.write_bytes(lines.encode(encoding))
    ran = run("import", path)
    assert (ran.code, ran.lines[0]["conversationsNew"], ran.lines[0]["leftOut"]) == (6, 0, 1)
    assert ran.err.startswith(f"left out {path}: ")
    assert f"{path}:1: {reason}" in ran.err
    assert list(client.conversations.list()) == []


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


ODD: list[Any] = [None, True, -1, 1e308, 10**30, "\ud800\x00", [], [None], {}, {"a": []}]
"""Values of every type of JSON."""


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of every value within a value, as keys and indices."""
    yield place
    if isinstance(value, dict):
        for key, other in value.items():
            yield from places(other, (*place, key))
    elif isinstance(value, list):
        for index, other in enumerate(value):
            yield from places(other, (*place, index))


def changed(value: Any, place: tuple[Any, ...], other: Any) -> Any:
    """Return a copy of a value with another at a place."""
    if not place:
        return other
    copy: Any = value.copy()
    copy[place[0]] = changed(value[place[0]], place[1:], other)
    return copy


@pytest.mark.parametrize(
    ("whole", "read"),
    [(RICH, chatgpt.plan), (CLAUDE, claude.plan), (STUDIO, gemini.studio)],
    ids=["chatgpt", "claude", "ai-studio"],
)
def test_a_value_of_any_other_type_is_taken_or_named_as_damage(
    whole: Any, read: Callable[[Any, str], Any]
) -> None:
    outcomes = set()
    for place in places(whole):
        for other in ODD:
            try:
                read(changed(whole, place, other), "file")
                outcomes.add("taken")
            except Damaged:
                outcomes.add("named")
    assert outcomes == {"taken", "named"}


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


def reading_of(data: bytes, name: str = "no\udce9l/2024.json") -> Reading:
    """Return a reading of bytes, as of a file whose name is no UTF-8."""
    return Reading(io.BytesIO(data), name)


@pytest.mark.parametrize(
    ("whole", "of"),
    [
        (SIGNAL, signal_chats.BACKUP),
        ([SIGNAL_LINE], signal_chats.FOLDER),
        ([TELEGRAM], telegram.FORMAT),
        ([DISCORD], discord.FORMAT),
        (SLACK, slack.FORMAT),
    ],
    ids=["signal", "signal-export", "telegram", "discord", "slack"],
)
def test_a_value_of_any_other_type_in_a_chat_leaves_the_rest_readable(
    whole: list[dict[str, Any]], of: Format
) -> None:
    for place in places(whole):
        for other in ODD[1:8:2] if place[1:] else ():
            lines = "".join(f"{json.dumps(it)}\n" for it in changed(whole, place, other))
            outcomes = list(of.read(reading_of(lines.encode()), Options(owner="Ana")))
            assert outcomes, (place, other)


def test_a_mail_that_cannot_be_read_is_named_and_the_others_come() -> None:
    def mail_of(number: int, more: bytes, sender: bytes = b"Ana <ana@m.org>") -> bytes:
        return (
            b"From x@m.org Mon May 13 21:07:08 2024\nMessage-ID: <%d@m.org>\nFrom: " % number
            + sender
            + b"\nDate: Mon, 13 May 2024 21:07:08 +0200\nSubject: Software: a hut\n"
            + more
            + b"\n\nHi\n\n"
        )

    mails = [
        mail_of(1, b"X: 1"),
        mail_of(2, b"Content-Type: image/png; name*=a\0b''x%41"),  # ValueError of the library
        mail_of(3, b"X: 1", b"(" * 3000),  # deeper than Python takes
        mail_of(5, b"Content-Transfer-Encoding: x-uuencode"),
        mail_of(6, b"Content-Type: text/plain; charset=utf-7"),
    ]
    outcomes = list(mail.FORMAT.read(reading_of(b"".join(mails)), Options(owner="Ana")))
    plans = [it for it in outcomes if isinstance(it, Plan)]
    assert [it.key[1] for it in plans] == ["1@m.org", "5@m.org", "6@m.org"]
    named = [it.where for it in outcomes if isinstance(it, Skip)]
    assert [it.partition(":")[2] for it in named] == ["10", "19"]
    events = [step.fields for it in plans for step in it.steps if isinstance(step, Event)]
    titles = [it["title"] for it in events if "title" in it]
    assert titles == ["Software: a hut"] * 3


def test_a_damaged_archive_and_what_is_no_export_are_named(
    run: Run, client: Client, tmp_path: Path
) -> None:
    path = zipped(tmp_path / "a.zip", **{"conversations.json": [simple("c-1")]})
    data = bytearray(path.read_bytes())
    at = data.find(b"conversations.json") + 40
    data[at : at + 20] = bytes(20)
    path.write_bytes(data)
    ran = run("import", path)
    assert (ran.code, "the archive is damaged" in ran.err) == (6, True)
    other = written(tmp_path / "other.json", [{"a": 1}])
    assert "it is JSON of a shape that is not known: a; known are" in run("import", other).err
    assert "mapping: it is no object" in run("import", other, "--format", "chatgpt").err
    assert run("import", other, "--format", "grok").code == 2
    empty = run("import", zipped(tmp_path / "b.zip"))
    assert (empty.code, "holds nothing to import" in empty.err) == (1, True)
    assert list(client.conversations.list()) == []


DEEP = f"{'[' * 900}{']' * 900}"
"""A value that JSON can be read with, and that no function that calls itself can go through."""


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("9" * 5000, "no JSON: Exceeds the limit"),
        (DEEP, "it is nested too deep"),
    ],
    ids=["a number of 5,000 digits", "900 lists in each other"],
)
def test_a_value_that_python_does_not_take_is_named_and_the_other_conversations_come(
    run: Run, client: Client, tmp_path: Path, value: str, reason: str
) -> None:
    texts = [json.dumps(CLAUDE | {"uuid": f"u-{number}"}) for number in range(3)]
    texts[1] = texts[1].replace('[{"type": "text", "text": "Train at 9"}]', value)
    ran = run("import", written(tmp_path / "conversations.json", f"[{', '.join(texts)}]"))
    assert (ran.code, ran.lines[0]["conversationsNew"], ran.lines[0]["leftOut"]) == (6, 2, 1)
    assert "conversations.json conversation 2" in ran.err.splitlines()[0]
    assert reason in ran.err.splitlines()[0]
    assert {it.metadata["importId"] for it in client.conversations.list()} == {"u-0", "u-2"}


def test_messages_without_an_id_come_all(run: Run, client: Client, tmp_path: Path) -> None:
    lines = [("human", "question"), ("assistant", "answer"), ("human", "thanks")]
    messages = [{"sender": sender, "text": text} for sender, text in lines]
    path = written(tmp_path / "c.json", [CLAUDE | {"chat_messages": messages}])
    [line] = run("import", path).lines
    assert (line["messagesNew"], "otherBranches" in line) == (3, False)
    [conversation] = client.conversations.list()
    assert messages_of(client, conversation.id) == [text for _, text in lines]


def test_an_end_is_found_whatever_the_times_are() -> None:
    conversation: dict[str, Any] = simple("c-1")
    del conversation["current_node"]
    conversation["mapping"]["n2"]["message"]["create_time"] = 10**400
    plan = chatgpt.plan(conversation, "file")
    assert isinstance(plan, Plan)
    assert plan.message_count == 2


def test_a_size_beyond_all_files_is_dropped_and_the_message_comes(
    run: Run, client: Client, tmp_path: Path
) -> None:
    conversation: dict[str, Any] = simple("c-1")
    metadata = {"attachments": [{"id": "f-1", "name": "a.png", "size": 1 << 63}]}
    conversation["mapping"]["n1"]["message"]["metadata"] = metadata
    ran = run("import", written(tmp_path / "c.json", [conversation]))
    assert (ran.code, ran.lines[0]["messagesNew"]) == (0, 2)


PAGE = (
    '<div class="outer-cell"><p class="mdl-typography--title">Gemini Apps</p>'
    '<div class="content-cell">Prompted {title}<br>{time}<br><p>{answer}</p></div></div>'
)


def test_a_letter_on_the_border_of_two_reads_of_a_page_comes_whole(
    run: Run, client: Client, tmp_path: Path
) -> None:
    time = "May 1, 2024, 10:00:00 AM UTC"
    answer = "é" * 1000
    cell = PAGE.format(title="Wide", time=time, answer=answer)
    # A letter of two bytes begins at the last byte of the first MiB.
    title, _, rest = cell.partition("</p>")
    before = (1 << 20) - 1 - 1000 - cell.index(answer)
    page = f"{title}</p>{' ' * before}{rest}"
    run("import", written(tmp_path / "MyActivity.html", page))
    [conversation] = client.conversations.list()
    assert messages_of(client, conversation.id)[1] == answer


@pytest.mark.parametrize("time", ["Jan 1, 0001, 1:00:00 AM MSK", "Dec 31, 9999, 11:00:00 PM PST"])
def test_a_time_beyond_the_calendar_is_named(run: Run, tmp_path: Path, time: str) -> None:
    page = PAGE.format(title="When", time=time, answer="Never")
    ran = run("import", written(tmp_path / "MyActivity.html", page))
    assert ran.code == 6
    assert "entry 1: its time cannot be read: export My Activity as JSON" in ran.err


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_an_archive_of_a_rare_method_that_is_damaged_is_named(
    run: Run, tmp_path: Path, method: int
) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("conversations.json", json.dumps([simple("c-1", 500)]))
    data = bytearray(path.read_bytes())
    at = data.find(b"conversations.json") + 40
    data[at : at + 20] = b"\xff" * 20
    path.write_bytes(data)
    ran = run("import", path)
    assert (ran.code, "the archive is damaged" in ran.err) == (6, True)


def test_a_full_folder_of_temporary_files_is_named_and_ends_no_command_with_a_trace(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = Spool.__init__

    def make_small(spool: Spool) -> None:
        make(spool)
        spool._rows.execute("PRAGMA max_page_count = 8")  # as SQLite finds a disk that is full

    monkeypatch.setattr(Spool, "__init__", make_small)
    head = "From me@x Mon Jan  1 00:00:00 2024\nFrom: Me <me@example.org>\nMessage-ID: <{}@example.org>\n\n{}\n\n"
    path = written(
        tmp_path / "mail.mbox", "".join(head.format(it, "word " * 999) for it in range(9))
    )
    ran = run("import", path, "--owner", "me@example.org")
    assert (ran.code, ran.lines[0]["conversationsNew"]) == (6, 0)
    assert (
        f"left out {path}: cannot be read: the folder of temporary files takes no more" in ran.err
    )


def test_a_damaged_file_in_a_folder_is_named_and_one_of_another_kind_is_passed_over(
    run: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "export"
    folder.mkdir()
    whole = json.dumps([simple("c-0")])
    for name, data in {
        "whole.json": whole.encode(), "cut.json": whole[:-300].encode(), "empty.json": b"",
        "zeros.jsonl": bytes(4096), "wide.json": whole.encode("utf-16-le"),
        "package.json": b'{"name": "x"}', "notes.txt": b"Buy milk.", "list.jsonl": b"1\n2\n",
    }.items():  # fmt: skip
        (folder / name).write_bytes(data)
    named = {"cut.json", "empty.json", "zeros.jsonl", "wide.json"}
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for it in folder.iterdir():
            archive.write(it, it.name)
    for path in (folder, tmp_path / "all.zip"):
        ran = run("import", path, "--dry-run")
        assert (ran.code, ran.lines[0]["messages"]) == (6, 2)
        assert {it for it in named if f"{it}: " in ran.err} == named
        assert ran.err.count("left out ") == len(named) + 1
    (folder / "whole.json").unlink()  # nothing is recognised: the caller says what it all is
    ran = run("import", folder, "--format", "chatgpt", "--dry-run")
    assert "package.json" in ran.err


SPEAKERS = ("user", "assistant")
SESSION: list[dict[str, Any]] = [
    {
        "type": role, "uuid": role, "parentUuid": parent, "sessionId": "s", "timestamp": "2025-01-01",
        "message": {"role": role, "content": [{"type": "text", "text": f"{role} speaks"}]},
    }
    for role, parent in zip(SPEAKERS, (None, "user"), strict=True)
]  # fmt: skip
ROLLOUT: list[dict[str, Any]] = [
    {"type": "session_meta", "payload": {"id": "r", "timestamp": "2025-01-01"}},
    *(
        {"type": "response_item", "payload": item}
        for role in SPEAKERS
        for item in [{"type": "message", "role": role, "content": [{"text": f"{role} speaks"}]}]
    ),
]


@pytest.mark.parametrize("lines", [SESSION, ROLLOUT], ids=["claude-code", "codex"])
def test_a_line_of_a_session_with_a_value_of_any_other_type_is_taken_or_named(
    tmp_path: Path, lines: list[dict[str, Any]]
) -> None:
    path = tmp_path / "session.jsonl"
    for place in [it for it in places(lines) if 1 <= len(it) <= 2]:
        for other in [*ODD, "other"]:
            damaged = changed(lines, place, other)
            path.write_text("".join(f"{json.dumps(it)}\n" for it in damaged))
            [source] = finding.find(path, "codex" if lines is ROLLOUT else "claude-code")
            plans, skips = list[Plan](), list[Skip]()
            for it in source.read(Options()):
                (plans if isinstance(it, Plan) else skips).append(it)  # type: ignore[arg-type]
            texts = str([it.steps for it in plans])
            is_named = skips or any(it.skips or it.hidden or it.branches for it in plans)
            missing = [it for it in SPEAKERS if f"{it} speaks" not in texts]
            there = path.read_text()
            assert is_named or not any(f"{it} speaks" in there for it in missing), (place, other)


def test_a_database_that_is_cut_off_is_named(run: Run, tmp_path: Path) -> None:
    path = llm_logs(tmp_path / "logs.db")
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE INDEX by_prompt ON responses (prompt)")  # at its end
    path.write_bytes(path.read_bytes()[:-1500])
    ran = run("import", path, "--dry-run")
    assert ran.code == 6
    assert f"left out {path}: the database is damaged" in ran.err


def test_what_stands_behind_a_list_is_read_and_a_list_that_does_not_end_is_named(
    run: Run, tmp_path: Path
) -> None:
    lists = [json.dumps([simple(f"c-{it}") for it in range(first, first + 2)]) for first in (0, 2)]
    for text, messages, named in (
        (f"{lists[0]}\n{json.dumps(simple('c-9'))}\n", 6, ""),
        ("\n".join(lists), 4, "all.json:2: "),
        (lists[0][:-1], 4, "all.json conversation 3: the list is cut off"),
        (f"{lists[0][:-1]},\n", 4, "all.json conversation 3: the list is cut off"),
    ):
        path = tmp_path / "all.json"
        path.write_text(text)
        ran = run("import", path, "--dry-run")
        assert (ran.lines[-1]["messagesNew"], named in ran.err, ran.code) == (
            messages,
            True,
            6 * bool(named),
        ), text

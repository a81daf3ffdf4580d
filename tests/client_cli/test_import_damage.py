"""`recollect import` of other products' exports that are damaged: what is wrong is named, the rest
comes, and no value ends the command.
"""

import io
import json
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from recollect import Client
from recollect.imports import (
    chatgpt,
    mail,
)
from recollect.imports.forms import Options
from recollect.imports.plans import Event, Plan, Skip
from recollect.imports.reading import Reading, Spool

from tests.client_cli.conftest import Run, messages_of
from tests.client_cli.test_import_agents import llm_logs
from tests.client_cli.test_import_products import CLAUDE, simple, written, zipped


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


def reading_of(data: bytes, name: str = "no\udce9l/2024.json") -> Reading:
    """Return a reading of bytes, as of a file whose name is no UTF-8."""
    return Reading(io.BytesIO(data), name)


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
        mail_of(3, b"X: 1", b"(" * 3000),  # deeper than Python takes: of nobody
        mail_of(5, b"Content-Transfer-Encoding: x-uuencode"),
        mail_of(6, b"Content-Type: text/plain; charset=utf-7"),
    ]
    outcomes = list(mail.FORMAT.read(reading_of(b"".join(mails)), Options(owner="Ana")))
    plans = [it for it in outcomes if isinstance(it, Plan)]
    assert [it.key[1] for it in plans] == ["1@m.org", "5@m.org", "6@m.org"]
    named = [it.where for it in outcomes if isinstance(it, Skip)]
    assert [it.partition(":")[2] for it in named] == ["10", ""]
    assert "1 thread in which Ana wrote nothing" in str(outcomes[-1])
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
def test_an_archive_of_a_method_that_unpacks_all_at_once_is_refused(
    run: Run, client: Client, tmp_path: Path, method: int
) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("conversations.json", json.dumps([simple("c-1")]))
        deflated = json.dumps([simple("c-2")])
        archive.writestr("2/conversations.json", deflated, zipfile.ZIP_DEFLATED)
    ran = run("import", path)
    assert ran.code == 6
    assert "it is packed by another method than deflate: unpack it first" in ran.err
    assert len(list(client.conversations.list())) == 1


def test_an_archive_that_unpacks_to_far_more_than_its_size_is_refused(
    run: Run, client: Client, tmp_path: Path
) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", json.dumps([simple("c-1")]))
        archive.writestr("2/conversations.json", " " * 3_000_000)
    ran = run("import", path)
    assert ran.code == 6
    assert "the archive unpacks to 3.0 MB, more than 50 times its size: unpack it first" in ran.err
    assert list(client.conversations.list()) == []


def test_a_database_without_keys_costs_no_more_than_its_rows(
    run: Run, client: Client, tmp_path: Path
) -> None:
    path = tmp_path / "logs.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            "CREATE TABLE conversations(id, name); CREATE TABLE tool_calls(response_id, id, name,"
            " arguments); CREATE TABLE responses(id, conversation_id, datetime_utc, model, prompt,"
            " response)"
        )
        for number in range(60):
            for own in ("r", f"r{number}"):
                row = (own, "c", f"2024-01-01T00:00:{number:02}", "m", f"Q{number}", "A")
                database.execute("INSERT INTO responses VALUES(?, ?, ?, ?, ?, ?)", row)
            database.execute("INSERT INTO conversations VALUES('c', 'Name')")
            database.execute("INSERT INTO tool_calls VALUES('r', ?, 'look', '{}')", (f"t{number}",))
        database.commit()
    ran = run("import", path)
    assert (ran.lines[0]["messagesNew"], ran.lines[0]["leftOut"]) == (122, 0), ran
    [conversation] = client.conversations.list()
    loaded = client.conversations.load(conversation.id, max_turns=1000, max_tokens=10**9)
    assert sum(len(it.tool_calls) for it in loaded.messages) == 60


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
        (lists[0].replace("}, {", "},\n{") + "\nbroken\n", 4, "all.json:3: "),
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

"""`recollect import` of other products' exports that are damaged: what is wrong is named, the rest
comes, and no value ends the command.
"""

import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from recollect import Client
from recollect.cli.formats import chatgpt, claude, gemini
from recollect.cli.plans import Plan
from recollect.cli.transcript import Damaged

from tests.client_cli.conftest import Run, messages_of
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

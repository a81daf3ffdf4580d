"""`recollect import` of other products' exports that are damaged: what is wrong is named, the rest
comes, and no value ends the command.
"""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from recollect import Client
from recollect.cli.plans import Plan
from recollect.cli.products import chatgpt

from tests.client_cli.conftest import Run, messages_of
from tests.client_cli.test_import_products import CLAUDE, simple, written

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


def test_an_archive_whose_lzma_data_is_damaged_is_named(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("conversations.json", json.dumps([simple("c-1", 500)]))
    data = bytearray(path.read_bytes())
    at = data.find(b"conversations.json") + 40
    data[at : at + 20] = b"\xff" * 20
    path.write_bytes(data)
    ran = run("import", path)
    assert (ran.code, "the archive is damaged" in ran.err) == (6, True)

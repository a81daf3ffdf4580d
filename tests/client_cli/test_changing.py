"""`switch`, `model`, `fork`, `metadata`, `notes`, `delete`, `delete-many` and `anchors`."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from recollect import Client, Conversation, Message, NotFound, Party
from recollect._shared.plain import plain

from tests.cases import each
from tests.client_cli.conftest import Inside

Talked = Callable[..., Conversation]
UNKNOWN = "conv-01HQ0000000000000000000000"


def test_model_shows_and_sets_the_model_that_answers(
    inside: Inside, client: Client, talked: Talked
) -> None:
    it = talked()
    assert inside("model", it.id).lines == [plain(it)]
    assert inside("model", it.id, "haiku").lines[0]["model"] == "haiku"
    assert client.conversations.get(it.id).model == "haiku"
    assert inside("model", it.id, on_terminal=True).out == f"{it.id} is answered by haiku.\n"
    assert "model" not in inside("model", it.id, "--default").lines[0]
    assert client.conversations.get(it.id).model == ""
    assert inside("model", it.id, "haiku", "--default").code == 2


def test_topics_are_shown_and_set_and_left_to_the_notes_again(
    inside: Inside, client: Client, talked: Talked
) -> None:
    it = talked()
    assert inside("topics", it.id, "disk", "logs").lines[0]["topics"] == ["disk", "logs"]
    assert inside("topics", it.id, on_terminal=True).out == f"{it.id} is about disk, logs.\n"
    assert "topics" not in inside("topics", it.id, "--automatic").lines[0]
    assert not client.conversations.get(it.id).topics_by_hand
    assert inside("topics", it.id, "disk", "--automatic").code == 2


def test_an_archived_conversation_is_listed_only_among_the_archived(
    inside: Inside, client: Client, talked: Talked
) -> None:
    it = talked()
    assert inside("archive", it.id, on_terminal=True).out == f"{it.id} is archived.\n"
    assert inside("list").lines == []
    assert inside("list", "--archived").lines == [plain(client.conversations.get(it.id))]
    assert inside("archive", it.id, "--undo").code == 0
    assert [line["id"] for line in inside("list").lines] == [it.id]


def test_turn_memory_records_what_contexts_show_of_a_turn(
    inside: Inside, client: Client, talked: Talked
) -> None:
    it = talked()
    assert (
        inside("turn-memory", it.id, on_terminal=True).out == "No turn has a tier or a summary.\n"
    )
    recorded = inside("turn-memory", it.id, "1", "Chose", "NATS.", "--tier", "hot")
    assert (recorded.code, recorded.lines[0]["id"]) == (0, it.id)
    assert inside("turn-memory", it.id).lines == [
        {"turnNumber": 1, "tier": "hot", "summary": "Chose NATS."}
    ]
    assert inside("turn-memory", it.id, on_terminal=True).out == "turn 1, hot: Chose NATS.\n"
    assert inside("turn-memory", it.id, "1", "--tier", "auto").code == 0
    assert inside("turn-memory", it.id, on_terminal=True).out == "turn 1: Chose NATS.\n"
    assert inside("turn-memory", it.id, "1", "--no-summary").code == 0
    assert list(client.conversations.list_turn_memory(it.id)) == []
    for wrong, why in (
        ((it.id, "7", "Late."), "TURN is 7; the newest turn is 1"),
        ((it.id, "1", "é" * 2001), "TEXT "),
        ((it.id, "1"), "Give a summary"),
        ((it.id, "1", "Now.", "--no-summary"), "Give a summary or --no-summary, not both"),
        ((it.id, "--tier", "hot"), "Name the turn"),
    ):
        refused = inside("turn-memory", *wrong)
        assert (refused.code, why in refused.err) == (2, True), refused.err


def test_notes_shows_and_records_the_notes(
    inside: Inside, client: Client, talked: Talked, tmp_path: Path
) -> None:
    it = talked()
    assert inside("notes", it.id).lines == [
        {"conversationId": it.id, "abbreviation": "", "topics": []}
    ]
    assert inside("notes", it.id, on_terminal=True).out == "No notes yet.\n"
    [stored] = inside(
        "notes", it.id, "Decided:", "rotate daily.", "--topic", "logging", "--topic", "disk"
    ).lines
    assert (stored["abbreviation"], stored["topics"]) == (
        "Decided: rotate daily.",
        ["logging", "disk"],
    )
    notes, by = inside("notes", it.id, on_terminal=True).out.splitlines()
    assert notes == "Decided: rotate daily."
    assert by.startswith("Written by caller on ")
    assert inside("notes", it.id).lines[0]["notes"]["abbreviation"]["writer"] == "caller"
    file = tmp_path / "notes.txt"
    file.write_text("Open: who watches\nthe backup?\n")
    assert inside("notes", it.id, "--file", str(file)).code == 0
    assert (
        inside("notes", it.id, "--file", "-", stdin="From a pipe.\n").lines[0]["abbreviation"]
        == "From a pipe."
    )
    after = client.conversations.get(it.id)
    assert (after.abbreviation, after.topics) == ("From a pipe.", ("logging", "disk"))
    assert inside("notes", it.id, "words", "--file", str(file)).code == 2
    os.mkfifo(tmp_path / "pipe")  # which nobody writes into
    for wrong in (tmp_path / "pipe", tmp_path, tmp_path / "none"):
        assert inside("notes", it.id, "--file", str(wrong)).code == 2
    file.write_bytes(b"\xff")
    assert inside("notes", it.id, "--file", str(file)).code == 1
    assert inside("notes", it.id, "--topic", "disk").code == 2


def test_redo_notes_counts_those_that_get_new_ones(inside: Inside, talked: Talked) -> None:
    it = talked()
    inside("notes", it.id, "Decided: rotate daily.")
    assert inside("redo-notes", it.id).lines == [{"queued": 0, "kept": 1}]
    result = inside("redo-notes", it.id, "--writer", "caller", "--dry-run", on_terminal=True)
    assert (
        result.out
        == "New notes would be made of 1 conversation; 0 others that match keep theirs.\n"
    )
    assert inside("redo-notes").code != 0  # nothing is chosen, and --all is not said


def test_switch_leaves_one_conversation_and_shows_the_other(
    inside: Inside, client: Client, talked: Talked
) -> None:
    old, new = talked(3), talked(2, text="here")
    ran = inside("switch", new.id, "--from", old.id, "--turns", "1")
    assert [(line["conversationId"], line["content"]) for line in ran.lines] == [
        (new.id, "here 2"),
        (new.id, "answer 2"),
    ]
    assert "here 2" in inside("switch", new.id, on_terminal=True).out
    assert inside("switch", "--from", old.id).lines == [{"leftConversationId": old.id}]
    assert inside("switch").code == 2


def test_delete_removes_for_good_and_prints_a_receipt(
    inside: Inside, client: Client, talked: Talked
) -> None:
    first, second, stays = talked(), talked(2), talked()
    ran = inside("delete", first.id, second.id, first.id, "--yes")
    assert [line["conversationId"] for line in ran.lines] == [first.id, second.id]
    assert {"place": "messages", "count": 4} in ran.lines[1]["removed"]
    assert [it.id for it in client.conversations.list()] == [stays.id]
    assert inside("delete", first.id, "--yes").code == 3


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1), ("", 130)])
def test_delete_asks_on_a_terminal(
    inside: Inside, client: Client, talked: Talked, answer: str, code: int
) -> None:
    it = talked(title="Old Plans")
    ran = inside("delete", it.id, on_terminal=True, stdin=answer)
    assert ran.code == code
    assert f"Remove {it.id} (Old Plans, 1 turns) for good?" in ran.err
    if code:
        assert client.conversations.get(it.id).title == "Old Plans"
        return
    assert ran.out.startswith(f"{it.id} is removed: ")
    assert "messages 2" in ran.out
    with pytest.raises(NotFound):
        client.conversations.get(it.id)


def test_what_cannot_be_undone_needs_yes_where_nobody_can_be_asked(
    inside: Inside, client: Client, talked: Talked
) -> None:
    it = talked()
    client.recall.set_anchor("name", "Alex")
    for command in (("delete", it.id), ("anchors", "delete", "name")):
        ran = inside(*command)
        assert (ran.code, ran.out, "--yes" in ran.err) == (2, "", True)
    assert client.conversations.get(it.id).turn_count == 1
    assert [anchor.key for anchor in client.recall.list_anchors()] == ["name"]


def test_delete_says_what_becomes_of_anchors(
    inside: Inside, client: Client, talked: Talked
) -> None:
    first, second = talked(), talked()
    for key, it in (("name", first), ("city", second)):
        client.recall.set_anchor(key, "x", source=(it.id, 2))
    refused = inside("delete", first.id, "--yes")
    assert (refused.code, refused.out, "set the field anchors" in refused.err) == (5, "", True)
    assert inside("delete", first.id, "--yes", "--anchors", "keep").code == 0
    assert inside("delete", second.id, "--yes", "--anchors", "delete").code == 0
    assert [anchor.key for anchor in client.recall.list_anchors()] == ["name"]


def test_delete_removes_a_pinned_conversation_with_force_alone(
    inside: Inside, client: Client
) -> None:
    it = client.conversations.create("sms", party=Party(contact="1555000"), pinned=True)
    refused = inside("delete", it.id, "--yes")
    assert (refused.code, refused.out, "set force" in refused.err) == (5, "", True)
    assert inside("delete", it.id, "--yes", "--force").lines[0]["conversationId"] == it.id
    assert list(client.conversations.list()) == []


def test_a_fork_is_a_copy_through_a_turn(inside: Inside, client: Client, talked: Talked) -> None:
    it = talked(3)
    [fork] = inside("fork", it.id, "--through", "2").lines
    assert (fork["turnCount"], fork["origin"]) == (
        2,
        {"conversationId": it.id, "turnNumber": 2},
    )
    whole = inside("fork", it.id, on_terminal=True).out
    assert whole.endswith(f" begins as a copy of {it.id} through turn 3.\n")
    assert client.conversations.get(whole.split()[0]).turn_count == 3
    assert inside("fork", it.id, "--through", "4").code == 2


def test_metadata_is_shown_set_and_removed_by_key(
    inside: Inside, client: Client, talked: Talked
) -> None:
    it = talked()
    assert inside("metadata", it.id, on_terminal=True).out == f"{it.id} keeps nothing.\n"
    values = ("task=Write the report", "tries=3", 'tags=["a"]', "empty=")
    assert inside("metadata", it.id, *values).lines[0]["metadata"] == {
        "task": "Write the report",
        "tries": 3,
        "tags": ["a"],
        "empty": "",
    }
    flags = ("--remove", "tags", "--remove", "empty", "tries=4")
    assert (
        inside("metadata", it.id, *flags, on_terminal=True).out
        == f'{it.id} keeps {{"task": "Write the report", "tries": 4}}.\n'
    )
    assert client.conversations.get(it.id).metadata == {"task": "Write the report", "tries": 4}


def test_delete_many_removes_what_matches_only_with_yes(
    inside: Inside, client: Client, talked: Talked
) -> None:
    old = [talked(title="First Plan", channel="cli"), talked(2, channel="cli")]
    stays = talked()
    dry = inside("delete-many", "--channel", "cli", on_terminal=True).out.splitlines()
    assert dry == [
        "Would remove 2 conversations for good; --yes does it.",
        f"  {old[0].id}  cli  First Plan, 1 turns",
        f"  {old[1].id}  cli  line 1, 2 turns",
    ]
    [line] = inside("delete-many", "--channel", "cli").lines
    assert (line["conversationIds"], line["dryRun"]) == ([it.id for it in old], True)
    assert len(list(client.conversations.list())) == 3
    [line] = inside("delete-many", "--channel", "cli", "--limit", "1", "--yes").lines
    assert (line["conversationIds"], line["hasMore"], line["dryRun"]) == ([old[0].id], True, False)
    client.recall.set_anchor("name", "Alex", source=(old[1].id, 2))
    ran = inside("delete-many", "--all", "--yes", on_terminal=True)
    assert ran.out.splitlines()[1:] == [
        f"Left {old[1].id}: facts about the user came from it; --anchors says what becomes of them."
    ]
    assert "Removed 1 conversation: " in ran.out
    assert [it.id for it in client.conversations.list()] == [old[1].id] != [stays.id]
    [line] = inside("delete-many", "--all").lines
    assert line["left"] == [{"conversationId": old[1].id, "reason": "ANCHORS_PRESENT"}]
    [line] = inside("delete-many", old[1].id, "--anchors", "keep", "--yes").lines
    assert line["conversationIds"] == [old[1].id]


def test_anchors_are_set_listed_and_forgotten(
    inside: Inside, client: Client, talked: Talked
) -> None:
    it = talked()
    inside("anchors", "set", "name", "Al")
    [stored] = inside(
        "anchors", "set", "name", "Alex", "Doe", "--confidence", "0.5", "--source", it.id, "2"
    ).lines
    assert (stored["value"], stored["supersedes"], stored["confidence"]) == ("Alex Doe", "Al", 0.5)
    assert stored["source"] == {"conversationId": it.id, "sequence": 2}
    client.recall.set_anchor("city", "Oslo")
    assert [line["key"] for line in inside("anchors", "list").lines] == ["city", "name"]
    assert "No anchors." not in inside("anchors", "list", on_terminal=True).out
    assert {line["value"] for line in inside("anchors", "list", "name", "--superseded").lines} == {
        "Al",
        "Alex Doe",
    }
    assert "name: Alex Doe\n" in inside("anchors", "list", on_terminal=True).out
    assert inside("anchors", "list", "--as-of", "2001-02-03", on_terminal=True).out == (
        "No anchors.\n"
    )
    assert {line["value"] for line in inside("anchors", "delete", "name", "--yes").lines} == {
        "Al",
        "Alex Doe",
    }
    assert [anchor.key for anchor in client.recall.list_anchors()] == ["city"]
    assert inside("anchors", "delete", "name", "--yes").code == 3
    assert (
        inside("anchors", "delete", "city", on_terminal=True, stdin="y\n").out
        == "city is forgotten: 'Oslo'.\n"
    )
    assert inside("anchors", "list", on_terminal=True).out == "No anchors.\n"


def test_the_new_commands_run_as_programs(recollect: Any, client: Client, talked: Talked) -> None:
    it = talked(title="Old Plans")
    assert recollect("anchors", "set", "name", "Alex").lines[0]["value"] == "Alex"
    assert recollect("delete", it.id).code == 2
    ran = recollect.on_terminal("delete", it.id, "--yes")
    assert (ran.code, f"{it.id} is removed" in ran.out) == (0, True)
    assert list(client.conversations.list()) == []


@each(
    ("arguments", "named"),
    [
        (("model", "../x", "haiku"), "CONVERSATION "),
        (("notes", UNKNOWN, " "), "TEXT "),
        (("switch", UNKNOWN, "--turns", "0"), "--turns"),
        (("delete", UNKNOWN, "--yes", "--anchors", "some"), "--anchors"),
        (("anchors", "set", "name", "Alex", "--confidence", "1.5"), "--confidence"),
        (("anchors", "set", "Not A Key", "x"), "KEY "),
        (("anchors", "set", "name", "x", "--source", UNKNOWN, "0"), "--source"),
        (("anchors", "forget"), "forget"),
        (("metadata", UNKNOWN, "no-value"), "KEY=VALUE"),
        (("metadata", UNKNOWN, "a=1", "--remove", "a"), "twice"),
        (("delete-many",), "--all"),
        (("delete-many", "--all", "--channel", "cli"), "--all goes with no filter"),
    ],
)
def test_what_is_wrong_is_named(inside: Inside, arguments: tuple[str, ...], named: str) -> None:
    ran = inside(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert named in ran.err


@pytest.mark.parametrize(
    "arguments",
    [("model", UNKNOWN), ("notes", UNKNOWN), ("switch", UNKNOWN), ("delete", UNKNOWN, "--yes")],
)
def test_a_conversation_that_is_not_there_is_told_by_its_code(
    inside: Inside, arguments: tuple[str, ...]
) -> None:
    ran = inside(*arguments)
    assert (ran.code, ran.out, UNKNOWN in ran.err) == (3, "", True)


def test_redact_removes_the_text_of_a_message_and_asks_first(
    inside: Inside, client: Client, talked: Talked, tmp_path: Path
) -> None:
    it = talked()
    messages = client.conversations.load(it.id).messages
    sequence = str(messages[0].sequence)
    assert inside("redact", it.id, sequence).code == 2
    assert inside("redact", it.id, "--yes").code == 2
    answer = inside("redact", it.id, sequence, "--yes", on_terminal=True)
    assert answer.out == f"{it.id}: the text of message {sequence} is removed.\n"
    client.conversations.append_turn(it.id, [Message.user("The PIN is 4711")])
    refused = inside("redact", it.id, "--contains", "1", "--yes")
    assert (refused.code, "--contains: 2 messages (" in refused.err) == (2, True)
    missing = inside("redact", it.id, "--contains", "absent", "--yes")
    assert (missing.code, missing.err) == (
        2,
        f"Error: --contains: no message of {it.id} has that text\n",
    )
    (line,) = inside("redact", it.id[-8:].lower(), "--contains", "pin", "--yes").lines
    assert [one["content"] for one in line["messages"]] == ["[redacted]"]
    assert client.conversations.load(it.id).messages[-1].content == "[redacted]"
    (line,) = inside("redact", it.id, "--turn", "1", "--yes").lines
    assert {message["content"] for message in line["messages"]} == {"[redacted]"}
    assert inside("export", it.id, "--output", str(tmp_path / "one.jsonl")).code == 0
    exported = (tmp_path / "one.jsonl").read_text()
    assert messages[0].content not in exported
    assert exported.count('"erased"') == len(line["messages"]) + 1

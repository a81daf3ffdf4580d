"""`recollect-server import`: what is brought in, exactly once, and what is said of the rest."""

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from recollect import Client, Role
from recollect import Message as Sent
from recollect_server.domain.conversation import (
    Abbreviated,
    AnchorSet,
    Began,
    Compressed,
    MetaUpdated,
    Party,
    SplitSuggested,
    TitleAssigned,
)
from recollect_server.domain.message import Attachment, Message, ToolCall, Usage
from recollect_server.domain.message import Role as StoredRole

from tests.cli.conftest import Counts, counts_of, messages_of, run, said, set_line, talk

SHARED_SETS = Path(__file__).parents[3] / "shared" / "recall-sets"
START = 1_714_557_600_000  # 2024-05-01T10:00:00Z
HOME = "conv-01HQ0000000000000000000000"

Set = Callable[..., Path]
BringIn = Callable[..., Counts]


def user(number: int, content: str, turn: int) -> Message:
    return Message(StoredRole.USER, content, START + number * 1000, turn_number=turn)


def agent(number: int, content: str, turn: int, **fields: Any) -> Message:
    return Message(StoredRole.ASSISTANT, content, START + number * 1000, turn_number=turn, **fields)


# Recall sets --------------------------------------------------------------------------------------------------------------


def test_a_conversation_of_a_recall_set_arrives_with_its_speakers_times_and_ids(
    write_set: Set, bring_in: BringIn, client: Client
) -> None:
    messages = [said(0, sender="Caroline", content="Hey Mel!"), said(61, "assistant", sender="Melanie", content="Hi!")]
    counts = bring_in(write_set(set_line("s1", messages, group="conv-26")))
    [conversation] = client.conversations.list()
    assert counts == Counts(1, 0, 2, 0, 0)
    assert (conversation.channel, conversation.participants) == ("web", ("Caroline", "Melanie"))
    assert conversation.create_time == datetime(2024, 5, 1, 10, tzinfo=UTC)
    first, second = client.conversations.load(conversation.id).messages
    assert (first.role, first.sender, first.content) == (Role.USER, "Caroline", "Hey Mel!")
    assert (second.role, second.sender, second.content) == (Role.ASSISTANT, "Melanie", "Hi!")
    assert second.timestamp == datetime(2024, 5, 1, 10, 1, 1, tzinfo=UTC)
    assert first.metadata == {"importId": "m0", "importConversation": "s1", "importGroup": "conv-26"}


def test_speakers_without_names_take_part_by_their_roles(write_set: Set, bring_in: BringIn, client: Client) -> None:
    bring_in(write_set(set_line("s1", talk(3))))
    [conversation] = client.conversations.list()
    assert conversation.participants == ("user", "assistant")


def test_a_second_import_adds_nothing(write_set: Set, bring_in: BringIn, client: Client) -> None:
    folder = write_set(*(set_line(f"s{number}", talk(5), abbreviation="Notes.") for number in range(20)))
    assert bring_in(folder, "--abbreviations") == Counts(20, 0, 100, 0, 0)
    before = sorted(client.conversations.list(), key=lambda it: it.id)
    assert bring_in(folder, "--abbreviations") == Counts(0, 20, 0, 100, 0)
    assert sorted(client.conversations.list(), key=lambda it: it.id) == before


def test_a_set_that_was_moved_is_still_known(write_set: Set, bring_in: BringIn, tmp_path: Path) -> None:
    folder = write_set(set_line("s1", talk(4)))
    bring_in(folder)
    (tmp_path / "elsewhere").mkdir()
    moved = folder.rename(tmp_path / "elsewhere" / folder.name)
    assert bring_in(moved) == Counts(0, 1, 0, 4, 0)


def test_an_import_that_was_killed_is_finished_by_the_next(write_set: Set, server: Any, client: Client, bring_in: BringIn) -> None:
    folder = write_set(*(set_line(f"s{number}", talk(6)) for number in range(400)))
    command = [sys.executable, "-m", "recollect_server", "import", str(folder), "--target", server.target]
    importing = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not any(it.message_count for it in client.conversations.list()):
        assert importing.poll() is None
    importing.kill()
    assert importing.communicate()[0] == b"", "it was to be killed before its end"
    partly = sum(it.message_count for it in client.conversations.list())
    counts = bring_in(folder)
    assert 0 < counts.messages_new < 2400
    assert counts.messages_new + counts.messages_known == 2400
    assert counts.messages_known >= partly
    conversations = list(client.conversations.list())
    assert sorted(it.message_count for it in conversations) == [6] * 400
    assert messages_of(client, conversations[0].id) == [message["content"] for message in talk(6)]


def test_two_imports_at_once_add_everything_once(write_set: Set, server: Any, client: Client) -> None:
    folder = write_set(*(set_line(f"s{number}", talk(4)) for number in range(60)))
    command = [sys.executable, "-m", "recollect_server", "import", str(folder), "--target", server.target]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    counts = [counts_of(it.communicate(timeout=60)[0]) for it in both]
    assert [it.message_count for it in client.conversations.list()] == [4] * 60
    assert sum(it.messages_new for it in counts) == 240
    assert all(it.messages_new + it.messages_known == 240 and it.skipped == 0 for it in counts)


def test_abbreviations_become_notes_only_when_asked_for(write_set: Set, bring_in: BringIn, client: Client) -> None:
    folder = write_set(set_line("s1", talk(2), abbreviation="They said hello."), set_line("s2", talk(2), abbreviation=""))
    bring_in(folder)
    assert {it.abbreviation for it in client.conversations.list()} == {""}
    assert bring_in(folder, "--abbreviations") == Counts(0, 2, 0, 4, 0)
    assert sorted(it.abbreviation for it in client.conversations.list()) == ["", "They said hello."]


def test_only_the_groups_asked_for_are_imported(write_set: Set, bring_in: BringIn, client: Client) -> None:
    folder = write_set(*(set_line(f"{group}/1", talk(2), group=group) for group in ("a", "b", "c")))
    assert bring_in(folder, "--group", "a", "--group", "c") == Counts(2, 0, 4, 0, 0)
    groups = {client.conversations.load(it.id).messages[0].metadata["importGroup"] for it in client.conversations.list()}
    assert groups == {"a", "c"}


def test_a_group_that_is_not_there_is_named_and_nothing_is_imported(write_set: Set, server: Any, client: Client) -> None:
    result = run("import", write_set(set_line("s1", talk(2))), "--target", server.target, "--group", "alex", "--group", "nobody")
    assert result.exit_code == 1
    assert "there is no group nobody in" in result.stderr
    assert not list(client.conversations.list())


def test_the_channel_is_the_one_that_is_named(write_set: Set, bring_in: BringIn, client: Client) -> None:
    bring_in(write_set(set_line("s1", talk(2))), "--channel", "cli")
    assert [it.channel for it in client.conversations.list()] == ["cli"]


def test_a_folder_of_recall_sets_brings_them_all(write_set: Set, bring_in: BringIn) -> None:
    write_set(set_line("s1", talk(2)), name="one")
    parent = write_set(set_line("s1", talk(3)), name="two").parent
    assert bring_in(parent) == Counts(2, 0, 5, 0, 0)


def test_lines_and_messages_that_are_wrong_are_skipped_by_name_and_the_rest_arrives(
    write_set: Set, server: Any, client: Client
) -> None:
    folder = write_set(
        "{ not json",
        json.dumps({"group": "alex", "id": "s0"}),
        set_line("s1", [said(0), said(1, "system"), said(2, "assistant", timestamp="2024-05-01T10:00:00"), said(3, "assistant")]),
        set_line("s2", [said(0), said(1, content="\0"), said(2, timestamp="2199-01-01T00:00:00Z"), said(3, "assistant")]),
        set_line("s3", []),
        set_line("s4", talk(2), started="1969-01-01T00:00:00Z"),
    )
    result = run("import", folder, "--target", server.target)
    assert result.exit_code == 0
    assert counts_of(result.stdout) == Counts(2, 0, 4, 0, 8)
    assert {tuple(messages_of(client, it.id)) for it in client.conversations.list()} == {("line 0", "line 3")}
    file = re.escape(str(folder / "conversations.jsonl"))
    for place, reason in (
        ("1", "not JSON"),
        ("2", "started: Field required"),
        ("3 message 2", "role: .*'user'"),
        ("3 message 3", "timestamp: .*timezone"),
        ("4 message 2", "message refused: content holds the character NUL"),
        ("4 message 3", "message refused: timestamp is more than a day ahead"),
        ("5", "it has no messages"),
        ("6", r"create_time.*1970.*\(2 messages left out\)"),
    ):
        assert re.search(f"^skipped {file}:{place}: .*{reason}", result.stderr, re.MULTILINE), (place, result.stderr)


def test_what_was_skipped_is_skipped_again_and_nothing_is_added(write_set: Set, bring_in: BringIn) -> None:
    folder = write_set(set_line("s1", [said(0), said(1, content="\0"), said(2, "assistant", content="x" * (1 << 20))]))
    assert bring_in(folder) == Counts(1, 0, 1, 0, 2)
    assert bring_in(folder) == Counts(0, 1, 0, 1, 2)


def batch_sizes(server: Any, conversation_id: str) -> list[int]:
    """How many messages each append to a conversation had."""
    lines = map(json.loads, (server.folder / f"{conversation_id}.jsonl").read_text().splitlines())
    return [size for index, size in (line.get("batch", [1, 1]) for line in lines if line["type"] == "turn") if index == 1]


def test_a_conversation_longer_than_one_append_keeps_its_order(
    write_set: Set, bring_in: BringIn, server: Any, client: Client
) -> None:
    folder = write_set(set_line("s1", talk(2500)))
    assert bring_in(folder) == Counts(1, 0, 2500, 0, 0)
    assert bring_in(folder) == Counts(0, 1, 0, 2500, 0)
    [conversation] = client.conversations.list()
    assert messages_of(client, conversation.id)[-2000:] == [f"line {number}" for number in range(500, 2500)]
    assert batch_sizes(server, conversation.id) == [1000, 1000, 500]


def test_more_bytes_than_one_append_may_have_arrive_in_several(
    write_set: Set, bring_in: BringIn, server: Any, client: Client
) -> None:
    folder = write_set(set_line("s1", [said(number, content=f"{number} " + "x" * 900_000) for number in range(20)]))
    assert bring_in(folder) == Counts(1, 0, 20, 0, 0)
    [conversation] = client.conversations.list()
    assert batch_sizes(server, conversation.id) == [9, 9, 2]


def test_a_server_with_smaller_limits_gets_smaller_appends(
    start_server: Callable[..., Any], write_set: Set, tmp_path: Path
) -> None:
    server = start_server(data_dir=tmp_path / "small", max_batch_bytes=2048, max_message_bytes=1024)
    messages = [said(number, content=f"{number} " + "x" * 500) for number in range(10)] + [said(11, content="y" * 2000)]
    folder = write_set(set_line("s1", messages))
    for expected in (Counts(1, 0, 10, 0, 1), Counts(0, 1, 0, 10, 1)):
        result = run("import", folder, "--target", server.target)
        assert counts_of(result.stdout) == expected
        assert "message 11: message refused: content the message has" in result.stderr


def test_a_conversation_that_changed_since_is_left_as_it_is_and_named(
    write_set: Set, bring_in: BringIn, server: Any, client: Client
) -> None:
    bring_in(write_set(set_line("s1", talk(4))))
    [conversation] = client.conversations.list()
    result = run("import", write_set(set_line("s1", talk(6))), "--target", server.target)
    assert counts_of(result.stdout).messages_new == 0
    assert f"{conversation.id} is not as an earlier import left it" in result.stderr
    assert "(6 messages left out)" in result.stderr
    assert messages_of(client, conversation.id) == [message["content"] for message in talk(4)]


def test_an_imported_conversation_that_went_on_is_still_known(write_set: Set, bring_in: BringIn, client: Client) -> None:
    folder = write_set(set_line("s1", talk(4)))
    bring_in(folder)
    [conversation] = client.conversations.list()
    client.conversations.append_turn(conversation.id, [Sent.user("And now?")])
    assert bring_in(folder) == Counts(0, 1, 0, 4, 0)
    assert len(messages_of(client, conversation.id)) == 5


def test_a_conversation_that_was_deleted_can_be_imported_again(write_set: Set, bring_in: BringIn, client: Client) -> None:
    folder = write_set(set_line("s1", talk(4)))
    bring_in(folder)
    [conversation] = client.conversations.list()
    client.conversations.delete(conversation.id)
    assert bring_in(folder) == Counts(1, 0, 4, 0, 0)


# Transcripts --------------------------------------------------------------------------------------------------------------


RICH = [
    Began(HOME, "whatsapp", START, ("alex", "agent"), Party(contact="491701234567", group_id="g", subject="s"), "haiku"),
]


def test_a_transcript_arrives_with_every_field_of_its_messages(write_transcript: Set, bring_in: BringIn, client: Client) -> None:
    call = ToolCall("call-1", "df", '{"path": "/')
    turn = [
        user(1, "Full?", 1),
        agent(2, "", 1, thinking_text="Hm.", tool_calls=(call,), usage=Usage(1200, 35), cost=0.25),
        Message(StoredRole.TOOL, "97%", START + 3001, turn_number=1, tool_call_id="call-1"),
        agent(
            4, "Yes.", 1, channel="cli", sender="Rex", attachments=(Attachment("image/png", "file:///a", 7),), metadata={"a": [1]}
        ),
    ]
    assert bring_in(write_transcript(HOME, RICH, turn)) == Counts(1, 0, 4, 0, 0)
    [conversation] = client.conversations.list()
    assert conversation.id != HOME
    assert (conversation.channel, conversation.model, conversation.participants[:2]) == ("whatsapp", "haiku", ("alex", "agent"))
    assert conversation.party is not None
    assert (conversation.party.contact, conversation.party.group_id, conversation.party.subject) == ("491701234567", "g", "s")
    _, thought, result, answer = client.conversations.load(conversation.id).messages
    assert thought.usage is not None
    assert (thought.thinking_text, thought.usage.input, thought.cost) == ("Hm.", 1200, 0.25)
    assert thought.tool_calls[0].arguments == '{"path": "/'
    assert (result.tool_call_id, result.timestamp) == ("call-1", datetime(2024, 5, 1, 10, 0, 3, 1000, tzinfo=UTC))
    assert (answer.channel, answer.sender, answer.metadata) == ("cli", "Rex", {"a": [1]})
    assert answer.attachments[0].bytes_length == 7


def test_the_events_of_a_transcript_arrive_in_their_place_and_once(
    write_transcript: Set, bring_in: BringIn, server: Any, client: Client
) -> None:
    path = write_transcript(
        HOME,
        RICH,
        [user(1, "One", 1), agent(2, "1", 1)],
        [Compressed(1, "They counted.", START)],
        [user(3, "Two", 2), agent(4, "2", 2)],
        [Abbreviated("Counting to two.", START, ("numbers", "counting"))],
        [MetaUpdated(START, title="Counting", manually_named=True)],
        [MetaUpdated(START, model="opus")],
    )
    assert bring_in(path) == Counts(1, 0, 4, 0, 0)
    [conversation] = client.conversations.list()
    assert (conversation.title, conversation.manually_named, conversation.model) == ("Counting", True, "opus")
    assert (conversation.abbreviation, conversation.topics) == ("Counting to two.", ("numbers", "counting"))
    loaded = client.conversations.load(conversation.id)
    assert (conversation.compressed_through, loaded.compression_summary) == (1, "They counted.")
    stored = server.folder.joinpath(f"{conversation.id}.jsonl").read_bytes()
    assert bring_in(path) == Counts(0, 1, 0, 4, 0)
    assert server.folder.joinpath(f"{conversation.id}.jsonl").read_bytes() == stored


def test_messages_that_were_appended_together_are_appended_together(
    write_transcript: Set, bring_in: BringIn, server: Any, client: Client
) -> None:
    bring_in(write_transcript(HOME, RICH, [user(1, "a", 1), agent(2, "b", 1)], [user(3, "c", 2)], [agent(4, "d", 2)]))
    [conversation] = client.conversations.list()
    lines = server.folder.joinpath(f"{conversation.id}.jsonl").read_text().splitlines()
    assert [json.loads(line).get("batch") for line in lines[1:]] == [[1, 2], [2, 2], None, None]


def test_a_transcript_that_grew_since_brings_only_what_is_new(write_transcript: Set, bring_in: BringIn, client: Client) -> None:
    first = [user(1, "a", 1), agent(2, "b", 1)]
    bring_in(write_transcript(HOME, RICH, first))
    assert bring_in(write_transcript(HOME, RICH, first, [user(3, "c", 2)])) == Counts(0, 1, 1, 2, 0)
    [conversation] = client.conversations.list()
    assert messages_of(client, conversation.id) == ["a", "b", "c"]


def test_what_the_api_cannot_take_is_reported_and_not_lost_in_silence(write_transcript: Set, server: Any, client: Client) -> None:
    path = write_transcript(
        HOME,
        RICH,
        [user(1, "a", 1)],
        [TitleAssigned("Small Talk", ("talk",), START)],
        [MetaUpdated(START, pinned=True)],
        [Compressed(9, "Too far.", START)],
        [AnchorSet("name", "Alex", 0.9, 2, START)],
        [SplitSuggested("Two things.", ("One Thing", "Another Thing"), START)],
    )
    with path.open("ab") as file:
        body = b'{"type":"dream"'
        file.write(body + b',"crc":"%08x"}\n' % zlib.crc32(body))
    result = run("import", path, "--target", server.target)
    assert counts_of(result.stdout) == Counts(1, 0, 1, 0, 5)
    assert f"{path}:3: the API takes no automatic title" in result.stderr
    assert f"{path}:4: the API takes no pin" in result.stderr
    assert f"{path}:6: the API takes no anchor of a conversation: name stays behind" in result.stderr
    assert f"{path}:7: the API takes no suggested split" in result.stderr
    assert f"{path}:8: a line that this version does not know" in result.stderr
    [conversation] = client.conversations.list()
    assert (conversation.title, conversation.pinned) == ("", False)


def test_damaged_and_torn_lines_are_named_and_the_rest_arrives(write_transcript: Set, server: Any, client: Client) -> None:
    path = write_transcript(HOME, RICH, [user(1, "good", 1)], [user(2, "flipped", 2)], [user(3, "fine", 3)])
    path.write_bytes(path.read_bytes().replace(b"flipped", b"flopped") + b'{"type":"turn","ro')
    result = run("import", path, "--target", server.target)
    assert counts_of(result.stdout) == Counts(1, 0, 2, 0, 2)
    assert f"skipped {path}:3: damaged line: the checksum does not fit" in result.stderr
    assert f"skipped {path}:5: torn line: 18 bytes without an end" in result.stderr
    [conversation] = client.conversations.list()
    assert messages_of(client, conversation.id) == ["good", "fine"]


def test_a_summary_still_covers_the_same_messages_where_a_lost_line_moved_the_turns(
    write_transcript: Set, bring_in: BringIn, client: Client
) -> None:
    turns = [[user(number, f"turn {number}", number)] for number in range(1, 5)]
    path = write_transcript(HOME, RICH, *turns, [Compressed(3, "Up to three.", START)])
    path.write_bytes(path.read_bytes().replace(b"turn 2", b"turn X"))
    bring_in(path)
    [conversation] = client.conversations.list()
    assert [it.content for it in client.conversations.load(conversation.id).messages] == ["turn 4"]


def test_a_transcript_without_its_first_line_is_imported_under_a_channel_that_says_so(
    write_transcript: Set, server: Any, client: Client
) -> None:
    path = write_transcript(HOME, RICH, [user(1, "still here", 1)])
    path.write_bytes(path.read_bytes().replace(b"whatsapp", b"whatsopp"))
    result = run("import", path, "--target", server.target)
    assert counts_of(result.stdout) == Counts(1, 0, 1, 0, 2)
    assert "the first line is lost" in result.stderr
    assert [it.channel for it in client.conversations.list()] == ["unknown"]


def test_a_conversation_without_messages_is_new_once(write_transcript: Set, bring_in: BringIn) -> None:
    path = write_transcript(HOME, RICH)
    assert bring_in(path) == Counts(1, 0, 0, 0, 0)
    assert bring_in(path) == Counts(0, 1, 0, 0, 0)


def test_the_servers_own_transcripts_are_not_imported_into_it_again(
    write_set: Set, bring_in: BringIn, server: Any, client: Client
) -> None:
    bring_in(write_set(set_line("s1", talk(4)), set_line("s2", talk(2))))
    assert bring_in(server.folder) == Counts(0, 2, 0, 6, 0)
    assert len(list(client.conversations.list())) == 2


# The command --------------------------------------------------------------------------------------------------------------


def test_a_bar_is_shown_on_a_terminal_and_nothing_but_the_summary_elsewhere(write_set: Set, server: Any) -> None:
    folder = write_set(*(set_line(f"s{number}", talk(2)) for number in range(30)))
    command = [sys.executable, "-m", "recollect_server", "import", str(folder), "--target", server.target]
    piped = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (counts_of(piped.stdout).messages_new, piped.stderr) == (60, "")
    ours, theirs = pty.openpty()
    importing = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=os.environ | {"TERM": "xterm", "COLUMNS": "200"})
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # what the end of a terminal is
        while part := os.read(ours, 65536):
            shown += part
    os.close(ours)
    assert importing.wait() == 0
    assert b"Importing" in shown
    assert b"30/30" in shown
    assert b"30 already there" in shown


def test_without_a_server_one_sentence_says_so(write_set: Set) -> None:
    result = run("import", write_set(set_line("s1", talk(2))), "--target", "127.0.0.1:1")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert "no Recollect server answers on 127.0.0.1:1" in result.stderr


def test_the_target_is_by_default_what_the_settings_say(write_set: Set, server: Any, tmp_path: Path) -> None:
    folder = write_set(set_line("s1", talk(2)))
    by_environment = run("import", folder, env={"RECOLLECT_LISTEN": server.target})
    assert counts_of(by_environment.stdout) == Counts(1, 0, 2, 0, 0)
    config = tmp_path / "settings.yaml"
    config.write_text(f"listen: {server.target}\n")
    by_file = run("import", folder, "--config", config)
    assert counts_of(by_file.stdout) == Counts(0, 1, 0, 2, 0)


def test_a_server_that_stops_ends_the_import_with_a_sentence(
    start_server: Callable[..., Any], write_set: Set, tmp_path: Path
) -> None:
    folder = write_set(*(set_line(f"s{number}", talk(6)) for number in range(400)))
    server = start_server(data_dir=tmp_path / "one", shutdown_grace="100ms")
    command = [sys.executable, "-m", "recollect_server", "import", str(folder), "--target", server.target]
    importing = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with Client(server.target) as client:
        while not client.conversations.list_page(page_size=1).conversations:
            assert importing.poll() is None
    server.stop()
    output, error = importing.communicate(timeout=60)
    assert (importing.returncode, output) == (1, "")
    assert "the same command again goes on from there" in error
    assert "Traceback" not in error


def test_files_that_cannot_be_read_are_named(write_transcript: Set, server: Any, tmp_path: Path) -> None:
    path = write_transcript(HOME, RICH, [user(1, "a", 1)])
    (path.parent / "conv-broken.jsonl").symlink_to(tmp_path / "nowhere")
    (path.parent / "conv-empty.jsonl").touch()
    result = run("import", path.parent, "--target", server.target)
    assert counts_of(result.stdout) == Counts(1, 0, 1, 0, 2)
    assert f"{path.parent / 'conv-broken.jsonl'}: cannot be read: No such file" in result.stderr
    assert f"{path.parent / 'conv-empty.jsonl'}: no transcript of a conversation" in result.stderr


def test_a_path_with_nothing_to_import_is_refused(tmp_path: Path, server: Any) -> None:
    result = run("import", tmp_path, "--target", server.target)
    assert result.exit_code == 1
    assert "holds nothing to import" in result.stderr
    assert run("import", tmp_path / "none", "--target", server.target).exit_code == 2


@pytest.mark.parametrize("flags", [("--channel", "Web Page"), ("--channel", "")])
def test_a_channel_that_is_none_is_refused_before_anything_is_sent(
    write_set: Set, server: Any, client: Client, flags: tuple[str, ...]
) -> None:
    result = run("import", write_set(set_line("s1", talk(2))), "--target", server.target, *flags)
    assert result.exit_code == 2
    assert "--channel: is not a channel" in result.stderr
    assert not list(client.conversations.list())


def test_flags_of_recall_sets_are_refused_for_transcripts(write_transcript: Set, server: Any) -> None:
    path = write_transcript(HOME, RICH, [user(1, "a", 1)])
    result = run("import", path.parent, "--target", server.target, "--channel", "cli")
    assert result.exit_code == 2
    assert "for recall sets" in result.stderr


@pytest.mark.skipif(not SHARED_SETS.is_dir(), reason=f"the recall sets are not there: {SHARED_SETS}")
def test_the_shared_recall_sets_arrive_whole_and_once(bring_in: BringIn, client: Client) -> None:
    path = SHARED_SETS / "locomo"
    with (path / "conversations.jsonl").open("rb") as file:
        sizes = sorted(len(json.loads(line)["messages"]) for line in file)
    assert bring_in(path, "--abbreviations") == Counts(len(sizes), 0, sum(sizes), 0, 0)
    assert bring_in(path, "--abbreviations") == Counts(0, len(sizes), 0, sum(sizes), 0)
    conversations = list(client.conversations.list())
    assert sorted(it.message_count for it in conversations) == sizes
    assert all(it.abbreviation for it in conversations)

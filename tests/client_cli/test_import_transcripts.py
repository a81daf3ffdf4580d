"""`recollect import` of transcripts: every field and event arrives, and what cannot is named."""

import json
import zlib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from recollect import Client, Conversation, StoredInConversation
from recollect_server.kernel.domain.conversation import (
    Abbreviated,
    AnchorSet,
    Began,
    Compressed,
    MetaUpdated,
    Party,
    SplitSuggested,
    TitleAssigned,
)
from recollect_server.kernel.domain.message import Attachment, Message, ToolCall, Usage
from recollect_server.kernel.domain.message import Role as StoredRole

from tests.client_cli.conftest import (
    BringIn,
    Counts,
    Run,
    Set,
    counts_of,
    messages_of,
    set_line,
    talk,
)

START = 1_714_557_600_000  # 2024-05-01T10:00:00Z

HOME = "conv-01HQ0000000000000000000000"


def user(number: int, content: str, turn: int) -> Message:
    return Message(StoredRole.USER, content, START + number * 1000, turn_number=turn)


def agent(number: int, content: str, turn: int, **fields: Any) -> Message:
    return Message(StoredRole.ASSISTANT, content, START + number * 1000, turn_number=turn, **fields)


RICH = [
    Began(
        HOME,
        "whatsapp",
        START,
        ("alex", "agent"),
        Party(contact="491701234567", group_id="g", subject="s"),
        "haiku",
    ),
]


def test_a_transcript_arrives_with_every_field_of_its_messages(
    write_transcript: Set, bring_in: BringIn, client: Client
) -> None:
    call = ToolCall("call-1", "df", '{"path": "/')
    turn = [
        user(1, "Full?", 1),
        agent(2, "", 1, thinking_text="Hm.", tool_calls=(call,), usage=Usage(1200, 35), cost=0.25),
        Message(StoredRole.TOOL, "97%", START + 3001, turn_number=1, tool_call_id="call-1"),
        agent(
            4,
            "Yes.",
            1,
            channel="cli",
            sender="Rex",
            attachments=(Attachment("image/png", "file:///a", 7),),
            metadata={"a": [1]},
        ),
    ]
    assert bring_in(write_transcript(HOME, RICH, turn)) == Counts(1, 0, 4, 0, 0)
    [conversation] = client.conversations.list()
    assert conversation.id == HOME
    assert (conversation.channel, conversation.model, conversation.participants[:2]) == (
        "whatsapp",
        "haiku",
        ("alex", "agent"),
    )
    assert conversation.party is not None
    assert (
        conversation.party.contact,
        conversation.party.group_id,
        conversation.party.subject,
    ) == ("491701234567", "g", "s")
    _, thought, result, answer = client.conversations.load(conversation.id).messages
    assert thought.usage is not None
    assert (thought.thinking_text, thought.usage.input, thought.cost) == ("Hm.", 1200, 0.25)
    assert thought.tool_calls[0].arguments == '{"path": "/'
    assert (result.tool_call_id, result.timestamp) == (
        "call-1",
        datetime(2024, 5, 1, 10, 0, 3, 1000, tzinfo=UTC),
    )
    assert (answer.channel, answer.sender, answer.metadata) == ("cli", "Rex", {"a": [1]})
    assert answer.attachments[0].bytes_length == 7


def test_a_transcript_with_late_results_and_answers_arrives_with_them_in_their_turns(
    write_transcript: Set, bring_in: BringIn, client: Client
) -> None:
    calls = (ToolCall("c1", "df", "{}"), ToolCall("c2", "df", "{}"))
    late = Message(StoredRole.TOOL, "97%", START + 5000, turn_number=1, tool_call_id="c1")
    path = write_transcript(
        HOME,
        RICH,
        [user(1, "One", 1), agent(2, "Calls", 1, tool_calls=calls)],
        [user(3, "Two", 2), agent(4, "2", 2)],
        [late],
        [agent(6, "1", 1)],
        [
            replace(late, content="98%", tool_call_id="c2"),
            agent(7, "2 again", 2),
            user(8, "Three", 3),
        ],
    )
    assert bring_in(path) == Counts(1, 0, 9, 0, 0)
    assert bring_in(path) == Counts(0, 1, 0, 9, 0)
    [conversation] = client.conversations.list()
    there = [
        (it.turn_number, it.content) for it in client.conversations.load(conversation.id).messages
    ]
    messages = [
        (1, "One"),
        (1, "Calls"),
        (1, "97%"),
        (1, "1"),
        (1, "98%"),
        (2, "Two"),
        (2, "2"),
        (2, "2 again"),
        (3, "Three"),
    ]
    assert there == messages


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
    assert (conversation.title, conversation.manually_named, conversation.model) == (
        "Counting",
        True,
        "opus",
    )
    assert (conversation.abbreviation, conversation.topics) == (
        "Counting to two.",
        ("numbers", "counting"),
    )
    loaded = client.conversations.load(conversation.id)
    assert (conversation.compressed_through, loaded.compression_summary) == (1, "They counted.")
    stored = server.folder.joinpath(f"{conversation.id}.jsonl").read_bytes()
    assert bring_in(path) == Counts(0, 1, 0, 4, 0)
    assert server.folder.joinpath(f"{conversation.id}.jsonl").read_bytes() == stored


def test_messages_that_were_appended_together_are_appended_together(
    write_transcript: Set, bring_in: BringIn, server: Any, client: Client
) -> None:
    bring_in(
        write_transcript(
            HOME, RICH, [user(1, "a", 1), agent(2, "b", 1)], [user(3, "c", 2)], [agent(4, "d", 2)]
        )
    )
    [conversation] = client.conversations.list()
    lines = server.folder.joinpath(f"{conversation.id}.jsonl").read_text().splitlines()
    assert [json.loads(line).get("batch") for line in lines[1:]] == [[1, 2], [2, 2], None, None]


def test_a_transcript_that_grew_since_brings_only_what_is_new(
    write_transcript: Set, bring_in: BringIn, client: Client
) -> None:
    first = [user(1, "a", 1), agent(2, "b", 1)]
    bring_in(write_transcript(HOME, RICH, first))
    assert bring_in(write_transcript(HOME, RICH, first, [user(3, "c", 2)])) == Counts(0, 1, 1, 2, 0)
    [conversation] = client.conversations.list()
    assert messages_of(client, conversation.id) == ["a", "b", "c"]


def test_what_the_api_cannot_take_is_reported_and_not_lost_in_silence(
    run: Run, write_transcript: Set, server: Any, client: Client
) -> None:
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
        memory = b'{"type":"event","event":"turn_memory"'
        for body in (
            b'{"type":"dream"',
            memory + b',"turn":1,"tier":4',
            memory + b',"turn":9,"tier":1',
        ):
            file.write(body + b',"crc":"%08x"}\n' % zlib.crc32(body))
    result = run("import", path)
    assert counts_of(result) == Counts(1, 0, 1, 0, 6)
    assert (
        f"{path}:4: another conversation is pinned at its place, or its party names none"
        in result.err
    )
    assert f"{path}:6: the API takes no anchor of a conversation: name stays behind" in result.err
    assert f"{path}:7: the API takes no suggested split" in result.err
    assert f"{path}:8: a line of a kind that is not known: dream" in result.err
    assert f"{path}:9: a line of a kind that is not known: event turn_memory" in result.err
    assert f"{path}:10: turn 9, whose tier or summary it is, was left out" in result.err
    [conversation] = client.conversations.list()
    assert (conversation.title, conversation.topics, conversation.manually_named) == (
        "Small Talk",
        ("talk",),
        False,
    )
    assert not conversation.pinned


def test_a_pinned_conversation_takes_its_place_where_that_is_free(
    write_transcript: Set, bring_in: BringIn, client: Client
) -> None:
    client.channels.add_owner_identity("whatsapp", "491701234567")
    began = [Began(HOME, "whatsapp", START, ("alex",), Party(contact="491701234567"), pinned=True)]
    path = write_transcript(HOME, began, [user(1, "a", 1)])
    assert bring_in(path) == Counts(1, 0, 1, 0, 0)
    reply = client.channels.receive("whatsapp", "1", "b", sender="+49 170 1234567").outcome
    assert isinstance(reply, StoredInConversation)
    assert messages_of(client, reply.conversation.id) == ["a", "b"]
    assert bring_in(path) == Counts(0, 1, 0, 1, 0)

    other = "conv-01HQ0000000000000000000001"
    began = [Began(other, "whatsapp", START, ("alex",), Party(contact="491701234567"), pinned=True)]
    path = write_transcript(other, began, [user(1, "older", 1)])
    assert bring_in(path) == Counts(1, 0, 1, 0, 0)  # the one in use keeps its place
    assert bring_in(path) == Counts(0, 1, 0, 1, 0)
    again = client.channels.receive("whatsapp", "2", "c", sender="491701234567").outcome
    assert isinstance(again, StoredInConversation)
    assert again.conversation.id == reply.conversation.id


def test_damaged_and_torn_lines_are_named_and_the_rest_arrives(
    run: Run, write_transcript: Set, server: Any, client: Client
) -> None:
    path = write_transcript(
        HOME, RICH, [user(1, "good", 1)], [user(2, "flipped", 2)], [user(3, "fine", 3)]
    )
    path.write_bytes(path.read_bytes().replace(b"flipped", b"flopped") + b'{"type":"turn","ro')
    result = run("import", path)
    assert counts_of(result) == Counts(1, 0, 2, 0, 2)
    assert f"left out {path}:3: the checksum does not fit" in result.err
    assert f"left out {path}:5: torn line: 18 bytes without an end" in result.err
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
    run: Run, write_transcript: Set, server: Any, client: Client
) -> None:
    path = write_transcript(HOME, RICH, [user(1, "still here", 1)])
    path.write_bytes(path.read_bytes().replace(b"whatsapp", b"whatsopp"))
    result = run("import", path)
    assert counts_of(result) == Counts(1, 0, 1, 0, 2)
    assert "the first line is lost" in result.err
    assert [it.channel for it in client.conversations.list()] == ["unknown"]


def test_a_conversation_without_messages_is_new_once(
    write_transcript: Set, bring_in: BringIn
) -> None:
    path = write_transcript(HOME, RICH)
    assert bring_in(path) == Counts(1, 0, 0, 0, 0)
    assert bring_in(path) == Counts(0, 1, 0, 0, 0)


def test_the_servers_own_transcripts_are_not_imported_into_it_again(
    write_set: Set, bring_in: BringIn, server: Any, client: Client
) -> None:
    bring_in(write_set(set_line("s1", talk(4)), set_line("s2", talk(2))))
    assert bring_in(server.folder) == Counts(0, 2, 0, 6, 0)
    assert len(list(client.conversations.list())) == 2


def test_files_that_cannot_be_read_are_named(
    run: Run, write_transcript: Set, server: Any, tmp_path: Path
) -> None:
    path = write_transcript(HOME, RICH, [user(1, "a", 1)])
    (path.parent / "conv-broken.jsonl").symlink_to(tmp_path / "nowhere")
    (path.parent / "conv-empty.jsonl").touch()
    result = run("import", path.parent)
    assert counts_of(result) == Counts(1, 0, 1, 0, 2)
    assert f"{path.parent / 'conv-broken.jsonl'}: cannot be read: No such file" in result.err
    assert f"{path.parent / 'conv-empty.jsonl'}: no transcript of a conversation" in result.err


def test_flags_of_recall_sets_are_refused_for_transcripts(
    run: Run, write_transcript: Set, server: Any
) -> None:
    path = write_transcript(HOME, RICH, [user(1, "a", 1)])
    result = run("import", path.parent, "--channel", "cli")
    assert result.code == 2
    assert "for recall sets" in result.err


def test_an_export_that_an_editor_saved_with_a_byte_order_mark_comes_whole(
    run: Run, client: Client, talked: Callable[..., Conversation], tmp_path: Path
) -> None:
    conversation = talked(text="zebra")
    exported = run("export").out
    client.conversations.delete(conversation.id)
    for name in ("all.jsonl", "conv-1.jsonl"):
        path = tmp_path / name
        path.write_text(exported, "utf-8-sig")
        ran = run("import", path)
        assert (ran.code, ran.lines[0]["leftOut"]) == (0, 0), ran.err
    assert {messages_of(client, it.id)[0] for it in client.conversations.list()} == {"zebra 1"}


def test_events_that_the_first_format_had_as_types_are_recorded(
    run: Run, client: Client, tmp_path: Path
) -> None:
    at = {"timestamp": "2024-05-01T10:00:00Z"}
    lines: list[dict[str, Any]] = [
        {"type": "meta", "channel": "web", "created": "2024-05-01T10:00:00Z"},
        {"type": "turn", "role": "user", "content": "Is the disk full?"} | at,
        {"type": "title_assigned", "title": "Disk", "topics": ["disk"]},
        {"type": "compression", "compressedThrough": 1, "summary": "It is."},
        {"type": "abbreviation", "text": "Notes on disks.", "topics": ["disk"]},
        {"type": "meta_update", "model": "opus"},
        {"type": "close", "title": "Full"},
        {"type": "event", "event": "close", "title": "Full disk"},
    ]
    path = tmp_path / "conv-1.jsonl"
    path.write_text("".join(f"{json.dumps(it)}\n" for it in lines))
    ran = run("import", path)
    assert (ran.code, ran.lines[0]["leftOut"]) == (0, 0), ran.err
    [conversation] = client.conversations.list()
    assert (conversation.title, conversation.model) == ("Full disk", "opus")
    assert conversation.abbreviation == "Notes on disks."

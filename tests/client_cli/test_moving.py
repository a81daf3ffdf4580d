"""`export` and `import`: everything a client is told comes back, exactly once."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from recollect import (
    Attachment,
    Client,
    ContextTier,
    Conversation,
    Message,
    Party,
    Role,
    StoredInConversation,
    ToolCall,
    Usage,
    WhatsappOrigin,
)
from recollect.imports import transcript

from tests.client_cli.conftest import Inside, Recollect

Talked = Callable[..., Conversation]
COUNTS = ("conversationsNew", "conversationsKnown", "messagesNew", "messagesKnown", "leftOut")


@pytest.fixture
def other(start_server: Callable[..., Any], tmp_path: Path) -> Iterator[Client]:
    """Connect a client to a second, empty server."""
    with Client(start_server(data_dir=tmp_path / "other").target) as connected:
        yield connected


def counts(ran: Any) -> tuple[int, ...]:
    [line] = ran.lines
    return tuple(line[name] for name in COUNTS)


def target(client: Client) -> Recollect:
    return Recollect(client._invoker.target)


def rich_conversation(client: Client) -> Conversation:
    """Create a conversation with everything that a client may give."""
    it = client.conversations.create(
        "email",
        participants=["alex"],
        party=Party(contact="b@example.org", subject="Rechnung €"),
        model="haiku",
    )
    calls = [ToolCall("call-1", "df", '{"path":  "/"}'), ToolCall("call-2", "date", "")]
    client.conversations.append_turn(
        it.id,
        [
            Message(
                role=Role.USER,
                content="Grüße\u2028\n  x",
                sender="Alex",
                sender_name="Alexander",
                channel="web",
                attachments=(Attachment("image/png", "file:///a.png", 12),),
            ),
            Message.assistant(thinking_text="hm", tool_calls=calls, usage=Usage(3, 4), cost=0.001),
            Message.tool("97%", tool_call_id="call-1"),
            Message.tool(
                "", tool_call_id="call-2", metadata={"a_b": [1, 2.5, {"c": None}], "t": True}
            ),
            Message.assistant("Full."),
        ],
    )
    for turn in range(2, 5):
        client.conversations.append_turn(
            it.id, [Message.user(f"turn {turn}"), Message.assistant("yes")]
        )
    client.conversations.record_compression(it.id, 2, "Two turns about a disk.")
    client.conversations.record_abbreviation(it.id, "Notes.", topics=["disk"])
    client.conversations.set_turn_memory(it.id, 1, tier=ContextTier.COLD, summary="A disk.")
    client.conversations.set_turn_memory(it.id, 3, summary="Turn 3.")
    client.conversations.rename(it.id, "A Bill")
    return client.conversations.get(it.id)


def everything(client: Client, conversation_id: str) -> tuple[Any, ...]:
    """Return all that a client reads of a conversation, except ids and lines, which differ by
    server.
    """
    loaded = client.conversations.load(conversation_id, max_turns=1000, before_turn=10_000)
    now = client.conversations.load(conversation_id)
    it = loaded.conversation
    assert it is not None
    facts = (
        it.channel,
        it.title,
        it.topics,
        it.create_time,
        it.update_time,
        it.turn_count,
        it.message_count,
        it.participants,
    )
    more = (
        it.abbreviation,
        it.manually_named,
        it.model,
        it.party,
        it.usage_total,
        it.cost_total,
        it.compressed_through,
    )
    lines = [
        {name: getattr(m, name) for name in m.__slots__ if name != "sequence"}
        for m in loaded.messages
    ]
    memories = list(client.conversations.list_turn_memory(conversation_id))
    return facts, more, now.compression_summary, lines, memories


def test_everything_comes_back_on_another_server_and_nothing_twice(
    inside: Inside, client: Client, other: Client, talked: Talked, tmp_path: Path
) -> None:
    rich, plain = rich_conversation(client), talked(3)
    messages = client.conversations.load(rich.id, max_turns=100, before_turn=100).messages
    for name in Message.__slots__:  # else a new field could be lost unnoticed
        if name == "redaction":
            continue  # no caller sets it: a tombstone is imported as a message that says so
        assert any(getattr(it, name) not in ("", None, (), {}) for it in messages), name
    path = tmp_path / "all.jsonl"
    assert inside("export", "-o", str(path)) == inside("export", "--output", str(path))
    assert counts(target(other)("import", str(path))) == (2, 0, 17, 0, 0)
    there = {it.message_count: it.id for it in other.conversations.list()}
    assert everything(other, there[11]) == everything(client, rich.id)
    assert everything(other, there[6]) == everything(client, plain.id)
    again = target(other)("import", "-", stdin=path.read_text())
    assert (again.code, counts(again)) == (0, (0, 2, 0, 17, 0))
    assert sorted(it.message_count for it in other.conversations.list()) == [6, 11]


def test_a_pinned_conversation_takes_its_place_where_that_is_free(
    client: Client, other: Client
) -> None:
    for each in (client, other):
        each.channels.add_owner_identity("whatsapp", "1555000")
    client.channels.receive("whatsapp", "1", "Hello", sender="1555000")
    exported = target(client)("export").out
    assert counts(target(other)("import", "-", stdin=exported)) == (1, 0, 1, 0, 0)
    assert counts(target(other)("import", "-", stdin=exported)) == (0, 1, 0, 1, 0)
    other.channels.receive("whatsapp", "2", "Again", sender="1555000")
    [conversation] = other.conversations.list()
    assert (conversation.pinned, conversation.turn_count) == (True, 2)


def test_an_import_that_broke_off_is_finished_by_the_next(
    inside: Inside, other: Client, talked: Talked
) -> None:
    it = talked(10)
    lines = inside("export", it.id).out.splitlines(keepends=True)
    assert counts(target(other)("import", "-", stdin="".join(lines[:9]))) == (1, 0, 8, 0, 0)
    assert counts(target(other)("import", "-", stdin="".join(lines))) == (0, 1, 12, 8, 0)
    [there] = other.conversations.list()
    assert there.message_count == 20


def test_what_comes_from_this_server_is_left_as_it_is(
    recollect: Any, client: Client, talked: Talked
) -> None:
    talked(2)
    ran = recollect("import", "-", stdin=recollect("export").out)
    assert (ran.code, counts(ran)) == (0, (0, 1, 0, 4, 0))
    assert len(list(client.conversations.list())) == 1


def test_the_quickstart_page_shows_the_fields_that_an_import_prints(
    recollect: Any, talked: Talked
) -> None:
    talked(1)
    [line] = recollect("import", "-", stdin=recollect("export").out).lines
    page = (Path(__file__).parents[2] / "docs/quickstart.md").read_text()
    [shown] = [it for it in page.splitlines() if it.startswith('{"conversationsNew"')]
    assert list(json.loads(shown)) == list(line)


def test_a_conversation_that_somebody_went_on_with_is_left_alone(
    inside: Inside, other: Client, client: Client, talked: Talked
) -> None:
    it = talked(2)
    target(other)("import", "-", stdin=inside("export").out)
    [there] = other.conversations.list()
    other.conversations.append_turn(there.id, [Message.user("went on here")])
    client.conversations.append_turn(it.id, [Message.user("and there")])
    ran = target(other)("import", "-", stdin=inside("export").out)
    assert ran.code == 6
    assert "left out the rest of <stdin>:1" in ran.err
    assert other.conversations.get(there.id).message_count == 5


def test_damaged_and_foreign_lines_are_named_and_left_out(
    inside: Inside, other: Client, talked: Talked
) -> None:
    talked(3)
    lines = inside("export").out.splitlines()
    lines[3] = lines[3].replace("line 2", "lime 2")
    stdin = "\n".join(["[1]", '{"type":"turn"}', *lines, "{half", '{"type":"party"}', ""])
    ran = target(other)("import", "-", stdin=stdin)
    assert (ran.code, counts(ran)) == (6, (1, 0, 5, 0, 5))
    reasons = [line.removeprefix("left out ") for line in ran.err.splitlines()]
    assert reasons[0] == "<stdin>:1: not a JSON object"
    assert (
        reasons[1]
        == "<stdin>:2: it stands before the line of the type `meta` that begins a conversation"
    )
    assert reasons[2] == "<stdin>:6: the checksum does not fit"
    assert reasons[3].startswith("<stdin>:10: not JSON")
    assert reasons[4] == "<stdin>:11: a line of a kind that is not known: party"
    assert reasons[5] == "Error: lines or conversations that were left out: 5"
    [there] = other.conversations.list()
    assert there.message_count == 5


def test_what_a_person_wrote_needs_no_checksum(recollect: Any, client: Client) -> None:
    lines = [
        {"type": "meta", "channel": "web", "created": "2026-02-14T09:00:00Z"},
        {"type": "turn", "role": "user", "content": "by hand"},
        {"type": "turn", "role": "assistant", "content": "so it is"},
    ]
    text = "\n".join(map(json.dumps, lines))
    assert counts(recollect("import", "-", stdin=text)) == (1, 0, 2, 0, 0)
    assert counts(recollect("import", "-", stdin=text)) == (0, 1, 0, 2, 0)
    [there] = client.conversations.list()
    assert there.create_time.isoformat() == "2026-02-14T09:00:00+00:00"


def test_ids_titles_topics_and_notes_are_kept(recollect: Any, client: Client) -> None:
    name = "conv-01HQ0000000000000000000000"
    turn = {"type": "turn", "role": "user", "content": "by hand"}
    lines: list[dict[str, Any]] = [
        {"type": "meta", "id": name, "channel": "web"},
        turn,
        {"type": "event", "event": "title_assigned", "title": "Full Disk", "topics": ["disk"]},
        {"type": "event", "event": "abbreviation", "text": "Notes."},
        {"type": "meta", "id": "of another program", "channel": "web"},
        {"type": "turn", "role": "user"},
        turn,
        {"type": "event", "event": "meta_update", "title": "Mine", "manuallyNamed": True},
        {"type": "meta", "channel": "web"},
        turn,
        {"type": "meta", "channel": "web"},
        {"type": "turn", "role": "user", "content": "another, with the same first line"},
    ]
    text = "\n".join(map(json.dumps, lines))
    ran = recollect("import", "-", stdin=text)
    assert (ran.code, counts(ran)) == (6, (4, 0, 4, 0, 1))
    assert "left out <stdin>:6: message refused: content is empty" in ran.err
    moved = client.conversations.get(name)
    assert (moved.title, moved.topics, moved.abbreviation, moved.manually_named) == (
        "Full Disk",
        ("disk",),
        "Notes.",
        False,
    )
    there = {it.title: it for it in client.conversations.list()}
    assert there["Mine"].manually_named
    assert len(list(client.conversations.list())) == 4
    assert counts(recollect("import", "-", stdin=text)) == (0, 4, 0, 4, 1)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ({"type": "meta", "channel": "Not a channel"}, "channel"),
        ({"type": "meta", "channel": "web", "created": "yesterday"}, "yesterday"),
        ({"type": "meta", "channel": "web", "party": {"boss": "x"}}, "boss"),
        ({"type": "meta", "channel": "web", "participants": 5}, "participants"),
    ],
)
def test_a_beginning_that_the_server_refuses_is_named_and_the_next_goes_on(
    recollect: Any, client: Client, line: dict[str, Any], named: str
) -> None:
    good = [{"type": "meta", "channel": "web"}, {"type": "turn", "role": "user", "content": "good"}]
    ran = recollect("import", "-", stdin="\n".join(map(json.dumps, [line, *good])))
    assert (ran.code, counts(ran)) == (6, (1, 0, 1, 0, 1))
    assert "left out the rest of <stdin>:1: " in ran.err
    assert named in ran.err
    assert len(list(client.conversations.list())) == 1


def test_the_lines_are_those_of_the_servers_own_transcripts(
    inside: Inside, server: Any, client: Client, other: Client, tmp_path: Path
) -> None:
    it = rich_conversation(client)
    path = tmp_path / f"{it.id}.jsonl"
    path.write_text(inside("export", it.id).out)
    assert counts(target(other)("import", str(path))) == (1, 0, 11, 0, 0)
    [there] = other.conversations.list()
    assert everything(other, there.id) == everything(client, it.id)
    # And the transcript itself, which has requests and batches in its lines, is read by `import`.
    for line in (server.folder / f"{it.id}.jsonl").read_bytes().splitlines():
        assert transcript.decode(line)["type"] in {"meta", "turn", "event"}
    assert counts(target(other)("import", str(server.folder / f"{it.id}.jsonl"))) == (
        0,
        1,
        0,
        11,
        0,
    )
    other.conversations.delete(it.id)
    assert counts(target(other)("import", str(server.folder / f"{it.id}.jsonl")))[2] == 11
    assert other.conversations.get(it.id).title == it.title


def test_a_groups_newest_name_comes_along(
    inside: Inside, server: Any, client: Client, other: Client
) -> None:
    client.channels.add_owner_identity("whatsapp", "1555000")

    def receive(number: int, name: str) -> str:
        received = client.channels.receive(
            "whatsapp",
            f"{number}",
            "Hello",
            sender="1555000",
            origin=WhatsappOrigin(group_id="1@g.us"),
            group_name=name,
        )
        assert isinstance(received.outcome, StoredInConversation)
        return received.outcome.conversation.id

    conversation_id = receive(1, "Flat hunters")
    exported = [inside("export").out]
    receive(2, "Flat sharers")
    exported.append(inside("export").out)
    exported.append((server.folder / f"{conversation_id}.jsonl").read_text())
    for lines in exported[1:]:
        assert counts(target(other)("import", "-", stdin=lines)) == (1, 0, 2, 0, 0)
        [there] = other.conversations.list()
        assert there.party == Party(group_id="1@g.us", group_name="Flat sharers")
        assert there.name == "Flat sharers (WhatsApp)"
        other.conversations.delete(there.id, force=True)
    # An export that was made after the group had another name goes on where it was imported.
    assert counts(target(other)("import", "-", stdin=exported[0])) == (1, 0, 1, 0, 0)
    assert counts(target(other)("import", "-", stdin=exported[1])) == (0, 1, 1, 1, 0)


def test_a_file_is_there_when_it_is_whole(recollect: Any, talked: Talked, tmp_path: Path) -> None:
    it = talked()
    path = tmp_path / "out.jsonl"
    path.write_text("as it was")
    assert recollect("export", "-o", str(path), it.id, "conv-01HQ0000000000000000000000").code == 3
    assert path.read_text() == "as it was"
    assert [entry.name for entry in tmp_path.glob("*out*")] == ["out.jsonl"]
    refused = recollect("export", "-o", str(tmp_path / "no" / "out.jsonl"))
    assert (refused.code, "cannot write" in refused.err) == (1, True)

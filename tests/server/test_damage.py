"""Damage in the middle of a transcript: the rest is served, the loss is named in the log, and
nothing is written over.
"""

import random
from collections.abc import Callable

import pytest
from recollect.v1.message_pb2 import ToolCall
from structlog.testing import capture_logs

from tests.conftest import RunningServer, Start
from tests.server.conftest import (
    UNKNOWN,
    Connect,
    Service,
    agent,
    delete_index,
    failure_of,
    tool,
    transcript,
    user,
)

Damage = Callable[[bytes], bytes]
"""Damage to a line, newline included."""


def flipped(line: bytes) -> bytes:
    """Flip one bit in each of ten places."""
    damaged = bytearray(line)
    for place in range(10, 60, 5):
        damaged[place] ^= 4
    return bytes(damaged)


def cut(line: bytes) -> bytes:
    return line[: len(line) // 2] + b"\n"


def lost_its_newline(line: bytes) -> bytes:
    """Remove the newline: the line runs into the next one, and neither can be read."""
    return line[:-1]


def foreign(line: bytes) -> bytes:
    return b"Sep 21 14:13:20 host kernel: this is of another file\n" + line


def empty(line: bytes) -> bytes:
    return b"\n" + line


def zeros(line: bytes) -> bytes:
    """Return zeros, as a file system may leave a page that it never wrote."""
    return bytes(len(line) - 1) + b"\n"


def a_megabyte_of_garbage(line: bytes) -> bytes:
    return random.Random(1).randbytes(1_000_000) + b"\n" + line  # noqa: S311 - a test's bytes


def one_line_of_ten_megabytes(line: bytes) -> bytes:
    return b"x" * 10_000_000 + b"\n" + line


DAMAGES = [
    flipped,
    cut,
    lost_its_newline,
    foreign,
    empty,
    zeros,
    a_megabyte_of_garbage,
    one_line_of_ten_megabytes,
]
COSTS: dict[Damage, list[str]] = {
    flipped: ["two"],
    cut: ["two"],
    lost_its_newline: ["two", "three"],
    zeros: ["two"],
}
"""The messages that go with the damage; else it only stands between them."""


@pytest.mark.parametrize("index_lost", [False, True])
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damage_in_the_middle_costs_what_it_hit_and_is_named(
    service: Service,
    server: RunningServer,
    start_server: Start,
    connect: Connect,
    damage: Damage,
    index_lost: bool,
) -> None:
    texts = ["one", "two", "three", "four", "five"]
    conversation_id = service.conversation_of(*(f"{text} zebra" for text in texts))
    other = service.conversation_of("another zebra")
    server.stop()
    path = transcript(server, conversation_id)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = damage(lines[2])  # line 1 is the conversation's, line 3 the second message
    path.write_bytes(b"".join(lines))
    damaged = path.read_bytes()
    if index_lost:
        delete_index(server)
    with capture_logs() as logged:
        running = start_server()
    again = connect(running)
    left = [text for text in texts if text not in COSTS.get(damage, [])]
    loaded = again.load(conversation_id)
    assert [message.content for message in loaded.messages] == [f"{text} zebra" for text in left]
    assert loaded.damaged_lines > 0
    for text in left:
        hits = [(hit.conversation_id, hit.snippet) for hit in again.search(text, limit=100).hits]
        assert hits[0][0] == conversation_id
        assert text in hits[0][1]
    assert again.search("zebra", limit=100).total_matches == 2
    named = [event for event in logged if event["event"] == "damaged_line"]
    # else it is of its old length, and seen when it is read
    if index_lost or (damage is not flipped and damage is not zeros):
        assert {(event["conversation"], event["line"]) for event in named[:1]} == {
            (conversation_id, 3)
        }
        assert len(named) == 1  # however many lines lie there
        assert named[0]["lines"] == running.app.recovered.damaged
    # It is gone on with, behind everything.
    again.append(conversation_id, user("six zebra"), agent("noted"), request_id="r6")
    assert [message.content for message in again.load(conversation_id).messages][-2:] == [
        "six zebra",
        "noted",
    ]
    assert path.read_bytes().startswith(damaged)
    assert not list(server.folder.glob("*.torn"))
    assert again.load(other).damaged_lines == 0


@pytest.mark.timeout(60)
def test_a_result_joins_a_turn_whose_user_message_is_damaged(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    conversation_id = service.conversation_of("one")
    service.append(
        conversation_id, user("two"), agent("", tool_calls=[ToolCall(id="call", name="look")])
    )
    server.stop()
    path = transcript(server, conversation_id)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = flipped(lines[2])
    path.write_bytes(b"".join(lines))
    again = connect(start_server())
    # The append reads the turn under the conversation's lock, and the gap makes the server compare
    # index and transcript.
    stored = again.append(conversation_id, tool("call", "found it"), agent("Done."))
    assert [message.turn_number for message in stored.messages] == [2, 2]
    loaded = again.load(conversation_id)
    assert (loaded.damaged_lines, loaded.messages[-1].content) == (1, "Done.")


def test_a_line_of_another_conversation_in_the_middle_stores_nothing_twice(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    """A copy of a line that is as long as the last one: the file goes on at a line's end, and not
    where the index ended.
    """
    conversation_id = service.conversation_of("one", "two", "six")
    server.stop()
    path = transcript(server, conversation_id)
    lines = path.read_bytes().splitlines(keepends=True)
    assert len({len(line) for line in lines[1:]}) == 1
    path.write_bytes(b"".join([*lines[:2], b"y" * (len(lines[1]) - 1) + b"\n", *lines[2:]]))
    again = connect(start_server())
    assert [(message.sequence, message.content) for message in again.load(conversation_id).messages] == [
        (2, "one"), (4, "two"), (5, "six"),
    ]  # fmt: skip
    assert [hit.sequence for hit in again.search("six").hits][:1] == [5]
    assert again.get(conversation_id).message_count == 3


def test_a_conversation_of_which_no_line_can_be_read_is_said_to_be_damaged(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    conversation_id, other = service.conversation_of("one", "two"), service.conversation_of("other")
    server.stop()
    delete_index(server)
    path = transcript(server, conversation_id)
    path.write_bytes(
        b"".join(flipped(line) for line in path.read_bytes().splitlines(keepends=True))
    )
    damaged = path.read_bytes()
    again = connect(start_server())
    for call in (
        lambda: again.get(conversation_id),
        lambda: again.load(conversation_id),
        lambda: again.append(conversation_id, user("three")),
        lambda: again.rename(conversation_id, "T"),
        lambda: again.delete(conversation_id),
        lambda: again.context(conversation_id),
    ):
        failure = failure_of(call)
        assert (failure.code, failure.reason) == ("DATA_LOSS", "DATA_DAMAGED")
        assert failure.metadata == {"conversation_id": conversation_id}
        assert f"{conversation_id}.jsonl.torn" in failure.text
    assert path.with_name(f"{path.name}.torn").read_bytes() == damaged
    assert [it.id for it in again.listed().conversations] == [other]
    assert failure_of(lambda: again.get(UNKNOWN)).reason == "CONVERSATION_NOT_FOUND"

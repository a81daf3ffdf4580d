"""Promises of a log store that the layers above rely on, whatever keeps the logs (see
`kernel.log.store`).
"""

import pytest
from recollect_server.kernel.domain.conversation import AnchorSet, Began
from recollect_server.kernel.domain.ids import Kind
from recollect_server.kernel.domain.message import Message, Role
from recollect_server.kernel.log.lines import Entry, Line, encoded
from recollect_server.kernel.log.store import (
    ANCHORS,
    START,
    LogConflict,
    LogNotFound,
    LogStore,
    Position,
    Version,
    has_conversation,
    has_version,
    is_taken,
    lines_at,
)

from tests.logs.conftest import Open

CONVERSATION = "conv-01J00000000000000000000001"
OTHER = "conv-01J00000000000000000000002"
COMMUNICATION = "ext-01J00000000000000000000001"


def message(sequence: int) -> Entry:
    return Entry(Message(Role.USER, f"number {sequence} 🦓", 1, sequence, 1))


def add(store: LogStore, log: str, after: Position, *entries: Entry) -> Position:
    """Append entries; return the new end."""
    lines, data = encoded(entries, *after)
    store.append(log, after, data)
    return end_of(lines)


def begin(store: LogStore, log: str = CONVERSATION, messages: int = 3) -> Position:
    return add(
        store, log, START, Entry(Began(log, "web", 1)), *map(message, range(2, messages + 2))
    )


def end_of(lines: list[Line]) -> Position:
    return Position(lines[-1].sequence, lines[-1].end)


def texts(lines: list[Line]) -> list[str]:
    return [
        line.entry.content.content
        for line in lines
        if line.entry and isinstance(line.entry.content, Message)
    ]


def whole(store: LogStore, log: str = CONVERSATION) -> bytes:
    """Return all bytes of a log."""
    return b"".join(line + b"\n" for line in store.raw(log))


def test_what_was_appended_is_read_in_order_by_everybody(store: LogStore, open_store: Open) -> None:
    end = begin(store)
    end = add(store, CONVERSATION, end, message(5), message(6))
    for reader in (store, open_store()):
        lines = list(reader.read(CONVERSATION))
        assert [line.sequence for line in lines] == [1, 2, 3, 4, 5, 6]
        assert texts(lines) == [f"number {sequence} 🦓" for sequence in range(2, 7)]
        assert end_of(lines) == end
        assert reader.length(CONVERSATION) == end.bytes == len(whole(reader))


def test_a_log_is_read_from_any_position_up_to_another(store: LogStore) -> None:
    end = begin(store)
    lines = list(store.read(CONVERSATION))
    for line in lines:
        behind = Position(line.sequence, line.end)
        assert list(store.read(CONVERSATION, behind)) == lines[line.sequence :]
        assert list(store.read(CONVERSATION, START, line.end)) == lines[: line.sequence]
        assert store.recover(CONVERSATION, behind) is None
    with pytest.raises(LogConflict, match="no line of it ends at byte"):
        store.recover(CONVERSATION, Position(end.lines, end.bytes - 1))
    assert list(store.read(CONVERSATION)) == lines


def test_a_log_is_read_whole_however_long_its_lines_are(store: LogStore) -> None:
    sizes = [10, 3 << 20, 20, 1 << 20, 30, 2 << 20]
    entries = [
        Entry(Message(Role.USER, "x" * size, 1, place, 1)) for place, size in enumerate(sizes, 2)
    ]
    end = add(store, CONVERSATION, START, Entry(Began(CONVERSATION, "web", 1)), *entries)
    lines = list(store.read(CONVERSATION))
    assert [len(text) for text in texts(lines)] == sizes
    assert (end_of(lines), store.length(CONVERSATION)) == (end, end.bytes)
    assert [len(line) + 1 for line in store.raw(CONVERSATION)] == [it.length for it in lines]
    assert list(store.read(CONVERSATION, Position(2, lines[1].end), lines[4].end)) == lines[2:5]
    last = store.read_last(CONVERSATION, end, lines[-1].length + 100)
    assert [line.sequence for line in last] == [7]


def test_lines_are_found_again_at_their_places(store: LogStore) -> None:
    end = begin(store)
    places = [(line.sequence, line.offset, line.length) for line in store.read(CONVERSATION)]
    add(store, CONVERSATION, end, message(5))
    assert texts(lines_at(store, CONVERSATION, [places[3], places[1]])) == [
        "number 4 🦓",
        "number 2 🦓",
    ]
    missing = lines_at(store, CONVERSATION, [(99, 1 << 20, 10)])
    assert missing[0].entry is None
    assert missing[0].damage


def test_lines_of_several_logs_are_read_at_once(store: LogStore) -> None:
    for name in (CONVERSATION, OTHER):
        begin(store, name)
    places = {
        name: [(line.sequence, line.offset, line.length) for line in store.read(name)]
        for name in (CONVERSATION, OTHER)
    }
    absent_log = f"conv-{'0' * 26}"
    some_places = {
        OTHER: [places[OTHER][2]],
        absent_log: [(1, 0, 10)],
        CONVERSATION: places[CONVERSATION][:2],
    }
    lines = store.read_at(some_places)
    assert list(lines) == [OTHER, absent_log, CONVERSATION]
    assert isinstance(lines.pop(absent_log), LogNotFound)
    for name, own in lines.items():
        assert own == lines_at(store, name, some_places[name])
        assert all(line.entry for line in own)
    (damaged,) = store.read_at({CONVERSATION: [(99, 1 << 20, 10)]}).values()
    assert damaged == lines_at(store, CONVERSATION, [(99, 1 << 20, 10)])


def test_the_last_lines_are_read_as_far_as_the_bytes_allow(store: LogStore) -> None:
    end = begin(store)
    length = list(store.read(CONVERSATION))[-1].length
    assert texts(store.read_last(CONVERSATION, end, length + 1)) == ["number 4 🦓"]
    assert [line.sequence for line in store.read_last(CONVERSATION, end, 1 << 20)] == [1, 2, 3, 4]


def test_an_append_that_expects_another_end_adds_nothing_and_says_so(
    store: LogStore, open_store: Open
) -> None:
    end = begin(store)
    before = whole(store)
    for wrong in (Position(3, end.bytes - 1), Position(9, end.bytes + 9), START):
        with pytest.raises(LogConflict):
            add(store, CONVERSATION, wrong, message(wrong.lines + 1))
    assert whole(store) == before
    add(open_store(), CONVERSATION, end, message(5))
    with pytest.raises(LogConflict):
        add(store, CONVERSATION, end, message(5))
    assert texts(list(store.read(CONVERSATION)))[-2:] == ["number 4 🦓", "number 5 🦓"]


def test_a_log_that_is_not_there_is_said_to_be_missing(store: LogStore) -> None:
    with pytest.raises(LogNotFound):
        store.length(CONVERSATION)
    with pytest.raises(LogNotFound):
        list(store.read(CONVERSATION))
    with pytest.raises(LogNotFound):
        lines_at(store, CONVERSATION, [(1, 0, 10)])
    with pytest.raises(LogNotFound):
        add(store, CONVERSATION, Position(1, 10), message(2))
    assert not any(has_version(store, CONVERSATION, version) for version in Version)
    assert not is_taken(store, CONVERSATION)


def test_logs_are_listed_by_kind_with_their_length(store: LogStore) -> None:
    ends = {name: begin(store, name) for name in (CONVERSATION, OTHER, COMMUNICATION)}
    add(store, ANCHORS, START, Entry(AnchorSet("name", "Alex", 1.0, 0, 1)))
    assert dict(store.logs(Kind.CONVERSATION)) == {
        name: ends[name].bytes for name in (CONVERSATION, OTHER)
    }
    assert dict(store.logs(Kind.COMMUNICATION)) == {COMMUNICATION: ends[COMMUNICATION].bytes}


@pytest.mark.parametrize(
    "name", ["", "../conv-01J00000000000000000000001", "conv-x", f"{CONVERSATION}/..", "a.b", "a\0"]
)
def test_what_is_not_the_name_of_a_log_is_refused(store: LogStore, name: str) -> None:
    with pytest.raises(ValueError, match="not the name of a log"):
        store.length(name)
    assert not is_taken(store, name)


def test_a_replaced_log_has_the_new_lines_and_nothing_else(
    store: LogStore, open_store: Open
) -> None:
    before = add(
        store,
        ANCHORS,
        START,
        Entry(AnchorSet("name", "Alex", 1.0, 0, 1)),
        Entry(AnchorSet("town", "Bern", 1.0, 0, 1)),
    )
    lines, data = encoded([Entry(AnchorSet("town", "Bern", 1.0, 0, 1))])
    store.swap(ANCHORS, data)
    for reader in (store, open_store()):
        assert list(reader.read(ANCHORS)) == lines
        assert b"Alex" not in whole(reader, ANCHORS)
    with pytest.raises(LogConflict):
        add(store, ANCHORS, before, Entry(AnchorSet("name", "Bo", 1.0, 0, 1)))
    add(store, ANCHORS, end_of(lines), Entry(AnchorSet("name", "Bo", 1.0, 0, 1)))


def test_a_log_that_has_no_line_any_more_is_there_all_the_same(store: LogStore) -> None:
    begin(store)
    store.swap(CONVERSATION, [])
    assert store.length(CONVERSATION) == 0
    assert has_version(store, CONVERSATION, Version.PRESENT)
    assert has_conversation(store, CONVERSATION)
    assert is_taken(store, CONVERSATION)


def test_a_deleted_log_is_gone_at_once_and_readable_until_its_delete_ends(
    store: LogStore, open_store: Open
) -> None:
    end = begin(store)
    begin(store, OTHER)
    before = list(store.raw(CONVERSATION))
    (place,) = [(it.sequence, it.offset, it.length) for it in store.read(CONVERSATION)][1:2]
    store.swap(CONVERSATION, None)
    for reader in (store, open_store()):
        for read in (
            lambda it: lines_at(it, CONVERSATION, [place]),
            lambda it: it.read_last(CONVERSATION, end, 1000),
            lambda it: list(it.read(CONVERSATION)),
        ):
            with pytest.raises(LogNotFound):
                read(reader)
        assert [name for name, _ in reader.logs(Kind.CONVERSATION)] == [OTHER]
        assert list(reader.logs(Kind.CONVERSATION, Version.DELETED)) == [(CONVERSATION, end.bytes)]
        assert reader.length(CONVERSATION, Version.DELETED) == end.bytes
        assert list(reader.raw(CONVERSATION, Version.DELETED)) == before
        assert not has_version(reader, CONVERSATION, Version.PRESENT)
        assert is_taken(reader, CONVERSATION)
        with pytest.raises(LogNotFound):
            add(reader, CONVERSATION, end, message(5))
    assert store.drop(CONVERSATION, Version.DELETED) == {"transcript": end.bytes}
    for kind in Kind:
        assert list(store.logs(kind, Version.DELETED)) == []
    assert not is_taken(store, CONVERSATION)
    with pytest.raises(LogNotFound):
        list(store.raw(CONVERSATION, Version.DELETED))


def test_a_redacted_log_has_its_new_lines_and_is_readable_as_it_was_until_it_ends(
    store: LogStore, open_store: Open
) -> None:
    begin(store)
    before = whole(store).splitlines(keepends=True)
    new = [*before[:2], before[2].replace(b"number 3", b"xxxxxxxx"), before[3], b'{"more":1}\n']
    size = sum(map(len, before))
    assert list(store.logs(Kind.CONVERSATION, Version.REPLACED)) == []
    store.swap(CONVERSATION, new, keep=True)
    for reader in (store, open_store()):
        assert list(reader.logs(Kind.CONVERSATION, Version.REPLACED)) == [(CONVERSATION, size)]
        assert whole(reader) == b"".join(new)
        assert reader.length(CONVERSATION, Version.REPLACED) == size
        assert [*reader.raw(CONVERSATION, Version.REPLACED)] == [it[:-1] for it in before]
    end = Position(5, sum(map(len, new)))
    add(store, CONVERSATION, end, message(6))
    assert store.drop(CONVERSATION, Version.REPLACED) == {"transcript": size}
    assert list(store.logs(Kind.CONVERSATION, Version.REPLACED)) == []
    with pytest.raises(LogNotFound):
        list(store.raw(CONVERSATION, Version.REPLACED))
    assert store.length(CONVERSATION) > end.bytes


def test_recovering_whole_lines_shows_them_and_cuts_nothing(store: LogStore) -> None:
    end = begin(store)
    shown: list[Line] = []
    assert store.recover(CONVERSATION, see=shown.append) is None
    assert shown == list(store.read(CONVERSATION))
    assert store.recover(CONVERSATION, end) is None

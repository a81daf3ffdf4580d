"""States of logs at a change, and the updates of an index from before they were in one table."""

from collections.abc import Callable
from pathlib import Path
from typing import cast

import apsw
import pytest
from recollect_server.kernel.domain.conversation import Began, Conversation, fold
from recollect_server.kernel.domain.ids import Action, Kind
from recollect_server.kernel.domain.message import Message, Role
from recollect_server.kernel.index import migrations
from recollect_server.kernel.index.columns import UpdateRow
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.log.lines import Entry, Line
from recollect_server.kernel.log.order import OrderedChange
from recollect_server.kernel.log.store import LogNotFound, LogStore
from recollect_server.kernel.stream.log import _watched
from recollect_server.kernel.stream.replaying import Replaying
from recollect_server.kernel.stream.ring import Interest
from recollect_server.run.features import FEATURES

NAME, OTHER = "conv-01J00000000000000000000001", "conv-01J00000000000000000000002"
TEXT = Entry(Message(Role.USER, "x", 1, turn_number=1))


def change(
    sequence: int, entry: Entry = TEXT, log: str = NAME, action: Action = Action.APPEND
) -> OrderedChange:
    line = Line(sequence, sequence * 10, 10, entry)
    return OrderedChange(
        *(sequence, 0, 0, log, Kind.CONVERSATION, action),
        *(line.offset, line.end, 1, "", [line]),
        is_last=True,
    )


class Gone:
    """A store whose logs are all deleted."""

    def read(self, name: str, *_: object) -> list[Line]:
        raise LogNotFound(name, "read", "it is deleted")


def test_a_log_that_is_gone_has_no_state_though_it_had_one_just_before() -> None:
    def folded(before: Conversation | None, line: Line, name: str) -> Conversation | None:
        assert line.entry is not None
        return fold(before, line.entry.content)

    states = Replaying(cast(LogStore, Gone()), folded, lambda _: None)
    first = change(0, Entry(Began(NAME, "web", 1)))
    assert states.behind(first) is not None
    assert states.behind(change(1)) is not None
    assert states.behind(change(3)) is None  # it lacks the lines between


def test_of_other_logs_a_filter_leaves_out_the_appends_alone_as_states_are_kept_for_all() -> None:
    own = change(1)
    appended, redacted, deleted = (
        change(2, log=OTHER, action=it) for it in (Action.APPEND, Action.REDACT, Action.DELETE)
    )
    watched = _watched([own, appended, redacted, deleted], Interest(frozenset([NAME])))
    assert watched == [own, redacted, deleted]


EPOCH = "0123456789ab"
Opened = Callable[[str], Index]


@pytest.fixture
def opened(tmp_path: Path, request: pytest.FixtureRequest) -> Opened:
    """Open an index that has these rows, and has a table of updates for each kind of log."""
    steps = migrations.MIGRATIONS[: migrations.MIGRATIONS.index(migrations._one_update_log)]

    def make(rows: str) -> Index:
        before = apsw.Connection(str(tmp_path / "conversations.db"))
        before.execute(migrations._TABLES)
        before.execute("INSERT INTO identity VALUES('epoch', ?)", (EPOCH,))
        for step in steps:
            step(before)
        before.pragma("user_version", migrations.OLDEST + len(steps))
        before.execute(rows)
        before.close()
        index = Index(tmp_path, FEATURES.tables)
        request.addfinalizer(index.close)
        assert index.log.epoch == EPOCH
        return index

    return make


def rows_of(index: Index, kind: Kind) -> list[UpdateRow]:
    return index.log.changes(0, kind, 10, 1 << 20).rows


def reached(index: Index, kind: Kind) -> list[int]:
    """Return the first cursors that the log reaches back to."""
    return [it for it in range(10) if index.log.reaches_back_to(it, kind)]


def test_cursors_of_communications_outlive_the_move_of_their_updates_to_the_one_log(
    opened: Opened,
) -> None:
    index = opened(
        """
        INSERT INTO updates VALUES(3, 1, 'created', 10, 1, 1, ''),
            (9, 2, 'deleted', 40, 0, 0, 'conv-1 web');
        INSERT INTO external_updates VALUES(5, 1, 'message', 20, 2, ''),
            (12, 1, 'escalated', 50, 3, 'esc-1'), (14, 2, 'deleted', 60, 0, 'ext-2');
        INSERT INTO identity VALUES('updates_pruned', '2'), ('external_updates_pruned', '4'),
            ('cursors_lost', '[[6,8]]'), ('external_cursors_lost', '[[6,8]]');
        UPDATE sqlite_sequence SET seq = 20 WHERE name = 'external_updates';
        """
    )
    assert index.log.last_cursor() == 20
    assert reached(index, Kind.CONVERSATION) == [2, 3, 4, 5, 6, 8, 9]
    assert reached(index, Kind.COMMUNICATION) == [4, 5, 6, 8, 9]
    assert rows_of(index, Kind.CONVERSATION) == [
        UpdateRow(3, 1, Kind.CONVERSATION, 10, 1, 1),
        UpdateRow(9, 2, Kind.CONVERSATION, 40, 0, 0, "conv-1 web"),
    ]
    assert rows_of(index, Kind.COMMUNICATION) == [
        UpdateRow(5, 1, Kind.COMMUNICATION, 20, 2, 2),
        UpdateRow(12, 1, Kind.COMMUNICATION, 50, 3, 3),
        UpdateRow(14, 2, Kind.COMMUNICATION, 60, 0, 0, "ext-2 "),
    ]


@pytest.mark.parametrize(("pruned", "reach"), [(0, 3), (2, 3), (4, 4)])
def test_cursors_that_both_kinds_gave_out_end_for_communications_alone(
    pruned: int, reach: int, opened: Opened
) -> None:
    index = opened(
        f"""
        INSERT INTO updates VALUES(1, 1, 'created', 10, 1, 1, ''), (3, 1, 'messages', 30, 2, 2, '');
        INSERT INTO external_updates VALUES(3, 1, 'message', 20, 2, ''),
            (5, 1, 'message', 40, 3, '');
        INSERT INTO identity SELECT 'external_updates_pruned', '{pruned}' WHERE {pruned};
        INSERT INTO identity VALUES('cursors_lost', '[[6,8]]'),
            ('external_cursors_lost', '[[6,8],[7,9]]');
        """
    )
    assert index.log.last_cursor() == 5
    assert reached(index, Kind.CONVERSATION) == [0, 1, 2, 3, 4, 5, 6, 9]
    assert reached(index, Kind.COMMUNICATION) == [*range(reach, 7), 9]
    assert [row.cursor for row in rows_of(index, Kind.CONVERSATION)] == [1, 3]
    assert [row.cursor for row in rows_of(index, Kind.COMMUNICATION)] == [5]


@pytest.mark.parametrize("rows", ["", "INSERT INTO updates VALUES(1, 1, 'created', 10, 1, 1, '')"])
def test_an_index_without_any_communication_gets_the_one_log(rows: str, opened: Opened) -> None:
    index = opened(rows)
    assert index.log.last_cursor() == len(rows_of(index, Kind.CONVERSATION)) == bool(rows)
    assert rows_of(index, Kind.COMMUNICATION) == []
    for kind in (Kind.CONVERSATION, Kind.COMMUNICATION):
        assert reached(index, kind) == list(range(10))


def test_each_kind_of_log_is_pruned_by_itself(opened: Opened) -> None:
    index = opened(
        """
        INSERT INTO updates
            SELECT value, 1, 'messages', value, 1, 1, '' FROM json_each('[4,5,6,7,8,9]');
        INSERT INTO external_updates VALUES(1, 1, 'message', 1, 2, ''), (3, 1, 'message', 3, 3, '');
        """
    )
    for kind, through in ((Kind.CONVERSATION, 7), (Kind.COMMUNICATION, 0)):
        assert index.log.prunable(kind, before=0, most=2) == through
    for kind, through in ((Kind.CONVERSATION, 4), (Kind.COMMUNICATION, 9)):
        assert index.log.prunable(kind, before=5, most=10) == through
    assert index.log.prune(Kind.CONVERSATION, 7, 10) == 4
    assert reached(index, Kind.CONVERSATION) == [7, 8, 9]
    assert reached(index, Kind.COMMUNICATION) == list(range(10))
    assert [row.cursor for row in rows_of(index, Kind.COMMUNICATION)] == [1, 3]
    assert index.log.prune(Kind.COMMUNICATION, 3, 1) == 1
    assert reached(index, Kind.COMMUNICATION) == list(range(1, 10))
    assert [row.cursor for row in rows_of(index, Kind.CONVERSATION)] == [8, 9]

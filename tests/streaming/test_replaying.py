"""States of logs at a change, and the table of updates of an index from before they were in one."""

from pathlib import Path
from typing import Any, cast

import apsw
from recollect_server.domain.conversation import Began, Conversation, fold
from recollect_server.domain.message import Message, Role
from recollect_server.services.streaming.replaying import Replaying
from recollect_server.storage.index import migrations
from recollect_server.storage.index.columns import UpdateRow
from recollect_server.storage.index.index import Index
from recollect_server.storage.logs.kinds import Action, Kind
from recollect_server.storage.logs.lines import Entry, Line
from recollect_server.storage.logs.order import OrderedChange
from recollect_server.storage.logs.store import LogNotFound, LogStore

NAME = "conv-01J00000000000000000000001"


class Gone:
    """A store whose logs are all deleted."""

    def read(self, name: str, *_: object) -> list[Line]:
        raise LogNotFound(name, "read", "it is deleted")


def test_a_log_that_is_gone_has_no_state_though_it_had_one_just_before() -> None:
    def folded(before: Conversation | None, line: Line, name: str) -> Conversation | None:
        assert line.entry is not None
        return fold(before, line.entry.content)

    def change(sequence: int, entry: Entry) -> OrderedChange:
        line = Line(sequence, sequence * 10, 10, entry)
        return OrderedChange(
            *(sequence, 0, 0, NAME, Kind.CONVERSATION, Action.APPEND),
            *(line.offset, line.end, 1, "", [line]),
            is_last=True,
        )

    states = Replaying(cast(LogStore, Gone()), folded, lambda _: None)
    first = change(0, Entry(Began(NAME, "web", 1)))
    assert states.behind(first) is not None
    text = Entry(Message(Role.USER, "x", 1, turn_number=1))
    assert states.behind(change(1, text)) is not None
    assert states.behind(change(3, text)) is None  # it lacks the lines between


def test_cursors_of_communications_outlive_the_move_of_their_updates_to_the_one_log(
    tmp_path: Path,
) -> None:
    path = tmp_path / "conversations.db"
    before = apsw.Connection(str(path))
    before.execute(migrations._TABLES)
    before.execute("INSERT INTO identity VALUES('epoch', '0123456789ab')")
    steps = [it for it in migrations.MIGRATIONS if it is not migrations._one_update_log]
    for step in steps:
        step(before)
    before.pragma("user_version", migrations.OLDEST + len(steps))
    before.execute(
        """
        INSERT INTO updates VALUES(3, 1, 'created', 10, 1, 1, ''), (9, 2, 'deleted', 40, 0, 0, ?);
        INSERT INTO external_updates VALUES(5, 1, 'message', 20, 2, ''),
            (12, 1, 'escalated', 50, 3, 'esc-1'), (14, 2, 'deleted', 60, 0, 'ext-2');
        INSERT INTO identity VALUES('updates_pruned', '2'), ('external_updates_pruned', '4'),
            ('cursors_lost', '[[6,8]]'), ('external_cursors_lost', '[[6,8]]');
        UPDATE sqlite_sequence SET seq = 20 WHERE name = 'external_updates';
        """,
        (f"{NAME} web",),
    )
    before.close()
    index = Index(tmp_path)
    assert index.log.last_cursor() == 20
    assert [index.log.reaches_back_to(it) for it in (3, 4, 7, 8)] == [False, True, False, True]
    rows: dict[Kind, Any] = {
        kind: index.log.changes(0, kind, 10, 1 << 20).rows
        for kind in (Kind.CONVERSATION, Kind.COMMUNICATION)
    }
    assert rows[Kind.CONVERSATION] == [
        UpdateRow(3, 1, Kind.CONVERSATION, 10, 1, 1),
        UpdateRow(9, 2, Kind.CONVERSATION, 40, 0, 0, f"{NAME} web"),
    ]
    assert rows[Kind.COMMUNICATION] == [
        UpdateRow(5, 1, Kind.COMMUNICATION, 20, 2, 2),
        UpdateRow(12, 1, Kind.COMMUNICATION, 50, 3, 3),
        UpdateRow(14, 2, Kind.COMMUNICATION, 60, 0, 0, "ext-2 "),
    ]
    index.close()

"""Rows that the index reads for a change of one conversation, however many others there are."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from recollect_server.kernel.domain.conversation import Began
from recollect_server.kernel.domain.message import Message, Role
from recollect_server.kernel.erase.deletion import DELETE_ANCHORS
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.log.folder import FolderStore
from recollect_server.kernel.space.space import Space
from recollect_server.run.features import FEATURES

TIME = 1_790_000_000_000


class Scans:
    """Rows that the writer of an index reads by scans of whole tables, by statement."""

    def __init__(self, index: Index) -> None:
        self._writer = index.writer
        self.rows: Counter[str] = Counter()

    def __enter__(self) -> "Scans":
        self._trace(apsw.SQLITE_TRACE_PROFILE, self._count)
        return self

    def __exit__(self, *_: object) -> None:
        self._trace(0, None)

    def _trace(self, mask: int, count: Callable[[dict[str, Any]], None] | None) -> None:
        self._writer.write(lambda connection, _: connection.trace_v2(mask, count))

    def _count(self, event: dict[str, Any]) -> None:
        if rows := event["stmt_status"]["SQLITE_STMTSTATUS_FULLSCAN_STEP"]:
            self.rows[event["sql"]] += rows


def message(sequence: int, sender: str) -> Message:
    return Message(Role.USER, f"apricot {sequence}", TIME, sequence, sequence - 1, sender=sender)


@pytest.mark.parametrize("change", ["delete", "new sender"])
def test_a_conversation_is_changed_and_deleted_without_a_scan_of_what_all_others_have(
    tmp_path: Path, change: str
) -> None:
    counts: list[Counter[str]] = []
    for conversations in (10, 50):
        store = FolderStore(tmp_path / str(conversations))
        store.create()
        index = Index(store.root, FEATURES.tables)
        space = Space(store, index, FEATURES, lambda: TIME)
        names = [f"conv-01J{number:023d}" for number in range(conversations)]
        for name in names:
            began = Began(name, "web", TIME, (f"one of {name}", "two"))
            space.begin([began, message(2, f"one of {name}")], None)
        index.settle()
        with Scans(index) as scans:
            if change == "delete":
                space.deletions.delete(names[5], DELETE_ANCHORS)
            else:
                with space.writing(names[5]) as state:
                    space.append(state, [message(3, "three")])
                index.settle()
        counts.append(scans.rows)
        check = "SELECT participant, number FROM participants WHERE number = ? ORDER BY participant"
        with index.reading() as connection:
            rows = [name for name, _ in connection.execute(check, (6,))]
            others = connection.execute("SELECT count(*) FROM participants").get
        assert rows == ([] if change == "delete" else [f"one of {names[5]}", "three", "two"])
        assert others == 2 * conversations + (-2 if change == "delete" else 1)
        space.close()
    assert counts[0] == counts[1], "it reads more rows the more conversations there are"

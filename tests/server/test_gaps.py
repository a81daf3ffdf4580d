"""Gaps in the pages of a SQLite file have no copies of deleted rows after they were wiped."""

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from recollect_server.kernel.index.gaps import Gaps, Wiped

ROWS = 2000


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[apsw.Connection]:
    with closing(apsw.Connection(str(tmp_path / "rows.db"))) as connection:
        connection.pragma("journal_mode", "wal")
        connection.pragma("secure_delete", True)
        connection.execute(
            "CREATE TABLE rows(id INTEGER PRIMARY KEY, text TEXT NOT NULL);"
            "CREATE TABLE names(text TEXT PRIMARY KEY, id INTEGER) WITHOUT ROWID;"
            "CREATE INDEX rows_by_text ON rows(text)"
        )
        yield connection


def fill(connection: apsw.Connection, rng: random.Random) -> dict[int, str]:
    """Add rows, and let them grow in no order, so that they move. Return their words."""
    words = {it: "".join(rng.choices("bcdfghjklmnpqrstvwxz", k=14)) for it in range(ROWS)}
    with connection:
        connection.executemany("INSERT OR REPLACE INTO rows VALUES(?, ?)", list(words.items()))
        connection.executemany("INSERT INTO names SELECT ?2, ?1 WHERE true", list(words.items()))
    for number in rng.sample([*words], ROWS):
        connection.execute(
            "UPDATE rows SET text = text || ? WHERE id = ?", (" grows" * rng.randrange(30), number)
        )
    return words


def left(connection: apsw.Connection, words: list[str]) -> int:
    """Return how many of the words stand in the files."""
    data = Path(connection.filename).read_bytes() + Path(connection.filename_wal).read_bytes()
    return sum(word.encode() in data for word in words)


def wipe(gaps: Gaps) -> None:
    while (wiped := gaps.wipe()) is not Wiped.ALL:
        assert wiped is Wiped.PART


def delete(connection: apsw.Connection, words: dict[int, str]) -> list[str]:
    """Delete every fifth row, and return the words of those."""
    numbers = [*words][::5]
    connection.executemany("DELETE FROM rows WHERE id = ?", [(it,) for it in numbers])
    connection.executemany("DELETE FROM names WHERE id = ?", [(it,) for it in numbers])
    return [words.pop(it) for it in numbers]


def test_no_copy_of_a_deleted_row_is_left_and_every_other_row_is_as_it_was(
    connection: apsw.Connection,
) -> None:
    rng = random.Random(5)  # noqa: S311 - a test's numbers
    gaps = Gaps(connection)
    for _ in range(3):  # all pages first, then those that changed, some by checkpoints in between
        connection.execute("DELETE FROM rows")
        connection.execute("DELETE FROM names")
        words = fill(connection, rng)
        deleted = delete(connection, words)
        rows = connection.execute("SELECT * FROM rows ORDER BY id").fetchall()
        assert left(connection, deleted)
        wipe(gaps)
        assert left(connection, deleted) == 0
        assert left(connection, [*words.values()]) == len(words)
        assert connection.execute("SELECT * FROM rows ORDER BY id").fetchall() == rows
        assert connection.execute("PRAGMA integrity_check").get == "ok"


def test_what_is_written_behind_a_wipe_brings_no_copy_back(connection: apsw.Connection) -> None:
    """The connection keeps pages in its cache as they were before."""
    rng = random.Random(3)  # noqa: S311 - a test's numbers
    gaps = Gaps(connection)
    connection.execute("CREATE TABLE notes(id INTEGER PRIMARY KEY, text TEXT, more TEXT)")
    words = {it: "".join(rng.choices("bcdfghjklmnpqrstvwxz", k=14)) for it in range(3000)}
    with connection:
        connection.executemany("INSERT INTO notes(id, text) VALUES(?, ?)", list(words.items()))
    for number in rng.sample([*words], len(words)):
        more = "n " * rng.randrange(100)
        connection.execute("UPDATE notes SET more = ? WHERE id = ?", (more, number))
    deleted = [words.pop(it) for it in [*words][::5]]
    for word in deleted:
        connection.execute("DELETE FROM notes WHERE text = ?", (word,))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert left(connection, deleted), "no copy is in a gap: the test shows nothing"
    wipe(gaps)
    connection.executemany("UPDATE notes SET text = upper(text) WHERE id = ?", zip(words))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert left(connection, deleted) == 0


def test_pages_that_another_process_wrote_are_wiped_too(connection: apsw.Connection) -> None:
    rng = random.Random(6)  # noqa: S311 - a test's numbers
    gaps = Gaps(connection)
    wipe(gaps)
    with closing(apsw.Connection(connection.filename)) as other:
        other.pragma("secure_delete", True)
        words = fill(other, rng)
        deleted = delete(other, words)
        other.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.execute("INSERT INTO rows VALUES(-1, '')")
    wipe(gaps)
    assert left(connection, deleted) == 0
    assert connection.execute("PRAGMA integrity_check").get == "ok"


def test_nothing_is_wiped_while_another_process_writes(connection: apsw.Connection) -> None:
    gaps = Gaps(connection)
    connection.execute("INSERT INTO rows VALUES(1, 'one')")
    with closing(apsw.Connection(connection.filename)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert gaps.wipe() is Wiped.NONE
        other.execute("ROLLBACK")
    wipe(gaps)

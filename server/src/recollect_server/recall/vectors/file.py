"""The file `vectors.db`: its tables, how it is opened, and what its failures are called."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from recollect_server.kernel.index.sqlite import DAMAGE, connected
from recollect_server.recall.model.marks import DIMENSIONS

NAME = "vectors.db"
_VERSION = 1
_NAMES = {
    "models", "facts", "conversations", "progress", "texts", "places",
    "vectors", "vectors_chunks", "vectors_rowids", "vectors_vector_chunks00",
}  # fmt: skip
_TABLES = """
    CREATE TABLE models(model INTEGER PRIMARY KEY, identity TEXT NOT NULL UNIQUE, folder TEXT NOT NULL);
    CREATE TABLE facts(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE conversations(key INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE);
    -- How many lines of each transcript were looked at, with each model.
    CREATE TABLE progress(model INTEGER, key INTEGER, lines INTEGER NOT NULL, PRIMARY KEY(model, key)) WITHOUT ROWID;
    CREATE TABLE texts(
        text INTEGER PRIMARY KEY AUTOINCREMENT, model INTEGER NOT NULL, hash BLOB NOT NULL, pieces INTEGER NOT NULL,
        UNIQUE(model, hash));
    CREATE TABLE places(
        model INTEGER, place INTEGER, text INTEGER NOT NULL, pieces INTEGER NOT NULL, time INTEGER NOT NULL,
        marks INTEGER NOT NULL, PRIMARY KEY(model, place)) WITHOUT ROWID;
    CREATE INDEX places_by_text ON places(text);
"""

_PARTS = """
    -- Vectors of texts that are too long to be embedded at once, until all pieces of the text are there.
    CREATE TABLE IF NOT EXISTS parts(
        model INTEGER, hash BLOB, piece INTEGER, conversation TEXT NOT NULL, vector BLOB NOT NULL,
        PRIMARY KEY(model, hash, piece)) WITHOUT ROWID;
"""

_CODES = """
    -- Codes of the word pieces of texts (`recall.model.word_codes`). They go with the text, whoever
    -- removes it: also a server of before that does not know this table.
    CREATE TABLE IF NOT EXISTS codes(text INTEGER PRIMARY KEY, codes BLOB NOT NULL);
    CREATE TRIGGER IF NOT EXISTS codes_go_with_texts AFTER DELETE ON texts BEGIN
        DELETE FROM codes WHERE text = old.text;
    END;
"""


_STATEMENTS = """
    -- Where the statements of users' texts stand (`recall.model.statement_classes`), as the codes do.
    CREATE TABLE IF NOT EXISTS statements(text INTEGER PRIMARY KEY, statements BLOB NOT NULL);
    CREATE TRIGGER IF NOT EXISTS statements_go_with_texts AFTER DELETE ON texts BEGIN
        DELETE FROM statements WHERE text = old.text;
    END;
"""

_ASKED = """
    -- Which word pieces of texts ask (`recall.model.questions`): only of texts that do.
    CREATE TABLE IF NOT EXISTS asked(text INTEGER PRIMARY KEY, pieces BLOB NOT NULL);
    CREATE TRIGGER IF NOT EXISTS asked_go_with_texts AFTER DELETE ON texts BEGIN
        DELETE FROM asked WHERE text = old.text;
    END;
"""


class VectorsUnavailable(Exception):
    """The file cannot be used; the text says why."""


class VectorsDamaged(VectorsUnavailable):
    """It can never be used again: it is to be made anew."""


def connect(path: Path) -> apsw.Connection:
    """Open or create the file. Raises VectorsUnavailable, VectorsDamaged."""
    try:
        import sqlite_vec

        extension = sqlite_vec.loadable_path()
    except ImportError as error:
        raise VectorsUnavailable(f"sqlite-vec is not installed: {error}") from error
    with failures():
        connection = connected(path)
    try:
        with failures():
            _prepare(connection, path, extension)
    except BaseException:
        connection.close(force=True)
        raise
    return connection


def connect_to_read(path: Path) -> apsw.Connection:
    """Open the file, which is there, for reading beside the connection that writes. Raises
    VectorsUnavailable, VectorsDamaged.
    """
    with failures():
        connection = connected(path, apsw.SQLITE_OPEN_READONLY)
        connection.set_busy_timeout(5000)
        return connection


def _prepare(connection: apsw.Connection, path: Path, extension: str) -> None:
    try:
        connection.enable_load_extension(True)
        connection.load_extension(extension)
        connection.enable_load_extension(False)
    except (apsw.Error, AttributeError) as error:
        raise VectorsUnavailable(f"sqlite-vec cannot be loaded: {error}") from error
    path.chmod(0o600)
    connection.set_busy_timeout(5000)
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "NORMAL")
    # Rows and pages that are freed are overwritten with zeros; `Gaps` has the copies of rows.
    connection.pragma("secure_delete", True)
    version = connection.pragma("user_version")
    if version == 0:
        with connection:
            connection.execute(_TABLES)
            connection.execute(
                f"CREATE VIRTUAL TABLE vectors USING vec0(embedding int8[{DIMENSIONS}])"
            )
            connection.pragma("user_version", _VERSION)
    elif version != _VERSION:
        raise VectorsDamaged(f"{NAME} is of version {version} and this program knows {_VERSION}")
    with connection:
        connection.execute(_PARTS)
    tables = {
        row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
    }
    if missing := _NAMES - tables:
        raise VectorsDamaged(f"{NAME} lacks tables: {', '.join(sorted(missing))}")
    with connection:  # its trigger needs the tables
        connection.execute(_CODES)
        connection.execute(_STATEMENTS)
        connection.execute(_ASKED)


def remove_files(folder: Path) -> None:
    """Remove the file, its log and its shared memory. Raises OSError."""
    for suffix in ("", "-wal", "-shm"):
        (folder / f"{NAME}{suffix}").unlink(missing_ok=True)


@contextmanager
def failures() -> Iterator[None]:
    """Turn errors of SQLite and of the system into this package's."""
    try:
        yield
    except DAMAGE as error:
        raise VectorsDamaged(f"{NAME} is damaged: {error}") from error
    except apsw.SQLError as error:  # a table is missing or of another shape
        raise VectorsDamaged(f"{NAME} is not what it should be: {error}") from error
    except (apsw.Error, OSError) as error:
        raise VectorsUnavailable(f"{NAME} cannot be used: {error}") from error

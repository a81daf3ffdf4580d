"""Every log store, empty. Another implementation joins the list, and must pass what the first
passes.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from recollect_server.kernel.log.folder import FolderStore
from recollect_server.kernel.log.store import LogStore
from recollect_server.postgres.database import PostgresDatabase
from recollect_server.postgres.store import PostgresStore

from tests.postgres import Postgres

Open = Callable[[], LogStore]
"""Opens the same logs, as another process would."""
Opened = Callable[[str], PostgresDatabase]
"""Opens a database by its address."""


@pytest.fixture
def database(postgres: Postgres) -> Iterator[PostgresDatabase]:
    """Open a new database."""
    opened = PostgresDatabase(postgres.new_database())
    yield opened
    opened.close()


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Open databases, which are closed at the end."""
    databases: list[PostgresDatabase] = []

    def open_one(url: str) -> PostgresDatabase:
        databases.append(PostgresDatabase(url))
        return databases[-1]

    yield open_one
    for database in databases:
        database.close()


@pytest.fixture(params=["folder", "postgres"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    if request.param == "folder":
        return lambda: FolderStore(tmp_path / "conversations", sync=False)
    database = request.getfixturevalue("database")
    return lambda: PostgresStore(database, "default", tmp_path)


@pytest.fixture
def store(open_store: Open) -> LogStore:
    return open_store()

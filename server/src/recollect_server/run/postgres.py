"""The stores in a database of PostgreSQL. Imported only where the setting `store` names one, for it
needs the extra `postgres`.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import structlog

from recollect_server.access.token_log import TokenLedger
from recollect_server.kernel.domain.errors import NoBackupFolder
from recollect_server.kernel.log.folder import FolderStore
from recollect_server.kernel.log.moves import refusal
from recollect_server.kernel.log.space_removal import SpaceReceipt
from recollect_server.kernel.log.store import LogStore
from recollect_server.postgres.connections import DatabaseBusy, DatabaseRefused, DatabaseUnavailable
from recollect_server.postgres.database import PostgresDatabase, Session
from recollect_server.postgres.spaces import PostgresSpaces
from recollect_server.postgres.store import PostgresStore
from recollect_server.postgres.tokens import PostgresTokenLedger, PostgresTokenUses
from recollect_server.run.database_state import DatabaseState
from recollect_server.run.folder import CannotStart
from recollect_server.run.jobs.loop import Loop
from recollect_server.run.settings import Settings
from recollect_server.run.settings.values import LogStoreName

log = structlog.get_logger("recollect.postgres")

_PREPARES = {"on": True, "off": False, "auto": None}
_LOOK_SECONDS = 2.0  # between two looks at the database, for health and metrics


@contextmanager
def opened_tokens(store: LogStoreName) -> Iterator[tuple[PostgresTokenLedger, PostgresTokenUses]]:
    """Open the ledger of tokens in a database and the counts of their use, beside its servers.
    Raises CannotStart.
    """
    with _refusing(store, "--store"):
        session = Session(store.url)
    with closing(session):
        yield PostgresTokenLedger(session), PostgresTokenUses(session)


@contextmanager
def _refusing(store: LogStoreName, flag: str) -> Iterator[None]:
    """Turn what a database refuses into a start-up error."""
    try:
        yield
    except DatabaseRefused as error:
        raise CannotStart(str(error)) from error
    except DatabaseUnavailable as error:
        raise CannotStart(
            f"cannot use the database {store}: {error}: start it or correct its URL, or name another"
            f" database with {flag}"
        ) from error


class PostgresStores:
    """The stores in one database, and the local folders of what is derived from them."""

    def __init__(self, settings: Settings) -> None:
        """Open the database. Raises CannotStart."""
        self._data_dir = settings.data_dir
        with _refusing(settings.store, "--store"):
            self._database = PostgresDatabase(
                settings.store.url,
                connections=settings.store_connections,
                prepares=_PREPARES[settings.store_prepared_statements],
            )
        self._spaces = spaces = PostgresSpaces(self._database, self._data_dir)
        if reason := refusal(spaces, f"the database {settings.store}"):
            self._database.close()
            raise CannotStart(reason)
        self.names, self.receipts = spaces.names, spaces.receipts
        self.make, self.remove = spaces.make, spaces.remove
        self.follow_removals, self.awaited = spaces.follow, spaces.awaited
        self.expect_close = self._database.expect_close
        self._state = DatabaseState()
        # In a thread of its own: a health check must not wait for a database that is away.
        self._looks = Loop("database-look", self._look)
        self._looks.start()

    @property
    def place(self) -> str:
        """Return the URL of the database, without its password."""
        return self._database.name

    def of(self, space: str) -> LogStore:
        return PostgresStore(self._database, space, self._data_dir / space)

    def exists(self, space: str) -> bool:
        """Return whether a space has a log in the database, or a local folder. Raises
        LogUnavailable.
        """
        return os.path.lexists(self._data_dir / space) or self._spaces.has_rows(space)

    def folder_of(self, space: str) -> FolderStore:
        """Refuse: there is none. Raises NoBackupFolder."""
        raise NoBackupFolder(
            f"the logs of {space} are in a database. Back it up with pg_dump, or copy all logs to a"
            " folder with `recollect-server migrate`"
        )

    def check_name(self, space: str) -> None:
        """Do nothing: what is in the database is a space."""

    def is_space(self, name: str) -> bool:
        """Return whether a space has a log in the database, was made, or has a local index."""
        if self._spaces.has(name):
            return True
        store = PostgresStore(self._database, name, self._data_dir / name)
        # The folder of one that another server deleted goes within a second.
        return store.root.is_dir() and not any(it.name == name for it in self._spaces.receipts())

    def remove_unused(self, space: str, is_derived: Callable[[str], bool]) -> bool:
        """Remove the local folder of a space that has no log in the database."""
        store = PostgresStore(self._database, space, self._data_dir / space)
        return not self._spaces.has_rows(space) and FolderStore(store.root).remove_without_logs(
            is_derived
        )

    def finish_removals(self, now: int) -> list[SpaceReceipt]:
        """End the deletes that were interrupted. Raises LogUnavailable, OSError."""
        del now  # the receipts have it
        return self._spaces.finish_removals()

    def tokens(self) -> PostgresTokenLedger:
        """Return the ledger in the database. One in the data folder, which an earlier version used,
        is taken over if the database has none. Raises LogUnavailable.
        """
        ledger = PostgresTokenLedger(self._database)
        lines = TokenLedger(self._data_dir).raw()
        if lines and ledger.fill(lines):
            log.info("tokens_taken_over", lines=len(lines), database=self._database.name)
        return ledger

    def token_uses(self) -> PostgresTokenUses:
        return PostgresTokenUses(self._database)

    def state(self) -> DatabaseState:
        """Return the state of the database at the last look."""
        return self._state

    def close(self) -> None:
        """Sign off, and close the connections."""
        self._looks.stop()
        self._database.close()

    def _look(self) -> float:
        problem, age = "", 0.0
        try:
            age = self._database.horizon_age()
        except DatabaseBusy:
            # PostgreSQL is there, and the calls that wait are counted
            age = self._state.horizon_age
        except DatabaseUnavailable as error:
            problem = str(error)
        counts = self._database.pool_counts()
        idle = counts.get("pool_available", 0)
        self._state = DatabaseState(
            problem,
            idle,
            counts.get("pool_size", 0) - idle,
            counts.get("requests_waiting", 0),
            counts.get("connections_lost", 0),
            age,
            self._database.leases(),
        )
        return _LOOK_SECONDS


class DatabasePlace:
    """A database that logs are moved from or to. Raises LogUnavailable, StorageUnavailable."""

    def __init__(self, store: LogStoreName, flag: str) -> None:
        """Open the database that a flag names, alone. Raises CannotStart."""
        with _refusing(store, flag):
            self._database = PostgresDatabase(store.url, is_alone=True)
        self._spaces = PostgresSpaces(self._database, Path())
        self.mark, self.set_mark = self._spaces.mark, self._spaces.set_mark
        self.names, self.is_made = self._spaces.names, self._spaces.is_made
        self._tokens = PostgresTokenLedger(self._database)
        self.tokens, self.close = self._tokens.raw, self._database.close
        self.name = f"the database {store}"
        self.identity = f"the database {self._database.identity}"
        """Name of its contents."""

    def of(self, space: str) -> LogStore:
        """Return the store of a space, of which no local file is made."""
        return PostgresStore(self._database, space, Path(space))

    def create(self, space: str, *, is_made: bool) -> None:
        """Make a space; without, it is there once it has a log."""
        if is_made:
            self._spaces.make(space)

    def set_tokens(self, lines: list[bytes]) -> None:
        self._tokens.fill(lines, is_anew=True)

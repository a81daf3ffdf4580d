"""A connection of a command that runs beside the servers of a database, and changes no log."""

from collections.abc import Callable
from typing import TypeAlias, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from recollect_server.domain.store_url import without_password
from recollect_server.storage.postgres.database import (
    _DEFAULTS,
    Connection,
    DatabaseRefused,
    DatabaseUnavailable,
    _configure,
    _migrate,
    enter,
    said,
)

T = TypeVar("T")
Work: TypeAlias = Callable[[Connection, bool], T]
"""Work on a connection, with whether it may have been done already."""


class Session:
    """One connection, with the schema up to date."""

    def __init__(self, url: str) -> None:
        """Connect. Raises DatabaseUnavailable, DatabaseRefused."""
        try:
            given = conninfo_to_dict(url)
        except psycopg.ProgrammingError:
            # Its own text may hold the password.
            raise DatabaseRefused(f"{without_password(url)} is no URL of PostgreSQL") from None
        missing = {key: value for key, value in _DEFAULTS.items() if key not in given}
        try:
            self._connection: Connection = psycopg.connect(
                make_conninfo(url, **missing), autocommit=True
            )
            _configure(self._connection)
            _migrate(self._connection)
            enter(self._connection)
        except psycopg.Error as error:
            raise DatabaseUnavailable(said(error)) from error

    def run(self, work: Work[T]) -> T:
        """Return the result of work on the connection. Raises DatabaseUnavailable."""
        try:
            return work(self._connection, False)
        except psycopg.Error as error:
            raise DatabaseUnavailable(said(error)) from error

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

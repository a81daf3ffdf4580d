"""A connection of a command that runs beside the servers of a database, and changes no log."""

from collections.abc import Callable
from typing import Protocol, TypeAlias, TypeVar

import psycopg

from recollect_server.kernel.domain.setting import without_password
from recollect_server.postgres.connections import (
    Connection,
    DatabaseUnavailable,
    configure,
    connected,
    conninfo_of,
    enter,
    said,
)
from recollect_server.postgres.schema import migrate

T = TypeVar("T")
Work: TypeAlias = Callable[[Connection, bool], T]
"""Work on a connection, with whether it may have been done already."""


class Runs(Protocol):
    """Protocol of what runs work on a connection."""

    def run(self, work: Work[T]) -> T:
        """Return the result of work. Raises DatabaseUnavailable."""


class Session:
    """One connection, with the schema up to date."""

    def __init__(self, url: str) -> None:
        """Connect. Raises DatabaseUnavailable, DatabaseRefused."""
        conninfo = conninfo_of(url)
        try:
            self._connection: Connection = connected(conninfo, configure)
            try:
                migrate(self._connection, without_password(url))
                enter(self._connection)
            except BaseException:
                self._connection.close()
                raise
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

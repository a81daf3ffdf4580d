"""A plugin for pytest that runs the tests which a library has of its own store or session with
Recollect's in its place. `RECOLLECT_TARGET` names the server, `RECOLLECT_SUITE` the library.
"""

import itertools
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import ModuleType
from typing import Any

from recollect import Client
from recollect.adapters.langgraph import RecollectStore

TARGET = os.environ["RECOLLECT_TARGET"]
_names = (f"store {os.getpid()}-{number}" for number in itertools.count())


def store_in_memory() -> None:
    """Put `RecollectStore` in the place of LangGraph's store in memory."""
    from langgraph.store import memory

    client = Client(TARGET)

    class Store(RecollectStore):
        def __init__(self, **options: Any) -> None:
            super().__init__(client, name=next(_names), **options)

    memory.InMemoryStore = Store  # type: ignore[assignment, misc]


def store_over_sqlite() -> None:
    """Put `RecollectStore` in the place of LangGraph's store over SQLite, which is not installed:
    its tests import it, and some look inside.
    """
    client = Client(TARGET)

    def options_of(place: str, options: dict[str, Any]) -> dict[str, Any]:
        return options | {"name": next(_names) if place == ":memory:" else place[-40:]}

    class Store(RecollectStore):
        @classmethod
        @contextmanager
        def from_conn_string(cls, place: str, **options: Any) -> Iterator[RecollectStore]:
            yield cls(client, **options_of(place, options))

        def setup(self) -> None:
            """Prepare nothing: the server is there."""

    class AsyncStore(RecollectStore):
        @classmethod
        @asynccontextmanager
        async def from_conn_string(cls, place: str, **options: Any) -> AsyncIterator[Any]:
            yield cls(client, **options_of(place, options))

        async def setup(self) -> None:
            """Prepare nothing."""

        async def sweep_ttl(self) -> int:  # type: ignore[override]
            return super().sweep_ttl()

    package = "langgraph.store.sqlite"
    for name in (package, f"{package}.base", f"{package}.aio"):
        module: Any = ModuleType(name)
        module.__getattr__ = lambda _: object  # what is inside of theirs
        module.SqliteStore, module.AsyncSqliteStore = Store, AsyncStore
        sys.modules[name] = module


SUITES: dict[str, Callable[[], None]] = {
    "langgraph-checkpoint": store_in_memory,
    "langgraph-checkpoint-sqlite": store_over_sqlite,
}
SUITES[os.environ["RECOLLECT_SUITE"]]()

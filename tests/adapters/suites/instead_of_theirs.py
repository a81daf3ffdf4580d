"""A plugin for pytest that runs the tests which a library has of its own store or session with
Recollect's in its place. `RECOLLECT_TARGET` names the server, `RECOLLECT_SUITE` the library.
"""

import asyncio
import hashlib
import importlib
import itertools
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

from recollect import AsyncClient, Client

TARGET = os.environ["RECOLLECT_TARGET"]
_names = (f"store {os.getpid()}-{number}" for number in itertools.count())


def store_in_memory() -> None:
    """Put `RecollectStore` in the place of LangGraph's store in memory."""
    from langgraph.store import memory
    from recollect.adapters.langgraph import RecollectStore

    client = Client(TARGET)

    class Store(RecollectStore):
        def __init__(self, **options: Any) -> None:
            super().__init__(client, name=next(_names), **options)

    memory.InMemoryStore = Store  # type: ignore[assignment, misc]


def store_over_sqlite() -> None:
    """Put `RecollectStore` in the place of LangGraph's store over SQLite, which is not installed:
    its tests import it, and some look inside.
    """
    from recollect.adapters.langgraph import RecollectStore

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


def session_over_sqlite() -> None:
    """Put `RecollectSession` in the place of the Agents SDK's session over SQLite."""
    import agents
    import grpc.aio._utils
    from agents import memory
    from agents.extensions.memory import async_sqlite_session
    from recollect.adapters.openai_agents import RecollectSession

    # Some tests stop the clock of the whole process, by which gRPC measures deadlines.
    vars(grpc.aio._utils)["time"] = SimpleNamespace(time=time.time)
    clients: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncClient] = WeakKeyDictionary()

    class Session(RecollectSession):
        def __init__(
            self,
            session_id: str,
            db_path: str | Path = ":memory:",
            session_settings: Any = None,
            **_: Any,
        ) -> None:
            place = next(_names) if str(db_path) == ":memory:" else str(db_path)
            channel = f"c{hashlib.sha256(place.encode()).hexdigest()[:20]}"
            none: Any = None
            super().__init__(session_id, none, channel=channel, session_settings=session_settings)

        @property
        def _client(self) -> AsyncClient:
            """Return the client of the event loop: some tests use several."""
            return clients.setdefault(asyncio.get_running_loop(), AsyncClient(TARGET))

        @_client.setter
        def _client(self, _: AsyncClient) -> None:
            """Keep no client."""

        def close(self) -> None:
            """Close nothing: the client is others' too."""

    class AsyncSession(Session):
        async def close(self) -> None:  # type: ignore[override]
            """Close nothing."""

    class EngineSession(AsyncSession):
        def __init__(self, session_id: str, *, engine: Any = None, **options: Any) -> None:
            super().__init__(session_id, f"{id(engine)}", options.get("session_settings"))

        @classmethod
        def from_url(cls, session_id: str, *, url: str, **options: Any) -> "EngineSession":
            session = cls(session_id, **options)
            place = ":memory:" if url.endswith(":memory:") else url
            AsyncSession.__init__(session, session_id, place, options.get("session_settings"))
            return session

    class ServerSession(AsyncSession):
        def __init__(
            self, session_id: str, *, redis_client: Any, key_prefix: str = "", **options: Any
        ) -> None:
            place = f"{id(redis_client)} {key_prefix}"
            super().__init__(session_id, place, options.get("session_settings"))

        async def ping(self) -> bool:
            return True

    class Redis:
        """Stands in for a client, since neither Redis nor a stand-in for it has to be here."""

        async def aclose(self) -> None:
            """Close nothing."""

    for name in ("redis", "redis.asyncio", "fakeredis", "fakeredis.aioredis"):
        sys.modules[name] = module = ModuleType(name)
        vars(module).update(Redis=Redis, FakeRedis=Redis)
        parent, _, own = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], own, module)
    for name, session in (("sqlalchemy", EngineSession), ("redis", ServerSession)):
        place = f"agents.extensions.memory.{name}_session"
        sys.modules[place] = module = ModuleType(place)
        for it in ("SQLAlchemySession", "RedisSession"):
            setattr(module, it, session)
    memory.SQLiteSession = Session  # type: ignore[assignment, misc]
    agents.SQLiteSession = Session  # type: ignore[assignment, misc]
    async_sqlite_session.AsyncSQLiteSession = AsyncSession  # type: ignore[assignment, misc]


def session_store_in_memory() -> None:
    """Put `RecollectSessionStore` in the place of the Claude Agent SDK's store in memory."""
    import claude_agent_sdk
    from claude_agent_sdk._internal import session_store
    from recollect.adapters.claude_agent import RecollectSessionStore, _lines

    client = Client(TARGET)

    class Store(RecollectSessionStore):
        def __init__(self) -> None:
            own = next(_names).replace(" ", "-")
            super().__init__(client, channel=f"{own}-main", subagents=f"{own}-sub")

        def get_entries(self, key: Any) -> list[Any]:
            """Return what `load` does, without waiting for it."""
            return _lines(self._transcript(key).read())

        @property
        def size(self) -> int:
            return len([*client.conversations.list(channels=self._channels[:1])])

        def clear(self) -> None:
            for it in client.conversations.list(channels=self._channels):
                client.conversations.delete(it.id)

    claude_agent_sdk.InMemorySessionStore = Store  # type: ignore[assignment, misc, unused-ignore]
    session_store.InMemorySessionStore = Store  # type: ignore[assignment, misc, unused-ignore]


def session_repository() -> None:
    """Put `RecollectSessionRepository` in the place of the Strands SDK's repository in memory, and
    of its session manager over files.
    """
    from recollect.adapters.strands import RecollectSessionRepository
    from strands.session import RepositorySessionManager, file_session_manager

    client = Client(TARGET)
    channels: dict[str, str] = {}

    class Repository(RecollectSessionRepository):
        def __init__(self, place: str = "") -> None:
            own = channels.setdefault(place or next(_names), f"c{len(channels)}-{os.getpid()}")
            super().__init__(client, channel=own)

    class Manager(RepositorySessionManager, Repository):  # type: ignore[misc, unused-ignore]
        def __init__(self, session_id: str, storage_dir: str | None = None, **_: Any) -> None:
            Repository.__init__(self, storage_dir or "")
            RepositorySessionManager.__init__(self, session_id, self)

    sys.modules["moto"] = ModuleType("moto")  # stands in for Amazon's services, which no test calls
    fixtures: Any = importlib.import_module("tests.fixtures.mock_session_repository")
    fixtures.MockedSessionRepository = Repository
    file_session_manager.FileSessionManager = Manager


SUITES: dict[str, Callable[[], None]] = {
    "claude-agent-sdk": session_store_in_memory,
    "langgraph-checkpoint": store_in_memory,
    "langgraph-checkpoint-sqlite": store_over_sqlite,
    "openai-agents": session_over_sqlite,
    "strands-agents": session_repository,
}
SUITES[os.environ["RECOLLECT_SUITE"]]()

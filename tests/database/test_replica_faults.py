"""Two servers over one database, as processes, under load while one of them or PostgreSQL fails:
the history of all calls must fit what both servers say.
"""

import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import grpc
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from recollect_server.services.upkeep.recovery import recover, unheard
from recollect_server.storage.postgres.database import Database
from recollect_server.storage.postgres.store import PostgresStore

from tests.conftest import LONG, MovableClock, Start
from tests.crash.checker import check, repeat
from tests.crash.history import History
from tests.crash.load import Callers, Process, connected, process
from tests.postgres import Postgres, copy_transcripts, running
from tests.server.conftest import Connect, Service, delete_index, user
from tests.waiting import until

CALLERS, CALLS = 3, 12
_ALL = {"max_turns": 1000, "max_tokens": 1_000_000}


class Pair:
    """Two servers over one database, and all that was asked of them."""

    def __init__(
        self,
        postgres: Postgres,
        folder: Path,
        stack: ExitStack,
        standby: Postgres | None = None,
    ) -> None:
        self.postgres = postgres
        self.standby = standby
        self._database = str(conninfo_to_dict(postgres.new_database())["dbname"])
        self.store = self.url
        if self.standby is not None:
            self.store = f"{postgres.url(self._database)},{self.standby.folder}"
            self._wait_for_standby()
        self.history = History()
        self._folder = folder
        self._stack = stack
        self.processes: list[Process] = []
        self.services: list[Service] = []
        for number in range(2):
            started, service = self._started(number)
            self.processes.append(started)
            self.services.append(service)

    @property
    def url(self) -> str:
        """The URL of the database at the PostgreSQL that is the primary."""
        return self.postgres.url(self._database)

    def _started(self, number: int) -> tuple[Process, Service]:
        started = self._stack.enter_context(
            process(self._folder / str(number), "", "127.0.0.1:0", "--store", self.store)
        )
        assert started.target, "the server did not start"
        return started, self._stack.enter_context(connected(started.target))

    @contextmanager
    def under_load(self, seed: int) -> Iterator[None]:
        """Call both servers until each caller is through or got no answer. They share a
        conversation.
        """
        threads = [
            threading.Thread(
                target=Callers(self.history, service, 2 * seed + number, shared=seed).run,
                args=(CALLS, CALLERS),
            )
            for number, service in enumerate(self.services)
        ]
        before = len(self.history.calls())
        for thread in threads:
            thread.start()
        until(lambda: len(self.history.calls()) > before + 2 * CALLERS * CALLS // 4)
        yield
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()

    def kill(self) -> None:
        """Kill one server, and start it again over its folder."""
        self.processes[0].kill()
        self.processes[0], self.services[0] = self._started(0)

    def pause(self) -> None:
        """Stop one server in the middle, let the other go on, and wake it."""
        self.processes[1].popen.send_signal(signal.SIGSTOP)
        try:
            self.services[0].told(*(f"meanwhile {number}" for number in range(20)))
        finally:
            self.processes[1].popen.send_signal(signal.SIGCONT)

    def kill_postgres(self) -> None:
        """Kill PostgreSQL, and start it again. `pg_ctl` itself fails there once in dozens of times:
        it reads a file that the server is just writing.
        """
        self.postgres.kill()

        def is_up() -> bool:
            with suppress(subprocess.CalledProcessError):
                self.postgres.start()
            with suppress(psycopg.OperationalError):
                return bool(self.postgres.execute("SELECT 1"))
            return False

        until(is_up)

    def fail_over(self) -> None:
        """Kill PostgreSQL, and let its synchronous standby take over. The killed one is the standby
        then.
        """
        assert self.standby is not None
        self.postgres.kill()
        self.standby.promote()
        self.postgres, self.standby = self.standby, self.postgres
        self.standby.rejoin(self.postgres)
        self._wait_for_standby()

    def _wait_for_standby(self) -> None:
        self.postgres.set("synchronous_standby_names", "*")
        until(
            lambda: (
                self.postgres.execute("SELECT sync_state FROM pg_stat_replication") == [("sync",)]
            )
        )

    def is_well(self, service: Service) -> bool:
        """Write something, and return whether that is done."""
        with suppress(grpc.RpcError):
            service.append(service.create(request_id="well").id, user("well"), request_id="w")
            return True
        return False


@pytest.fixture
def pair(postgres: Postgres, tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as stack:
        if not LONG:
            yield Pair(postgres, tmp_path, stack)
            return
        primary = stack.enter_context(running())
        yield Pair(primary, tmp_path, stack, stack.enter_context(primary.standby()))


class Overtaken(PostgresStore):
    """A store where another server ends each delete right after this one looked at it."""

    def __init__(self, database: Database, space: str, folder: Path) -> None:
        super().__init__(database, space, folder)
        self._other = PostgresStore(database, space, folder)

    def deleted_length(self, log: str) -> int:
        size = super().deleted_length(log)
        self._other.end_delete(log)
        return size


@pytest.mark.parametrize("has_words", [True, False], ids=["indexed", "not indexed"])
def test_a_server_starts_while_another_one_ends_the_delete_that_it_found(
    postgres: Postgres, start_server: Start, connect: Connect, clock: MovableClock, has_words: bool
) -> None:
    url = postgres.new_database()
    server = start_server(store=url)
    service = connect(server)
    first, second = service.told("walrus"), service.told("zebra")
    assert service.found("zebra") == [second]
    folder = server.data_dir / server.settings.space
    server.stop()
    if not has_words:
        delete_index(server)
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE recollect.logs SET deleting = true WHERE log = %s", [second])
    database = Database(url)
    try:
        recovered = recover(Overtaken(database, "default", folder), clock, unheard)
        assert set(recovered.index.conversations.progress()) == {first}
        recovered.index.close()
    finally:
        database.close()


FAULTS: list[Callable[[Pair], None]] = [Pair.kill, Pair.pause, Pair.kill_postgres]
if LONG:
    FAULTS.append(Pair.fail_over)


@pytest.mark.timeout(9000 if LONG else 180)
def test_both_servers_say_what_was_acknowledged_once_and_in_one_order_whatever_fails(
    pair: Pair, tmp_path: Path
) -> None:
    acknowledged = 0
    for seed in range(len(FAULTS) * (250 if LONG else 1)):
        since = len(pair.history.calls())
        with pair.under_load(seed):
            FAULTS[seed % len(FAULTS)](pair)
        for service in pair.services:
            until(lambda service=service: pair.is_well(service))  # type: ignore[misc]
        assert repeat(pair.history, pair.services[seed % 2], since) == []
        for call in pair.history.calls()[since:]:
            call.cursor = ""
        copy_transcripts(pair.url, tmp_path / "copied")
        verdicts = [
            check(pair.history, service, tmp_path / "copied", since) for service in pair.services
        ]
        assert [verdict.problems for verdict in verdicts] == [[], []]
        assert verdicts[0].acknowledged == verdicts[1].acknowledged
        acknowledged += verdicts[0].acknowledged
        one, two = (
            {
                it.id: [(m.sequence, m.turn_number, m.content) for m in messages]
                for page in service.pages(page_size=500)
                for it in page
                if (messages := service.load(it.id, **_ALL).messages) is not None
            }
            for service in pair.services
        )
        assert one == two
    assert acknowledged > 30

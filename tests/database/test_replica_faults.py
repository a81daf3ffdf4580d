"""Two servers over one database, as processes, under load while one of them or PostgreSQL fails:
the history of all calls must fit what both servers say, and what their streams tell.

`REPLICA_FAULTS=kill REPLICA_ROUNDS=1000` chooses the faults, and the rounds of each, that are tried
in the long form.
"""

import os
import random
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from recollect.v1.update_pb2 import Update
from recollect_server.kernel.compare.recovery import no_progress, recover
from recollect_server.kernel.log.store import Version
from recollect_server.postgres.database import PostgresDatabase
from recollect_server.postgres.store import PostgresStore
from recollect_server.run.features import FEATURES

from tests.conftest import LONG, MovableClock, Start
from tests.crash.checker import check, repeat
from tests.crash.history import History
from tests.crash.load import Callers, Process, connected, process
from tests.database.load import changes_of, contents_of, forget_reset, is_reset, until_update_of
from tests.postgres import Postgres, copy_transcripts, running
from tests.server.conftest import Connect, Service, delete_index, user
from tests.streaming.conftest import Subscriber, Watched
from tests.waiting import until

CALLERS, CALLS = 3, 12
_ROUNDS_A_PAIR = 50  # so that checking does not grow with the rounds


class Pair:
    """Two servers over one database, all that was asked of them, and what they told."""

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
        self.watched = Watched()
        self._killed = 1
        for number in range(2):
            started, service = self._started(number)
            self.processes.append(started)
            self.services.append(service)
            self.watched.subscribers.append(Subscriber(started.target))
            stack.callback(self.watched.subscribers[-1].close)
            self.watched.subscribers[-1].ready()

    @property
    def url(self) -> str:
        """The URL of the database at the PostgreSQL that is the primary."""
        return self.postgres.url(self._database)

    def _started(self, number: int) -> tuple[Process, Service]:
        path = self._folder.with_name(f"{self._folder.name} errors {number}")
        with path.open("wb") as file:
            started = self._stack.enter_context(
                process(
                    *(self._folder / str(number), "", "127.0.0.1:0", "--store", self.store),
                    errors=file.fileno(),
                )
            )
        assert started.target, f"the server did not start: {path.read_text()[-2000:]}"
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
        # After an eighth to three quarters of the calls.
        part = random.Random(seed).randint(2, 12)  # noqa: S311 - a test's numbers
        some = len(self.history.calls()) + 2 * CALLERS * CALLS * part // 16
        for thread in threads:
            thread.start()
        until(lambda: len(self.history.calls()) > some)
        yield
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()

    def kill(self) -> None:
        """Kill one server, the other one the next time, and start it again over its folder."""
        number = self._killed = 1 - self._killed
        self.processes[number].kill()
        self.processes[number], self.services[number] = self._started(number)
        self.watched.subscribers[number].resume(self.processes[number].target)

    def pause(self) -> None:
        """Stop one server in the middle, let the other go on, and wake it."""
        self.processes[1].popen.send_signal(signal.SIGSTOP)
        try:
            self.services[0].conversation_of(*(f"meanwhile {number}" for number in range(20)))
        finally:
            self.processes[1].popen.send_signal(signal.SIGCONT)

    def kill_postgres(self) -> None:
        """Kill PostgreSQL, and start it again."""
        self.postgres.kill()
        self.postgres.start()

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

    def check_streams(self, since: int, received: list[int]) -> None:
        """Check that both streams tell the same, and of each acknowledged message once. Of a
        conversation that was deleted meanwhile one may tell no more than that. `received`: how
        many updates each stream brought before; one that a standby had to reset is read again from
        there.
        """
        deleted = {call.conversation_id for call in self.history.calls() if call.kind == "delete"}

        def is_there(update: Update) -> bool:
            return update.conversation_id not in deleted

        last = self.services[0].create().id
        for started, one, count in zip(
            self.processes, self.watched.subscribers, received, strict=True
        ):
            until_update_of(one, last, started.target)
            if is_reset(one):
                before = changes_of(forget_reset(one, count, self.url), is_there)
                one.resume(started.target)
                until_update_of(one, last, started.target)
                assert changes_of(one.updates[count:], is_there)[: len(before)] == before
            assert not is_reset(one)
        first, second = (changes_of(it.updates, is_there) for it in self.watched.subscribers)
        assert first == second
        counts = Counter(
            (it.conversation_id, message.sequence)
            for it in self.watched.subscribers[0].updates
            for message in it.conversation_updated.messages
        )
        for call in self.history.calls()[since:]:
            if call.kind == "append" and call.answered and call.conversation_id not in deleted:
                assert [counts[call.conversation_id, it.sequence] for it in call.stored] == [
                    1 for _ in call.stored
                ], call


@dataclass
class Figures:
    """Figures of the rounds."""

    rounds: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    """Messages."""
    unanswered: int = 0
    """Calls that a fault left without an answer: they were repeated."""
    changes: int = 0
    """Changes that each stream told."""
    longest: float = 0.0
    """Seconds that the slowest answered call took."""


class Overtaken(PostgresStore):
    """A store where another server ends each delete right after this one looked at it."""

    def __init__(self, database: PostgresDatabase, space: str, folder: Path) -> None:
        super().__init__(database, space, folder)
        self._other = PostgresStore(database, space, folder)

    def length(self, log: str, version: Version = Version.PRESENT) -> int:
        size = super().length(log, version)
        if version is Version.DELETED:
            self._other.drop(log, version)
        return size


@pytest.mark.parametrize("has_words", [True, False], ids=["indexed", "not indexed"])
def test_a_server_starts_while_another_one_ends_the_delete_that_it_found(
    postgres: Postgres, start_server: Start, connect: Connect, clock: MovableClock, has_words: bool
) -> None:
    url = postgres.new_database()
    server = start_server(store=url)
    service = connect(server)
    first, second = service.conversation_of("walrus"), service.conversation_of("zebra")
    assert service.found("zebra") == [second]
    folder = server.data_dir / server.settings.space
    server.stop()
    if not has_words:
        delete_index(server)
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE recollect.logs SET deleting = true WHERE log = %s", [second])
    database = PostgresDatabase(url)
    try:
        recovered = recover(Overtaken(database, "default", folder), FEATURES, clock, no_progress)
        assert set(recovered.index.conversations.progress()) == {first}
        recovered.index.close()
    finally:
        database.close()


FAULTS = {
    "kill": Pair.kill,
    "pause": Pair.pause,
    "kill_postgres": Pair.kill_postgres,
}
if LONG:
    FAULTS["fail_over"] = Pair.fail_over
CHOSEN = os.environ.get("REPLICA_FAULTS", ",".join(FAULTS)).split(",")
ROUNDS = int(os.environ.get("REPLICA_ROUNDS", "250" if LONG else "1"))


def run_round(pair: Pair, fault: str, seed: int, copied: Path, figures: Figures) -> None:
    """Let one fault happen under load, and check what both servers have and told."""
    since = len(pair.history.calls())
    received = [len(it.updates) for it in pair.watched.subscribers]
    with pair.under_load(seed):
        FAULTS[fault](pair)
    for service in pair.services:
        until(lambda service=service: pair.is_well(service))  # type: ignore[misc]
    calls = pair.history.calls()[since:]
    figures.unanswered += sum(not call.ended for call in calls)
    figures.longest = max(figures.longest, *(call.seconds for call in calls if call.answered))
    assert repeat(pair.history, pair.services[seed % 2], since) == []
    for call in calls:
        call.cursor = ""
    copy_transcripts(pair.url, copied)
    verdicts = [check(pair.history, service, copied, since) for service in pair.services]
    assert [verdict.problems for verdict in verdicts] == [[], []]
    assert verdicts[0].acknowledged == verdicts[1].acknowledged
    pair.check_streams(since, received)
    figures.acknowledged += verdicts[0].acknowledged
    figures.rounds[fault] += 1


@pytest.mark.timeout(20_000 if LONG else 180)
def test_both_servers_say_what_was_acknowledged_once_and_in_one_order_whatever_fails(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    figures = Figures()
    faults = CHOSEN * ROUNDS
    for first in range(0, len(faults), _ROUNDS_A_PAIR):
        with ExitStack() as stack:
            standby = None
            if "fail_over" in CHOSEN:
                primary = stack.enter_context(running())
                standby = stack.enter_context(primary.standby())
            else:
                primary = request.getfixturevalue("postgres")
            folder = tmp_path / str(first)
            pair = Pair(primary, folder, stack, standby)
            for seed, fault in enumerate(faults[first : first + _ROUNDS_A_PAIR], first):
                run_round(pair, fault, seed, folder / "copied", figures)
            assert contents_of(pair.services[0]) == contents_of(pair.services[1])
            figures.changes += len(changes_of(pair.watched.subscribers[0].updates))
        pair.watched.check()
        sys.stdout.write(f"{figures}\n")
    assert figures.acknowledged > 30

"""Promises of the PostgreSQL store beyond those of every log store: lost connections, changes of
other replicas, a server of the database that is killed.
"""

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest
from recollect_server.domain.store_url import without_password
from recollect_server.domain.time import system_clock
from recollect_server.services.checkpoints import Checkpoints, Put
from recollect_server.storage.logs.lines import encoded
from recollect_server.storage.logs.store import (
    START,
    Action,
    ChangePosition,
    Changes,
    Claim,
    Kind,
    LogConflict,
    LogNotFound,
    LogTaken,
    LogUnavailable,
    Position,
)
from recollect_server.storage.postgres.database import (
    Database,
    DatabaseRefused,
    DatabaseUnavailable,
)
from recollect_server.storage.postgres.store import PostgresStore

from tests.logs.test_store import CONVERSATION, OTHER, add, begin, end_of, message, texts
from tests.postgres import Postgres
from tests.waiting import until

Opened = Callable[[str], Database]


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Open databases, which are closed at the end."""
    databases: list[Database] = []

    def open_one(url: str) -> Database:
        databases.append(Database(url))
        return databases[-1]

    yield open_one
    for database in databases:
        database.close()


class Proxy:
    """A socket before PostgreSQL's that can lose the answer of a statement, or all connections."""

    def __init__(self, postgres: Postgres, folder: Path) -> None:
        self._target = str(postgres.folder / ".s.PGSQL.5432")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / ".s.PGSQL.5432"))
        self._listener.listen()
        self._open: set[socket.socket] = set()
        self.lose: bytes = b""
        """Text of a statement: it is passed on, and its connection ends with the answer."""
        self.lose_request = False
        """The statement is not passed on either."""
        self.is_cut = False
        """All connections end, and none begins."""
        self.hold: bytes = b""
        """Text of a statement: it is not passed on, nor is anything behind it, until `passes`."""
        self.passes = threading.Event()
        self.passes.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Let no further connection in. Those that stand end with their callers, which sign off by
        them: without one they would wait for one.
        """
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.passes.set()

    def cut(self) -> None:
        for end in list(self._open):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                caller, _ = self._listener.accept()
                if self.is_cut:
                    caller.close()
                    continue
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._target)
                self._open |= {caller, server}
                threading.Thread(target=self._serve, args=(caller, server), daemon=True).start()

    def _serve(self, caller: socket.socket, server: socket.socket) -> None:
        lost = threading.Event()

        def answers() -> None:
            with suppress(OSError):
                while data := server.recv(1 << 16):
                    self.passes.wait()
                    if lost.is_set():
                        if self.is_cut:
                            self.cut()
                        break
                    caller.sendall(data)
            self._end(caller, server)

        threading.Thread(target=answers, daemon=True).start()
        with suppress(OSError):
            while data := caller.recv(1 << 16):
                if self.hold and self.hold in data:
                    self.hold = b""
                    self.passes.clear()
                self.passes.wait()
                if self.lose and self.lose in data:
                    self.lose = b""
                    lost.set()
                    if self.lose_request:
                        break
                server.sendall(data)
        if lost.is_set() and not self.lose_request:
            return  # until the answer came
        self._end(caller, server)

    def _end(self, *ends: socket.socket) -> None:
        for end in ends:
            self._open.discard(end)
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@contextmanager
def proxied(postgres: Postgres, url: str) -> Iterator[tuple[Proxy, str]]:
    with TemporaryDirectory(dir=postgres.folder) as folder:
        proxy = Proxy(postgres, Path(folder))
        try:
            yield proxy, url.replace(f"host={postgres.folder}", f"host={folder}")
        finally:
            proxy.close()


@pytest.mark.parametrize("lose_request", [False, True], ids=["answer", "request"])
@pytest.mark.parametrize("first", [True, False], ids=["first lines", "later lines"])
def test_an_append_whose_connection_is_lost_is_made_once(
    postgres: Postgres, opened: Opened, tmp_path: Path, lose_request: bool, first: bool
) -> None:
    with proxied(postgres, postgres.new_database()) as (proxy, url):
        store = PostgresStore(opened(url), "default", tmp_path)
        end = START if first else begin(store, messages=3)
        proxy.lose_request, proxy.lose = lose_request, b"recollect.append"
        if first:
            begin(store, messages=3)
        else:
            add(store, CONVERSATION, end, message(5), message(6))
        assert not proxy.lose, "nothing was lost"
        lines = list(store.read(CONVERSATION))
        assert [line.sequence for line in lines] == list(range(1, 5 if first else 7))
        assert store.length(CONVERSATION) == end_of(lines).bytes


def test_an_append_that_nobody_answered_is_made_once_when_it_is_repeated(
    postgres: Postgres, opened: Opened, tmp_path: Path
) -> None:
    with proxied(postgres, postgres.new_database()) as (proxy, url):
        store = PostgresStore(opened(url), "default", tmp_path)
        end = begin(store)
        proxy.is_cut, proxy.lose = True, b"recollect.append"
        with pytest.raises(LogUnavailable, match="the transcript cannot be written") as raised:
            add(store, CONVERSATION, end, message(5))
        assert not isinstance(raised.value, LogConflict | LogNotFound)
        with pytest.raises(LogUnavailable, match="the state that servers share cannot be read"):
            store.sharing.answer("r1")
        proxy.is_cut = False

        def is_back() -> bool:
            with suppress(LogUnavailable):
                return store.length(CONVERSATION) > 0
            return False

        until(is_back)
        assert store.length(CONVERSATION) > end.bytes  # it was committed
        assert add(store, CONVERSATION, end, message(5)).lines == 5
        assert texts(list(store.read(CONVERSATION)))[-2:] == ["number 4 🦓", "number 5 🦓"]
        with pytest.raises(LogConflict):
            add(store, CONVERSATION, end, message(5))


def test_a_log_whose_begin_nobody_answered_is_not_there(
    postgres: Postgres, opened: Opened, tmp_path: Path
) -> None:
    url = postgres.new_database()
    with proxied(postgres, url) as (proxy, through):
        database = opened(through)
        store = PostgresStore(database, "default", tmp_path)
        begin(store, OTHER)
        proxy.is_cut, proxy.lose = True, b"recollect.append"
        with pytest.raises(LogUnavailable):
            begin(store)
        query = "SELECT last_append FROM recollect.logs ORDER BY log LIMIT 1"
        ((name,),) = postgres.execute(query, url)
        proxy.is_cut = False

        def is_back() -> bool:
            with suppress(LogUnavailable):
                return store.length(OTHER) > 0
            return False

        until(is_back)
        assert not store.is_taken(CONVERSATION)
        assert [name for name, _ in store.logs(Kind.CONVERSATION)] == [OTHER]
        with pytest.raises(LogNotFound):
            store.length(CONVERSATION)
        late = (
            f"recollect.append({database.number}, 'default', '{CONVERSATION}', 'conversations', 0"
        )
        late += f", '{name}', true, ARRAY['late'::bytea], NULL, '{{}}', '{{}}'"
        ((status,),) = postgres.execute(f"SELECT {late})", url)
        assert status == "conflict"
        end = begin(store, messages=1)
        assert next(store.logs(Kind.CONVERSATION)) == (CONVERSATION, end.bytes)
        assert store.deleted() == []


def test_a_begin_that_nobody_answered_stays_where_another_replica_may_have_answered_with_it(
    postgres: Postgres, opened: Opened, tmp_path: Path
) -> None:
    url = postgres.new_database()
    with proxied(postgres, url) as (proxy, through):
        store = PostgresStore(opened(through), "default", tmp_path)
        other = PostgresStore(opened(url), "default", tmp_path)
        other.sharing.join()
        begin(store, OTHER)
        proxy.is_cut, proxy.lose = True, b"recollect.append"
        with pytest.raises(LogUnavailable):
            begin(store)
        answered = texts(list(other.read(CONVERSATION)))
        proxy.is_cut = False
        # As after an outage of PostgreSQL: no replica could give a sign of life.
        postgres.execute("UPDATE recollect.replicas SET seen = now() - interval '1 minute'", url)

        def is_kept() -> bool:
            with suppress(LogUnavailable):
                assert store.has(CONVERSATION)
                return True
            return False

        until(is_kept)
        assert texts(list(store.read(CONVERSATION))) == answered != []


def test_a_thread_whose_first_records_nobody_answered_keeps_what_a_repeat_was_answered(
    postgres: Postgres, opened: Opened, tmp_path: Path
) -> None:
    with proxied(postgres, postgres.new_database()) as (proxy, url):
        store = PostgresStore(opened(url), "default", tmp_path)
        begin(store)
        threads = Checkpoints(store, lambda _: nullcontext(), system_clock)
        sent = [Put("a", b"1")]
        proxy.is_cut, proxy.lose = True, b"recollect.append"
        with pytest.raises(LogUnavailable):
            threads.put("alex", sent, "r1")
        proxy.is_cut = False

        def repeat() -> bool:
            with suppress(LogUnavailable):
                threads.put("alex", sent, "r1")
                return True
            return False

        until(repeat)
        assert threads.stored_bytes() > 0
        for reader in (threads, Checkpoints(store, lambda _: nullcontext(), system_clock)):
            assert list(reader.get("alex", ["a"]).records) == [("a", b"1")]
        assert threads.put("alex", sent, "r1") == 0


def test_an_append_is_made_where_its_prepared_statement_is_gone(
    postgres: Postgres, tmp_path: Path
) -> None:
    with closing(Database(postgres.new_database(), connections=1)) as database:
        store = PostgresStore(database, "default", tmp_path)
        end = begin(store)

        def prepared() -> list[str]:
            rows = database.run(
                lambda connection, _: connection.execute(
                    "SELECT name FROM pg_prepared_statements WHERE statement LIKE '%append(%'"
                ).fetchall()
            )
            return [name for (name,) in rows]

        for round_number in range(2):
            for _ in range(8):
                end = add(store, CONVERSATION, end, message(end.lines + 1))
            assert prepared() == ["recollect.append"], f"round {round_number}"
            database.run(lambda connection, _: connection.execute("DEALLOCATE ALL"))
        assert [it.sequence for it in store.read(CONVERSATION)] == list(range(1, 21))


def test_an_append_plans_nothing_anew_and_reads_the_partition_of_its_space_by_its_key(
    postgres: Postgres,
) -> None:
    url = postgres.new_database()
    append = (
        "SELECT recollect.append(0, 'default', 'conv-1', 'conversations', {}, gen_random_uuid(),"
        " false, ARRAY['abc'::bytea], NULL, '{{}}', '{{}}')"
    )
    plans: list[str] = []
    with psycopg.connect(url, autocommit=True) as connection:
        try:
            connection.execute("LOAD 'auto_explain'")
        except psycopg.Error:
            pytest.skip("this PostgreSQL comes without auto_explain")
        connection.execute(append.format(0).encode())
        connection.execute("ANALYZE recollect.logs")  # a scan of its one row would be cheaper
        connection.execute("SET auto_explain.log_nested_statements = on")
        connection.execute("SET auto_explain.log_min_duration = 0")
        connection.execute("SET client_min_messages = log")
        connection.add_notice_handler(lambda notice: plans.append(notice.message_primary or ""))
        connection.execute(append.format(4).encode())
    reads = [it for it in plans if "on logs" in it]
    assert len(reads) == 2, "the row is locked and updated"
    for plan in reads:
        assert "Subplans Removed: 15" in plan, "a plan for any space, of which one part is opened"
        assert "Index Scan" in plan


def test_of_appends_behind_one_position_exactly_one_wins(
    database: Database, tmp_path: Path
) -> None:
    stores = [PostgresStore(database, "default", tmp_path) for _ in range(8)]
    barrier = threading.Barrier(len(stores))

    def race(store: PostgresStore, after: Position) -> Position | None:
        barrier.wait()
        try:
            return add(store, CONVERSATION, after, message(after.lines + 1))
        except LogConflict:
            return None

    end = START
    with ThreadPoolExecutor(len(stores)) as pool:
        for _ in range(20):  # the first ones open connections one after the other
            ends = [it for it in pool.map(partial(race, after=end), stores) if it]
            assert len(ends) == 1
            end = ends[0]
    assert len(list(stores[0].read(CONVERSATION))) == 20


def test_the_same_names_in_two_spaces_never_meet(database: Database, tmp_path: Path) -> None:
    one, two = (PostgresStore(database, name, tmp_path) for name in ("one", "two"))
    begin(one, messages=3)
    begin(two, messages=1)
    one.begin_delete(CONVERSATION)
    one.end_delete(CONVERSATION)
    assert not one.exists()
    assert texts(list(two.read(CONVERSATION))) == ["number 2 🦓"]


def changed(changes: Changes) -> list[tuple[str, Action, int, int]]:
    assert changes.is_whole
    return [(it.log, it.action, it.start, it.end) for it in changes.changes]


def test_a_replica_is_given_each_change_of_the_other_once(
    postgres: Postgres, opened: Opened, tmp_path: Path
) -> None:
    url = postgres.new_database()
    one, two = (PostgresStore(opened(url), "default", tmp_path) for _ in range(2))
    elsewhere = PostgresStore(opened(url), "other", tmp_path)
    moment = two.sharing.moment()
    end = begin(one)
    longer = add(one, CONVERSATION, end, message(5))
    begin(elsewhere)
    first = two.sharing.changes(moment)
    assert changed(first) == [
        (CONVERSATION, Action.APPEND, 0, end.bytes),
        (CONVERSATION, Action.APPEND, end.bytes, longer.bytes),
    ]
    assert {it.replica for it in first.changes} == {one.sharing.replica} != {two.sharing.replica}
    assert changed(two.sharing.changes(first.moment)) == []
    one.replace("anchors", encoded([message(1)])[1])
    lines = [body + b"\n" for body in one.raw(CONVERSATION).split(b"\n")[:-1]]
    one.begin_redaction(CONVERSATION, [*lines, lines[-1]])
    one.end_redaction(CONVERSATION)
    one.begin_delete(CONVERSATION)
    second = two.sharing.changes(first.moment)
    assert [it[:2] for it in changed(second)] == [
        ("anchors", Action.REPLACE),
        (CONVERSATION, Action.REDACT),
        (CONVERSATION, Action.DELETE),
    ]
    everything = two.sharing.history(ChangePosition(), 100)
    assert everything.changes == first.changes + second.changes
    rest = two.sharing.history(everything.changes[1].position, 2)
    assert rest.changes == everything.changes[2:4]


def test_a_change_that_is_committed_late_is_given_out_at_once_and_ordered_where_it_began(
    postgres: Postgres, opened: Opened, tmp_path: Path
) -> None:
    url = postgres.new_database()
    database = opened(url)
    store = PostgresStore(database, "default", tmp_path)
    sharing = store.sharing
    moment = sharing.moment()
    with psycopg.connect(url) as late:
        late.execute(
            "SELECT recollect.add_change('default', 'late', 'ledger', 'append', 0, 1, 9, NULL)"
        )
        begin(store)
        before = sharing.changes(moment)
        assert [it.log for it in before.changes] == [CONVERSATION]
        stalled = sharing.history(ChangePosition(), 10)
        assert (stalled.changes, stalled.is_whole) == ([], True)
        late.commit()
        after = sharing.changes(before.moment)
        assert [it.log for it in after.changes] == ["late"]
    order = sharing.history(ChangePosition(), 10)
    assert [it.log for it in order.changes] == ["late", CONVERSATION]
    assert order.changes[-1].position.transaction < order.horizon


def test_who_stands_before_changes_that_were_pruned_is_told_so(
    postgres: Postgres, opened: Opened, tmp_path: Path
) -> None:
    store = PostgresStore(opened(postgres.new_database()), "default", tmp_path)
    sharing = store.sharing
    moment = sharing.moment()
    end = begin(store)
    position = sharing.history(ChangePosition(), 1).changes[0].position
    assert sharing.prune_changes(max_age=3600, most=10) == 0
    add(store, CONVERSATION, end, message(5))
    assert sharing.prune_changes(max_age=3600, most=1) == 1
    assert not sharing.changes(moment).is_whole
    assert not sharing.history(ChangePosition(), 10).is_whole
    rest = sharing.history(position, 10)
    assert (len(rest.changes), rest.is_whole) == (1, True)
    now = sharing.moment()
    assert sharing.prune_changes(max_age=0, most=10) == 1
    assert sharing.changes(now).is_whole


def test_the_newest_position_holds_where_every_change_is_pruned(
    postgres: Postgres, opened: Opened, tmp_path: Path
) -> None:
    store = PostgresStore(opened(postgres.new_database()), "default", tmp_path)
    end = begin(store)
    newest = store.order.now()
    assert store.sharing.prune_changes(max_age=0, most=10) == 1
    for mark in (store.order.now(), store.order.settled()):
        assert mark.key == newest.key
        assert store.order.reaches(mark)
    before = store.order.now()
    add(store, CONVERSATION, end, message(5))
    assert store.order.reaches(before)
    changes = store.order.after(before.key, Kind.CONVERSATION, 10, 1 << 20)
    assert [it.start for it in changes.rows] == [end.bytes]


def test_whoever_lost_a_lease_appends_nothing_within_it(
    postgres: Postgres, opened: Opened, tmp_path: Path
) -> None:
    url = postgres.new_database()
    one, two = (PostgresStore(opened(url), "default", tmp_path) for _ in range(2))
    end = begin(one)
    number = one.sharing.lease("notes", 60)
    assert (number, one.sharing.lease("notes", 60), two.sharing.lease("notes", 60)) == (1, 1, 0)
    assert two.sharing.lease("retention", 60) == 1
    with one.sharing.holding("notes", number):
        end = add(one, CONVERSATION, end, message(5))
        postgres.execute("UPDATE recollect.leases SET until = now() - interval '1 second'", url)
        end = add(one, CONVERSATION, end, message(6))  # nobody else has it
        assert two.sharing.lease("notes", 60) == 2
        with pytest.raises(LogTaken):
            add(one, CONVERSATION, end, message(7))
    assert one.sharing.lease("notes", 60) == 0
    add(one, CONVERSATION, end, message(7))


def test_the_first_answer_of_a_request_is_kept_for_every_replica(
    postgres: Postgres, opened: Opened, tmp_path: Path
) -> None:
    url = postgres.new_database()
    one, two = (PostgresStore(opened(url), "default", tmp_path).sharing for _ in range(2))
    assert two.answer("r1") is None
    one.remember("r1", "")
    assert two.answer("r1") == ""
    one.remember("r1", "receipt")
    two.remember("r1", "")  # it looked before the answer was there
    assert (one.answer("r1"), two.answer("r1")) == ("receipt", "receipt")
    elsewhere = PostgresStore(opened(url), "other", tmp_path).sharing
    assert elsewhere.answer("r1") is None


def test_answers_of_requests_end_after_a_month(
    postgres: Postgres, opened: Opened, tmp_path: Path
) -> None:
    url = postgres.new_database()
    sharing = PostgresStore(opened(url), "default", tmp_path).sharing
    for request in ("old", "newer", "new"):
        postgres.execute("UPDATE recollect.receipts SET time = time - interval '15.5 days'", url)
        sharing.remember(request, "receipt")
    assert sharing.prune_changes(max_age=3600, most=10) == 0
    assert [sharing.answer(it) for it in ("old", "newer", "new")] == [None, "receipt", "receipt"]


def test_a_newer_schema_is_refused_once_it_takes_away_what_this_version_uses(
    postgres: Postgres, opened: Opened
) -> None:
    url = postgres.new_database()
    opened(url).close()
    postgres.execute("INSERT INTO recollect.schema_version (version) VALUES (99)", url)
    opened(url).close()  # it adds what this version can do without
    postgres.execute("UPDATE recollect.owner SET oldest_server = 98", url)
    with pytest.raises(
        DatabaseRefused,
        match=r"has version 99 of the schema, for servers that know 98, and this .* knows \d",
    ):
        Database(url)


def test_no_text_about_a_database_has_its_password(postgres: Postgres) -> None:
    secret = "s3cret"  # noqa: S105 - of nobody
    url = f"postgresql://ann:{secret}@db:5432/logs?sslmode=require&password={secret}&a=b"
    shown = "postgresql://ann:***@db:5432/logs?sslmode=require&password=***&a=b"
    assert without_password(url) == shown
    for wrong in (
        f"postgres:/ann:{secret}@db",
        f"ann:{secret}@db/x",
        f"postgresql://a:{secret}@@x",
    ):
        assert secret not in without_password(wrong)
    for plain in ("postgresql://db:5432/logs", "postgresql:///logs?host=/tmp", "folder"):
        assert without_password(plain) == plain
    for url in (
        f"postgresql://ann:{secret}@/nothing?host={postgres.folder}",
        f"postgresql://ann:{secret}@127.0.0.1:1/logs",
        f"postgresql://ann:{secret}@/logs?pass word={secret}",
    ):
        with pytest.raises((DatabaseUnavailable, DatabaseRefused)) as raised:
            Database(url)
        assert secret not in str(raised.value)


def test_what_was_acknowledged_is_there_once_after_postgresql_is_killed_under_load(
    postgres: Postgres, opened: Opened, tmp_path: Path
) -> None:
    store = PostgresStore(opened(postgres.new_database()), "default", tmp_path)
    names = [f"conv-01J0000000000000000000000{number}" for number in range(4)]
    ends = {name: begin(store, name) for name in names}
    acknowledged = dict.fromkeys(names, 4)
    refusals: list[str] = []
    stop = threading.Event()

    def write(name: str) -> None:
        """Append line after line; one that is refused is repeated as it is."""
        while not stop.is_set():
            try:
                ends[name] = add(store, name, ends[name], message(ends[name].lines + 1))
            except LogUnavailable as error:
                refusals.append(f"{type(error).__name__}: {error.reason}")
                stop.wait(0.01)
            else:
                acknowledged[name] += 1

    def until_all_wrote() -> None:
        before = dict(acknowledged)
        until(lambda: all(acknowledged[it] > before[it] + 20 for it in names))

    def until_refused() -> None:
        before = len(refusals)
        until(lambda: len(refusals) > before)

    with ThreadPoolExecutor(len(names)) as pool:
        writers = [pool.submit(write, name) for name in names]
        try:
            for _ in range(2):
                until_all_wrote()
                postgres.kill()
                until_refused()
                postgres.start()
            until_all_wrote()
        finally:
            stop.set()
        for writer in writers:
            writer.result()
    assert {refusal.partition(":")[0] for refusal in refusals} == {"LogUnavailable"}
    for name in names:
        lines = list(store.read(name))
        assert [line.sequence for line in lines] == list(range(1, acknowledged[name] + 1))
        assert all(line.entry for line in lines)
        assert end_of(lines) == ends[name]


def test_of_two_that_claim_a_place_or_a_request_one_begins_a_log(
    postgres: Postgres, opened: Opened, tmp_path: Path
) -> None:
    url = postgres.new_database()
    one, two = (PostgresStore(opened(url), "default", tmp_path) for _ in range(2))
    lines = encoded([message(1)])[1]
    claims = [Claim(places=it.sharing.claims(["place", "other"])) for it in (one, two)]
    one.append(CONVERSATION, START, lines, claims[0])
    with pytest.raises(LogTaken):
        two.append(OTHER, START, lines, claims[1])
    assert not two.is_taken(OTHER)
    two.append(OTHER, START, lines, Claim("request", two.sharing.claims(["place"])))
    third = "conv-01J00000000000000000000009"
    fourth = "conv-01J00000000000000000000008"
    stale, fresh = (Claim(places=it.sharing.claims(["place"])) for it in (one, two))
    two.append(fourth, START, lines, fresh)
    with pytest.raises(LogTaken):
        one.append(third, START, lines, stale)
    with pytest.raises(LogTaken):
        one.append(third, START, lines, Claim("request"))
    two.begin_delete(OTHER)
    one.append(third, START, lines, Claim("request"))

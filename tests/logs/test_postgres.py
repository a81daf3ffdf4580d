"""Promises of the PostgreSQL store beyond those of every log store: lost connections, what the
statements cost, a server of the database that is killed.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext, suppress
from pathlib import Path

import psycopg
import pytest
from recollect_server.checkpoints.service import Checkpoints, Put
from recollect_server.kernel.domain.ids import Kind
from recollect_server.kernel.domain.setting import without_password
from recollect_server.kernel.domain.time import system_clock
from recollect_server.kernel.log.store import (
    START,
    LogConflict,
    LogNotFound,
    LogUnavailable,
    Version,
    has_version,
    is_taken,
)
from recollect_server.postgres.connections import DatabaseRefused, DatabaseUnavailable
from recollect_server.postgres.database import PostgresDatabase
from recollect_server.postgres.spaces import PostgresSpaces
from recollect_server.postgres.store import PostgresStore

from tests.logs.conftest import Opened
from tests.logs.proxy import proxied
from tests.logs.test_store import CONVERSATION, OTHER, add, begin, end_of, message, texts
from tests.postgres import Postgres
from tests.waiting import until


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
        assert not is_taken(store, CONVERSATION)
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
        assert list(store.logs(Kind.CONVERSATION, Version.DELETED)) == []


def test_a_begin_that_nobody_answered_stays_where_another_replica_may_have_answered_with_it(
    postgres: Postgres, opened: Opened, tmp_path: Path
) -> None:
    url = postgres.new_database()
    with proxied(postgres, url) as (proxy, through):
        store = PostgresStore(opened(through), "default", tmp_path)
        other = PostgresStore(opened(url), "default", tmp_path)
        other.sharing.moment(join=True)
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
                assert has_version(store, CONVERSATION, Version.PRESENT)
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
    with closing(PostgresDatabase(postgres.new_database(), connections=1)) as database:
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


def test_a_row_that_is_lost_moves_no_other_line(
    postgres: Postgres, opened: Opened, tmp_path: Path
) -> None:
    url = postgres.new_database()
    store = PostgresStore(opened(url), "default", tmp_path)
    end = begin(store, messages=5)
    before = list(store.read(CONVERSATION))
    postgres.execute("DELETE FROM recollect.lines WHERE line = 3", url)
    after = list(store.read(CONVERSATION))
    assert after == [line for line in before if line.sequence != 3]
    places = [(line.sequence, line.offset, line.length) for line in after]
    assert store.read_at({CONVERSATION: places})[CONVERSATION] == after
    assert end_of(after) == end
    add(store, CONVERSATION, end, message(7))
    assert texts(list(store.read(CONVERSATION)))[-1] == "number 7 🦓"


def test_the_same_names_in_two_spaces_never_meet(
    database: PostgresDatabase, tmp_path: Path
) -> None:
    one, two = (PostgresStore(database, name, tmp_path) for name in ("one", "two"))
    begin(one, messages=3)
    begin(two, messages=1)
    one.swap(CONVERSATION, None)
    one.drop(CONVERSATION, Version.DELETED)
    spaces = PostgresSpaces(database, tmp_path)
    assert not spaces.has_rows("one")
    assert spaces.has_rows("two")
    assert texts(list(two.read(CONVERSATION))) == ["number 2 🦓"]


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
        PostgresDatabase(url)


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
            PostgresDatabase(url)
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

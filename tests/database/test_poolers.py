"""Servers whose connections go through PgBouncer in transaction mode: no promise counts on the
settings, locks or statements of a session. The conformance suite runs over it too.
"""

from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import grpc
import psycopg
import pytest
from recollect_server.postgres.connections import Connection
from recollect_server.postgres.database import PostgresDatabase
from recollect_server.run.folder import CannotStart
from structlog.testing import capture_logs

from tests.conftest import Start
from tests.postgres import Pooler, Postgres, pooled
from tests.server.conftest import Connect, Service, at_once, failure_of, user
from tests.server_cli.conftest import run
from tests.streaming.conftest import Subscriber
from tests.waiting import until

PREPARED = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%recollect.%'"
SESSION = "SELECT current_setting('lock_timeout'), current_setting('synchronous_commit')"


def is_served(service: Service) -> bool:
    with suppress(grpc.RpcError):
        service.append(service.create(request_id="well").id, user("well"), request_id="w")
        return True
    return False


def test_an_answer_waits_for_the_disk_and_nothing_is_set_for_others(
    postgres: Postgres, pooler: Pooler, start_server: Start, connect: Connect
) -> None:
    url = postgres.new_database()
    name = url.partition("?")[0].rpartition("/")[2]
    postgres.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    postgres.execute(
        "CREATE TABLE commits (what text, how text);"
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO public.commits VALUES (split_part(TG_TABLE_NAME, '_', 1),"
        " current_setting('synchronous_commit')); RETURN NULL; END $$;"
        "UPDATE recollect.timelines SET place = 'of the primary before'",
        url,
    )
    tables = ["changes", "followers", "replicas", "timelines"]
    for table in tables:
        postgres.execute(
            f"CREATE CONSTRAINT TRIGGER note AFTER INSERT ON recollect.{table}"
            " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note()",
            url,
        )
    service = connect(start_server(store=pooler.url(url)))
    first, other = service.conversation_of("one"), service.conversation_of("two")
    service.rename(first, "Title")
    service.delete(other)
    commits = "SELECT DISTINCT what, how FROM commits ORDER BY what"
    assert postgres.execute(commits, url) == [(table, "on") for table in tables]
    beside = [psycopg.connect(pooler.url(url)) for _ in range(3)]
    for connection in beside:  # each has its own session until its transaction ends
        assert connection.execute(SESSION).fetchone() == ("0", "off")
    for connection in beside:
        connection.close()


def test_a_pooler_whose_sessions_cannot_keep_a_promise_is_refused_in_a_sentence(
    postgres: Postgres, pooler: Pooler, start_server: Start
) -> None:
    url = postgres.new_database()
    name = url.partition("?")[0].rpartition("/")[2]
    postgres.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read'")
    with pytest.raises(CannotStart) as raised:
        start_server(store=pooler.url(url))
    assert "ALTER ROLE postgres SET default_transaction_isolation = 'read committed'" in str(
        raised.value
    )
    assert "\n" not in str(raised.value)
    start_server(store=url)  # sets it for its own sessions


def test_a_move_keeps_servers_out_until_it_ends_and_not_longer(
    postgres: Postgres, pooler: Pooler, start_server: Start, connect: Connect, tmp_path: Path
) -> None:
    service = connect(server := start_server())
    conversation_id = service.conversation_of("zebra")
    server.stop()
    url = pooler.url(postgres.new_database())
    busy = postgres.new_database()
    with psycopg.connect(busy) as connection:
        connection.execute("SELECT pg_advisory_xact_lock(7018351, 1)")  # as a move holds it
        with pytest.raises(CannotStart, match="a command moves the logs of the database"):
            start_server(store=pooler.url(busy), data_dir=tmp_path / "busy")
    assert run("migrate", "--from", server.data_dir, "--to", url).exit_code == 0
    service = connect(start_server(store=url, data_dir=tmp_path / "over it"))
    assert service.found("zebra") == [conversation_id]
    refused = run("migrate", "--from", url, "--to", tmp_path / "back")
    assert (refused.exit_code, "another server uses the database" in refused.stderr) == (1, True)


def test_a_pooler_that_is_killed_and_a_postgresql_behind_it_that_stops_are_seconds_of_refusal(
    postgres: Postgres,
    start_server: Start,
    connect: Connect,
    subscribe: Callable[..., Subscriber],
    no_log: None,
) -> None:
    url = postgres.new_database()
    with pooled(postgres) as first:
        service = connect(server := start_server(store=first.url(url)))
        conversation_id = service.conversation_of("one")
        stream = subscribe(server.target).ready()
        postgres.kill()
        try:
            refused = failure_of(
                lambda: service.append(conversation_id, user("two"), request_id="r2")
            )
            assert (refused.code, refused.reason) == ("UNAVAILABLE", "STORAGE_UNAVAILABLE")
        finally:
            postgres.start()
        until(lambda: is_served(service))
        first.stop()
        refused = failure_of(
            lambda: service.append(conversation_id, user("three"), request_id="r3")
        )
        assert (refused.code, refused.reason) == ("UNAVAILABLE", "STORAGE_UNAVAILABLE")
        first.start()
        until(lambda: is_served(service))
        service.append(conversation_id, user("two"), request_id="r2")
        service.append(conversation_id, user("three"), request_id="r3")
        assert [it.content for it in service.load(conversation_id).messages] == [
            "one",
            "two",
            "three",
        ]
        stream.until(lambda: "three" in stream.messages())
        assert [it for it in stream.messages() if it != "well"] == ["two", "three"]


def test_streams_go_on_once_a_setting_of_the_sessions_that_was_refused_is_taken_back(
    postgres: Postgres,
    pooler: Pooler,
    start_server: Start,
    connect: Connect,
    subscribe: Callable[..., Subscriber],
) -> None:
    url = postgres.new_database()
    name = url.partition("?")[0].rpartition("/")[2]
    service = connect(server := start_server(store=pooler.url(url)))
    conversation_id = service.conversation_of("one")
    stream = subscribe(server.target).ready()
    with capture_logs() as logged:
        postgres.execute(
            f"ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read'"
        )
        pooler.stop()
        postgres.end_sessions(url)
        pooler.start()
        until(
            lambda: any(
                it["event"] == "changes_not_followed" and "read committed" in it["reason"]
                for it in logged
            )
        )
    postgres.execute(f"ALTER DATABASE {name} RESET default_transaction_isolation")
    postgres.end_sessions(url)
    until(lambda: is_served(service))
    service.append(conversation_id, user("two"), request_id="r2")
    stream.until(lambda: "two" in stream.messages())
    assert [it for it in stream.messages() if it != "well"] == ["two"]


@pytest.mark.parametrize(
    ("prepares", "is_pooled", "count"),
    [(None, False, 1), (None, True, 0), (False, False, 0), (True, False, 1)],
)
def test_statements_are_prepared_where_no_pooler_is_or_as_the_setting_says(
    postgres: Postgres, pooler: Pooler, prepares: bool | None, is_pooled: bool, count: int
) -> None:
    url = postgres.new_database()
    with closing(
        PostgresDatabase(pooler.url(url) if is_pooled else url, connections=1, prepares=prepares)
    ) as database:

        def work(connection: Connection, _: bool) -> int:
            for number in range(7):
                connection.execute("SELECT %s + 2", [number])
            row = connection.execute(
                "SELECT count(*) FROM pg_prepared_statements WHERE statement = 'SELECT $1 + 2'"
            ).fetchone()
            assert row is not None
            return int(row[0])

        assert database.run(work) == count


def test_statements_stay_prepared_behind_a_pooler_that_keeps_them(
    postgres: Postgres, start_server: Start, connect: Connect, tmp_path: Path
) -> None:
    url = postgres.new_database()
    with pooled(postgres, prepares=True) as pooler:
        servers = [
            start_server(
                store=pooler.url(url), data_dir=tmp_path / name, store_prepared_statements="on"
            )
            for name in "ab"
        ]
        services = [connect(it) for it in servers]
        names = [services[0].create().id for _ in range(3)]

        def write(number: int) -> None:
            for at in range(8):
                name = names[(number + at) % 3]
                services[at % 2].append(name, user(f"n{number} {at}"), request_id=f"{number}-{at}")

        at_once(6, write)
        postgres.end_sessions(url)  # the pooler prepares in the next ones what it keeps
        until(lambda: all(map(is_served, services)))
        services[0].delete(names.pop())
        at_once(6, lambda number: services[number % 2].append(names[0], user(f"late {number}")))
        for service in services:
            for name in names:
                messages = service.load(name, max_turns=200).messages
                assert [it.turn_number for it in messages] == [*range(1, len(messages) + 1)]
                assert len(messages) == 16 + 6 * (name == names[0])
        for server in servers:
            server.stop()
        with ExitStack() as stack:
            beside = [stack.enter_context(psycopg.connect(pooler.url(url))) for _ in range(3)]
            counts = [it.execute(PREPARED).fetchone() for it in beside]
        assert max(count for (count,) in filter(None, counts)) > 0


def test_no_function_of_the_schema_waits_for_a_lock_for_ever(postgres: Postgres) -> None:
    functions = postgres.execute(
        "SELECT proname FROM pg_proc JOIN pg_namespace n ON n.oid = pronamespace"
        " WHERE nspname = 'recollect' AND proname IN ('append', 'cancel_begin', 'replace',"
        " 'begin_redaction', 'end_redaction', 'begin_delete', 'end_delete', 'remove_empty',"
        " 'take_lease', 'prune_changes', 'keep_vectors', 'enter', 'begin_request',"
        " 'answer_request', 'give_up_request')"
        " AND 'lock_timeout=10s' = ANY(proconfig)",
        postgres.new_database(),
    )
    # `replace` and `begin_redaction` stand twice: with a claim, and for the version before.
    assert len(functions) == 17, "replacing a function drops the settings it had"

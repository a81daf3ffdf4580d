"""Drafts over replicas when PostgreSQL is killed: it empties their table, and gives the numbers of
transactions that left nothing durable to others.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from tests.conftest import Start
from tests.database.test_away import is_served
from tests.database.test_streams import Record, Subscribe, draft_of
from tests.logs.proxy import proxied
from tests.postgres import Pooler, Postgres
from tests.streaming.conftest import Recorder
from tests.waiting import until


@contextmanager
def transactions(url: str) -> Iterator[None]:
    """Let PostgreSQL number transactions that leave nothing, until it is killed."""

    def use() -> None:
        with suppress(psycopg.OperationalError), psycopg.connect(url, autocommit=True) as it:
            it.execute("DO $$ BEGIN LOOP PERFORM pg_current_xact_id(); ROLLBACK; END LOOP; END $$")

    thread = threading.Thread(target=use)
    thread.start()
    try:
        yield
    finally:
        thread.join(30)
        assert not thread.is_alive()


def until_looked(postgres: Postgres, url: str) -> None:
    """Wait until a server has looked for changes behind a thousand further transactions."""
    newest = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text, clock_timestamp()"
    ((first, _),) = postgres.execute(newest)

    def later() -> object:
        ((number, moment),) = postgres.execute(newest)
        return moment if int(str(number)) > int(str(first)) + 1000 else None

    then = until(later)
    until(
        lambda: postgres.execute(
            "SELECT FROM pg_stat_activity WHERE state = 'idle'"
            " AND query LIKE '%pg_current_snapshot()::text, recollect.timeline()%'"
            f" AND query_start > '{then}'",
            url,
        )
    )


def restart(postgres: Postgres, service: Recorder, name: str) -> None:
    """Start a PostgreSQL that was killed, and wait until a server has connections again."""
    postgres.start()
    until(lambda: is_served(service, name))


def test_a_draft_that_begins_behind_a_crash_of_postgresql_is_seen_on_every_replica(
    postgres: Postgres,
    start_server: Start,
    record: Record,
    subscribe: Subscribe,
    tmp_path: Path,
    no_log: None,
) -> None:
    url = postgres.new_database()
    with proxied(postgres, url) as (proxy, through):
        one = record(start_server(store=url, data_dir=tmp_path / "one"))
        two = start_server(store=through, data_dir=tmp_path / "two")
        name = one.conversation_of("Hi")
        far = subscribe(two.target).ready()
        with transactions(url):
            one.publish(name, "before", 0, "Seen")
            far.until(lambda: draft_of(far) == "Seen")  # it looks for parts beside them
            proxy.is_cut = True
            postgres.kill()
        restart(postgres, one, name)
        one.publish(name, "d", 0, "One ")
        proxy.is_cut = False
        one.publish(name, "d", 4, "two")
        far.until(lambda: draft_of(far) == "One two")
        assert far.error is None


def test_a_draft_that_begins_behind_a_crash_which_a_pooler_hides_is_seen_on_every_replica(
    postgres: Postgres,
    pooler: Pooler,
    start_server: Start,
    record: Record,
    subscribe: Subscribe,
    tmp_path: Path,
    no_log: None,
) -> None:
    url = postgres.new_database()
    one = record(start_server(store=url, data_dir=tmp_path / "one"))
    two = start_server(store=pooler.url(url), data_dir=tmp_path / "two")
    name = one.conversation_of("Hi")
    far = subscribe(two.target).ready()
    with transactions(url):
        one.publish(name, "before", 0, "Seen")
        far.until(lambda: draft_of(far) == "Seen")
        until_looked(postgres, url)
        with pooler.paused():
            postgres.kill()
            restart(postgres, one, name)
            one.publish(name, "d", 0, "One ")
    one.publish(name, "d", 4, "two")
    far.until(lambda: draft_of(far) == "One two")
    assert far.error is None


def test_a_draft_whose_parts_a_crash_of_postgresql_took_is_whole_on_every_replica(
    postgres: Postgres,
    start_server: Start,
    record: Record,
    subscribe: Subscribe,
    tmp_path: Path,
    no_log: None,
) -> None:
    url = postgres.new_database()
    one = record(start_server(store=url, data_dir=tmp_path / "one"))
    name = one.conversation_of("Hi")
    one.publish(name, "d", 0, "One ")
    postgres.kill()
    restart(postgres, one, name)
    one.publish(name, "d", 4, "two ")
    two = start_server(store=url, data_dir=tmp_path / "two")
    far = subscribe(two.target).ready()
    far.until(lambda: draft_of(far) == "One two ")
    one.publish(name, "d", 8, "three")
    far.until(lambda: draft_of(far) == "One two three")
    assert postgres.execute("SELECT count(*) FROM recollect.drafts", url) == [(2,)]

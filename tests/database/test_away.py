"""PostgreSQL that is away, or killed, under a running server: refused as a full disk refuses, and
served again by itself.
"""

import time
from collections.abc import (
    Iterator,
)
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import psycopg
import pytest
from recollect_server.kernel.log.store import LogUnavailable, Version
from recollect_server.postgres.store import PostgresStore

from tests.conftest import Start
from tests.crash.checker import check, check_index, repeat
from tests.crash.history import History
from tests.crash.load import under_load
from tests.logs.proxy import proxied
from tests.postgres import Postgres, copy_transcripts
from tests.server.conftest import Connect, Service, agent, code_of, failure_of, user
from tests.server.test_redact import redact
from tests.waiting import until

BEING_DELETED = "SELECT log FROM recollect.logs WHERE deleting AND bytes > 0"


def is_served(service: Service, conversation_id: str) -> bool:
    """Append to a conversation, and return whether that is done."""
    with suppress(grpc.RpcError):
        service.append(conversation_id, user("back"), request_id="back")
        return True
    return False


def test_messages_wait_until_postgresql_is_back_and_stand_in_their_order(
    postgres: Postgres, start_server: Start, connect: Connect, no_log: None
) -> None:
    service = connect(start_server(store=postgres.new_database()))
    conversation_id = service.conversation_of("one")
    other = service.conversation_of("another")
    postgres.kill()
    try:
        refused = failure_of(
            lambda: service.append(conversation_id, user("two"), agent("zebra"), request_id="r1")
        )
        assert (refused.code, refused.reason, refused.retry_ms) == (
            "UNAVAILABLE",
            "STORAGE_UNAVAILABLE",
            1000,
        )
        assert "the transcript cannot be written: " in refused.text
        assert "repeat with the same request_id" in refused.text
        assert service.get(conversation_id).message_count == 1
        assert service.found("zebra") == []
        assert code_of(lambda: service.create(request_id="c1")) == "UNAVAILABLE"
        assert code_of(lambda: service.rename(other, "Title", request_id="n1")) == "UNAVAILABLE"
        assert code_of(lambda: service.delete(other)) == "UNAVAILABLE"
    finally:
        postgres.start()
    until(lambda: is_served(service, conversation_id))
    assert [message.content for message in service.load(conversation_id).messages] == [
        *("one", "two", "zebra", "back"),
    ]
    assert service.append(conversation_id, user("two"), agent("zebra"), request_id="r1").duplicate
    assert service.found("zebra") == [conversation_id]
    created = service.create(request_id="c1").id
    assert service.create(request_id="c1").id == created
    assert service.rename(other, "Title", request_id="n1").title == "Title"
    assert {it.id for it in service.pages()[0]} == {conversation_id, other, created}
    service.delete(other)
    assert service.found("another") == []


def test_a_delete_that_the_database_interrupts_is_finished_once_it_does_not(
    postgres: Postgres, start_server: Start, connect: Connect, no_log: None
) -> None:
    url = postgres.new_database()
    service = connect(start_server(store=url))
    conversation_id = service.conversation_of("zebra")
    function = "recollect.end_delete(bigint, text, text)"
    postgres.execute(f"ALTER FUNCTION {function} RENAME TO away", url)
    assert code_of(lambda: service.delete(conversation_id)) == "UNAVAILABLE"
    assert code_of(lambda: service.get(conversation_id)) == "NOT_FOUND"
    assert postgres.execute(BEING_DELETED, url) == [(conversation_id,)]
    postgres.execute(
        f"ALTER FUNCTION {function.replace('end_delete', 'away')} RENAME TO end_delete", url
    )
    until(lambda: postgres.execute("SELECT log FROM recollect.logs", url) == [])
    assert postgres.execute("SELECT log FROM recollect.lines", url) == []


def test_a_server_stops_in_seconds_and_cleanly_though_postgresql_hangs(
    postgres: Postgres, start_server: Start, connect: Connect
) -> None:
    url = postgres.new_database()
    server = start_server(store=url)
    service = connect(server)
    name = service.conversation_of("zebra")
    assert service.found("zebra") == [name]
    with postgres.hung(), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(code_of, lambda: service.append(name, user("two"), request_id="r1"))
        start = time.monotonic()
        server.stop()
        assert time.monotonic() - start < 10  # its grace, and what PostgreSQL is given then
        assert waiting.result() in {"UNAVAILABLE", "CANCELLED"}
    again = start_server(store=url)
    assert not again.app.recovered.rebuilt  # its index was closed, not lost
    service = connect(again)
    service.append(name, user("two"), request_id="r1")
    assert [it.content for it in service.load(name).messages] == ["zebra", "two"]


@pytest.mark.timeout(120)
def test_a_transaction_that_is_stuck_delays_its_conversation_alone_and_not_for_ever(
    postgres: Postgres, start_server: Start, connect: Connect, no_log: None
) -> None:
    url = postgres.new_database()
    service = connect(start_server(store=url))
    stuck, other = service.conversation_of("one"), service.conversation_of("another")
    with ThreadPoolExecutor(1) as pool, psycopg.connect(url) as holder:
        holder.execute("SELECT FROM recollect.logs WHERE log = %s FOR NO KEY UPDATE", [stuck])
        refused = pool.submit(
            failure_of, lambda: service.append(stuck, user("two"), request_id="r1")
        )
        until(
            lambda: postgres.execute(
                "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'", url
            )
        )
        assert is_served(service, other)
        assert not refused.done()
        assert refused.result(30).code == "UNAVAILABLE"
        assert "lock timeout" in refused.result().text
        assert is_served(service, other)
    service.append(stuck, user("two"), request_id="r1")
    assert [it.content for it in service.load(stuck).messages] == ["one", "two"]


@pytest.mark.timeout(300)
def test_under_load_nothing_acknowledged_is_lost_or_doubled_when_postgresql_is_killed(
    postgres: Postgres, start_server: Start, connect: Connect, tmp_path: Path, no_log: None
) -> None:
    url = postgres.new_database()
    server = start_server(store=url)
    service = connect(server)
    anchor = service.conversation_of("anchor")
    history = History()
    for seed in range(3):
        with under_load(service, history, seed=seed) as callers:
            before = len(history.calls())
            until(lambda before=before: len(history.calls()) > before + 60)  # type: ignore[misc]
            postgres.kill()
            callers.join(60)
        postgres.start()
        until(lambda: is_served(service, anchor))
        assert repeat(history, service) == []
    until(lambda: postgres.execute(BEING_DELETED, url) == [])
    copy_transcripts(url, tmp_path / "copied")
    verdict = check(history, service, tmp_path / "copied")
    assert verdict.problems == []
    assert verdict.acknowledged > 100
    listed = {it.id for page in service.pages(page_size=500) for it in page}
    answered_ids = {call.conversation_id for call in history.calls()}
    assert listed <= answered_ids | {anchor}, "a conversation that nobody was told of"
    server.stop()
    copy_transcripts(url, tmp_path / "copied")
    assert (
        check_index(tmp_path / "copied", tmp_path / "anew", index=server.folder, grown=False) == []
    )


@pytest.mark.parametrize("is_repeated", [True, False], ids=["repeated", "given up"])
def test_a_conversation_whose_first_lines_nobody_answered_is_whole_or_nowhere(
    postgres: Postgres, start_server: Start, connect: Connect, no_log: None, is_repeated: bool
) -> None:
    url = postgres.new_database()
    with proxied(postgres, url) as (proxy, through):
        service = connect(start_server(store=through))
        first = service.conversation_of("one")
        proxy.is_cut, proxy.lose = True, b"recollect.append"
        assert code_of(lambda: service.create(request_id="lost")) == "UNAVAILABLE"
        proxy.is_cut = False
        until(lambda: is_served(service, first))
        names = {first}
        if is_repeated:
            names.add(service.create(request_id="lost").id)
        names.add(service.create(request_id="next").id)
        assert {it.id for it in service.pages()[0]} == names
        logs = postgres.execute("SELECT log FROM recollect.logs WHERE NOT deleting", url)
        assert {name for (name,) in logs} == names
        for name in names:
            assert service.get(name).id == name


def test_what_is_written_after_a_crash_of_postgresql_is_seen_by_a_server_that_saw_more_transactions(
    postgres: Postgres, start_server: Start, connect: Connect, tmp_path: Path, no_log: None
) -> None:
    url = postgres.new_database()
    one, two = (
        connect(start_server(store=url, data_dir=tmp_path / name)) for name in ("one", "two")
    )
    conversation_id = one.conversation_of("before")
    other = one.conversation_of("to be deleted")
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(500):  # PostgreSQL gives their numbers to others after its crash
            with suppress(psycopg.Rollback), connection.transaction():
                connection.execute("SELECT pg_current_xact_id()")
                raise psycopg.Rollback
    assert two.get(conversation_id).turn_count == 1  # it has followed until here
    postgres.kill()
    postgres.start()
    until(lambda: is_served(one, conversation_id))
    one.append(conversation_id, user("zebra"))
    one.delete(other)
    until(lambda: two.found("zebra") == [conversation_id])  # once it has its connections again
    assert [it.id for it in two.listed().conversations] == [conversation_id]


def test_a_delete_whose_begin_lost_its_answer_is_seen_at_once(
    postgres: Postgres,
    start_server: Start,
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
    no_log: None,
) -> None:
    service = connect(start_server(store=postgres.new_database()))
    conversation_id = service.conversation_of("zebra")
    swap = PostgresStore.swap

    def unanswered(store: PostgresStore, log: str, *values: Any, **options: Any) -> None:
        swap(store, log, *values, **options)
        raise LogUnavailable(log, "deleted", "the connection is lost")

    with monkeypatch.context() as lost:
        lost.setattr(PostgresStore, "swap", unanswered)
        refused = failure_of(lambda: service.delete(conversation_id, request_id="d1"))
    assert refused.code == "UNAVAILABLE"
    assert service.found("zebra") == []
    assert list(service.listed().conversations) == []
    receipt = service.delete(conversation_id, request_id="d1")
    assert receipt.conversation_id == conversation_id
    assert service.delete(conversation_id, request_id="d1") == receipt


def test_a_redaction_whose_begin_lost_its_answer_is_seen_at_once(
    postgres: Postgres,
    start_server: Start,
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
    no_log: None,
) -> None:
    service = connect(start_server(store=postgres.new_database()))
    conversation_id = service.conversation_of("zebra")
    swap = PostgresStore.swap

    def unanswered(store: PostgresStore, log: str, *values: Any, **named: Any) -> None:
        swap(store, log, *values, **named)
        raise LogUnavailable(log, "written", "the connection is lost")

    with monkeypatch.context() as lost:
        lost.setattr(PostgresStore, "swap", unanswered)
        refused = failure_of(lambda: redact(service, conversation_id, sequence=2, request_id="r1"))
    assert refused.code == "UNAVAILABLE"
    assert service.found("zebra") == []
    assert service.load(conversation_id).messages[0].content == "[redacted]"
    repeated = redact(service, conversation_id, sequence=2, request_id="r1")
    assert (repeated.duplicate, len(repeated.messages)) == (True, 1)


def test_a_delete_that_is_refused_behind_its_begin_is_seen_at_once(
    postgres: Postgres,
    start_server: Start,
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
    no_log: None,
) -> None:
    service = connect(start_server(store=postgres.new_database()))
    conversation_id = service.conversation_of("zebra")

    raw = PostgresStore.raw

    def refuse(
        store: PostgresStore, log: str, version: Version = Version.PRESENT, **range_: Any
    ) -> Iterator[bytes]:
        if version is Version.REPLACED:
            raise LogUnavailable(log, "read", "the connection is lost")
        return raw(store, log, version, **range_)

    with monkeypatch.context() as lost:
        lost.setattr(PostgresStore, "raw", refuse)
        assert code_of(lambda: service.delete(conversation_id, request_id="d1")) == "UNAVAILABLE"
    assert service.found("zebra") == []
    assert list(service.listed().conversations) == []
    receipt = service.delete(conversation_id, request_id="d1")
    assert receipt.conversation_id == conversation_id

"""Servers while others hold all connections, or leave a transaction open."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.conftest import Start
from tests.operations.conftest import OBSERVED, get, scrape
from tests.postgres import Postgres
from tests.server.conftest import Connect, failure_of, user
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("no_log")


@pytest.mark.timeout(120)
def test_calls_without_a_connection_are_refused_within_seconds_and_health_is_answered(
    postgres: Postgres, start_server: Start, connect: Connect
) -> None:
    url = postgres.new_database()
    server = start_server(store=url, store_connections=1, **OBSERVED)
    service = connect(server)
    stuck, other = service.conversation_of("one"), service.conversation_of("another")
    health: Any = health_pb2_grpc.HealthStub(service.channel)
    with ThreadPoolExecutor(1) as pool, psycopg.connect(url) as holder:
        holder.execute("SELECT FROM recollect.logs WHERE log = %s FOR NO KEY UPDATE", [stuck])
        append = pool.submit(service.append, stuck, user("two"), request_id="r1")
        until(
            lambda: postgres.execute(
                "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'", url
            )
        )
        start = time.monotonic()
        refused = failure_of(lambda: service.append(other, user("two"), request_id="r2"))
        assert time.monotonic() - start < 8
        assert (refused.code, refused.reason) == ("UNAVAILABLE", "STORAGE_UNAVAILABLE")
        assert "all 1 connections to PostgreSQL are in use, and none became free" in refused.text
        assert "store_connections" in refused.text
        assert health.Check(health_pb2.HealthCheckRequest(), timeout=5).status
        assert get(f"http://{server.app.health_address}/livez")[0] == 200
        assert scrape(server).value("recollect_postgres_up") == 1
        holder.rollback()
        append.result(30)
    service.append(other, user("two"), request_id="r2")
    for name, first in ((stuck, "one"), (other, "another")):
        assert [it.content for it in service.load(name).messages] == [first, "two"]


@pytest.mark.timeout(120)
def test_connections_that_postgresql_does_not_make_ready_do_not_count_as_used_by_calls(
    postgres: Postgres, start_server: Start, connect: Connect
) -> None:
    url = postgres.new_database()
    server = start_server(store=url, **OBSERVED)
    service = connect(server)
    service.conversation_of("one")
    with psycopg.connect(url) as holder:
        # As the first connections behind a takeover wait for a synchronous standby.
        holder.execute("LOCK recollect.timelines IN ACCESS EXCLUSIVE MODE")
        holder.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        refused = failure_of(lambda: service.create(request_id="r1"))
        assert "PostgreSQL takes connections, but made none ready" in refused.text
        assert (refused.code, refused.retry_ms) == ("UNAVAILABLE", 1000)
        until(lambda: scrape(server).value("recollect_postgres_up") == 0)
    until(lambda: scrape(server).value("recollect_postgres_up") == 1)
    assert service.create(request_id="r1").id


def test_the_age_of_a_transaction_left_open_is_a_metric_until_its_time_is_over(
    postgres: Postgres, start_server: Start, connect: Connect
) -> None:
    url = postgres.new_database()
    server = start_server(store=url, **OBSERVED)
    service = connect(server)
    with psycopg.connect(url) as holder:
        holder.execute("SET idle_in_transaction_session_timeout = '4s'")
        holder.execute("SELECT pg_current_xact_id()")
        until(lambda: scrape(server).value("recollect_postgres_horizon_age_seconds") > 1)
        service.conversation_of("meanwhile")
        until(lambda: scrape(server).value("recollect_postgres_horizon_age_seconds") == 0)
        holder.close()  # PostgreSQL has ended it
    assert service.found("meanwhile")

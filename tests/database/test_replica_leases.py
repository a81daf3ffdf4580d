"""Several servers over one database: work that one of them does at a time."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from recollect import Client
from recollect_server.kernel.log.store import LogTaken
from recollect_server.people.communication import Provenance
from recollect_server.people.communication_service import External
from recollect_server.retention.service import Retention
from recollect_server.run.jobs import of_space
from recollect_server.run.space import OpenSpace

from tests.channels.conftest import ALEX, STRANGER, Post
from tests.conftest import Start
from tests.logs.proxy import proxied
from tests.postgres import Postgres
from tests.waiting import until


def test_notes_are_taken_once_by_whichever_server_has_the_lease(
    postgres: Postgres, start_server: Start, tmp_path: Path
) -> None:
    url = postgres.new_database()
    servers = [
        start_server(store=url, data_dir=tmp_path / name, abbreviator="extractive")
        for name in ("one", "two")
    ]
    with Post(servers[0].target) as one, Post(servers[1].target) as two:
        names = [
            (one, two)[number % 2].conversation_of(
                f"The zebra {number} lives in Vienna.", "It eats apricots."
            )
            for number in range(6)
        ]
        servers[0].clock.now += 7_200_000
        until(lambda: all(two.get(name).abbreviation for name in names))
        for name in names:
            assert one.get(name) == two.get(name)
    query = (
        "SELECT log, count(*) FROM recollect.lines WHERE position('abbreviat' IN"
        " convert_from(body, 'UTF8')) > 0 GROUP BY log"
    )
    rows = postgres.execute(query, url)
    assert sorted(rows) == sorted((name, 1) for name in names)
    (held,) = postgres.execute("SELECT fence FROM recollect.leases WHERE purpose = 'notes'", url)
    assert held == (1,)


@pytest.fixture
def tests_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the servers' own looks at retention, a second after their start, from its lease."""
    monkeypatch.setattr(of_space, "_FIRST_RETENTION_SECONDS", 3600.0)


@pytest.mark.usefixtures("tests_lease")
def test_work_whose_lease_another_server_took_meanwhile_writes_nothing(
    postgres: Postgres, start_server: Start
) -> None:
    url = postgres.new_database()
    server = start_server(store=url)
    taken = "UPDATE recollect.leases SET holder = 0, fence = fence + 1"
    with server.app.spaces.use("default") as space:
        with space.service(Retention).alone() as may:
            assert may
            space.service(External).receive(
                "whatsapp", STRANGER, "1", "written", (), None, Provenance("")
            )
            postgres.execute(taken, url)
            with pytest.raises(LogTaken):
                space.service(External).receive(
                    "whatsapp", ALEX, "2", "late", (), None, Provenance("")
                )
        with space.service(Retention).alone() as may:
            assert not may
        space.service(External).receive(
            "whatsapp", ALEX, "3", "no such work", (), None, Provenance("")
        )
    late = "SELECT count(*) FROM recollect.lines WHERE position('late'::bytea IN body) > 0"
    assert postgres.execute(late, url) == [(0,)]


@pytest.mark.usefixtures("tests_lease")
def test_a_statement_that_was_cut_off_until_another_server_had_its_lease_writes_nothing(
    postgres: Postgres, start_server: Start, tmp_path: Path
) -> None:
    url = postgres.new_database()
    with ExitStack() as stack:
        proxy, proxied_url = stack.enter_context(proxied(postgres, url))
        servers = [
            start_server(store=it, data_dir=tmp_path / name)
            for name, it in (("one", url), ("two", proxied_url))
        ]
        stack.callback(servers[1].stop)  # before its way to PostgreSQL ends
        one, two = (stack.enter_context(it.app.spaces.use("default")) for it in servers)

        def receive(space: OpenSpace, person: str, number: str, text: str) -> None:
            space.service(External).receive(
                "whatsapp", person, number, text, (), None, Provenance("")
            )

        def work() -> None:
            with two.service(Retention).alone() as may:
                assert may
                receive(two, STRANGER, "1", "early")
                proxy.hold = b"recollect.append"
                with pytest.raises(LogTaken):
                    receive(two, ALEX, "2", "late")
                with pytest.raises(LogTaken):
                    receive(two, ALEX, "3", "later still")

        with ThreadPoolExecutor(1) as pool:
            try:
                cut_off = pool.submit(work)
                until(lambda: cut_off.done() or not proxy.passes.is_set())
                postgres.execute("UPDATE recollect.leases SET until = '-infinity'", url)
                with one.service(Retention).alone() as may:
                    assert may
                    receive(one, ALEX, "4", "in time")
            finally:
                proxy.passes.set()
            cut_off.result()
        with two.service(Retention).alone() as may:
            assert not may
        for server in servers:
            client = stack.enter_context(Client(server.target))
            assert {
                message.text
                for each in client.external.list_communications()
                for message in client.external.get_communication(each.id).messages
            } == {"early", "in time"}
    rows = "SELECT count(*) FROM recollect.lines WHERE position('late'::bytea IN body) > 0"
    assert postgres.execute(rows, url) == [(0,)]

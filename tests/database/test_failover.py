"""A standby of PostgreSQL takes over under load: all that was acknowledged is there, where the
standby had it; where it had not, nobody goes on as if it were.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import grpc
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from recollect import CheckpointRecord, Client
from recollect_server.kernel.log.store import START, LogTaken, LogUnavailable
from recollect_server.postgres.database import PostgresDatabase
from recollect_server.postgres.sharing import PostgresSharing
from recollect_server.postgres.store import PostgresStore
from recollect_server.postgres.tokens import PostgresTokenLedger
from recollect_server.run import app

from tests import at_rest
from tests.administration.test_verification import verified
from tests.channels.conftest import ALEX, ALEX_MAIL, STRANGER, Post, home
from tests.conftest import MovableClock, RunningServer, Start
from tests.crash.checker import check, repeat
from tests.crash.load import connected, process
from tests.database.load import (
    Load,
    changes_of,
    contents_of,
    forget_reset,
    is_reset,
    until_update_of,
)
from tests.database.test_streams import draft_of
from tests.postgres import Postgres, copy_transcripts, pooled, running
from tests.server.conftest import Connect, Service, agent, code_of, user
from tests.spaces.conftest import enter
from tests.spaces.test_watched import Begin, close, watch
from tests.streaming.conftest import Subscriber, Watched
from tests.waiting import until, until_embedded

__all__ = ["enter", "watch"]

ACKNOWLEDGED = 150  # calls, before PostgreSQL is killed and again behind that
MOST = 5.0  # seconds between two answers that a failover may cost beside the promotion itself


class Cluster:
    """A primary of PostgreSQL, and a standby that takes over from it."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.primary = stack.enter_context(running())
        self.standby = self.primary
        self._name = ""

    def renew(self) -> str:
        """Make a database, and a standby of the one that is the primary now. Return the URL of
        both.
        """
        self.standby = self._stack.enter_context(self.primary.standby())
        self._name = str(conninfo_to_dict(self.primary.new_database())["dbname"])
        return (
            f"postgresql://postgres@/{self._name}?host={self.primary.folder},{self.standby.folder}"
            "&target_session_attrs=read-write"
        )

    @property
    def url(self) -> str:
        """The URL of the database at the primary alone."""
        return self.primary.url(self._name)

    def wait_for_standby(self) -> None:
        """Let each commit wait for the standby."""
        self.primary.set("synchronous_standby_names", "*")
        until(
            lambda: (
                self.primary.execute("SELECT sync_state FROM pg_stat_replication") == [("sync",)]
            )
        )

    def detach(self) -> None:
        """Let the standby receive nothing more, once it has everything until now."""
        until(
            lambda: (
                self.primary.execute(
                    "SELECT replay_lsn = pg_current_wal_lsn() FROM pg_stat_replication"
                )
                == [(True,)]
            )
        )
        self.standby.detach()

    def fail_over(self) -> float:
        """Kill the primary, and promote the standby. Return the seconds that it takes."""
        began = time.monotonic()
        self.primary.kill()
        self.standby.promote()
        self.primary = self.standby
        return time.monotonic() - began


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(stack)


@pytest.mark.timeout(180)
def test_a_synchronous_standby_takes_over_and_nothing_is_lost_doubled_or_told_otherwise(
    cluster: Cluster, tmp_path: Path, watched: Watched
) -> None:
    url = cluster.renew()
    cluster.wait_for_standby()
    with ExitStack() as stack:
        targets = [
            stack.enter_context(process(tmp_path / name, "", "127.0.0.1:0", "--store", url)).target
            for name in "ab"
        ]
        services = [stack.enter_context(connected(target)) for target in targets]
        watched.subscribers += [Subscriber(target).ready() for target in targets]
        hopper = Subscriber(targets[0]).ready()
        watched.subscribers.append(hopper)
        load = Load(services)
        with ThreadPoolExecutor() as pool:
            callers = [pool.submit(load.run, number) for number in range(6)]
            try:
                load.until_answered(ACKNOWLEDGED)
                hopper.drop()  # at a cursor of before
                load.until_answered(ACKNOWLEDGED // 4)
                seconds = cluster.fail_over()
                hopper.resume(targets[1])
                load.until_answered(ACKNOWLEDGED)
            finally:
                load.end()
            for caller in callers:
                caller.result()
        last = services[0].create()
        for one in watched.subscribers:
            until_update_of(one, last.id)
            assert not any(it.reset for it in one.updates)
        first, second, third = (changes_of(it.updates) for it in watched.subscribers)
        assert first == second == third
        stall = load.longest_stall()
        assert stall < seconds + MOST, (
            f"{stall:.1f} s without an answer, {seconds:.1f} s for the promotion"
        )
        assert repeat(load.history, services[1]) == []
        for call in load.history.calls():
            call.cursor = ""
        copy_transcripts(cluster.url, tmp_path / "copied")
        verdicts = [check(load.history, service, tmp_path / "copied") for service in services]
        assert [verdict.problems for verdict in verdicts] == [[], []]
        assert verdicts[0].acknowledged > 2 * ACKNOWLEDGED
        assert contents_of(services[0]) == contents_of(services[1])


@pytest.mark.timeout(180)
def test_a_stream_that_is_reset_for_a_rollback_beside_its_last_change_shows_everything(
    cluster: Cluster, start_server: Start, connect: Connect, watched: Watched
) -> None:
    """The standby has all that the stream delivered, and cannot know it."""
    texts = ["A walrus sleeps", "It snores", "It wakes"]
    url = cluster.renew()
    cluster.wait_for_standby()
    server = start_server(store=url)
    service = connect(server)
    stream = Subscriber(server.target).ready()
    watched.subscribers.append(stream)
    count = len(stream.updates)
    name = service.conversation_of(texts[0])
    with psycopg.connect(cluster.url) as beside:
        beside.execute("SELECT pg_current_xact_id()")
        service.append(name, user(texts[1]))
        beside.rollback()
    stream.until(lambda: stream.messages() == texts[:2])
    cluster.fail_over()
    until(lambda: is_answered(lambda: service.append(name, user(texts[2]), request_id="r1")))
    # a snapshot loads the newest conversation alone: it is taken before there is another
    stream.until(lambda: is_reset(stream))

    def shown() -> set[str]:
        loaded = [it.content for one in stream.of("conversation_loaded") for it in one.messages]
        return {*loaded, *stream.messages()[2:]}

    stream.until(lambda: shown() == {*texts})
    assert shown() == {*texts}
    before = changes_of(forget_reset(stream, count, cluster.url))
    stream.resume()
    until_update_of(stream, service.create().id)
    assert not is_reset(stream)
    assert stream.messages() == texts
    assert changes_of(stream.updates[count:])[: len(before)] == before


def shown(service: Service, word: str) -> set[str]:
    """Return the conversations of which a search shows a text with the word."""
    return {hit.conversation_id for hit in service.search(word).hits if word in str(hit)}


class Lost:
    """Changes that two servers make once the standby of their database receives nothing more."""

    def __init__(self, cluster: Cluster, services: list[Service], stop: Callable[[], None]) -> None:
        """`stop` ends a third server while it has a part of what is lost."""
        one, two, three = services
        self.first = one.conversation_of("A walrus sleeps", "It snores")
        self.deleted = two.conversation_of("A pangolin rolls")
        self.title = one.rename(self.first, "Old title").title
        self.before = one.append(self.first, user("Before")).cursor
        until(lambda: two.get(self.first).message_count == 3)
        cluster.detach()
        self.cursor = one.append(self.first, user("zebra vanished"), request_id="r1").cursor
        assert shown(three, "zebra") == {self.first}
        stop()
        two.append(self.first, user("okapi vanished"), agent("Indeed"), request_id="r2")
        two.rename(self.first, "Lost title", request_id="n1")
        self.second = one.create(messages=[user("A quagga grazes")], request_id="c1").id
        one.append(self.second, user("It runs"), request_id="r3")
        two.delete(self.deleted, request_id="d1")
        for service in (one, two):
            assert shown(service, "okapi") == {self.first}
            assert shown(service, "quagga") == {self.second}
            assert shown(service, "pangolin") == set()


@pytest.mark.timeout(180)
def test_what_a_standby_never_got_is_nowhere_and_every_cursor_that_saw_it_is_reset(
    cluster: Cluster, start_server: Start, connect: Connect, tmp_path: Path
) -> None:
    url = cluster.renew()

    def start(name: str) -> RunningServer:
        return start_server(store=url, data_dir=tmp_path / name, embedder="onnx")

    servers = [start(name) for name in "abc"]
    services = [connect(server) for server in servers]
    with ExitStack() as stack:
        streams = [Subscriber(server.target).ready() for server in servers[:2]]
        for one in streams:
            stack.callback(one.close)
        lost = Lost(cluster, services, servers[2].stop)
        del servers[2], services[2]
        for one in streams:
            until_update_of(one, lost.second)
            one.until(lambda one=one: one.of("conversation_deleted"))  # type: ignore[misc]
        cursors = [one.cursor for one in streams]
        # Above the oldest transaction that runs streams tell nothing, but a snapshot has it.
        beside = stack.enter_context(suppressing(psycopg.connect(cluster.url)))
        beside.execute("SELECT pg_current_xact_id()")
        services[0].append(lost.first, user("ibex vanished"))
        streams.append(Subscriber(servers[0].target, conversation_ids=[lost.first]).ready())
        stack.callback(streams[-1].close)
        assert streams[-1].of("conversation_loaded")[0].messages[-1].content == "ibex vanished"
        for server, service in zip(servers, services, strict=True):
            until_embedded(service, server)
        cluster.fail_over()

        # Of the same length, and at the same place, as what one server has in its index.
        until(
            lambda: is_answered(
                lambda: services[1].append(lost.first, user("hyena remained"), request_id="h1")
            )
        )
        for one in streams:
            one.until(lambda one=one: one.error or any(it.reset for it in one.updates))  # type: ignore[misc]

        def check_all(service: Service) -> None:
            until(lambda: not service.search("hyena").degraded)
            assert [m.content for m in service.load(lost.first).messages] == [
                *("A walrus sleeps", "It snores", "Before", "hyena remained"),
            ]
            assert [m.turn_number for m in service.load(lost.first).messages] == [1, 2, 3, 4]
            assert service.get(lost.first).title == lost.title
            assert service.get(lost.first).message_count == 4
            assert {it.id for it in service.pages()[0]} == {lost.first, lost.deleted}
            assert code_of(lambda: service.get(lost.second)) == "NOT_FOUND"
            for word in ("zebra", "okapi", "quagga", "ibex"):
                assert shown(service, word) == set()
            assert shown(service, "hyena") == {lost.first}
            assert shown(service, "pangolin") == {lost.deleted}

        for service in services:
            check_all(service)
        servers[0].stop()
        servers[0] = start("a")
        servers += [start(name) for name in "cd"]
        for server in servers:
            service = connect(server)
            check_all(service)
            for cursor in (*cursors, lost.cursor):
                late = Subscriber(server.target, cursor=cursor).ready()
                stack.callback(late.close)
                assert late.updates[0].reset
            late = Subscriber(server.target, cursor=lost.before).ready()
            stack.callback(late.close)
            assert not any(it.reset for it in late.updates)
            assert late.messages() == ["hyena remained"]
            until_embedded(service, server)
            with Client(server.target) as client:
                assert verified(client).problems == ()
        service = connect(servers[0])
        again = service.append(lost.first, user("zebra vanished"), request_id="r1")
        assert (again.duplicate, again.messages[0].turn_number) == (False, 5)
        assert service.rename(lost.first, "Lost title", request_id="n1").title == "Lost title"
        assert service.create(messages=[user("A quagga grazes")], request_id="c1").id != lost.second
        service.delete(lost.deleted, request_id="d1")
        assert shown(connect(servers[1]), "pangolin") == set()


@pytest.mark.timeout(180)
def test_a_start_behind_a_takeover_compares_first_what_was_written_anew_and_the_rest_beside_calls(
    cluster: Cluster, start_server: Start, connect: Connect, tmp_path: Path, clock: MovableClock
) -> None:
    """A log may have got as much as it lost, so lengths do not tell."""
    url = cluster.renew()

    def start(name: str) -> RunningServer:
        return start_server(store=url, data_dir=tmp_path / name)

    servers = [start(name) for name in "ab"]
    services = [connect(server) for server in servers]
    name, unlost = (services[0].conversation_of(text) for text in ("A walrus sleeps", "An otter"))
    services[0].append(unlost, user("It swims"), request_id="r1")
    for service in services:
        until(lambda service=service: service.get(unlost).message_count == 2)  # type: ignore[misc]
    servers[1].stop()  # it has what both histories have
    cluster.detach()
    services[0].append(name, user("zebra vanished"))
    assert shown(services[0], "zebra") == {name}
    servers[0].stop()
    cluster.fail_over()
    taken_over = start("c")
    service = connect(taken_over)
    service.append(name, user("hyena remained"))
    service.append(unlost, user("It dives"))
    taken_over.stop()
    with apsw.Connection(str(servers[1].folder / at_rest.INDEX)) as connection:
        connection.execute("UPDATE requests SET hash = 'ff' WHERE request_id = 'r1'")
    connection.close()
    (servers[1].folder / f"{at_rest.INDEX}{at_rest.SEAL}").unlink()
    with ExitStack() as stack:
        for server, is_rebuilt in zip(servers, (True, False), strict=True):
            again = RunningServer(
                app.start(server.settings, clock=clock, compared_at_once=0), clock, server.settings
            )
            stack.callback(again.stop)
            recovered = again.app.recovered
            assert (recovered.rebuilt, recovered.is_compared) == (is_rebuilt, is_rebuilt)
            service = connect(again)
            assert shown(service, "zebra") == set()
            # the comparison beside calls may have given up the index by now: it is made anew
            until(lambda service=service: shown(service, "hyena") == {name})  # type: ignore[misc]
            repeat_it = partial(service.append, unlost, user("It swims"), request_id="r1")
            until(lambda repeat_it=repeat_it: is_answered(repeat_it))  # type: ignore[misc]
            assert repeat_it().duplicate


KEPT, LOST = "unlost", "lost"


class Tail:
    """Writes by two servers of every kind but messages, before and behind the moment from which
    the standby of their database receives nothing more.
    """

    def __init__(self, one: Post, two: Post, first: Client, second: Client) -> None:
        one.own("whatsapp", ALEX, request_id="o1")
        self.name = home(one.whatsapp(KEPT, delivery="m1"))
        self.deleted = home(one.whatsapp(KEPT, delivery="m2", group="g@g.us"))
        one.whatsapp(KEPT, STRANGER, delivery="m3")
        two.abbreviate(self.name, KEPT)
        second.recall.set_anchor("city", KEPT)
        first.checkpoints.put_records("alex", [CheckpointRecord(KEPT, b"1")])
        self.one, self.two, self.first, self.second = one, two, first, second

    def lose(self) -> None:
        """Write what is lost: each server some of it, and the other one answers with it."""
        one, two, first, second = self.one, self.two, self.first, self.second
        two.own("email", ALEX_MAIL, request_id="o2")
        first.recall.set_anchor("city", LOST)
        second.recall.set_anchor("pet", LOST)
        two.whatsapp(LOST, STRANGER, delivery="m4")
        one.whatsapp(LOST, "+49 170 111", delivery="m5")
        one.abbreviate(self.name, LOST)
        second.checkpoints.put_records("alex", [CheckpointRecord(LOST, b"2")])
        second.conversations.publish_delta(self.name, "d", 0, "An answer")
        first.conversations.publish_delta(one.create().id, "e", 0, LOST)
        one.delete(self.deleted)
        for it in (one, two):
            assert it.get(self.name).abbreviation == LOST
            assert len(it.identities()) == 2
        for client in (first, second):
            assert {it.value for it in client.recall.list_anchors()} == {LOST}
            assert len(client.external.search_communications(LOST).matches) == 2
            assert len(list(client.checkpoints.list_records("alex").records)) == 2

    def check(self, post: Post, client: Client) -> None:
        """Check that nothing is left of what was lost, and all that was before."""
        assert post.get(self.name).abbreviation == KEPT
        assert [it[0] for it in post.identities()] == ["whatsapp"]
        assert [it.value for it in client.recall.list_anchors()] == [KEPT]
        assert client.external.search_communications(LOST).matches == ()
        assert [it.message_count for it in client.external.list_communications()] == [1]
        assert [it.key for it in client.checkpoints.list_records("alex").records] == [KEPT]
        assert shown(post, LOST) == set()
        assert {it.id for it in post.pages()[0]} == {self.name, self.deleted}
        assert verified(client).problems == ()


@pytest.mark.timeout(180)
def test_ledgers_notes_and_drafts_that_a_standby_never_got_are_nowhere_behind_a_pooler_too(
    cluster: Cluster, start_server: Start, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        # first: without PgBouncer it skips the test, and a standby that does not take over would
        # be left, for which the next test would wait
        pooler = stack.enter_context(pooled(cluster.primary))
        url = cluster.renew()
        servers = [
            start_server(store=it, data_dir=tmp_path / name)
            for name, it in (("a", url), ("b", pooler.url(cluster.url)))
        ]
        for server in servers:
            stack.callback(server.stop)
        one, two = (stack.enter_context(Post(it.target)) for it in servers)
        first, second = (stack.enter_context(Client(it.target)) for it in servers)
        tail = Tail(one, two, first, second)
        cluster.detach()
        streams = [Subscriber(server.target).ready() for server in servers]
        for stream in streams:
            stack.callback(stream.close)
        tail.lose()
        for stream in streams:
            stream.until_count("message_delta", 2)
        cluster.fail_over()
        # It is held, and the other server stores it before this one can.
        assert not is_answered(lambda: two.whatsapp("again", delivery="again"))
        pooler.lead_to(cluster.primary)
        for post in (one, two):
            until(
                lambda post=post: is_answered(lambda: post.whatsapp("again", delivery="again"))  # type: ignore[misc]
            )
        for stream in streams:
            stream.until(
                lambda stream=stream: stream.error or any(it.reset for it in stream.updates)  # type: ignore[misc]
            )
        for post, client in ((one, first), (two, second)):
            until(lambda post=post: not post.search("anything").degraded)  # type: ignore[misc]
            tail.check(post, client)
        # What was lost is carried out anew, once.
        assert not two.whatsapp(LOST, STRANGER, delivery="m4").duplicate
        assert one.whatsapp(LOST, STRANGER, delivery="m4").duplicate
        again = one.whatsapp(KEPT, delivery="m2", group="g@g.us")
        assert (again.duplicate, home(again)) == (True, tail.deleted)
        assert two.own("email", ALEX_MAIL, request_id="o2").channel == "email"
        # An answer that is being written is nothing stored: it goes on, where its conversation is.
        first.conversations.publish_delta(tail.name, "d", 9, " goes on")
        for server in servers:
            late = Subscriber(server.target)
            stack.callback(late.close)
            late.until(lambda late=late: draft_of(late) == "An answer goes on")  # type: ignore[misc]


@contextmanager
def suppressing(connection: "psycopg.Connection[Any]") -> "Iterator[psycopg.Connection[Any]]":
    """Yield a connection whose server may be gone when it is closed."""
    with suppress(psycopg.Error), connection:
        yield connection


def test_numbers_that_a_lost_primary_gave_out_are_not_given_out_again(postgres: Postgres) -> None:
    url = postgres.new_database()
    lost = PostgresDatabase(url)
    try:
        ledger, sharing = PostgresTokenLedger(lost), PostgresSharing(lost, "default")
        ledger.append({"type": "token"})
        _, line, _ = ledger.mark()
        with sharing.lease("notes", 60.0) as fence:
            assert fence
            # A standby that got nothing of it, and a lease that another replica has had before.
            for statement in (
                "DELETE FROM recollect.tokens",
                "DELETE FROM recollect.replicas",
                f"ALTER TABLE recollect.replicas ALTER number RESTART WITH {lost.number}",
                "ALTER TABLE recollect.tokens ALTER line RESTART WITH 1",
                "UPDATE recollect.leases SET fence = fence - 1, holder = 0, until = '-infinity'",
                "UPDATE recollect.timelines SET place = 'of the primary'",
            ):
                postgres.execute(statement, url)
            taken_over = PostgresDatabase(url)
            try:
                assert taken_over.number > lost.number
                ledger = PostgresTokenLedger(taken_over)
                ledger.append({"type": "token"})
                assert ledger.mark()[1] > line
                with PostgresSharing(taken_over, "default").lease("notes", 60.0) as later:
                    assert later > fence
                store = PostgresStore(lost, "default", Path("unused"))
                with pytest.raises(LogTaken):
                    store.append("conv-01J00000000000000000000000", START, [b"{}\n"])
            finally:
                taken_over.close()
    finally:
        lost.close()


def test_what_is_left_of_a_delete_that_was_lost_goes_though_the_database_refuses_once(
    postgres: Postgres,
    start_server: Start,
    connect: Connect,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = postgres.new_database()
    servers = [start_server(store=url, data_dir=tmp_path / name) for name in "ab"]
    one, two = map(connect, servers)
    name, other = one.conversation_of("pangolin", "Two lines more"), one.conversation_of("zebra")
    assert two.found("pangolin") == [name]
    space = servers[1].app.spaces.open_now()[0]._space
    assert space._following is not None
    monkeypatch.setattr(space.deletions, "finish_interrupted", lambda *_: True)
    one.delete(name)
    assert two.found("pangolin") == []
    assert space.index.removal.find(name) is not None
    refused: list[str] = []

    def refuse(_: object, log: str) -> bool:
        monkeypatch.undo()
        refused.append(log)
        raise LogUnavailable(log, "read", "the connection is lost")

    monkeypatch.setattr(space._following, "_differs", refuse)
    postgres.execute(  # as a standby that got all but the delete, and wrote to the other one since
        "UPDATE recollect.logs SET deleting = false; DELETE FROM recollect.traces;"
        "DELETE FROM recollect.changes WHERE action = 'delete';"
        "UPDATE recollect.timelines SET place = 'of the primary'; SELECT recollect.enter();"
        'INSERT INTO recollect.changes (space, log, kind, action, "from", until, replica)'
        " SELECT space, log, kind, 'append', 1, bytes, 0 FROM recollect.logs WHERE lines = 2",
        url,
    )
    until(lambda: two.found("pangolin") == [name])
    until(lambda: set(refused) == {other})
    until(lambda: space.index.removal.find(name) is None)
    assert not space.deletions.is_any_left


def is_answered(call: Callable[[], object]) -> bool:
    """Make a call, and return whether it is answered."""
    with suppress(grpc.RpcError):
        call()
        return True
    return False


@pytest.mark.timeout(180)
@pytest.mark.parametrize("has_all", [True, False], ids=["has all", "lacks a message"])
def test_a_stream_whose_space_is_closed_while_a_standby_takes_over_misses_nothing(
    cluster: Cluster, start_server: Start, watch: Begin, has_all: bool
) -> None:
    url = cluster.renew()
    if has_all:
        cluster.wait_for_standby()
    server = start_server(store=url)
    watched = watch(server, "watched")
    watched.append("Before")
    assert watched.read(1) == ["Before"]
    if not has_all:
        cluster.detach()
    watched.append("Last")
    assert watched.read(1) == ["Last"]
    close(server, "watched")
    cluster.fail_over()
    until(
        lambda: is_answered(
            lambda: watched.service.append(watched.name, user("After"), request_id="r")
        )
    )
    if has_all:
        assert watched.read(1) == ["After"]
        return
    update = watched.next()
    while not update.reset:
        assert update.HasField("heartbeat")
        update = watched.next()
    while not update.HasField("conversation_loaded"):
        update = watched.next()
    texts = [it.content for it in update.conversation_loaded.messages]
    # the snapshot may be of before the append, which then follows it
    assert texts + watched.read(2 - len(texts)) == ["Before", "After"]

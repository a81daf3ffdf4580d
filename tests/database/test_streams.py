"""Streams over replicas: one order, cursors that hold on all of them, drafts that all show."""

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import psycopg
import pytest
from recollect.v1.external_communication_pb2 import CommunicationUpdate
from recollect.v1.update_pb2 import Update
from recollect_server.kernel.domain.conversation import Began
from recollect_server.kernel.domain.message import Message, Role
from recollect_server.kernel.log.lines import Entry, encoded
from recollect_server.kernel.log.store import LogUnavailable
from recollect_server.kernel.stream.live import Choice, LiveUpdates
from recollect_server.kernel.stream.log import UpdateLog
from recollect_server.kernel.stream.ring import Interest
from recollect_server.people.communication_stream import LiveCommunications
from recollect_server.postgres.follower import Follower
from recollect_server.postgres.store import PostgresStore
from structlog.testing import capture_logs

from tests.conftest import RunningServer, Start
from tests.crash.load import connected, process
from tests.external.conftest import BLOCKED, Meet, Watch, assert_refused
from tests.postgres import Postgres
from tests.server.conftest import Service, agent, code_of, delete_index, server_process, user
from tests.streaming.conftest import Recorder, Subscriber, Watched
from tests.waiting import until

Subscribe = Callable[..., Subscriber]
Record = Callable[[RunningServer], Recorder]


@pytest.fixture
def url(postgres: Postgres) -> str:
    """Return the URL of a new database."""
    return postgres.new_database()


@pytest.fixture
def replicas(url: str, start_server: Start, tmp_path: Path) -> tuple[RunningServer, RunningServer]:
    """Start two servers over one database, each with a folder of its own."""
    first, second = (start_server(store=url, data_dir=tmp_path / name) for name in "ab")
    return first, second


@pytest.fixture
def apart() -> Iterator[Subscribe]:
    """Return a function that subscribes, without the check of the six guarantees: these are told
    the same changes in another order.
    """
    with ExitStack() as opened:

        def to(target: str, **fields: Any) -> Subscriber:
            one = Subscriber(target, **fields)
            opened.callback(one.close)
            return one

        yield to


def test_a_stream_goes_on_as_soon_as_there_is_an_index_and_not_with_its_next_heartbeat(
    url: str, start_server: Start, record: Record, apart: Subscribe, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs: list[LiveUpdates] = []
    begin = LiveUpdates.__init__

    def note(self: LiveUpdates, *arguments: Any, **named: Any) -> None:
        begin(self, *arguments, **named)
        logs.append(self)

    monkeypatch.setattr(LiveUpdates, "__init__", note)
    server = start_server(store=url, heartbeat="10m")
    name = record(server).conversation_of("One")
    one = apart(server.target).ready()
    (log,) = logs
    with log.space.exclusive(conversation="any"), capture_logs() as logged:
        log.space.index.give_up("a test")  # nobody replaces it before the block ends
        log._lost()  # as a standby does that took over
        until(lambda: any(it["event"] == "stream_waits" for it in logged))
    assert one.until_count("conversation_loaded", 2)[1].messages[0].content == "One"
    record(server).turn(name, "Two")
    one.until(lambda: one.messages() == ["Two", "Noted."])


def test_a_log_that_cannot_be_read_holds_up_those_who_watch_it_alone_and_is_named(
    url: str, start_server: Start, tmp_path: Path, apart: Subscribe, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, lost = PostgresStore.read, set[str]()

    def read_others(self: PostgresStore, log: str, *arguments: Any) -> Any:
        if log in lost:
            raise LogUnavailable(log, "read", "invalid page in block 7")
        return read(self, log, *arguments)

    monkeypatch.setattr(PostgresStore, "read", read_others)
    with (
        process(tmp_path / "a", "", "127.0.0.1:0", "--store", url) as beside,
        connected(beside.target) as writer,
        capture_logs() as logged,
    ):
        name, other = writer.conversation_of("zebra"), writer.conversation_of("walrus")
        lost.add(name)
        server = start_server(store=url, data_dir=tmp_path / "b")  # it has no index of that one
        whole = apart(server.target).ready()
        one = apart(server.target, conversation_ids=[other]).ready()
        writer.append(name, user("zebra again"))
        writer.append(other, user("walrus again"))
        one.until(lambda: one.messages()[-1:] == ["walrus again"])
        until(lambda: any(it["event"] == "stream_waits" for it in logged))
        for event in ("updates_not_made", "stream_waits"):
            assert all(name in it["reason"] for it in logged if it["event"] == event)
        assert whole.of("conversation_updated") == []
        lost.clear()
        whole.until(lambda: whole.messages()[-2:] == ["zebra again", "walrus again"])
        assert whole.error is None


def places(subscriber: Subscriber) -> list[tuple[str, str]]:
    """Return the changes that a subscriber was told, with their cursors, in their order."""
    return [
        (str(it.WhichOneof("kind")), it.cursor)
        for it in subscriber.updates
        if it.cursor and it.WhichOneof("kind") not in {"conversation_loaded", "heartbeat"}
    ]


def told_of(subscriber: Subscriber, name: str) -> bool:
    """Return whether a subscriber was told of a conversation."""
    return any(it.conversation_id == name and it.cursor for it in subscriber.updates)


@contextmanager
def writing(services: list[Recorder], turns: int) -> Iterator[None]:
    """Write to every service at once, three writers each, until the block ends and each has its
    turns.
    """
    ended = threading.Event()

    def write(service: Recorder) -> None:
        name = service.create().id
        for number in itertools.count():
            service.turn(name, str(number))
            if number % 7 == 3:
                service.rename(name, f"Title {number}")
            if number >= turns and ended.is_set():
                return

    with ThreadPoolExecutor() as pool:
        writers = [pool.submit(write, service) for service in services for _ in range(3)]
        try:
            yield
        finally:
            ended.set()
        for writer in writers:
            writer.result()


def begin(connection: "psycopg.Connection[Any]", name: str, text: str) -> None:
    """Let another replica begin a conversation with a message, in a transaction of the caller's."""
    entries = [Entry(Began(name, "web", 1)), Entry(Message(Role.USER, text, 1, 2, 1))]
    _, lines = encoded(entries)
    connection.execute(
        "SELECT recollect.append(0, 'default', %s, 'conversations', 0, gen_random_uuid(), false,"
        " %s::bytea[], NULL, '{}', '{}')",
        [name, [line[:-1] for line in lines]],
    )


def take_over(postgres: Postgres, url: str) -> None:
    """Let a database be one that has just taken over, and lacks nothing."""
    postgres.execute(
        "INSERT INTO recollect.timelines (place, tag, began)"
        " VALUES (recollect.place(), 99, pg_snapshot_xmax(pg_current_snapshot()))",
        url,
    )


def test_every_replica_tells_the_same_order_and_a_client_hops_between_them_at_every_cursor(
    replicas: tuple[RunningServer, RunningServer],
    subscribe: Subscribe,
    record: Record,
) -> None:
    services = [record(it) for it in replicas]
    wholes = [subscribe(it.target).ready() for it in replicas]
    hopper = subscribe(replicas[0].target).ready()
    with writing(services, 15):
        for hop in range(30):
            count = len(hopper.updates)
            hopper.until(lambda count=count: len(hopper.updates) > count + 3)  # type: ignore[misc]
            hopper.resume(replicas[hop % 2].target)
    last = services[0].create()
    for one in (*wholes, hopper):
        one.until(lambda one=one: told_of(one, last.id))  # type: ignore[misc]
    assert places(wholes[0]) == places(wholes[1]) == places(hopper)
    assert len(places(hopper)) > 6 * 15
    assert not any(it.reset for it in hopper.updates)


def test_a_subscriber_resumes_from_every_cursor_on_the_other_replica_and_without_an_index(
    replicas: tuple[RunningServer, RunningServer],
    subscribe: Subscribe,
    record: Record,
    start_server: Start,
    url: str,
) -> None:
    first, second = replicas
    service = record(first)
    whole = subscribe(first.target).ready()
    name, deleted = service.conversation_of("One"), service.conversation_of("Gone")
    acknowledged = service.append(name, user("Two"), request_id="r")
    repeated = service.append(name, user("Two"), request_id="r")
    service.rename(name, "Counting")
    service.delete(deleted)
    service.turn(name, "Three")
    whole.until(lambda: "Three" in whole.messages())
    assert repeated.duplicate
    assert repeated.cursor == acknowledged.cursor
    second.stop()
    delete_index(second)
    cold = start_server(store=url, data_dir=second.settings.data_dir)
    changes = places(whole)
    assert acknowledged.cursor in {cursor for _, cursor in changes}
    of_deleted = {
        it.cursor
        for it in whole.updates
        if it.conversation_id == deleted and it.WhichOneof("kind") != "conversation_deleted"
    }
    for at, (_, cursor) in enumerate(changes):
        late = subscribe(cold.target, cursor=cursor).ready()
        assert places(late) == [it for it in changes[at + 1 :] if it[1] not in of_deleted]
        assert not any(it.reset for it in late.updates)


@pytest.mark.timeout(120)
def test_replicas_are_killed_and_a_subscriber_goes_on_with_the_other_one(
    url: str, tmp_path: Path, subscribe: Subscribe, watched: Watched
) -> None:
    flags = ("--store", url)
    with (
        server_process(tmp_path / "a", *flags) as (first, address),
        server_process(tmp_path / "b", *flags) as (_, other),
    ):
        recorders = [Recorder(it, watched.written) for it in (address, other)]
        watched.recorders += recorders
        one = subscribe(address).ready()
        steady = subscribe(other).ready()

        def write(service: Recorder, turns: int) -> None:
            with suppress(grpc.RpcError):
                name = service.create().id
                for number in range(turns):
                    service.turn(name, str(number))

        with ThreadPoolExecutor() as pool:
            for recorder in recorders * 2:
                pool.submit(write, recorder, 25)
            one.until_count("conversation_updated", 12)
            first.kill()
            one.ended()
            one.resume(other)
        last = recorders[1].create()
        for it in (one, steady):
            it.until(lambda it=it: told_of(it, last.id))  # type: ignore[misc]
        assert places(one) == places(steady)
        assert not any(it.reset for it in one.updates)


def test_an_open_transaction_stalls_streams_alone_until_its_time_is_over(
    replicas: tuple[RunningServer, RunningServer],
    url: str,
    subscribe: Subscribe,
    record: Record,
) -> None:
    services = [record(it) for it in replicas]
    streams = [subscribe(it.target).ready() for it in replicas]
    name = services[0].conversation_of("One")
    for one in streams:
        one.until_count("conversation_updated", 1)
    with psycopg.connect(url) as holder:
        holder.execute("SET idle_in_transaction_session_timeout = '700ms'")
        holder.execute("SELECT pg_current_xact_id()")  # as a writer that died without a word
        answers = [services[0].turn(name, str(number)) for number in range(5)]
        elsewhere = services[1].conversation_of("Elsewhere")
        assert services[1].load(elsewhere).messages[0].content == "Elsewhere"
        assert all(len(one.of("conversation_updated")) == 1 for one in streams)
        # A snapshot has what is acknowledged, and what comes behind it is told once.
        fresh = subscribe(replicas[0].target).ready()
        resumed = subscribe(replicas[1].target, cursor=answers[1].cursor)
        for one in streams:
            one.until_count("conversation_updated", 7)
        holder.close()  # it was ended by the time-out
    resumed.until_count("conversation_updated", 4)
    services[0].turn(name, "after")
    fresh.until(lambda: "after" in fresh.messages())
    resumed.until(lambda: "after" in resumed.messages())
    assert [it for it in resumed.messages() if it != "Noted."] == [
        *("2", "3", "4", "Elsewhere", "after"),
    ]
    assert fresh.messages() == ["after", "Noted."]


def test_what_was_in_progress_when_a_cursor_was_given_out_is_told_behind_it_once(
    replicas: tuple[RunningServer, RunningServer],
    url: str,
    apart: Subscribe,
    record: Record,
) -> None:
    services = [record(it) for it in replicas]
    whole = apart(replicas[1].target).ready()
    name = services[0].conversation_of("One")
    begins = "conv-01J00000000000000000000001"
    with psycopg.connect(url) as other:  # another replica, which is slow to commit
        begin(other, begins, "early")
        later = services[0].append(name, user("later"))
        last = services[0].append(name, user("last"))
        fresh = apart(replicas[0].target).ready()
        behind = [
            apart(it.target, cursor=cursor)
            for it in replicas
            for cursor in (later.cursor, last.cursor)
        ]
        other.commit()
    end = services[1].create()
    for one in (whole, fresh, *behind):
        one.until(lambda one=one: told_of(one, end.id))  # type: ignore[misc]
    assert [it.messages() for it in behind] == [["early", "last"], ["early"]] * 2
    assert whole.messages() == ["One", "early", "later", "last"]
    assert fresh.messages() == ["early"]
    for one in (fresh, *behind):  # and from each cursor on the way, what comes behind it
        for at, (_, cursor) in enumerate(places(one)):
            again = apart(replicas[0].target, cursor=cursor).ready()
            assert places(again) == places(one)[at + 1 :]


def test_what_was_in_progress_comes_before_the_heartbeat_though_the_follower_looks_late(
    url: str, start_server: Start, apart: Subscribe, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server(store=url, heartbeat="10m")
    service = record(server)
    name = service.conversation_of("One")
    with psycopg.connect(url) as other:
        begin(other, "conv-01J00000000000000000000001", "early")
        later = service.append(name, user("later"))
        other.commit()
    looks, look, has = threading.Event(), Follower._look, UpdateLog._has

    def look_late(self: Follower, *arguments: Any) -> bool:
        looks.wait()
        return look(self, *arguments)

    def note(self: UpdateLog[Any], end: int) -> bool:
        if not (it_has := has(self, end)):
            looks.set()  # the one who comes back waits for the follower
        return it_has

    monkeypatch.setattr(Follower, "_look", look_late)
    monkeypatch.setattr(UpdateLog, "_has", note)
    late = apart(server.target, cursor=later.cursor).ready()
    looks.set()
    assert late.messages() == ["early"]


def test_a_transaction_with_several_changes_is_resumed_behind_each_of_them(
    url: str, start_server: Start, apart: Subscribe
) -> None:
    server = start_server(store=url)
    whole = apart(server.target).ready()
    names = [f"conv-01J0000000000000000000000{number}" for number in range(3)]
    with psycopg.connect(url) as other:
        for name in names:
            begin(other, name, name)
    whole.until(lambda: len(whole.messages()) == len(names))
    assert whole.messages() == names
    for at, (_, cursor) in enumerate(places(whole)):
        late = apart(server.target, cursor=cursor).ready()
        assert places(late) == places(whole)[at + 1 :]


def test_panels_on_every_replica_see_the_same_and_hop_between_them(
    replicas: tuple[RunningServer, RunningServer], meet: Meet, watch: Watch
) -> None:
    first, second = map(meet, replicas)
    panels = [watch(server=it).ready() for it in replicas]
    received = first.write("Hello?")
    assert received.escalation is not None
    first.resolve(received.escalation.id, "Say yes.")
    first.reply(received.communication.id, "Yes.")
    second.write("Elsewhere", party="other", delivered="elsewhere")
    first.trust(received.communication.id, BLOCKED)
    first.write("Buy now!")
    first.write("The end", party="last")
    expected = ["message Hello?", "escalated Say yes.", "escalated Say yes.", "message Yes."]
    expected += ["message Elsewhere", "escalated", "changed", "message The end", "escalated"]
    for panel in panels:
        panel.until_count(1 + len(expected))
        panel.until(lambda panel=panel: panel.kinds()[-1] == "escalated")  # type: ignore[misc]
    runs = [[(it.cursor, it.WhichOneof("kind")) for it in panel.updates[1:]] for panel in panels]
    assert runs[0] == runs[1]
    assert panels[0].kinds()[4:] == expected[3:]
    for at, (cursor, _) in enumerate(runs[0]):
        late = watch(cursor, replicas[at % 2]).ready()
        late.until(lambda late=late: late.updates[-1].WhichOneof("kind") == "heartbeat")  # type: ignore[misc]
        assert [it.cursor for it in late.updates[:-1]] == [it for it, _ in runs[0][at + 1 :]]


def test_a_draft_is_seen_on_every_replica_and_goes_when_its_messages_land(
    replicas: tuple[RunningServer, RunningServer],
    url: str,
    postgres: Postgres,
    subscribe: Subscribe,
    record: Record,
) -> None:
    first, second = services = [record(it) for it in replicas]
    name = first.conversation_of("Hi")
    streams = [subscribe(it.target).ready() for it in replicas]
    first.publish(name, "d", 0, "One ")
    first.publish(name, "d", 4, "two ")
    for one in streams:
        one.until(lambda one=one: draft_of(one) == "One two ")  # type: ignore[misc]
    late = subscribe(replicas[1].target)
    late.until(lambda: draft_of(late) == "One two ")
    if_unwatched = replicas[1].target
    for one in (streams.pop(), late):
        one.drop()
    until(lambda: [it.name for it in threading.enumerate()].count("change-follower") == 1)
    second.publish(name, "d", 8, "three")  # the writer has moved, to where nobody watches
    streams[0].until(lambda: draft_of(streams[0]) == "One two three")
    back = subscribe(if_unwatched)
    back.until(lambda: draft_of(back) == "One two three")
    first.append(name, agent("One two three"), draft_id="d")
    for one in (streams[0], back):
        one.until_count("conversation_updated", 1)
        assert one.kinds()[-1] == "conversation_updated"  # which says that the draft is done
        assert not any(delta.dropped for delta in one.of("message_delta"))
    until(lambda: postgres.execute("SELECT FROM recollect.drafts", url) == [])
    for service in services:
        assert code_of(lambda service=service: service.publish(name, "d", 13, "!")) == (  # type: ignore[misc]
            "INVALID_ARGUMENT"
        )
    after = subscribe(if_unwatched).ready()
    assert after.of("message_delta") == []


def draft_of(subscriber: Subscriber) -> str:
    """Return the text of the one draft that a subscriber was sent."""
    text = ""
    for delta in subscriber.of("message_delta"):
        text = text[: delta.offset] + delta.text
    return text


@pytest.mark.parametrize("loss", ["pruned", "another database", "a tail that a standby never got"])
def test_a_cursor_that_the_database_does_not_have_gives_a_snapshot_that_says_so(
    loss: str,
    url: str,
    start_server: Start,
    postgres: Postgres,
    subscribe: Subscribe,
    record: Record,
) -> None:
    server = start_server(store=url)
    service = record(server)
    whole = subscribe(server.target).ready()
    name = service.conversation_of("One", "Two")
    whole.until_count("conversation_updated", 2)
    cursors = [cursor for _, cursor in places(whole)]
    if loss == "pruned":
        postgres.execute("SELECT recollect.prune_changes('default', 0, 1)", url)
    elif loss == "another database":
        postgres.execute("UPDATE recollect.owner SET identity = gen_random_uuid()", url)
        server.stop()
        server = start_server(store=url)
    else:  # the change has the number of one that was lost with the primary
        postgres.execute("UPDATE recollect.changes SET tag = tag / 2", url)
    late = subscribe(server.target, cursor=cursors[0]).ready()
    assert late.updates[0].reset
    assert late.of("conversation_loaded")[0].conversation.id == name
    if loss == "pruned":
        last = subscribe(server.target, cursor=cursors[-1]).ready()
        assert not last.updates[0].reset


def test_a_panel_reads_on_where_many_changes_of_conversations_lie_behind_its_cursor(
    url: str, start_server: Start, meet: Meet, watch: Watch
) -> None:
    server = start_server(store=url)
    cursor = watch(server=server).ready().cursor
    service = Service(server.target)
    name = service.create().id
    for number in range(201):  # more than are read at once
        service.append(name, user(str(number)))
    meet(server).write("Later")
    late = watch(cursor, server).ready()
    assert late.kinds() == ["message Later", "escalated"]


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param("-18446744073709551616.1", id="a transaction beyond what a number can be"),
        pytest.param("-99999999999999999999.1~1", id="as many digits as are read"),
        pytest.param("-7.1" + "~1" * 501, id="a longer list than is given out"),
    ],
)
def test_a_cursor_with_numbers_that_no_database_has_is_refused_by_its_field(
    tail: str, url: str, start_server: Start, apart: Subscribe, watch: Watch
) -> None:
    server = start_server(store=url)
    epoch, timeline, _ = watch(server=server).ready().cursor.split("-")
    cursor = f"{epoch}-{timeline}{tail}"
    assert_refused(watch(cursor, server))
    refused: Any = apart(server.target, cursor=cursor.removeprefix("x")).ended().error
    assert refused.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert refused.details().startswith("cursor: ")


def test_transactions_that_a_cursor_lacks_are_told_in_parts_and_once(
    url: str, start_server: Start, apart: Subscribe, meet: Meet, watch: Watch
) -> None:
    server = start_server(store=url)
    outside, service = meet(server), Service(server.target)
    whole, panel = apart(server.target).ready(), watch(server=server).ready()
    name = service.create().id
    for number in range(520):
        service.append(name, user(str(number)))
        if number % 200 == 150:
            outside.write(str(number), party=str(number))
    whole.until_count("conversation_updated", 520)
    panel.until_count(5)
    cursor = whole.cursor + "".join(f"~{it}" for it in range(500))
    missed = apart(server.target, cursor=cursor).ready()
    assert len(missed.messages()) > 400
    assert missed.messages() == whole.messages()[-len(missed.messages()) :]
    again = watch(f"x{cursor}", server).ready()
    assert again.kinds() == panel.kinds()[-4:]
    for at in (0, 250, len(missed.updates) - 3):
        late = apart(server.target, cursor=missed.updates[at].cursor).ready()
        assert late.messages() == missed.messages()[at + 1 :]


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_a_cursor_holds_on_a_standby_that_has_all_that_it_had_seen(
    ending: str, url: str, start_server: Start, postgres: Postgres, apart: Subscribe
) -> None:
    server = start_server(store=url)
    service = Service(server.target)
    whole = apart(server.target).ready()
    with psycopg.connect(url) as beside:
        beside.execute("SELECT pg_current_xact_id()")
        created = service.create().id
        lacking = apart(server.target).ready().cursor
        getattr(beside, ending)()  # a standby that lacks it has it as rolled back
    whole.until(lambda: told_of(whole, created))
    take_over(postgres, url)
    late = apart(server.target, cursor=whole.cursor).ready()
    assert any(it.reset for it in late.updates) is (ending == "rollback")
    assert "~" in lacking
    before = apart(server.target, cursor=lacking).ready()
    assert not any(it.reset for it in before.updates)


def test_streams_begin_again_where_a_standby_took_over_that_lacks_what_they_told(
    url: str, start_server: Start, postgres: Postgres, apart: Subscribe, meet: Meet, watch: Watch
) -> None:
    server = start_server(store=url)
    service, outside = Service(server.target), meet(server)
    one, panel = apart(server.target).ready(), watch(server=server).ready()
    outside.write("Hello?")
    name = service.create().id
    one.until(lambda: told_of(one, name))
    panel.until_count(3)
    # The changes have the numbers of some that were lost with the primary.
    postgres.execute("UPDATE recollect.changes SET tag = tag / 2", url)
    postgres.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()",
        url,
    )
    one.until(lambda: any(it.reset for it in one.updates))
    panel.until(lambda: any(it.reset for it in panel.updates))
    later = service.create().id
    one.until(lambda: told_of(one, later))
    outside.write("Still there?")
    panel.until(lambda: "message Still there?" in panel.kinds())
    assert told_of(one, later)


def test_a_server_follows_the_changes_of_a_database_only_while_somebody_watches(
    url: str, start_server: Start, postgres: Postgres, apart: Subscribe, watch: Watch
) -> None:
    def connections() -> dict[Any, str]:
        """Return the last query of each connection to the database."""
        rows: list[Any] = postgres.execute(
            "SELECT pid, query FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()",
            url,
        )
        return dict(rows)

    def following() -> set[Any]:
        """Return the connections that just looked for changes."""
        return {pid for pid, it in connections().items() if "recollect.timeline()," in it}

    server = start_server(store=url)
    for begin in (lambda: apart(server.target), lambda: watch(server=server)):
        watcher = begin().ready()
        [pid] = until(following)
        watcher.close()
        until(lambda pid=pid: pid not in connections())  # type: ignore[misc]
    assert not following()


def test_a_stream_whose_changes_are_pruned_on_its_way_begins_again(
    url: str, start_server: Start, postgres: Postgres, apart: Subscribe, watch: Watch
) -> None:
    server = start_server(store=url)
    service = Service(server.target)
    name = service.create().id
    cursor = apart(server.target).ready().cursor
    panel = watch(server=server).ready().cursor
    created = service.append(name, user("Two")).cursor
    lacking = f"{created}~1"  # the change before it
    service.append(name, user("Three"))
    space = server.app.spaces.open_now()[0]
    updates: Any = space.service(LiveUpdates)
    communications: Any = space.service(LiveCommunications)
    behind = [updates.subscribe(Interest(), Choice(), it, 0) for it in (cursor, lacking)]
    panels = [communications.subscribe(it) for it in (panel, f"x{lacking}")]
    updates._shrink()  # as a redaction does: they read the database
    communications._shrink()
    postgres.execute("SELECT recollect.prune_changes('default', 0, 0)", url)
    for one in behind:
        first, _ = one.take(200)
        assert Update.FromString(first.updates[0]).reset
        updates.unsubscribe()
    for one in panels:
        first, _ = one.take(200)
        assert CommunicationUpdate.FromString(first.updates[0]).reset
        communications.unsubscribe()

"""Several servers over one database: whatever one acknowledges, the others answer at once."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import psycopg
import pytest
from recollect import Client, Message
from recollect.v1 import checkpoint_service_pb2 as checkpoint_api
from recollect.v1.checkpoint_pb2 import CheckpointRecord
from recollect.v1.checkpoint_service_pb2_grpc import CheckpointServiceStub
from recollect.v1.conversation_pb2 import Conversation
from recollect_server.kernel.domain.errors import StorageUnavailable
from recollect_server.kernel.log.lines import Place
from recollect_server.kernel.log.store import LogConflict, LogUnavailable
from recollect_server.kernel.space import following
from recollect_server.people.communication import Trust, TrustSet
from recollect_server.people.communication_service import External
from recollect_server.people.communication_stream import LiveCommunications
from recollect_server.people.identities import Identities, Identity, People
from recollect_server.postgres.store import PostgresStore
from recollect_server.run.jobs.of_space import IndexKeeper

from tests.administration.test_verification import verified
from tests.channels.conftest import ALEX, SAM, STRANGER, Post, home
from tests.conftest import Start
from tests.database.conftest import Replicas, said
from tests.logs.proxy import proxied
from tests.postgres import Postgres
from tests.server.conftest import Service, agent, at_once, code_of, failure_of, user
from tests.server.test_redact import redact
from tests.waiting import until


def test_what_one_acknowledges_the_other_answers_at_once(replicas: Replicas) -> None:
    one, two = replicas.one, replicas.two
    names = [one.conversation_of(f"apricot {number}") for number in range(3)]
    assert {it.id for it in two.pages()[0]} == set(names)
    for number, name in enumerate(names):
        writer, reader = replicas[number], replicas[number + 1]
        writer.append(name, user("zebra"), agent(f"butter {number}"), request_id=f"r{number}")
        assert name in reader.found(f"butter {number}")
        assert said(reader, name) == said(writer, name)
        again = reader.append(
            name, user("zebra"), agent(f"butter {number}"), request_id=f"r{number}"
        )
        assert again.duplicate
        reader.rename(name, f"Title {number}")
        assert writer.get(name).title == f"Title {number}"
    assert set(one.found("butter")) == set(two.found("butter")) == set(names)


def test_a_change_that_is_noticed_while_another_one_is_taken_in_is_not_dropped(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = replicas.one.whatsapp("first", STRANGER).external.communication.id
    replicas.two.whatsapp("second", STRANGER)
    space = replicas.servers[1].app.spaces.open_now()[0]
    store, hold = space.service(External)._store, space._space.exclusive
    late = TrustSet(Trust.KNOWN, (), 1)

    def notice() -> None:
        """Let the other server write, and this one learn of it by a conflict."""
        stale = store.find(name)
        replicas.one.whatsapp("third", STRANGER)
        with pytest.raises(LogConflict):
            store.write(name, stale, [late])

    @contextmanager
    def held(**names: Any) -> Iterator[None]:
        with hold(**names):
            yield
        monkeypatch.undo()
        notice()

    with pytest.MonkeyPatch.context() as alone:
        # The job that follows takes in what is noticed too, and so do the ticks of the streams, as
        # soon as it is their turn.
        follow = space._space.follow
        alone.setattr(space._space, "follow", lambda: None)
        alone.setattr(space.service(LiveCommunications), "tick", lambda: None)
        follow()  # behind one that is under way
        notice()
        assert store.behind
        monkeypatch.setattr(space._space, "exclusive", held)
        store.catch_up()
        assert store.behind
        store.catch_up()
        assert not store.behind
    one = replicas.servers[0].app.spaces.open_now()[0].service(External)._store
    assert store.find(name).lines == one.find(name).lines


def test_a_message_joins_the_conversation_that_another_server_began_and_redacted_at_its_place(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = replicas.one, replicas.two
    one.own("whatsapp", ALEX)
    first = home(one.whatsapp("zebra"))
    space = replicas.servers[0].app.spaces.open_now()[0]._space
    monkeypatch.setattr(space, "follow", lambda: None)  # as its job does every second
    two.whatsapp("/new")
    new = home(two.whatsapp("secretword"))
    assert new != first
    redact(two, new, sequence=two.load(new).messages[-1].sequence)
    assert home(one.whatsapp("lemon")) == home(two.whatsapp("apricot")) == new


def test_an_owner_is_no_stranger_while_the_owners_are_read_anew(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicas.one.own("whatsapp", ALEX)
    (owner,) = replicas.two.identities()
    owners = replicas.servers[1].app.spaces.open_now()[0].service(Identities)
    add, answers = People.add, set[bool]()

    def look_and_add(self: People, identity: Identity) -> Identity:
        answers.add(owners.is_owner(*owner[:2]))
        return add(self, identity)

    monkeypatch.setattr(People, "add", look_and_add)
    replicas.one.own("whatsapp", SAM, request_id="r1")
    assert len(replicas.two.identities()) == 2
    assert answers == {True}


def test_a_log_that_cannot_be_read_keeps_no_other_change_from_being_taken_in(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost, other = (replicas.one.conversation_of(text) for text in ("zebra", "walrus"))
    assert replicas.two.found("zebra") == [lost]
    space = replicas.servers[1].app.spaces.open_now()[0]._space
    read = PostgresStore.read

    def read_others(self: PostgresStore, log: str, *arguments: Any) -> Any:
        if self is space.store and log == lost:
            raise LogUnavailable(log, "read", "invalid page in block 7")
        return read(self, log, *arguments)

    monkeypatch.setattr(PostgresStore, "read", read_others)
    replicas.one.append(lost, user("A flamingo."))
    replicas.one.append(other, user("A pelican."))
    assert replicas.two.found("pelican") == [other]
    assert (replicas.two.found("flamingo"), lost in space.doubt) == ([], True)
    monkeypatch.undo()
    assert replicas.two.found("flamingo") == [lost]
    assert space.doubt == ""


@pytest.mark.parametrize("reason", ["they wait for a lock", "the store is away"])
def test_logs_that_cannot_be_read_for_one_reason_are_waited_for_once(
    replicas: Replicas, reason: str
) -> None:
    names = [replicas.one.conversation_of("zebra") for _ in range(3)]
    assert set(replicas.two.found("zebra")) == set(names)
    space = replicas.servers[1].app.spaces.open_now()[0]._space
    read, tried = PostgresStore.read, list[str]()

    def wait(self: PostgresStore, log: str, *arguments: Any) -> Any:
        if self is space.store and log in names:
            tried.append(log)
            raise LogUnavailable(log, "read", reason)
        return read(self, log, *arguments)

    def no_moment() -> str:
        raise StorageUnavailable(reason)

    with pytest.MonkeyPatch.context() as slow:
        if reason == "the store is away":
            slow.setattr(space.store.sharing, "moment", no_moment)
        else:
            slow.setattr(following, "_PATIENCE", -1.0)
        slow.setattr(PostgresStore, "read", wait)  # at last: it is undone first
        for name in names:
            replicas.one.append(name, user("A pelican."))
        space.follow()
    assert len(set(tried)) == 1
    assert set(replicas.two.found("pelican")) == set(names)


def test_a_change_that_is_met_while_the_store_does_not_answer_is_taken_in_once_it_does(
    replicas: Replicas,
) -> None:
    """It is the server's own, whose answer was lost, so that no repeat brings another one."""
    name = replicas.two.conversation_of("zebra")
    space = replicas.servers[1].app.spaces.open_now()[0]._space
    append, sharing = PostgresStore.append, space.store.sharing
    assert sharing is not None

    def lose_answer(self: PostgresStore, log: str, *arguments: Any, **named: Any) -> Any:
        if self is space.store and log == name:
            with suppress(LogConflict):
                append(self, log, *arguments, **named)
            raise LogUnavailable(log, "written", "no connection is ready")
        return append(self, log, *arguments, **named)

    def refuse(*_: object, **__: object) -> str:
        raise StorageUnavailable("no connection is ready")

    with pytest.MonkeyPatch.context() as refusing:
        refusing.setattr(PostgresStore, "append", lose_answer)
        refusing.setattr(type(sharing), "moment", refuse)
        late = partial(replicas.two.append, name, user("A pelican."), request_id="r")
        assert code_of(late) == "UNAVAILABLE"
        space.follow()
        assert space.doubt
    assert replicas.one.append(name, user("A pelican."), request_id="r").duplicate
    assert said(replicas.two, name) == said(replicas.one, name) != [("zebra", 2, 1)]
    assert replicas.two.found("pelican") == [name]


def test_two_servers_that_write_one_conversation_leave_no_gap_and_double_nothing(
    replicas: Replicas,
) -> None:
    name = replicas.one.create("web").id

    def write(number: int) -> None:
        service = replicas[number]
        for turn in range(10):
            request = f"r{number}-{turn}"
            service.append(name, user(request), agent("yes"), request_id=request)

    at_once(6, write)
    lines = said(replicas.one, name)
    assert said(replicas.two, name) == lines
    assert [sequence for _, sequence, _ in lines] == sorted({it for _, it, _ in lines})
    assert [turn for _, _, turn in lines] == [1 + at // 2 for at in range(120)]
    assert sorted(text for text, _, _ in lines[::2]) == sorted(
        f"r{number}-{turn}" for number in range(6) for turn in range(10)
    )


def test_an_append_that_asks_for_no_changes_first_knows_what_another_server_did(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = replicas.one, replicas.two
    name, other = one.conversation_of("apricot"), one.conversation_of("butter")
    sharing = replicas.servers[1].app.spaces.open_now()[0]._space.store.sharing
    assert sharing is not None
    changes = sharing.changes
    moments: list[str] = []

    def noted(after: str) -> Any:
        moments.append(after)
        return changes(after)

    def fresh() -> None:
        """Let server two know everything, and an append to it ask for nothing."""
        two.get(other)
        moments.clear()

    monkeypatch.setattr(sharing, "changes", noted)

    def appended_at_once() -> bool:
        fresh()
        two.append(other, user("zebra"))
        return not moments

    until(appended_at_once)  # on a machine that is busy it may take too long
    fresh()
    one.append(name, user("one"), request_id="r1")
    assert two.append(name, user("one"), request_id="r1").duplicate
    fresh()
    turn = one.append(name, user("two")).conversation.turn_count
    done = two.append(name, user("three"), expected_turn=turn)
    assert done.conversation.turn_count == turn + 1
    fresh()
    one.rename(name, "Renamed")
    assert two.append(name, user("four")).conversation.title == "Renamed"
    fresh()
    assert two.append(one.conversation_of("five"), user("six")).conversation.message_count == 2
    fresh()
    one.delete(name)
    assert code_of(lambda: two.append(name, user("late"))) == "NOT_FOUND"
    assert said(one, other) == said(two, other)


def test_a_request_of_a_deleted_conversation_that_is_used_again_is_known_to_a_server_that_is_late(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = replicas.one, replicas.two
    first, second, third = (one.conversation_of(text) for text in ("apricot", "butter", "cream"))
    one.append(first, user("zebra"), request_id="again")
    assert two.get(first).message_count == 2  # which now has the request of the first one
    space = replicas.servers[1].app.spaces.open_now()[0]
    with monkeypatch.context() as late:
        follow = space._space.follow
        late.setattr(space._space, "follow", lambda: None)
        late.setattr(space.service(LiveCommunications), "tick", lambda: None)
        follow()  # behind one that is under way
        one.append(second, user("before"))  # of what is late, the second comes before the first
        one.delete(first)
        one.append(second, user("zebra"), request_id="again")
        one.delete(third)
        one.append(second, user("cobra"), request_id="other")
    assert two.append(second, user("zebra"), request_id="again").duplicate
    assert [text for text, _, _ in said(two, second)] == ["butter", "before", "zebra", "cobra"]
    with Client(replicas.servers[1].target) as client:
        assert not verified(client).problems


def test_held_messages_stand_once_behind_what_another_server_wrote_meanwhile(
    postgres: Postgres, start_server: Start, tmp_path: Path
) -> None:
    url = postgres.new_database()
    with proxied(postgres, url) as (proxy, through):
        servers = [
            start_server(store=store, data_dir=tmp_path / name)
            for store, name in ((through, "one"), (url, "two"))
        ]
        with Post(servers[0].target) as one, Post(servers[1].target) as two:
            name, other = one.conversation_of("apricot"), one.conversation_of("butter")
            proxy.is_cut, proxy.lose = True, b"recollect.append"  # it is made, and not answered
            for request in ("lost", "repeated", "kept"):
                refused = failure_of(
                    lambda request=request: one.append(name, user(request), request_id=request)  # type: ignore[misc]
                )
                assert "repeat with the same request_id" in refused.text
            two.append(name, user("elsewhere"), request_id="elsewhere")
            two.append(name, user("repeated"), request_id="repeated")
            proxy.is_cut = False
            until(lambda: "kept" in [text for text, _, _ in said(two, name)])
            assert said(one, name) == said(two, name)
            assert [text for text, _, _ in said(one, name)] == [
                *("apricot", "lost", "elsewhere", "repeated", "kept"),
            ]
            assert [sequence for _, sequence, _ in said(two, name)] == [2, 3, 4, 5, 6]
            for request in ("lost", "repeated", "kept"):
                assert one.append(name, user(request), request_id=request).duplicate
            assert one.get(name) == two.get(name)
            assert (one.found("kept"), one.found("butter")) == ([name], [other])


def test_held_messages_that_the_database_refused_again_are_written_though_nobody_repeats_them(
    replicas: Replicas, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = replicas.one, replicas.two
    name = one.conversation_of("apricot")
    turn = IndexKeeper.turn
    monkeypatch.setattr(IndexKeeper, "turn", lambda *_: 0.01)  # it tries nothing yet
    postgres.execute(
        "CREATE FUNCTION recollect.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " RAISE 'no room'; END $$;"
        "CREATE TRIGGER refuse BEFORE INSERT ON recollect.lines FOR EACH ROW"
        " WHEN (position('held'::bytea IN NEW.body) > 0) EXECUTE FUNCTION recollect.refuse()",
        replicas.url,
    )
    assert "are held" in failure_of(lambda: one.append(name, user("held"), request_id="r")).text
    two.append(name, user("elsewhere"))
    assert one.search("elsewhere").degraded  # it waits for what is held
    monkeypatch.setattr(IndexKeeper, "turn", turn)
    postgres.execute("DROP TRIGGER refuse ON recollect.lines", replicas.url)
    until(lambda: two.found("held"))
    assert one.found("elsewhere") == one.found("held") == [name]
    assert said(one, name) == said(two, name)


def test_of_eight_same_requests_on_two_servers_one_is_carried_out(replicas: Replicas) -> None:
    for round_ in range(3):
        request = f"c{round_}"
        answers = at_once(
            8,
            lambda number, request=request: replicas[number].create("web", request_id=request),  # type: ignore[misc]
        )
        (name,) = {answer.id for answer in answers}
        turns = at_once(
            8,
            lambda number, name=name: replicas[number].append(  # type: ignore[misc]
                name, user("hello"), request_id=f"{name}-a"
            ),
        )
        assert [it.duplicate for it in turns].count(False) == 1
        assert said(replicas.two, name) == [("hello", 2, 1)]


def test_eight_deliveries_at_once_on_two_servers_begin_one_conversation(
    replicas: Replicas,
) -> None:
    addresses = [f"+1 555-00{number}" for number in range(5)]
    for address in addresses:
        replicas.one.own("whatsapp", address)
    for address in addresses:
        answers = at_once(
            8,
            lambda number, address=address: replicas[number].whatsapp(f"text {number}", address),  # type: ignore[misc]
        )
        assert len({home(it) for it in answers}) == 1
    received = at_once(8, lambda number: replicas[number].whatsapp(f"from {number}", STRANGER))
    assert len({it.external.communication.id for it in received}) == 1
    once = at_once(8, lambda number: replicas[number].whatsapp("once", delivery="same"))
    assert [it.duplicate for it in once].count(False) == 1


def test_of_commands_that_end_one_conversation_on_two_servers_at_once_one_begins_the_next(
    replicas: Replicas,
) -> None:
    replicas.one.own("whatsapp", ALEX)
    ended = home(replicas.one.whatsapp("hello"))
    for _ in range(4):
        answers = at_once(4, lambda number: replicas[number].whatsapp("/new"))
        (following,) = {home(it) for it in answers}
        assert following != ended
        for service in (replicas.one, replicas.two):
            assert home(service.whatsapp("and now")) == following
        ended = following
    assert len(replicas.one.pages()[0]) == 5


def test_identities_anchors_third_parties_and_threads_are_known_to_every_server(
    replicas: Replicas, postgres: Postgres
) -> None:
    one, two = replicas.one, replicas.two
    one.own("whatsapp", ALEX, request_id="own")
    assert two.identities() == one.identities() != []
    assert home(two.whatsapp("from the owner")) == home(one.whatsapp("again"))
    with Client(replicas.servers[0].target) as first, Client(replicas.servers[1].target) as second:
        first.recall.set_anchor("city", "Vienna")
        assert [it.value for it in second.recall.list_anchors()] == ["Vienna"]
        second.recall.delete_anchor("city")
        assert list(first.recall.list_anchors()) == []
    received = one.whatsapp("hello", STRANGER, delivery="m1")
    again = two.whatsapp("hello", STRANGER, delivery="m1")
    assert (again.duplicate, again.external) == (True, received.external)
    threads = [
        (CheckpointServiceStub(service.channel), f"t{number}")
        for number, service in enumerate((one, two, one, two))
    ]
    for number, (stub, key) in enumerate(threads):
        stub.PutRecords(
            checkpoint_api.PutRecordsRequest(
                thread_id="alex",
                records=[
                    checkpoint_api.PutRecord(record=CheckpointRecord(key=key, value=b"%d" % number))
                ],
            )
        )
        for reader, _ in threads:
            records = reader.ListRecords(
                checkpoint_api.ListRecordsRequest(thread_id="alex")
            ).records
            assert [it.key for it in records] == [it for _, it in threads[: number + 1]]
    threads[0][0].DeleteThread(checkpoint_api.DeleteThreadRequest(thread_id="alex"))
    listed = checkpoint_api.ListRecordsRequest(thread_id="alex")
    assert list(threads[1][0].ListRecords(listed).records) == []
    lines = "SELECT log FROM recollect.lines WHERE log LIKE 'thread-%'"
    assert postgres.execute(lines, replicas.url) == []


def test_records_are_read_though_another_server_writes_their_thread_anew_meanwhile(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (CheckpointServiceStub(it.channel) for it in (replicas.one, replicas.two))
    records = [CheckpointRecord(key=key, value=key.encode() * 100) for key in "abc"]
    puts = [checkpoint_api.PutRecord(record=it) for it in records]
    one.PutRecords(checkpoint_api.PutRecordsRequest(thread_id="alex", records=puts))
    listed = checkpoint_api.ListRecordsRequest(thread_id="alex")
    assert list(two.ListRecords(listed).records) == records
    read_at = PostgresStore.read_at

    def be_overtaken(store: PostgresStore, places: Mapping[str, Sequence[Place]]) -> object:
        monkeypatch.undo()
        one.RemoveRecords(checkpoint_api.RemoveRecordsRequest(thread_id="alex", keys=["a"]))
        return read_at(store, places)

    monkeypatch.setattr(PostgresStore, "read_at", be_overtaken)
    assert list(two.ListRecords(listed).records) == records[1:]


def test_a_server_follows_what_was_written_while_its_changes_were_pruned_and_from_nothing(
    replicas: Replicas, postgres: Postgres, start_server: Start, tmp_path: Path
) -> None:
    one, two = replicas.one, replicas.two
    names = [one.conversation_of(f"apricot {number}") for number in range(4)]
    assert set(two.found("apricot")) == set(names)
    # In one transaction with the write, so that nothing is taken in between.
    postgres.execute(
        "CREATE FUNCTION recollect.forget() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO recollect.pruned VALUES (NEW.space, pg_current_xact_id())"
        " ON CONFLICT (space) DO UPDATE SET xid = excluded.xid; RETURN NULL; END $$;"
        "CREATE TRIGGER forget BEFORE INSERT ON recollect.changes"
        " FOR EACH ROW EXECUTE FUNCTION recollect.forget()",
        replicas.url,
    )
    one.append(names[0], user("zebra"))
    assert two.found("zebra") == [names[0]]
    later, deleted = one.conversation_of("butter"), one.conversation_of("secretword")
    one.append(names[1], user("zebra"))
    assert two.found("secretword") == [deleted]
    one.delete(deleted)
    assert two.found("secretword") == []
    assert set(two.found("zebra")) == set(names[:2])
    assert two.found("butter") == [later]
    cold = start_server(store=replicas.url, data_dir=tmp_path / "three")
    with Post(cold.target) as three:
        assert set(three.found("zebra")) == set(names[:2])
        three.append(names[2], user("zebra"))
    assert set(one.found("zebra")) == set(two.found("zebra")) == set(names[:3])


def test_a_server_verifies_what_another_one_writes_without_a_false_alarm(
    replicas: Replicas,
) -> None:
    names = [replicas.one.conversation_of(f"apricot {number}") for number in range(5)]
    replicas.one.append(names[0], user("zebra"), agent("butter"))
    replicas.one.delete(names[1])
    with Client(replicas.servers[1].target) as client:
        result = verified(client)
    assert (result.problems, result.conversations) == ((), 4)


def test_a_conversation_that_is_begun_again_after_its_delete_has_its_requests_again(
    replicas: Replicas,
) -> None:
    one, two = replicas.one, replicas.two
    name = "conv-01J00000000000000000000001"

    def begin(service: Service, request_id: str) -> Conversation | None:
        try:
            return service.create(conversation_id=name, request_id=request_id)
        except grpc.RpcError as error:  # a server is at the last steps of its delete
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
            return None

    for service, other in ((one, two), (two, one)):
        assert until(partial(begin, service, "begin")).id == name
        service.append(name, user("zebra"), request_id="first")
        service.append(name, user("cobra"), request_id="second")
        assert said(other, name) == [("zebra", 2, 1), ("cobra", 3, 2)]
        service.delete(name)
        for it in (service, other):
            until(lambda it=it: not it.search("zebra").results)  # type: ignore[misc]
    assert until(partial(begin, one, "anew")).id == name
    elsewhere = two.conversation_of("apricot")
    assert not two.append(elsewhere, user("zebra"), request_id="first").duplicate
    assert not one.append(name, user("zebra"), request_id="second").duplicate


def test_a_space_that_is_only_read_or_watched_leaves_no_row_and_no_folder(
    replicas: Replicas,
) -> None:
    with ExitStack() as closing:
        clients = [
            closing.enter_context(Client(it.target, space="misspelt")) for it in replicas.servers
        ]
        for client in clients:
            assert not [*client.conversations.list()]
            assert not client.recall.search("zebra").results
        watches = [it.conversations.watch() for it in clients]
        externals = [it.external.watch() for it in clients]
        for watch, external in zip(watches, externals, strict=True):
            next(watch)
            next(external)
        assert "misspelt" not in spaces_with_rows(replicas.url)
        assert "misspelt" not in [it.name for it in clients[0].admin.list_spaces()]
        assert not any((it.data_dir / "misspelt").exists() for it in replicas.servers)
        meant = clients[0].conversations.create("web", messages=[Message.user("Now it is")])
        for watch in watches:  # on the server that made it, and on the other one
            assert any(meant.id in str(update) for update in watch)
        assert "misspelt" in spaces_with_rows(replicas.url)


def spaces_with_rows(url: str) -> set[str]:
    """Return the spaces that any table of a database has rows of."""
    with psycopg.connect(url) as connection:
        tables = connection.execute(
            "SELECT table_name FROM information_schema.columns"
            " WHERE table_schema = 'recollect' AND column_name = 'space'"
        ).fetchall()
        queries = [f"SELECT space FROM recollect.{table}" for (table,) in tables]  # noqa: S608 - ours
        return {name for (name,) in connection.execute(" UNION ".join(queries).encode())}

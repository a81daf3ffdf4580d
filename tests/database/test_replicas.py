"""Several servers over one database: whatever one acknowledges, the others answer at once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from recollect import Client, Message
from recollect.v1 import checkpoint_service_pb2 as checkpoint_api
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1.checkpoint_pb2 import CheckpointRecord
from recollect.v1.checkpoint_service_pb2_grpc import CheckpointServiceStub
from recollect_server.app.space import OpenSpace
from recollect_server.domain.conversation import Unindexed
from recollect_server.domain.errors import IndexUnavailable
from recollect_server.domain.external import Provenance, Trust, TrustSet
from recollect_server.domain.filters import Filter
from recollect_server.services.conversations import Conversations
from recollect_server.services.space.deletion_steps import DELETE_ANCHORS
from recollect_server.services.space.unindexing import bring_back_part, take_out_part
from recollect_server.storage.logs.store import LogConflict, LogTaken
from recollect_server.storage.postgres.store import PostgresStore
from ulid import ULID

from tests.administration.test_verification import verified
from tests.channels.conftest import ALEX, STRANGER, Post, home
from tests.conftest import RunningServer, Start
from tests.logs.test_postgres import proxied
from tests.postgres import Postgres
from tests.server.conftest import agent, at_once, code_of, failure_of, files_with, moment, user
from tests.server.test_redact import redact
from tests.waiting import until


@dataclass
class Replicas:
    """Two servers over one database."""

    url: str
    servers: list[RunningServer]
    one: Post
    two: Post

    def __getitem__(self, number: int) -> Post:
        return (self.one, self.two)[number % 2]


@pytest.fixture
def replicas(postgres: Postgres, start_server: Start, tmp_path: Path) -> Iterator[Replicas]:
    """Start two servers, each with a folder of its own."""
    url = postgres.new_database()
    servers = [start_server(store=url, data_dir=tmp_path / name) for name in ("one", "two")]
    with Post(servers[0].target) as one, Post(servers[1].target) as two:
        yield Replicas(url, servers, one, two)


def said(service: Post, conversation_id: str) -> list[tuple[str, int, int]]:
    messages = service.load(conversation_id, max_turns=200).messages
    return [(it.content, it.sequence, it.turn_number) for it in messages]


def index_files(replicas: Replicas) -> list[int]:
    """Return what tells the files of the indexes from others in their places."""
    paths = [path for it in replicas.servers for path in it.data_dir.rglob("conversations.db")]
    assert len(paths) == 2
    return [path.stat().st_ino for path in paths]


def test_what_one_acknowledges_the_other_answers_at_once(replicas: Replicas) -> None:
    one, two = replicas.one, replicas.two
    names = [one.told(f"apricot {number}") for number in range(3)]
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


def test_a_delete_leaves_no_word_on_any_server_or_in_the_database(
    replicas: Replicas, postgres: Postgres
) -> None:
    one, two = replicas.one, replicas.two
    other, name = one.told("apricot"), one.told("secretword and more")
    assert two.found("secretword") == [name]
    made = index_files(replicas)
    one.delete(name)
    assert two.found("secretword") == []
    assert code_of(lambda: two.get(name)) == "NOT_FOUND"
    assert code_of(lambda: two.append(name, user("late"))) == "NOT_FOUND"
    until(
        lambda: (
            postgres.execute("SELECT DISTINCT log FROM recollect.lines", replicas.url) == [(other,)]
        )
    )
    for server in replicas.servers:
        until(lambda server=server: files_with(server.data_dir, "secretword") == [])  # type: ignore[misc]
    assert two.get(other).message_count == 1
    assert index_files(replicas) == made, "an index was made anew"


def test_a_delete_that_is_repeated_on_another_server_is_answered_with_its_receipt(
    replicas: Replicas, postgres: Postgres
) -> None:
    one, two = replicas.one, replicas.two
    name, other, third = (one.told(text) for text in ("apricot", "butter", "zebra"))
    receipt = one.delete(name, request_id="d1")
    assert two.delete(name, request_id="d1") == receipt
    reused = failure_of(lambda: two.delete(other, request_id="d1"))
    assert (reused.code, reused.reason) == ("ALREADY_EXISTS", "REQUEST_ID_REUSED")
    assert code_of(lambda: two.delete(name, request_id="d2")) == "NOT_FOUND"
    raced = one.told("lemon")

    def race(number: int) -> None:
        with suppress(grpc.RpcError):
            replicas[number].delete(raced, request_id="d0")

    at_once(8, race)
    assert one.delete(raced, request_id="d0") == two.delete(raced, request_id="d0")
    chosen = api.DeleteManyRequest(channels=["web"], limit=1, request_id="d3")
    assert one.conversations.DeleteMany(chosen) == two.conversations.DeleteMany(chosen)
    assert len(two.pages()[0]) == 1
    (left,) = {other, third} & {it.id for it in two.pages()[0]}
    refused = "ALTER TABLE recollect.receipts ADD CONSTRAINT no CHECK (answer !~ '^{') NOT VALID"
    postgres.execute(refused, replicas.url)
    assert code_of(lambda: one.delete(left, request_id="d4")) == "UNAVAILABLE"
    unfinished = failure_of(lambda: two.delete(left, request_id="d4"))
    assert (unfinished.code, unfinished.reason) == ("UNAVAILABLE", "STORAGE_UNAVAILABLE")
    assert code_of(lambda: two.delete(left, request_id="d5")) == "NOT_FOUND"
    postgres.execute("ALTER TABLE recollect.receipts DROP CONSTRAINT no", replicas.url)
    finished = two.delete(left, request_id="d4")  # two finishes what one began
    removed = {it.place: it.count for it in finished.removed}
    assert (removed["messages"], removed["search_terms"]) == (1, 1)
    assert one.delete(left, request_id="d4") == finished
    assert code_of(lambda: two.get(left)) == "NOT_FOUND"


def test_a_delete_that_was_refused_and_ended_by_itself_is_answered_with_its_receipt(
    replicas: Replicas, postgres: Postgres
) -> None:
    one, two = replicas.one, replicas.two
    name = one.told("apricot")
    assert two.found("apricot") == [name]
    refused = "ALTER TABLE recollect.receipts ADD CONSTRAINT no CHECK (answer !~ '^{') NOT VALID"
    postgres.execute(refused, replicas.url)
    assert code_of(lambda: one.delete(name, request_id="d1")) == "UNAVAILABLE"
    postgres.execute("ALTER TABLE recollect.receipts DROP CONSTRAINT no", replicas.url)
    until(lambda: postgres.execute("SELECT FROM recollect.logs", replicas.url) == [])
    receipt = two.delete(name, request_id="d1")
    removed = {it.place: it.count for it in receipt.removed}
    assert (removed["messages"], removed["search_terms"]) == (1, 1)
    assert one.delete(name, request_id="d1") == receipt


def test_a_delete_that_is_repeated_elsewhere_in_any_moment_of_it_is_answered_with_its_receipt(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = replicas.one, replicas.two
    first, second = one.told("apricot"), one.told("butter")
    answers: list[object] = []
    store, other = (it.app.spaces.open_now()[0]._space._store for it in replicas.servers)
    end, begin = store.end_delete, other.begin_delete

    def repeat_behind(log: str) -> dict[str, int]:
        removed = end(log)
        monkeypatch.undo()
        answers.append(two.delete(first, request_id="d1"))
        return removed

    monkeypatch.setattr(store, "end_delete", repeat_behind)
    receipt = one.delete(first, request_id="d1")
    until(lambda: answers)  # the other server may have been the one that removed the lines
    assert answers == [receipt]

    def be_overtaken(log: str, before: int | None = None) -> None:
        monkeypatch.undo()
        answers.append(one.delete(second, request_id="d2"))
        begin(log, before)

    monkeypatch.setattr(other, "begin_delete", be_overtaken)
    assert two.delete(second, request_id="d2") == answers[-1]


@pytest.mark.parametrize("action", ["delete", "unindex"])
def test_a_conversation_that_another_server_kept_from_being_retired_has_no_receipt(
    postgres: Postgres,
    start_server: Start,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    action: str,
) -> None:
    url = postgres.new_database()
    one = start_server(store=url, data_dir=tmp_path / "one", retention=f"{action} idle=30d")
    two = start_server(store=url, data_dir=tmp_path / "two")
    with Post(one.target) as first, Post(two.target) as second, Client(one.target) as client:
        assert first.pages() == [[]]
        store = one.app.spaces.open_now()[0]._space._store
        step = "begin_delete" if action == "delete" else "append"
        carry_out = getattr(store, step)
        names: list[str] = []

        def be_overtaken(log: str, *values: Any) -> Any:
            if log == names[0]:
                monkeypatch.undo()
                second.append(names[0], user("zebra"))
            return carry_out(log, *values)

        monkeypatch.setattr(store, step, be_overtaken)
        time = moment(one.clock.now - 40 * 86_400_000)
        contents = [[user(text, timestamp=time)] for text in ("apricot", "butter")]
        names += [second.create("web", create_time=time).id for _ in contents]
        for name, messages in zip(names, contents, strict=True):
            second.append(name, *messages)

        def receipts() -> list[str]:
            page = client.admin.list_retention_receipts().receipts
            return [it.conversation.conversation_id for it in page]

        with one.app.spaces.use("default") as space:
            assert space.retention.carry_out(10) == 1
        assert second.found("butter") == []
        assert second.found("zebra") == [names[0]]
        assert receipts() == [names[1]]
        second.delete(names[0])
        assert receipts() == [names[1]]


def test_a_change_that_is_noticed_while_another_one_is_taken_in_is_not_dropped(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = replicas.one.whatsapp("first", STRANGER).external.communication.id
    replicas.two.whatsapp("second", STRANGER)
    space = replicas.servers[1].app.spaces.open_now()[0]
    store, hold = space.external._store, space._space.exclusive
    late = TrustSet(Trust.KNOWN, (), 1)

    def notice() -> None:
        """Let the other server write, and this one learn of it by a conflict."""
        stale = store.find(name)
        replicas.one.whatsapp("third", STRANGER)
        with pytest.raises(LogConflict):
            store.append(stale, [late], None)

    @contextmanager
    def held(**names: Any) -> Iterator[None]:
        with hold(**names):
            yield
        monkeypatch.undo()
        notice()

    with pytest.MonkeyPatch.context() as alone:
        # The job that follows takes in what is noticed too, as soon as it is its turn.
        follow = space._space.follow
        alone.setattr(space._space, "follow", lambda: None)
        follow()  # behind one that is under way
        notice()
        assert store.behind
        monkeypatch.setattr(space._space, "exclusive", held)
        store.bring_up()
        assert store.behind
        store.bring_up()
        assert not store.behind
    one = replicas.servers[0].app.spaces.open_now()[0].external._store
    assert store.find(name).lines == one.find(name).lines


def test_a_redaction_takes_the_words_out_of_every_server(
    replicas: Replicas, postgres: Postgres
) -> None:
    one, two = replicas.one, replicas.two
    name = one.told("apricot secretword", "butter")
    assert two.found("secretword") == [name]
    made = index_files(replicas)
    sequence = one.load(name).messages[0].sequence
    redact(one, name, sequence=sequence)
    one.append(name, user("zebra"))
    assert two.found("secretword") == []
    assert (two.found("zebra"), two.found("butter")) == ([name], [name])
    assert said(two, name) == said(one, name)
    until(lambda: postgres.execute("SELECT log FROM recollect.redacted_lines", replicas.url) == [])
    for server in replicas.servers:
        until(lambda server=server: files_with(server.data_dir, "secretword") == [])  # type: ignore[misc]
    assert index_files(replicas) == made, "an index was made anew"


def test_a_server_that_learns_of_a_redaction_behind_the_delete_keeps_no_word(
    replicas: Replicas, postgres: Postgres
) -> None:
    """The lines that are left of the conversation do not say which words the index has."""
    one, two = replicas.one, replicas.two
    name, other = one.told("secretword", "butter"), one.told("zebra")
    assert two.found("secretword") == [name]
    made = index_files(replicas)
    space = replicas.servers[1].app.spaces.open_now()[0]._space
    with space.exclusive(conversation=name):  # it follows nothing of the conversation meanwhile
        redact(one, name, sequence=one.load(name).messages[0].sequence)
        one.delete(name)
    assert two.found("secretword") == []
    lines = "SELECT DISTINCT log FROM recollect.lines"
    until(lambda: postgres.execute(lines, replicas.url) == [(other,)])
    assert postgres.execute("SELECT FROM recollect.redacted_lines", replicas.url) == []
    until(lambda: files_with(replicas.servers[1].data_dir, "secretword") == [])
    assert two.found("zebra") == [other]
    assert index_files(replicas) == made, "an index was made anew"


def test_words_go_and_come_back_by_the_text_that_another_server_redacted_meanwhile(
    replicas: Replicas,
) -> None:
    one, two = replicas.one, replicas.two
    name = one.told("apricot secretword", "butter hiddenword")
    assert two.found("secretword") == two.found("hiddenword") == [name]
    made = index_files(replicas)
    space = replicas.servers[1].app.spaces.open_now()[0]._space
    first, second = (it.sequence for it in one.load(name).messages[:2])
    server = replicas.servers[0]
    unindexed = Unindexed(server.clock.now)
    with space.exclusive(conversation=name):  # it follows nothing of the conversation meanwhile
        server.app.spaces.open_now()[0]._space.record(name, lambda _: [unindexed])
        redact(one, name, sequence=first)
        stored = space.index.conversations.find(name)
        assert stored is not None
        while take_out_part(space._store, space.index, name, stored.number, stored.lines):
            pass
    until(lambda: files_with(replicas.servers[1].data_dir, "secretword") == [])
    assert two.found("butter") == []
    with space.exclusive(conversation=name):
        one.append(name, user("zebra"))
        redact(one, name, sequence=second)
        stored = space.index.conversations.find(name)
        assert stored is not None
        while bring_back_part(space._store, space.index, name, stored.number, stored.lines):
            pass
    assert two.found("zebra") == [name]
    assert two.found("secretword") == two.found("hiddenword") == []
    until(lambda: files_with(replicas.servers[1].data_dir, "secretword", "hiddenword") == [])
    with Client(replicas.servers[1].target) as client:
        assert verified(client).problems == ()
    assert index_files(replicas) == made, "an index was made anew"


def test_a_redaction_that_another_server_was_faster_with_answers_as_it_is_now(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = replicas.one, replicas.two
    name = one.told("secretword")
    title = api.RenameRequest(conversation_id=name, title="On secretword", automatic=True)
    one.conversations.Rename(title)
    assert two.get(name).title == "On secretword"
    sequence = two.load(name).messages[0].sequence
    store = replicas.servers[1].app.spaces.open_now()[0]._space._store
    redacting = store.redacting

    def be_overtaken() -> list[str]:
        there = redacting()
        monkeypatch.undo()
        redact(one, name, sequence=sequence)
        return there

    monkeypatch.setattr(store, "redacting", be_overtaken)
    done = redact(two, name, sequence=sequence)
    assert (done.duplicate, done.conversation) == (True, one.get(name))


def test_deleting_many_passes_over_what_another_server_deletes_meanwhile(
    replicas: Replicas,
) -> None:
    names = [replicas.one.told(f"apricot {number}") for number in range(3)]
    assert set(replicas.two.found("apricot")) == set(names)
    space = replicas.servers[1].app.spaces.open_now()[0]._space

    def deleting(name: str) -> None:
        if name == names[1]:
            replicas.one.delete(name)

    done = Conversations(space).delete_many(
        Filter(), DELETE_ANCHORS, 10, "", force=False, dry_run=False, deleting=deleting
    )
    assert (done.conversations, done.failure) == ([names[0], names[2]], "")
    assert replicas.one.found("apricot") == replicas.two.found("apricot") == []


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
    name, other = one.told("apricot"), one.told("butter")
    sharing = replicas.servers[1].app.spaces.open_now()[0]._space._store.sharing
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
    assert two.append(one.told("five"), user("six")).conversation.message_count == 2
    fresh()
    one.delete(name)
    assert code_of(lambda: two.append(name, user("late"))) == "NOT_FOUND"
    assert said(one, other) == said(two, other)


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
            name, other = one.told("apricot"), one.told("butter")
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


def test_a_server_follows_what_was_written_while_its_changes_were_pruned_and_from_nothing(
    replicas: Replicas, postgres: Postgres, start_server: Start, tmp_path: Path
) -> None:
    one, two = replicas.one, replicas.two
    names = [one.told(f"apricot {number}") for number in range(4)]
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
    later, deleted = one.told("butter"), one.told("secretword")
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


def test_a_server_that_others_took_for_gone_keeps_no_word_of_what_they_deleted(
    replicas: Replicas, postgres: Postgres
) -> None:
    one, two = replicas.one, replicas.two
    name, redacted, other = one.told("secretword"), one.told("secretword"), one.told("zebra")
    assert set(two.found("secretword")) == {name, redacted}
    postgres.execute("DELETE FROM recollect.followers", replicas.url)  # as after half a minute
    one.delete(name)
    redact(one, redacted, sequence=one.load(redacted).messages[0].sequence)
    one.append(redacted, user("butter"))
    assert postgres.execute("SELECT FROM recollect.redacted_lines", replicas.url) == []
    until(lambda: two.found("secretword") == [])
    assert code_of(lambda: two.get(name)) == "NOT_FOUND"
    until(lambda: files_with(replicas.servers[1].data_dir, "secretword") == [])
    until(lambda: set(two.found("zebra")) == {other} and two.found("butter") == [redacted])
    assert said(two, redacted) == said(one, redacted)


def test_a_conversation_that_another_server_begins_just_now_does_not_count_as_damaged(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = replicas.one, replicas.two
    name = f"conv-{ULID()}"
    remains = PostgresStore.remains

    def begin(store: PostgresStore, log: str) -> str:
        monkeypatch.undo()
        one.create(conversation_id=name)
        return remains(store, log)

    monkeypatch.setattr(PostgresStore, "remains", begin)
    assert code_of(lambda: two.get(name)) == "NOT_FOUND"
    assert two.get(name).id == name


def test_a_redaction_that_a_read_meets_before_it_is_followed_costs_no_new_index(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = replicas.one, replicas.two
    name = one.told("secretword")
    assert two.found("secretword") == [name]
    made = index_files(replicas)
    space = replicas.servers[1].app.spaces.open_now()[0]._space
    length = space._store.length

    def be_overtaken(log: str) -> int:
        monkeypatch.undo()
        redact(one, name, sequence=2)
        return length(log)

    space._states.forget(name)
    monkeypatch.setattr(space._store, "length", be_overtaken)
    assert two.get(name).message_count == 1
    until(lambda: two.found("secretword") == [])
    for server in replicas.servers:
        until(lambda server=server: files_with(server.data_dir, "secretword") == [])  # type: ignore[misc]
    two.append(name, user("lemon"))
    assert two.found("lemon") == one.found("lemon") == [name]
    assert said(two, name) == said(one, name)
    space.repair(lambda: False)  # as its job does every second
    assert index_files(replicas) == made, "an index was made anew"


def test_a_request_of_a_deleted_conversation_is_known_where_it_is_used_again(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = replicas.one, replicas.two
    first_user, other = one.create().id, one.told("apricot")
    one.append(first_user, user("zebra"), request_id="r1")
    assert two.found("zebra") == [first_user]
    made = index_files(replicas)
    space = replicas.servers[1].app.spaces.open_now()[0]._space
    monkeypatch.setattr(space._deletions, "finish_interrupted", lambda *_: True)
    one.delete(first_user)
    first = one.append(other, user("lemon"), request_id="r1")
    assert two.found("lemon") == [other]  # which has the request before it forgot the deleted one
    monkeypatch.undo()
    until(lambda: not space.is_removing)
    repeat = two.append(other, user("lemon"), request_id="r1")
    assert (repeat.duplicate, repeat.messages) == (True, first.messages)
    assert len(two.load(other).messages) == 2
    assert index_files(replicas) == made, "an index was made anew"


def test_words_of_a_delete_that_others_ended_go_though_the_index_refuses_once(
    replicas: Replicas, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = replicas.one, replicas.two
    name = one.told("secretword")
    assert two.found("secretword") == [name]
    space = replicas.servers[1].app.spaces.open_now()[0]._space
    monkeypatch.setattr(space._deletions, "finish_interrupted", lambda *_: True)
    one.delete(name)
    assert two.found("secretword") == []
    postgres.execute(  # as another server does after half a minute
        "DELETE FROM recollect.traces; DELETE FROM recollect.lines; DELETE FROM recollect.logs",
        replicas.url,
    )
    refused: list[str] = []

    def refuse(log: str) -> int | None:
        monkeypatch.undo()
        refused.append(log)
        raise IndexUnavailable("the disk refuses")

    monkeypatch.undo()
    monkeypatch.setattr(space.index.removal, "find", refuse)
    until(lambda: refused)
    until(lambda: files_with(replicas.servers[1].data_dir, "secretword") == [])
    assert refused == [name]
    assert not space.is_removing


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
            (one, two)[number % 2].told(f"The zebra {number} lives in Vienna.", "It eats apricots.")
            for number in range(6)
        ]
        servers[0].clock.now += 7_200_000
        until(lambda: all(two.get(name).abbreviation for name in names), 20)
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


def test_work_whose_lease_another_server_took_meanwhile_writes_nothing(
    postgres: Postgres, start_server: Start
) -> None:
    url = postgres.new_database()
    server = start_server(store=url)
    taken = "UPDATE recollect.leases SET holder = 0, fence = fence + 1"
    with server.app.spaces.use("default") as space:
        with space.retention.alone() as may:
            assert may
            space.external.receive("whatsapp", STRANGER, "1", "written", (), None, Provenance(""))
            postgres.execute(taken, url)
            with pytest.raises(LogTaken):
                space.external.receive("whatsapp", ALEX, "2", "late", (), None, Provenance(""))
        with space.retention.alone() as may:
            assert not may
        space.external.receive("whatsapp", ALEX, "3", "no such work", (), None, Provenance(""))
    late = "SELECT count(*) FROM recollect.lines WHERE position('late'::bytea IN body) > 0"
    assert postgres.execute(late, url) == [(0,)]


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
            space.external.receive("whatsapp", person, number, text, (), None, Provenance(""))

        def work() -> None:
            with two.retention.alone() as may:
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
                with one.retention.alone() as may:
                    assert may
                    receive(one, ALEX, "4", "in time")
            finally:
                proxy.passes.set()
            cut_off.result()
        with two.retention.alone() as may:
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


def test_a_server_verifies_what_another_one_writes_without_a_false_alarm(
    replicas: Replicas,
) -> None:
    names = [replicas.one.told(f"apricot {number}") for number in range(5)]
    replicas.one.append(names[0], user("zebra"), agent("butter"))
    replicas.one.delete(names[1])
    with Client(replicas.servers[1].target) as client:
        result = verified(client)
    assert (result.problems, result.conversations) == ((), 4)


@pytest.mark.parametrize("suspended", [0, 5], ids=["closed", "suspended"])
def test_a_delete_reaches_the_files_of_a_space_that_is_not_open_on_another_server(
    postgres: Postgres, start_server: Start, tmp_path: Path, suspended: int
) -> None:
    url = postgres.new_database()
    one, two = (
        start_server(
            store=url, data_dir=tmp_path / name, max_open_spaces=1, max_suspended_spaces=suspended
        )
        for name in ("one", "two")
    )
    with Client(one.target, space="ada") as first, Client(two.target, space="ada") as second:
        name = first.conversations.create("web", messages=[Message.user("secretword")]).id
        assert [hit.conversation_id for hit in second.recall.search("secretword").hits] == [name]
        with Post(two.target) as default:
            default.told("zebra")
        assert "ada" not in two.app.spaces.names()
        assert files_with(two.data_dir, "secretword") != []
        first.conversations.delete(name)
    lines = "SELECT FROM recollect.lines WHERE space = 'ada'"
    until(lambda: postgres.execute(lines, url) == [])
    until(lambda: files_with(two.data_dir, "secretword") == [])

"""An index that was damaged without SQLite noticing it: nothing is stored twice, and nothing that
the log has is left out.

Bits that flip within a row and rows that disappear are no damage to SQLite. The log has all of it,
so each test asks the server what the log says: at once after the start, when a wrong index would be
believed.
"""

import random
import signal
import threading
from collections import Counter
from collections.abc import (
    Callable,
    Iterator,
)
from pathlib import Path
from typing import Any

import apsw
import pytest
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1.recall_pb2 import TurnRange
from recollect_server import app
from recollect_server.domain.errors import IndexUnavailable
from recollect_server.services.space.space import Space
from recollect_server.services.space.states import States
from recollect_server.services.upkeep.live_verification import Interrupted
from recollect_server.services.upkeep.recovery import no_progress, recover
from recollect_server.storage.index import file
from recollect_server.storage.index.checking import Contents, Words
from recollect_server.storage.index.index import Index
from recollect_server.storage.logs.folder import FolderStore
from recollect_server.storage.logs.store import LogUnavailable

from tests.conftest import MovableClock, RunningServer, Start
from tests.external.conftest import Meet, meet
from tests.server.conftest import Connect, Service, agent, code_of, files_with, server_process, user
from tests.server_cli.conftest import on
from tests.waiting import until

__all__ = ["meet"]

Damage = Callable[[Path], None]


def sql(*statements: str) -> Damage:
    """Return a damage by these statements, as a program other than the server would make it."""

    def run(folder: Path) -> None:
        with apsw.Connection(str(folder / "conversations.db")) as connection:
            connection.set_busy_timeout(5000)
            for statement in statements:
                connection.execute(statement)
        connection.close()

    return run


DAMAGES = {
    "no words": sql("DELETE FROM turns_fts_data WHERE id > 10", "DELETE FROM turns_fts_idx", "DELETE FROM turns_fts_docsize"),
    "words of one message are gone": sql(
        "INSERT INTO turns_fts(turns_fts, rowid, text) SELECT 'delete', min(id), 'zebra 0' FROM messages"
    ),
    "half of the messages": sql("DELETE FROM messages WHERE id % 2 = 0"),
    "a message is another turn's": sql(
        "UPDATE messages SET turn_number = turn_number + 1 WHERE id = (SELECT max(id) FROM messages)"
    ),
    "no requests": sql("DELETE FROM requests"),
    "one request": sql("DELETE FROM requests WHERE request_id LIKE '%-7'"),
    "a request of another payload": sql("UPDATE requests SET hash = 'ff' WHERE request_id LIKE '%-7'"),
    "a request of another conversation": sql("UPDATE requests SET conversation_id = 'conv-x' WHERE request_id LIKE '%-7'"),
    "a count": sql("UPDATE conversations SET turn_count = turn_count - 1"),
    "progress": sql("DELETE FROM progress"),
}  # fmt: skip


def fill(service: Service, count: int) -> str:
    """Fill a conversation with turns, each appended under a request id."""
    name = service.create(request_id="begin").id
    for number in range(count):
        service.append(
            name, user(f"zebra {number}"), agent("Noted."), request_id=f"append-{number}"
        )
    service.listed(page_size=1)
    return name


def assert_holds_all(service: Service, name: str, count: int) -> None:
    """Check that the server answers all that the log has, and that repeats store nothing."""
    repeated = [
        service.append(name, user(f"zebra {n}"), agent("Noted."), request_id=f"append-{n}")
        for n in range(count)
    ]
    assert [n for n, answer in enumerate(repeated) if not answer.duplicate] == []
    create = api.CreateRequest(channel="web", request_id="begin")
    # where to look for it only the index knows
    until(lambda: code_of(lambda: service.conversations.Create(create)) == "OK")
    assert service.conversations.Create(create).duplicate
    loaded = service.load(name, max_turns=1000)
    assert [m.content for m in loaded.messages if m.content != "Noted."] == [
        f"zebra {number}" for number in range(count)
    ]
    assert (loaded.damaged_lines, loaded.conversation.turn_count, service.get(name).turn_count) == (
        0,
        count,
        count,
    )
    context = service.context(name, turn_range=TurnRange(first=2, last=5))
    assert [m.content for m in context.messages if m.content != "Noted."] == [
        f"zebra {number}" for number in range(1, 5)
    ]
    until(lambda: not service.search("zebra").degraded)
    assert {hit.turn_number for hit in service.search("zebra", limit=50).hits} == set(
        range(1, count + 1)
    )


def test_a_bit_that_flips_in_a_request_id_while_the_server_is_stopped_stores_nothing_twice(
    service: Service, server: RunningServer, start_server: Start, connect: Connect, scale: int
) -> None:
    name = fill(service, 30)
    server.stop()
    path = server.folder / "conversations.db"
    chosen = random.Random(16)  # noqa: S311 - not a secret
    for _ in range(2 * scale):
        target = f"append-{chosen.randrange(30)}".encode()
        data = bytearray(path.read_bytes())
        at = chosen.choice([at for at in range(len(data)) if data.startswith(target, at)])
        data[at + chosen.randrange(len(target))] ^= 1 << chosen.randrange(3)
        path.write_bytes(data)
        again = start_server()
        assert_holds_all(connect(again), name, 30)
        again.stop()


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_index_that_was_damaged_while_the_server_was_stopped_is_made_anew_at_the_start(
    damage: str, service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    name = fill(service, 12)
    server.stop()
    DAMAGES[damage](server.folder)
    again = start_server()
    assert again.app.recovered.rebuilt
    assert_holds_all(connect(again), name, 12)
    again.stop()
    assert on(again, "verify").exit_code == 0


def test_an_index_that_was_damaged_after_a_kill_is_made_anew_at_the_start(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    """No checksum of the file is known then: the index is compared with the transcripts."""
    name = fill(service, 12)
    server.stop()
    files = {path.name: path.read_bytes() for path in server.folder.glob("conversations.db*")}
    for title, damage in DAMAGES.items():
        for path in server.folder.glob("conversations.db*"):
            path.unlink()
        # and no seal, as a kill leaves it
        (server.folder / "conversations.db").write_bytes(files["conversations.db"])
        damage(server.folder)
        again = start_server()
        assert again.app.recovered.rebuilt, title
        assert_holds_all(connect(again), name, 12)
        again.stop()


def test_an_index_that_is_whole_after_a_kill_is_used_as_it_is(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    name = fill(service, 12)
    server.stop()
    (server.folder / "conversations.db.seal").unlink()
    again = start_server()
    assert not again.app.recovered.rebuilt
    assert_holds_all(connect(again), name, 12)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_large_index_that_was_damaged_after_a_kill_is_healed_while_the_server_answers_from_the_log(
    damage: str, service: Service, server: RunningServer, connect: Connect, clock: MovableClock
) -> None:
    """All but the requests are compared while the server runs: what is asked for first, and
    searches say that they are degraded.
    """
    name = fill(service, 12)
    server.stop()
    (server.folder / "conversations.db.seal").unlink()
    DAMAGES[damage](server.folder)
    again = started_large(server, clock)
    try:
        assert_holds_all(connect(again), name, 12)
    finally:
        again.stop()
    assert on(again, "verify").exit_code == 0


def started_large(server: RunningServer, clock: MovableClock) -> RunningServer:
    """Start a server that takes what a stopped one left for too much to be compared at once."""
    settings = server.settings
    return RunningServer(app.start(settings, clock=clock, compared_at_once=0), clock, settings)


def test_a_large_folder_is_served_after_a_kill_before_a_transcript_is_read(
    service: Service,
    server: RunningServer,
    connect: Connect,
    clock: MovableClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only the calls wait that name no conversation: any of them may have been carried out."""
    name, lost = fill(service, 3), service.create(request_id="lost").id
    switch = api.SwitchRequest(
        from_conversation_id=service.create().id, to_conversation_id=name, request_id="switch"
    )
    service.conversations.Switch(switch)
    server.stop()
    (server.folder / "conversations.db.seal").unlink()
    sql("DELETE FROM requests WHERE request_id = 'lost'")(server.folder)
    may_read, raw = threading.Event(), FolderStore.raw

    def raw_later(store: FolderStore, log: str) -> Iterator[bytes]:
        assert not log.startswith("conv-") or may_read.wait(30)
        return raw(store, log)

    monkeypatch.setattr(FolderStore, "raw", raw_later)
    again = started_large(server, clock)
    later = connect(again)

    def create(request_id: str) -> api.CreateResponse:
        return later.conversations.Create(api.CreateRequest(channel="web", request_id=request_id))

    try:
        assert later.append(name, user("zebra 3"), request_id="append-3").turn_number == 4
        assert later.append(name, user("zebra 2"), agent("Noted."), request_id="append-2").duplicate
        assert create("begin").duplicate
        assert code_of(lambda: later.conversations.Switch(switch)) == "OK"  # only the index has it
        assert {code_of(lambda: create(request)) for request in ("lost", "new")} == {"UNAVAILABLE"}  # noqa: B023 - called at once
        may_read.set()
        until(lambda: code_of(lambda: create("lost")) == "OK")
        assert create("lost").conversation.id == lost
        assert not create("new").duplicate
    finally:
        may_read.set()
        again.stop()


def test_a_large_folder_is_served_after_a_kill_before_what_third_parties_said_is_read(
    service: Service,
    server: RunningServer,
    connect: Connect,
    meet: Meet,
    clock: MovableClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only calls about third parties wait, so that no delivery is taken twice; not for the words of
    all, which would take minutes.
    """
    name, first = fill(service, 3), meet(server).write(delivered="one")
    server.stop()
    (server.folder / "conversations.db.seal").unlink()
    sql("DELETE FROM external_deliveries")(server.folder)
    may_read, read = threading.Event(), FolderStore.read

    def read_later(store: FolderStore, log: str, *places: Any, **more: Any) -> Any:
        assert not log.startswith("ext-") or may_read.wait(30)
        return read(store, log, *places, **more)

    monkeypatch.setattr(FolderStore, "read", read_later)
    digests, take = list[int](), Words.take

    def counted_take(words: Words, identity: int) -> int:
        digests.append(identity)
        return take(words, identity)

    monkeypatch.setattr(Words, "take", counted_take)
    again = started_large(server, clock)
    later, outside = connect(again), meet(again)
    calls: list[Callable[[], Any]] = [
        lambda: outside.write(delivered="one"),
        lambda: outside.write(delivered="two"),
        outside.listed,
    ]
    try:
        assert later.append(name, user("zebra 3"), request_id="append-3").turn_number == 4
        assert [code_of(call) for call in calls] == ["UNAVAILABLE"] * 3
        may_read.set()
        until(lambda: code_of(calls[1]) == "OK")
        again_one = calls[0]()
        assert (again_one.duplicate, again_one.communication.id) == (True, first.communication.id)
        assert not outside.write(delivered="three").duplicate
        assert not digests
    finally:
        may_read.set()
        again.stop()
    assert on(again, "verify").exit_code == 0


def test_a_transcript_that_cannot_be_read_after_a_kill_is_compared_once_it_can(
    service: Service,
    server: RunningServer,
    connect: Connect,
    clock: MovableClock,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lost = service.create(request_id="lost").id
    server.stop()
    (server.folder / "conversations.db.seal").unlink()
    sql("DELETE FROM requests WHERE request_id = 'lost'")(server.folder)
    may_read, tries = threading.Event(), Counter[str]()

    def refusing(read: Callable[..., Any]) -> Callable[..., Any]:
        def refuse(store: FolderStore, log: str, *places: Any, **more: Any) -> Any:
            tries[log] += 1
            if log == lost and not may_read.is_set():
                raise LogUnavailable(log, "read", "Input/output error")
            return read(store, log, *places, **more)

        return refuse

    for name in ("raw", "read"):
        monkeypatch.setattr(FolderStore, name, refusing(getattr(FolderStore, name)))
    again = started_large(server, clock)
    later = connect(again)

    def create() -> api.CreateResponse:
        return later.conversations.Create(api.CreateRequest(channel="web", request_id="lost"))

    try:
        until(lambda: tries[lost] > 2)
        assert code_of(create) == "UNAVAILABLE"
        output = capsys.readouterr().out
        assert "index_not_compared" in output
        assert lost in output
        may_read.set()
        until(lambda: code_of(create) == "OK")
        assert create().conversation.id == lost
    finally:
        again.stop()


@pytest.mark.parametrize("target", [b'"requestHash":"', b'"requestId":"odd\\'])
def test_a_bit_that_flips_in_a_stamp_of_a_transcript_does_not_end_the_comparison_after_a_kill(
    target: bytes, service: Service, server: RunningServer, connect: Connect, clock: MovableClock
) -> None:
    name = fill(service, 2)
    service.append(name, user("zebra 2"), request_id='odd"1')
    service.append(name, user("zebra 3"))  # so that the damaged line is no torn end
    server.stop()
    (server.folder / "conversations.db.seal").unlink()
    path = next(server.folder.rglob(f"{name}*.jsonl"))
    data = bytearray(path.read_bytes())
    data[data.rindex(target) + len(target)] ^= 1 << 7
    path.write_bytes(data)
    again = started_large(server, clock)
    later = connect(again)
    create = api.CreateRequest(channel="web", request_id="new")
    try:
        until(lambda: code_of(lambda: later.conversations.Create(create)) == "OK")
        assert later.load(name).damaged_lines == 1
    finally:
        again.stop()


def test_a_stop_ends_the_look_at_all_pages_of_an_index(
    service: Service, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes minutes where the index is large, and is one query for SQLite."""
    fill(service, 12)
    server.stop()
    monkeypatch.setattr(file, "_STEPS_OF_CHECKS", 100)
    logs = FolderStore(server.folder)
    index = recover(logs, server.clock, no_progress).index
    space = Space(logs, index, server.clock, unverified={})

    def check() -> None:
        raise Interrupted("the server stops")

    try:
        with pytest.raises(Interrupted):  # a verification, at its first table
            next(Contents(index).problems_by_table(check))
        assert not space.upkeep.repair(lambda: True)
        assert space.doubt
        assert space.upkeep.repair(lambda: False)
        assert not space.doubt
    finally:
        space.close()


def test_sqlite_asks_often_whether_to_stop_within_a_table_of_words(tmp_path: Path) -> None:
    index = Index(tmp_path)
    rows = [(at, " ".join(f"word{at + number}" for number in range(200))) for at in range(500)]
    insert = "INSERT INTO turns_fts(rowid, text) VALUES(?, ?)"
    calls: list[None] = []
    try:
        index.write(lambda connection, _: connection.executemany(insert, rows))
        assert Contents(index).problems(lambda: calls.append(None)) == []
    finally:
        index.close()
    assert len(calls) > 10


def test_a_comparison_that_a_stop_interrupts_is_continued_by_the_next_start(
    service: Service,
    server: RunningServer,
    connect: Connect,
    clock: MovableClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [fill(service, 1), *(service.create().id for _ in range(3))]
    server.stop()
    (server.folder / "conversations.db.seal").unlink()
    read: Counter[str] = Counter()  # of their requests
    compared: list[str] = []
    raw, compare = FolderStore.raw, States.compare

    def counted_raw(store: FolderStore, log: str) -> Iterator[bytes]:
        read[log] += log.startswith("conv-")
        return raw(store, log)

    def compare_two(states: States, conversation_id: str) -> None:
        compared.append(conversation_id)
        if len(compared) > 2:
            raise IndexUnavailable("the test lets it wait")
        compare(states, conversation_id)

    def compare_any(states: States, conversation_id: str) -> None:
        compared.append(conversation_id)
        compare(states, conversation_id)

    monkeypatch.setattr(FolderStore, "raw", counted_raw)
    monkeypatch.setattr(States, "compare", compare_two)
    again = started_large(server, clock)
    until(lambda: len(compared) >= 4)
    again.stop()
    before = compared[:2]
    compared.clear()
    monkeypatch.setattr(States, "compare", compare_any)
    last = started_large(server, clock)
    try:
        until(lambda: not connect(last).search("zebra").degraded)
    finally:
        last.stop()
    assert sorted(before + compared) == sorted(names)
    assert +read == Counter(names)
    started = started_large(server, clock)  # with nothing left to compare
    degraded = connect(started).search("zebra").degraded
    started.stop()
    assert (list(degraded), len(compared)) == ([], 2)


def test_a_request_is_known_at_once_after_a_kill_that_cost_the_index_a_part(tmp_path: Path) -> None:
    with server_process(tmp_path / "data") as (process, target):
        name = fill(Service(target), 12)
        process.send_signal(signal.SIGKILL)
        process.wait(20)
    DAMAGES["no requests"](tmp_path / "data/default/conversations")
    with server_process(tmp_path / "data") as (process, target):
        assert_holds_all(Service(target), name, 12)
        process.terminate()
        assert process.wait(20) == 0


def test_rows_that_disappear_under_a_running_server_are_missed_and_nothing_is_stored_twice(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    name = fill(service, 12)
    texts = [m.content for m in service.load(name).messages]
    sql("DELETE FROM requests WHERE request_id = 'append-11'")(server.folder)
    assert service.append(name, user("zebra 11"), agent("Noted."), request_id="append-11").duplicate
    until(lambda: code_of(lambda: service.listed(page_size=1)) == "OK")  # it is made anew
    for rows in ("id % 4 = 0", "turn_number < 5", "id = (SELECT max(id) FROM messages)"):
        sql(f"DELETE FROM messages WHERE {rows}")(server.folder)  # noqa: S608 - the test's own words
        assert [m.content for m in service.load(name).messages] == texts, rows
        until(lambda: code_of(lambda: service.listed(page_size=1)) == "OK")
    until(lambda: not service.search("zebra").degraded)
    server.stop()
    assert on(server, "verify").exit_code == 0


def test_text_that_is_no_utf_8_is_damage_of_the_index(
    service: Service, server: RunningServer
) -> None:
    name = fill(service, 12)
    sql("UPDATE conversations SET channel = CAST(x'ff' AS TEXT)")(server.folder)
    list_all = api.ListRequest(page_size=1)
    assert code_of(lambda: service.conversations.List(list_all)) == "UNAVAILABLE"
    until(lambda: code_of(lambda: service.conversations.List(list_all)) == "OK")  # it is made anew
    assert_holds_all(service, name, 12)


def test_a_seal_has_no_word_of_what_was_said(service: Service, server: RunningServer) -> None:
    service.delete(fill(service, 3))
    server.stop()
    assert (server.folder / "conversations.db.seal").exists()
    assert files_with(server.folder, "zebra") == []

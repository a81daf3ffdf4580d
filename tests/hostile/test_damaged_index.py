"""An index that was damaged without SQLite noticing it: nothing is stored twice, and nothing that
the log has is left out.

Bits that flip within a row and rows that disappear are no damage to SQLite. The log has all of it,
so each test asks the server what the log says: at once after the start, when a wrong index would be
believed.
"""

import json
import random
import signal
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1.recall_pb2 import TurnRange
from recollect_server.kernel.compare.checks import Findings
from recollect_server.kernel.compare.comparison import Comparison
from recollect_server.kernel.compare.recovery import no_progress, recover
from recollect_server.kernel.compare.verification import Interrupted, Verifier
from recollect_server.kernel.erase.bulk_removal import Removals
from recollect_server.kernel.index import file
from recollect_server.kernel.index.checking import Contents
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.log.folder import FolderStore
from recollect_server.kernel.log.store import LogUnavailable
from recollect_server.kernel.space.space import Space
from recollect_server.people import received
from recollect_server.people.received import (
    forget_deliveries,
    forgotten_deliveries,
    forgotten_ledger,
)
from recollect_server.people.routing_table import routing_of
from recollect_server.run import app
from recollect_server.run.features import FEATURES
from recollect_server.run.jobs.of_space import IndexKeeper

from tests import at_rest
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
def test_a_large_index_that_was_damaged_after_a_kill_is_found_and_made_anew_while_the_server_runs(
    damage: str, service: Service, server: RunningServer, connect: Connect, clock: MovableClock
) -> None:
    name = fill(service, 12)
    server.stop()
    (server.folder / "conversations.db.seal").unlink()
    DAMAGES[damage](server.folder)
    again = started_large(server, clock)
    try:
        until(lambda: is_made_anew(again))
        assert_holds_all(connect(again), name, 12)
    finally:
        again.stop()
    assert on(again, "verify").exit_code == 0


def started_large(server: RunningServer, clock: MovableClock) -> RunningServer:
    """Start a server that takes what a stopped one left for too much to be compared at once."""
    settings = server.settings
    return RunningServer(app.start(settings, clock=clock, compared_at_once=0), clock, settings)


def is_made_anew(server: RunningServer) -> bool:
    """Tell whether the index is another one than the server found."""
    recovered = server.app.recovered
    return recovered.rebuilt or open_space(server).index is not recovered.index


def open_space(server: RunningServer) -> Space:
    """Return the space of a server that nobody else has."""
    space: Space = server.app.spaces.open_now()[0]._space
    return space


def test_a_large_folder_is_served_after_a_kill_before_anything_is_compared(
    service: Service,
    server: RunningServer,
    connect: Connect,
    meet: Meet,
    clock: MovableClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A kill leaves the index with what was committed, and the start takes in the rest: no call is
    refused, and none is carried out twice.
    """
    name, first = fill(service, 3), meet(server).write(delivered="one")
    switch = api.SwitchRequest(
        from_conversation_id=service.create().id, to_conversation_id=name, request_id="switch"
    )
    service.conversations.Switch(switch)
    server.stop()
    (server.folder / "conversations.db.seal").unlink()
    may_compare, compare = threading.Event(), Comparison.of

    def compare_later(*arguments: Any) -> Any:
        assert may_compare.wait(30)
        return compare(*arguments)

    monkeypatch.setattr(Comparison, "of", compare_later)
    again = started_large(server, clock)
    later, outside = connect(again), meet(again)

    def create(request_id: str) -> api.CreateResponse:
        return later.conversations.Create(api.CreateRequest(channel="web", request_id=request_id))

    try:
        assert later.append(name, user("zebra 3"), request_id="append-3").turn_number == 4
        assert later.append(name, user("zebra 2"), agent("Noted."), request_id="append-2").duplicate
        assert create("begin").duplicate
        assert not create("new").duplicate
        assert code_of(lambda: later.conversations.Switch(switch)) == "OK"
        assert later.search("zebra").hits
        assert not later.search("zebra").degraded
        again_one = outside.write(delivered="one")
        assert (again_one.duplicate, again_one.communication.id) == (True, first.communication.id)
        assert not outside.write(delivered="two").duplicate
        assert open_space(again).upkeep.is_comparing
        may_compare.set()
        until(lambda: not open_space(again).upkeep.is_comparing)
        assert not is_made_anew(again)
    finally:
        may_compare.set()
        again.stop()
    assert on(again, "verify").exit_code == 0
    assert at_rest.is_sealed(server.folder)


def test_a_transcript_that_cannot_be_read_after_a_kill_is_compared_by_the_next_start(
    service: Service,
    server: RunningServer,
    clock: MovableClock,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lost = service.create(request_id="lost").id
    fill(service, 1)
    server.stop()
    (server.folder / "conversations.db.seal").unlink()
    sql("DELETE FROM requests WHERE request_id = 'lost'")(server.folder)
    read = FolderStore.read

    def refuse(store: FolderStore, log: str, *places: Any, **more: Any) -> Any:
        if log == lost:
            raise LogUnavailable(log, "read", "Input/output error")
        return read(store, log, *places, **more)

    with monkeypatch.context() as patched:
        patched.setattr(FolderStore, "read", refuse)
        again = started_large(server, clock)
        until(lambda: not open_space(again).upkeep.is_comparing)
        again.stop()
    output = capsys.readouterr().out
    assert "index_not_compared" in output
    assert lost in output
    assert not at_rest.is_sealed(server.folder)
    last = started_large(server, clock)
    until(lambda: is_made_anew(last))
    last.stop()
    assert at_rest.is_sealed(server.folder)


def test_an_index_whose_comparison_a_stop_interrupts_is_not_sealed(
    service: Service, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To look at all of its pages takes minutes where it is large, and is one query for SQLite."""
    fill(service, 12)
    server.stop()
    (server.folder / "conversations.db.seal").unlink()
    monkeypatch.setattr(file, "_STEPS_OF_CHECKS", 100)

    def interrupt() -> None:
        raise Interrupted("the server stops")

    for is_stopping in (True, False):
        logs = FolderStore(server.folder)
        recovered = recover(logs, FEATURES, server.clock, no_progress, compared_at_once=0)
        assert not recovered.is_compared
        space = Space(logs, recovered.index, FEATURES, server.clock, is_compared=False)
        with pytest.raises(Interrupted):
            next(Contents(recovered.index).problems(interrupt))
        assert space.upkeep.repair(lambda: is_stopping) is not is_stopping  # noqa: B023 - called at once
        assert space.upkeep.is_comparing is is_stopping
        space.close()
        assert at_rest.is_sealed(server.folder) is not is_stopping


def reopened_large(server: RunningServer) -> Space:
    """Open what a stopped server left as a start does after a kill, to be compared later."""
    (server.folder / "conversations.db.seal").unlink()
    logs = FolderStore(server.folder)
    recovered = recover(logs, FEATURES, server.clock, no_progress, compared_at_once=0)
    return Space(logs, recovered.index, FEATURES, server.clock, is_compared=False)


def test_messages_that_deletes_forget_meanwhile_are_no_contradiction(
    service: Service, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(service, 1)
    server.stop()
    space, read = reopened_large(server), forgotten_deliveries
    ledger, index = forgotten_ledger(FolderStore(server.folder)), space.index

    def forget(number: int) -> None:
        routing, hashes = routing_of(index), [f"{number:024}"]
        size = forget_deliveries(ledger, hashes, routing.forgotten_bytes())
        routing.forget_deliveries(hashes, size)

    def forgotten(*arguments: Any) -> list[str]:
        hashes = list(read(*arguments))
        forget(len(hashes))
        return hashes

    forget(0)
    with monkeypatch.context() as patched:
        patched.setattr(received, "forgotten_deliveries", forgotten)
        assert space.upkeep.repair(lambda: False)
        assert space.index is index
        Verifier(space.upkeep.comparison(lambda: None), FEATURES, findings := Findings()).run()
    assert findings.problems == []
    index.write(lambda connection, _: connection.execute("DELETE FROM forgotten"))
    Verifier(space.upkeep.comparison(lambda: None), FEATURES, findings := Findings()).run()
    assert [problem for _, problem in findings.problems] == [
        "index: it knows 0 of 2 forgotten messages"
    ]
    space.close()


def test_a_conversation_of_which_each_look_meets_a_redaction_does_not_contradict_its_transcript(
    service: Service, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = fill(service, 3)
    server.stop()
    space = reopened_large(server)
    index, removals, path = space.index, Removals(space), server.folder / f"{name}.jsonl"
    look, lines = Comparison.of, Comparison.lines
    redactions: list[threading.Thread] = []

    def look_later(*arguments: Any) -> Any:
        for redaction in redactions:
            redaction.join(30)
        return look(*arguments)

    def redact_meanwhile(*arguments: Any) -> Any:
        if len(redactions) < 2:
            at, before = 2 * len(redactions) + 1, path.read_bytes()
            redact = partial(removals.redact, name, at + 1, 0, "me", f"redact-{at}")
            redactions.append(threading.Thread(target=redact))
            redactions[-1].start()
            until(lambda: path.exists() and path.read_bytes() != before)
        return lines(*arguments)

    monkeypatch.setattr(Comparison, "of", look_later)
    monkeypatch.setattr(Comparison, "lines", redact_meanwhile)
    assert space.upkeep.repair(lambda: False)
    assert len(redactions) == 2
    assert space.index is index
    assert not index.lost()
    space.close()
    assert at_rest.problems(server.folder) == []


def test_a_comparison_ends_within_a_long_transcript_where_the_space_leaves(
    service: Service, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = service.create().id
    for _ in range(6):
        service.append(name, *[user("zebra")] * 200)
    server.stop()
    space, lines, read = reopened_large(server), Comparison.lines, 0

    def counted(*arguments: Any) -> Any:
        nonlocal read
        for line in lines(*arguments):
            read += 1
            yield line

    monkeypatch.setattr(Comparison, "lines", counted)
    IndexKeeper(space, lambda: read > 100).turn(threading.Event())
    assert space.upkeep.is_comparing
    assert 100 < read < 1000
    space.close()


def test_a_seal_of_a_file_that_an_earlier_version_had_not_compared_is_none(tmp_path: Path) -> None:
    Index(tmp_path, FEATURES.tables).close(sound=True)
    assert file.read_seal(tmp_path) is file.Seal.INTACT
    path = tmp_path / "conversations.db.seal"
    sealed = json.loads(path.read_bytes())
    path.write_text(json.dumps({"compared": sealed.pop("digest"), "suspects": {}} | sealed))
    assert file.read_seal(tmp_path) is file.Seal.MISSING


def test_sqlite_asks_often_whether_to_stop_within_a_table_of_words(tmp_path: Path) -> None:
    index = Index(tmp_path, FEATURES.tables)
    rows = [(at, " ".join(f"word{at + number}" for number in range(200))) for at in range(500)]
    insert = "INSERT INTO turns_fts(rowid, text) VALUES(?, ?)"
    calls: list[None] = []
    try:
        index.write(lambda connection, _: connection.executemany(insert, rows))
        assert list(Contents(index).problems(lambda: calls.append(None))) == []
    finally:
        index.close()
    assert len(calls) > 10


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

"""The index goes wrong under a running server: no append fails, searches say so, and it is mended
from the transcripts.
"""

import itertools
import operator
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import apsw
import grpc
import pytest
import structlog
from recollect_server.kernel.domain.conversation import AnchorSet
from recollect_server.kernel.domain.errors import IndexUnavailable
from recollect_server.kernel.erase.deletion import DELETE_ANCHORS
from recollect_server.kernel.index import file, migrations
from recollect_server.kernel.index.checking import state_of
from recollect_server.kernel.index.file import Readers
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.index.writer import Writer
from recollect_server.kernel.space.events import IndexReplaced
from recollect_server.run.features import FEATURES
from structlog.testing import capture_logs

from tests.conftest import RunningServer, Start
from tests.context.conftest import built
from tests.server.conftest import (
    Connect,
    Service,
    answers,
    at_once,
    code_of,
    files_with,
    transcript,
    user,
)
from tests.waiting import until

QUERIES = ["zebra", "giraffe", "nothing"]


def whole_again(service: Service) -> bool:
    with suppress(grpc.RpcError):  # it may be refused while the index is made anew
        return not service.search("zebra").degraded
    return False


def remove(folder: Path) -> None:
    for path in folder.glob("conversations.db*"):
        path.unlink()


def remove_only_the_file(folder: Path) -> None:
    (folder / "conversations.db").unlink()


def replace_with_garbage(folder: Path) -> None:
    (folder / "garbage").write_bytes(b"garbage " * 4000)
    (folder / "garbage").rename(folder / "conversations.db")


def replace_with_another(folder: Path) -> None:
    path = folder / "another.db"
    connection = apsw.Connection(str(path))
    migrations.migrate(connection)
    connection.execute("INSERT INTO progress VALUES(1, 7, 7)")
    connection.close()
    path.rename(folder / "conversations.db")


@pytest.mark.parametrize(
    "lose",
    [remove, remove_only_the_file, replace_with_garbage, replace_with_another],
    ids=lambda it: it.__name__,
)
def test_an_index_that_is_lost_under_a_running_server_is_made_anew_while_it_serves(
    service: Service,
    server: RunningServer,
    start_server: Start,
    connect: Connect,
    lose: Callable[[Path], None],
) -> None:
    ids = [service.conversation_of("zebra one", "giraffe two") for _ in range(5)]
    service.rename(ids[0], "Named")
    before = answers(service, QUERIES)
    with capture_logs() as logged:
        lose(server.folder)
        until(lambda: any(it["event"] == "index_made_anew" for it in logged))
    until(lambda: whole_again(service))
    assert answers(service, QUERIES) == before
    service.append(ids[1], user("zebra three"), request_id="r1")
    before = answers(service, QUERIES)
    server.stop()
    again = start_server()
    assert again.app.recovered.messages == 0
    assert answers(connect(again), QUERIES) == before
    assert connect(again).append(ids[1], user("zebra three"), request_id="r1").duplicate


def test_appends_go_on_while_a_lost_index_is_made_anew_and_every_one_is_found_after(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    ids = [service.conversation_of("one") for _ in range(8)]
    stop = threading.Event()
    counts = [1] * 8

    def write(number: int) -> str:
        if number == 8:
            try:
                for _ in range(2):
                    remove(server.folder)
                    until(
                        lambda: (
                            (server.folder / "conversations.db").exists() and whole_again(service)
                        )
                    )
            finally:
                stop.set()
            return "OK"
        for turn in itertools.count(1):
            if stop.is_set():
                return "OK"
            code = code_of(
                lambda turn=turn: service.append(  # type: ignore[misc]
                    ids[number], user(f"zebra {turn}"), request_id=f"{number}-{turn}"
                )
            )
            if code != "OK":
                return code
            counts[number] += 1
            assert service.load(ids[number], max_turns=1).messages[-1].content == f"zebra {turn}"
        return "never"

    assert at_once(9, write) == ["OK"] * 9
    until(lambda: whole_again(service))
    assert [service.get(name).message_count for name in ids] == counts
    before = answers(service, QUERIES)
    server.stop()
    assert answers(connect(start_server()), QUERIES) == before


def refuse_all(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Return an event: while it is set, no index takes anything in."""
    refusing = threading.Event()
    refusing.set()
    real = Writer._take_in

    def take_in(writer: Writer, documents: list[object]) -> None:
        if not refusing.is_set():
            return real(writer, documents)  # type: ignore[arg-type]
        for document in documents:
            document.failed("database or disk is full")  # type: ignore[attr-defined]
        return None

    monkeypatch.setattr(Writer, "_take_in", take_in)
    return refusing


def test_an_index_that_takes_nothing_in_fails_no_append_says_so_once_and_catches_up(
    service: Service, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [service.conversation_of("giraffe") for _ in range(3)]
    refusing = refuse_all(monkeypatch)
    with structlog.testing.capture_logs() as logs:
        for turn in range(4):
            for name in ids:
                assert (
                    service.append(
                        name, user(f"zebra {turn}"), request_id=f"{name}-{turn}"
                    ).turn_number
                    == turn + 2
                )
        assert service.append(ids[0], user("zebra 3"), request_id=f"{ids[0]}-3").duplicate
        answer = service.search("zebra")
        assert {leg.leg for leg in answer.degraded} == {"keyword_messages", "keyword_conversations"}
        assert "3 conversations are not indexed yet" in answer.degraded[0].reason
        assert [m.content for m in service.load(ids[1]).messages] == [
            "giraffe",
            *(f"zebra {turn}" for turn in range(4)),
        ]
        refusing.clear()
        until(lambda: whole_again(service))
    assert [entry["event"] for entry in logs].count("index_behind") == 1
    assert [entry["event"] for entry in logs].count("index_caught_up") == 1
    assert set(service.found("zebra")) == set(ids)


def test_a_new_index_that_refuses_what_it_is_made_of_is_degraded_until_it_has_it(
    service: Service, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = {service.conversation_of("zebra") for _ in range(3)}
    file = server.folder / "conversations.db"
    service.search("zebra")
    refusing = refuse_all(monkeypatch)
    remove(server.folder)
    until(
        lambda: (
            file.exists()
            and "3 conversations are not indexed yet" in str(service.search("zebra").degraded)
        )
    )
    assert all(service.load(name).messages[0].content == "zebra" for name in ids)
    refusing.clear()
    until(lambda: whole_again(service))
    assert set(service.found("zebra")) == ids


def test_a_page_that_goes_bad_under_a_running_server_is_mended_while_it_serves(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    ids = [
        service.conversation_of(*(f"zebra {number} {turn}" for turn in range(8)))
        for number in range(20)
    ]
    before = answers(service, QUERIES)
    server.stop()
    path = server.folder / "conversations.db"
    whole = path.read_bytes()
    path.write_bytes(whole[: 4096 * 3] + b"\x5a" * (len(whole) - 4096 * 3))
    again = start_server()
    service = connect(again)

    def append(name: str, turn: int) -> str:
        return code_of(
            lambda: service.append(name, user(f"new {turn}"), request_id=f"{name}{turn}")
        )

    assert {append(name, turn) for turn in range(2) for name in ids} <= {"OK", "UNAVAILABLE"}
    until(lambda: whole_again(service) and code_of(lambda: service.listed()) == "OK")
    for turn in range(2):
        for name in ids:
            service.append(name, user(f"new {turn}"), request_id=f"{name}{turn}")
    assert [service.get(name).message_count for name in ids] == [10] * 20
    assert service.search("zebra").total_matches == 20
    assert len(before) > 20


def test_a_transcript_that_shrank_under_a_running_server_makes_the_index_anew(
    service: Service, server: RunningServer
) -> None:
    conversation_id = service.conversation_of("giraffe", "zebra", "lion")
    path = transcript(server, conversation_id)
    rest = b"".join(path.read_bytes().splitlines(keepends=True)[:2])
    path.write_bytes(rest)
    assert {code_of(lambda: service.append(conversation_id, user("tiger"))) for _ in range(2)} <= {
        "OK",
        "UNAVAILABLE",
    }
    until(lambda: whole_again(service) and service.found("zebra") == [])
    assert service.found("giraffe") == [conversation_id]


def test_a_delete_whose_index_is_lost_is_finished_once_there_is_a_new_one(
    service: Service, server: RunningServer
) -> None:
    deleted, other = service.conversation_of("zebra one"), service.conversation_of("zebra two")
    remove(server.folder)
    code_of(lambda: service.delete(deleted))
    until(lambda: whole_again(service) and not list(server.folder.glob("*.deleting")))
    assert service.found("zebra") == [other]
    assert not transcript(server, deleted).exists()


def test_an_index_of_an_older_version_is_migrated_and_every_answer_stays(
    service: Service,
    server: RunningServer,
    start_server: Start,
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The step that a later version may have: a table more, filled from those that are there."""
    service.conversation_of("zebra one", "giraffe two")
    before = answers(service, QUERIES)
    server.stop()

    def next_step(connection: apsw.Connection) -> None:
        connection.execute(
            "CREATE TABLE channels(channel TEXT PRIMARY KEY, conversations INTEGER NOT NULL)"
        )
        connection.execute(
            "INSERT INTO channels SELECT channel, count(*) FROM conversations GROUP BY channel"
        )

    monkeypatch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, next_step))
    again = start_server()
    assert not again.app.recovered.rebuilt
    assert answers(connect(again), QUERIES) == before
    with apsw.Connection(
        str(server.folder / "conversations.db"), flags=apsw.SQLITE_OPEN_READONLY
    ) as connection:
        assert connection.execute("SELECT * FROM channels").fetchall() == [("web", 1)]
        assert connection.pragma("user_version") == migrations.OLDEST + len(migrations.MIGRATIONS)
    connection.close()


def test_a_migration_that_fails_leaves_the_old_version_whole_and_the_index_is_made_anew(
    service: Service,
    server: RunningServer,
    start_server: Start,
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service.conversation_of("zebra one", "giraffe two")
    before = answers(service, QUERIES)
    server.stop()
    failing = iter([True])

    def next_step(connection: apsw.Connection) -> None:
        connection.execute("CREATE TABLE more(number)")
        if next(failing, False):
            connection.execute("SELECT * FROM a_table_that_is_not_there")

    monkeypatch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, next_step))
    again = start_server()
    assert again.app.recovered.rebuilt
    assert answers(connect(again), QUERIES) == before


def test_those_who_wait_for_the_index_are_woken_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = Readers(tmp_path / "index.db")
    writer = Writer(tmp_path / "index.db")
    holds, go_on, waits, wait = threading.Event(), threading.Event(), [], threading.Condition.wait

    def counted(condition: threading.Condition, timeout: float | None = None) -> bool:
        if threading.current_thread().name.startswith("reader"):
            waits.append(threading.current_thread().name)
        return wait(condition, timeout)

    def hold(*_: object) -> None:
        holds.set()
        go_on.wait()

    threads = [threading.Thread(target=writer.write, args=(hold,), name="holder")]
    threads[0].start()
    assert holds.wait(10)
    monkeypatch.setattr(threading.Condition, "wait", counted)
    names = [f"reader {at}" for at in range(16)]
    for at, name in enumerate(names):
        # Some wait for one place, some each for its own.
        work = writer.settle if at % 2 else partial(writer.write, lambda *_: None)
        threads.append(threading.Thread(target=work, name=name))
        threads[-1].start()
        until(partial(operator.contains, waits, name))
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert Counter(waits) == dict.fromkeys(names, 1)
    writer.close(readers)


def test_the_writer_takes_text_that_is_no_utf_8_for_damage_and_goes_on(tmp_path: Path) -> None:
    index = Index(tmp_path, FEATURES.tables)
    with pytest.raises(IndexUnavailable, match="refused a write"):
        index.writer.write(
            lambda connection, _: connection.execute("SELECT CAST(x'ff' AS TEXT)").get
        )
    assert "utf-8" in index.lost()
    assert index.writer.write(lambda connection, _: connection.execute("SELECT 1").get) == 1
    index.close()
    assert file.read_seal(tmp_path) is file.Seal.ABSENT


def test_an_index_that_is_condemned_is_known_as_wrong_after_a_kill(tmp_path: Path) -> None:
    """The log of which it has too much may have grown past what it has by the next start."""
    index = Index(tmp_path, FEATURES.tables)
    index.condemn("it has words of nobody")
    assert index.lost() == "it has words of nobody"
    state = state_of(tmp_path)  # what another process reads in the file, as the next start does
    assert state.problem == "to be made anew at the next start: it has words of nobody"
    index.close()


@contextmanager
def made_anew(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]
) -> Iterator[None]:
    """Have the index made anew for the block, and do something in it once the new one has all of
    the logs, and is not used yet.
    """
    space = server.app.spaces.open_now()[0]._space
    before, settle, ended = space.index, Index.settle, threading.Event()

    def settle_and_act(index: Index) -> None:
        monkeypatch.undo()
        settle(index)
        act()

    monkeypatch.setattr(Index, "settle", settle_and_act)
    space.subscribe(IndexReplaced, lambda _: ended.set())
    before.condemn("a page of it is damaged")
    assert ended.wait()
    yield
    until(lambda: space.upkeep.repair(lambda: False))


def test_a_conversation_that_is_deleted_while_the_index_is_made_anew_is_not_in_the_new_one(
    service: Service, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, other = service.conversation_of("secretword and more"), service.conversation_of("zebra")

    def delete() -> None:
        with suppress(grpc.RpcError):  # it is durable, and ends with the new index
            service.delete(name, request_id="d1")

    with made_anew(server, monkeypatch, delete):
        pass
    assert [it.id for it in service.pages()[0]] == [other]
    assert files_with(server.data_dir, "secretword") == []
    assert service.delete(name, request_id="d1").removed


def test_an_anchor_goes_with_a_conversation_that_is_deleted_while_the_index_is_made_anew(
    service: Service, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, answers = service.conversation_of("I moved."), list[list[str]]()
    space = server.app.spaces.open_now()[0]._space
    with space.writing(name) as state:
        space.append(state, [AnchorSet("city", "Porto", 0.9, 2, space.clock())])

    def delete() -> None:
        with suppress(grpc.RpcError):
            service.delete(name, anchors=DELETE_ANCHORS)

    def look(*_: object) -> None:
        answers.append([it.value for it in built(service, "", "Hello").anchors])

    space.subscribe(IndexReplaced, look)
    with made_anew(server, monkeypatch, delete):
        pass
    look()
    assert answers == [["Porto"], []]

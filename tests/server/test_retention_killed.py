"""Servers that are killed while a rule of retention deletes or unindexes: the next one finishes."""

from pathlib import Path

import pytest
from recollect import Client
from recollect_server.kernel.failpoints import FAILPOINTS
from recollect_server.recall.vectors.checking import state_of

from tests.conftest import Start
from tests.crash.load import connected, process
from tests.server.conftest import files_with, moment, user
from tests.server.test_unindex import TEXT, WORD, long_one, problems
from tests.waiting import until

OF_UNINDEXING = {it for it in FAILPOINTS if it.startswith(("unindex.", "reindex."))}


@pytest.mark.files
@pytest.mark.parametrize("point", [*sorted(OF_UNINDEXING), "unindex.part:2", "reindex.part:2"])
def test_a_server_that_is_killed_in_between_finishes_with_its_next_start(
    point: str, tmp_path: Path, start_server: Start
) -> None:
    data = tmp_path / "killed"
    flags = ("--retention", "unindex idle=1d", "--retention-grace", "0s")
    is_reindexed = point.startswith("reindex.")
    with process(data) as server, connected(server.target) as service:
        time = moment(1_600_000_000_000)
        if point.endswith(":2"):
            name = long_one(service, time)
        else:
            name = service.create(create_time=time).id
            service.append(name, user(TEXT, timestamp=time))
        service.listed()
        server.popen.terminate()
        server.popen.wait()
    with process(data, point, "127.0.0.1:0", *flags) as server:
        if is_reindexed:
            with connected(server.target) as service:
                until(lambda: service.get(name).unindexed)
                service.append(name, user("Back"))
            server.popen.terminate()  # its job may be at the point already, or look in a minute
        was_killed = server.was_killed
    if not was_killed:
        with process(data, point, "127.0.0.1:0", *flags) as server:
            was_killed = server.was_killed
    assert was_killed
    running = start_server(data_dir=data)
    assert not running.app.recovered.rebuilt
    with connected(running.target) as service:
        expected = [name] if is_reindexed else []
        until(lambda: service.found(WORD) == expected)
        until(lambda: not running.app.spaces.open_now()[0]._space.index.removal.unsettled())
    running.stop()
    assert problems(running) == []


@pytest.mark.files
@pytest.mark.parametrize("point", ["unindex.words_gone", "delete.durable"])
def test_no_vector_outlives_its_text_where_the_next_start_embeds_nothing(
    point: str, tmp_path: Path, start_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "killed"
    deletes = point.startswith("delete.")
    action = "delete" if deletes else "unindex"
    with monkeypatch.context() as patch:
        patch.setenv("RECOLLECT_EMBEDDER", "onnx")
        flags = ("--retention", f"{action} channel=web idle=1d", "--retention-grace", "0s")
        with process(data) as server, connected(server.target) as service:
            time = moment(1_600_000_000_000)
            name = service.create("web", create_time=time).id
            service.append(name, user(TEXT, timestamp=time))
            other = service.conversation_of("Potatoes", channel="cli")
            until(lambda: not service.search("zebra").degraded)
            until(lambda: state_of(data / "default" / "conversations").vectors == 2)
            server.popen.terminate()
            server.popen.wait()
        with process(data, point, "127.0.0.1:0", *flags) as server:
            assert server.was_killed
    folder = data / "default" / "conversations"
    assert state_of(folder).vectors == 2
    running = start_server(data_dir=data, embedder="off")
    with connected(running.target) as service:
        there = {it.id: it.unindexed for it in service.listed().conversations}
        assert there == ({other: False} if deletes else {other: False, name: True})
    assert state_of(folder).vectors == 1
    assert set(state_of(folder).lines) == {other}
    running.stop()
    assert problems(running) == []


@pytest.mark.parametrize("point", ["delete.begun", "delete.durable", "delete.remembered"])
def test_a_server_that_is_killed_while_it_retires_goes_on_the_next_time(
    point: str, tmp_path: Path, start_server: Start
) -> None:
    data = tmp_path / "killed"
    flags = ("--retention", "delete channel=web idle=1d", "--retention-grace", "0s")
    with process(data) as server, connected(server.target) as service:
        names = [service.create(create_time=moment(1_600_000_000_000)).id for _ in range(2)]
        for name in names:
            service.append(name, user(WORD, timestamp=moment(1_600_000_000_000)))
        service.listed()
        server.popen.terminate()
        server.popen.wait()
    with process(data, point, "127.0.0.1:0", *flags) as server:
        assert server.was_killed
    running = start_server(
        data_dir=data, retention_grace="0s", retention="delete channel=web idle=1d"
    )
    with connected(running.target) as service:
        until(lambda: not service.listed().conversations)
    with Client(running.target) as client:
        receipts = list(client.admin.list_retention_receipts())
    assert {it.conversation.conversation_id for it in receipts} == set(names)
    running.stop()  # the list is empty before the last delete has ended
    assert files_with(data, WORD) == []

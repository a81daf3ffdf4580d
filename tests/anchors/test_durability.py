"""Anchors on the disk: restarts, torn lines, a disk that refuses, rebuilds, and the commands that
look after the folder.
"""

from pathlib import Path

import apsw
import pytest
from recollect_server.anchors import log
from recollect_server.anchors.log import AnchorLedger
from recollect_server.kernel.domain.conversation import AnchorSet
from recollect_server.kernel.log.folder import FolderStore
from recollect_server.kernel.log.lines import Entry, Stamp, encode
from recollect_server.kernel.log.store import ANCHORS, START

from tests.anchors.conftest import forget_anchor, found, set_anchor, values
from tests.conftest import MovableClock, RunningServer, Start
from tests.crash.digest import digest, rebuilt_digest
from tests.server.conftest import Connect, Service, delete_index, failure_of
from tests.server_cli.conftest import on, run


def test_anchors_survive_a_restart_a_lost_index_and_a_compression(
    service: Service,
    server: RunningServer,
    start_server: Start,
    connect: Connect,
    clock: MovableClock,
) -> None:
    conversation = service.conversation_of("My name is Alex.", "And more.")
    set_anchor(service, "name", "Alex", (conversation, 2))
    found(service, server, "city", "Ghent", 0.9, clock.now)
    service.compress(conversation, 2, "Alex said more.")
    server.stop()
    expected = values(connect(first := start_server()), superseded=True)
    assert expected == [("city", "Ghent"), ("name", "Alex")]
    first.stop()
    delete_index(first)
    assert values(connect(start_server()), superseded=True) == expected


def test_a_torn_line_of_the_file_is_cut_and_the_rest_survives(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    set_anchor(service, "name", "Alex")
    set_anchor(service, "city", "Ghent")
    server.stop()
    path = server.folder.parent / "anchors.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    again = connect(start_server())
    assert values(again) == [("name", "Alex")]
    assert path.with_name("anchors.jsonl.torn").exists()
    set_anchor(again, "city", "Bruges")
    assert values(again) == [("city", "Bruges"), ("name", "Alex")]


def test_a_disk_that_refuses_changes_nothing_and_is_asked_again(
    service: Service, server: RunningServer
) -> None:
    path = server.folder.parent / "anchors.jsonl"
    path.mkdir()
    failure = failure_of(lambda: set_anchor(service, "name", "Alex", request_id="a1"))
    assert (failure.code, failure.reason, values(service)) == (
        "UNAVAILABLE",
        "STORAGE_UNAVAILABLE",
        [],
    )
    path.rmdir()
    set_anchor(service, "name", "Alex", request_id="a1")
    copy = path.with_name("anchors.jsonl.copy")
    copy.mkdir()
    assert failure_of(lambda: forget_anchor(service, "name")).reason == "STORAGE_UNAVAILABLE"
    assert values(service) == [("name", "Alex")]
    copy.rmdir()
    forget_anchor(service, "name")
    assert values(service, superseded=True) == []


def test_a_file_that_something_else_wrote_to_is_read_again(
    service: Service, server: RunningServer, clock: MovableClock
) -> None:
    set_anchor(service, "name", "Alex")
    with (server.folder.parent / "anchors.jsonl").open("ab") as file:
        file.write(encode(Entry(AnchorSet("city", "Ghent", 1.0, 0, clock.now, by_caller=True))))
    assert failure_of(lambda: set_anchor(service, "pet", "a cat")).reason == "STORAGE_UNAVAILABLE"
    set_anchor(service, "pet", "a cat")
    assert values(service) == [("city", "Ghent"), ("name", "Alex"), ("pet", "a cat")]


def test_the_index_of_anchors_is_that_of_a_rebuild(
    service: Service, server: RunningServer, start_server: Start, clock: MovableClock
) -> None:
    found(service, server, "city", "Ghent", 0.9, clock.now)
    server.stop()
    second = start_server()
    second.stop()
    assert (
        digest(second.folder)["anchors"]
        == rebuilt_digest(second.folder, second.data_dir / "beside")["anchors"]
        != []
    )


def test_verify_compares_anchors_with_the_transcripts(
    service: Service, server: RunningServer, start_server: Start, clock: MovableClock
) -> None:
    found(service, server, "city", "Ghent", 0.9, clock.now)
    set_anchor(service, "name", "Alex")
    server.stop()
    second = start_server()
    second.stop()
    assert on(second, "verify").exit_code == 0
    with apsw.Connection(str(second.folder / "conversations.db")) as connection:
        connection.execute("UPDATE anchors SET value = 'Bruges'")
    path = second.folder.parent / "anchors.jsonl"
    path.write_bytes(path.read_bytes().replace(b"Alex", b"Alix"))
    result = on(second, "verify")
    assert result.exit_code == 1
    assert "the index has another anchor than the transcript" in result.output
    assert "anchors.jsonl: " in result.output


def test_a_backup_brings_the_anchors_back(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    service.conversation_of("one")
    set_anchor(service, "name", "Alex")
    beside = server.data_dir.parent
    assert on(server, "backup", beside / "copy").exit_code == 0
    server.stop()
    target = beside / "new"
    assert run("restore", beside / "copy", "--data-dir", target).exit_code == 0
    assert values(connect(start_server(data_dir=target))) == [("name", "Alex")]
    assert run("restore", beside / "copy", "--data-dir", target).exit_code == 1


def test_a_request_is_not_free_while_the_file_is_read_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FolderStore.of(tmp_path, "default")
    store.create()
    ledger, answers = AnchorLedger(store), list[bool]()
    store.append(ANCHORS, START, [b"damaged\n"])
    ledger.reload()
    ledger.append(Entry(AnchorSet("city", "Ghent", 1.0, 0, 1), Stamp("r1", "hash")))

    class LookingLog:
        """Looks at the ledger whenever a line of it is damaged."""

        def warning(self, _: str, **__: object) -> None:
            answers.append(ledger.request("r1") is not None)

    monkeypatch.setattr(log, "log", LookingLog())
    ledger.reload()
    assert answers == [True]

"""Killed while it forks or deletes many: a fork is whole or not there, and a receipt is true."""

from contextlib import suppress
from pathlib import Path

import grpc
import pytest
from recollect.v1 import conversation_service_pb2 as api
from recollect_server.access.audit_file import read_audit

from tests.conftest import Start
from tests.crash.checker import check_index
from tests.crash.load import connected, process
from tests.server.conftest import Service, agent, code_of, files_with, user
from tests.server.test_delete import counts

OF_A_FORK = [
    "create.begun:2", "create.file_made:2", "create.half_written:2", "create.written:2", "create.synced:2", "index.put:4",
]  # fmt: skip
OF_A_DELETE = [
    "delete.begun", "delete.renamed", "delete.durable", "delete.part_removed", "delete.words_removed", "delete.remembered",
    "delete.file_removed", "delete.file_gone",
]  # fmt: skip
WORD = "quixotriple"


def fork(service: Service, conversation_id: str) -> api.ForkResponse:
    request = api.ForkRequest(conversation_id=conversation_id, request_id="fork")
    return service.conversations.Fork(request)


@pytest.mark.parametrize("point", OF_A_FORK)
def test_a_fork_that_is_killed_is_whole_or_not_there(
    point: str, tmp_path: Path, start_server: Start
) -> None:
    data = tmp_path / "killed"
    with process(data, point) as server:
        with connected(server.target) as service:
            origin = service.create().id
            service.append(origin, user("One"), agent("Noted"), request_id="a")
            service.listed()
            service.append(origin, user("Two"), request_id="b")
            service.listed()
            with suppress(grpc.RpcError):
                fork(service, origin)
                service.listed()
        assert server.was_killed
    running = start_server(data_dir=data)
    with connected(running.target) as service:
        there = [it for it in service.listed().conversations if it.id != origin]
        assert [it.message_count for it in there] in ([], [3])
        done = fork(service, origin)
        assert done.duplicate == bool(there)
        forks = [it.id for it in service.listed().conversations if it.id != origin]
        assert forks == [done.conversation.id]
        assert [it.content for it in service.load(forks[0]).messages] == ["One", "Noted", "Two"]
    running.stop()
    folder = data / "default" / "conversations"
    assert check_index(folder, tmp_path / "beside") == []
    assert len(list(folder.glob("conv-*.jsonl"))) == 2


@pytest.mark.parametrize(
    ("point", "is_shared"),
    [
        *(("delete.durable", True), ("delete.words_removed", True), ("delete.part_removed", False)),
        *(("delete.remembered", False), ("delete.remembered", True)),
        *(("delete.file_removed", False), ("delete.file_gone", False), ("delete.file_gone", True)),
    ],
)
def test_the_request_of_a_killed_delete_is_answered_after_a_restart(
    point: str,
    is_shared: bool,
    tmp_path: Path,
    start_server: Start,
    request: pytest.FixtureRequest,
) -> None:
    store = request.getfixturevalue("postgres").new_database() if is_shared else "folder"
    data = tmp_path / "killed"
    with process(data, point, "127.0.0.1:0", "--store", store) as server:
        with connected(server.target) as service:
            goes = service.conversation_of(WORD)
            with suppress(grpc.RpcError):
                service.delete(goes, request_id="d1")
        assert server.was_killed
    # Over a shared store another server may finish it.
    running = start_server(data_dir=tmp_path / "other" if is_shared else data, store=store)
    with connected(running.target) as service:
        receipt = service.delete(goes, request_id="d1")
        assert receipt.conversation_id == goes
        assert counts(receipt)["messages"] == 1
        assert service.delete(goes, request_id="d1") == receipt
        other = service.conversation_of("Stays")
        assert code_of(lambda: service.delete(other, request_id="d1")) == "ALREADY_EXISTS"
        assert code_of(lambda: service.delete(goes, request_id="d2")) == "NOT_FOUND"


@pytest.mark.parametrize(
    ("point", "is_shared"),
    [
        *(("delete.durable", False), ("delete.file_removed", False), ("delete.file_gone", False)),
        ("delete.file_gone", True),
    ],
)
def test_a_killed_delete_that_is_repeated_leaves_a_conversation_that_began_anew(
    point: str,
    is_shared: bool,
    tmp_path: Path,
    start_server: Start,
    request: pytest.FixtureRequest,
) -> None:
    store = request.getfixturevalue("postgres").new_database() if is_shared else "folder"
    data = tmp_path / "killed"
    name = "conv-01J00000000000000000000000"
    with process(data, point, "127.0.0.1:0", "--store", store) as server:
        with connected(server.target) as service:
            service.conversation_of(WORD, conversation_id=name)
            with suppress(grpc.RpcError):
                service.delete(name, request_id="d1")
        assert server.was_killed
    running = start_server(data_dir=data, store=store)
    with connected(running.target) as service:
        assert service.conversation_of("Stays", conversation_id=name) == name
        receipt = service.delete(name, request_id="d1")
        assert receipt.conversation_id == name
        assert service.delete(name, request_id="d1") == receipt
        assert [it.content for it in service.load(name).messages] == ["Stays"]
        service.delete(name, request_id="d2")
        assert code_of(lambda: service.get(name)) == "NOT_FOUND"


def delete(service: Service) -> api.DeleteManyResponse:
    return service.conversations.DeleteMany(
        api.DeleteManyRequest(channels=["cli"], request_id="clean")
    )


@pytest.mark.parametrize(
    "point",
    [
        *(f"{point}:{nth}" for point in OF_A_DELETE for nth in (1, 2)),
        *("index.job_done:2", "index.job_done:3", "index.job_committed:2", "index.job_committed:3"),
    ],
)
def test_the_receipt_of_a_killed_delete_of_many_is_true_after_a_restart(
    point: str, tmp_path: Path, start_server: Start
) -> None:
    data = tmp_path / "killed"
    with process(data, point) as server:
        with connected(server.target) as service:
            stays = service.conversation_of("Stays")
            goes = [
                service.conversation_of(f"{WORD} {number}", channel="cli") for number in range(3)
            ]
            service.listed()
            with suppress(grpc.RpcError):
                delete(service)
                service.delete(stays)
        assert server.was_killed
    running = start_server(data_dir=data)
    with connected(running.target) as service:
        left = [it.id for it in service.listed().conversations if it.id != stays]
        assert set(left) <= set(goes)
        recorded = {record["object"] for _, _, record in read_audit(data) if record}
        assert set(goes) - set(left) <= recorded  # also of the one that it was killed at
        receipt = delete(service)
        assert not receipt.has_more
        # What this call deleted, and, where it had been remembered, what it deleted before.
        assert set(left) <= set(receipt.conversation_ids) <= set(goes)
        if left:
            assert set(receipt.conversation_ids) == set(left)
        assert delete(service) == receipt
    recorded = {record["object"] for _, _, record in read_audit(data) if record}
    assert recorded - {stays} == set(goes)
    running.stop()
    assert files_with(data, WORD) == []
    assert check_index(data / "default" / "conversations", tmp_path / "beside") == []

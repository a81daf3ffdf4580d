"""Reconnections of a watch, and the failures that end it."""

import threading
from collections.abc import Callable

import grpc
import pytest
import recollect
from recollect import (
    Client,
    ConversationCreated,
    ConversationDeleted,
    ConversationList,
    LoadedConversation,
    RetryPolicy,
)
from recollect.v1 import conversation_service_pb2 as pb
from recollect.v1.update_pb2 import ConversationDeleted as ProtoDeleted
from recollect.v1.update_pb2 import Update as ProtoUpdate

from tests.client.conftest import Fault, Scripted, Waits, error_info
from tests.conftest import RunningServer


def test_a_connection_that_was_there_once_is_made_again_for_as_long_as_it_takes(
    start_server: Callable[..., RunningServer],
) -> None:
    server = start_server()
    waited = 0

    def come_back_late(_: float) -> None:
        nonlocal waited
        waited += 1
        if waited == 20:
            with Client(start_server(listen=server.target).target) as other:
                other.conversations.create("web")
        threading.Event().wait(0.01)

    with Client(server.target, retry=RetryPolicy(max_attempts=2), sleep=come_back_late) as client:
        watch = client.conversations.watch()
        assert [type(next(watch).kind) for _ in range(2)] == [ConversationList, LoadedConversation]
        server.stop()
        assert isinstance(next(watch).kind, ConversationCreated)
    assert waited >= 20


@pytest.mark.parametrize(
    ("fault", "connections"),
    [
        (Fault(grpc.StatusCode.INTERNAL), 3),
        (Fault(grpc.StatusCode.UNKNOWN), 3),
        (Fault(grpc.StatusCode.INTERNAL, [error_info("ERROR_REASON_INTERNAL")]), 1),
        (Fault(grpc.StatusCode.PERMISSION_DENIED), 1),
    ],
    ids=["a broken connection", "one that broke elsewhere", "a fault of the server", "a refusal"],
)
def test_what_looks_like_a_broken_connection_is_made_again_and_a_fault_is_raised(
    fault: Fault, connections: int, scripted: Scripted, waits: Waits
) -> None:
    deleted = ProtoUpdate(cursor="here", conversation_deleted=ProtoDeleted())
    scripted.streams = [[pb.StreamUpdatesResponse(update=deleted), fault] for _ in range(2)]
    scripted.streams.append([Fault(grpc.StatusCode.DATA_LOSS)])

    def sleep(seconds: float) -> None:
        waits.sleep(seconds)
        assert len(waits.seconds) < 10, "it connects for ever"

    with Client(scripted.target, retry=RetryPolicy(random=lambda: 1.0), sleep=sleep) as client:
        watch = client.conversations.watch()
        assert [type(next(watch).kind) for _ in range(min(connections, 2))] == [
            ConversationDeleted
        ] * min(connections, 2)
        with pytest.raises(recollect.RecollectError):
            next(watch)
    assert [received.request.cursor for received in scripted.requests] == ["", "here", "here"][
        :connections
    ]
    assert len(waits.seconds) == connections - 1

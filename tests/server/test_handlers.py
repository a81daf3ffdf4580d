"""The steps around every handler, without a socket: `grpc_testing` holds time and the caller."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import grpc_testing
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import status_pb2
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1 import message_pb2
from recollect_server.access.principal import Principal
from recollect_server.contract.handling import Call, CallLog, deadline_of, unary
from recollect_server.kernel.domain.time import Deadline
from structlog.testing import capture_logs

from tests.cases import each
from tests.waiting import until

SERVICE = api.DESCRIPTOR.services_by_name["ConversationService"]
GET, APPEND = SERVICE.methods_by_name["Get"], SERVICE.methods_by_name["AppendTurn"]
CONVERSATION = "conv-01JZZZZZZZZZZZZZZZZZZZZZZZ"


class Aborted(Exception):
    """A call was ended with a status."""


class Whole:
    """The context of a call, with the two things that `grpc_testing` has not: a peer, and the end
    by a status with details.
    """

    def __init__(self, context: grpc.ServicerContext) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def peer(self) -> str:
        return "ipv4:127.0.0.1:5"

    def abort_with_status(self, status: Any) -> None:
        self._context.set_code(status.code)
        self._context.set_details(status.details)
        self._context.set_trailing_metadata(status.trailing_metadata)
        raise Aborted


class Handlers:
    """A server of ConversationService whose methods do what a test says."""

    def __init__(self) -> None:
        self.clock = grpc_testing.strict_fake_time(0)
        self.go_on = threading.Event()
        """Calls wait for it before anything looks at them, as for a thread."""
        self.go_on.set()
        self.over = threading.Event()
        """A call was carried out, or given up."""
        self.does: Callable[[Any, Call], Message | None] = lambda _request, _call: api.GetResponse()
        self.most_bytes = 1 << 20
        self._pool = ThreadPoolExecutor(1)
        self._server = grpc_testing.server_from_dictionary({SERVICE: self}, self.clock)

    def __getattr__(self, name: str) -> Callable[[bytes, grpc.ServicerContext], Any]:
        method = SERVICE.methods_by_name[name]
        handler: Any = unary(
            method,
            GetMessageClass(method.input_type),
            lambda _method, _context: Principal(),
            lambda request, call: self.does(request, call),
            self._pool,
            CallLog(),
            self.most_bytes,
        )

        def carry_out(data: bytes, context: grpc.ServicerContext) -> Any:
            assert self.go_on.wait(30)
            try:
                return handler.unary_unary(data, Whole(context))
            except Aborted:
                return None
            finally:
                self.over.set()

        return carry_out

    def begin(self, method: MethodDescriptor, data: bytes, timeout: float | None = None) -> Any:
        """Begin a call with these bytes as its request."""
        self.over.clear()
        return self._server.invoke_unary_unary(method, (), data, timeout)

    def close(self) -> None:
        self.go_on.set()
        self._pool.shutdown()


@pytest.fixture
def handlers() -> Iterator[Handlers]:
    made = Handlers()
    yield made
    made.close()


def valid(method: MethodDescriptor) -> bytes:
    if method is GET:
        return api.GetRequest(conversation_id=CONVERSATION).SerializeToString()
    request = api.AppendTurnRequest(conversation_id=CONVERSATION, request_id="once")
    request.messages.add(role=message_pb2.ROLE_USER, content="The roof leaks.")
    return request.SerializeToString()


@each(("method", "is_carried_out"), [(GET, False), (APPEND, True)])
def test_a_read_whose_caller_left_while_it_waited_is_not_carried_out_and_a_write_is(
    method: MethodDescriptor, is_carried_out: bool, handlers: Handlers
) -> None:
    carried_out: list[str] = []
    handlers.go_on.clear()
    handlers.does = lambda request, _: carried_out.append(request.conversation_id)
    call = handlers.begin(method, valid(method))
    call.cancel()
    handlers.go_on.set()
    assert handlers.over.wait(30)
    assert carried_out == [CONVERSATION] * is_carried_out


@each("leave", [lambda call, _: call.cancel(), lambda _, clock: clock.sleep_for(31)])
def test_work_for_a_caller_ends_once_it_leaves_or_its_time_is_over(
    leave: Callable[[Any, Any], None], handlers: Handlers
) -> None:
    deadlines: list[Deadline] = []
    has_begun = threading.Event()

    def work(_: Any, call: Call) -> Message:
        deadlines.append(deadline_of(call.context, 60))
        has_begun.set()
        until(lambda: deadlines[0].is_over)
        deadlines.append(deadline_of(call.context, 60))
        return api.GetResponse()

    handlers.does = work
    call = handlers.begin(GET, valid(GET), timeout=30.0)
    assert has_begun.wait(30)
    assert not deadlines[0].is_over
    leave(call, handlers.clock)
    assert handlers.over.wait(30)
    assert [it.is_over for it in deadlines] == [True, True]  # also what begins after it left


def test_a_fault_that_nobody_foresaw_is_logged_whole_and_answered_by_its_number(
    handlers: Handlers,
) -> None:
    def fail(_request: Any, _call: Call) -> Message:
        raise ZeroDivisionError("The roof leaks.")

    handlers.does = fail
    with capture_logs() as lines:
        _, trailing, code, text = handlers.begin(GET, valid(GET)).termination()
    [fault] = [it for it in lines if it["event"] == "fault"]
    assert (fault["method"], str(fault["exc_info"])) == (
        "ConversationService.Get",
        "The roof leaks.",
    )
    assert code is grpc.StatusCode.INTERNAL
    status = status_pb2.Status.FromString(dict(trailing)["grpc-status-details-bin"])
    assert fault["log_id"] in str(status)
    assert "roof" not in text + str(status)


@each(
    ("data", "reason"),
    [
        (b"\xff", "the request is not a GetRequest"),
        (b"\x0a\x03\xed\xa0\x80", "conversation_id: is not valid UTF-8"),
        (valid(GET) + b"\x7a\x80\x08" + b"x" * 1024, "it may have 512 bytes"),
    ],
)
def test_bytes_that_are_no_request_reach_no_handler(
    data: bytes, reason: str, handlers: Handlers
) -> None:
    reached: list[Any] = []
    handlers.does = lambda request, _: reached.append(request)
    handlers.most_bytes = 512
    answer, _, code, text = handlers.begin(GET, data).termination()
    assert (answer, code) == (None, grpc.StatusCode.INVALID_ARGUMENT)
    assert reason in text
    assert reached == []

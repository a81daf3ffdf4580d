"""A real gRPC server that answers what a test scripts: failures that the real one does not do on
demand.
"""

import concurrent.futures
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
import recollect
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status
from recollect.v1 import conversation_service_pb2 as pb
from recollect.v1 import conversation_service_pb2_grpc as pb_grpc
from recollect.v1 import recall_service_pb2, recall_service_pb2_grpc


@dataclass
class Fault:
    """A scripted failure: a status code, and what the server says with it."""

    code: grpc.StatusCode
    details: Sequence[Message] = ()
    text: str = "scripted"

    def raise_in(self, context: Any) -> None:
        if not self.details:
            context.abort(self.code, self.text)
        status = Status(code=self.code.value[0], message=self.text)
        for detail in self.details:
            packed = AnyMessage()
            packed.Pack(detail)
            status.details.append(packed)
        context.abort_with_status(rpc_status.to_status(status))


def error_info(reason: str, domain: str = "recollect", **metadata: str) -> Any:
    """Return an ErrorInfo as the service sends it."""
    return error_details_pb2.ErrorInfo(reason=reason, domain=domain, metadata=metadata)


def bad_request(**violations: str) -> Any:
    """Return a BadRequest that names these fields."""
    named = [
        {"field": field, "description": description} for field, description in violations.items()
    ]
    return error_details_pb2.BadRequest(
        field_violations=[error_details_pb2.BadRequest.FieldViolation(**it) for it in named]
    )


def retry_info(seconds: float) -> Any:
    """Return a RetryInfo that asks for a pause."""
    info = error_details_pb2.RetryInfo()
    info.retry_delay.FromMicroseconds(round(seconds * 1_000_000))
    return info


@dataclass
class Received:
    """One call as the scripted server saw it."""

    method: str
    request: Any
    metadata: dict[str, str | bytes]
    time_remaining: float


@dataclass
class Scripted:
    """Scripted server: its next answers, in order, and the requests that it received. Without a
    script it answers with empty messages.
    """

    target: str = ""
    script: list[Fault | Message] = field(default_factory=list)
    streams: list[list[Fault | Message]] = field(default_factory=list)
    """Updates that each stream sends, one stream after the other."""
    requests: list[Received] = field(default_factory=list)
    hang: threading.Event = field(default_factory=threading.Event)
    """Calls wait for it. Set but where a test clears it."""
    arrived: threading.Event = field(default_factory=threading.Event)
    """Set with every call that arrives."""

    def answer(self, method: str, request: Any, context: Any, response: Message) -> Any:
        metadata = {entry.key: entry.value for entry in context.invocation_metadata()}
        self.requests.append(Received(method, request, metadata, context.time_remaining()))
        self.arrived.set()
        self.hang.wait()
        step = self.script.pop(0) if self.script else response
        if isinstance(step, Fault):
            step.raise_in(context)
        return step

    def stream(self, method: str, request: Any, context: Any) -> Iterator[Any]:
        self.requests.append(Received(method, request, {}, 0))
        for step in self.streams.pop(0) if self.streams else ():
            if isinstance(step, Fault):
                step.raise_in(context)
            yield step

    @property
    def methods(self) -> list[str]:
        return [received.method for received in self.requests]

    @property
    def request_ids(self) -> list[str]:
        return [received.request.request_id for received in self.requests]


def _answers(service: type, module: Any) -> dict[str, Any]:
    def handler(name: str, response: type[Message]) -> Any:
        if name == "StreamUpdates":
            return lambda self, request, context: self.scripted.stream(name, request, context)
        return lambda self, request, context: self.scripted.answer(
            name, request, context, response()
        )

    methods = next(iter(module.DESCRIPTOR.services_by_name.values())).methods
    return {it.name: handler(it.name, getattr(module, it.output_type.name)) for it in methods}


_Conversations = type(
    "_Conversations",
    (pb_grpc.ConversationServiceServicer,),
    _answers(pb_grpc.ConversationServiceServicer, pb),
)
_Recall = type(
    "_Recall",
    (recall_service_pb2_grpc.RecallServiceServicer,),
    _answers(recall_service_pb2_grpc.RecallServiceServicer, recall_service_pb2),
)


@pytest.fixture
def scripted(tmp_path: Any) -> Iterator[Scripted]:
    """Serve a script on a TCP port and on the Unix socket `tmp_path / "socket"`."""
    it = Scripted()
    it.hang.set()
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
    conversations, recall = _Conversations(), _Recall()
    conversations.scripted = recall.scripted = it
    pb_grpc.add_ConversationServiceServicer_to_server(conversations, server)
    recall_service_pb2_grpc.add_RecallServiceServicer_to_server(recall, server)
    it.target = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.add_insecure_port(f"unix:{tmp_path / 'socket'}")
    server.start()
    yield it
    it.hang.set()
    server.stop(0).wait()


@dataclass
class Waits:
    """A delay source that never waits: it writes down how long the client would have waited."""

    seconds: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)

    async def sleep_async(self, seconds: float) -> None:
        self.seconds.append(seconds)


@pytest.fixture
def waits() -> Waits:
    return Waits()


FULL_JITTER = recollect.RetryPolicy(
    max_attempts=4, initial_delay=0.1, multiplier=2.0, max_delay=0.3, random=lambda: 1.0
)
"""The longest waits that the policy allows: 0.1, 0.2, 0.3, 0.3, …"""


@pytest.fixture
def scripted_client(scripted: Scripted, waits: Waits) -> Iterator[recollect.Client]:
    """Connect a client that never sleeps to the scripted server."""
    with recollect.Client(scripted.target, retry=FULL_JITTER, sleep=waits.sleep) as client:
        yield client

"""The door around every handler: reads the request, runs the handler, turns what went wrong into a status, logs one line.

The line names the method, the code, the milliseconds and the conversation or communication; never what was said.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import grpc
import structlog
from google.protobuf.descriptor import Descriptor, MethodDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as ProtoMessage
from google.rpc import status_pb2
from grpc_status import rpc_status
from ulid import ULID

from recollect_server.domain.deadline import Deadline
from recollect_server.domain.errors import CallerGone, RecollectError
from recollect_server.transport.errors import internal, malformed, status_of
from recollect_server.transport.wire import first_not_utf8

log = structlog.get_logger("recollect.calls")

Handler = Callable[[Any, grpc.ServicerContext], ProtoMessage | None]
Send = Callable[[bytes | None], None]
"""Sends one element of a stream and waits until it is on its way; None ends the stream."""
StreamHandler = Callable[[Any, grpc.ServicerContext, Send], None]


class Malformed:
    """Bytes that are not the message expected. Reading them must not raise: grpcio would answer without a reason."""

    def __init__(self, data: bytes, expected: Descriptor, error: DecodeError) -> None:
        self.status = malformed(*_what_is_wrong(data, expected, error))


def deadline_of(context: grpc.ServicerContext, seconds: float) -> Deadline:
    """Return the deadline of a call: its caller's, at most `seconds`. It ends as soon as the call does."""
    remaining = context.time_remaining()
    deadline = Deadline(seconds if remaining is None else min(seconds, remaining))
    if not context.add_callback(deadline.cancel):
        deadline.cancel()
    return deadline


def unary(
    method: MethodDescriptor,
    request_type: type[ProtoMessage],
    handler: Handler,
    pool: ThreadPoolExecutor,
    *,
    quiet: bool = False,
) -> "grpc.RpcMethodHandler[Any, Any]":
    """The handler of a unary method, within the door, run by the pool. `quiet`: its line in the log is for debugging alone."""
    name = f"{method.containing_service.name}.{method.name}"
    reads = method.GetOptions().idempotency_level == MethodOptions.NO_SIDE_EFFECTS

    def run(request: Any, context: grpc.ServicerContext) -> ProtoMessage | None:
        if reads and not context.is_active():  # it waited for a thread longer than its caller waited for it
            raise CallerGone
        return handler(request, context)

    def call(request: ProtoMessage | Malformed, context: grpc.ServicerContext) -> ProtoMessage:
        began = time.perf_counter()
        answer, failed = _run(name, run, request, context)
        _log(name, request, answer, failed, time.perf_counter() - began, quiet=quiet)
        if failed is not None:
            context.abort_with_status(rpc_status.to_status(failed))
        return cast(ProtoMessage, answer)

    call.experimental_thread_pool = pool  # type: ignore[attr-defined]  # how grpcio is told which pool runs a handler
    return grpc.unary_unary_rpc_method_handler(
        call, request_deserializer=_reader(request_type), response_serializer=lambda answer: answer.SerializeToString()
    )


def streaming(
    method: MethodDescriptor,
    request_type: type[ProtoMessage],
    handler: StreamHandler,
    pool: ThreadPoolExecutor,
    *,
    quiet: bool = False,
) -> "grpc.RpcMethodHandler[Any, Any]":
    """The handler of a streaming method, within the door. It opens the stream and returns: no thread waits for the stream.

    What is sent is bytes already. Where callers stream too, the handler gets an iterator of bytes for the request. `quiet` is as in
    `unary`.
    """
    name = f"{method.containing_service.name}.{method.name}"

    def call(request: ProtoMessage | Malformed, context: grpc.ServicerContext, send: Send) -> None:
        began = time.perf_counter()
        _, failed = _run(name, lambda request, context: handler(request, context, send), request, context)
        _log(name, request, None, failed, time.perf_counter() - began, quiet=quiet)
        if failed is not None:
            context.abort_with_status(rpc_status.to_status(failed))

    call.experimental_non_blocking = True  # type: ignore[attr-defined]  # how grpcio is told that it returns at once
    call.experimental_thread_pool = pool  # type: ignore[attr-defined]
    if method.client_streaming:
        return grpc.stream_stream_rpc_method_handler(call, request_deserializer=None, response_serializer=None)
    return grpc.unary_stream_rpc_method_handler(call, request_deserializer=_reader(request_type), response_serializer=None)


def _run(
    name: str, handler: Handler, request: ProtoMessage | Malformed, context: grpc.ServicerContext
) -> tuple[ProtoMessage | None, status_pb2.Status | None]:
    if isinstance(request, Malformed):
        return None, request.status
    try:
        return handler(request, context), None
    except RecollectError as error:
        return None, status_of(error)
    except Exception:  # the end of the error table: what nobody foresaw is logged whole and answered without its text
        log_id = str(ULID())
        log.exception("fault", method=name, log_id=log_id)
        return None, internal(log_id)


def _log(
    name: str,
    request: ProtoMessage | Malformed,
    answer: ProtoMessage | None,
    failed: status_pb2.Status | None,
    seconds: float,
    *,
    quiet: bool,
) -> None:
    code = "OK" if failed is None else _CODES[failed.code]
    fields: dict[str, Any] = {
        "method": name,
        "code": code,
        "ms": int(seconds * 100_000) / 100,
    }  # `round` takes thirty times as long
    conversation = getattr(request, "conversation_id", "") or _conversation_of(answer)
    if conversation:
        fields["conversation"] = conversation[:64]
    elif communication := getattr(request, "communication_id", ""):
        fields["communication"] = communication[:64]
    if failed is not None:
        fields["reason"] = failed.message[:300]
    (log.debug if quiet else log.info)("call", **fields)


def _conversation_of(answer: ProtoMessage | None) -> str:
    """The conversation that an answer has, or that a part of it has."""
    for name in ("conversation", "command_reply"):
        part: Any = getattr(answer, name, None)
        if found := getattr(part, "id", "") or getattr(getattr(part, "conversation", None), "id", ""):
            return str(found)
    return ""


_CODES = {code.value[0]: code.name for code in grpc.StatusCode}


def _reader(request_type: type[ProtoMessage]) -> Callable[[bytes], ProtoMessage | Malformed]:
    def read(data: bytes) -> ProtoMessage | Malformed:
        try:
            return request_type.FromString(data)
        except DecodeError as error:
            return Malformed(data, cast(Descriptor, request_type.DESCRIPTOR), error)

    return read


def _what_is_wrong(data: bytes, expected: Descriptor, error: DecodeError) -> tuple[str, str]:
    """What is wrong with bytes that could not be read, and the path of the field where it can be told."""
    if field := first_not_utf8(data, expected):
        return "is not valid UTF-8 (a lone surrogate, or bytes of another encoding)", field
    return f"the request is not a {expected.name}: {error}", ""

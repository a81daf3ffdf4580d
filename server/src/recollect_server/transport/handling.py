"""Wrappers around every handler: parse the request, admit the caller, run the handler, map errors
to a status, log the call (`call_log`).
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, cast

import grpc
import structlog
from google.protobuf.descriptor import Descriptor, MethodDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as ProtoMessage
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from recollect_server.domain.deadline import Deadline
from recollect_server.domain.errors import (
    CallerGone,
    Denied,
    RecollectError,
    Unauthenticated,
)
from recollect_server.domain.ids import new_ulid
from recollect_server.domain.principal import Principal
from recollect_server.domain.telemetry import CALL
from recollect_server.domain.time import Clock, system_clock
from recollect_server.services.audit import Audit, object_of
from recollect_server.services.limits import Limiter
from recollect_server.transport.call_log import ADMINISTRATIVE, CallLog, Outcome, code_of
from recollect_server.transport.checks import check
from recollect_server.transport.confining import confine
from recollect_server.transport.errors import internal, malformed, status_of
from recollect_server.transport.pool import UNREAD
from recollect_server.transport.rules import SizeLimits
from recollect_server.transport.wire import Malformed, check_fields, first_not_utf8, inflate

log = structlog.get_logger("recollect.calls")


@dataclass(frozen=True, slots=True)
class Call:
    """One call: gRPC's context, and its caller."""

    context: grpc.ServicerContext
    principal: Principal
    size: int = 0
    """Bytes of the request."""
    record: Callable[[str], None] = lambda _: None
    """Records in the audit, durably, that the call changes an object of this id now. The calls of
    `RECORDING` use it.
    """


Handler = Callable[[Any, Call], ProtoMessage | None]
Send = Callable[[bytes | None], None]
"""Sends one element of a stream and waits until it is on its way; None ends the stream."""
StreamHandler = Callable[[Any, Call, Send], None]
Admit = Callable[[MethodDescriptor, grpc.ServicerContext], Principal]
"""Returns the caller of a call that has begun (see `gate`). Raises what refuses it."""

_ANYBODY = Principal()

RECORDING = frozenset(
    {
        "ConversationService.Delete",
        "ConversationService.DeleteMany",
        "ExternalCommunicationService.DeleteCommunications",
    }
)
"""Administrative calls that record each conversation or communication right before it goes: none is
missing in the audit, whatever fails or is killed then.
"""


def admit_anybody(_method: MethodDescriptor, _context: grpc.ServicerContext) -> Principal:
    """Admit every caller, as health does."""
    return _ANYBODY


@dataclass(frozen=True, slots=True)
class Rules:
    """Checks of requests, limits of callers, and the audit of calls. By default there are no limits
    of callers and no audit.
    """

    limiter: Limiter | None = None
    audit: Audit | None = None
    limits: SizeLimits = field(default_factory=SizeLimits)
    clock: Clock = system_clock

    def check(self, request: Any) -> None:
        """Raise InvalidField, which names every wrong field of a request."""
        if isinstance(request, ProtoMessage):
            check(request, self.limits, self.clock())

    def admit(self, principal: Principal, size: int) -> None:
        """Charge a call to its caller's limits. Raises LimitExceeded."""
        if self.limiter is not None:
            self.limiter.admit(principal, size)

    def charge(self, principal: Principal, size: int) -> None:
        """Charge further bytes of a call that was admitted. Raises LimitExceeded."""
        if self.limiter is not None and size > 0:
            self.limiter.charge(principal, size)

    def open_stream(self, call: Call) -> Callable[[], None]:
        """Charge a stream to its caller's limits; return what ends the charge. Raises
        LimitExceeded.
        """
        return (lambda: None) if self.limiter is None else self.limiter.open_stream(call.principal)

    def record(
        self,
        method: str,
        request: "ProtoMessage | None",
        answer: ProtoMessage | None,
        principal: Principal,
    ) -> None:
        """Record a call that was carried out, if it is an administrative one that does not record
        by itself, and no dry run, which changes nothing.
        """
        is_recorded = method in ADMINISTRATIVE - RECORDING
        if self.audit is not None and is_recorded and not getattr(request, "dry_run", False):
            self.audit.record(principal, method, object_of(request, answer))

    def recorder(self, method: str, principal: Principal) -> Callable[[str], None]:
        """Return what records each object that a call changes (see `Call.record`)."""
        audit = self.audit
        if audit is None or method not in RECORDING:
            return lambda _: None
        return lambda target: audit.record(principal, method, target)

    def refuse(self, method: str, principal: Principal, failed: status_pb2.Status) -> None:
        """Record a call that was refused for its caller's credentials."""
        if self.audit is not None:
            self.audit.refuse(principal, method, _outcome(failed))


NO_RULES = Rules()


def deadline_of(context: grpc.ServicerContext, seconds: float, share: float = 1.0) -> Deadline:
    """Return the deadline of a call: a `share` of the time that its caller has, at most `seconds`.
    It ends as soon as the call does.
    """
    remaining = context.time_remaining()
    deadline = Deadline(seconds if remaining is None else min(seconds, share * remaining))
    if not context.add_callback(deadline.cancel):
        deadline.cancel()
    return deadline


def is_read(method: MethodDescriptor) -> bool:
    """Return True if the contract says of a method that it changes nothing."""
    return bool(method.GetOptions().idempotency_level == MethodOptions.NO_SIDE_EFFECTS)


def unary(
    method: MethodDescriptor,
    request_type: type[ProtoMessage],
    admit: Admit,
    handler: Handler,
    pool: ThreadPoolExecutor,
    calls: CallLog,
    most_bytes: int,
    rules: Rules = NO_RULES,
) -> "grpc.RpcMethodHandler[Any, Any]":
    """Return the handler of a unary method, wrapped and run by the pool. A request may have
    `most_bytes`.
    """
    name, reads = _name(method), is_read(method)
    read = _RequestReader(request_type, most_bytes)

    def admitted(method: MethodDescriptor, context: grpc.ServicerContext) -> Principal:
        # it waited for a thread longer than its caller waited for it
        if reads and not context.is_active():
            raise CallerGone
        return admit(method, context)

    def call(data: bytes, context: grpc.ServicerContext) -> ProtoMessage:
        answer, failed = calls.carry_out(
            name,
            context,
            lambda: _run(name, method, admitted, rules, read, handler, data, context),
        )
        if failed is not None:
            context.abort_with_status(rpc_status.to_status(failed))
        return cast(ProtoMessage, answer)

    call.experimental_thread_pool = pool  # type: ignore[attr-defined]  # how grpcio learns which pool runs a handler
    return grpc.unary_unary_rpc_method_handler(
        call,
        request_deserializer=None,
        response_serializer=lambda answer: answer.SerializeToString(),
    )


def streaming(
    method: MethodDescriptor,
    request_type: type[ProtoMessage],
    admit: Admit,
    handler: StreamHandler,
    pool: ThreadPoolExecutor,
    calls: CallLog,
    most_bytes: int,
    rules: Rules = NO_RULES,
) -> "grpc.RpcMethodHandler[Any, Any]":
    """Return the handler of a streaming method, wrapped. It opens the stream and returns: no thread
    waits for the stream. A request may have `most_bytes`.

    The handler sends serialized messages. Where callers stream too, it gets an iterator of bytes
    for the request.
    """
    name, read = _name(method), _RequestReader(request_type, most_bytes)

    def call(data: Any, context: grpc.ServicerContext, send: Send) -> None:
        def run(request: Any, call: Call) -> None:
            end = rules.open_stream(call)
            try:
                handler(request, call, send)
            except BaseException:
                end()
                raise
            if not context.add_callback(end):
                end()

        _, failed = calls.carry_out(
            name, context, lambda: _run(name, method, admit, rules, read, run, data, context)
        )
        if failed is not None:
            context.abort_with_status(rpc_status.to_status(failed))

    call.experimental_non_blocking = True  # type: ignore[attr-defined]  # how grpcio learns that it returns at once
    call.experimental_thread_pool = pool  # type: ignore[attr-defined]
    if method.client_streaming:
        return grpc.stream_stream_rpc_method_handler(
            call, request_deserializer=None, response_serializer=None
        )
    return grpc.unary_stream_rpc_method_handler(
        call, request_deserializer=None, response_serializer=None
    )


def _run(
    name: str,
    method: MethodDescriptor,
    admit: Admit,
    rules: Rules,
    read: "_RequestReader",
    handler: Handler,
    data: Any,
    context: grpc.ServicerContext,
) -> Outcome:
    """Return the request, if it was read, and the answer or the failure. `name` is that of the
    method in the log. `data` is the request's bytes; where callers stream, it is an iterator for
    the handler.
    """
    request: Any = None
    answer: ProtoMessage | None = None
    failed: status_pb2.Status | None = None
    principal = _ANYBODY
    ids = CALL.get()
    assert ids is not None
    try:
        principal = admit(method, context)
        ids.token = principal.token_id
        if data is UNREAD:  # its token became valid just now
            raise Unauthenticated("the token was not valid when the call began: call again")
        size = len(data) if isinstance(data, bytes) else 0
        # before the request is inflated and parsed: to refuse a flood must cost little
        rules.admit(principal, size)
        if isinstance(data, bytes):
            data = inflate(data, read.most_bytes)
            rules.charge(principal, len(data) - size)
            size = len(data)
        request = read(data) if isinstance(data, bytes) else data
        # cut to the longest that is valid: one that is refused may be megabytes, in log and traces
        ids.request = getattr(request, "request_id", "")[:128]
        if principal.conversation_id or principal.channel or not principal.is_for_every_space:
            confine(method, request, principal)
        rules.check(request)
        answer = handler(request, Call(context, principal, size, rules.recorder(name, principal)))
        rules.record(name, request, answer, principal)
    except Malformed as error:
        failed = malformed(*error.args)
    except Denied as error:
        failed = status_of(error)
        if principal is _ANYBODY:
            principal = replace(error.principal or Principal(space=""), peer=context.peer())
        rules.refuse(name, principal, failed)
    except RecollectError as error:
        failed = status_of(error)
    except Exception:
        # the end of the error table: what nobody foresaw is logged whole and answered without its
        # text
        log_id = new_ulid()
        log.exception("fault", method=name, log_id=log_id)
        failed = internal(log_id)
    return request, answer, failed


def _name(method: MethodDescriptor) -> str:
    return f"{method.containing_service.name}.{method.name}"


def _outcome(failed: status_pb2.Status) -> str:
    """Return the code and the reason of a failure: `PERMISSION_DENIED TRUST_REQUIRED`."""
    info = error_details_pb2.ErrorInfo()
    reasons = [info.reason for detail in failed.details if detail.Unpack(info)]
    return " ".join([code_of(failed), *reasons]).replace("ERROR_REASON_", "")


class _RequestReader:
    """Reads the requests of a method."""

    def __init__(self, request_type: type[ProtoMessage], most_bytes: int) -> None:
        self.most_bytes = most_bytes
        """Limit of a request, inflated."""
        self._type = request_type
        self._expected = cast(Descriptor, request_type.DESCRIPTOR)

    def __call__(self, data: bytes) -> ProtoMessage:
        """Parse a request. Raises Malformed."""
        expected = self._expected
        check_fields(data, expected)
        try:
            return self._type.FromString(data)
        except DecodeError as error:
            if field := first_not_utf8(data, expected):
                reason = "is not valid UTF-8 (a lone surrogate, or bytes of another encoding)"
                raise Malformed(reason, field) from error
            raise Malformed(f"the request is not a {expected.name}: {error}") from error

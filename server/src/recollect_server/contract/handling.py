"""Wrappers around every handler: admit the caller, parse and check the request, run the handler in
the caller's space, map errors to a status, log the call.

The log of calls has a line for each that fails, takes long or administers the server. It names the
method, the code, the milliseconds and the conversation or communication, never a text. It is `info`
for the calls that `CallLog` says, and `debug` for all others.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from logging import DEBUG
from typing import Any, cast

import grpc
import structlog
from google.protobuf.descriptor import Descriptor, MethodDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as ProtoMessage
from google.protobuf.message_factory import GetMessageClass
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from recollect_server.access.audit import Audit, object_of
from recollect_server.access.limits import Limiter
from recollect_server.access.principal import Denied, Principal, Unauthenticated
from recollect_server.access.token_uses import TokenUses
from recollect_server.contract.checks import check
from recollect_server.contract.errors import internal, malformed, status_of
from recollect_server.contract.gate import confine
from recollect_server.contract.pool import UNREAD
from recollect_server.contract.rules import SizeLimits
from recollect_server.contract.wire import (
    FEW_BYTES,
    Malformed,
    check_fields,
    first_not_utf8,
    inflate,
)
from recollect_server.kernel.domain.errors import CallerGone, LimitExceeded, RecollectError
from recollect_server.kernel.domain.frozen import frozen
from recollect_server.kernel.domain.ids import new_ulid
from recollect_server.kernel.domain.live import Holder, Live
from recollect_server.kernel.domain.telemetry import CALL, UNMEASURED, CallIds, Telemetry
from recollect_server.kernel.domain.time import Clock, Deadline, system_clock
from recollect_server.kernel.space.spaces import Spaces

log = structlog.get_logger("recollect.calls")

_NAMES = {code.value[0]: code.name for code in grpc.StatusCode}
CODES = tuple(_NAMES.values())
"""Names of the codes of gRPC."""

ADMINISTRATIVE = frozenset(
    {
        "ConversationService.Delete",
        "ConversationService.DeleteMany",
        "ConversationService.RedactMessage",
        "ConversationService.RegenerateNotes",
        "RecallService.SetAnchor",
        "RecallService.DeleteAnchor",
        "RecallService.RemoveProfileStatement",
        "CheckpointService.RemoveRecords",
        "CheckpointService.DeleteThread",
        "ChannelService.AddOwnerIdentity",
        "ChannelService.RemoveOwnerIdentity",
        "ChannelService.LinkIdentities",
        "ChannelService.UnlinkIdentity",
        "ExternalCommunicationService.RegisterContact",
        "ExternalCommunicationService.SetTrust",
        "ExternalCommunicationService.DeleteCommunications",
        "ExternalCommunicationService.RedactExternalMessage",
        "AdminService.SetSetting",
        "AdminService.Backup",
        "AdminService.CreateSpace",
        "AdminService.DeleteSpace",
        "AdminService.CreateToken",
        "AdminService.RevokeToken",
        "AdminService.RotateToken",
    }
)
"""Calls that delete data, or change lasting facts or who is trusted: each has a line in the log at
`info`.
"""


@dataclass(frozen=True, slots=True)
class CallLog:
    """The rule for which calls are logged at `info`, and the telemetry that counts all."""

    slow: Live[float] = field(default_factory=lambda: Holder(1.0))
    """Seconds; a call that takes longer has a line. Of a stream, the time to open it."""
    quiet: bool = False
    """True to log every call at `debug`: health checks and reflection."""
    telemetry: Telemetry = UNMEASURED

    def write(
        self,
        method: str,
        request: object,
        answer: ProtoMessage | None,
        failed: status_pb2.Status | None,
        seconds: float,
    ) -> None:
        """Count a call that was carried out, or a stream that is open, and log it. `method` is
        `Service.Method`; `request` is None if it was not read.
        """
        if self.telemetry is not UNMEASURED:
            self.telemetry.call(method, "OK" if failed is None else code_of(failed), seconds)
            self.telemetry.memory(method, request, answer)
        is_notable = failed is not None or seconds > self.slow.now or method in ADMINISTRATIVE
        if is_notable and not self.quiet:
            log.info("call", **_fields(method, request, answer, failed, seconds))
        elif log.is_enabled_for(DEBUG):  # the fields cost more than the check
            log.debug("call", **_fields(method, request, answer, failed, seconds))


def code_of(failed: status_pb2.Status) -> str:
    """Return the name of a failure's code."""
    return _NAMES[failed.code]


def _fields(
    method: str,
    request: object,
    answer: ProtoMessage | None,
    failed: status_pb2.Status | None,
    seconds: float,
) -> dict[str, Any]:
    """Return the fields of a call's line."""
    code = "OK" if failed is None else code_of(failed)
    fields: dict[str, Any] = {"method": method, "code": code, "ms": int(seconds * 100_000) / 100}
    if conversation := conversation_of(request, answer):
        fields["conversation"] = conversation[:64]
    elif communication := getattr(request, "communication_id", ""):
        fields["communication"] = communication[:64]
    if failed is not None:
        fields["reason"] = failed.message[:300]
    return fields


def conversation_of(request: object, answer: object) -> str:
    """Return the id of the conversation in a request, or in an answer or a part of it; empty if
    there is none.
    """
    if conversation_id := getattr(request, "conversation_id", ""):
        return str(conversation_id)
    for name in ("conversation", "command_reply"):
        part: Any = getattr(answer, name, None)
        if conversation_id := getattr(part, "id", "") or getattr(
            getattr(part, "conversation", None), "id", ""
        ):
            return str(conversation_id)
    return ""


@frozen
class Call:
    """One call: gRPC's context, and its caller."""

    context: grpc.ServicerContext
    principal: Principal
    size: int = 0
    """Bytes of the request."""
    record: Callable[..., None] = lambda *_: None
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


_STORING = frozenset(
    {
        "ConversationService.Create",
        "ConversationService.AppendTurn",
        "ConversationService.UpdateMetadata",
        "ConversationService.Fork",
        "ConversationService.RecordCompression",
        "ConversationService.RecordAbbreviation",
        "ConversationService.SetTurnMemory",
        "RecallService.SetAnchor",
        "ChannelService.Receive",
        "ExternalCommunicationService.RecordReply",
        "ExternalCommunicationService.RegisterContact",
        "CheckpointService.PutRecords",
    }
)
"""Calls that add text to a space: a space that is full refuses them."""

_APPEND = "ConversationService.AppendTurn"
"""The call that a space at rest takes without being woken."""

_PARTLY = frozenset(
    {"RecallService.Search", "RecallService.BuildContext", "RecallService.FetchContext"}
)
"""Calls that a space which takes long to open answers by what is read of it, and that say so."""


def admit_anybody(_method: MethodDescriptor, _context: grpc.ServicerContext) -> Principal:
    """Admit every caller, as health does."""
    return _ANYBODY


@dataclass(frozen=True, slots=True)
class Rules:
    """Limits of requests and callers, and the records of calls: the audit, and the use of tokens.
    By default there are no limits of callers and no records.
    """

    limiter: Limiter | None = None
    audit: Audit | None = None
    uses: TokenUses | None = None
    limits: SizeLimits = field(default_factory=SizeLimits)
    clock: Clock = system_clock


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
    wrapper = _Wrapper(method, request_type, admit, calls, most_bytes, rules)
    call: Any = partial(wrapper.carry_out, handler)
    call.experimental_thread_pool = pool  # how grpcio learns which pool runs a handler
    return grpc.unary_unary_rpc_method_handler(
        call,
        request_deserializer=None,
        response_serializer=GetMessageClass(method.output_type).SerializeToString,
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
    wrapper = _Wrapper(method, request_type, admit, calls, most_bytes, rules)

    def call(data: Any, context: grpc.ServicerContext, send: Send) -> None:
        def run(request: Any, call: Call) -> None:
            end = rules.limiter.open_stream(call.principal) if rules.limiter else _nothing
            try:
                handler(request, call, send)
            except BaseException:
                end()
                raise
            if not context.add_callback(end):
                end()

        wrapper.carry_out(run, data, context)

    call.experimental_non_blocking = True  # type: ignore[attr-defined]  # how grpcio learns that it returns at once
    call.experimental_thread_pool = pool  # type: ignore[attr-defined]
    if method.client_streaming:
        return grpc.stream_stream_rpc_method_handler(
            call, request_deserializer=None, response_serializer=None
        )
    return grpc.unary_stream_rpc_method_handler(
        call, request_deserializer=None, response_serializer=None
    )


class _Wrapper:
    """The steps of a call around the handler of its method."""

    def __init__(
        self,
        method: MethodDescriptor,
        request_type: type[ProtoMessage],
        admit: Admit,
        calls: CallLog,
        most_bytes: int,
        rules: Rules,
    ) -> None:
        """`most_bytes`: limit of a request, inflated."""
        self._method = method
        self._name = name = f"{method.containing_service.name}.{method.name}"
        self._request_type = request_type
        self._expected = cast(Descriptor, request_type.DESCRIPTOR)
        self._admit = admit
        self._calls = calls
        self._most_bytes = most_bytes
        self._rules = rules
        self._gives_up = is_read(method) and not method.server_streaming
        is_recorded = rules.audit is not None and name in ADMINISTRATIVE
        self._records_each = is_recorded and name in RECORDING
        self._is_recorded = is_recorded and name not in RECORDING

    def carry_out(
        self, handler: Handler, data: Any, context: grpc.ServicerContext
    ) -> ProtoMessage | None:
        """Carry out a call, and return the answer; end the call with the status of what failed.
        `data` is the request's bytes; where callers stream, it is an iterator for the handler.
        """
        began = time.perf_counter()
        principal, request, answer, failed = _ANYBODY, None, None, None
        is_refused = False
        ids = CallIds(context.invocation_metadata)
        before = CALL.set(ids)
        try:
            with self._calls.telemetry.trace(self._name, ids):
                try:
                    # it waited for a thread longer than its caller waited for it
                    if self._gives_up and not context.is_active():
                        raise CallerGone
                    principal = self._admit(self._method, context)
                    ids.token = principal.token_id
                    if data is UNREAD:  # its token became valid just now
                        raise Unauthenticated(
                            "the token was not valid when the call began: call again"
                        )
                    request, size = self._read(data, principal)
                    # cut to the longest that is valid: one that is refused may be megabytes, in
                    # log and traces
                    ids.request = getattr(request, "request_id", "")[:128]
                    is_confined = principal.conversation_id or principal.channel
                    if is_confined or not principal.is_for_every_space:
                        confine(self._method, request, principal)
                    if isinstance(request, ProtoMessage):
                        check(request, self._rules.limits, self._rules.clock)
                    call = Call(context, principal, size)
                    if self._records_each:
                        call = replace(call, record=partial(self._record, principal))
                    answer = handler(request, call)
                    # a dry run changes nothing
                    if self._is_recorded and not getattr(request, "dry_run", False):
                        self._record(principal, object_of(request, answer))
                except Exception as error:  # noqa: BLE001 - `_failure` logs what nobody foresaw
                    is_refused = isinstance(error, Denied | LimitExceeded)
                    if isinstance(error, Denied) and principal is _ANYBODY:
                        caller = error.principal or Principal(space="")
                        principal = replace(caller, peer=context.peer())
                    failed = self._failure(error, principal)
                if principal.token_id and self._rules.uses is not None:
                    self._rules.uses.count(principal, self._name, is_refused=is_refused)
                self._calls.write(self._name, request, answer, failed, time.perf_counter() - began)
        finally:
            CALL.reset(before)
        if failed is not None:
            context.abort_with_status(rpc_status.to_status(failed))
        return answer

    def _read(self, data: Any, principal: Principal) -> tuple[Any, int]:
        """Charge a call to its caller's limits; return its request, and its bytes once inflated.
        Raises LimitExceeded, Malformed.
        """
        limiter, expected = self._rules.limiter, self._expected
        size = len(data) if isinstance(data, bytes) else 0
        # before the request is inflated and parsed: to refuse a flood must cost little
        if limiter is not None:
            limiter.admit(principal, size)
        if not isinstance(data, bytes):
            return data, 0
        data = inflate(data, self._most_bytes)
        if limiter is not None and len(data) > size:
            limiter.charge(principal, len(data) - size)
        if len(data) > FEW_BYTES:
            check_fields(data, expected)
        try:
            return self._request_type.FromString(data), len(data)
        except DecodeError as error:
            if field := first_not_utf8(data, expected):
                reason = "is not valid UTF-8 (a lone surrogate, or bytes of another encoding)"
                raise Malformed(reason, field) from error
            raise Malformed(f"the request is not a {expected.name}: {error}") from error

    def _record(self, principal: Principal, *targets: str) -> None:
        """Record in the audit that a call changes objects."""
        assert self._rules.audit is not None
        self._rules.audit.record(principal, self._name, *targets)

    def _failure(self, error: Exception, principal: Principal) -> status_pb2.Status:
        """Return the status of what a call raised, and record a call that was refused for its
        caller's credentials.
        """
        match error:
            case Malformed():
                return malformed(*error.args)
            case Denied():
                failed = status_of(error)
                if self._rules.audit is not None:
                    self._rules.audit.refuse(principal, self._name, _outcome(failed))
                return failed
            case RecollectError():
                return status_of(error)
            case _:
                # the end of the error table: what nobody foresaw is logged whole and answered
                # without its text
                log_id = new_ulid()
                log.error("fault", method=self._name, log_id=log_id, exc_info=error)
                return internal(log_id)


def in_space(method: MethodDescriptor, spaces: Spaces[Any]) -> Handler:
    """Return a handler of a unary method that runs the one of its caller's space."""
    service, name = method.containing_service.name, method.name
    reads, stores = is_read(method), f"{service}.{name}" in _STORING
    appends = f"{service}.{name}" == _APPEND
    partly = f"{service}.{name}" in _PARTLY

    def run(request: Any, call: Call) -> ProtoMessage | None:
        space_name = call.principal.space
        lease = spaces.use(space_name, reads=reads, appends=appends, partly=partly)
        try:  # not with the lease: a call less at its begin, and one at its end
            space = lease.space
            if stores:
                space.admit(call.size)
            handler: Handler = getattr(space.handlers[service], name)
            answer: ProtoMessage | None = space.carry_out(handler, request, call, appends=appends)
            return answer
        finally:
            lease.end()

    return run


def in_space_for_long(method: MethodDescriptor, spaces: Spaces[Any]) -> StreamHandler:
    """Return a handler of a streaming method that runs the one of its caller's space, which may be
    closed while the stream goes on. A space that does not exist is not made: the stream is one of
    an empty space, and ends once there is one (`Streams.end_of_made`).
    """
    service, name = method.containing_service.name, method.name

    def run(request: Any, call: Call, send: Send) -> None:
        with spaces.use(call.principal.space, reads=True) as space:
            handler: StreamHandler = getattr(space.handlers[service], name)
            space.follow()
            handler(request, call, send)

    return run


def _nothing() -> None:
    """End the stream of a caller without limits."""


def _outcome(failed: status_pb2.Status) -> str:
    """Return the code and the reason of a failure: `PERMISSION_DENIED TRUST_REQUIRED`."""
    info = error_details_pb2.ErrorInfo()
    reasons = [info.reason for detail in failed.details if detail.Unpack(info)]
    return " ".join([code_of(failed), *reasons]).replace("ERROR_REASON_", "")

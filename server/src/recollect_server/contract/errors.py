"""The table of errors: what each error of the services is to a caller. Nothing else decides a gRPC
code.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message as ProtoMessage
from google.rpc import error_details_pb2, status_pb2
from grpc import StatusCode
from recollect.v1 import error_pb2 as reasons

from recollect_server.access import principal
from recollect_server.kernel.domain import errors

DOMAIN = "recollect"


@dataclass(frozen=True, slots=True)
class Row:
    """Row of the table from errors to gRPC codes."""

    code: StatusCode
    reason: "reasons.ErrorReason.ValueType | None"
    """None: the code alone, as gRPC itself answers."""
    metadata: tuple[str, ...] = ()
    """Names of the facts of the error that the caller gets."""


TABLE: dict[type[errors.RecollectError], Row] = {
    errors.InvalidField: Row(StatusCode.INVALID_ARGUMENT, reasons.ERROR_REASON_INVALID_FIELD),
    errors.InvalidPageToken: Row(
        StatusCode.INVALID_ARGUMENT, reasons.ERROR_REASON_INVALID_PAGE_TOKEN
    ),
    errors.ConversationNotFound: Row(
        StatusCode.NOT_FOUND, reasons.ERROR_REASON_CONVERSATION_NOT_FOUND, ("conversation_id",)
    ),
    errors.LogMisplaced: Row(StatusCode.DATA_LOSS, reasons.ERROR_REASON_DATA_DAMAGED, ("name",)),
    errors.ConversationDamaged: Row(
        StatusCode.DATA_LOSS, reasons.ERROR_REASON_DATA_DAMAGED, ("conversation_id",)
    ),
    errors.NothingNamed: Row(StatusCode.NOT_FOUND, reasons.ERROR_REASON_NOT_FOUND, ("name",)),
    errors.ConversationExists: Row(
        StatusCode.ALREADY_EXISTS, reasons.ERROR_REASON_CONVERSATION_EXISTS, ("conversation_id",)
    ),
    errors.RequestIdReused: Row(
        StatusCode.ALREADY_EXISTS, reasons.ERROR_REASON_REQUEST_ID_REUSED, ("request_id",)
    ),
    errors.ConversationPinned: Row(
        StatusCode.FAILED_PRECONDITION,
        reasons.ERROR_REASON_CONVERSATION_PINNED,
        ("conversation_id",),
    ),
    errors.TurnOutOfDate: Row(
        StatusCode.ABORTED, reasons.ERROR_REASON_TURN_OUT_OF_DATE, ("expected_turn", "turn_count")
    ),
    errors.ConversationReadOnly: Row(
        StatusCode.FAILED_PRECONDITION,
        reasons.ERROR_REASON_CONVERSATION_READ_ONLY,
        ("conversation_id", "channel"),
    ),
    errors.AnchorsPresent: Row(
        StatusCode.FAILED_PRECONDITION, reasons.ERROR_REASON_ANCHORS_PRESENT, ("anchors",)
    ),
    errors.TrustRequired: Row(
        StatusCode.PERMISSION_DENIED,
        reasons.ERROR_REASON_TRUST_REQUIRED,
        ("communication_id", "trust"),
    ),
    errors.EscalationClosed: Row(
        StatusCode.FAILED_PRECONDITION, reasons.ERROR_REASON_ESCALATION_RESOLVED, ("escalation_id",)
    ),
    principal.Unauthenticated: Row(
        StatusCode.UNAUTHENTICATED, reasons.ERROR_REASON_UNAUTHENTICATED
    ),
    principal.PermissionDenied: Row(
        StatusCode.PERMISSION_DENIED, reasons.ERROR_REASON_PERMISSION_DENIED, ("scope", "method")
    ),
    errors.CallerGone: Row(StatusCode.CANCELLED, None),
    errors.DeadlineExceeded: Row(
        StatusCode.DEADLINE_EXCEEDED, reasons.ERROR_REASON_DEADLINE_EXCEEDED
    ),
    errors.StorageUnavailable: Row(
        StatusCode.UNAVAILABLE, reasons.ERROR_REASON_STORAGE_UNAVAILABLE
    ),
    errors.MessagesHeld: Row(
        StatusCode.UNAVAILABLE, reasons.ERROR_REASON_STORAGE_UNAVAILABLE, ("held_because",)
    ),
    errors.IndexUnavailable: Row(StatusCode.UNAVAILABLE, reasons.ERROR_REASON_INDEX_UNAVAILABLE),
    errors.RateLimited: Row(
        StatusCode.RESOURCE_EXHAUSTED, reasons.ERROR_REASON_RATE_LIMITED, ("sender",)
    ),
    errors.TooManySubscribers: Row(
        StatusCode.RESOURCE_EXHAUSTED, reasons.ERROR_REASON_TOO_MANY_SUBSCRIBERS
    ),
    errors.TooManyAnswers: Row(
        StatusCode.RESOURCE_EXHAUSTED, reasons.ERROR_REASON_TOO_MANY_ANSWERS
    ),
    errors.ConversationFull: Row(
        StatusCode.RESOURCE_EXHAUSTED,
        reasons.ERROR_REASON_CONVERSATION_FULL,
        ("conversation_id", "limit"),
    ),
    errors.LimitExceeded: Row(
        StatusCode.RESOURCE_EXHAUSTED, reasons.ERROR_REASON_LIMIT_EXCEEDED, ("limit", "of")
    ),
    errors.NoBackupFolder: Row(
        StatusCode.FAILED_PRECONDITION, reasons.ERROR_REASON_NO_BACKUP_FOLDER
    ),
    errors.SpaceBeingDeleted: Row(StatusCode.UNAVAILABLE, None),
    errors.SpaceMade: Row(StatusCode.UNAVAILABLE, None),
    errors.TooManySpaces: Row(StatusCode.RESOURCE_EXHAUSTED, reasons.ERROR_REASON_TOO_MANY_SPACES),
    errors.Stopping: Row(StatusCode.UNAVAILABLE, None),
}
"""An error that is not here is what the kind above it in `kernel.domain.errors` is."""

# gRPC's clients refuse an answer with more than 8 KiB of headers, and lose all that it says.
_MOST_BYTES = 6_500
_MOST_CHARACTERS = 240  # of one description: at 4 bytes each they fit
_FRAME = 24  # bytes around a violation


def status_of(error: errors.RecollectError) -> status_pb2.Status:
    row = next(TABLE[kind] for kind in type(error).__mro__ if kind in TABLE)
    text = str(error)
    details: list[ProtoMessage] = []
    if row.reason is not None:
        details.append(_info(row.reason, {name: str(error.facts[name]) for name in row.metadata}))
    if isinstance(error, errors.InvalidField):
        violations = _fitting(error.violations)
        details.append(_bad_request(violations))
        text = "; ".join(f"{field}: {description}" for field, description in violations)
        if more := len(error.violations) - len(violations):
            text += f"; and {more} more"
    if isinstance(error, errors.TryAgain):
        delay = duration_pb2.Duration()
        delay.FromMilliseconds(error.retry_after_ms)
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    return _status(row.code, text, details)


def _fitting(violations: Sequence[errors.Violation]) -> list[tuple[str, str]]:
    """Return the fields and descriptions of the first violations, as many as a client takes. The
    middle of a long description, which quotes what the caller sent, is left out.
    """
    fitting: list[tuple[str, str]] = []
    room = _MOST_BYTES
    for it in violations:
        description = it.description
        if len(description) > _MOST_CHARACTERS:
            half = _MOST_CHARACTERS // 2
            description = f"{description[:half]}…{description[-half:]}"
        room -= _size(it.field) + _size(description) + _FRAME
        if room < 0 and fitting:
            break
        fitting.append((it.field, description))
    return fitting


def _size(text: str) -> int:
    """Return the bytes of a text in the headers: percent-encoded, and twice in base64."""
    data = text.encode()
    escaped = sum(byte == ord("%") or not ord(" ") <= byte <= ord("~") for byte in data)
    return len(data) + 2 * escaped + 8 * len(data) // 3


def malformed(description: str, field: str) -> status_pb2.Status:
    """Return the status for bytes that cannot be parsed; `field` is empty if it is not known."""
    details: list[ProtoMessage] = [_info(reasons.ERROR_REASON_MALFORMED_REQUEST)]
    if field:
        details.append(_bad_request([(field, description)]))
    return _status(
        StatusCode.INVALID_ARGUMENT, f"{field}: {description}" if field else description, details
    )


def internal(log_id: str) -> status_pb2.Status:
    """Return the status for a fault of the server: it names the entry in the log, and nothing
    else.
    """
    info = _info(reasons.ERROR_REASON_INTERNAL, {"log_id": log_id})
    return _status(StatusCode.INTERNAL, "a fault of the server; its log says more", [info])


def _info(
    reason: "reasons.ErrorReason.ValueType", metadata: Mapping[str, str] | None = None
) -> error_details_pb2.ErrorInfo:
    return error_details_pb2.ErrorInfo(
        reason=reasons.ErrorReason.Name(reason), domain=DOMAIN, metadata=metadata or {}
    )


def _bad_request(violations: Iterable[tuple[str, str]]) -> error_details_pb2.BadRequest:
    """Return the error detail for invalid fields, with a description of each."""
    return error_details_pb2.BadRequest(
        field_violations=[
            error_details_pb2.BadRequest.FieldViolation(field=field, description=description)
            for field, description in violations
        ]
    )


def _status(code: StatusCode, text: str, details: Iterable[ProtoMessage]) -> status_pb2.Status:
    answer = status_pb2.Status(code=code.value[0], message=text)
    for detail in details:
        packed = any_pb2.Any()
        packed.Pack(detail)
        answer.details.append(packed)
    return answer

"""One table: how a failed call becomes an exception. By reason, else by code, never by text."""

from collections.abc import Iterable
from typing import Any

import grpc

from recollect import errors
from recollect._shared.status import Details, read_details
from recollect.errors import ErrorReason, RecollectError

DETAILS_KEY = "grpc-status-details-bin"

BY_REASON: dict[str, type[RecollectError]] = {
    ErrorReason.INVALID_FIELD: errors.InvalidArgument,
    ErrorReason.MALFORMED_REQUEST: errors.InvalidArgument,
    ErrorReason.INVALID_PAGE_TOKEN: errors.InvalidArgument,
    ErrorReason.CONVERSATION_NOT_FOUND: errors.NotFound,
    ErrorReason.REQUEST_ID_REUSED: errors.AlreadyExists,
    ErrorReason.TURN_OUT_OF_DATE: errors.TurnOutOfDate,
    ErrorReason.STORAGE_UNAVAILABLE: errors.Unavailable,
    ErrorReason.DATA_DAMAGED: errors.DataDamaged,
    ErrorReason.INDEX_UNAVAILABLE: errors.Unavailable,
    ErrorReason.NOT_YET_IMPLEMENTED: errors.Unimplemented,
    ErrorReason.CONVERSATION_READ_ONLY: errors.FailedPrecondition,
    ErrorReason.TOO_MANY_SUBSCRIBERS: errors.ResourceExhausted,
    ErrorReason.RATE_LIMITED: errors.ResourceExhausted,
    ErrorReason.ANCHORS_PRESENT: errors.FailedPrecondition,
    ErrorReason.NOT_FOUND: errors.NotFound,
    ErrorReason.TRUST_REQUIRED: errors.PermissionDenied,
    ErrorReason.UNAUTHENTICATED: errors.Unauthenticated,
    ErrorReason.DEADLINE_EXCEEDED: errors.DeadlineExceeded,
    ErrorReason.INTERNAL: errors.InternalError,
    ErrorReason.ESCALATION_RESOLVED: errors.FailedPrecondition,
    ErrorReason.CONVERSATION_EXISTS: errors.AlreadyExists,
    ErrorReason.CONVERSATION_PINNED: errors.FailedPrecondition,
    ErrorReason.TOO_MANY_ANSWERS: errors.ResourceExhausted,
    ErrorReason.PERMISSION_DENIED: errors.PermissionDenied,
    ErrorReason.LIMIT_EXCEEDED: errors.LimitExceeded,
    ErrorReason.TOO_MANY_SPACES: errors.ResourceExhausted,
    ErrorReason.CONVERSATION_FULL: errors.ResourceExhausted,
}
BY_CODE: dict[grpc.StatusCode, type[RecollectError]] = {
    grpc.StatusCode.CANCELLED: errors.Cancelled,
    grpc.StatusCode.UNKNOWN: errors.InternalError,
    grpc.StatusCode.INVALID_ARGUMENT: errors.InvalidArgument,
    grpc.StatusCode.OUT_OF_RANGE: errors.InvalidArgument,
    grpc.StatusCode.DEADLINE_EXCEEDED: errors.DeadlineExceeded,
    grpc.StatusCode.NOT_FOUND: errors.NotFound,
    grpc.StatusCode.ALREADY_EXISTS: errors.AlreadyExists,
    grpc.StatusCode.PERMISSION_DENIED: errors.PermissionDenied,
    grpc.StatusCode.RESOURCE_EXHAUSTED: errors.ResourceExhausted,
    grpc.StatusCode.FAILED_PRECONDITION: errors.FailedPrecondition,
    grpc.StatusCode.UNIMPLEMENTED: errors.Unimplemented,
    grpc.StatusCode.INTERNAL: errors.InternalError,
    grpc.StatusCode.UNAVAILABLE: errors.Unavailable,
    grpc.StatusCode.DATA_LOSS: errors.DataDamaged,
    grpc.StatusCode.UNAUTHENTICATED: errors.Unauthenticated,
}


def failure(error: grpc.RpcError) -> RecollectError:
    """Return the exception for an error of grpc or grpc.aio."""
    code = error.code()
    details = Details()
    trailers: Iterable[Any] = (
        error.trailing_metadata() or ()
    )  # pairs in both, whatever the stubs say
    for key, value in trailers:
        if key == DETAILS_KEY and isinstance(value, bytes):
            details = read_details(value)
    reason: str | None = details.reason or None
    if reason in set(ErrorReason):
        reason = ErrorReason(reason)
    kind = BY_REASON.get(reason or "") or BY_CODE.get(code, RecollectError)
    return kind(
        error.details() or code.name,
        code=code.name,
        reason=reason,
        metadata=details.metadata,
        violations=details.violations,
        retry_delay=details.retry_delay,
    )

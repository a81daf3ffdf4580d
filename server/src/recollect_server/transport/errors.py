"""The table of errors: what each of the house's errors is to a caller. Nothing else decides a gRPC code."""

from collections.abc import Mapping

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message as ProtoMessage
from google.rpc import error_details_pb2, status_pb2
from recollect.v1.error_pb2 import ErrorReason

from recollect_server.domain import errors

DOMAIN = "recollect"


def status_of(error: errors.RecollectError) -> status_pb2.Status:
    """The status that a caller gets for an error of the house."""
    match error:
        case errors.InvalidField(violations=violations):
            bad = error_details_pb2.BadRequest(
                field_violations=[
                    error_details_pb2.BadRequest.FieldViolation(field=v.field, description=v.description) for v in violations
                ]
            )
            return status(grpc.StatusCode.INVALID_ARGUMENT, "ERROR_REASON_INVALID_FIELD", str(error), details=(bad,))
        case errors.InvalidPageToken():
            return status(grpc.StatusCode.INVALID_ARGUMENT, "ERROR_REASON_INVALID_PAGE_TOKEN", str(error))
        case errors.ConversationNotFound(conversation_id=conversation_id):
            metadata = {"conversation_id": conversation_id}
            return status(grpc.StatusCode.NOT_FOUND, "ERROR_REASON_CONVERSATION_NOT_FOUND", str(error), metadata)
        case errors.CommunicationNotFound(name=name) | errors.EscalationNotFound(name=name):
            return status(grpc.StatusCode.NOT_FOUND, "ERROR_REASON_NOT_FOUND", str(error), {"name": name})
        case errors.TrustRequired(communication_id=communication_id, trust=trust):
            metadata = {"communication_id": communication_id, "trust": trust}
            return status(grpc.StatusCode.PERMISSION_DENIED, "ERROR_REASON_TRUST_REQUIRED", str(error), metadata)
        case errors.EscalationClosed(escalation_id=escalation_id):
            metadata = {"escalation_id": escalation_id}
            return status(grpc.StatusCode.FAILED_PRECONDITION, "ERROR_REASON_ESCALATION_RESOLVED", str(error), metadata)
        case errors.RequestIdReused(request_id=request_id):
            metadata = {"request_id": request_id}
            return status(grpc.StatusCode.ALREADY_EXISTS, "ERROR_REASON_REQUEST_ID_REUSED", str(error), metadata)
        case errors.TurnOutOfDate(expected=expected, turn_count=turn_count):
            metadata = {"expected_turn": str(expected), "turn_count": str(turn_count)}
            return status(grpc.StatusCode.ABORTED, "ERROR_REASON_TURN_OUT_OF_DATE", str(error), metadata)
        case errors.AnchorsPresent(count=count):
            metadata = {"anchors": str(count)}
            return status(grpc.StatusCode.FAILED_PRECONDITION, "ERROR_REASON_ANCHORS_PRESENT", str(error), metadata)
        case errors.AnchorNotFound(key=key):
            return status(grpc.StatusCode.NOT_FOUND, "ERROR_REASON_NOT_FOUND", str(error), {"name": key})
        case errors.ConversationReadOnly(conversation_id=conversation_id, channel=channel):
            metadata = {"conversation_id": conversation_id, "channel": channel}
            return status(grpc.StatusCode.FAILED_PRECONDITION, "ERROR_REASON_CONVERSATION_READ_ONLY", str(error), metadata)
        case errors.NothingNamed(name=name):
            return status(grpc.StatusCode.NOT_FOUND, "ERROR_REASON_NOT_FOUND", str(error), {"name": name})
        case errors.RateLimited(sender=sender, retry_after_ms=wait):
            reason, metadata = "ERROR_REASON_RATE_LIMITED", {"sender": sender}
            return status(grpc.StatusCode.RESOURCE_EXHAUSTED, reason, str(error), metadata, (_retry(wait),))
        case errors.StorageUnavailable(retry_after_ms=wait):
            reason = "ERROR_REASON_STORAGE_UNAVAILABLE"
            return status(grpc.StatusCode.UNAVAILABLE, reason, str(error), details=(_retry(wait),))
        case errors.IndexUnavailable(retry_after_ms=wait):
            reason = "ERROR_REASON_INDEX_UNAVAILABLE"
            return status(grpc.StatusCode.UNAVAILABLE, reason, str(error), details=(_retry(wait),))
        case errors.TooManySubscribers(retry_after_ms=wait):
            reason = "ERROR_REASON_TOO_MANY_SUBSCRIBERS"
            return status(grpc.StatusCode.RESOURCE_EXHAUSTED, reason, str(error), details=(_retry(wait),))
        case errors.Stopping(retry_after_ms=wait):
            return _with_details(grpc.StatusCode.UNAVAILABLE, str(error), _retry(wait))
        case errors.DeadlineExceeded():
            return status(grpc.StatusCode.DEADLINE_EXCEEDED, "ERROR_REASON_DEADLINE_EXCEEDED", str(error))
        case errors.NotYetImplemented(method=method):
            metadata = {"method": method}
            return status(grpc.StatusCode.UNIMPLEMENTED, "ERROR_REASON_NOT_YET_IMPLEMENTED", str(error), metadata)
        case _:
            raise AssertionError(f"{type(error).__name__} is not in the table")


def malformed(description: str, field: str) -> status_pb2.Status:
    """The status for bytes that are not a message of the contract; `field` is empty where it cannot be told."""
    bad = error_details_pb2.BadRequest(
        field_violations=[error_details_pb2.BadRequest.FieldViolation(field=field, description=description)]
    )
    text = f"{field}: {description}" if field else description
    reason = "ERROR_REASON_MALFORMED_REQUEST"
    return status(grpc.StatusCode.INVALID_ARGUMENT, reason, text, details=(bad,) if field else ())


def internal(log_id: str) -> status_pb2.Status:
    """The status for a fault of the server: it says where to look, and nothing else."""
    text = "a fault of the server; its log says more"
    return status(grpc.StatusCode.INTERNAL, "ERROR_REASON_INTERNAL", text, {"log_id": log_id})


def status(
    code: grpc.StatusCode,
    reason: str,
    text: str,
    metadata: Mapping[str, str] | None = None,
    details: tuple[ProtoMessage, ...] = (),
) -> status_pb2.Status:
    """A status with ErrorInfo. `reason` is a name of `enum ErrorReason` (else ValueError)."""
    ErrorReason.Value(reason)
    return _with_details(code, text, error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN, metadata=metadata or {}), *details)


def _with_details(code: grpc.StatusCode, text: str, *details: ProtoMessage) -> status_pb2.Status:
    answer = status_pb2.Status(code=code.value[0], message=text)
    for detail in details:
        packed = any_pb2.Any()
        packed.Pack(detail)
        answer.details.append(packed)
    return answer


def _retry(wait_ms: int) -> error_details_pb2.RetryInfo:
    delay = duration_pb2.Duration()
    delay.FromMilliseconds(wait_ms)
    return error_details_pb2.RetryInfo(retry_delay=delay)

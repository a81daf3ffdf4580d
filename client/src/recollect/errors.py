"""Everything that can go wrong in a call, as exceptions.

    RecollectError
    ├── InvalidArgument       a field of the request is wrong; `violations` names each
    ├── NotFound              no such conversation, communication or escalation, or it was deleted
    ├── AlreadyExists         the `request_id` was used before, for something else
    ├── TurnOutOfDate         somebody wrote first: load the conversation and decide again
    ├── FailedPrecondition    it cannot be done to this conversation, or escalation, as it is now
    ├── PermissionDenied      the token, or the party's trust, does not allow it
    ├── Unauthenticated       no token, or a wrong one
    ├── ResourceExhausted     too much or too fast; `retry_delay` says when to try again
    │   └── LimitExceeded     a limit of the token or its space; `metadata` names it
    ├── Unavailable           no server answers, or it cannot write or search just now
    │   └── TlsMismatch       the two ends do not agree on TLS; the text says what to change
    ├── DeadlineExceeded      it took longer than the time-out, or than the server allows
    ├── Cancelled             the server, or something on the way to it, dropped the call
    ├── DataDamaged           what was asked for is there and cannot be read
    ├── Unimplemented         the server is too old for this call
    ├── InternalError         a fault of the server; `metadata["log_id"]` finds it in its log
    └── ClientClosed          the client was closed before the call, or during it

Branch on the class, or on `reason` where that is finer. The text is for people, and changes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

__all__ = [
    "AlreadyExists",
    "Cancelled",
    "ClientClosed",
    "DataDamaged",
    "DeadlineExceeded",
    "ErrorReason",
    "FailedPrecondition",
    "FieldViolation",
    "InternalError",
    "InvalidArgument",
    "LimitExceeded",
    "NotFound",
    "PermissionDenied",
    "RecollectError",
    "ResourceExhausted",
    "TlsMismatch",
    "TurnOutOfDate",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
]


class ErrorReason(StrEnum):
    """Why a call failed, in the words of the contract (`enum ErrorReason` in `error.proto`)."""

    INVALID_FIELD = "ERROR_REASON_INVALID_FIELD"
    MALFORMED_REQUEST = "ERROR_REASON_MALFORMED_REQUEST"
    INVALID_PAGE_TOKEN = "ERROR_REASON_INVALID_PAGE_TOKEN"  # noqa: S105 - a reason, no password
    CONVERSATION_NOT_FOUND = "ERROR_REASON_CONVERSATION_NOT_FOUND"
    REQUEST_ID_REUSED = "ERROR_REASON_REQUEST_ID_REUSED"
    TURN_OUT_OF_DATE = "ERROR_REASON_TURN_OUT_OF_DATE"
    STORAGE_UNAVAILABLE = "ERROR_REASON_STORAGE_UNAVAILABLE"
    DATA_DAMAGED = "ERROR_REASON_DATA_DAMAGED"
    INDEX_UNAVAILABLE = "ERROR_REASON_INDEX_UNAVAILABLE"
    NOT_YET_IMPLEMENTED = "ERROR_REASON_NOT_YET_IMPLEMENTED"
    CONVERSATION_READ_ONLY = "ERROR_REASON_CONVERSATION_READ_ONLY"
    TOO_MANY_SUBSCRIBERS = "ERROR_REASON_TOO_MANY_SUBSCRIBERS"
    RATE_LIMITED = "ERROR_REASON_RATE_LIMITED"
    ANCHORS_PRESENT = "ERROR_REASON_ANCHORS_PRESENT"
    NOT_FOUND = "ERROR_REASON_NOT_FOUND"
    TRUST_REQUIRED = "ERROR_REASON_TRUST_REQUIRED"
    UNAUTHENTICATED = "ERROR_REASON_UNAUTHENTICATED"
    DEADLINE_EXCEEDED = "ERROR_REASON_DEADLINE_EXCEEDED"
    INTERNAL = "ERROR_REASON_INTERNAL"
    ESCALATION_RESOLVED = "ERROR_REASON_ESCALATION_RESOLVED"
    CONVERSATION_EXISTS = "ERROR_REASON_CONVERSATION_EXISTS"
    CONVERSATION_PINNED = "ERROR_REASON_CONVERSATION_PINNED"
    TOO_MANY_ANSWERS = "ERROR_REASON_TOO_MANY_ANSWERS"
    PERMISSION_DENIED = "ERROR_REASON_PERMISSION_DENIED"
    LIMIT_EXCEEDED = "ERROR_REASON_LIMIT_EXCEEDED"
    TOO_MANY_SPACES = "ERROR_REASON_TOO_MANY_SPACES"
    NO_BACKUP_FOLDER = "ERROR_REASON_NO_BACKUP_FOLDER"
    CONVERSATION_FULL = "ERROR_REASON_CONVERSATION_FULL"


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """One field of a request that is wrong."""

    field: str
    """The field's path in the request, as in `messages[0].content`."""
    description: str
    """The rule that the field breaks."""


class RecollectError(Exception):
    """Failure of a call. The classes below say which, and the text is for people.

    >>> try:
    ...     client.conversations.get(conversation_id)
    ... except RecollectError as error:
    ...     print(error.code, error.reason, error.metadata)
    """

    code: str
    """The gRPC status code's name, as in `NOT_FOUND`. Empty if no call was made and none fits."""
    reason: ErrorReason | str | None
    """Why, in the words of the contract; a plain string if the server is newer than this client.
    `None` if the server did not say, or no server was reached.
    """
    metadata: Mapping[str, str]
    """The values that belong to the reason: `conversation_id`, `request_id`, `turn_count`, … (see
    `error.proto`).
    """
    violations: tuple[FieldViolation, ...]
    """The fields that are wrong. Empty except with `InvalidArgument`."""
    retry_delay: float | None
    """Seconds after which the server asks to be tried again. `None` if it did not say."""

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        reason: ErrorReason | str | None = None,
        metadata: Mapping[str, str] | None = None,
        violations: Iterable[FieldViolation] = (),
        retry_delay: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.metadata = dict(metadata or {})
        self.violations = tuple(violations)
        self.retry_delay = retry_delay


class InvalidArgument(RecollectError):
    """A field of the request is wrong; `violations` names each. Nothing was changed.

    The client raises it too, before anything is sent, for what cannot be put into a request at all:
    a naive datetime, a text with a lone surrogate, a number out of range.
    """


class NotFound(RecollectError):
    """No such conversation (or anchor, communication, …), or it was deleted."""


class AlreadyExists(RecollectError):
    """The `request_id` was used before with another payload, or the id that a conversation was to
    have is taken.

    Nothing was changed.
    """


class TurnOutOfDate(RecollectError):
    """`expected_turn` is not the conversation's newest turn: load it and decide again. Nothing was
    changed.
    """


class FailedPrecondition(RecollectError):
    """It cannot be done to this conversation as it is now. Nothing was changed."""


class PermissionDenied(RecollectError):
    """The caller's token does not allow the call, or the party's trust does not allow a reply."""


class Unauthenticated(RecollectError):
    """The call brought no token, or one that is wrong, has expired or was revoked. Give the client
    its `token`, or set RECOLLECT_TOKEN.
    """


class ResourceExhausted(RecollectError):
    """More, or faster, than the server allows. `retry_delay` says when to try again."""


class LimitExceeded(ResourceExhausted):
    """A limit of the token or of its space is reached: `metadata["limit"]` names it, and
    `retry_delay` says when it lifts. The client has waited for that itself, as far as the call's
    time-out allowed.
    """


class Unavailable(RecollectError):
    """No server answers, or it cannot write or search just now. The client's own retries were
    used up: six attempts, or the time-out for a server that answered before.
    """


class TlsMismatch(Unavailable):
    """No connection was made, because the two ends do not agree on TLS: one speaks it and the other
    does not, or a certificate is not accepted. The text says what to change.
    """


class DeadlineExceeded(RecollectError):
    """It took longer than the time-out, or than the server allows; or a server takes connections
    and answers none.

    A write may have been stored all the same: repeat it with the same `request_id` to be sure.
    """


class Cancelled(RecollectError):
    """The server, or something on the way to it, dropped the call."""


class DataDamaged(RecollectError):
    """The data asked for is there but damaged, and cannot be read."""


class Unimplemented(RecollectError):
    """The server does not have the call: it is older than this client."""


class InternalError(RecollectError):
    """A fault of the server, or an answer that cannot be read. `metadata["log_id"]` finds it in the
    server's log.
    """


class ClientClosed(RecollectError):
    """The client was closed before the call, or during it."""

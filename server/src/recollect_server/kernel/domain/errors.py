"""Errors in the product's own words. Only `contract/errors.py` knows the gRPC code of each.

RecollectError
├── InvalidField            a request's fields are wrong; each named
│   └── InvalidPageToken    a page token is of no page of this question
├── ConversationNotFound
│   └── ConversationDamaged it was there, and nothing of it can be read any more
├── NothingNamed            nothing else is there of that name
│   ├── CommunicationNotFound
│   ├── EscalationNotFound
│   ├── AnchorNotFound
│   ├── StatementNotFound
│   ├── IdentityNotFound
│   ├── SpaceNotFound
│   └── TokenNotFound
├── LogMisplaced            a communication's or thread's file is another one's
├── NoBackupFolder          calls make no backups: no folder is set, or the logs are in none
├── ConversationExists      a create that asks for an id that is taken
├── RequestIdReused         the same request id with another payload
├── ConversationFull        it has as many messages or bytes as are allowed
├── TurnOutOfDate           the write was based on an older turn
├── ConversationReadOnly    a channel's pinned conversation, written to from another channel
├── ConversationPinned      a delete of a pinned conversation without force
├── AnchorsPresent          a delete that does not say what becomes of anchors
├── TrustRequired           the party's trust does not allow a reply
├── EscalationClosed        it was resolved before, with another answer
├── CallerGone              the caller cancelled the call, or its connection broke
├── DeadlineExceeded        the call took longer than its caller or the server allows
└── TryAgain                the same request may succeed later
    ├── DataUnavailable     what is stored cannot be used now
    │   ├── StorageUnavailable  the disk refused
    │   │   └── MessagesHeld    messages, which are held until it takes them
    │   └── IndexUnavailable    the index cannot answer
    ├── RateLimited         a sender writes faster than allowed
    ├── TooManySubscribers  as many as the server takes are connected
    ├── TooManyAnswers      as many large answers are on their way as memory is allowed for
    ├── LimitExceeded       a token, or its space, reached a limit
    ├── SpaceBeingDeleted   the space is being deleted
    ├── SpaceMade           a stream began before its space was made
    ├── TooManySpaces       all spaces that the server keeps open are in use
    └── Stopping            the server stops

Those of a caller that may not make a call are in `access.principal`.
"""

from dataclasses import dataclass


class RecollectError(Exception):
    """A failure that is reported to the caller by its kind, with some facts about it."""

    def __init__(self, text: str = "", **facts: object) -> None:
        super().__init__(text)
        self.facts = facts


@dataclass(frozen=True, slots=True)
class Violation:
    """One wrong field: its path as in the contract (`messages[2].content`) and what is expected."""

    field: str
    description: str


class InvalidField(RecollectError):
    """One or more fields of a request are wrong. Nothing was changed."""

    def __init__(self, *violations: Violation) -> None:
        super().__init__("; ".join(f"{v.field}: {v.description}" for v in violations))
        self.violations = violations

    @classmethod
    def of(cls, field: str, description: str) -> "InvalidField":
        return cls(Violation(field, description))


class InvalidPageToken(InvalidField):
    """The token was not given out for this question."""

    def __init__(self) -> None:
        text = "not a token that this request gave out for the same filters"
        super().__init__(Violation("page_token", text))


class ConversationNotFound(RecollectError):
    """No such conversation, or it was deleted."""

    def __init__(self, conversation_id: str) -> None:
        super().__init__(
            f"there is no conversation {conversation_id}", conversation_id=conversation_id
        )


class ConversationDamaged(ConversationNotFound):
    """It was there, and no line of its transcript can be read. To a caller that looks for
    conversations it is gone.
    """

    def __init__(self, conversation_id: str, left: str) -> None:
        RecollectError.__init__(
            self,
            f"{conversation_id} is damaged, and no line of it can be read: what is left is in {left}",
            conversation_id=conversation_id,
        )


class NothingNamed(RecollectError):
    """There is nothing of that kind and name. (Conversations have an error of their own.)"""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"there is no {kind} {name}", name=name)


class LogMisplaced(RecollectError):
    """The file of a communication or thread belongs to another one. (Conversations have an error of
    their own.)
    """

    def __init__(self, kind: str, name: str, log: str, reason: str) -> None:
        super().__init__(
            f"the {kind} {name} cannot be read: what is left is in {log}, and {reason}", name=name
        )


class CommunicationNotFound(NothingNamed):
    """No such external communication."""

    def __init__(self, communication_id: str) -> None:
        super().__init__("external communication", communication_id)


class EscalationNotFound(NothingNamed):
    """No such escalation."""

    def __init__(self, escalation_id: str) -> None:
        super().__init__("escalation", escalation_id)


class AnchorNotFound(NothingNamed):
    """No anchor has this key, or it was forgotten."""

    def __init__(self, key: str) -> None:
        super().__init__("anchor", key)


class StatementNotFound(NothingNamed):
    """The profile has no such statement."""

    def __init__(self, conversation_id: str, sequence: int, start: int) -> None:
        super().__init__("statement", f"{conversation_id} {sequence} {start}")


class IdentityNotFound(NothingNamed):
    """Nobody said that this address is an owner's."""

    def __init__(self, channel: str, address: str) -> None:
        super().__init__("identity", f"{channel} {address}")


class SpaceNotFound(NothingNamed):
    """No space has this name, or the caller may not know of it."""

    def __init__(self, name: str) -> None:
        super().__init__("space", name)


class TokenNotFound(NothingNamed):
    """No token has this id."""

    def __init__(self, token_id: str) -> None:
        super().__init__("token", token_id)


class NoBackupFolder(RecollectError):
    """No setting names the folder for backups, or the logs are in no folder."""

    def __init__(self, advice: str) -> None:
        super().__init__(f"this server makes no backups by calls: {advice}")


class ConversationExists(RecollectError):
    """A conversation has the id that a new one was to have."""

    def __init__(self, conversation_id: str) -> None:
        super().__init__(
            f"there is a conversation {conversation_id} already", conversation_id=conversation_id
        )


class RequestIdReused(RecollectError):
    """The request id was used before with another payload."""

    def __init__(self, request_id: str) -> None:
        super().__init__(
            f"request_id {request_id} was used before with another payload: take a new one for"
            " another request",
            request_id=request_id,
        )


class ConversationFull(RecollectError):
    """The conversation has as many messages or bytes as one may have. Nothing was stored."""

    def __init__(self, conversation_id: str, limit: str) -> None:
        super().__init__(
            f"{conversation_id} reached the limit {limit}: begin a new conversation, or have the"
            " limit raised",
            conversation_id=conversation_id,
            limit=limit,
        )


class TurnOutOfDate(RecollectError):
    """The caller expected another newest turn than there is."""

    def __init__(self, expected_turn: int, turn_count: int) -> None:
        super().__init__(
            f"expected_turn is {expected_turn} and the newest turn is {turn_count}: load and decide again",
            expected_turn=expected_turn,
            turn_count=turn_count,
        )


class ConversationReadOnly(RecollectError):
    """A channel's pinned conversation is written to over that channel alone."""

    def __init__(self, conversation_id: str, channel: str) -> None:
        super().__init__(
            f"{conversation_id} is pinned on {channel}, and takes messages from there alone",
            conversation_id=conversation_id,
            channel=channel,
        )


class ConversationPinned(RecollectError):
    """A pinned conversation is deleted only if the request forces it."""

    def __init__(self, conversation_id: str) -> None:
        super().__init__(
            f"{conversation_id} is pinned: set force to delete it, or pin another one in its place",
            conversation_id=conversation_id,
        )


class AnchorsPresent(RecollectError):
    """The conversation has anchors and the delete does not say what becomes of them."""

    def __init__(self, anchors: int) -> None:
        super().__init__(
            f"the conversation has anchors ({anchors}): set the field anchors, to keep or to delete them",
            anchors=anchors,
        )


class TrustRequired(RecollectError):
    """The party's trust does not allow a reply. Nothing was recorded."""

    def __init__(self, communication_id: str, trust: str, why: str) -> None:
        super().__init__(
            f"{communication_id} may not be answered: {why}",
            communication_id=communication_id,
            trust=trust,
        )


class EscalationClosed(RecollectError):
    """The escalation was resolved before, with another answer, which stands."""

    def __init__(self, escalation_id: str) -> None:
        super().__init__(
            f"{escalation_id} was resolved before, and its answer stands",
            escalation_id=escalation_id,
        )


class CallerGone(RecollectError):
    """The caller cancelled the call, or its connection broke. Nobody reads this."""

    def __init__(self) -> None:
        super().__init__("the caller cancelled the call")


class DeadlineExceeded(RecollectError):
    """The call took longer than its caller or the server allows."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the call was stopped after {seconds:.3g} s: ask for less, or allow more time"
        )
        self.seconds = seconds


class TryAgain(RecollectError):
    """The same request may succeed later: after so many milliseconds, at the soonest."""

    def __init__(self, reason: str, retry_after_ms: int = 1000, **facts: object) -> None:
        super().__init__(reason, **facts)
        self.retry_after_ms = retry_after_ms


class DataUnavailable(TryAgain):
    """The logs of a space or their index cannot be used now."""


class StorageUnavailable(DataUnavailable):
    """The disk refused a write or a read."""


class MessagesHeld(StorageUnavailable):
    """The disk refused messages, which are held in memory until it takes them."""

    def __init__(self, text: str, held_because: str) -> None:
        """`held_because` is the reason of the disk, for sentences that clients make themselves."""
        super().__init__(text, held_because=held_because)


class IndexUnavailable(DataUnavailable):
    """The index cannot answer. The transcripts are whole."""


class RateLimited(TryAgain):
    """A sender wrote faster than allowed. The same message may be taken later."""

    def __init__(self, sender: str, retry_after_ms: int) -> None:
        super().__init__(
            f"{sender} writes faster than sender_rate allows: deliver the message again later",
            retry_after_ms,
            sender=sender,
        )


class TooManySubscribers(TryAgain):
    """As many subscribers as the server takes are connected. One more may be taken later."""

    def __init__(self, most: int, kind: str = "subscribers") -> None:
        super().__init__(
            f"{most} {kind} are connected, and no more are taken: close some, or try again later"
        )


class TooManyAnswers(TryAgain):
    """As many large answers are on their way as memory is allowed for, and none ended for some
    seconds.
    """

    def __init__(self) -> None:
        super().__init__(
            "too many large answers are on their way: try again, or ask for less at once"
        )


class LimitExceeded(TryAgain):
    """A token, or its space, reached a limit. The same request may be accepted later. Nothing was
    done.
    """

    def __init__(self, limit: str, of: str, retry_after_ms: int, most: float = 0) -> None:
        """`of` says whose limit it is: `token`, `space` or `peer`; `most` is the limit, if it is a
        number.
        """
        super().__init__(
            f"the {of} reached its limit {limit}{f' of {most:g}' if most else ''}: try again later,"
            " or have the limit raised",
            retry_after_ms,
            limit=limit,
            of=of,
        )


class SpaceBeingDeleted(TryAgain):
    """A space is being deleted, or could not be, because it was used."""


class SpaceMade(TryAgain):
    """A space was made that a stream had begun to watch before: it begins again."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the space {name} was made after the stream began: begin again", 1)


class TooManySpaces(TryAgain):
    """All spaces that the server keeps open are in use. One more may be opened later."""

    def __init__(self, most: int) -> None:
        super().__init__(
            f"{most} spaces are in use, and no more are opened: try again, or raise --max-open-spaces"
        )


class Stopping(TryAgain):
    """The server stops. Watchers come back with their last cursor."""

    def __init__(self) -> None:
        super().__init__("the server stops: come back with the last cursor", 100)

"""Updates for subscribers: one change of one conversation or communication, or one part of a
snapshot.
"""

from dataclasses import dataclass

from recollect_server.domain.conversation import Conversation, Split, TurnMemory
from recollect_server.domain.external import Communication, Escalation, ExternalMessage
from recollect_server.domain.message import Message, Redaction


@dataclass(frozen=True, slots=True)
class ConversationList:
    """Snapshot, first part: the newest conversations."""

    conversations: tuple[Conversation, ...]


@dataclass(frozen=True, slots=True)
class ConversationLoaded:
    """Snapshot, second part: the working context of the newest one; None if there is none."""

    conversation: Conversation | None = None
    messages: tuple[Message, ...] = ()
    has_more: bool = False


@dataclass(frozen=True, slots=True)
class Created:
    """A conversation began; as it was then."""

    conversation: Conversation


@dataclass(frozen=True, slots=True)
class Updated:
    """The messages of one append, or none if something else changed; the conversation as it is
    now.
    """

    conversation: Conversation
    messages: tuple[Message, ...] = ()
    draft_id: str = ""
    memory: TurnMemory | None = None
    """The tier and the summary of a turn, if these changed."""


@dataclass(frozen=True, slots=True)
class Renamed:
    title: str
    manually_named: bool
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NotesWritten:
    abbreviation: str
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LogDeleted:
    """The conversation or communication is gone."""


@dataclass(frozen=True, slots=True)
class TextRedacted:
    """The text of messages was removed; the conversation as it is now."""

    conversation: Conversation
    sequences: tuple[int, ...]
    redaction: Redaction


@dataclass(frozen=True, slots=True)
class Delta:
    """Text of an answer that is still being written, behind `offset` characters; or that it was
    given up.
    """

    draft_id: str
    offset: int
    text: str
    done: bool = False
    dropped: bool = False


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Nothing happened; the cursor moved on."""


@dataclass(frozen=True, slots=True)
class Listed:
    """Snapshot of communications: the newest."""

    communications: tuple[Communication, ...]


@dataclass(frozen=True, slots=True)
class Exchanged:
    """A message came or went; the communication as it is now."""

    communication: Communication
    message: ExternalMessage


@dataclass(frozen=True, slots=True)
class Changed:
    """Trust or scopes changed; the communication as it is now."""

    communication: Communication


@dataclass(frozen=True, slots=True)
class Escalated:
    """An escalation was opened or resolved; as it is now."""

    escalation: Escalation


@dataclass(frozen=True, slots=True)
class MessageRedacted:
    """The text of a message was removed; what is left of the message and of the escalation that it
    opened, and the communication as it is now.
    """

    communication: Communication
    message: ExternalMessage | None
    escalation: Escalation | None


Kind = (
    ConversationList
    | ConversationLoaded
    | Created
    | Updated
    | Renamed
    | NotesWritten
    | TextRedacted
    | Split
    | Delta
    | Listed
    | Exchanged
    | Changed
    | Escalated
    | MessageRedacted
    | LogDeleted
    | Heartbeat
)


@dataclass(frozen=True, slots=True)
class Update:
    """One element of a stream."""

    cursor: str
    """The position behind it; empty where it has none: a delta, and a snapshot that is not
    complete.
    """
    log: str
    """The conversation or the communication; empty: none."""
    time: int
    kind: Kind
    reset: bool = False

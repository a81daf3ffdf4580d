"""Updates for subscribers: one change of one log, or one part of a snapshot."""

from dataclasses import dataclass

from recollect_server.kernel.domain.conversation import Conversation, Split, TurnMemory
from recollect_server.kernel.domain.message import Message, Redaction


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
    """The log is gone."""


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
    """The log; empty: none."""
    time: int
    kind: object
    """The change: of a conversation a `Kind`. Other kinds of logs have their own."""
    reset: bool = False

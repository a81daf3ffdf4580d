"""An external communication, an exchange with one third party on one channel, and everything that
can happen to it.

Its log is a list of entries like a conversation's, and `fold` applies one entry to the state before
it. Neither knows the other's entries (see `kernel.log.entries`).

Trust says what becomes of what a party writes, and whether it may be answered:

- untrusted, as everybody begins: it is kept, and the owner is asked. While a question waits, what
  comes joins it: one question a party, however much it writes. The owner's answer releases replies
  until the party writes again. Before that answer the party may have one acknowledgement of a fixed
  text.
- known: it is kept and the agent answers, about the party's scopes. Nobody is asked.
- blocked: it is kept, and nothing more happens. Watchers do not see it either, so nobody can keep
  a panel busy; and a question that waited is closed without an answer.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from recollect_server.kernel.domain.conversation import MAX_OPENING, MessagesRedacted, opening_of
from recollect_server.kernel.domain.frozen import frozen
from recollect_server.kernel.domain.message import REDACTED, Attachment, Redaction
from recollect_server.kernel.domain.time import updated
from recollect_server.text.addresses import display_name


class Trust(StrEnum):
    """Trust in a third party. The values are those of the transcript."""

    UNTRUSTED = "untrusted"
    KNOWN = "known"
    BLOCKED = "blocked"


class Direction(StrEnum):
    """Direction of a message. The values are those of the transcript."""

    INBOUND = "inbound"
    OUTBOUND = "outbound"


@frozen
class Communication:
    """State of an external communication without its messages."""

    id: str
    channel: str
    party: str
    """The party's address on the channel, normalised."""
    create_time: int
    update_time: int
    trust: Trust = Trust.UNTRUSTED
    scopes: tuple[str, ...] = ()
    """Subjects that a known party may be answered about; none: any."""
    message_count: int = 0
    open: tuple[str, ...] = ()
    """The escalations that wait for the owner."""
    released: bool = False
    """True if the owner answered the last message of an untrusted party."""
    party_name: str = ""
    """The party's display name, as the channel gave it last. It proves nothing."""
    subject: str = ""
    """The subject of its newest e-mail that has one."""
    acknowledged: bool = False
    """True if an acknowledgement was recorded since the owner last answered."""


@dataclass(frozen=True, slots=True)
class CommunicationBegan:
    """The first line: the communication exists."""

    id: str
    channel: str
    party: str
    time: int


@dataclass(frozen=True, slots=True)
class EmailHeaders:
    """The headers of a third party's e-mail, the ids without angle brackets: what an answer
    needs.
    """

    message_id: str
    in_reply_to: str = ""
    references: tuple[str, ...] = ()
    subject: str = ""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Place on a channel where a message was written, and the channel's name for its sender. Empty
    texts are unset.
    """

    sender_name: str = ""
    email: EmailHeaders | None = None
    group_id: str = ""
    thread_id: str = ""

    @property
    def group(self) -> str:
        """The group that others read too; empty for a direct message or an e-mail."""
        return self.group_id or self.thread_id


DIRECT = Provenance()


@dataclass(frozen=True, slots=True)
class ExternalMessage:
    """A message from a third party or to it; with sequence 0 as it was given."""

    direction: Direction
    text: str
    timestamp: int
    sequence: int = 0
    attachments: tuple[Attachment, ...] = ()
    provider_message_id: str = ""
    scope: str = ""
    """Subject of a reply, where it was given."""
    arrived: int = 0
    """The server's time when it came, where that decides the recency (see
    `kernel.domain.time.arrival`); else 0.
    """
    origin: Provenance = DIRECT
    acknowledgement: bool = False
    """True for the acknowledgement that an untrusted party may have."""
    redaction: Redaction | None = None
    """Set where the text was removed for good: a tombstone, whose `text` is empty."""

    @property
    def shown_text(self) -> str:
        """Return the text that is shown."""
        return self.text if self.redaction is None else REDACTED


@dataclass(frozen=True, slots=True)
class TrustSet:
    """The owner said how far the party is trusted, and for what."""

    trust: Trust
    scopes: tuple[str, ...]
    time: int


@dataclass(frozen=True, slots=True)
class EscalationOpened:
    """The owner is asked about the message of line `sequence`."""

    id: str
    sequence: int
    question: str
    time: int


@dataclass(frozen=True, slots=True)
class EscalationResolved:
    """The owner answered; without an answer: the party was blocked instead."""

    id: str
    answer: str
    time: int


ExternalContent = (
    CommunicationBegan
    | ExternalMessage
    | TrustSet
    | EscalationOpened
    | EscalationResolved
    | MessagesRedacted
)


@frozen
class Escalation:
    """A question to the owner about a third party's message."""

    id: str
    communication_id: str
    sequence: int
    """The line of the message that opened it."""
    question: str
    create_time: int
    answer: str = ""
    resolve_time: int | None = None
    """None while it waits."""


def fold(before: Communication | None, content: object) -> Communication | None:
    """Return the state after one entry. Entries before `CommunicationBegan` are skipped (their file
    lost its first line).
    """
    match content:
        case CommunicationBegan():
            return before or Communication(
                content.id, content.channel, content.party, content.time, content.time
            )
        case _ if before is None:
            return None
        case ExternalMessage():
            first = before.message_count == 0
            return replace(
                before,
                update_time=updated(
                    None if first else before.update_time, content.timestamp, content.arrived
                ),
                message_count=before.message_count + 1,
                released=before.released and content.direction is Direction.OUTBOUND,
                party_name=content.origin.sender_name or before.party_name,
                subject=(content.origin.email.subject if content.origin.email else "")
                or before.subject,
                acknowledged=before.acknowledged or content.acknowledgement,
            )
        case TrustSet():
            return replace(before, trust=content.trust, scopes=content.scopes)
        case EscalationOpened():
            return replace(before, open=(*before.open, content.id))
        case EscalationResolved():
            left = tuple(name for name in before.open if name != content.id)
            answered = bool(content.answer) and not left
            return replace(
                before,
                open=left,
                released=before.released or answered,
                acknowledged=before.acknowledged and not answered,
            )
        case _:
            return before


def refusal(communication: Communication, scope: str) -> str:
    """Return why a reply about a scope (empty: not said) must not go to the party; empty if it
    may.
    """
    match communication.trust:
        case Trust.BLOCKED:
            return "the party is blocked"
        case Trust.UNTRUSTED if not communication.released:
            return "the party is untrusted, and the owner has not answered what it wrote last: resolve its escalation, or trust it"
        case Trust.KNOWN if scope and communication.scopes and scope not in communication.scopes:
            return f"the party is not to be answered about {scope}"
        case _:
            return ""


def may_acknowledge(communication: Communication) -> bool:
    """Return whether the party may have the acknowledgement: it is untrusted, wrote something that
    the owner has not answered, and had none since the last answer.
    """
    return (
        communication.trust is Trust.UNTRUSTED
        and communication.message_count > 0
        and not communication.acknowledged
        and not communication.released
    )


WHAT_TO_ANSWER = "What should be answered?"
"""The last line of a question to the owner."""


def question_about(communication: Communication, message: ExternalMessage) -> str:
    """Return what the owner is asked: who wrote, where, and how the message begins.

    The display name stands in quotes before the address, so that no name passes for an address or
    for words of ours.
    """
    words = opening_of(display_name(message.shown_text[: 4 * MAX_OPENING]))
    if not words:
        count = len(message.attachments)
        words = f"({count} attachment{'s' if count != 1 else ''})"
    origin = message.origin
    name = origin.sender_name.replace('"', "'")
    who = f'"{name}" ({communication.party})' if name else communication.party
    where = (
        f"{communication.channel}, in {origin.group}," if origin.group else communication.channel
    )
    return f"{who} wrote on {where}: {words}\n{WHAT_TO_ANSWER}"


@dataclass(frozen=True, slots=True)
class CommunicationFilter:
    """Filter of communications: every part that is set must match."""

    trust: Trust | None = None
    waiting: bool = False
    """Only those with an open escalation."""
    ids: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    parties: tuple[str, ...] = ()
    """As a caller named them; `identities` says who is meant."""
    identities: tuple[tuple[str, str], ...] = ()
    """Channels and addresses there, of which any may be the party, where `parties` are named."""
    except_trust: Trust | None = None
    updated_before: int | None = None
    with_messages: bool = False
    """Only those with a message: a contact that was only registered has none."""


@dataclass(frozen=True, slots=True)
class CommunicationSearch:
    """Search for messages of external communications by the words of a text. `end` is excluded."""

    text: str
    identities: tuple[tuple[str, str], ...] | None = None
    """Channels and addresses there, of which any may be the party; None: everybody."""
    channel: str = ""
    trust: Trust | None = None
    start: int | None = None
    end: int | None = None
    communication_id: str = ""


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

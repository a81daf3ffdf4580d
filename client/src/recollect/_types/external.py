"""Exchanges with third parties, as `client.external` takes and returns them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from recollect._types.message import Attachment


class Trust(StrEnum):
    """The trust in a third party."""

    UNTRUSTED = "untrusted"
    """Nobody vouched for it: what it writes is acknowledged and escalated. Everybody begins so."""
    KNOWN = "known"
    """It is answered within its scopes."""
    BLOCKED = "blocked"
    """Its messages are kept, and nothing more happens."""


class Direction(StrEnum):
    """Which way an external message went."""

    INBOUND = "inbound"
    """From the third party."""
    OUTBOUND = "outbound"
    """To the third party."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalCommunication:
    """An exchange with one third party on one channel, without its messages."""

    id: str
    """`ext-` and a ULID of 26 characters."""
    channel: str
    """The channel."""
    party: str
    """The third party's address there, normalised."""
    trust: Trust
    """The trust in it."""
    scopes: tuple[str, ...]
    """The subjects that a known party may be answered about. Empty: about anything."""
    create_time: datetime
    """The time at which it began."""
    update_time: datetime
    """The time of its newest message."""
    message_count: int
    """The number of its messages."""
    open_escalations: int
    """The number of its escalations that wait for the owner."""
    party_name: str = ""
    """The party's display name, as the channel gave it last. The party chose it: it proves nothing.
    """
    subject: str = ""
    """The subject of its newest e-mail that has one."""
    acknowledged: bool = False
    """True if an acknowledgement was recorded since the owner last answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmailHeaders:
    """The headers of a third party's e-mail, as an answer needs them: the ids without angle
    brackets.
    """

    message_id: str
    """Message-ID. An answer has it as In-Reply-To."""
    in_reply_to: str
    """In-Reply-To. Empty where it answers nothing."""
    references: tuple[str, ...]
    """References, oldest first. An answer has these and `message_id`."""
    subject: str
    """Subject."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalMessage:
    """One message of an external communication."""

    sequence: int
    """Its line in the communication's transcript."""
    direction: Direction
    """Which way it went."""
    text: str
    """The text."""
    timestamp: datetime
    """The time of the message."""
    attachments: tuple[Attachment, ...]
    """Files that came with it."""
    provider_message_id: str
    """The provider's id. Empty on replies."""
    scope: str
    """The subject of a reply, where one was given."""
    sender_name: str = ""
    """The sender's display name, as the channel gave it."""
    email: EmailHeaders | None = None
    """The headers of an e-mail. `None` on other channels."""
    group_id: str = ""
    """The group that it was written in, on WhatsApp. Empty for a direct message."""
    thread_id: str = ""
    """The channel or thread that it was written in, on Discord, as `discord:channel:…`. Empty for a
    direct message.
    """
    acknowledgement: bool = False
    """True for the acknowledgement that an untrusted party may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalation:
    """A question to the owner about a third party's message, and about those that follow it until
    it is resolved.
    """

    id: str
    """`esc-` and a ULID of 26 characters."""
    communication_id: str
    """The communication."""
    sequence: int
    """The message that opened it."""
    question: str
    """The question to the owner."""
    answer: str
    """The owner's answer. Empty while it is open, and where the party was blocked instead."""
    create_time: datetime
    """The time at which it was opened."""
    resolve_time: datetime | None
    """The time at which it was resolved. `None` while it is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunicationPage:
    """One page of a list of communications. Iterating over it gives the communications."""

    communications: tuple[ExternalCommunication, ...]
    """Newest `update_time` first."""
    next_page_token: str
    """Asks for the next page. Empty on the last one."""

    def __iter__(self) -> Iterator[ExternalCommunication]:
        return iter(self.communications)

    def __len__(self) -> int:
        return len(self.communications)


@dataclass(frozen=True, slots=True, kw_only=True)
class EscalationPage:
    """One page of a list of escalations. Iterating over it gives the escalations."""

    escalations: tuple[Escalation, ...]
    """Oldest first."""
    next_page_token: str
    """Asks for the next page. Empty on the last one."""

    def __iter__(self) -> Iterator[Escalation]:
        return iter(self.escalations)

    def __len__(self) -> int:
        return len(self.escalations)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedCommunication:
    """A communication with a page of its messages."""

    communication: ExternalCommunication
    """The communication."""
    messages: tuple[ExternalMessage, ...]
    """Newest first."""
    next_page_token: str
    """Asks for the page of older messages. Empty on the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunicationMatch:
    """A message that a search over external communications found."""

    communication: ExternalCommunication
    """The communication, as it is now."""
    sequence: int
    """The message's line in the communication's transcript."""
    direction: Direction
    """Which way it went."""
    timestamp: datetime
    """The time of the message."""
    snippet: str
    """The part that fits best, on one line, matches between U+E000 and U+E001. What a third party
    wrote: data.
    """
    score: float
    """The score: 1 for the best match, less for the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunicationSearch:
    """The matches of a search over external communications. Iterating over it gives the matches."""

    matches: tuple[CommunicationMatch, ...]
    """Best first."""
    total_matches: int
    """The number of messages that match, before `limit`."""

    def __iter__(self) -> Iterator[CommunicationMatch]:
        return iter(self.matches)

    def __len__(self) -> int:
        return len(self.matches)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedReply:
    """The reply that `record_reply` stored. A repeated request is answered with what the first one
    stored.
    """

    communication: ExternalCommunication
    """The communication after the reply."""
    message: ExternalMessage
    """The reply as stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunicationList:
    """A snapshot: the newest communications."""

    communications: tuple[ExternalCommunication, ...]
    """Newest `update_time` first, at most 50."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunicationMessage:
    """A message came or went."""

    communication: ExternalCommunication
    """The communication as it is now."""
    message: ExternalMessage | None
    """The message. `None` if its line in the transcript is damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunicationChanged:
    """Trust or scopes changed."""

    communication: ExternalCommunication
    """The communication as it is now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunicationEscalated:
    """An escalation was opened or resolved."""

    escalation: Escalation
    """The escalation as it is now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunicationUpdate:
    """One change of an external communication, or a snapshot."""

    cursor: str
    """The position behind it: give it to another `watch` to go on there."""
    communication_id: str
    """The communication. Empty in a snapshot."""
    time: datetime
    """The time of the update."""
    reset: bool
    """True with a snapshot that replaces everything known: what happened since the cursor is not
    known.
    """
    kind: CommunicationList | CommunicationMessage | CommunicationChanged | CommunicationEscalated
    """The change."""

"""An exchange with a third party, as far as receiving a message shows it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from recollect._types.message import Attachment


class Trust(StrEnum):
    """How far a third party is trusted."""

    UNTRUSTED = "untrusted"
    """Nobody vouched for it: what it writes is acknowledged and escalated, not answered."""
    KNOWN = "known"
    """It is answered within its scopes."""
    BLOCKED = "blocked"
    """What it writes is kept and nothing more happens."""


class Direction(StrEnum):
    """Which way an external message went."""

    INBOUND = "inbound"
    """From the third party."""
    OUTBOUND = "outbound"
    """To the third party."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalCommunication:
    """An exchange with one third party on one channel. It is no conversation."""

    id: str
    """`ext-` and a ULID."""
    channel: str
    """The channel."""
    party: str
    """The third party's address there, normalised."""
    trust: Trust
    """How far it is trusted."""
    scopes: tuple[str, ...]
    """What a known party may be answered about."""
    create_time: datetime
    """When it began."""
    update_time: datetime
    """When its newest message came."""
    message_count: int
    """How many messages it has."""
    open_escalations: int
    """How many of its questions wait for the owner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalMessage:
    """One message of an external communication."""

    sequence: int
    """Its line in the communication's transcript."""
    direction: Direction
    """Which way it went."""
    text: str
    """What was said."""
    timestamp: datetime
    """When."""
    attachments: tuple[Attachment, ...]
    """Files that came with it."""
    provider_message_id: str
    """The provider's id. Empty on outbound messages without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalation:
    """A question to the owner about a third party's message."""

    id: str
    """`esc-` and a ULID."""
    communication_id: str
    """The communication."""
    sequence: int
    """The message that opened it."""
    question: str
    """What the owner is asked."""
    answer: str
    """The owner's answer. Empty while it is open."""
    create_time: datetime
    """When it was opened."""
    resolve_time: datetime | None
    """When it was resolved. `None` while it is open."""

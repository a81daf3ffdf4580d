"""Inbound messages of channels, their outcomes, and the owners' addresses."""

from dataclasses import dataclass

from recollect._types.conversation import Conversation
from recollect._types.external import Escalation, ExternalCommunication, ExternalMessage
from recollect._types.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatsappOrigin:
    """The origin of a message on WhatsApp.

    >>> WhatsappOrigin(group_id="120363@g.us")
    """

    group_id: str = ""
    """The group, as its JID. Empty for a direct message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmailOrigin:
    """The origin of an e-mail: its headers, as they stand, with or without angle brackets.

    >>> EmailOrigin(message_id="<2@mail>", in_reply_to="<1@mail>", subject="Re: The invoice")
    """

    message_id: str
    """Message-ID."""
    in_reply_to: str = ""
    """In-Reply-To."""
    references: tuple[str, ...] = ()
    """References, oldest first."""
    subject: str = ""
    """Subject."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscordOrigin:
    """The origin of a message on Discord. One field is given.

    >>> DiscordOrigin(thread_id="1187")
    """

    dm_user_id: str = ""
    """A direct message with this user."""
    channel_id: str = ""
    """A channel of a server."""
    thread_id: str = ""
    """A thread of a channel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CliOrigin:
    """The origin of a message on a command line.

    >>> CliOrigin(session_name="work")
    """

    session_name: str = ""
    """The name of the conversation there. Empty means `default`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebOrigin:
    """The origin of a message on the web.

    >>> WebOrigin(conversation_id=conversation.id)
    """

    conversation_id: str = ""
    """The conversation. Empty means the most recent one on the web."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredInConversation:
    """An owner's message joined a conversation."""

    conversation: Conversation
    """The conversation after it."""
    messages: tuple[Message, ...]
    """The message as stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandReply:
    """A slash command was answered."""

    text: str
    """The answer to the user."""
    conversation: Conversation
    """The conversation now in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedExternal:
    """The message was not an owner's: it is kept apart from all conversations."""

    communication: ExternalCommunication
    """The communication that it was stored in."""
    message: ExternalMessage
    """The message as stored."""
    escalation: Escalation | None
    """The question to the owner that it opened. `None` if it opened none."""
    acknowledgement: str = ""
    """The text that may be sent to the party now, and recorded with `external.record_reply`. Empty
    where nothing may.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """The outcome of an inbound message."""

    outcome: StoredInConversation | CommandReply | ReceivedExternal | None
    """`None` for a repeat of a message whose conversation was deleted since: it is not stored
    again.
    """
    duplicate: bool
    """True if this provider's message had been received before; the outcome is that of the first
    time.
    """


@dataclass(frozen=True, slots=True)
class OwnerIdentity:
    """One address of an owner on one channel."""

    channel: str
    """The channel."""
    identity: str
    """The address there, normalised by the server: phone numbers in digits, e-mail addresses in
    lower case.
    """
    person: str = ""
    """The person that it belongs to: identities of one person are one to search. Empty means that
    it stands alone.
    """


Origin = WhatsappOrigin | EmailOrigin | DiscordOrigin | CliOrigin | WebOrigin
"""The place on a channel that a message came from."""

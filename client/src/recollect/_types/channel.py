# Generated from proto/recollect/v1 by scripts/client_types.py: edit that.
"""Data classes of the contract: channel."""

from dataclasses import dataclass

from recollect._types.conversation import (
    Conversation,
)
from recollect._types.external import (
    Escalation,
    ExternalCommunication,
    ExternalMessage,
)
from recollect._types.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatsappOrigin:
    """Origin of a message on WhatsApp.

    >>> WhatsappOrigin(group_id="120363@g.us")
    """

    group_id: str = ""
    """The group, as its JID. At most 320 characters. Unset for a direct message, which belongs
    to the sender's conversation.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class EmailOrigin:
    """Origin of an e-mail: its headers as they are, with or without angle brackets.

    They are stored with the message, in its `metadata` under `email`: `message_id`,
    `in_reply_to`, `references`, `subject`, the ids without brackets. An agent that sent an
    answer states its id in the same form when it appends the answer, `{"email": {"message_id":
    "…"}}`, so that a reply which names only that id is recognised.

    >>> EmailOrigin(message_id="<2@mail>", in_reply_to="<1@mail>", subject="Re: The invoice")
    """

    message_id: str
    """Message-ID. One id of at most 998 characters. Required."""
    in_reply_to: str = ""
    """In-Reply-To. At most 998 characters. Old mailers write an address there: without angle
    brackets it finds a conversation, and is not stored.
    """
    references: tuple[str, ...] = ()
    """References, oldest first. At most 100 of at most 998 characters each; one may be a whole
    header.
    """
    subject: str = ""
    """Subject. At most 998 characters. Not used to find the thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscordOrigin:
    """Origin of a message on Discord. One field is set, to 1 to 304 characters, not only
    spaces.

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
    """Origin of a message on a command line.

    >>> CliOrigin(session_name="work")
    """

    session_name: str = ""
    """The name of the conversation there. At most 128 characters, no space around it. Unset
    means `default`.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class WebOrigin:
    """Origin of a message on the web.

    >>> WebOrigin(conversation_id=conversation.id)
    """

    conversation_id: str = ""
    """The conversation, on any channel. A pinned conversation of another channel fails with
    ERROR_REASON_CONVERSATION_READ_ONLY. Unset means the most recent one on the web.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredInConversation:
    """Outcome: an owner's message was stored."""

    conversation: Conversation
    """The conversation that the message joined."""
    messages: tuple[Message, ...] = ()
    """The messages as stored. None in the answer to a repeat with another text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandReply:
    """Outcome: an owner's message was a slash command; it was answered and not stored."""

    text: str = ""
    """The reply to the owner."""
    conversation: Conversation
    """The conversation now in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedExternal:
    """Outcome: the sender is not an owner."""

    communication: ExternalCommunication
    """The communication that holds the message."""
    message: ExternalMessage
    """The message as stored."""
    escalation: Escalation | None = None
    """The escalation that the message opened. Unset if none."""
    acknowledgement: str = ""
    """Text that may be sent to the party now and recorded by RecordReply: the setting
    `acknowledgement`. Unset if the party is not untrusted, was acknowledged since the owner's
    last answer, or wrote into a group.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """The outcome of an inbound message."""

    outcome: StoredInConversation | CommandReply | ReceivedExternal | None
    """Outcome for the message. Unset for a repeat of a message whose conversation was deleted
    since: it is not stored again.
    """
    duplicate: bool = False
    """True if this provider's message had been received before; the outcome is that of the
    first time. It shows only what the caller sent again: if the text or the attachments are
    others, `messages`, the reply of a command, and a third party's text and escalation are left
    out.
    """


@dataclass(frozen=True, slots=True)
class OwnerIdentity:
    """One address of an owner on one channel."""

    channel: str
    """The channel."""
    identity: str
    """The address on the channel, normalised: phone numbers in digits, e-mail addresses in
    lower case.
    """
    person: str = ""
    """The person that the address belongs to. Recall treats identities of the same person as
    one. Unset for an identity that stands alone.
    """


Origin = WhatsappOrigin | EmailOrigin | DiscordOrigin | CliOrigin | WebOrigin
"""Place on the channel that it came from; it must match the channel. Required on `email`. Unset
elsewhere means a direct message of the sender, the session `default`, or the most recent
conversation on the web.
"""

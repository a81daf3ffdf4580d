"""Conversation that an inbound message belongs to, as far as the message itself tells.

On most channels a place names it: a contact, a group, a Discord thread, a session of the command
line. The place stands in the conversation's `Party`, so a transcript's first line is all that is
needed to know it again. On e-mail the ids that its messages name do: see `mail_ids_of`.
"""

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from recollect_server.kernel.domain.conversation import CommandRun, Party
from recollect_server.kernel.domain.frozen import frozen
from recollect_server.kernel.domain.message import Attachment, Message
from recollect_server.people.communication import EmailHeaders, Provenance
from recollect_server.text.addresses import (
    EMAIL,
    WEB,
    is_address,
    normal_address,
    normal_group,
    normal_message_ids,
)

_HEADERS = EMAIL  # the member of a message's metadata that has the headers of its mail
_ID = 998  # characters of a Message-ID that count


@dataclass(frozen=True, slots=True)
class WhatsappOrigin:
    """A group, or, where it is unset, a direct message."""

    group_id: str = ""


@dataclass(frozen=True, slots=True)
class EmailOrigin:
    """Headers as they stand."""

    message_id: str
    in_reply_to: str = ""
    references: tuple[str, ...] = ()
    subject: str = ""


@dataclass(frozen=True, slots=True)
class DiscordOrigin:
    """`kind` is `dm`, `channel` or `thread`."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class CliOrigin:
    """A session by name."""

    session_name: str = ""


@dataclass(frozen=True, slots=True)
class WebOrigin:
    """A conversation by its id; unset: the most recent one."""

    conversation_id: str = ""


Origin = WhatsappOrigin | EmailOrigin | DiscordOrigin | CliOrigin | WebOrigin


@dataclass(frozen=True, slots=True)
class Inbound:
    """A message that came in. `sender` is normalised; `time` None is now; `origin` None: its
    conversation is the sender's.
    """

    channel: str
    provider_message_id: str
    sender: str
    text: str
    attachments: tuple[Attachment, ...] = ()
    time: int | None = None
    origin: Origin | None = None
    sender_name: str = ""
    """The sender's display name, for people."""
    group_name: str = ""
    """The group's."""


@dataclass(frozen=True, slots=True)
class Place:
    """Place on a channel that holds a conversation. Of all conversations of one place one is
    pinned.
    """

    channel: str
    contact: str = ""
    group_id: str = ""
    thread_id: str = ""

    @property
    def known(self) -> bool:
        """Return whether there is such a place: on the web, and where nobody is named, there is
        none.
        """
        return self.channel not in (WEB, EMAIL) and bool(
            self.contact or self.group_id or self.thread_id
        )

    @property
    def name(self) -> str:
        """The place as one text. The web is one place."""
        return self.channel if self.channel == WEB else str(self)


def place_of(channel: str, party: Party) -> Place:
    return Place(channel, party.contact, party.group_id, party.thread_id)


def places_of(channel: str, party: Party, addresses: Iterable[str]) -> tuple[Place, ...]:
    """Return the places of a contact who has these addresses on a channel."""
    is_direct = party.thread_id == f"discord:dm:{party.contact}"
    return tuple(
        Place(channel, it, party.group_id, f"discord:dm:{it}" if is_direct else party.thread_id)
        for it in addresses
    )


def party_of(inbound: Inbound) -> Party:
    """Return the party of a conversation started by this message."""
    party = with_group_name(_party_of(inbound), inbound)
    return (
        replace(party, contact_name=inbound.sender_name)
        if party.contact and inbound.sender_name
        else party
    )


def with_group_name(party: Party, inbound: Inbound) -> Party:
    """Return the party of a conversation that this message joins, by the newest name of its
    group.
    """
    is_named = inbound.group_name and group_of(party)
    return replace(party, group_name=inbound.group_name) if is_named else party


def _party_of(inbound: Inbound) -> Party:
    match inbound.origin:
        case WhatsappOrigin(group_id=group) if group:
            return Party(group_id=normal_group(group))
        case EmailOrigin(subject=subject) as mail:
            return Party(inbound.sender, thread_id=thread_of(mail), subject=subject)
        case DiscordOrigin(kind="dm", name=name):
            return Party(name, thread_id=f"discord:dm:{name}")
        case DiscordOrigin(kind=kind, name=name):
            return Party(thread_id=f"discord:{kind}:{name}")
        case CliOrigin(session_name=name):
            return Party(thread_id=f"cli:{name or 'default'}")
    match inbound.channel:
        case "discord":
            return Party(inbound.sender, thread_id=f"discord:dm:{inbound.sender}")
        case "cli":
            return Party(thread_id="cli:default")
        case "web":
            return Party()
    return Party(inbound.sender)


def delivery_place(inbound: Inbound) -> str:
    """Return the place that a provider numbers a message in, beside its sender; empty where it has
    none. On e-mail it has none: a repeat may come with other headers.
    """
    match inbound.origin:
        case EmailOrigin():
            return ""
        case WebOrigin(conversation_id=name):
            return name
    party = _party_of(inbound)
    return party.group_id or party.thread_id


def provenance_of(inbound: Inbound) -> Provenance:
    """Return what is kept of where a third party's message was written, and of who its sender says
    to be.
    """
    name = inbound.sender_name
    match inbound.origin:
        case WhatsappOrigin(group_id=group) if group:
            return Provenance(name, group_id=normal_group(group))
        case EmailOrigin() as mail:
            answered = normal_message_ids(mail.in_reply_to)
            headers = EmailHeaders(
                normal_message_ids(mail.message_id)[0],
                answered[0] if answered else "",
                normal_message_ids(*mail.references),
                mail.subject,
            )
            return Provenance(name, headers)
        case DiscordOrigin(kind=kind) if kind != "dm":
            return Provenance(name, thread_id=_party_of(inbound).thread_id)
    return Provenance(name)


def group_of(party: Party) -> str:
    """Return the group that a conversation is held in, as `Provenance.group` names it; empty if
    others do not write there.
    """
    if party.group_id:
        return party.group_id
    return (
        party.thread_id
        if party.thread_id.startswith(("discord:channel:", "discord:thread:"))
        else ""
    )


def pinned_party(channel: str, party: Party) -> Party | str:
    """Return a caller's party as `party_of` would make it, so that what comes in from there finds
    its conversation.

    A text says what is wrong with it.
    """
    if channel == WEB:
        return "has no places of its own: what comes in joins the most recent conversation"
    contact = normal_address(channel, party.contact)
    if party.contact and not is_address(channel, contact):
        return f"names a contact that is no address on {channel}"
    match channel:
        case "whatsapp" if party.group_id:
            if contact:
                return "names a contact and a group: a group's conversation has no contact"
            return replace(party, contact="", group_id=normal_group(party.group_id))
        case "discord" if party.thread_id.startswith("discord:dm:"):
            name = normal_address(channel, party.thread_id.removeprefix("discord:dm:"))
            if not name or contact not in ("", name):
                return "names a contact that is not the one of its thread_id"
            return replace(party, contact=name, thread_id=f"discord:dm:{name}")
        case "discord" if party.thread_id:
            if contact or not re.fullmatch(r"discord:(channel|thread):\S.*", party.thread_id):
                return "needs a contact, or a thread_id of discord:dm:…, discord:channel:… or discord:thread:…"
            return party
        case "discord" if contact:
            return replace(party, contact=contact, thread_id=f"discord:dm:{contact}")
        case "cli":
            if party.contact or not re.fullmatch(r"(cli:\S.*)?", party.thread_id):
                return "needs a thread_id of cli:NAME, or none, and no contact"
            return replace(party, thread_id=party.thread_id or "cli:default")
    if not contact:
        return "needs a contact: without one no message finds it"
    return replace(party, contact=contact)


def thread_of(mail: EmailOrigin) -> str:
    """Return the name of a message's thread: the oldest message that it names, or itself if it
    begins one.
    """
    return normal_message_ids(*mail.references, mail.in_reply_to, mail.message_id)[0]


@frozen
class Headers:
    """Headers of an e-mail; empty on another channel."""

    ids: tuple[str, ...] = ()
    """All that they name, the message's own first."""
    metadata: dict[str, Any] | None = field(default=None, hash=False)
    """Headers that a stored message keeps: an answer needs them, and so does the next message."""


NO_HEADERS = Headers()


def headers_of(mail: EmailOrigin, is_address: Callable[[str], bool]) -> Headers:
    """Return the headers of an inbound message.

    Old mailers answer with the address of whom they answer in place of the id. One that
    `is_address` knows is dropped. What stands there without angle brackets, or behind words, as in
    `Your message of Monday <…>`, may be an address too: it finds a conversation, and leads to none
    from then on.
    """
    headers: dict[str, Any] = {"message_id": normal_message_ids(mail.message_id)[0]}
    answered = [it for it in normal_message_ids(mail.in_reply_to) if not is_address(it)][:1]
    if answered and mail.in_reply_to.lstrip().startswith("<"):
        headers["in_reply_to"] = answered[0]
    if references := [it for it in normal_message_ids(*mail.references) if not is_address(it)]:
        headers["references"] = references
    if mail.subject:
        headers["subject"] = mail.subject
    ids = tuple(dict.fromkeys((*mail_ids(headers), *answered)))
    return Headers(ids, {_HEADERS: headers})


def mail_ids(headers: dict[str, Any]) -> tuple[str, ...]:
    """Return all ids in headers that `headers_of` wrote. Values that a caller wrote in another form
    are ignored.
    """
    texts = [headers.get("message_id"), headers.get("in_reply_to")]
    references = headers.get("references")
    texts += references[:100] if isinstance(references, list) else [references]
    return normal_message_ids(*(text[: 2 * _ID] for text in texts if isinstance(text, str)))


def mail_ids_of(contents: Iterable[object]) -> set[int]:
    """Return the numbers of the Message-IDs that messages and commands on e-mail bring: each leads
    to their conversation from then on.

    An answer of the agent may give its own id in its metadata, `{"email": {"message_id": …}}`, so
    that a reply that names only this id finds the conversation.
    """
    numbers: set[int] = set()
    for content in contents:
        if isinstance(content, CommandRun):
            numbers.update(map(mail_number, content.mail))
        elif (
            isinstance(content, Message)
            and content.metadata
            and isinstance(headers := content.metadata.get(_HEADERS), dict)
        ):
            numbers.update(map(mail_number, mail_ids(headers)))
    return numbers


@lru_cache(1024)
def mail_number(name: str) -> int:
    """Return the number of a Message-ID in the index: 63 bits of its SHA-256. Among a million, the
    chance of a collision is 1 in 20 million.
    """
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) >> 1

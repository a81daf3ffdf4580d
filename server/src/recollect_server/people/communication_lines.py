"""Lines of logs of communications with third parties, and what a redaction leaves of them."""

from collections.abc import Collection
from operator import attrgetter

from recollect_server.kernel.domain.conversation import MessagesRedacted
from recollect_server.kernel.domain.ids import is_communication_id
from recollect_server.kernel.domain.message import REDACTED, Redaction
from recollect_server.kernel.log.codec import FLAG, NUMBER, TEXT, TEXTS, TIME, Codec, Field, one_of
from recollect_server.kernel.log.entries import ARRIVED, ATTACHMENTS, ERASED_BY, Vocabulary, event
from recollect_server.kernel.log.redaction import fitted, members_of, tombstone
from recollect_server.people.communication import (
    WHAT_TO_ANSWER,
    CommunicationBegan,
    Direction,
    EmailHeaders,
    EscalationOpened,
    EscalationResolved,
    ExternalMessage,
    Provenance,
    Trust,
    TrustSet,
)

_BEGAN = Codec(
    CommunicationBegan,
    Field("id", TEXT),
    Field("channel", TEXT),
    Field("party", TEXT),
    Field("created", TIME, "time"),
    head={"type": "meta"},
)

_EMAIL = Codec(
    EmailHeaders,
    Field("messageId", TEXT, "message_id", ""),
    Field("inReplyTo", TEXT, "in_reply_to", ""),
    Field("references", TEXTS, default=()),
    Field("subject", TEXT, default=""),
)

_MESSAGE = Codec(
    ExternalMessage,
    Field("direction", one_of(Direction), is_kept=True),
    Field("text", TEXT),
    Field("timestamp", TIME, is_kept=True),
    Field("providerMessageId", TEXT, "provider_message_id", "", is_kept=True),
    ATTACHMENTS,
    Field("scope", TEXT, default="", is_kept=True),
    Field("acknowledgement", FLAG, default=False, is_kept=True),
    ARRIVED,
    Field("senderName", TEXT, "origin.sender_name", ""),
    Field("groupId", TEXT, "origin.group_id", "", is_kept=True),
    Field("threadId", TEXT, "origin.thread_id", "", is_kept=True),
    Field("email", _EMAIL.value, "origin.email", None),
    ERASED_BY,
    head={"type": "message"},
    parts={"origin": Provenance},
    numbered="sequence",
    text="text",
)

_EVENTS = (
    event(
        TrustSet,
        "trust_set",
        Field("trust", one_of(Trust)),
        Field("scopes", TEXTS, default=(), is_written=True),
    ),
    event(
        EscalationOpened,
        "escalation_opened",
        Field("id", TEXT),
        Field("sequence", NUMBER),
        Field("question", TEXT),
    ),
    event(
        EscalationResolved,
        "escalation_resolved",
        Field("id", TEXT),
        Field("answer", TEXT, default=""),
    ),
)


def _redact(content: object, raw: bytes, sequences: Collection[int], redaction: Redaction) -> bytes:
    match content:
        case ExternalMessage(sequence=sequence, redaction=None) if sequence in sequences:
            return tombstone(raw, _MESSAGE, redaction)
        case EscalationOpened(sequence=sequence) if sequence in sequences:
            return _without_question(raw)
        case _:
            return raw


def _without_question(raw: bytes) -> bytes:
    """Return the line of an escalation with a neutral text in place of its question, which quotes
    the message and its sender. The text is empty where the line has no room for another.
    """
    members = members_of(raw)
    texts = (f"{REDACTED}\n{WHAT_TO_ANSWER}", REDACTED, "")
    lines = (fitted(raw, members | {"question": text}) for text in texts)
    return next(line for line in lines if line is not None)


COMMUNICATIONS = Vocabulary(
    is_communication_id,
    CommunicationBegan,
    attrgetter("id"),
    (_BEGAN, _MESSAGE, *_EVENTS),
    shared=(MessagesRedacted,),
    redact=_redact,
)

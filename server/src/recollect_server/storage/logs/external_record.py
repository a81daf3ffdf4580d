"""The lines of an external communication's transcript: what `record` does not know from
conversations.
"""

from typing import Any

from recollect_server.domain.conversation import Unknown
from recollect_server.domain.external import (
    CommunicationBegan,
    Direction,
    EmailHeaders,
    EscalationOpened,
    EscalationResolved,
    ExternalContent,
    ExternalMessage,
    Provenance,
    Trust,
    TrustSet,
)
from recollect_server.domain.time import from_text, to_text
from recollect_server.storage.logs.fields import (
    attachment_fields,
    attachments,
    moment,
    number,
    optional,
    text,
    texts,
)


def external_fields(content: ExternalContent) -> dict[str, Any]:
    """Return the fields of an entry's line."""
    match content:
        case CommunicationBegan():
            meta = {
                "type": "meta",
                "id": content.id,
                "channel": content.channel,
                "party": content.party,
            }
            return meta | {"created": to_text(content.time)}
        case ExternalMessage():
            fields: dict[str, Any] = {
                "type": "message",
                "direction": content.direction.value,
                "text": content.text,
            }
            fields["timestamp"] = to_text(content.timestamp)
            if content.provider_message_id:
                fields["providerMessageId"] = content.provider_message_id
            if content.attachments:
                fields["attachments"] = attachment_fields(content.attachments)
            if content.scope:
                fields["scope"] = content.scope
            if content.acknowledgement:
                fields["acknowledgement"] = True
            if content.arrived:
                fields["arrived"] = to_text(content.arrived)
            return fields | _origin_fields(content.origin)
        case TrustSet():
            event: dict[str, Any] = {
                "event": "trust_set",
                "trust": content.trust.value,
                "scopes": content.scopes,
            }
        case EscalationOpened():
            event = {
                "event": "escalation_opened",
                "id": content.id,
                "sequence": content.sequence,
                "question": content.question,
            }
        case EscalationResolved():
            event = {"event": "escalation_resolved", "id": content.id}
            if content.answer:
                event["answer"] = content.answer
    return {"type": "event"} | event | {"timestamp": to_text(content.time)}


def external_content(fields: dict[str, Any], sequence: int) -> ExternalContent | Unknown:
    """Return the entry of a line that is not a conversation's. Raises ValueError, KeyError,
    TypeError for invalid fields.
    """
    match fields["type"]:
        case "meta":
            return CommunicationBegan(
                text(fields, "id"),
                text(fields, "channel"),
                text(fields, "party"),
                from_text(fields["created"]),
            )
        case "message":
            return ExternalMessage(
                direction=Direction(fields["direction"]),
                text=text(fields, "text"),
                timestamp=from_text(fields["timestamp"]),
                sequence=sequence,
                attachments=attachments(fields),
                provider_message_id=text(fields, "providerMessageId", ""),
                scope=text(fields, "scope", ""),
                arrived=moment(fields, "arrived"),
                origin=_origin(fields),
                acknowledgement=bool(optional(fields, "acknowledgement", bool)),
            )
        case "event":
            return _event(fields)
        case _:
            return Unknown()


def _origin_fields(origin: Provenance) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "senderName": origin.sender_name,
        "groupId": origin.group_id,
        "threadId": origin.thread_id,
    }
    if (mail := origin.email) is not None:
        headers = {
            "messageId": mail.message_id,
            "inReplyTo": mail.in_reply_to,
            "references": mail.references,
        }
        fields["email"] = {
            name: value for name, value in (headers | {"subject": mail.subject}).items() if value
        }
    return {name: value for name, value in fields.items() if value}


def _origin(fields: dict[str, Any]) -> Provenance:
    headers = optional(fields, "email", dict)
    mail = None
    if headers is not None:
        mail = EmailHeaders(
            text(headers, "messageId", ""),
            text(headers, "inReplyTo", ""),
            texts(headers.get("references", ())),
            text(headers, "subject", ""),
        )
    return Provenance(
        text(fields, "senderName", ""),
        mail,
        text(fields, "groupId", ""),
        text(fields, "threadId", ""),
    )


def _event(fields: dict[str, Any]) -> ExternalContent | Unknown:
    time = from_text(fields["timestamp"])
    match fields["event"]:
        case "trust_set":
            return TrustSet(Trust(fields["trust"]), texts(fields.get("scopes", ())), time)
        case "escalation_opened":
            return EscalationOpened(
                text(fields, "id"), number(fields["sequence"]), text(fields, "question"), time
            )
        case "escalation_resolved":
            return EscalationResolved(text(fields, "id"), text(fields, "answer", ""), time)
        case _:
            return Unknown()

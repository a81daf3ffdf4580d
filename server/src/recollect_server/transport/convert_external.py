"""External communications as they go out."""

from recollect.v1 import message_pb2
from recollect.v1 import external_communication_pb2 as pb

from recollect_server.domain.external import (
    Communication,
    Direction,
    Escalation,
    ExternalMessage,
    Trust,
)
from recollect_server.services.external.external import Match
from recollect_server.transport.convert import optional_timestamp, timestamp

TRUSTS = {
    pb.TRUST_UNTRUSTED: Trust.UNTRUSTED,
    pb.TRUST_KNOWN: Trust.KNOWN,
    pb.TRUST_BLOCKED: Trust.BLOCKED,
}
TRUST_NUMBERS = {trust: number for number, trust in TRUSTS.items()}
_DIRECTIONS = {Direction.INBOUND: pb.DIRECTION_INBOUND, Direction.OUTBOUND: pb.DIRECTION_OUTBOUND}


def communication_to(communication: Communication) -> pb.ExternalCommunication:
    return pb.ExternalCommunication(
        id=communication.id,
        channel=communication.channel,
        party=communication.party,
        trust=TRUST_NUMBERS[communication.trust],
        scopes=communication.scopes,
        create_time=timestamp(communication.create_time),
        update_time=timestamp(communication.update_time),
        message_count=communication.message_count,
        open_escalations=len(communication.open),
        party_name=communication.party_name,
        subject=communication.subject,
        acknowledged=communication.acknowledged,
    )


def external_message_to(message: ExternalMessage) -> pb.ExternalMessage:
    mail = message.origin.email
    return pb.ExternalMessage(
        sequence=message.sequence,
        direction=_DIRECTIONS[message.direction],
        text=message.text,
        timestamp=timestamp(message.timestamp),
        attachments=[
            message_pb2.Attachment(
                media_type=it.media_type, uri=it.uri, bytes_length=it.bytes_length
            )
            for it in message.attachments
        ],
        provider_message_id=message.provider_message_id,
        scope=message.scope,
        sender_name=message.origin.sender_name,
        group_id=message.origin.group_id,
        thread_id=message.origin.thread_id,
        acknowledgement=message.acknowledgement,
        email=None
        if mail is None
        else pb.EmailHeaders(
            message_id=mail.message_id,
            in_reply_to=mail.in_reply_to,
            references=mail.references,
            subject=mail.subject,
        ),
    )


def match_to(match: Match) -> pb.CommunicationMatch:
    """Return a search hit as a message of the contract."""
    return pb.CommunicationMatch(
        communication=communication_to(match.communication),
        sequence=match.message.sequence,
        direction=_DIRECTIONS[match.message.direction],
        timestamp=timestamp(match.message.timestamp),
        snippet=match.snippet,
        score=match.score,
    )


def escalation_to(escalation: Escalation) -> pb.Escalation:
    return pb.Escalation(
        id=escalation.id,
        communication_id=escalation.communication_id,
        sequence=escalation.sequence,
        question=escalation.question,
        answer=escalation.answer,
        create_time=timestamp(escalation.create_time),
        resolve_time=optional_timestamp(escalation.resolve_time),
    )

"""External communications of the contract into what a user holds."""

from recollect._shared.read import moment
from recollect._types import external as types
from recollect._types.message import Attachment
from recollect.errors import InternalError
from recollect.v1 import external_communication_pb2 as pb
from recollect.v1 import external_communication_service_pb2 as api

TRUSTS = {
    pb.TRUST_UNTRUSTED: types.Trust.UNTRUSTED,
    pb.TRUST_KNOWN: types.Trust.KNOWN,
    pb.TRUST_BLOCKED: types.Trust.BLOCKED,
}
_DIRECTIONS = {
    pb.DIRECTION_INBOUND: types.Direction.INBOUND,
    pb.DIRECTION_OUTBOUND: types.Direction.OUTBOUND,
}


def communication(it: pb.ExternalCommunication) -> types.ExternalCommunication:
    """Return a communication."""
    return types.ExternalCommunication(
        id=it.id,
        channel=it.channel,
        party=it.party,
        trust=trust(it.trust),
        scopes=tuple(it.scopes),
        create_time=moment(it.create_time),
        update_time=moment(it.update_time),
        message_count=it.message_count,
        open_escalations=it.open_escalations,
        party_name=it.party_name,
        subject=it.subject,
        acknowledged=it.acknowledged,
    )


def trust(it: pb.Trust.ValueType) -> types.Trust:
    """Return a level of trust."""
    level = TRUSTS.get(it)
    if level is None:
        raise InternalError(f"the server answered a trust that this client does not know: {it}")
    return level


def message(it: pb.ExternalMessage) -> types.ExternalMessage:
    """Return a stored message."""
    return types.ExternalMessage(
        sequence=it.sequence,
        direction=_direction(it.direction),
        text=it.text,
        timestamp=moment(it.timestamp),
        attachments=tuple(
            Attachment(file.media_type, file.uri, file.bytes_length) for file in it.attachments
        ),
        provider_message_id=it.provider_message_id,
        scope=it.scope,
        sender_name=it.sender_name,
        email=_headers(it.email) if it.HasField("email") else None,
        group_id=it.group_id,
        thread_id=it.thread_id,
        acknowledgement=it.acknowledgement,
    )


def search(it: api.SearchCommunicationsResponse) -> types.CommunicationSearch:
    """Return the answer to SearchCommunications."""
    return types.CommunicationSearch(
        matches=tuple(map(_match, it.matches)), total_matches=it.total_matches
    )


def _match(it: pb.CommunicationMatch) -> types.CommunicationMatch:
    return types.CommunicationMatch(
        communication=communication(it.communication),
        sequence=it.sequence,
        direction=_direction(it.direction),
        timestamp=moment(it.timestamp),
        snippet=it.snippet,
        score=it.score,
    )


def _headers(it: pb.EmailHeaders) -> types.EmailHeaders:
    return types.EmailHeaders(
        message_id=it.message_id,
        in_reply_to=it.in_reply_to,
        references=tuple(it.references),
        subject=it.subject,
    )


def _direction(it: pb.Direction.ValueType) -> types.Direction:
    direction = _DIRECTIONS.get(it)
    if direction is None:
        raise InternalError(f"the server answered a direction that this client does not know: {it}")
    return direction


def escalation(it: pb.Escalation) -> types.Escalation:
    """Return an escalation."""
    return types.Escalation(
        id=it.id,
        communication_id=it.communication_id,
        sequence=it.sequence,
        question=it.question,
        answer=it.answer,
        create_time=moment(it.create_time),
        resolve_time=moment(it.resolve_time) if it.HasField("resolve_time") else None,
    )


def communication_page(it: api.ListCommunicationsResponse) -> types.CommunicationPage:
    """Return a page of communications."""
    return types.CommunicationPage(
        communications=tuple(map(communication, it.communications)),
        next_page_token=it.next_page_token,
    )


def escalation_page(it: api.ListEscalationsResponse) -> types.EscalationPage:
    """Return a page of escalations."""
    return types.EscalationPage(
        escalations=tuple(map(escalation, it.escalations)), next_page_token=it.next_page_token
    )


def loaded_communication(it: api.GetCommunicationResponse) -> types.LoadedCommunication:
    """Return a communication with a page of its messages."""
    return types.LoadedCommunication(
        communication=communication(it.communication),
        messages=tuple(map(message, it.messages)),
        next_page_token=it.next_page_token,
    )


def recorded_reply(it: api.RecordReplyResponse) -> types.RecordedReply:
    """Return a stored reply."""
    return types.RecordedReply(
        communication=communication(it.communication), message=message(it.message)
    )


def updates(
    it: api.StreamCommunicationUpdatesResponse,
) -> list[tuple[str, types.CommunicationUpdate | None]]:
    """Return the updates of one element of a stream, each with its cursor; None stands for one that
    carries a cursor alone.
    """
    return [(it.update.cursor, _update(it.update))]


def _update(it: pb.CommunicationUpdate) -> types.CommunicationUpdate | None:
    kind = _kind(it)
    if kind is None:
        return None
    return types.CommunicationUpdate(
        cursor=it.cursor,
        communication_id=it.communication_id,
        time=moment(it.time),
        reset=it.reset,
        kind=kind,
    )


def _kind(
    it: pb.CommunicationUpdate,
) -> (
    types.CommunicationList
    | types.CommunicationMessage
    | types.CommunicationChanged
    | types.CommunicationEscalated
    | None
):
    match it.WhichOneof("kind"):
        case "communication_list":
            return types.CommunicationList(
                communications=tuple(map(communication, it.communication_list.communications))
            )
        case "communication_message":
            incoming = it.communication_message
            return types.CommunicationMessage(
                communication=communication(incoming.communication),
                message=message(incoming.message) if incoming.HasField("message") else None,
            )
        case "communication_changed":
            return types.CommunicationChanged(
                communication=communication(it.communication_changed.communication)
            )
        case "communication_escalated":
            return types.CommunicationEscalated(
                escalation=escalation(it.communication_escalated.escalation)
            )
        case _:
            return None

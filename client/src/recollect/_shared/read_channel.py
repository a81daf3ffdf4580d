"""Answers of ChannelService into what a user holds."""

from recollect._shared.read import conversation, message, moment
from recollect._types import channel, external
from recollect._types.message import Attachment
from recollect.errors import InternalError
from recollect.v1 import channel_pb2, channel_service_pb2, external_communication_pb2

_TRUSTS = {
    external_communication_pb2.TRUST_UNTRUSTED: external.Trust.UNTRUSTED,
    external_communication_pb2.TRUST_KNOWN: external.Trust.KNOWN,
    external_communication_pb2.TRUST_BLOCKED: external.Trust.BLOCKED,
}
_DIRECTIONS = {
    external_communication_pb2.DIRECTION_INBOUND: external.Direction.INBOUND,
    external_communication_pb2.DIRECTION_OUTBOUND: external.Direction.OUTBOUND,
}


def received(it: channel_service_pb2.ReceiveResponse) -> channel.Received:
    """The answer to Receive."""
    outcome: channel.StoredInConversation | channel.CommandReply | channel.ReceivedExternal | None = None
    match it.WhichOneof("outcome"):
        case "conversation":
            outcome = channel.StoredInConversation(
                conversation=conversation(it.conversation.conversation),
                messages=tuple(map(message, it.conversation.messages)),
            )
        case "command_reply":
            outcome = channel.CommandReply(text=it.command_reply.text, conversation=conversation(it.command_reply.conversation))
        case "external":
            outcome = _external(it.external)
    return channel.Received(outcome=outcome, duplicate=it.duplicate)


def command_reply(it: channel_service_pb2.RunCommandResponse) -> channel.CommandReply:
    """The answer to RunCommand."""
    return channel.CommandReply(text=it.reply, conversation=conversation(it.conversation))


def identity(it: channel_pb2.OwnerIdentity) -> channel.OwnerIdentity:
    """An address of an owner."""
    return channel.OwnerIdentity(it.channel, it.identity, it.person)


def identities(
    it: channel_service_pb2.ListOwnerIdentitiesResponse | channel_service_pb2.LinkIdentitiesResponse,
) -> tuple[channel.OwnerIdentity, ...]:
    """Several."""
    return tuple(map(identity, it.identities))


def communication(it: external_communication_pb2.ExternalCommunication) -> external.ExternalCommunication:
    """An external communication, without its messages."""
    if it.trust not in _TRUSTS:
        raise InternalError(f"the server answered trust {it.trust}, which this client is too old to know")
    return external.ExternalCommunication(
        id=it.id,
        channel=it.channel,
        party=it.party,
        trust=_TRUSTS[it.trust],
        scopes=tuple(it.scopes),
        create_time=moment(it.create_time),
        update_time=moment(it.update_time),
        message_count=it.message_count,
        open_escalations=it.open_escalations,
    )


def external_message(it: external_communication_pb2.ExternalMessage) -> external.ExternalMessage:
    """A message of an external communication."""
    if it.direction not in _DIRECTIONS:
        raise InternalError(f"the server answered direction {it.direction}, which this client is too old to know")
    return external.ExternalMessage(
        sequence=it.sequence,
        direction=_DIRECTIONS[it.direction],
        text=it.text,
        timestamp=moment(it.timestamp),
        attachments=tuple(Attachment(file.media_type, file.uri, file.bytes_length) for file in it.attachments),
        provider_message_id=it.provider_message_id,
    )


def escalation(it: external_communication_pb2.Escalation) -> external.Escalation:
    """A question to the owner."""
    return external.Escalation(
        id=it.id,
        communication_id=it.communication_id,
        sequence=it.sequence,
        question=it.question,
        answer=it.answer,
        create_time=moment(it.create_time),
        resolve_time=moment(it.resolve_time) if it.HasField("resolve_time") else None,
    )


def _external(it: channel_pb2.ReceivedExternal) -> channel.ReceivedExternal:
    return channel.ReceivedExternal(
        communication=communication(it.communication),
        message=external_message(it.message),
        escalation=escalation(it.escalation) if it.HasField("escalation") else None,
    )

"""Answers of ChannelService into what a user holds."""

from recollect._shared import read_external
from recollect._shared.read import conversation, message
from recollect._types import channel
from recollect.v1 import channel_pb2, channel_service_pb2


def received(it: channel_service_pb2.ReceiveResponse) -> channel.Received:
    """Return the answer to Receive."""
    outcome: (
        channel.StoredInConversation | channel.CommandReply | channel.ReceivedExternal | None
    ) = None
    match it.WhichOneof("outcome"):
        case "conversation":
            outcome = channel.StoredInConversation(
                conversation=conversation(it.conversation.conversation),
                messages=tuple(map(message, it.conversation.messages)),
            )
        case "command_reply":
            outcome = channel.CommandReply(
                text=it.command_reply.text, conversation=conversation(it.command_reply.conversation)
            )
        case "external":
            outcome = _external(it.external)
    return channel.Received(outcome=outcome, duplicate=it.duplicate)


def command_reply(it: channel_service_pb2.RunCommandResponse) -> channel.CommandReply:
    """Return the answer to RunCommand."""
    return channel.CommandReply(text=it.reply, conversation=conversation(it.conversation))


def identity(it: channel_pb2.OwnerIdentity) -> channel.OwnerIdentity:
    """Return an address of an owner."""
    return channel.OwnerIdentity(it.channel, it.identity, it.person)


def identities(
    it: channel_service_pb2.ListOwnerIdentitiesResponse
    | channel_service_pb2.LinkIdentitiesResponse,
) -> tuple[channel.OwnerIdentity, ...]:
    """Return addresses of owners."""
    return tuple(map(identity, it.identities))


def _external(it: channel_pb2.ReceivedExternal) -> channel.ReceivedExternal:
    return channel.ReceivedExternal(
        communication=read_external.communication(it.communication),
        message=read_external.message(it.message),
        escalation=read_external.escalation(it.escalation) if it.HasField("escalation") else None,
        acknowledgement=it.acknowledgement,
    )

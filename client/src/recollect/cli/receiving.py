"""ChannelService.Receive, as a message typed on this command line makes it."""

import uuid
from dataclasses import dataclass

from recollect import Client, Conversation, InternalError, Message
from recollect._shared import read
from recollect._shared.fill import fill
from recollect._shared.rpc import Call, Method
from recollect.v1 import channel_pb2
from recollect.v1 import channel_service_pb2 as pb

CHANNEL = "cli"

_RECEIVE = Method(
    pb.DESCRIPTOR.services_by_name["ChannelService"],
    "Receive",
    pb.ReceiveRequest,
    pb.ReceiveResponse,
)


@dataclass(frozen=True, slots=True)
class Received:
    """What became of what was typed."""

    conversation: Conversation
    """The conversation now in use."""
    messages: tuple[Message, ...] = ()
    """What was stored. Empty if it was a command."""
    reply: str = ""
    """What a command answered."""


def receive(client: Client, session_name: str, text: str) -> Received:
    """Hands what was typed to the server: a slash command is answered, anything else joins `cli:SESSION_NAME`.

    A retry of the client stores nothing twice. Raises RecollectError.
    """
    request = fill(
        pb.ReceiveRequest(),
        channel=CHANNEL,
        provider_message_id=uuid.uuid4().hex,
        text=text,
        cli=channel_pb2.CliOrigin(session_name=session_name),
    )
    return client._invoker.run(Call(_RECEIVE, request, _received), None)


def _received(response: pb.ReceiveResponse) -> Received:
    match response.WhichOneof("outcome"):
        case "conversation":
            stored = response.conversation
            return Received(read.conversation(stored.conversation), tuple(map(read.message, stored.messages)))
        case "command_reply":
            return Received(read.conversation(response.command_reply.conversation), reply=response.command_reply.text)
        case other:
            raise InternalError(f"the server answered {other} to what was typed on the command line")

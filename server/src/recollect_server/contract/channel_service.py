"""ChannelService: inbound messages, slash commands and addresses of owners."""

from recollect.v1 import channel_pb2
from recollect.v1 import channel_service_pb2 as api

from recollect_server.channels.commands import Replied
from recollect_server.channels.receiving import ReceiveResult, Receiving, StoredMessages
from recollect_server.contract.convert import (
    attachments_from,
    communication_to,
    escalation_to,
    external_message_to,
    fill_conversation,
    fill_with_messages,
    optional_milliseconds,
)
from recollect_server.contract.handling import Call
from recollect_server.people import communication_service as external
from recollect_server.people.identities import Identities, Identity
from recollect_server.people.routing import (
    CliOrigin,
    DiscordOrigin,
    EmailOrigin,
    Inbound,
    Origin,
    WebOrigin,
    WhatsappOrigin,
)
from recollect_server.text.addresses import display_name, name_in, normal_address


class ChannelHandlers:
    def __init__(self, receiving: Receiving, identities: Identities) -> None:
        self._receiving = receiving
        self._identities = identities

    def Receive(self, request: api.ReceiveRequest, call: Call) -> api.ReceiveResponse:
        sender = normal_address(request.channel, request.sender)
        return received_to(self._receiving.receive(inbound_from(request, sender)))

    def RunCommand(self, request: api.RunCommandRequest, call: Call) -> api.RunCommandResponse:
        replied = self._receiving.run_command(
            request.conversation_id, request.text, request.request_id, call.principal.channel
        )
        answer = api.RunCommandResponse(reply=replied.text)
        fill_conversation(answer.conversation, replied.conversation)
        return answer

    def AddOwnerIdentity(
        self, request: api.AddOwnerIdentityRequest, call: Call
    ) -> api.AddOwnerIdentityResponse:
        address = normal_address(request.channel, request.identity)
        added = self._identities.add(
            request.channel, address, request.person.strip(), request.request_id
        )
        return api.AddOwnerIdentityResponse(identity=identity_to(added))

    def RemoveOwnerIdentity(
        self, request: api.RemoveOwnerIdentityRequest, call: Call
    ) -> api.RemoveOwnerIdentityResponse:
        address = normal_address(request.channel, request.identity)
        removed = self._identities.remove(request.channel, address, request.request_id)
        return api.RemoveOwnerIdentityResponse(identity=identity_to(removed))

    def ListOwnerIdentities(
        self, request: api.ListOwnerIdentitiesRequest, call: Call
    ) -> api.ListOwnerIdentitiesResponse:
        identities = self._identities.listed(request.channel, request.person.strip())
        return api.ListOwnerIdentitiesResponse(identities=map(identity_to, identities))

    def LinkIdentities(
        self, request: api.LinkIdentitiesRequest, call: Call
    ) -> api.LinkIdentitiesResponse:
        person = request.person.strip()
        them = [(it.channel, normal_address(it.channel, it.identity)) for it in request.identities]
        linked = self._identities.link(person, list(dict.fromkeys(them)), request.request_id)
        return api.LinkIdentitiesResponse(identities=map(identity_to, linked))

    def UnlinkIdentity(
        self, request: api.UnlinkIdentityRequest, call: Call
    ) -> api.UnlinkIdentityResponse:
        address = normal_address(request.channel, request.identity)
        unlinked = self._identities.unlink(request.channel, address, request.request_id)
        return api.UnlinkIdentityResponse(identity=identity_to(unlinked))


def inbound_from(request: api.ReceiveRequest, sender: str) -> Inbound:
    """Return the domain type of an inbound message, whose sender is given in normal form."""
    return Inbound(
        request.channel,
        request.provider_message_id,
        sender,
        request.text,
        attachments_from(request.attachments),
        optional_milliseconds(request, "time"),
        _origin_from(request),
        display_name(request.sender_name) or name_in(request.channel, request.sender),
        display_name(request.group_name),
    )


def _origin_from(request: api.ReceiveRequest) -> Origin | None:
    match request.WhichOneof("origin"):
        case "whatsapp":
            return WhatsappOrigin(request.whatsapp.group_id)
        case "email":
            mail = request.email
            return EmailOrigin(
                mail.message_id, mail.in_reply_to, tuple(mail.references), mail.subject
            )
        case "discord":
            place = request.discord.WhichOneof("place") or ""
            return DiscordOrigin(place.partition("_")[0], getattr(request.discord, place).strip())
        case "cli":
            return CliOrigin(request.cli.session_name)
        case "web":
            return WebOrigin(request.web.conversation_id)
    return None


def received_to(received: ReceiveResult) -> api.ReceiveResponse:
    """Return the outcome of an inbound message as a response."""
    answer = api.ReceiveResponse(duplicate=received.duplicate)
    match received.outcome:
        case StoredMessages(conversation=conversation, messages=messages):
            fill_with_messages(answer.conversation, conversation, messages)
        case Replied(text=text, conversation=conversation):
            answer.command_reply.text = text
            fill_conversation(answer.command_reply.conversation, conversation)
        case external.Received(
            communication=communication,
            message=message,
            escalation=escalation,
            acknowledgement=acknowledgement,
        ):
            answer.external.communication.CopyFrom(communication_to(communication))
            answer.external.message.CopyFrom(external_message_to(message))
            if escalation is not None:
                answer.external.escalation.CopyFrom(escalation_to(escalation))
            answer.external.acknowledgement = acknowledgement
    return answer


def identity_to(identity: Identity) -> channel_pb2.OwnerIdentity:
    """Return an owner's identity as a message of the contract."""
    return channel_pb2.OwnerIdentity(
        channel=identity.channel, identity=identity.address, person=identity.person
    )

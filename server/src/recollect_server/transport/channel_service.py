"""ChannelService: check, call, convert, return."""

import grpc
from recollect.v1 import channel_pb2
from recollect.v1 import channel_service_pb2 as api

from recollect_server.domain.addresses import normal_address
from recollect_server.domain.identity import Identity
from recollect_server.domain.time import Clock
from recollect_server.services.channels.commands import Replied
from recollect_server.services.channels.identities import Identities
from recollect_server.services.channels.receiving import Received, Receiving, Stored
from recollect_server.services.external import external
from recollect_server.transport.channel_checks import check_inbound
from recollect_server.transport.checks import Checks, Limits
from recollect_server.transport.convert import fill_conversation, fill_message, inbound_from
from recollect_server.transport.convert_external import communication_to, escalation_to, external_message_to

_MAX_ADDRESS = 320
_MAX_PERSON = 256
_MAX_LINKED = 64
_MAX_COMMAND = 1024


class ChannelHandlers:
    """The handlers of ChannelService."""

    def __init__(self, receiving: Receiving, identities: Identities, limits: Limits, clock: Clock) -> None:
        self._receiving = receiving
        self._identities = identities
        self._limits = limits
        self._clock = clock

    def Receive(self, request: api.ReceiveRequest, context: grpc.ServicerContext) -> api.ReceiveResponse:
        """Takes an inbound message."""
        checks = Checks()
        sender = check_inbound(checks, request, self._limits, self._clock())
        checks.done()
        return _answer(self._receiving.receive(inbound_from(request, sender)))

    def RunCommand(self, request: api.RunCommandRequest, context: grpc.ServicerContext) -> api.RunCommandResponse:
        """Runs a slash command."""
        checks = Checks()
        checks.conversation_id("conversation_id", request.conversation_id)
        checks.text("text", request.text, least=1, most=_MAX_COMMAND)
        checks.request_id(request.request_id)
        checks.done()
        replied = self._receiving.run_command(request.conversation_id, request.text, request.request_id)
        answer = api.RunCommandResponse(reply=replied.text)
        fill_conversation(answer.conversation, replied.conversation)
        return answer

    def AddOwnerIdentity(self, request: api.AddOwnerIdentityRequest, context: grpc.ServicerContext) -> api.AddOwnerIdentityResponse:
        """Adds an owner's address."""
        checks = Checks()
        address = _address(checks, request)
        checks.text("person", request.person, most=_MAX_PERSON)
        checks.done()
        added = self._identities.add(request.channel, address, request.person.strip(), request.request_id)
        return api.AddOwnerIdentityResponse(identity=_identity_to(added))

    def RemoveOwnerIdentity(
        self, request: api.RemoveOwnerIdentityRequest, context: grpc.ServicerContext
    ) -> api.RemoveOwnerIdentityResponse:
        """Removes an owner's address."""
        checks = Checks()
        address = _address(checks, request)
        checks.done()
        removed = self._identities.remove(request.channel, address, request.request_id)
        return api.RemoveOwnerIdentityResponse(identity=_identity_to(removed))

    def ListOwnerIdentities(
        self, request: api.ListOwnerIdentitiesRequest, context: grpc.ServicerContext
    ) -> api.ListOwnerIdentitiesResponse:
        """The owner's addresses."""
        checks = Checks()
        checks.label("channel", request.channel)
        checks.text("person", request.person, most=_MAX_PERSON)
        checks.done()
        found = self._identities.listed(request.channel, request.person.strip())
        return api.ListOwnerIdentitiesResponse(identities=map(_identity_to, found))

    def LinkIdentities(self, request: api.LinkIdentitiesRequest, context: grpc.ServicerContext) -> api.LinkIdentitiesResponse:
        """Says that addresses are one person's."""
        checks = Checks()
        person = request.person.strip()
        checks.text("person", person, least=1, most=_MAX_PERSON)
        if not 1 <= len(request.identities) <= _MAX_LINKED:
            checks.refuse("identities", f"has {len(request.identities)} entries; 1 to {_MAX_LINKED} are allowed")
        them = [
            (it.channel, _address_at(checks, it.channel, it.identity, f"identities[{index}]."))
            for index, it in enumerate(request.identities[:_MAX_LINKED])
        ]
        checks.request_id(request.request_id)
        checks.done()
        linked = self._identities.link(person, list(dict.fromkeys(them)), request.request_id)
        return api.LinkIdentitiesResponse(identities=map(_identity_to, linked))

    def UnlinkIdentity(self, request: api.UnlinkIdentityRequest, context: grpc.ServicerContext) -> api.UnlinkIdentityResponse:
        """Takes an address out of its person."""
        checks = Checks()
        address = _address(checks, request)
        checks.done()
        unlinked = self._identities.unlink(request.channel, address, request.request_id)
        return api.UnlinkIdentityResponse(identity=_identity_to(unlinked))


def _address(
    checks: Checks, request: api.AddOwnerIdentityRequest | api.RemoveOwnerIdentityRequest | api.UnlinkIdentityRequest
) -> str:
    checks.request_id(request.request_id)
    return _address_at(checks, request.channel, request.identity, "")


def _address_at(checks: Checks, channel: str, text: str, path: str) -> str:
    """The address in its normal form."""
    checks.label(f"{path}channel", channel, required=True)
    checks.text(f"{path}identity", text, least=1, most=_MAX_ADDRESS)
    address = normal_address(channel, text)
    if text and not address:
        checks.refuse(f"{path}identity", f"is no address on {channel}")
    return address


def _answer(received: Received) -> api.ReceiveResponse:
    answer = api.ReceiveResponse(duplicate=received.duplicate)
    match received.outcome:
        case Stored(conversation=conversation, messages=messages):
            fill_conversation(answer.conversation.conversation, conversation)
            for message in messages:
                fill_message(answer.conversation.messages.add(), message)
        case Replied(text=text, conversation=conversation):
            answer.command_reply.text = text
            fill_conversation(answer.command_reply.conversation, conversation)
        case external.Received(communication=communication, message=message, escalation=escalation):
            answer.external.communication.CopyFrom(communication_to(communication))
            answer.external.message.CopyFrom(external_message_to(message))
            if escalation is not None:
                answer.external.escalation.CopyFrom(escalation_to(escalation))
        case None:
            pass
    return answer


def _identity_to(identity: Identity) -> channel_pb2.OwnerIdentity:
    return channel_pb2.OwnerIdentity(channel=identity.channel, identity=identity.address, person=identity.person)

"""ChannelService: inbound messages, slash commands and addresses of owners."""

from recollect.v1 import channel_service_pb2 as api

from recollect_server.domain.addresses import normal_address
from recollect_server.services.channels.identities import Identities
from recollect_server.services.channels.receiving import Receiving
from recollect_server.transport.convert import fill_conversation
from recollect_server.transport.convert_channel import identity_to, inbound_from, received_to
from recollect_server.transport.handling import Call


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

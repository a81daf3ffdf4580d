"""ChannelService: check, call, convert, return."""

from recollect.v1 import channel_service_pb2 as api

from recollect_server.domain.time import Clock
from recollect_server.services.channels.identities import Identities
from recollect_server.services.channels.receiving import Receiving
from recollect_server.transport.checks import MAX_NAME, Checks, Limits
from recollect_server.transport.checks_channel import check_address, check_declared, check_inbound
from recollect_server.transport.convert import fill_conversation
from recollect_server.transport.convert_channel import identity_to, inbound_from, received_to
from recollect_server.transport.handling import Call

_MAX_LINKED = 64
_MAX_COMMAND = 1024


class ChannelHandlers:
    """The handlers of ChannelService."""

    def __init__(
        self, receiving: Receiving, identities: Identities, limits: Limits, clock: Clock
    ) -> None:
        self._receiving = receiving
        self._identities = identities
        self._limits = limits
        self._clock = clock

    def Receive(self, request: api.ReceiveRequest, call: Call) -> api.ReceiveResponse:
        """Handle an inbound message."""
        checks = Checks()
        sender = check_inbound(checks, request, self._limits, self._clock())
        checks.done()
        return received_to(self._receiving.receive(inbound_from(request, sender)))

    def RunCommand(self, request: api.RunCommandRequest, call: Call) -> api.RunCommandResponse:
        """Run a slash command."""
        checks = Checks()
        checks.conversation_id("conversation_id", request.conversation_id)
        checks.text("text", request.text, least=1, most=_MAX_COMMAND)
        checks.request_id(request.request_id)
        checks.done()
        replied = self._receiving.run_command(
            request.conversation_id, request.text, request.request_id, call.principal.channel
        )
        answer = api.RunCommandResponse(reply=replied.text)
        fill_conversation(answer.conversation, replied.conversation)
        return answer

    def AddOwnerIdentity(
        self, request: api.AddOwnerIdentityRequest, call: Call
    ) -> api.AddOwnerIdentityResponse:
        """Add an address of the owner."""
        checks = Checks()
        address = check_address(checks, "", request.channel, request.identity)
        check_declared(checks, "identity", request.channel, address)
        checks.request_id(request.request_id)
        checks.text("person", request.person, most=MAX_NAME)
        checks.done()
        added = self._identities.add(
            request.channel, address, request.person.strip(), request.request_id
        )
        return api.AddOwnerIdentityResponse(identity=identity_to(added))

    def RemoveOwnerIdentity(
        self, request: api.RemoveOwnerIdentityRequest, call: Call
    ) -> api.RemoveOwnerIdentityResponse:
        """Remove an address of the owner."""
        checks = Checks()
        address = check_address(checks, "", request.channel, request.identity)
        checks.request_id(request.request_id)
        checks.done()
        removed = self._identities.remove(request.channel, address, request.request_id)
        return api.RemoveOwnerIdentityResponse(identity=identity_to(removed))

    def ListOwnerIdentities(
        self, request: api.ListOwnerIdentitiesRequest, call: Call
    ) -> api.ListOwnerIdentitiesResponse:
        """List the owner's addresses."""
        checks = Checks()
        checks.label("channel", request.channel)
        checks.text("person", request.person, most=MAX_NAME)
        checks.done()
        identities = self._identities.listed(request.channel, request.person.strip())
        return api.ListOwnerIdentitiesResponse(identities=map(identity_to, identities))

    def LinkIdentities(
        self, request: api.LinkIdentitiesRequest, call: Call
    ) -> api.LinkIdentitiesResponse:
        """Record that addresses belong to one person."""
        checks = Checks()
        person = request.person.strip()
        checks.text("person", person, least=1, most=MAX_NAME)
        checks.count("identities", request.identities, _MAX_LINKED, least=1)
        them = [
            (it.channel, check_address(checks, f"identities[{index}].", it.channel, it.identity))
            for index, it in enumerate(request.identities[:_MAX_LINKED])
        ]
        checks.request_id(request.request_id)
        checks.done()
        linked = self._identities.link(person, list(dict.fromkeys(them)), request.request_id)
        return api.LinkIdentitiesResponse(identities=map(identity_to, linked))

    def UnlinkIdentity(
        self, request: api.UnlinkIdentityRequest, call: Call
    ) -> api.UnlinkIdentityResponse:
        """Unlink an address from its person."""
        checks = Checks()
        address = check_address(checks, "", request.channel, request.identity)
        checks.request_id(request.request_id)
        checks.done()
        unlinked = self._identities.unlink(request.channel, address, request.request_id)
        return api.UnlinkIdentityResponse(identity=identity_to(unlinked))

"""The calls of ChannelService."""

from collections.abc import Iterable
from datetime import datetime

from recollect._shared import read_channel as read
from recollect._shared.calls import parts
from recollect._shared.fill import fill, invalid
from recollect._shared.rpc import Call, Method
from recollect._types.channel import (
    CliOrigin,
    CommandReply,
    DiscordOrigin,
    EmailOrigin,
    OwnerIdentity,
    Received,
    WebOrigin,
    WhatsappOrigin,
)
from recollect._types.message import Attachment
from recollect.v1 import channel_pb2
from recollect.v1 import channel_service_pb2 as pb

_SERVICE = pb.DESCRIPTOR.services_by_name["ChannelService"]
_RECEIVE = Method(_SERVICE, "Receive", pb.ReceiveRequest, pb.ReceiveResponse)
_RUN_COMMAND = Method(_SERVICE, "RunCommand", pb.RunCommandRequest, pb.RunCommandResponse)
_ADD = Method(_SERVICE, "AddOwnerIdentity", pb.AddOwnerIdentityRequest, pb.AddOwnerIdentityResponse)
_REMOVE = Method(
    _SERVICE, "RemoveOwnerIdentity", pb.RemoveOwnerIdentityRequest, pb.RemoveOwnerIdentityResponse
)
_LIST = Method(
    _SERVICE, "ListOwnerIdentities", pb.ListOwnerIdentitiesRequest, pb.ListOwnerIdentitiesResponse
)
_LINK = Method(_SERVICE, "LinkIdentities", pb.LinkIdentitiesRequest, pb.LinkIdentitiesResponse)
_UNLINK = Method(_SERVICE, "UnlinkIdentity", pb.UnlinkIdentityRequest, pb.UnlinkIdentityResponse)

Origin = WhatsappOrigin | EmailOrigin | DiscordOrigin | CliOrigin | WebOrigin
"""The place on a channel that a message came from."""
Named = OwnerIdentity | tuple[str, str]
"""An identity, or a channel and an address there."""


def receive(
    channel: str,
    provider_message_id: str,
    text: str,
    sender: str | None,
    attachments: Iterable[Attachment],
    time: datetime | None,
    origin: Origin | None,
    sender_name: str | None,
) -> Call[pb.ReceiveRequest, pb.ReceiveResponse, Received]:
    """Return the call of Receive."""
    request = fill(
        pb.ReceiveRequest(),
        channel=channel,
        provider_message_id=provider_message_id,
        text=text,
        sender=sender,
        attachments=parts.attachments(attachments, "attachments"),
        time=time,
        sender_name=sender_name,
    )
    _fill_origin(request, origin)
    return Call(_RECEIVE, request, read.received)


def run_command(
    conversation_id: str, text: str, request_id: str | None
) -> Call[pb.RunCommandRequest, pb.RunCommandResponse, CommandReply]:
    """Return the call of RunCommand."""
    request = fill(
        pb.RunCommandRequest(),
        conversation_id=conversation_id,
        text=text,
        request_id=parts.request_id(request_id),
    )
    return Call(_RUN_COMMAND, request, read.command_reply)


def add_owner_identity(
    channel: str, identity: str, person: str | None, request_id: str | None
) -> Call[pb.AddOwnerIdentityRequest, pb.AddOwnerIdentityResponse, OwnerIdentity]:
    """Return the call of AddOwnerIdentity."""
    request = fill(
        pb.AddOwnerIdentityRequest(),
        channel=channel,
        identity=identity,
        person=person,
        request_id=parts.request_id(request_id),
    )
    return Call(_ADD, request, lambda response: read.identity(response.identity))


def remove_owner_identity(
    channel: str, identity: str, request_id: str | None
) -> Call[pb.RemoveOwnerIdentityRequest, pb.RemoveOwnerIdentityResponse, OwnerIdentity]:
    """Return the call of RemoveOwnerIdentity."""
    request = fill(
        pb.RemoveOwnerIdentityRequest(),
        channel=channel,
        identity=identity,
        request_id=parts.request_id(request_id),
    )
    return Call(_REMOVE, request, lambda response: read.identity(response.identity))


def list_owner_identities(
    channel: str | None, person: str | None
) -> Call[pb.ListOwnerIdentitiesRequest, pb.ListOwnerIdentitiesResponse, tuple[OwnerIdentity, ...]]:
    """Return the call of ListOwnerIdentities."""
    request = fill(pb.ListOwnerIdentitiesRequest(), channel=channel, person=person)
    return Call(_LIST, request, read.identities)


def link_identities(
    person: str, identities: Iterable[Named], request_id: str | None
) -> Call[pb.LinkIdentitiesRequest, pb.LinkIdentitiesResponse, tuple[OwnerIdentity, ...]]:
    """Return the call of LinkIdentities."""
    named = [_named(it, f"identities[{index}]") for index, it in enumerate(identities)]
    request = fill(
        pb.LinkIdentitiesRequest(),
        person=person,
        identities=named,
        request_id=parts.request_id(request_id),
    )
    return Call(_LINK, request, read.identities)


def unlink_identity(
    channel: str, identity: str, request_id: str | None
) -> Call[pb.UnlinkIdentityRequest, pb.UnlinkIdentityResponse, OwnerIdentity]:
    """Return the call of UnlinkIdentity."""
    request = fill(
        pb.UnlinkIdentityRequest(),
        channel=channel,
        identity=identity,
        request_id=parts.request_id(request_id),
    )
    return Call(_UNLINK, request, lambda response: read.identity(response.identity))


def _named(it: Named, path: str) -> channel_pb2.OwnerIdentity:
    try:
        channel, identity = (it.channel, it.identity) if isinstance(it, OwnerIdentity) else it
    except (TypeError, ValueError):
        raise invalid(
            path, "must be a recollect.OwnerIdentity, or a channel and an address there"
        ) from None
    return fill(channel_pb2.OwnerIdentity(), f"{path}.", channel=channel, identity=identity)


def _fill_origin(request: pb.ReceiveRequest, origin: Origin | None) -> None:
    match origin:
        case None:
            return
        case WhatsappOrigin():
            request.whatsapp.SetInParent()
            fill(request.whatsapp, "whatsapp.", group_id=origin.group_id)
        case EmailOrigin():
            request.email.SetInParent()
            fill(
                request.email,
                "email.",
                message_id=origin.message_id,
                in_reply_to=origin.in_reply_to,
                references=origin.references,
                subject=origin.subject,
            )
        case DiscordOrigin():
            given = {
                name: value
                for name in ("dm_user_id", "channel_id", "thread_id")
                if (value := getattr(origin, name))
            }
            if len(given) > 1:
                raise invalid("discord", f"names one place, not {' and '.join(given)}")
            request.discord.SetInParent()
            fill(request.discord, "discord.", **given)
        case CliOrigin():
            request.cli.SetInParent()
            fill(request.cli, "cli.", session_name=origin.session_name)
        case WebOrigin():
            request.web.SetInParent()
            fill(request.web, "web.", conversation_id=origin.conversation_id)
        case _:
            raise invalid(
                "origin",
                f"must be a recollect.WhatsappOrigin, EmailOrigin, …, not {type(origin).__name__}",
            )

"""Checks of addresses and of inbound messages."""

from recollect.v1 import channel_pb2
from recollect.v1 import channel_service_pb2 as api

from recollect_server.domain.addresses import (
    MAX_DISPLAY_NAME,
    OWNERS_ALONE,
    WHATSAPP,
    is_address,
    normal_address,
    normal_message_ids,
)
from recollect_server.domain.text import breaks_line
from recollect_server.transport.checks import MAX_ADDRESS, Checks, Limits
from recollect_server.transport.checks_message import check_attachments

_MAX_ID = 998
_MAX_REFERENCES = 100
_MAX_SESSION = 128


def check_address(checks: Checks, path: str, channel: str, text: str) -> str:
    """Check an address on a channel, the fields `channel` and `identity` under a path, and return
    its normal form.
    """
    checks.label(f"{path}channel", channel, required=True)
    checks.text(f"{path}identity", text, least=1, most=MAX_ADDRESS)
    address = normal_address(channel, text)
    if text and not address:
        checks.refuse(f"{path}identity", f"is no address on {channel}")
    return address


def check_declared(checks: Checks, field: str, channel: str, address: str) -> None:
    """Check that somebody may have a normalised address, for it is kept until it is removed; an
    empty one, or one with NUL, is refused elsewhere.
    """
    if address and "\0" not in address and not is_address(channel, address):
        checks.refuse(
            field,
            f"is no address that somebody has on {channel}: a phone number"
            + (", or an id with its country or server" if channel == WHATSAPP else "")
            + (", a username with its number, or an account's id" if channel == "signal" else ""),
        )


def check_inbound(checks: Checks, request: api.ReceiveRequest, limits: Limits, now: int) -> str:
    """Check an inbound message, and return its sender in normal form. `now` is the server's clock
    in milliseconds.
    """
    checks.label("channel", request.channel, required=True)
    checks.text("provider_message_id", request.provider_message_id, least=1, most=_MAX_ID)
    checks.text("sender", request.sender, most=MAX_ADDRESS)
    checks.text("sender_name", request.sender_name, most=MAX_DISPLAY_NAME)
    sender = normal_address(request.channel, request.sender)
    if breaks_line(sender.replace("\0", "")):
        checks.refuse("sender", "has control characters or line ends inside")
    if not sender and request.channel not in OWNERS_ALONE:
        checks.refuse(
            "sender",
            f"is no address on {request.channel}"
            if request.sender
            else "is required on this channel",
        )
    size = request.ByteSize()
    if size > limits.message_bytes:
        checks.refuse(
            "text",
            f"the request has {size} bytes; at most {limits.message_bytes} are allowed"
            " (setting max_message_bytes)",
        )
    elif not request.text and not request.attachments:
        checks.refuse("text", "is empty, and there is no attachment")
    else:
        checks.no_nul("text", request.text)
    check_attachments(checks, "attachments", request.attachments)
    if request.HasField("time"):
        checks.moment("time", request.time, now)
    _origin(checks, request)
    return sender


def _origin(checks: Checks, request: api.ReceiveRequest) -> None:
    kind = request.WhichOneof("origin")
    if kind is not None and kind != request.channel:
        checks.refuse(kind, f"goes with the channel {kind}, and channel is {request.channel}")
        return
    match kind:
        case "whatsapp":
            checks.text("whatsapp.group_id", request.whatsapp.group_id, most=MAX_ADDRESS)
        case "email":
            _email(checks, request.email)
        case "discord":
            _discord(checks, request.discord)
        case "cli":
            checks.text("cli.session_name", request.cli.session_name, most=_MAX_SESSION)
            if request.cli.session_name != request.cli.session_name.strip():
                checks.refuse("cli.session_name", "has space around it")
        case "web":
            checks.conversation_id(
                "web.conversation_id", request.web.conversation_id, required=False
            )
        case None if request.channel == "email":
            checks.refuse("email", "is required on this channel")


def _email(checks: Checks, mail: channel_pb2.EmailOrigin) -> None:
    checks.text("email.message_id", mail.message_id, least=1, most=_MAX_ID)
    if mail.message_id and len(normal_message_ids(mail.message_id)) != 1:
        checks.refuse("email.message_id", "is not one Message-ID")
    checks.text("email.in_reply_to", mail.in_reply_to, most=_MAX_ID)
    checks.count("email.references", mail.references, _MAX_REFERENCES)
    for index, reference in enumerate(mail.references[:_MAX_REFERENCES]):
        checks.text(f"email.references[{index}]", reference, most=_MAX_ID)
    checks.text("email.subject", mail.subject, most=_MAX_ID)


def _discord(checks: Checks, origin: channel_pb2.DiscordOrigin) -> None:
    place = origin.WhichOneof("place")
    if place is None:
        checks.refuse("discord", "is required to name a place: dm_user_id, channel_id or thread_id")
    else:
        name: str = getattr(origin, place)
        checks.text(
            f"discord.{place}", name.strip(), least=1, most=MAX_ADDRESS - len("discord:channel:")
        )

"""Checks of requests, before anything is touched: the rules of the contract's fields (`rules`), and
what no rule of one field can say: fields that go together, settings, addresses.
"""

import sys
from collections.abc import Callable
from typing import Any, cast

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message as ProtoMessage
from recollect.v1 import (
    admin_service_pb2,
    channel_service_pb2,
    external_communication_service_pb2,
    recall_service_pb2,
    scope_pb2,
)
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1.external_communication_pb2 import TRUST_KNOWN
from recollect.v1.message_pb2 import ROLE_ASSISTANT, ROLE_TOOL, ROLE_USER, Message

from recollect_server.contract.convert import party_from
from recollect_server.contract.rules import Checks, SizeLimits, rules_of
from recollect_server.kernel.domain.time import DAY, Clock, zone_of
from recollect_server.people.routing import pinned_party
from recollect_server.retention.rule import parse_rules
from recollect_server.text.addresses import (
    OWNERS_ALONE,
    WEB,
    WHATSAPP,
    is_address,
    normal_address,
    normal_message_ids,
)
from recollect_server.text.text import breaks_line

_MAX_RANGE = 200
_MAX_OVERLAP = 366 * DAY
_LAST_SECOND = 253_370_764_800  # of the year 9998: the calendar needs a day behind the last one
_SCOPES = frozenset(scope_pb2.Scope.values()) - {
    scope_pb2.SCOPE_UNSPECIFIED,
    scope_pb2.SCOPE_ANY,
}
_LINE_ENDS = frozenset("\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")


def check(request: ProtoMessage, limits: SizeLimits, clock: Clock) -> None:
    """Raise InvalidField, which names everything that is wrong with a request."""
    checks = Checks(limits, clock)
    described = cast(Descriptor, request.DESCRIPTOR)
    if (rules := rules_of(described)) is not None:
        rules(checks, "", request)
    for field, is_wrong, description in _TOGETHER.get(described.name, ()):
        if is_wrong(request):
            checks.refuse(field, description)
    if (further := _FURTHER.get(described.name)) is not None:
        further(checks, request)
    if checks.violations:
        raise checks.error(described)


# Conversations ------------------------------------------------------------------------------------


def _create(checks: Checks, request: api.CreateRequest) -> None:
    _messages(checks, request)
    if request.pinned:
        placed = pinned_party(request.channel, party_from(request.party))
        if isinstance(placed, str):
            checks.refuse("pinned" if request.channel == WEB else "party", placed)


def _messages(checks: Checks, request: api.CreateRequest | api.AppendTurnRequest) -> None:
    """Check the sizes of a batch to append, and which fields of its messages go together."""
    total = 0
    has_calls = False
    empty: list[int] = []
    for index, value in enumerate(request.messages):
        size = value.ByteSize()
        total += size
        if size > checks.limits.message_bytes:
            checks.refuse(
                f"messages[{index}].content",
                f"the message has {size} bytes; at most {checks.limits.message_bytes} are allowed"
                " (setting max_message_bytes)",
            )
        elif _message(checks, f"messages[{index}]", value):
            empty.append(index)
        if value.tool_calls or value.role == ROLE_TOOL:
            has_calls = True
    # Agents' frameworks put an empty message of the assistant beside its tool calls or their
    # results.
    for index in () if has_calls else empty:
        checks.refuse(
            f"messages[{index}].content",
            "is empty, and there is no thinking, no attachment, and no tool call in this message or beside it: leave it out",
        )
    if total > checks.limits.batch_bytes:
        checks.refuse(
            "messages",
            f"have {total} bytes together; at most {checks.limits.batch_bytes} are allowed"
            " (setting max_batch_bytes)",
        )


def _message(checks: Checks, name: str, value: Message) -> bool:
    """Check which fields of a message go together. Return whether it is an empty message of the
    assistant.
    """
    role = value.role
    assistant, tool = role == ROLE_ASSISTANT, role == ROLE_TOOL
    if not (assistant or tool or role == ROLE_USER):
        return False
    empty = not value.content and not value.attachments
    if empty and role == ROLE_USER:
        checks.refuse(f"{name}.content", "is empty, and there is no attachment")
    if value.thinking_text and not assistant:
        checks.refuse(f"{name}.thinking_text", "goes with ROLE_ASSISTANT alone")
    if value.tool_calls and not assistant:
        checks.refuse(f"{name}.tool_calls", "go with ROLE_ASSISTANT alone")
    if tool != bool(value.tool_call_id):
        checks.refuse(
            f"{name}.tool_call_id",
            "is required with ROLE_TOOL" if tool else "goes with ROLE_TOOL alone",
        )
    if 1 < len(calls := value.tool_calls) <= 128 and len({call.id for call in calls}) != len(calls):
        checks.refuse(f"{name}.tool_calls", "has two calls of one id")
    return empty and assistant and not value.thinking_text


def _stream(checks: Checks, request: api.StreamUpdatesRequest) -> None:
    """Check that the filters of a stream do not exclude what its snapshot loads and lists."""
    channels = request.channels
    if channels:
        if request.load_channel and request.load_channel not in channels:
            checks.refuse("load_channel", "is not among channels")
        for index, channel in enumerate(request.list_channels[:64]):
            if channel not in channels:
                checks.refuse(f"list_channels[{index}]", "is not among channels")


def _delete_communications(
    checks: Checks, request: external_communication_service_pb2.DeleteCommunicationsRequest
) -> None:
    if not (request.communication_ids or request.parties or request.channels):
        checks.refuse("communication_ids", "is empty, and no other filter is set")


# Recall -------------------------------------------------------------------------------------------


def _zone(checks: Checks, request: Any) -> None:
    if zone_of(request.time_zone) is None:
        checks.refuse("time_zone", "is not the name of a time zone, such as Europe/Berlin")


def _turns(checks: Checks, part: Any, path: str = "", most: int = _MAX_RANGE) -> None:
    """Check the range of turns of a request, or of a part of it."""
    first, last = part.turn_range.first, part.turn_range.last
    if first <= 0:
        return  # unset, or refused already
    if last < first:
        checks.refuse(f"{path}turn_range.last", f"is {last}, which is before first, {first}")
    elif last - first >= most:
        checks.refuse(
            f"{path}turn_range", f"has {last - first + 1} turns; at most {most} are allowed"
        )


def _build_context(checks: Checks, request: recall_service_pb2.BuildContextRequest) -> None:
    _zone(checks, request)
    for index, part in enumerate(request.include):
        _turns(checks, part, f"include[{index}].")
    for index, part in enumerate(request.exclude):
        _turns(checks, part, f"exclude[{index}].", sys.maxsize)


# Channels and third parties -----------------------------------------------------------------------


def _address(checks: Checks, request: Any, path: str = "") -> str:
    """Check an address on a channel, the fields `channel` and `identity` under a path, and return
    its normal form.
    """
    address = normal_address(request.channel, request.identity)
    if request.identity and not address:
        checks.refuse(f"{path}identity", f"is no address on {request.channel}")
    return address


def _link(checks: Checks, request: channel_service_pb2.LinkIdentitiesRequest) -> None:
    for index, it in enumerate(request.identities[:64]):
        _address(checks, it, f"identities[{index}].")


def _declared(checks: Checks, field: str, channel: str, address: str) -> None:
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


def _receive(checks: Checks, request: channel_service_pb2.ReceiveRequest) -> None:
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
    if size > checks.limits.message_bytes:
        checks.refuse(
            "text",
            f"the request has {size} bytes; at most {checks.limits.message_bytes} are allowed"
            " (setting max_message_bytes)",
        )
    elif not request.text and not request.attachments:
        checks.refuse("text", "is empty, and there is no attachment")
    kind = request.WhichOneof("origin")
    if kind is not None and kind != request.channel:
        checks.violations = [it for it in checks.violations if not it.field.startswith(f"{kind}.")]
        checks.refuse(kind, f"goes with the channel {kind}, and channel is {request.channel}")
    elif kind == "email":
        name = request.email.message_id
        if name and len(normal_message_ids(name)) != 1:
            checks.refuse("email.message_id", "is not one Message-ID")
    elif kind == "discord" and request.discord.WhichOneof("place") is None:
        checks.refuse("discord", "is required to name a place: dm_user_id, channel_id or thread_id")
    elif kind == "cli" and request.cli.session_name != request.cli.session_name.strip():
        checks.refuse("cli.session_name", "has space around it")
    elif kind is None and request.channel == "email":
        checks.refuse("email", "is required on this channel")


def _register(
    checks: Checks, request: external_communication_service_pb2.RegisterContactRequest
) -> None:
    if request.channel in OWNERS_ALONE:
        checks.refuse("channel", f"is {request.channel}, on which nobody but the owner writes")
    party = normal_address(request.channel, request.party)
    if request.party and not party:
        checks.refuse("party", f"is no address on {request.channel}")
    if request.channel != "sms":  # there a sender may be a word
        _declared(checks, "party", request.channel, party)


# The rest -----------------------------------------------------------------------------------------


def _range(checks: Checks, request: Any) -> None:
    """Check the range of a request and its time zone."""
    for name in ("start", "end"):
        if getattr(request.date_range, name).seconds >= _LAST_SECOND:
            checks.refuse(f"date_range.{name}", "is after the year 9998")
    _zone(checks, request)


def _create_token(checks: Checks, request: admin_service_pb2.CreateTokenRequest) -> None:
    for index, number in enumerate(request.scopes):
        if number not in _SCOPES:
            checks.refuse(f"scopes[{index}]", f"is {number}, which is not a scope")


def _preview(checks: Checks, request: admin_service_pb2.PreviewRetentionRequest) -> None:
    if request.retention:
        try:
            parse_rules(request.retention)
        except ValueError as error:
            checks.refuse("retention", str(error))


def _bounded(checks: Checks, field: str, verb: str, size: int, most: int) -> None:
    """Check that a field has no more bytes than a setting allows."""
    if size > most:
        checks.refuse(field, f"{verb} {size} bytes; at most {most} are allowed")


def _has_filter(it: Any) -> bool:
    """Return whether a request that removes or renews conversations names any by a filter."""
    names = ("conversation_id", "conversation_ids", "channels", "topics", "writers", "participants")
    return (
        any(getattr(it, name, None) for name in (*names, "archived"))
        or it.HasField("updated_after")
        or it.HasField("updated_before")
    )


_Row = tuple[str, Callable[[Any], object], str]
_SCOPES_OF_TRUST: _Row = (
    "scopes",
    lambda it: it.scopes and it.trust != TRUST_KNOWN,
    "go with TRUST_KNOWN alone",
)
_TOGETHER: dict[str, tuple[_Row, ...]] = {
    "AppendTurnRequest": (
        (
            "in_reply_to_turn",
            lambda it: (
                it.HasField("in_reply_to_turn")
                and any(message.role == ROLE_USER for message in it.messages)
            ),
            "does not go with user messages: each opens a turn of its own",
        ),
    ),
    "StreamUpdatesRequest": (
        (
            "load_channel",
            lambda it: it.load_channel and it.load_conversation_id,
            "does not go with load_conversation_id: one conversation is loaded",
        ),
        (
            "load_conversation_id",
            lambda it: (
                it.load_conversation_id
                and it.conversation_ids
                and it.load_conversation_id not in it.conversation_ids
            ),
            "is not among conversation_ids",
        ),
    ),
    "PublishDeltaRequest": (
        ("text", lambda it: not (it.text or it.done), "is empty, and the draft is not done"),
    ),
    "RenameRequest": (
        (
            "title",
            lambda it: _LINE_ENDS.intersection(it.title.strip()),
            "is not on one line",
        ),
    ),
    "UpdateMetadataRequest": (
        (
            "metadata",
            lambda it: not it.metadata.fields,
            "is empty: give the keys to set, and null to remove one",
        ),
    ),
    "SetTurnMemoryRequest": (
        ("reset_tier", lambda it: it.tier and it.reset_tier, "does not go with `tier`"),
        (
            "summary",
            lambda it: not (it.tier or it.reset_tier or it.HasField("summary")),
            "is unset, and so is `tier`: give one of them",
        ),
    ),
    "RegenerateNotesRequest": (
        ("all", lambda it: it.all and _has_filter(it), "does not go with a filter"),
        ("all", lambda it: not (it.all or _has_filter(it)), "must be set where no filter is"),
    ),
    "RedactMessageRequest": (
        (
            "sequence",
            lambda it: it.sequence and it.turn_number,
            "does not go with turn_number",
        ),
        (
            "sequence",
            lambda it: not (it.sequence or it.turn_number),
            "or turn_number is required",
        ),
    ),
    "DeleteManyRequest": (
        (
            "conversation_ids",
            lambda it: not _has_filter(it),
            "is empty, and no other filter is set",
        ),
    ),
    "SetAnchorRequest": (
        ("value", lambda it: it.value and not it.value.strip(), "is only spaces"),
    ),
    "SetTrustRequest": (_SCOPES_OF_TRUST,),
    "RegisterContactRequest": (_SCOPES_OF_TRUST,),
    "RotateTokenRequest": (
        (
            "overlap",
            lambda it: not 0 <= it.overlap.ToMilliseconds() <= _MAX_OVERLAP,
            "must be from 0 to 366 days",
        ),
    ),
    "SetSettingRequest": (("value", lambda it: it.reset and it.value, "does not go with `reset`"),),
}
"""Fields that are wrong beside others, by the name of the request: a field, whether it is wrong in
a request, and its description.
"""

_FURTHER: dict[str, Callable[[Checks, Any], object]] = {
    "CreateRequest": _create,
    "AppendTurnRequest": _messages,
    "StreamUpdatesRequest": _stream,
    "SearchRequest": _zone,
    "BuildContextRequest": _build_context,
    "FetchContextRequest": _turns,
    "ReceiveRequest": _receive,
    "AddOwnerIdentityRequest": lambda checks, it: _declared(
        checks, "identity", it.channel, _address(checks, it)
    ),
    "RemoveOwnerIdentityRequest": _address,
    "UnlinkIdentityRequest": _address,
    "LinkIdentitiesRequest": _link,
    "RegisterContactRequest": _register,
    "DeleteCommunicationsRequest": _delete_communications,
    "UsageRequest": _range,
    "TopicsOverTimeRequest": _range,
    "ChannelActivityRequest": _range,
    "BusiestConversationsRequest": _range,
    "RecordReplyRequest": lambda checks, it: _bounded(
        checks, "text", "has", len(it.text.encode()), checks.limits.message_bytes
    ),
    "PutRecordsRequest": lambda checks, it: _bounded(
        checks, "records", "have", it.ByteSize(), checks.limits.batch_bytes
    ),
    "CreateTokenRequest": _create_token,
    "PreviewRetentionRequest": _preview,
}
"""Checks of requests beyond the rules of their fields, by the name of the type."""

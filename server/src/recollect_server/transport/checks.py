"""Checks of requests, before anything is touched: the rules of the contract's fields (`rules`), and
what no rule of one field can say: fields that go together, settings, addresses.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any, cast

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message as ProtoMessage
from recollect.v1 import (
    admin_service_pb2,
    channel_service_pb2,
    checkpoint_service_pb2,
    external_communication_service_pb2,
    recall_service_pb2,
    scope_pb2,
)
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1.external_communication_pb2 import TRUST_KNOWN
from recollect.v1.message_pb2 import ROLE_ASSISTANT, ROLE_TOOL, ROLE_USER, Message

from recollect_server.domain.addresses import (
    OWNERS_ALONE,
    WEB,
    WHATSAPP,
    is_address,
    normal_address,
    normal_message_ids,
)
from recollect_server.domain.retention import parse_rules
from recollect_server.domain.routing import pinned_party
from recollect_server.domain.text import breaks_line
from recollect_server.domain.time import DAY, zone_of
from recollect_server.transport.convert import party_from
from recollect_server.transport.rules import Checks, SizeLimits, rules_of

_MAX_RANGE = 200
_MAX_OVERLAP = 366 * DAY
_LAST_SECOND = 253_370_764_800  # of the year 9998: the calendar needs a day behind the last one
_SCOPES = frozenset(scope_pb2.Scope.values()) - {
    scope_pb2.SCOPE_UNSPECIFIED,
    scope_pb2.SCOPE_ANY,
}
_LINE_ENDS = frozenset("\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")


def check(request: ProtoMessage, limits: SizeLimits, now: int) -> None:
    """Raise InvalidField, which names everything that is wrong with a request. `now` is the
    server's clock in milliseconds.
    """
    checks = Checks(limits, now)
    described = cast(Descriptor, request.DESCRIPTOR)
    if (rules := rules_of(described)) is not None:
        rules(checks, "", request)
    if (further := _FURTHER.get(described.name)) is not None:
        further(checks, request)
    checks.done(described)


# Conversations ------------------------------------------------------------------------------------


def _create(checks: Checks, request: api.CreateRequest) -> None:
    _messages(checks, request.messages)
    if request.pinned:
        placed = pinned_party(request.channel, party_from(request.party))
        if isinstance(placed, str):
            checks.refuse("pinned" if request.channel == WEB else "party", placed)


def _append(checks: Checks, request: api.AppendTurnRequest) -> None:
    _messages(checks, request.messages)
    if request.HasField("in_reply_to_turn") and any(
        message.role == ROLE_USER for message in request.messages
    ):
        checks.refuse(
            "in_reply_to_turn", "does not go with user messages: each opens a turn of its own"
        )


def _messages(checks: Checks, values: Sequence[Message]) -> None:
    """Check the sizes of a batch to append, and which fields of its messages go together."""
    # Agents' frameworks put an empty message of the assistant beside its tool calls or their
    # results.
    beside_calls = any(value.tool_calls or value.role == ROLE_TOOL for value in values)
    total = 0
    for index, value in enumerate(values):
        size = value.ByteSize()
        total += size
        if size > checks.limits.message_bytes:
            checks.refuse(
                f"messages[{index}].content",
                f"the message has {size} bytes; at most {checks.limits.message_bytes} are allowed"
                " (setting max_message_bytes)",
            )
        else:
            _message(checks, f"messages[{index}]", value, may_be_empty=beside_calls)
    if total > checks.limits.batch_bytes:
        checks.refuse(
            "messages",
            f"have {total} bytes together; at most {checks.limits.batch_bytes} are allowed"
            " (setting max_batch_bytes)",
        )


def _message(checks: Checks, name: str, value: Message, *, may_be_empty: bool) -> None:
    role = value.role
    assistant, tool = role == ROLE_ASSISTANT, role == ROLE_TOOL
    if not (assistant or tool or role == ROLE_USER):
        return
    empty = not value.content and not value.attachments
    if empty and role == ROLE_USER:
        checks.refuse(f"{name}.content", "is empty, and there is no attachment")
    elif empty and assistant and not (value.thinking_text or value.tool_calls or may_be_empty):
        checks.refuse(
            f"{name}.content",
            "is empty, and there is no thinking, no attachment, and no tool call in this message or beside it: leave it out",
        )
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


def _load(checks: Checks, request: api.LoadRequest) -> None:
    if not (request.conversation_id or request.channel):
        checks.refuse("channel", "is required where conversation_id is unset")


def _stream(checks: Checks, request: api.StreamUpdatesRequest) -> None:
    """Check which conversations a snapshot loads and lists; the filters of the stream must not
    exclude them.
    """
    loaded, channels = request.load_conversation_id, request.channels
    if request.load_channel and loaded:
        checks.refuse(
            "load_channel", "does not go with load_conversation_id: one conversation is loaded"
        )
    if loaded and request.conversation_ids and loaded not in request.conversation_ids:
        checks.refuse("load_conversation_id", "is not among conversation_ids")
    if channels:
        if request.load_channel and request.load_channel not in channels:
            checks.refuse("load_channel", "is not among channels")
        for index, channel in enumerate(request.list_channels[:64]):
            if channel not in channels:
                checks.refuse(f"list_channels[{index}]", "is not among channels")


def _publish(checks: Checks, request: api.PublishDeltaRequest) -> None:
    if not request.text and not request.done:
        checks.refuse("text", "is empty, and the draft is not done")


def _switch(checks: Checks, request: api.SwitchRequest) -> None:
    if not request.from_conversation_id and not request.to_conversation_id:
        checks.refuse("to_conversation_id", "is required where from_conversation_id is unset")


def _rename(checks: Checks, request: api.RenameRequest) -> None:
    if _LINE_ENDS.intersection(request.title.strip()):
        checks.refuse("title", "is not on one line")
    if request.topics and not request.automatic:
        checks.refuse("topics", "go with `automatic` alone")
    if request.writer and not request.automatic:
        checks.refuse("writer", "goes with `automatic` alone")
    _writer(checks, request)


def _writer(checks: Checks, request: api.RenameRequest | api.RecordAbbreviationRequest) -> None:
    if request.writer_model and not request.writer:
        checks.refuse("writer_model", "goes with `writer` alone")


def _metadata(checks: Checks, request: api.UpdateMetadataRequest) -> None:
    if not request.metadata.fields:
        checks.refuse("metadata", "is empty: give the keys to set, and null to remove one")


def _regenerate(checks: Checks, request: api.RegenerateNotesRequest) -> None:
    filters = (request.conversation_id, request.channels, request.topics, request.writers)
    times = (request.HasField("updated_after"), request.HasField("updated_before"))
    if (has_filter := any((*filters, *times))) == request.all:
        wrong = "does not go with a filter" if has_filter else "must be set where no filter is"
        checks.refuse("all", wrong)


def _redact(checks: Checks, request: api.RedactMessageRequest) -> None:
    if bool(request.sequence) == bool(request.turn_number):
        wrong = "does not go with turn_number" if request.sequence else "or turn_number is required"
        checks.refuse("sequence", wrong)


def _delete_many(checks: Checks, request: api.DeleteManyRequest) -> None:
    filters = (request.conversation_ids, request.channels, request.topics, request.archived)
    times = (request.HasField("updated_after"), request.HasField("updated_before"))
    if not any((*filters, *times, request.participants)):
        checks.refuse("conversation_ids", "is empty, and no other filter is set")


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


def _set_anchor(checks: Checks, request: recall_service_pb2.SetAnchorRequest) -> None:
    if request.value and not request.value.strip():
        checks.refuse("value", "is only spaces")


# Channels and third parties -----------------------------------------------------------------------


def _address(checks: Checks, request: Any, path: str = "") -> str:
    """Check an address on a channel, the fields `channel` and `identity` under a path, and return
    its normal form.
    """
    address = normal_address(request.channel, request.identity)
    if request.identity and not address:
        checks.refuse(f"{path}identity", f"is no address on {request.channel}")
    return address


def _add_identity(checks: Checks, request: channel_service_pb2.AddOwnerIdentityRequest) -> None:
    _declared(checks, "identity", request.channel, _address(checks, request))


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
    _trust(checks, request)


def _trust(
    checks: Checks,
    request: external_communication_service_pb2.SetTrustRequest
    | external_communication_service_pb2.RegisterContactRequest,
) -> None:
    if request.scopes and request.trust != TRUST_KNOWN:
        checks.refuse("scopes", "go with TRUST_KNOWN alone")


def _reply(checks: Checks, request: external_communication_service_pb2.RecordReplyRequest) -> None:
    most = checks.limits.message_bytes
    if (size := len(request.text.encode())) > most:
        checks.refuse("text", f"has {size} bytes; at most {most} are allowed")


# The rest -----------------------------------------------------------------------------------------


def _put_records(checks: Checks, request: checkpoint_service_pb2.PutRecordsRequest) -> None:
    size, most = request.ByteSize(), checks.limits.batch_bytes
    if size > most:
        checks.refuse("records", f"have {size} bytes; at most {most} are allowed")


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


def _rotate(checks: Checks, request: admin_service_pb2.RotateTokenRequest) -> None:
    if not 0 <= request.overlap.ToMilliseconds() <= _MAX_OVERLAP:
        checks.refuse("overlap", "must be from 0 to 366 days")


def _preview(checks: Checks, request: admin_service_pb2.PreviewRetentionRequest) -> None:
    if request.retention:
        try:
            parse_rules(request.retention)
        except ValueError as error:
            checks.refuse("retention", str(error))


def _setting(checks: Checks, request: admin_service_pb2.SetSettingRequest) -> None:
    if request.reset and request.value:
        checks.refuse("value", "does not go with `reset`")


_FURTHER: dict[str, Callable[[Checks, Any], object]] = {
    "CreateRequest": _create,
    "AppendTurnRequest": _append,
    "LoadRequest": _load,
    "StreamUpdatesRequest": _stream,
    "PublishDeltaRequest": _publish,
    "SwitchRequest": _switch,
    "RenameRequest": _rename,
    "RecordAbbreviationRequest": _writer,
    "UpdateMetadataRequest": _metadata,
    "RegenerateNotesRequest": _regenerate,
    "RedactMessageRequest": _redact,
    "DeleteManyRequest": _delete_many,
    "SearchRequest": _zone,
    "BuildContextRequest": _build_context,
    "FetchContextRequest": _turns,
    "SetAnchorRequest": _set_anchor,
    "ReceiveRequest": _receive,
    "AddOwnerIdentityRequest": _add_identity,
    "RemoveOwnerIdentityRequest": _address,
    "UnlinkIdentityRequest": _address,
    "LinkIdentitiesRequest": _link,
    "RegisterContactRequest": _register,
    "SetTrustRequest": _trust,
    "RecordReplyRequest": _reply,
    "PutRecordsRequest": _put_records,
    "UsageRequest": _range,
    "TopicsOverTimeRequest": _range,
    "ChannelActivityRequest": _range,
    "BusiestConversationsRequest": _range,
    "CreateTokenRequest": _create_token,
    "RotateTokenRequest": _rotate,
    "PreviewRetentionRequest": _preview,
    "SetSettingRequest": _setting,
}
"""Checks of requests beyond the rules of their fields, by the name of the type."""

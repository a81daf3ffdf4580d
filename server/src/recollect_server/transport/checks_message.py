"""Checks of messages to be appended."""

import re
from collections.abc import Sequence

from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct
from recollect.v1.message_pb2 import (
    ROLE_ASSISTANT,
    ROLE_TOOL,
    ROLE_USER,
    Attachment,
    Message,
    ToolCall,
)

from recollect_server.domain.addresses import MAX_DISPLAY_NAME
from recollect_server.transport.checks import MAX_NAME, Checks, Limits

_MAX_MESSAGES = 1000
_MAX_CALLS = 128
_MAX_CALL_NAME = 256
_MAX_ATTACHMENTS = 64
_MAX_MEDIA_TYPE = 255
_MAX_URI = 8192
_MAX_METADATA = 64 * 1024
# bytes of a Struct that are surely more JSON than that: a number has 11 of them, and 2 as JSON
_MAX_STRUCT = 6 * _MAX_METADATA
_MAX_METADATA_DEPTH = 24

_ROLES = frozenset((ROLE_USER, ROLE_ASSISTANT, ROLE_TOOL))
# as JSON spells it; a text that spells it itself has one backslash more
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
# a text is one match, so that what is in it does not count
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')


def check_messages(
    checks: Checks, values: Sequence[Message], limits: Limits, now: int, *, least: int = 1
) -> None:
    """Check a batch to append. `now` is the server's clock in milliseconds."""
    if not checks.count("messages", values, _MAX_MESSAGES, least=least):
        return
    # Agents' frameworks put an empty message of the assistant beside its tool calls or their
    # results.
    beside_calls = any(value.tool_calls or value.role == ROLE_TOOL for value in values)
    total = 0
    for index, value in enumerate(values):
        size = value.ByteSize()
        total += size
        if size > limits.message_bytes:
            checks.refuse(
                f"messages[{index}].content",
                f"the message has {size} bytes; at most {limits.message_bytes} are allowed"
                " (setting max_message_bytes)",
            )
        else:
            _check_message(checks, f"messages[{index}]", value, now, may_be_empty=beside_calls)
    if total > limits.batch_bytes:
        checks.refuse(
            "messages",
            f"have {total} bytes together; at most {limits.batch_bytes} are allowed"
            " (setting max_batch_bytes)",
        )


def check_attachments(checks: Checks, name: str, values: Sequence[Attachment]) -> None:
    """Check the attachments of a message."""
    if not checks.count(name, values, _MAX_ATTACHMENTS):
        return
    for index, attachment in enumerate(values):
        checks.text(
            f"{name}[{index}].media_type", attachment.media_type, least=1, most=_MAX_MEDIA_TYPE
        )
        checks.text(f"{name}[{index}].uri", attachment.uri, least=1, most=_MAX_URI)
        checks.not_negative(f"{name}[{index}].bytes_length", attachment.bytes_length)


def _check_message(
    checks: Checks, name: str, value: Message, now: int, *, may_be_empty: bool
) -> None:
    """Check one message of a batch. It runs for every stored message, so valid and unset fields
    cost no name.
    """
    role = value.role
    if role not in _ROLES:
        checks.refuse(f"{name}.role", "is required: ROLE_USER, ROLE_ASSISTANT or ROLE_TOOL")
        return
    if "\0" in value.content:
        checks.no_nul(f"{name}.content", value.content)
    if "\0" in value.thinking_text:
        checks.no_nul(f"{name}.thinking_text", value.thinking_text)
    assistant, tool = role == ROLE_ASSISTANT, role == ROLE_TOOL
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
    if value.tool_call_id:
        checks.text(f"{name}.tool_call_id", value.tool_call_id, most=_MAX_CALL_NAME)
    if value.sender:
        checks.one_line(f"{name}.sender", value.sender, most=MAX_NAME)
    if value.sender_name:
        checks.text(f"{name}.sender_name", value.sender_name, most=MAX_DISPLAY_NAME)
    if value.channel:
        checks.label(f"{name}.channel", value.channel)
    if value.HasField("timestamp"):
        checks.moment(f"{name}.timestamp", value.timestamp, now)
    if value.HasField("usage"):
        checks.not_negative(f"{name}.usage.input", value.usage.input)
        checks.not_negative(f"{name}.usage.output", value.usage.output)
    if value.HasField("cost"):
        checks.not_negative(f"{name}.cost", value.cost)
    if value.tool_calls:
        _check_tool_calls(checks, f"{name}.tool_calls", value.tool_calls)
    if value.attachments:
        check_attachments(checks, f"{name}.attachments", value.attachments)
    if value.HasField("metadata"):
        check_metadata(checks, f"{name}.metadata", value.metadata)


def _check_tool_calls(checks: Checks, name: str, calls: Sequence[ToolCall]) -> None:
    if not checks.count(name, calls, _MAX_CALLS):
        return
    for index, call in enumerate(calls):
        checks.text(f"{name}[{index}].id", call.id, least=1, most=_MAX_CALL_NAME)
        checks.text(f"{name}[{index}].name", call.name, least=1, most=_MAX_CALL_NAME)
        checks.no_nul(f"{name}[{index}].arguments", call.arguments)
    if len({call.id for call in calls}) != len(calls):
        checks.refuse(name, "has two calls of one id")


def check_metadata(checks: Checks, name: str, value: Struct) -> None:
    """Check that a Struct is JSON of some depth and size."""
    if value.ByteSize() > _MAX_STRUCT:  # to write so much JSON takes a second
        checks.refuse(name, f"is larger than {_MAX_METADATA} bytes as JSON")
        return
    try:
        text = json_format.MessageToJson(value, indent=None)
    except (json_format.SerializeToJsonError, ValueError) as error:
        # ValueError: a number that is not finite
        checks.refuse(name, f"is not JSON: {error}")
        return
    if _depth(text) > _MAX_METADATA_DEPTH:
        checks.refuse(name, f"is nested deeper than {_MAX_METADATA_DEPTH} levels")
    elif (size := len(text.encode())) > _MAX_METADATA:
        checks.refuse(name, f"has {size} bytes as JSON; at most {_MAX_METADATA} are allowed")
    elif _NUL.search(text):
        checks.refuse(name, "holds the character NUL")


def _depth(json: str) -> int:
    """Return how many levels of objects and lists a JSON text has."""
    depth = deepest = 0
    for bracket in _BRACKETS.findall(json):
        depth += 1 if bracket in "[{" else -1 if bracket in "]}" else 0
        deepest = max(deepest, depth)
    return deepest

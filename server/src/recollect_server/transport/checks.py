"""Refuses bad input by the field's name, before anything is touched. The limits are those that the contract states."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from recollect.v1 import message_pb2
from recollect.v1.conversation_pb2 import Party
from recollect.v1.recall_pb2 import DateRange

from recollect_server.domain.errors import InvalidField, Violation
from recollect_server.domain.ids import is_communication_id, is_conversation_id, is_escalation_id
from recollect_server.domain.time import DAY

_LABEL = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}", re.ASCII)
_KEY = re.compile(r"[a-z0-9_.-]{1,64}", re.ASCII)
_REQUEST_ID = re.compile(r"[!-~]{1,128}", re.ASCII)
_KEBAB = re.compile(r"[^\W_]+(-[^\W_]+)*")
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")  # as JSON spells it; a text that spells it itself has one backslash more
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')  # a text is one match, so that what is in it does not count
MAX_METADATA = 64 * 1024
MAX_METADATA_DEPTH = 24
MAX_QUERY = 64 * 1024
_PARTY = {"contact": 320, "group_id": 320, "thread_id": 998, "subject": 998}


@dataclass(frozen=True, slots=True)
class Limits:
    """What is too large, in bytes."""

    message_bytes: int = 1 << 20
    batch_bytes: int = 8 << 20


@dataclass(slots=True)
class Checks:
    """Collects what is wrong with a request, so that a caller learns all of it at once."""

    violations: list[Violation] = field(default_factory=list)

    def refuse(self, name: str, description: str) -> None:
        """Notes that a field is wrong."""
        self.violations.append(Violation(name, description))

    def done(self) -> None:
        """Raises InvalidField if anything was wrong."""
        if self.violations:
            raise InvalidField(*self.violations)

    def text(self, name: str, value: str, *, most: int, least: int = 0) -> None:
        """A text of `least` to `most` characters without NUL."""
        if not least <= len(value) <= most:
            self.refuse(name, f"has {len(value)} characters; {least} to {most} are allowed")
        elif "\0" in value:
            self.refuse(name, "holds the character NUL")

    def conversation_id(self, name: str, value: str, *, required: bool = True) -> None:
        """`conv-` and a ULID."""
        if (required or value) and not is_conversation_id(value):
            self.refuse(name, "is required" if not value else "is not conv- and a ULID of 26 characters")

    def communication_id(self, name: str, value: str, *, required: bool = True) -> None:
        """`ext-` and a ULID."""
        if (required or value) and not is_communication_id(value):
            self.refuse(name, "is required" if not value else "is not ext- and a ULID of 26 characters")

    def escalation_id(self, name: str, value: str) -> None:
        """`esc-` and a ULID."""
        if not is_escalation_id(value):
            self.refuse(name, "is required" if not value else "is not esc- and a ULID of 26 characters")

    def said(self, name: str, value: str, most: int) -> None:
        """A text of 1 to `most` bytes that is not only white space, without NUL."""
        size = len(value.encode())
        if not value.strip():
            self.refuse(name, "is empty")
        elif size > most:
            self.refuse(name, f"has {size} bytes; at most {most} are allowed")
        elif "\0" in value:
            self.refuse(name, "holds the character NUL")

    def label(self, name: str, value: str, *, required: bool = False) -> None:
        """A channel: lower case letters, digits, `_` and `-`."""
        if (required or value) and not _LABEL.fullmatch(value):
            expected = "1 to 32 lower case letters, digits, _ and -, beginning with a letter or digit"
            self.refuse(name, f"is not a channel: {expected}")

    def request_id(self, value: str) -> None:
        """1 to 128 printable ASCII characters, or unset."""
        if value and not _REQUEST_ID.fullmatch(value):
            self.refuse("request_id", "is not 1 to 128 printable ASCII characters without spaces")

    def not_negative(self, name: str, value: float) -> None:
        """0 or more, and finite."""
        if not value >= 0 or math.isinf(value):
            self.refuse(name, f"is {value}; it must not be negative")

    def topics(self, name: str, values: list[str], most: int = 16) -> None:
        """Kebab-case labels."""
        if len(values) > most:
            self.refuse(name, f"has {len(values)} entries; at most {most} are allowed")
        for index, value in enumerate(values[:most]):
            self.kebab(f"{name}[{index}]", value)

    def kebab(self, name: str, value: str) -> None:
        """A label in kebab-case."""
        if len(value) > 64 or not _KEBAB.fullmatch(value) or value != value.lower():
            self.refuse(name, "is not kebab-case of at most 64 characters")

    def names(self, name: str, values: list[str], most: int = 64) -> None:
        """Names of participants, none twice."""
        if len(values) > most:
            self.refuse(name, f"has {len(values)} entries; at most {most} are allowed")
        for index, value in enumerate(values[:most]):
            self.text(f"{name}[{index}]", value, least=1, most=256)
        if len(set(values)) != len(values):
            self.refuse(name, "names somebody twice")

    def party(self, name: str, value: Party) -> None:
        """Texts of at most what the contract says."""
        for part, most in _PARTY.items():
            self.text(f"{name}.{part}", getattr(value, part), most=most)

    def moment(self, name: str, value: Timestamp, now: int | None = None) -> None:
        """A time from 1970 to a day after `now` (None: to the year 9999)."""
        if not 0 <= value.nanos < 1_000_000_000 or not 0 <= value.seconds < 253_402_300_800:
            self.refuse(name, "is not a time from 1970 to 9999")
        elif value.seconds == 0 and value.nanos < 1_000_000:
            self.refuse(name, "is 1970-01-01T00:00:00Z: leave it unset if the time is not known")
        elif now is not None and value.seconds * 1000 > now + DAY:
            self.refuse(name, "is more than a day ahead of the server's clock")

    def span(self, names: tuple[str, str], start: Timestamp | None, end: Timestamp | None) -> None:
        """Two times, the first before the second where both are set."""
        for name, value in zip(names, (start, end), strict=True):
            if value is not None:
                self.moment(name, value)
        if start is not None and end is not None and (start.seconds, start.nanos) >= (end.seconds, end.nanos):
            self.refuse(names[1], f"is not after {names[0]}")

    def date_range(self, name: str, value: DateRange) -> None:
        """A span of time."""
        self.span(
            (f"{name}.start", f"{name}.end"),
            value.start if value.HasField("start") else None,
            value.end if value.HasField("end") else None,
        )

    def anchor_key(self, value: str, *, required: bool = True) -> None:
        """A key of an anchor."""
        if (required or value) and not _KEY.fullmatch(value):
            self.refuse("key", "is required" if not value else "is not 1 to 64 lower case letters, digits, _, - and .")

    def share(self, name: str, value: float) -> None:
        """From 0 to 1."""
        if not 0 <= value <= 1:
            self.refuse(name, f"is {value}; it must be from 0 to 1")

    def messages(self, values: list[message_pb2.Message], limits: Limits, now: int) -> None:
        """A batch to append; `now` is the server's clock in milliseconds."""
        if not 1 <= len(values) <= 1000:
            self.refuse("messages", f"has {len(values)} entries; 1 to 1000 are allowed")
            return
        total = 0
        for index, value in enumerate(values):
            size = value.ByteSize()
            total += size
            if size > limits.message_bytes:
                self.refuse(
                    f"messages[{index}].content",
                    f"the message has {size} bytes; at most {limits.message_bytes} are allowed",
                )
            else:
                self._message(f"messages[{index}]", value, now)
        if total > limits.batch_bytes:
            self.refuse("messages", f"have {total} bytes together; at most {limits.batch_bytes} are allowed")

    def _message(self, name: str, value: message_pb2.Message, now: int) -> None:
        role = value.role
        if role not in (message_pb2.ROLE_USER, message_pb2.ROLE_ASSISTANT, message_pb2.ROLE_TOOL):
            self.refuse(f"{name}.role", "is required: ROLE_USER, ROLE_ASSISTANT or ROLE_TOOL")
            return
        if "\0" in value.content:
            self.refuse(f"{name}.content", "holds the character NUL")
        if "\0" in value.thinking_text:
            self.refuse(f"{name}.thinking_text", "holds the character NUL")
        assistant, tool = role == message_pb2.ROLE_ASSISTANT, role == message_pb2.ROLE_TOOL
        empty = not value.content and not value.attachments
        if empty and role == message_pb2.ROLE_USER:
            self.refuse(f"{name}.content", "is empty, and there is no attachment")
        elif empty and assistant and not value.thinking_text and not value.tool_calls:
            self.refuse(f"{name}.content", "is empty, and there is no thinking, no tool call and no attachment")
        if value.thinking_text and not assistant:
            self.refuse(f"{name}.thinking_text", "goes with ROLE_ASSISTANT alone")
        if value.tool_calls and not assistant:
            self.refuse(f"{name}.tool_calls", "go with ROLE_ASSISTANT alone")
        if tool != bool(value.tool_call_id):
            self.refuse(f"{name}.tool_call_id", "is required with ROLE_TOOL" if tool else "goes with ROLE_TOOL alone")
        if value.tool_call_id:
            self.text(f"{name}.tool_call_id", value.tool_call_id, most=256)
        if value.sender:
            self.text(f"{name}.sender", value.sender, most=256)
        if value.channel:
            self.label(f"{name}.channel", value.channel)
        if value.HasField("timestamp"):
            self.moment(f"{name}.timestamp", value.timestamp, now)
        if value.HasField("usage"):
            self.not_negative(f"{name}.usage.input", value.usage.input)
            self.not_negative(f"{name}.usage.output", value.usage.output)
        if value.HasField("cost"):
            self.not_negative(f"{name}.cost", value.cost)
        if value.tool_calls:
            self._tool_calls(f"{name}.tool_calls", value)
        if value.attachments:
            self.attachments(f"{name}.attachments", value.attachments)
        if value.HasField("metadata"):
            self._metadata(f"{name}.metadata", value.metadata)

    def _tool_calls(self, name: str, value: message_pb2.Message) -> None:
        if len(value.tool_calls) > 128:
            self.refuse(name, f"has {len(value.tool_calls)} entries; at most 128 are allowed")
            return
        for index, call in enumerate(value.tool_calls):
            self.text(f"{name}[{index}].id", call.id, least=1, most=256)
            self.text(f"{name}[{index}].name", call.name, least=1, most=256)
            if "\0" in call.arguments:
                self.refuse(f"{name}[{index}].arguments", "holds the character NUL")
        if len({call.id for call in value.tool_calls}) != len(value.tool_calls):
            self.refuse(name, "has two calls of one id")

    def attachments(self, name: str, values: Sequence[message_pb2.Attachment]) -> None:
        """Files that came with a message."""
        if len(values) > 64:
            self.refuse(name, f"has {len(values)} entries; at most 64 are allowed")
            return
        for index, attachment in enumerate(values):
            self.text(f"{name}[{index}].media_type", attachment.media_type, least=1, most=255)
            self.text(f"{name}[{index}].uri", attachment.uri, least=1, most=8192)
            self.not_negative(f"{name}[{index}].bytes_length", attachment.bytes_length)

    def _metadata(self, name: str, value: Struct) -> None:
        try:
            text = json_format.MessageToJson(value, indent=None)
        except (json_format.SerializeToJsonError, ValueError) as error:  # ValueError: a number that is not finite
            self.refuse(name, f"is not JSON: {error}")
            return
        if _depth(text) > MAX_METADATA_DEPTH:
            self.refuse(name, f"is nested deeper than {MAX_METADATA_DEPTH} levels")
        elif len(text.encode()) > MAX_METADATA:
            self.refuse(name, f"has {len(text.encode())} bytes as JSON; at most {MAX_METADATA} are allowed")
        elif _NUL.search(text):
            self.refuse(name, "holds the character NUL")


def _depth(json: str) -> int:
    """How many levels of objects and lists a JSON text has."""
    depth = deepest = 0
    for bracket in _BRACKETS.findall(json):
        depth += 1 if bracket in "[{" else -1 if bracket in "]}" else 0
        deepest = max(deepest, depth)
    return deepest

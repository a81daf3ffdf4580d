"""The parts that several requests are made of."""

import uuid
from collections.abc import Iterable, Iterator

from recollect._shared.fill import fill, invalid
from recollect._shared.read import ROLES
from recollect._types.conversation import Party
from recollect._types.message import Attachment, Message, ToolCall, Usage
from recollect._types.recall import DateRange, TurnRange
from recollect.v1 import conversation_pb2, message_pb2, recall_pb2

_ROLE_NUMBERS = {role: number for number, role in ROLES.items()}


def request_id(given: str | None) -> str:
    """Return the id as given, or a new one: with an id the server stores nothing twice, so the
    client may repeat the call.
    """
    return uuid.uuid4().hex if given is None else given


def party(it: Party | None) -> conversation_pb2.Party | None:
    """Return a party, at the field `party`."""
    if it is None:
        return None
    _require(it, Party, "party")
    return fill(
        conversation_pb2.Party(),
        "party.",
        contact=it.contact,
        group_id=it.group_id,
        thread_id=it.thread_id,
        subject=it.subject,
        contact_name=it.contact_name,
    )


def date_range(it: DateRange | None) -> recall_pb2.DateRange | None:
    """Return a span of time, at the field `date_range`."""
    if it is None:
        return None
    _require(it, DateRange, "date_range")
    return fill(recall_pb2.DateRange(), "date_range.", start=it.start, end=it.end)


def turn_range(it: TurnRange | tuple[int, int] | None) -> recall_pb2.TurnRange | None:
    """Return a span of turns, at the field `turn_range`."""
    if it is None:
        return None
    try:
        first, last = (it.first, it.last) if isinstance(it, TurnRange) else it
    except (TypeError, ValueError):
        raise invalid(
            "turn_range", "must be a recollect.TurnRange, or the first and the last turn"
        ) from None
    return fill(recall_pb2.TurnRange(), "turn_range.", first=first, last=last)


def messages(them: Iterable[Message]) -> Iterator[message_pb2.Message]:
    """Yield the messages to append, at the field `messages`, without the fields that only the
    server sets.
    """
    if isinstance(them, Message) or not isinstance(them, Iterable):
        raise invalid(
            "messages",
            f"takes several messages, as in [Message.user(…)], not one {type(them).__name__}",
        )
    for index, it in enumerate(them):
        _require(it, Message, f"messages[{index}]")
        yield _message(it, f"messages[{index}].")


def _message(it: Message, path: str) -> message_pb2.Message:
    role = _ROLE_NUMBERS.get(it.role)
    if role is None:
        raise invalid(f"{path}role", f"must be one of {', '.join(_ROLE_NUMBERS)}, not {it.role!r}")
    return fill(
        message_pb2.Message(),
        path,
        role=role,
        content=it.content,
        timestamp=it.timestamp,
        thinking_text=it.thinking_text,
        usage=None if it.usage is None else _usage(it.usage, f"{path}usage"),
        cost=it.cost,
        channel=it.channel,
        sender=it.sender,
        sender_name=it.sender_name,
        tool_calls=[
            _tool_call(call, f"{path}tool_calls[{index}]")
            for index, call in enumerate(it.tool_calls)
        ],
        tool_call_id=it.tool_call_id,
        attachments=attachments(it.attachments, f"{path}attachments"),
        metadata=it.metadata or None,
    )


def _usage(it: Usage, path: str) -> message_pb2.Usage:
    _require(it, Usage, path)
    return fill(message_pb2.Usage(), f"{path}.", input=it.input, output=it.output)


def _tool_call(it: ToolCall, path: str) -> message_pb2.ToolCall:
    _require(it, ToolCall, path)
    return fill(message_pb2.ToolCall(), f"{path}.", id=it.id, name=it.name, arguments=it.arguments)


def attachments(them: Iterable[Attachment], path: str) -> list[message_pb2.Attachment]:
    """Return the attachments of a message."""
    if isinstance(them, Attachment) or not isinstance(them, Iterable):
        raise invalid(path, f"takes several attachments, not one {type(them).__name__}")
    return [_attachment(file, f"{path}[{index}]") for index, file in enumerate(them)]


def _attachment(it: Attachment, path: str) -> message_pb2.Attachment:
    _require(it, Attachment, path)
    return fill(
        message_pb2.Attachment(),
        f"{path}.",
        media_type=it.media_type,
        uri=it.uri,
        bytes_length=it.bytes_length,
    )


def _require(it: object, kind: type, path: str) -> None:
    if not isinstance(it, kind):
        raise invalid(path, f"must be a recollect.{kind.__name__}, not {type(it).__name__}")

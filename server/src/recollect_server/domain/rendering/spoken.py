"""What the forms of the two APIs share: a conversation as steps, each tool call with its results."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from recollect_server.domain.context import Context
from recollect_server.domain.message import Message, Role, ToolCall
from recollect_server.domain.text import one_line, quoted
from recollect_server.domain.time import to_text

_ROLES = frozenset(["agent", "ai", "assistant", "bot", "developer", "function", "human", "model", "system", "tool", "user", "you"])
"""Words that a model may read as the name of a role."""
_OF_NAMES = frozenset("_.,'’@+()/&-")
_MARKS = frozenset(["Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sc", "Sk", "Sm"])
"""Categories of punctuation and of symbols that are no pictures: of these a name has only `_OF_NAMES`."""
_WORD = re.compile(r"\w+")
_NOT_NAME = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAME = 64


@dataclass(frozen=True, slots=True)
class Called:
    """A tool call with its result, under an id and a name that the APIs take."""

    id: str
    name: str
    arguments: str
    result: str


@dataclass(frozen=True, slots=True)
class Step:
    """Something that the user or the agent said, with the calls that it made."""

    role: Role
    text: str
    calls: tuple[Called, ...] = ()


def steps(messages: Sequence[Message]) -> Iterator[Step]:
    """The conversation in its order. A call without its result, a result without its call and what says nothing are left out."""
    several = len({message.sender for message in messages if message.role is Role.USER and message.sender}) > 1
    number = 0
    for at, message in enumerate(messages):
        if message.role is Role.TOOL:
            continue
        calls: list[Called] = []
        for call in message.tool_calls:
            if (result := _result(messages[at + 1 :], call)) is not None:
                number += 1
                calls.append(Called(f"call_{number}", _name(call), call.arguments, _text(result)))
        text = _text(message)
        if several and message.role is Role.USER and message.sender and text:
            text = f"{speaker(message.sender, message.role)}: {text}"
        if text or calls:
            yield Step(message.role, text, tuple(calls))


def days_text(times: tuple[int, int]) -> str:
    """Return the day, or the first and the last day, of two times."""
    first, last = (to_text(time)[:10] for time in times)
    return first if first == last else f"{first} to {last}"


def turns_text(turns: tuple[int, int]) -> str:
    """Return the first and the last turn of a range."""
    return f"{turns[0]}-{turns[1]}" if turns[0] != turns[1] else str(turns[0])


def condensed_text(context: Context) -> str:
    """Return how many messages the summary stands for; empty where that is not known."""
    count = context.condensed
    return f"{count} earlier message{'s' if count != 1 else ''} condensed" if count else ""


def speaker(sender: str, role: str) -> str:
    """Return who speaks, for the beginning of a line: the sender's name, or the role where there is none.

    A name that reads as a role, or has characters that could end it, stands in quotation marks behind the role.
    """
    name = one_line(sender)
    if not name:
        return role
    words = _WORD.findall(unicodedata.normalize("NFKC", name).casefold())
    is_plain = all(it in _OF_NAMES or unicodedata.category(it) not in _MARKS for it in name)
    return name if is_plain and _ROLES.isdisjoint(words) else f"{role} {quoted(name)}"


def _result(following: Sequence[Message], call: ToolCall) -> Message | None:
    """The result of a call: in its turn, so before the user speaks again."""
    for message in following:
        if message.role is Role.USER:
            return None
        if message.role is Role.TOOL and message.tool_call_id == call.id:
            return message
    return None


def _text(message: Message) -> str:
    files = [f"[attachment: {one_line(f'{file.media_type} {file.uri}')}]" for file in message.attachments]
    return "\n".join(part for part in (message.content.rstrip(), *files) if part.strip())


def _name(call: ToolCall) -> str:
    return _NOT_NAME.sub("_", call.name)[:_MAX_NAME] or "tool"

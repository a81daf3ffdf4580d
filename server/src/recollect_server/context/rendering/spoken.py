"""A conversation as steps, each tool call with its result: what the forms of the two APIs are made
from.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import lru_cache

from recollect_server.context.context import pair_results
from recollect_server.context.rendering.form import attachment_line
from recollect_server.kernel.domain.message import Message, Role, ToolCall
from recollect_server.kernel.domain.time import to_text
from recollect_server.text.text import one_line, quoted

_ROLES = frozenset(
    [
        "agent",
        "ai",
        "assistant",
        "bot",
        "developer",
        "function",
        "human",
        "model",
        "system",
        "tool",
        "user",
        "you",
    ]
)
"""Words that a model may read as the name of a role."""
_OF_NAMES = frozenset("_.,'’@+()/&-")
_MARKS = frozenset(["Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sc", "Sk", "Sm"])
"""Categories of punctuation and of symbols that are no pictures: of these a name has only
`_OF_NAMES`.
"""
_WORD = re.compile(r"\w+")
_NOT_NAME = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAME = 64
_DAYS = 4096  # times whose days are kept: one message is rendered more than once


NO_RESULT_YET = "(called, no result yet)"
NO_RESULT = "(called, no result was recorded)"
"""Stand for the result of a call: while the turn goes on, and once the user spoke again."""
NOT_SHOWN = "call_not_shown"
"""The name of the tool where there is only a result."""


@dataclass(frozen=True, slots=True)
class Called:
    """A tool call with its result, under an id and a name that the APIs take."""

    id: str
    name: str
    arguments: str
    result: str


@dataclass(frozen=True, slots=True)
class SpokenStep:
    """Something that the user or the agent said, with the calls that it made."""

    role: Role
    text: str
    calls: tuple[Called, ...] = ()


def steps(messages: Sequence[Message], begins: int = 1, now: int = 0) -> Iterator[SpokenStep]:
    """Give the conversation in its order, each result with its call. What says nothing is left out.

    A call without a result has a text that says so in its place: the APIs take no call without a
    result, and a model that does not see the call makes it again. A result whose call is not shown
    has one that says so. Where turns are left out, from turn `begins` on, the user's side says how
    many; the first message of each day but that of `now` says which day.
    """
    several = several_speak(messages)
    results = {call: messages[at] for at, call in pair_results(messages).items()}
    answered = {id(result) for result in results.values()}
    last_question = max((at for at, it in enumerate(messages) if it.role is Role.USER), default=-1)
    number = 0
    turn = begins - 1
    day = day_text(now)
    for at, message in enumerate(messages):
        if (missing := message.turn_number - turn - 1) > 0:
            yield SpokenStep(Role.USER, left_out(missing))
        turn = max(turn, message.turn_number)
        if message.role is Role.TOOL:
            if id(message) not in answered:
                number += 1
                yield SpokenStep(
                    Role.ASSISTANT,
                    "",
                    (Called(f"call_{number}", NOT_SHOWN, "{}", text_of(message)),),
                )
            continue
        calls: list[Called] = []
        for place, call in enumerate(message.tool_calls):
            number += 1
            result = results.get((at, place))
            waits = NO_RESULT_YET if at > last_question else NO_RESULT
            calls.append(
                Called(
                    f"call_{number}",
                    tool_name(call),
                    call.arguments,
                    text_of(result) if result else waits,
                )
            )
        text = said_by(message) if several else text_of(message)
        if text and message.role is Role.USER and day_text(message.timestamp) != day:
            day = day_text(message.timestamp)
            text = dated(text, message.timestamp)
        if text or calls:
            yield SpokenStep(message.role, text, tuple(calls))


def days_text(times: tuple[int, int]) -> str:
    """Return the day, or the first and the last day, of two times."""
    first, last = map(day_text, times)
    return first if first == last else f"{first} to {last}"


@lru_cache(_DAYS)
def day_text(time: int) -> str:
    return to_text(time)[:10]


def now_text(now: int, zone: tzinfo = UTC) -> str:
    """Return what now is, to the minute, with the day of the week, and the zone of clocks that show
    it.
    """
    weekday = datetime.fromtimestamp(now / 1000, UTC).strftime("%A")
    return f"{minute_text(now, zone)}, {weekday}{'' if zone is UTC else f', {zone}'}"


def minute_text(time: int, zone: tzinfo = UTC) -> str:
    """Return a time to the minute, with a sign of its zone where that is UTC."""
    return f"{to_text(time)[:16]}{'Z' if zone is UTC else ''}"


def dated(text: str, time: int) -> str:
    """Return a text behind the day on which it was said."""
    return f"[{day_text(time)}] {text}"


def turns_text(turns: tuple[int, int]) -> str:
    """Return the first and the last turn of a range."""
    return f"{turns[0]}-{turns[1]}" if turns[0] != turns[1] else str(turns[0])


def condensed_text(count: int) -> str:
    """Return that a summary stands for so many messages; empty where the number is not known."""
    return f"{count} earlier message{'s' if count != 1 else ''} condensed" if count else ""


def several_speak(messages: Sequence[Message], role: Role = Role.USER) -> bool:
    """Return whether more than one person, or more than one agent, writes in the conversation."""
    return len({it.sender for it in messages if it.role is role and it.sender}) > 1


def left_out(turns: int) -> str:
    """Return what stands for turns that are left out."""
    return f"({turns} turns are left out here.)" if turns > 1 else "(1 turn is left out here.)"


def waiting_calls(messages: Sequence[Message]) -> list[ToolCall]:
    """Return the calls of the newest turn that have no result yet."""
    answered = set(pair_results(messages).values())
    last_question = max((at for at, it in enumerate(messages) if it.role is Role.USER), default=-1)
    return [
        call
        for at, message in enumerate(messages)
        for place, call in enumerate(message.tool_calls)
        if at > last_question and (at, place) not in answered
    ]


def said_by(message: Message) -> str:
    """Return the text of a message, and before it the name of the user who wrote it."""
    text = text_of(message)
    sender = sender_of(message) if message.role is Role.USER and text else ""
    return f"{speaker(sender, message.role)}: {text}" if sender else text


def sender_of(message: Message) -> str:
    """Return who wrote a message: the display name, where it is known, and the address behind it.

    The address stays, because a name proves nothing and two senders may have the same.
    """
    name = one_line(message.sender_name)
    is_known = name and message.sender and name != message.sender
    return f"{name} ({message.sender})" if is_known else message.sender


def speaker(sender: str, role: str) -> str:
    """Return who speaks, for the beginning of a line: the sender's name, or the role where there is
    none.

    A name that reads as a role, or has characters that could end it, stands in quotation marks
    behind the role.
    """
    name = one_line(sender)
    if not name:
        return role
    words = _WORD.findall(unicodedata.normalize("NFKC", name).casefold())
    is_plain = all(it in _OF_NAMES or unicodedata.category(it) not in _MARKS for it in name)
    return name if is_plain and _ROLES.isdisjoint(words) else f"{role} {quoted(name)}"


def text_of(message: Message) -> str:
    """Return the text of a message, with a line for each file."""
    files = [attachment_line(file) for file in message.attachments]
    return "\n".join(part for part in (message.shown.rstrip(), *files) if part.strip())


def tool_name(call: ToolCall) -> str:
    """Return the name of the tool as the APIs take it."""
    return _NOT_NAME.sub("_", call.name)[:_MAX_NAME] or "tool"

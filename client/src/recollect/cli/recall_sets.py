"""Recall sets read into plans: folders with a `conversations.jsonl`, one conversation a line."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from recollect import Message, Role
from recollect.cli import transcript
from recollect.cli.options import open_regular
from recollect.cli.plans import Batch, Event, Placed, Plan, Skip
from recollect.cli.transcript import Beginning, Damaged

FILE = "conversations.jsonl"
MAX_PARTICIPANTS = 64
MAX_NAME = 256
"""Limits of the contract: characters of a participant's name, and participants."""


@dataclass(frozen=True, slots=True)
class SetOptions:
    """The choices of who imports a set."""

    channel: str = "web"
    """The channel of the conversations, which a set does not name."""
    groups: frozenset[str] = frozenset()
    """Groups to import. Empty means all."""
    abbreviations: bool = False
    """Record the set's abbreviations as the conversations' notes."""


def read(path: Path, options: SetOptions) -> Iterator[Plan | Skip]:
    """Yield the conversations of a set's file, and the lines that are none. Raises OSError."""
    for where, line in _lines(path):
        if isinstance(line, Damaged):
            yield Skip(where, str(line))
        elif not options.groups or line.get("group") in options.groups:
            yield _plan(path, where, line, options)


def groups(path: Path) -> set[str]:
    """Return the names of the groups in a set's file. Raises OSError."""
    lines = (line for _, line in _lines(path) if not isinstance(line, Damaged))
    return {group for line in lines if isinstance(group := line.get("group"), str)}


def count(path: Path) -> int:
    """Return the number of lines in a set's file. Raises OSError."""
    return sum(1 for _ in _lines(path))


def _lines(path: Path) -> Iterator[tuple[str, dict[str, Any] | Damaged]]:
    with open(path, "rb", opener=open_regular) as file:
        for number, text in enumerate(file, start=1):
            if text.strip():
                try:
                    yield f"{path}:{number}", transcript.decode(text)
                except Damaged as error:
                    yield f"{path}:{number}", error


def _plan(path: Path, where: str, line: dict[str, Any], options: SetOptions) -> Plan | Skip:
    try:
        group, own = _text(line, "group"), _text(line, "id")
        started = _time(line, "started")
        abbreviation = _text(line, "abbreviation", "")
        if not isinstance(line.get("messages"), list):
            raise Damaged("messages: it is no list")
    except Damaged as error:
        return Skip(where, f"not a conversation of a recall set: {error}")
    skips: list[Skip] = []
    placed: list[Placed] = []
    for index, fields in enumerate(line["messages"], start=1):
        place = f"{where} message {index}"
        try:
            placed.append(Placed(_message(fields, own, group), place))
        except Damaged as error:
            skips.append(Skip(place, f"not a message of a recall set: {error}"))
    if not placed:
        shown = (f"{it.where}: {it.reason}" for it in skips)
        return Skip(where, "; ".join(("it has no messages", *shown)))
    names = (it.message.sender or it.message.role.value for it in placed)
    participants = tuple(dict.fromkeys(name for name in names if len(name) <= MAX_NAME))
    steps: list[Batch | Event] = [Batch("messages", placed)]
    if options.abbreviations and abbreviation:
        event = {"type": "event", "event": "abbreviation", "text": abbreviation}
        steps.append(Event("abbreviation", event, where))
    return Plan(
        key=("recall-set", path.resolve().parent.name, group, own, options.channel),
        where=where,
        beginning=Beginning("", options.channel, started, participants[:MAX_PARTICIPANTS]),
        steps=steps,
        skips=skips,
    )


def _message(fields: Any, conversation: str, group: str) -> Message:
    if not isinstance(fields, dict):
        raise Damaged("it is no object")
    role, content = _text(fields, "role"), _text(fields, "content")
    if role not in set(Role):
        raise Damaged(f"role: {role!r:.50} is none of {', '.join(repr(it.value) for it in Role)}")
    if not content:
        raise Damaged("content: it is empty")
    return Message(
        role=Role(role),
        content=content,
        timestamp=_time(fields, "timestamp"),
        sender=transcript.one_line(_text(fields, "sender", "")),
        metadata={
            "importId": _text(fields, "id"),
            "importConversation": conversation,
            "importGroup": group,
        },
    )


def _text(fields: dict[str, Any], name: str, default: str | None = None) -> str:
    """Return a text. Where there is a default, the field may be absent or null. Raises Damaged."""
    value = fields.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise Damaged(f"{name}: it is missing" if value is None else f"{name}: it is no text")
    return value


def _time(fields: dict[str, Any], name: str) -> datetime:
    try:
        return transcript.time_of(_text(fields, name))
    except ValueError as error:
        raise Damaged(f"{name}: {error}") from None

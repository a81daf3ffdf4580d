"""Recall sets read into plans: folders with a `conversations.jsonl`, one conversation a line."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path, PurePath
from typing import Any

from recollect import Message, Role
from recollect.imports import transcript
from recollect.imports.forms import Format, Options
from recollect.imports.plans import Batch, Event, Placed, Plan, Skip
from recollect.imports.reading import Reading, Source
from recollect.imports.transcript import Beginning, Damaged

FILE = "conversations.jsonl"
MAX_PARTICIPANTS = 64
MAX_NAME = 256
"""Limits of the contract: characters of a participant's name, and participants."""


def is_conversation(value: Any) -> bool:
    """Return whether a line is a conversation of a recall set, or was to be one."""
    return isinstance(value, dict) and "type" not in value and {"group", "id"} <= value.keys()


def read(path: Path, options: Options) -> Iterator[Plan | Skip]:
    """Yield the conversations of a set's file, and the lines that are none. Raises OSError."""
    with Source(path).open() as reading:
        yield from _read(reading, options)


def groups(path: Path) -> set[str]:
    """Return the names of the groups in a set's file. Raises OSError."""
    with Source(path).open() as reading:
        lines = (line for _, line in _lines(reading) if not isinstance(line, Damaged))
        return {group for line in lines if isinstance(group := line.get("group"), str)}


def _read(reading: Reading, options: Options) -> Iterator[Plan | Skip]:
    folder = (reading.path.resolve() if reading.path else PurePath(reading.name)).parent.name
    for where, line in _lines(reading):
        if isinstance(line, Damaged):
            yield Skip(where, str(line))
        elif not options.groups or line.get("group") in options.groups:
            yield _plan(folder, where, line, options)


FORMAT = Format("recall-set", "recall sets", _read, is_conversation)


def _lines(reading: Reading) -> Iterator[tuple[str, dict[str, Any] | Damaged]]:
    for number, text in reading.lines():
        if text.strip():
            where = f"{reading.name}:{number}"
            try:
                reading.check_line(text)
                yield where, transcript.decode(text)
            except Damaged as error:
                yield where, error


def _plan(folder: str, where: str, line: dict[str, Any], options: Options) -> Plan | Skip:
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
    if (others := len(participants) - MAX_PARTICIPANTS) > 0:
        reason = f"the last {others} of {len(participants)} participants are left out of its list"
        skips.append(Skip(where, reason))
    steps: list[Batch | Event] = [Batch("messages", placed)]
    if options.abbreviations and abbreviation:
        event = {"type": "event", "event": "abbreviation", "text": abbreviation}
        steps.append(Event("abbreviation", event, where))
    return Plan(
        key=("recall-set", folder, group, own, options.channel),
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

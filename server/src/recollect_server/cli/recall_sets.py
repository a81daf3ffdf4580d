"""Reads recall sets: folders with a `conversations.jsonl`, one conversation a line with all its messages."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from pydantic import AwareDatetime, BaseModel, Field, ValidationError

from recollect_server.cli.conversion import time_from
from recollect_server.cli.plan import Batch, Happened, Placed, Plan, Skip
from recollect_server.domain.conversation import MAX_PARTICIPANTS, Abbreviated, Began
from recollect_server.domain.message import Message, Role
from recollect_server.storage.logs.files import open_transcript

FILE = "conversations.jsonl"
_MAX_NAME = 256


class _SetConversation(BaseModel):
    group: str
    id: str
    started: AwareDatetime
    abbreviation: str | None = None
    messages: list[Any]


class _SetMessage(BaseModel):
    id: str
    role: Role
    sender: str | None = None
    content: str = Field(min_length=1)
    timestamp: AwareDatetime


@dataclass(frozen=True, slots=True)
class SetOptions:
    """How a set is brought in."""

    channel: str
    groups: frozenset[str]
    """Only these. Empty means all."""
    abbreviations: bool


@dataclass(frozen=True, slots=True)
class SetLine:
    """A line of a set: one conversation."""

    path: Path
    number: int
    text: bytes


def lines(path: Path) -> Iterator[SetLine]:
    """The lines of a set's file. Raises OSError."""
    with os.fdopen(open_transcript(path.resolve(), os.O_RDONLY), "rb") as file:
        for number, text in enumerate(file, start=1):
            if text.strip():
                yield SetLine(path, number, text)


def read(line: SetLine, options: SetOptions) -> Plan | Skip | None:
    """The conversation of a line; None if it is of a group that is not asked for."""
    where = f"{line.path}:{line.number}"
    try:
        found = _SetConversation.model_validate(orjson.loads(line.text))
    except orjson.JSONDecodeError as error:
        return Skip(where, f"not JSON: {error}")
    except ValidationError as error:
        return Skip(where, f"not a conversation of a recall set: {_said(error)}")
    if options.groups and found.group not in options.groups:
        return None
    skips: list[Skip] = []
    messages: list[Placed] = []
    for index, fields in enumerate(found.messages, start=1):
        place = f"{where} message {index}"
        try:
            messages.append(Placed(_message(fields, found), place))
        except ValidationError as error:
            skips.append(Skip(place, f"not a message of a recall set: {_said(error)}"))
    speakers = (placed.message.sender or placed.message.role.value for placed in messages)
    participants = tuple(dict.fromkeys(name for name in speakers if len(name) <= _MAX_NAME))[:MAX_PARTICIPANTS]
    steps: list[Batch | Happened] = [Batch("messages", messages)]
    if options.abbreviations and found.abbreviation:
        steps.append(Happened("abbreviation", Abbreviated(found.abbreviation, 0), where))
    if not messages:
        return Skip(where, "; ".join(("it has no messages", *map(str, skips))))
    return Plan(
        key=("recall-set", line.path.resolve().parent.name, found.group, found.id, options.channel),
        where=where,
        began=Began("", options.channel, time_from(found.started), participants),
        steps=steps,
        skips=skips,
    )


def group_of(line: SetLine) -> str | None:
    """The group of a line, if it can be read."""
    try:
        return _SetConversation.model_validate(orjson.loads(line.text)).group
    except (orjson.JSONDecodeError, ValidationError):
        return None


def _message(fields: Any, conversation: _SetConversation) -> Message:
    found = _SetMessage.model_validate(fields)
    return Message(
        role=found.role,
        content=found.content,
        timestamp=time_from(found.timestamp),
        sender=found.sender or "",
        metadata={"importId": found.id, "importConversation": conversation.id, "importGroup": conversation.group},
    )


def _said(error: ValidationError) -> str:
    return "; ".join(f"{'.'.join(map(str, it['loc'])) or 'line'}: {it['msg']}" for it in error.errors())

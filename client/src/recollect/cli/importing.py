"""`recollect import`: brings in what `export` wrote, exactly once.

The id of every request is made of what names the conversation, the place in it, and a hash of what is sent: a second run repeats
the same ids and stores nothing, and a run that broke off is finished by the next. Every append says on which turn it builds: a
conversation that somebody went on with is left alone.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any, BinaryIO

import click

from recollect import (
    AlreadyExists,
    AppendedTurn,
    Client,
    ErrorReason,
    FailedPrecondition,
    InvalidArgument,
    Message,
    NotFound,
    RecollectError,
    Role,
    TurnOutOfDate,
    Unimplemented,
)
from recollect._shared.plain import plain
from recollect.cli import transcript
from recollect.cli.exits import INCOMPLETE, Ended
from recollect.cli.options import Shell, Source, with_shell
from recollect.cli.printing import clean, console, json_line, warn
from recollect.cli.transcript import Damaged

_CONVERSATION_ID = re.compile(r"conv-[0-7][0-9A-HJKMNP-TV-Z]{25}")
_MESSAGE_FIELD = re.compile(r"messages\[(\d+)\]")
_MAX_BATCH = 1000
_MAX_BATCH_BYTES = 4 << 20
_REFUSALS = (AlreadyExists, Damaged, FailedPrecondition, InvalidArgument, NotFound, TurnOutOfDate, Unimplemented)
"""What concerns one conversation alone. Other failures end the import."""


@dataclass
class _Counts:
    conversations_new: int = 0
    conversations_known: int = 0
    messages_new: int = 0
    messages_known: int = 0
    left_out: int = 0

    def leave_out(self, where: str, reason: object, count: int = 1) -> None:
        warn(f"left out {where}: {reason}")
        self.left_out += count


@dataclass
class _Line:
    where: str
    fields: dict[str, Any]


_Placed = tuple[_Line, Message]


@dataclass
class _Read:
    """The lines of one conversation."""

    began: _Line
    lines: list[_Line] = field(default_factory=list)

    @property
    def key(self) -> str:
        """What names it in every run, wherever the file lies: its id, or its first two lines, for a file may grow."""
        return str(self.began.fields.get("id") or _hash([self.began.fields, *(line.fields for line in self.lines[:1])]))


@click.command("import")
@click.argument("files", nargs=-1, required=True, type=Source(), metavar="FILE...")
@with_shell
def import_(shell: Shell, files: tuple[BinaryIO, ...]) -> None:
    """Bring in conversations from each FILE that `export` wrote; `-` is standard input.

    Lines that people or other programs wrote need no checksum, and messages neither time nor turn. A second run stores nothing. A
    conversation keeps its id where that is free, its title and its topics; its turns are numbered anew. One that the server has by
    its id already is left as it is. Pins, anchors and suggested splits are the server's own and are not brought in. Every other
    line that is left out is named on standard error, and the exit code is 6.
    """
    counts = _Counts()
    for file in files:
        for read in _conversations(file, counts):
            try:
                _bring_in(shell.client, read, counts)
            except _REFUSALS as error:
                counts.leave_out(f"the rest of {read.began.where}", error)
    if shell.as_json:
        json_line(
            {
                "conversationsNew": counts.conversations_new,
                "conversationsKnown": counts.conversations_known,
                "messagesNew": counts.messages_new,
                "messagesKnown": counts.messages_known,
                "leftOut": counts.left_out,
            }
        )
    else:
        console().print(
            clean(
                f"Conversations: {counts.conversations_new} new, {counts.conversations_known} already there."
                f" Messages: {counts.messages_new} new, {counts.messages_known} already there."
            )
        )
    if counts.left_out:
        raise Ended(f"{counts.left_out} lines or conversations were left out", INCOMPLETE)


def _conversations(file: BinaryIO, counts: _Counts) -> Iterator[_Read]:
    """What a file holds, one conversation after the other. Lines that cannot be read are left out and named."""
    read: _Read | None = None
    for number, text in enumerate(file, start=1):
        where = f"{file.name}:{number}"
        if not text.strip():
            continue
        try:
            line = _Line(where, transcript.decode(text))
        except Damaged as error:
            counts.leave_out(where, error)
            continue
        if line.fields.get("type") == "meta":
            if read:
                yield read
            read = _Read(line)
        elif read:
            read.lines.append(line)
        else:
            counts.leave_out(where, "it stands before the line of the type `meta` that begins a conversation")
    if read:
        yield read


def _bring_in(client: Client, read: _Read, counts: _Counts) -> None:
    """Brings in one conversation. Raises RecollectError, Damaged."""
    was_there = _is_there(client, read.began.fields.get("id"))
    try:
        conversation_id = _create(client, read)
    except AlreadyExists as error:
        if error.reason != ErrorReason.CONVERSATION_EXISTS:
            raise
        _leave_at_home(client, read, counts)
        return
    new = known = turn = 0
    turns: dict[int, int] = {}
    for number, ((kind, _), group) in enumerate(groupby(read.lines, key=_turn_of)):
        lines = list(group)
        if kind == "turn":
            for part, placed in enumerate(_within_limits(lines, counts)):
                stored = _append(client, conversation_id, turn, turns, (read.key, number, part), placed, counts)
                if stored is None:
                    continue
                messages = [message for _, message in placed]
                turn = stored.conversation.turn_count
                turns |= {sent.turn_number: it.turn_number for sent, it in zip(messages, stored.messages, strict=True)}
                known, new = (known + len(messages), new) if stored.duplicate else (known, new + len(messages))
                counts.messages_known += len(messages) if stored.duplicate else 0
                counts.messages_new += 0 if stored.duplicate else len(messages)
            continue
        for line in lines:
            try:
                _record(client, conversation_id, line.fields, turns, _request_id(read.key, "event", number, line.fields))
            except (InvalidArgument, Damaged) as error:
                counts.leave_out(line.where, error)
    if not new and (known or was_there):
        counts.conversations_known += 1
    else:
        counts.conversations_new += 1


def _is_there(client: Client, conversation_id: Any) -> bool:
    """Whether the server has a conversation of this id."""
    try:
        return bool(client.conversations.get(str(conversation_id)))
    except (NotFound, InvalidArgument):
        return False


def _create(client: Client, read: _Read) -> str:
    """Begin a conversation, under its own id, and pinned where it was pinned and its place is free. Return the id.

    Where an earlier run began it otherwise, its request id finds it in the form that it had then. Raises RecollectError, Damaged.
    """
    began = read.began.fields
    channel, own = str(began.get("channel", "")), str(began.get("id", ""))
    try:
        party = transcript.party_of(began)
        create = partial(
            client.conversations.create,
            channel,
            participants=began.get("participants"),
            party=party,
            model=began.get("model"),
            create_time=transcript.time_of(began["created"]) if "created" in began else None,
            request_id=_request_id(read.key, "create", began),
        )
        # On e-mail several are pinned: the ids of its messages lead to each. Elsewhere one has the place, and keeps it.
        pinned = _was_pinned(read, channel) and (
            channel == "email" or not any(client.conversations.list(channels=[channel], party=party, pinned=True))
        )
        refusal: RecollectError | None = None
        for name in dict.fromkeys((own if _CONVERSATION_ID.fullmatch(own) else None, None)):
            for is_pinned in (pinned, not pinned):
                try:
                    return create(conversation_id=name, pinned=is_pinned).id
                except AlreadyExists as error:
                    if error.reason == ErrorReason.CONVERSATION_EXISTS:
                        raise
                    refusal = refusal or error
                except InvalidArgument as error:
                    if not is_pinned or not {it.field for it in error.violations} <= {"pinned", "party"}:
                        raise
                    refusal = refusal or error  # its party names no place
    except (ValueError, TypeError) as error:
        raise Damaged(str(error)) from None
    assert refusal is not None
    raise refusal


def _was_pinned(read: _Read, channel: str) -> bool:
    """Return whether the conversation was pinned last. One with messages of other channels cannot be."""
    pinned = bool(read.began.fields.get("pinned"))
    for line in read.lines:
        match line.fields:
            case {"type": "turn", "channel": str(other)} if other not in ("", channel):
                return False
            case {"type": "event", "event": "meta_update", "pinned": now}:
                pinned = bool(now)
            case {"type": "event", "event": "continued"}:
                pinned = False
    return pinned


def _append(
    client: Client,
    conversation_id: str,
    turn: int,
    turns: dict[int, int],
    place: tuple[Any, ...],
    placed: list[_Placed],
    counts: _Counts,
) -> AppendedTurn | None:
    """Append messages without those that the server refuses, which are taken out of `placed` and named. None if none is left."""
    while placed:
        messages = [message for _, message in placed]
        try:
            return client.conversations.append_turn(
                conversation_id,
                messages,
                expected_turn=turn,
                in_reply_to_turn=_late(messages, turns),
                request_id=_request_id(*place, [plain(message) for message in messages]),
            )
        except InvalidArgument as error:
            refused = {int(match[1]): it for it in error.violations if (match := _MESSAGE_FIELD.match(it.field))}
            if not refused:
                raise
            for index in sorted(refused, reverse=True):
                counts.leave_out(placed.pop(index)[0].where, f"{refused[index].field} {refused[index].description}")
    return None


def _late(messages: list[Message], turns: dict[int, int]) -> int | None:
    """The turn that messages answer, here, if newer turns were brought in before them; None if they go on with the newest."""
    said = [message for message in messages if message.role is not Role.TOOL]  # a result finds its turn by its call
    if not said or any(message.role is Role.USER for message in said):
        return None
    return turns.get(said[0].turn_number) if said[0].turn_number < max(turns, default=0) else None


def _turn_of(line: _Line) -> tuple[Any, Any]:
    return line.fields.get("type"), line.fields.get("turnNumber")


def _leave_at_home(client: Client, read: _Read, counts: _Counts) -> None:
    """Count a conversation that this server has by its own id and did not import: this is where the file came from."""
    there = client.conversations.get(str(read.began.fields["id"]))
    messages = sum(line.fields.get("type") == "turn" for line in read.lines)
    counts.conversations_known += 1
    counts.messages_known += min(messages, there.message_count)
    if messages > there.message_count:
        missing = messages - there.message_count
        counts.leave_out(read.began.where, f"this server has {there.id} itself, with {missing} messages fewer; left as it is")


def _within_limits(lines: list[_Line], counts: _Counts) -> Iterator[list[_Placed]]:
    """The messages of these lines in parts that one append may hold."""
    part: list[_Placed] = []
    size = 0
    for line in lines:
        try:
            message = transcript.message_of(line.fields)
        except Damaged as error:
            counts.leave_out(line.where, error)
            continue
        weight = len(json.dumps(line.fields))
        if part and (len(part) == _MAX_BATCH or size + weight > _MAX_BATCH_BYTES):
            yield part
            part, size = [], 0
        part.append((line, message))
        size += weight
    if part:
        yield part


def _record(client: Client, conversation_id: str, fields: dict[str, Any], turns: dict[int, int], request_id: str) -> None:
    """What happened to a conversation besides its messages, as far as a client may say so. Raises RecollectError, Damaged."""
    calls = client.conversations
    try:
        match fields:
            case {"type": "event", "event": "compression", "compressedThrough": through, "summary": summary}:
                here = max((turns[home] for home in turns if home <= through), default=through)
                calls.record_compression(conversation_id, here, summary, request_id=request_id)
            case {"type": "event", "event": "abbreviation", "text": text}:
                calls.record_abbreviation(
                    conversation_id,
                    text,
                    topics=fields.get("topics"),
                    writer=fields.get("writer"),
                    writer_model=fields.get("model"),
                    request_id=request_id,
                )
            case {"type": "event", "event": "meta_update", "title": title, "manuallyNamed": True}:
                calls.rename(conversation_id, title, request_id=request_id)
            case {"type": "event", "event": "meta_update", "model": model}:
                calls.set_model(conversation_id, model, request_id=request_id)
            case {"type": "event", "event": "meta_update", "title": title}:
                calls.rename(conversation_id, title, automatic=True, request_id=request_id)
            case {"type": "event", "event": "title_assigned", "title": title}:
                calls.rename(
                    conversation_id,
                    title,
                    automatic=True,
                    topics=fields.get("topics"),
                    writer=fields.get("writer"),
                    writer_model=fields.get("model"),
                    request_id=request_id,
                )
            case {"type": "event", "event": "meta_update" | "anchor" | "split_suggested"}:
                pass  # the server's own: it finds them again
            case _:
                raise Damaged(f"a line of a kind that is not known: {fields.get('type')} {fields.get('event', '')}".rstrip())
    except TypeError as error:
        raise Damaged(str(error)) from None


def _request_id(*parts: Any) -> str:
    """The id of the request that these parts name."""
    return f"import-{_hash(parts)}"


def _hash(parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:40]

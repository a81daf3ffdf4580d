"""Transcripts: the lines of conversations as a data folder and `export` have them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import PurePath
from typing import Any

from recollect.imports import plans, transcript
from recollect.imports.forms import Format, Options
from recollect.imports.plans import Batch, Event, Placed, Plan, Skip, fingerprint
from recollect.imports.reading import UTF_16, Reading
from recollect.imports.transcript import LOST_CHANNEL, Beginning, Damaged

_MOST_BEFORE = 10_000
"""Lines after which a file in which no conversation has begun is given up."""
_EVENTS_AS_TYPES = ("title_assigned", "compression", "abbreviation", "meta_update", "close")


def is_beginning(value: Any) -> bool:
    """Return whether a line is one that begins a conversation."""
    return isinstance(value, dict) and value.get("type") == "meta"


def read(reading: Reading, _: Options) -> Iterator[Plan | Skip]:
    """Yield the conversations of a transcript, and the lines that belong to none. Raises OSError.

    A file named as one of a data folder holds one conversation, whose id is the file's name: a
    copy under another name is another conversation. In any other file each line of the type `meta`
    begins a conversation.
    """
    lines, name = _lines(reading), reading.name
    if PurePath(name).match(plans.TRANSCRIPTS):
        own = PurePath(name).name.removesuffix(".jsonl")
        yield _plan_of_file(name, list(lines), own if transcript.is_conversation_id(own) else "")
        return
    group: list[_Line] = []
    before: list[Skip] = []  # lines that belong to no conversation
    for line in lines:
        if line.kind == "meta":
            yield from before
            before.clear()
            if group:
                yield _plan_of_group(group)
            group = [line]
        elif group:
            group.append(line)
        else:
            reason = "it stands before the line of the type `meta` that begins a conversation"
            before.append(Skip(line.where, line.damage or reason))
            if len(before) == _MOST_BEFORE:
                break
    if group:
        yield _plan_of_group(group)
    elif before:
        yield _no_transcript(name, before)


FORMAT = Format("transcript", "Recollect (transcripts)", read, is_beginning)
_NO_SHAPE = "no transcript of a conversation, which begins with a line of the type `meta`"


def _no_transcript(name: str, skips: list[Skip]) -> Skip:
    shown = (f"{it.where}: {it.reason}" for it in skips[:3])
    return Skip(name, "; ".join((_NO_SHAPE, *shown)))


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    where: str
    fields: dict[str, Any]
    damage: str = ""

    @property
    def kind(self) -> Any:
        return self.fields.get("type")


def _lines(reading: Reading) -> Iterator[_Line]:
    for number, text in reading.lines():
        if not text.strip():
            continue
        where = f"{reading.name}:{number}"
        if number == 1 and text.startswith(UTF_16):
            yield _Line(number, where, {}, "the file is UTF-16: save it as UTF-8")
            return
        try:
            reading.check_line(text)
        except Damaged as error:
            yield _Line(number, where, {}, str(error))
            continue
        try:
            yield _Line(number, where, _as_event(transcript.decode(text)))
        except Damaged as error:
            is_torn = text.startswith(b"{") and not text.endswith(b"\n")
            torn = f"torn line: {len(text)} bytes without an end"
            yield _Line(number, where, {}, torn if is_torn else str(error))


def _as_event(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a line. In the first format some events were types of their own."""
    kind = fields.get("event" if fields.get("type") == "event" else "type")
    if kind not in _EVENTS_AS_TYPES:
        return fields
    # Nothing is ever closed, but such a line may name the conversation.
    return fields | {"type": "event", "event": "meta_update" if kind == "close" else kind}


def _plan_of_group(lines: list[_Line]) -> Plan | Skip:
    """Return the plan of a conversation within a file, of which the first line is its `meta`."""
    first = lines[0]
    try:
        beginning = transcript.beginning_of(first.fields)
    except Damaged as error:
        return Skip(f"the rest of {first.where}", str(error))
    # A file may grow: its first two lines name a conversation without an id.
    key = beginning.id or fingerprint([line.fields for line in lines[:2]])
    plan = Plan(("transcript", key), first.where, beginning, skips=_lost_of(first))
    _add(plan, lines[1:], first.number)
    plan.beginning = _with_newest_name(beginning, plan)
    return plan


def _plan_of_file(name: str, lines: list[_Line], own: str) -> Plan | Skip:
    """Return the plan of a file that holds one conversation, whose id is `own` if that is not
    empty.

    Where the line of the type `meta` is lost, the id and the times of the others are what is left.
    """
    beginning, lost = None, f"{name}:1"
    plan = Plan((), lost, Beginning(own, LOST_CHANNEL))
    for line in lines:
        if line.kind == "meta" and beginning is None:
            try:
                beginning = transcript.beginning_of(line.fields | ({"id": own} if own else {}))
                plan.skips += _lost_of(line)
            except Damaged as error:
                plan.skips.append(Skip(line.where, str(error)))
    _add(plan, [line for line in lines if line.kind != "meta"], 1)
    if beginning is None:
        times = [time for line in lines if (time := _time_of(line)) is not None]
        if not own or not times:
            return _no_transcript(name, plan.skips)
        beginning = replace(plan.beginning, create_time=times[0])
        reason = "the first line is lost, and channel, participants and model with it"
        plan.skips.append(Skip(lost, f"{reason}: imported on channel {LOST_CHANNEL}"))
    plan.beginning = _with_newest_name(beginning, plan)
    plan.key = ("transcript", beginning.id or fingerprint([line.fields for line in lines[:2]]))
    return plan


def _lost_of(line: _Line) -> list[Skip]:
    """Return what the line of the type `meta` holds and no call takes."""
    if not (origin := line.fields.get("originId")):
        return []
    link = f"that it is a fork of {origin} up to turn {line.fields.get('originTurn')}"
    return [Skip(line.where, f"the API takes no origin: {link} stays behind")]


def _with_newest_name(beginning: Beginning, plan: Plan) -> Beginning:
    """Return a beginning by the name that its group had last: no call sets another one later."""
    events = (it.fields for it in plan.steps if isinstance(it, Event))
    names = [it["groupName"] for it in events if isinstance(it.get("groupName"), str)]
    if not names or beginning.party is None:
        return beginning
    return replace(beginning, party=replace(beginning.party, group_name=names[-1]))


def _add(plan: Plan, lines: list[_Line], first: int) -> None:
    """Add what lines hold to a plan. Its numbers count from the line `first` of the file."""
    last: tuple[Any, int, int] | None = None  # the stamp of the message right before
    for line in lines:
        number, stamp = str(line.number - first + 1), None
        try:
            if line.damage:
                raise Damaged(line.damage)
            if line.kind == "turn":
                placed = Placed(transcript.message_of(line.fields), line.where)
                stamp = transcript.stamp_of(line.fields)
                goes_on = last and (last[0], last[2]) == (stamp[0], stamp[2]) and last[1] < stamp[1]
                if goes_on and isinstance(batch := plan.steps[-1], Batch):
                    batch.messages.append(placed)
                else:
                    plan.steps.append(Batch(number, [placed]))
            elif line.kind == "event":
                plan.steps.append(Event(number, line.fields, line.where))
            else:
                raise Damaged(f"a line of a kind that is not known: {line.kind}")
        except Damaged as error:
            plan.skips.append(Skip(line.where, str(error)))
            continue  # a damaged line within a batch does not end it
        last = stamp


def _time_of(line: _Line) -> datetime | None:
    try:
        return transcript.time_of(line.fields["timestamp"])
    except (KeyError, ValueError):
        return None

"""Conversations of other products on their way into plans, whatever the product."""

import mimetypes
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import groupby
from typing import Any, Concatenate, ParamSpec

from recollect import Attachment, Message, Role, ToolCall, Usage
from recollect.imports import transcript
from recollect.imports.plans import Batch, Event, Placed, Plan, Repeated, Skip, note, skips_of
from recollect.imports.transcript import Beginning
from recollect.imports.trees import branch_of
from recollect.imports.values import passed_over

MAX_TEXT = 900_000
"""Bytes of a message's texts together: a server takes messages of 1 MiB by default."""
MAX_TITLE = 80
MAX_CALLS = 128
MAX_ATTACHMENTS = 64
MAX_NAME = 256
MAX_URI = 8192
_CUT = "\n[… cut by the import]"
_NUMBER = re.compile(r"\d{9,19}(?:\.\d*)?", re.ASCII)
_MAX_TIME = 128
"""Characters of a time."""
_FIRST_YEAR = 1971
"""Earlier times are zeros of some clock, and the server takes none before 1970."""
_UNREAD_TIME = "a time cannot be read, and the one before it stands instead"
_UNDATED = "a conversation has no time: it is dated with the import"
_HIDDEN = "what the product hides"
_OTHER_BRANCH = "another version of a question or an answer"
_SHOWN = 60
"""Characters of a text that name it."""


_Arguments = ParamSpec("_Arguments")


@dataclass(slots=True)
class Talk:
    """One conversation of an export on its way into a plan."""

    product: str
    """The name of the product, which is its channel and the first part of the plan's key."""
    id: str
    """Its id there, which names it in every export."""
    where: str
    title: str = ""
    create_time: Any = None
    """The time at which it began, and at which it last changed, in any form that `moment` reads."""
    update_time: Any = None
    url: str = ""
    is_archived: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    """Facts about the conversation besides its origin."""
    branches: int = 0
    """Messages of other branches, kept out."""
    hidden: int = 0
    """Messages that the product itself does not show, or that are empty, kept out."""
    placed: list[Placed] = field(default_factory=list)
    _calls: dict[str, str] = field(default_factory=dict)  # names of calls without a result, by id
    _of_family: dict[str, dict[str, None]] = field(default_factory=dict)  # their ids, by tool
    _thoughts: list[str] = field(default_factory=list)
    _time: datetime | None = None
    _turn: int = 0
    _ids: dict[str, int] = field(default_factory=dict)  # of the present turn's calls: how often
    _notes: Repeated = field(default_factory=dict)
    _common: Repeated = field(default_factory=dict)

    def note(self, what: str, detail: str = "", *, is_lost: bool = True) -> None:
        """Name something that is left out or cut, or else guessed. What repeats is counted, and
        named with its first detail.
        """
        note(self._notes, what, detail, is_lost=is_lost)

    def hide(self, text: str = "") -> None:
        """Count a message that stays out, and name it by its text if it has one."""
        self.hidden += 1
        self._leave(_HIDDEN, text)

    def set_aside(
        self,
        add: Callable[Concatenate["Talk", _Arguments], object],
        *args: _Arguments.args,
        **kwargs: _Arguments.kwargs,
    ) -> None:
        """Count a message of another branch, which `add` adds to a talk, and name its text."""
        self.branches += 1
        other = Talk(self.product, self.id, self.where)
        with suppress(transcript.Damaged):
            add(other, *args, **kwargs)
        texts = (it.message.content or it.message.thinking_text for it in other.placed)
        calls = (call.name for it in other.placed for call in it.message.tool_calls)
        self._leave(_OTHER_BRANCH, next(filter(None, (*texts, *other._thoughts, *calls)), ""))

    def _leave(self, what: str, text: str) -> None:
        if text := transcript.one_line(clean(text[: 4 * _SHOWN])):
            note(self._common, what, f"{text:.{_SHOWN}}")

    def branch(
        self, parents: Mapping[str, str | None], end: str, times: Mapping[str, Any]
    ) -> list[str]:
        """Return the names of the messages from the first to `end`, and name those whose parent is
        missing. Raises Damaged.
        """
        moments = {name: moment(time) for name, time in times.items()}
        names, missing = branch_of(parents, end, moments)
        for name, parent in missing.items():
            what = "a message's parent is not in the export: it follows the newest that is older"
            self.note(what, f"{name} of {parent}", is_lost=False)
        return names

    def add_branch(
        self,
        messages: Mapping[str, dict[str, Any]],
        branch: list[str],
        add: Callable[["Talk", dict[str, Any], str], object],
    ) -> None:
        """Add the messages of a branch in its order, and set all others aside."""
        on_branch = set(branch)
        for name, message in messages.items():
            if name not in on_branch:
                self.set_aside(add, message, name)
        for name in branch:
            add(self, messages[name], name)

    def think(self, text: str) -> None:
        """Keep thinking for the next message of the agent."""
        if text.strip():
            self._thoughts.append(clean(text).strip())

    def say(
        self,
        role: Role,
        import_id: str,
        text: str,
        time: Any,
        *,
        calls: Iterable[ToolCall] = (),
        attachments: Iterable[Attachment] = (),
        sender: str = "",
        usage: Usage | None = None,
        **metadata: Any,
    ) -> bool:
        """Add a message of the person or the agent. Return False for one that is empty."""
        text, calls, attachments = clean(text), list(calls), tuple(attachments)
        if not text.strip():
            text = ""
        if role is Role.USER:
            self._flush()
        thinking = "\n\n".join(self._thoughts) if role is Role.ASSISTANT else ""
        if not (text or calls or attachments or thinking):
            return False
        if role is Role.USER or not self._turn:
            self._turn += 1
            self._calls.clear()
            self._of_family.clear()
            self._ids.clear()
        if thinking:
            self._thoughts.clear()
        if len(attachments) > MAX_ATTACHMENTS:
            last = len(attachments) - MAX_ATTACHMENTS
            what = f"the last {last} of {len(attachments)} attachments are left out"
            self.note(f"message {import_id}: {what}")
        room = MAX_TEXT
        text, room = self._within(text, room, import_id, "text")
        thinking, room = self._within(thinking, room, import_id, "thinking")
        message = Message(
            role=role,
            content=text,
            thinking_text=thinking,
            attachments=tuple(
                replace(it, uri=self._cut(it.uri, MAX_URI, "address of a file"))
                for it in attachments[:MAX_ATTACHMENTS]
            ),
            sender=self._cut(transcript.one_line(clean(sender)), MAX_NAME, "sender's name"),
            timestamp=self._at(time),
            usage=usage,
            metadata=_metadata(import_id, metadata),
        )
        # More calls than one message may have go on in further messages.
        number, named = 1, list[ToolCall]()
        for call in calls:
            size = len(call.arguments.encode(errors="replace"))
            if len(named) == MAX_CALLS or (named and size > room):
                self._add(replace(message, tool_calls=tuple(named)))
                number, named, room = number + 1, [], MAX_TEXT
                metadata_of = _metadata(f"{import_id}/calls-{number}", metadata)
                message = Message(role=role, timestamp=message.timestamp, metadata=metadata_of)
            name = self._cut(clean(call.name) or "tool", MAX_NAME, "name of a tool")
            arguments, room = self._within(clean(call.arguments), room, import_id, "arguments")
            named.append(
                ToolCall(self._free(clean(call.id) or f"{import_id}/call"), name, arguments)
            )
            self._calls[named[-1].id] = call.name
            self._of_family.setdefault(_family(call.name), {})[named[-1].id] = None
        self._add(replace(message, tool_calls=tuple(named)))
        return True

    def result(
        self,
        import_id: str,
        name: str,
        text: str,
        time: Any,
        *,
        call_id: str = "",
        **metadata: Any,
    ) -> None:
        """Add the result of a tool. Where the export has no call that it answers, one is added."""
        answered = self._answered(call_id, name)
        if answered is None:
            own = f"{import_id}/call"
            call = ToolCall(call_id or own, name or "tool", "")
            self.say(Role.ASSISTANT, own, "", time, calls=(call,))
            answered = next(reversed(self._calls))
        self._of_family[_family(self._calls.pop(answered))].pop(answered)
        text, _ = self._within(clean(text), MAX_TEXT, import_id, "text")
        self._add(
            Message(
                role=Role.TOOL,
                content=text,
                tool_call_id=answered,
                timestamp=self._at(time),
                metadata=_metadata(import_id, metadata),
            )
        )

    def plan(self) -> Plan | Skip:
        """Return the plan of the conversation; Skip where it has no messages."""
        self._flush()
        for what, short in passed_over():
            self.note(what, short)
        title = transcript.one_line(clean(self.title))
        if len(title) > MAX_TITLE:
            self.note(f"its title is cut to {MAX_TITLE} characters", title)
            title = f"{title[: MAX_TITLE - 1].rstrip()}…"
        skips = skips_of(self._notes, self.where)
        if not self.placed:
            shown = "; ".join(it.reason for it in skips)
            return Skip(self.where, f"it has no messages{shown and f': {shown}'}")
        began = self._date()
        steps: list[Batch | Event] = [
            Batch(str(turn), list(batch))
            for turn, batch in groupby(self.placed, key=lambda it: it.message.turn_number)
        ]
        if title:
            steps.append(self._event("title_assigned", title=title, writer="caller"))
        origin = {"importedFrom": self.product, "importId": self.id} | (
            {"url": self.url} if self.url else {}
        )
        steps.append(self._event("meta_update", metadata=origin | self.metadata))
        if self.is_archived:
            steps.append(self._event("meta_update", archived=True))
        return Plan(
            key=(self.product, self.id),
            where=self.where,
            beginning=Beginning("", self.product, began),
            steps=steps,
            skips=skips,
            grows=True,
            branches=self.branches,
            hidden=self.hidden,
            common=self._common,
        )

    def _date(self) -> datetime | None:
        """Return the time at which the conversation began, and give it to the first messages where
        they have none. Without any time in the export it is the time of the import.
        """
        times = [it.message.timestamp for it in self.placed]
        first = next((it for it in times if it is not None), None)
        began = moment(self.create_time) or first or moment(self.update_time)
        if began is None:
            note(self._common, _UNDATED, "", is_lost=False)
        for index, it in enumerate(self.placed):
            if it.message.timestamp is not None:
                break
            self.placed[index] = replace(it, message=replace(it.message, timestamp=began))
        return began

    def _event(self, kind: str, **fields: Any) -> Event:
        return Event(kind, {"type": "event", "event": kind} | fields, self.where)

    def _flush(self) -> None:
        """Add thinking after which the agent said nothing."""
        if self._thoughts and self.placed:
            last = self.placed[-1].message
            import_id = f"{last.metadata['importId']}/thinking"
            self.say(Role.ASSISTANT, import_id, "", last.timestamp)
        self._thoughts.clear()

    def _answered(self, call_id: str, name: str) -> str | None:
        """Return the id of the call that a result answers: the one of its id, or else the newest of
        the tool's name, or without both the oldest; None: no call.
        """
        if call_id in self._calls:
            return call_id
        if not call_id and not name:  # results stand in the order of their calls
            return next(iter(self._calls), None)
        return next(reversed(self._of_family.get(_family(name), {})), None)

    def _free(self, call_id: str) -> str:
        """Return a call's id that no other call of the turn has."""
        call_id = free = call_id[: MAX_NAME - 8]
        while free in self._ids:
            self._ids[call_id] += 1
            free = f"{call_id}-{self._ids[call_id]}"
        self._ids[free] = 1
        return free

    def _at(self, value: Any) -> datetime | None:
        """Return the time of a message; where the export has none, that of the one before it."""
        time = moment(value)
        if time is None and value not in (None, "", 0):
            self.note(_UNREAD_TIME, f"{value!r:.40}", is_lost=False)
        self._time = time or self._time or moment(self.create_time)
        return self._time

    def _within(self, text: str, room: int, import_id: str, what: str) -> tuple[str, int]:
        """Return as much of a text as there is room for in bytes, and the room that is left."""
        if len(text) <= room // 4 or (size := len(data := text.encode())) <= room:
            return text, room - len(text.encode())
        part = data[:room].decode(errors="ignore")
        last = size - len(part.encode())
        self.note(f"message {import_id}: the last {last:,} of {size:,} bytes of its {what} are cut")
        return part + _CUT, 0

    def _cut(self, text: str, most: int, what: str) -> str:
        if len(text) > most:
            self.note(f"the {what} is cut to {most} characters", f"{text:.40}")
        return text[:most]

    def _add(self, message: Message) -> None:
        where = f"{self.where} message {message.metadata['importId']}"
        self.placed.append(Placed(replace(message, turn_number=self._turn), where))


def _family(tool: str) -> str:
    """Return the first part of a tool's name, which its results have too."""
    return tool.partition(".")[0]


def _metadata(import_id: str, more: dict[str, Any]) -> dict[str, Any]:
    return {"importId": import_id} | {name: value for name, value in more.items() if value}


def clean(text: str) -> str:
    """Return a text as the contract takes it: no NUL, no half of a surrogate pair."""
    text = text.replace("\x00", "")
    return text if text.isascii() else text.encode(errors="replace").decode()


def attachment(uri: str, name: str = "", media_type: str = "", size: Any = None) -> Attachment:
    """Return a file that came with a message. Only the reference is in the export, or kept."""
    guess = mimetypes.guess_type(name)[0] if "/" not in media_type else None
    kind = media_type if "/" in media_type else guess or "application/octet-stream"
    bytes_length = size if type(size) is int and 0 < size < 1 << 63 else 0
    return Attachment(clean(kind)[:255], clean(uri), bytes_length)


def moment(value: Any) -> datetime | None:
    """Return a time: a number of seconds, milli-, micro- or nanoseconds since 1970, also as a text,
    or a text of ISO 8601 or RFC 5322. None for anything else, and for zeros of other clocks.
    """
    try:
        if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
            value = float(value)
        if isinstance(value, str):
            time = _time_of(value.strip())
        elif isinstance(value, datetime):
            time = value
        elif type(value) in (int, float) and value < 1e20:
            while value > 1e11:  # the year 5138 in seconds, 1973 in milliseconds
                value /= 1000
            time = datetime.fromtimestamp(value, UTC)
        else:
            return None
        time = (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return None
    return time if time.year >= _FIRST_YEAR else None


def local_moment(text: Any) -> datetime | None:
    """Return a time of ISO 8601 of a machine that wrote no time zone, in this machine's; None for
    anything else.
    """
    try:
        return datetime.fromisoformat(text).astimezone()
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def _time_of(text: str) -> datetime:
    """Return the time of a text. Raises ValueError, TypeError."""
    if len(text) > _MAX_TIME:
        raise ValueError("too long for a time")
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return parsedate_to_datetime(text)

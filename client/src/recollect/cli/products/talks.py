"""Conversations of other products on their way into plans, whatever the product."""

import mimetypes
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from recollect import Attachment, Message, Role, ToolCall
from recollect.cli import transcript
from recollect.cli.plans import Batch, Event, Placed, Plan, Skip
from recollect.cli.transcript import Beginning, Damaged

MAX_TEXT = 900_000
"""Bytes of a message's longest text: a server takes messages of 1 MiB by default."""
MAX_TITLE = 80
MAX_CALLS = 128
MAX_ATTACHMENTS = 64
MAX_NAME = 256
_CUT = "\n[… cut by the import]"


@dataclass(slots=True)
class Talk:
    """One conversation of an export on its way into a plan."""

    product: str
    """The name of the product, which is its channel and the first part of the plan's key."""
    id: str
    """Its id there, which names it in every export."""
    where: str
    title: str = ""
    create_time: datetime | None = None
    url: str = ""
    is_archived: bool = False
    branches: int = 0
    """Messages of other branches, kept out."""
    hidden: int = 0
    """Messages that the product itself does not show, kept out."""
    placed: list[Placed] = field(default_factory=list)
    _calls: list[tuple[str, str]] = field(default_factory=list)  # calls without a result: id, name
    _thoughts: list[str] = field(default_factory=list)
    _time: datetime | None = None
    _turn: int = 0
    _ids: set[str] = field(default_factory=set)  # ids of the present turn's calls

    def think(self, text: str) -> None:
        """Keep thinking for the next message of the agent."""
        if text.strip():
            self._thoughts.append(clean(text).strip())

    def say(
        self,
        role: Role,
        import_id: str,
        text: str,
        time: datetime | None,
        *,
        calls: tuple[ToolCall, ...] = (),
        attachments: tuple[Attachment, ...] = (),
        **metadata: Any,
    ) -> None:
        """Add a message of the person or the agent, unless it is empty."""
        text = clean(text)
        if not text.strip():
            text = ""
        if role is Role.USER:
            self._flush()
        thinking = "\n\n".join(self._thoughts) if role is Role.ASSISTANT else ""
        if not (text or calls or attachments or thinking):
            return
        if role is Role.USER or not self._turn:
            self._turn += 1
            self._calls.clear()
            self._ids.clear()
        if thinking:
            self._thoughts.clear()
        named = []
        for call in calls[:MAX_CALLS]:
            call_id = self._free(clean(call.id) or f"{import_id}/call")
            name = (clean(call.name) or "tool")[:MAX_NAME]
            named.append(ToolCall(call_id, name, clean(call.arguments)))
            self._calls.append((call_id, call.name))
        self._add(
            import_id,
            Message(
                role=role,
                content=text,
                thinking_text=clean(thinking),
                tool_calls=tuple(named),
                attachments=attachments[:MAX_ATTACHMENTS],
                timestamp=self._at(time),
                metadata=_metadata(import_id, metadata),
            ),
        )

    def result(
        self,
        import_id: str,
        name: str,
        text: str,
        time: datetime | None,
        *,
        call_id: str = "",
        **metadata: Any,
    ) -> None:
        """Add the result of a tool. Where the export has no call that it answers, one is added."""
        index = self._answered(call_id, name)
        if index is None:
            own = f"{import_id}/call"
            call = ToolCall(call_id or own, name or "tool", "")
            self.say(Role.ASSISTANT, own, "", time, calls=(call,))
            index = len(self._calls) - 1
        answered, _ = self._calls.pop(index)
        self._add(
            import_id,
            Message(
                role=Role.TOOL,
                content=clean(text),
                tool_call_id=answered,
                timestamp=self._at(time),
                metadata=_metadata(import_id, metadata),
            ),
        )

    def plan(self) -> Plan | Skip:
        """Return the plan of the conversation; Skip where it has no messages."""
        self._flush()
        if not self.placed:
            return Skip(self.where, "it has no messages")
        steps: list[Batch | Event] = [
            Batch(str(turn), list(batch))
            for turn, batch in groupby(self.placed, key=lambda it: it.message.turn_number)
        ]
        title = transcript.one_line(clean(self.title))
        if len(title) > MAX_TITLE:
            title = f"{title[: MAX_TITLE - 1].rstrip()}…"
        if title:
            steps.append(self._event("title_assigned", title=title, writer="caller"))
        origin = {"importedFrom": self.product, "importId": self.id} | (
            {"url": self.url} if self.url else {}
        )
        steps.append(self._event("meta_update", metadata=origin))
        if self.is_archived:
            steps.append(self._event("meta_update", archived=True))
        times = (self.create_time, self.placed[0].message.timestamp)
        began = min((it for it in times if it is not None), default=None)
        return Plan(
            key=(self.product, self.id),
            where=self.where,
            beginning=Beginning("", self.product, self.create_time or began),
            steps=steps,
            grows=True,
            branches=self.branches,
            hidden=self.hidden,
        )

    def _event(self, kind: str, **fields: Any) -> Event:
        return Event(kind, {"type": "event", "event": kind} | fields, self.where)

    def _flush(self) -> None:
        """Add thinking after which the agent said nothing."""
        if self._thoughts and self.placed:
            last = self.placed[-1].message
            import_id = f"{last.metadata['importId']}/thinking"
            self.say(Role.ASSISTANT, import_id, "", last.timestamp)
        self._thoughts.clear()

    def _answered(self, call_id: str, name: str) -> int | None:
        """Return the index of the call that a result answers: the one of its id, or else the newest
        of the tool's name; None: no call.
        """
        for index, (own, _) in enumerate(self._calls):
            if call_id and own == call_id:
                return index
        family = name.partition(".")[0]
        for index in reversed(range(len(self._calls))):
            if self._calls[index][1].partition(".")[0] == family:
                return index
        return None

    def _free(self, call_id: str) -> str:
        """Return a call's id that no other call of the turn has."""
        call_id, count = call_id[: MAX_NAME - 8], 1
        free = call_id
        while free in self._ids:
            count += 1
            free = f"{call_id}-{count}"
        self._ids.add(free)
        return free

    def _at(self, time: datetime | None) -> datetime | None:
        """Return the time of a message; where the export has none, that of the one before it."""
        self._time = time or self._time or self.create_time
        return self._time

    def _add(self, import_id: str, message: Message) -> None:
        self.placed.append(
            Placed(replace(message, turn_number=self._turn), f"{self.where} message {import_id}")
        )


def _metadata(import_id: str, more: dict[str, Any]) -> dict[str, Any]:
    return {"importId": import_id} | {name: value for name, value in more.items() if value}


def clean(text: str) -> str:
    """Return a text as the contract takes it: no NUL, no half of a surrogate pair, not too long."""
    text = text.replace("\x00", "").encode(errors="replace").decode()
    if len(text) > MAX_TEXT // 4 and len(data := text.encode()) > MAX_TEXT:
        text = data[:MAX_TEXT].decode(errors="ignore") + _CUT
    return text


def attachment(uri: str, name: str = "", media_type: str = "", size: Any = None) -> Attachment:
    """Return a file that came with a message. Only the reference is in the export, or kept."""
    guess = mimetypes.guess_type(name)[0] if "/" not in media_type else None
    kind = media_type if "/" in media_type else guess or "application/octet-stream"
    bytes_length = size if type(size) is int and 0 < size < 1 << 63 else 0
    return Attachment(clean(kind)[:255], clean(uri)[:8192], bytes_length)


def mapping(value: Any, what: str) -> dict[str, Any]:
    """Return a value that must be an object. Raises Damaged."""
    if not isinstance(value, dict):
        raise Damaged(f"{what}: it is no object")
    return value


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects of a list; nothing where it is none."""
    yield from (it for it in value if isinstance(it, dict)) if isinstance(value, list) else ()


def text_of(value: Any) -> str:
    """Return a value that is a text, else an empty one."""
    return value if isinstance(value, str) else ""


def seconds(value: Any) -> datetime | None:
    """Return the time of seconds since 1970, None for anything else."""
    if type(value) not in (int, float) or value <= 0:
        return None
    try:
        return datetime.fromtimestamp(value, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def moment(value: Any) -> datetime | None:
    """Return the time of a text as ISO 8601 has it, None for anything else."""
    try:
        time = datetime.fromisoformat(value)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        return None

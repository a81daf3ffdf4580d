"""A `SessionStore` of the Claude Agent SDK. Needs the extra `recollect-client[claude-agent]`.

    from recollect.adapters.claude_agent import RecollectSessionStore

    store = RecollectSessionStore(Client())
    options = ClaudeAgentOptions(session_store=store, resume=session_id)

A session is a conversation of the channel `claude-agent`, of the group that is its project, and a
subagent's transcript one of `claude-subagent`. What the person and the agent say is a message each,
tool calls and results included. The lines that only Claude Code reads (settings, costs, prompts of
its own) are kept with the message before or behind them, and shown nowhere.

Every line comes back as it was, in the order in which it was stored. One with a `uuid` that is
there is not stored again, so that a batch may be repeated and a session imported twice.
"""

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import PurePath
from typing import Any, TypeVar, cast
from urllib.parse import quote, unquote
from uuid import uuid4
from weakref import WeakValueDictionary

import anyio
import anyio.to_thread
from claude_agent_sdk import (
    HookContext,
    HookInput,
    HookJSONOutput,
    HookMatcher,
    SessionKey,
    SessionListSubkeysKey,
    SessionStore,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
    fold_session_summary,
)
from claude_agent_sdk.types import HookEvent

from recollect import ArchiveFilter, Client, Conversation, Party, Role, ToolCall
from recollect.adapters.clients import blocking
from recollect.adapters.packing import FILES, Path, arguments_of
from recollect.adapters.transcripts import Kept, Transcript, Words, transcripts
from recollect.adapters.turn_recall import Budget, Turn, TurnRecall

CHANNEL = "claude-agent"
SUBAGENTS = "claude-subagent"
_KEY = "claudeAgent"
_STORED = "claudeAgentStored"
"""In the metadata of a session's conversation: the time at which it was last stored."""
_MAX_TITLE = 80
_MOST_ENDS, _MOST_SUMMARIES = 64, 1024  # that are at hand
_OF_THE_TOOL = (
    "<command-", "<local-command-", "<bash-", "<system-reminder", "<task-notification", "<user-memory",
    "<ide_", "Caveat: The messages below", "[Request interrupted by user",
)  # fmt: skip
"""Beginnings of texts that Claude Code writes in the person's name."""

_Answer = TypeVar("_Answer")
_Line = dict[str, Any]


class RecollectSessionStore(SessionStore):
    """Sessions that every process sees. Tasks may share it, of asyncio as of trio; it calls in
    threads. Its methods raise RecollectError.
    """

    def __init__(
        self,
        client: Client,
        *,
        channel: str = CHANNEL,
        subagents: str = SUBAGENTS,
        summary_seconds: float = 60,
    ) -> None:
        """Keep sessions with a client, in conversations of a channel, and the transcripts of their
        subagents in those of another one.

        A summary of a session has words of its prompts. It stays in memory, and for so many seconds
        alone: no redaction reaches it.
        """
        self._client = blocking(client)
        self._calls = client.conversations
        self._channels = channel, subagents
        self._opened = [transcripts(client, it, _KEY) for it in self._channels]
        self._ends: dict[str, _Progress] = {}
        self._summaries: dict[str, _Summary] = {}
        self._summary_seconds = summary_seconds
        self._appending: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Store lines that are not there yet, durable on return."""
        if entries:
            name = json.dumps(key, sort_keys=True)
            async with self._appending.setdefault(name, anyio.Lock()):
                await _in_thread(self._append, key, name, cast(list[_Line], entries))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return the lines of a session or of a subagent; None if there are none."""
        return cast(list[SessionStoreEntry] | None, await _in_thread(self._load, key))

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the sessions of a project, with the time at which each was last stored."""
        listed = await _in_thread(self._list, self._channels[0], _quoted(project_key))
        return [{"session_id": _thread(it), "mtime": _stored(it)} for it in listed]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Return the summaries of those sessions of a project that this store stored or loaded a
        while ago, if nobody else has added to them. The SDK loads the others that it shows.
        """
        listed = await _in_thread(self._list, self._channels[0], _quoted(project_key))
        since = time.monotonic() - self._summary_seconds
        return [
            {"session_id": _thread(it), "mtime": _stored(it), "data": summary.data}
            for it in listed
            if (summary := self._summaries.get(it.id))
            and summary.message_count == it.message_count
            and summary.made > since
        ]

    async def delete(self, key: SessionKey) -> None:
        """Delete a session with its subagents for good, or with a `subpath` one of these."""
        if not _is_sub(key):
            for subpath in await self.list_subkeys(_session(key)):
                await self.delete({**key, "subpath": subpath})
        await _in_thread(self._transcript(key).delete)

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the subpaths of a session's subagents."""
        group = _party({**key, "subpath": "-"}).group_id
        return [_thread(it) for it in await _in_thread(self._list, self._channels[1], group)]

    def recalling(self, budget: Budget = None) -> dict[HookEvent, list[HookMatcher]]:
        """Return `ClaudeAgentOptions(hooks=…)` that give the model what was said before about each
        prompt. `budget` is that of `build_context`.

        Claude Code keeps the text in its transcript, as a line that is not searched.
        """
        recall = TurnRecall(budget)

        async def add_context(given: HookInput, _: str | None, __: HookContext) -> HookJSONOutput:
            fields = cast(dict[str, Any], given)
            project = PurePath(fields["transcript_path"]).parent.name
            session = fields["session_id"]
            find = self._transcript({"project_key": project, "session_id": session}).find
            turn = Turn(uuid4(), fields["prompt"])
            text = await _in_thread(recall.text, self._client, session, turn, find)
            if not text:
                return {}
            event: Any = {"hookEventName": "UserPromptSubmit", "additionalContext": text}
            return {"hookSpecificOutput": event}

        return {"UserPromptSubmit": [HookMatcher(hooks=[add_context])]}

    # In threads -----------------------------------------------------------------------------------

    def _append(self, key: SessionKey, name: str, lines: list[_Line]) -> None:
        transcript = self._transcript(key)
        end = self._ends.pop(name, None)  # gone if the append fails: some of it may be stored
        conversation = transcript.find()
        if end is None or not end.is_of(conversation):
            end = _Progress(_session(key))
            end.add([] if conversation is None else _lines(transcript.read()))
        lines = end.new_of(lines)
        if not lines:
            return
        stored = transcript.add(_items(lines, is_sub=_is_sub(key)))
        assert stored is not None
        end.add(lines)
        end.place = stored.id, stored.message_count
        if not _is_sub(key):
            self._name(stored, lines)
            now = max(_stored(stored) + 1, time.time_ns() // 1_000_000)
            self._summarise(self._calls.update_metadata(stored.id, {_STORED: now}), end)
        self._ends[name] = end
        if len(self._ends) > _MOST_ENDS:
            del self._ends[next(iter(self._ends))]

    def _load(self, key: SessionKey) -> list[_Line] | None:
        conversation, rows = self._transcript(key).load()
        lines = _lines(rows)
        if conversation is not None and not _is_sub(key):
            end = _Progress(_session(key))
            end.add(lines)
            self._summarise(conversation, end)
        return None if conversation is None else lines

    def _name(self, conversation: Conversation, lines: Iterable[_Line]) -> None:
        """Name a session by the newest title of each kind: the person's stands."""
        for kind in ("aiTitle", "customTitle"):
            titles = [title for it in lines if (title := _title(it, kind))]
            if titles:
                is_automatic = kind == "aiTitle"
                self._calls.rename(conversation.id, titles[-1], automatic=is_automatic)

    def _summarise(self, conversation: Conversation, end: "_Progress") -> None:
        assert end.summary is not None
        self._summaries.pop(conversation.id, None)
        self._summaries[conversation.id] = _Summary(conversation.message_count, end.summary["data"])
        if len(self._summaries) > _MOST_SUMMARIES:
            del self._summaries[next(iter(self._summaries))]

    def _list(self, channel: str, group: str) -> list[Conversation]:
        party, every = Party(group_id=group), ArchiveFilter.ALL
        return [*self._calls.list(channels=[channel], party=party, archived=every, page_size=500)]

    def _transcript(self, key: SessionKey) -> Transcript:
        return self._opened[_is_sub(key)](_party(key))


@dataclass
class _Progress:
    """The state of a session behind its last line, for the next append."""

    key: SessionKey
    place: tuple[str, int] | None = None
    """The conversation, and the number of its messages; None before it begins."""
    uuids: set[str] = field(default_factory=set)
    summary: SessionSummaryEntry | None = None

    def is_of(self, conversation: Conversation | None) -> bool:
        """Return whether nobody else has added or deleted since."""
        now = None if conversation is None else (conversation.id, conversation.message_count)
        return self.place == now

    def add(self, lines: list[_Line]) -> None:
        """Count lines in."""
        for it in lines:
            _is_first(it, self.uuids)
        entries = cast(list[SessionStoreEntry], lines)
        self.summary = fold_session_summary(self.summary, self.key, entries)

    def new_of(self, lines: Iterable[_Line]) -> list[_Line]:
        """Return the lines that are not there yet, each once."""
        uuids = set(self.uuids)
        return [it for it in lines if _is_first(it, uuids)]


@dataclass
class _Summary:
    """The SDK's summary of a session of so many messages."""

    message_count: int
    data: dict[str, Any]
    made: float = field(default_factory=time.monotonic)


async def _in_thread(call: Callable[..., _Answer], *args: Any) -> _Answer:
    return await anyio.to_thread.run_sync(partial(call, *args))


def _session(key: SessionKey | SessionListSubkeysKey) -> SessionKey:
    return {"project_key": key["project_key"], "session_id": key["session_id"]}


def _is_sub(key: SessionKey) -> bool:
    return bool(key.get("subpath"))


def _quoted(text: str) -> str:
    return quote(text, safe="")


def _party(key: SessionKey) -> Party:
    group, thread = _quoted(key["project_key"]), _quoted(key["session_id"])
    if _is_sub(key):
        group, thread = f"{group}/{thread}", _quoted(key["subpath"])
    return Party(group_id=group, thread_id=thread)


def _thread(it: Conversation) -> str:
    return unquote(it.party.thread_id) if it.party else ""


def _stored(it: Conversation) -> int:
    """Return the time at which a session was last stored, in milliseconds. That of its messages is
    when they were said.
    """
    return int(it.metadata.get(_STORED) or it.update_time.timestamp() * 1000)


def _is_first(line: _Line, uuids: set[str]) -> bool:
    """Return whether a line's id is not among others, and add it."""
    uuid = line.get("uuid")
    if not isinstance(uuid, str):
        return True
    is_first = uuid not in uuids
    uuids.add(uuid)
    return is_first


def _lines(rows: Iterable[Kept]) -> list[_Line]:
    """Return the lines of messages in the order in which they were stored, each once."""
    uuids = set[str]()
    lines: list[_Line] = []
    for it in sorted(rows, key=lambda it: it.sequence):
        if isinstance(it.item, dict):  # else another program's message
            own = [it.item["line"]] if "line" in it.item else []
            before, behind = (json.loads(it.item.get(name, "[]")) for name in ("before", "behind"))
            lines += [line for line in (*before, *own, *behind) if _is_first(line, uuids)]
    return lines


def _items(lines: Iterable[_Line], *, is_sub: bool) -> list[tuple[dict[str, Any], Words]]:
    """Return lines as messages: each that says something, with the silent ones before it; those
    behind the last one with that.
    """
    items: list[tuple[dict[str, Any], Words]] = []
    silent: list[_Line] = []
    for line in lines:
        words = _words(line, is_sub=is_sub)
        if words is None:
            silent.append(line)
        else:
            before = {"before": json.dumps(silent)} if silent else {}
            items.append(({**before, "line": line}, words))
            silent = []
    if silent and items:
        items[-1][0]["behind"] = json.dumps(silent)
    elif silent:
        hidden = Words(role=Role.ASSISTANT, kind="lines", overflow=FILES, is_hidden=True)
        items.append(({"before": json.dumps(silent)}, hidden))
    return items


def _words(line: _Line, *, is_sub: bool) -> Words | None:
    """Return what a line says; None if it says nothing."""
    message = line.get("message")
    kind, content = line.get("type"), message.get("content") if isinstance(message, dict) else None
    if kind not in {"user", "assistant"} or _is_silent(line, content, is_sub=is_sub):
        return None
    at: Path = ["line", "message", "content"]
    texts: list[Path] = [at] if isinstance(content, str) and content.strip() else []
    thinking: list[Path] = []
    calls: list[ToolCall] = []
    answers, has_files = "", False
    for index, block in enumerate(_blocks(content)):
        match block:
            case {"type": "text", "text": str(text)} if text.strip():
                texts.append([*at, index, "text"])
            case {"type": "thinking", "thinking": str(text)} if text.strip():
                thinking.append([*at, index, "thinking"])
            case {"type": "tool_use", "id": str(id_), "name": str(name)}:
                calls.append(ToolCall(id_, name, arguments_of(block.get("input"))))
            case {"type": "tool_result", "tool_use_id": str(id_)}:
                answers = answers or id_
                texts += _result_texts(block.get("content"), [*at, index, "content"])
            case {"type": "image" | "document"}:
                has_files = True
    if not (texts or thinking or calls or answers or has_files):
        return None
    role = Role.ASSISTANT if kind == "assistant" else Role.TOOL if answers else Role.USER
    if is_sub and role is Role.USER:  # another agent speaks to it, not the person
        role = Role.ASSISTANT
    return Words(
        role=role, texts=texts, thinking=thinking if kind == "assistant" else [], calls=calls,
        answers=answers, kind=str(kind), overflow=FILES, timestamp=_time(line.get("timestamp")),
        sender="agent" if is_sub and kind == "user" and not answers else "",
    )  # fmt: skip


def _is_silent(line: _Line, content: Any, *, is_sub: bool) -> bool:
    """Return whether Claude Code wrote a line, or a subagent did."""
    if any(line.get(it) for it in ("isMeta", "isCompactSummary", "isApiErrorMessage")):
        return True
    texts = [content] if isinstance(content, str) else [it.get("text") for it in _blocks(content)]
    is_of_tool = any(isinstance(it, str) and it.lstrip().startswith(_OF_THE_TOOL) for it in texts)
    is_users = line.get("type") == "user"
    return (is_users and is_of_tool) or bool(line.get("isSidechain") and not is_sub)


def _blocks(content: Any) -> list[_Line]:
    """Return the blocks of a message's content, each where it stands; an empty one for others."""
    blocks = content if isinstance(content, list) else []
    return [it if isinstance(it, dict) else {} for it in blocks]


def _result_texts(content: Any, at: Path) -> list[Path]:
    if isinstance(content, str):
        return [at]
    return [
        [*at, index, "text"]
        for index, it in enumerate(_blocks(content))
        if isinstance(it.get("text"), str)
    ]


def _title(line: _Line, kind: str) -> str:
    """Return the title that a line gives the session; empty for any other line."""
    return " ".join(str(line.get(kind) or "").split())[:_MAX_TITLE]


def _time(text: Any) -> datetime | None:
    """Return a time of the past; None leaves it to the server."""
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    begin, end = datetime(1971, 1, 1, tzinfo=UTC), datetime.now(UTC) + timedelta(hours=1)
    return moment if moment.tzinfo and begin < moment < end else None

"""Sessions of Gemini CLI in `~/.gemini/tmp`: `chats/session-*.jsonl`, before version 0.40 a JSON
object in `session-*.json`; and checkpoints of `/chat save`, `checkpoint-*.json`.

A line of a session is a message, a newer state of one by the same id, the id of the first message
that is taken back (`$rewindTo`), or facts about the session (`$set`). Where the tool shortens what
it sends to the model, `$set` lists the messages that stay, some under new ids. All that was said
comes: such a list only adds what is in no message before it.
"""

import json
import re
from collections import deque
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any
from urllib.parse import unquote

from recollect import Role, ToolCall, Usage
from recollect.imports.forms import Format, Options
from recollect.imports.plans import Plan, Skip, skip_of
from recollect.imports.reading import Reading
from recollect.imports.responses import text_of_value
from recollect.imports.talks import Talk, attachment
from recollect.imports.values import digest, fields_of, flag_of, members, objects, text_of

NAME = "gemini-cli"
_NOTICES = {"info", "error", "warning"}
_BOILERPLATE = re.compile(
    r"\s*(?:<(?:session_context|hook_context|state_snapshot)>|This is the Gemini CLI\. We are"
    r" setting up|/[a-z]+(?:\s|$)|\?\s*$)"
)
"""The beginning of texts that the tool writes in the user's name, and of commands."""
_PROMPTS_ALONE = "it has prompts without answers: Gemini CLI keeps both in the folder `chats`"
_STATE_ALONE = "it is a state of files before a tool ran: a session has its messages"
_PARTS = {
    "text", "thought", "thoughtSignature", "functionCall", "functionResponse", "inlineData", "fileData",
}  # fmt: skip

_Record = dict[str, Any]


def is_record(value: Any) -> bool:
    """Return whether a JSON value is one of a file of Gemini CLI."""
    if not isinstance(value, dict):
        return False
    return (
        _is_beginning(value)
        or _is_prompt(value)
        or _is_state(value)
        or _is_content(value)
        or (value.get("type") == "gemini" and {"id", "content"} <= value.keys())
        or any(map(_is_content, _history(value)))
    )


def _is_beginning(value: _Record) -> bool:
    return {"sessionId", "projectHash"} <= value.keys()


def _is_prompt(value: _Record) -> bool:
    """Return whether a value is a prompt of `logs.json`."""
    has_names = {"sessionId", "messageId"} <= value.keys()
    return has_names and isinstance(value.get("message"), str)


def _is_state(value: _Record) -> bool:
    """Return whether a value is a file of the folder `checkpoints`, for `/restore`."""
    return {"toolCall", "clientHistory"} <= value.keys()


def _is_content(value: Any) -> bool:
    """Return whether a value is a message as the model takes it."""
    is_object = isinstance(value, dict) and isinstance(value.get("parts"), list)
    return is_object and value.get("role") in {"user", "model"}


def _history(value: _Record) -> list[Any]:
    history = value.get("history")
    return history if isinstance(history, list) else []


def read(reading: Reading, _: Options) -> Iterator[Plan | Skip]:
    """Yield the conversation of a file, and the lines that cannot be read."""
    session = _Session()
    contents: list[_Record] = []  # of a checkpoint without a frame
    for where, value in reading.items(is_record):
        if not isinstance(value, dict):
            yield skip_of(where, value, "it is no JSON object")
        elif _is_prompt(value):
            yield Skip(reading.name, _PROMPTS_ALONE)
            return
        elif _is_state(value):
            yield Skip(where, _STATE_ALONE)
        elif "history" in value:
            yield _checkpoint(reading.name, objects(value, "history"))
        elif "role" in value and "parts" in value:
            contents.append(value)
        else:
            if _is_beginning(value) and session.messages and session.id != value["sessionId"]:
                yield session.plan(reading.name)
                session = _Session()
            if not session.take(value, where):
                yield Skip(where, "it is no line of a session")
    if contents:
        yield _checkpoint(reading.name, contents)
    if session.is_begun:
        name = PurePath(reading.name.rpartition(":")[2]).name
        if name.endswith(".json") and reading.source and reading.source.beside(f"{name}l"):
            yield Skip(reading.name, f"a newer version went on with it in {name}l", is_lost=False)
        else:
            yield session.plan(reading.name)


class _Session:
    """The messages of a session, and those that were taken back."""

    def __init__(self) -> None:
        self.messages: dict[str, _Record] = {}
        self._facts: _Record = {}
        self._rewound: list[_Record] = []
        self._shown: dict[str, None] = {}  # ids of messages that the model is sent
        self._recent: set[str] = set()  # ids in lines behind the newest list
        self._added: set[str] = set()  # ids that only a list has
        self._names: dict[str, str] = {}  # ids of copies -> those of the messages

    @property
    def id(self) -> str:
        return text_of(self._facts, "sessionId")

    @property
    def is_begun(self) -> bool:
        return bool(self._facts or self.messages or self._rewound)

    def take(self, record: _Record, where: str) -> bool:
        """Apply a line. Return False for one of a form that is not known."""
        if "$rewindTo" in record:
            self._rewind(text_of(record, "$rewindTo"))
        elif "$set" in record:
            facts = fields_of(record, "$set")
            if "messages" in facts:
                self._replace(objects(facts, "messages"), where)
            self._facts |= facts
        elif _is_beginning(record):
            # A session that goes on begins anew in the same file.
            began = self._facts.get("startTime") or record.get("startTime")
            self._facts |= record | {"startTime": began}
            for index, message in enumerate(objects(record, "messages"), start=1):
                self._add(message, f"{where}/{index}")
        elif "type" in record:
            self._add(record, where)
        else:
            return False
        return True

    def _add(self, message: _Record, where: str) -> None:
        own = text_of(message, "id") or where
        if own not in self._names:
            self.messages[own] = message
            self._shown[own] = None
            self._recent.add(own)

    def _rewind(self, target: str) -> None:
        """Take back the messages from one on; all where it is not there, as the tool does."""
        target = self._names.get(target, target)
        taken: list[_Record] = []
        while target and self.messages:
            own, message = self.messages.popitem()
            self._shown.pop(own, None)
            taken.append(message)
            if own == target:
                break
        self._rewound += reversed(taken)

    def _replace(self, messages: list[_Record], where: str) -> None:
        """Apply a list of the messages that stay. One under a new id that says the same as one
        that is no more in the list is a copy of it.
        """
        owns = [
            text_of(it, "id") or f"{where}/{index}" for index, it in enumerate(messages, start=1)
        ]
        owns = [self._names.get(it, it) for it in owns]
        replaced: dict[Any, deque[str]] = {}
        staying = set(owns)
        for own in self._shown:
            if own not in staying and own in self.messages:
                replaced.setdefault(_signature(self.messages[own]), deque()).append(own)
        # The tool may have written the copies as lines of their own before: then all are new.
        are_lines = all(it in self._recent or it not in self.messages for it in owns)
        self._shown = {}
        for own, message in zip(owns, messages, strict=True):
            is_new, original = own not in self.messages, own
            if (is_new or are_lines) and (originals := replaced.get(_signature(message))):
                original = self._names[own] = originals.popleft()
                self.messages.pop(own, None)
            elif is_new:
                self.messages[own] = message
                self._added.add(own)
            self._shown[original] = None
        self._recent.clear()

    def plan(self, name: str) -> Plan | Skip:
        path = PurePath(name.rpartition(":")[2])
        is_subagent = self._facts.get("kind") == "subagent"
        metadata = {}
        if project := text_of(self._facts, "projectHash"):
            metadata["projectHash"] = project
        if is_subagent:
            metadata["subagentOf"] = path.parent.name
        talk = Talk(
            NAME,
            self.id or path.stem,
            name,
            # A subagent's summary is its result, which its last call has, too.
            title="" if is_subagent else text_of(self._facts, "summary"),
            create_time=self._facts.get("startTime"),
            update_time=self._facts.get("lastUpdated"),
            metadata=metadata,
        )
        if notes := text_of(fields_of(self._facts, "memoryScratchpad"), "workflowSummary"):
            talk.hide(notes)
        answered = {
            text_of(call, "id")
            for message in self.messages.values()
            for call in objects(message, "toolCalls")
            if call.get("result")
        }
        for own, message in self.messages.items():
            _add(talk, message, own, answered, is_added=own in self._added)
        for message in self._rewound:
            talk.set_aside(_add, message=message, own="", answered=answered)
        if talk.placed and all(it.message.metadata.get("boilerplate") for it in talk.placed):
            return Skip(name, "it has only what the tool wrote in the user's name")
        return talk.plan()


def _signature(message: _Record) -> Any:
    """Return what a message has in common with its copies: ids of calls are not always in both."""
    parts = _parts(message, "content")
    calls = objects(message, "toolCalls") or [fields_of(it, "functionCall") for it in parts]
    named = [
        (text_of(it, "name"), json.dumps(it.get("args"), sort_keys=True)) for it in calls if it
    ]
    results = [text_of(fields_of(it, "functionResponse"), "name") for it in parts]
    return text_of(message, "type"), _text(parts).strip(), (*named, *filter(None, results))


def _checkpoint(name: str, contents: list[_Record]) -> Plan | Skip:
    """Return the conversation of a checkpoint, which has neither an id nor times."""
    tag = unquote(PurePath(name.rpartition(":")[2]).stem.removeprefix("checkpoint-"))
    first = next(filter(None, (_own_text(it) for it in contents)), "")
    talk = Talk(NAME, f"checkpoint/{tag}/{digest(first, 8)}", name, title=tag)
    for index, content in enumerate(contents, start=1):
        # A checkpoint may be saved anew over another one: what was said names a message as well.
        own = f"{index}/{digest(json.dumps(content, sort_keys=True), 8)}"
        kind = {"user": "user", "model": "gemini"}.get(text_of(content, "role"), "other")
        _add(talk, {"type": kind, "content": content.get("parts")}, own, set())
    return talk.plan()


def _own_text(content: _Record) -> str:
    """Return the text of a message of the user's own."""
    text = _text(_parts(content, "parts")) if content.get("role") == "user" else ""
    return "" if _BOILERPLATE.match(text) else text


def _parts(holder: _Record, name: str) -> list[_Record]:
    """Return the parts of a message: a text, a part, or a list of both."""
    value = holder.get(name)
    values = members(holder, name, "part", str, dict) if isinstance(value, list) else [value]
    if isinstance(value, str | dict | list) or value is None:
        return [{"text": it} if isinstance(it, str) else it for it in values if it]
    return [{"text": text_of(holder, name)}]  # which names the value


def _text(parts: list[_Record]) -> str:
    """Return the text of parts without thinking."""
    return "".join(text_of(it, "text") for it in parts if not flag_of(it, "thought"))


def _add(
    talk: Talk, message: _Record, own: str, answered: set[str], *, is_added: bool = False
) -> None:
    """Add a message. `answered` has the ids of calls that stand in a message with their results."""
    kind, time = text_of(message, "type"), message.get("timestamp")
    parts = _parts(message, "content")
    text = _text(parts)
    files = [
        attachment(text_of(it, "fileUri") or f"{NAME}:{talk.id}/{own}/{index}", "", text_of(it, "mimeType"))
        for index, part in enumerate(parts, start=1)
        for it in (fields_of(part, "inlineData"), fields_of(part, "fileData"))
        if it
    ]  # fmt: skip
    _name_unread(talk, parts, own)
    results = [it for part in parts if (it := fields_of(part, "functionResponse"))]
    for index, it in enumerate(results, start=1):
        if (call_id := text_of(it, "id")) not in answered:
            output, tool = _output(it), text_of(it, "name")
            talk.result(f"{own}/result-{index}", tool, output, time, call_id=call_id)
    if kind in _NOTICES:
        talk.hide(text)
    elif kind == "user":
        shown = _text(_parts(message, "displayContent")) or text
        is_boilerplate = is_added or bool(_BOILERPLATE.match(text))
        is_read = talk.say(
            Role.USER, own, shown, time, attachments=files, boilerplate=is_boilerplate
        )
        if shown != text:
            talk.hide(text.removeprefix(shown))
        talk.hidden += not is_read and not results
    elif kind == "gemini":
        _answer(talk, message, own, parts, time)
    else:
        talk.note(f"a message of the type {kind!r:.40} is not read", text)


def _name_unread(talk: Talk, parts: list[_Record], own: str) -> None:
    for key in sorted({key for it in parts for key, value in it.items() if value} - _PARTS):
        talk.note(f"a part with {key!r:.40} is not read", own)


def _answer(talk: Talk, message: _Record, own: str, parts: list[_Record], time: Any) -> None:
    """Add an answer, and its calls as messages of their own: they may not yet be in the file."""
    thoughts = objects(message, "thoughts")
    for it in thoughts:
        talk.think("\n".join(filter(None, (text_of(it, "subject"), text_of(it, "description")))))
    for part in parts:
        if flag_of(part, "thought") and not thoughts:
            talk.think(text_of(part, "text"))
    model, usage = text_of(message, "model"), None
    match fields_of(message, "tokens"):
        case {"input": int(sent), "output": int(received)}:
            if min(sent, received) >= 0 and max(sent, received) < 1 << 63:
                usage = Usage(sent, received)
    is_read = talk.say(Role.ASSISTANT, own, _text(parts), time, model=model, usage=usage)
    recorded = objects(message, "toolCalls")
    ids = {"" if recorded else None, *(text_of(it, "id") for it in recorded)}
    unrecorded = [it for part in parts if (it := fields_of(part, "functionCall"))]
    calls = [*recorded, *(it for it in unrecorded if text_of(it, "id") not in ids)]
    for index, call in enumerate(calls, start=1):
        place, tool = f"{own}/{index}", text_of(call, "name")
        call_id = text_of(call, "id") or f"{place}/call"
        arguments = json.dumps(call.get("args"), ensure_ascii=False)
        named = ToolCall(call_id, tool, arguments)
        usage = None if is_read else usage
        is_read = talk.say(Role.ASSISTANT, place, "", time, calls=[named], model=model, usage=usage)
        if results := _parts(call, "result") or _parts(call, "resultDisplay"):
            _name_unread(talk, results, place)
            texts = [_output(fields_of(it, "functionResponse")) or _text([it]) for it in results]
            talk.result(
                f"{place}/result",
                tool,
                "\n".join(filter(None, texts)),
                call.get("timestamp"),
                call_id=call_id,
                isError=call.get("status") in {"error", "cancelled"},
            )
    talk.hidden += not is_read


def _output(response: _Record) -> str:
    """Return the text of a tool's result."""
    value = fields_of(response, "response")
    return text_of_value(
        next((value[it] for it in ("output", "error") if it in value), value or None)
    )


FORMAT = Format(NAME, "Gemini CLI", read, is_record)

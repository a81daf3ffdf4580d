"""Sessions of Claude Code: files of JSON lines in `~/.claude/projects`, one session each.

Each line names its parent. A question that was taken back begins a branch; what the agent says and
does without a new question begins none, whatever line it names. Lines of subagents (`isSidechain`)
are conversations of their own, in a file of their own or within that of the session.
"""

import json
import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from recollect import Attachment, Role, ToolCall
from recollect.imports.forms import Format, Options
from recollect.imports.plans import Plan, Skip, skip_of
from recollect.imports.reading import Reading
from recollect.imports.talks import Talk, attachment, moment
from recollect.imports.transcript import Damaged
from recollect.imports.trees import NOT_STATED, parent_of
from recollect.imports.values import blocks_of, fields_of, flag_of, text_of

NAME = "claude-code"
_SAID = {"user", "assistant"}
_BOILERPLATE = re.compile(
    r"\s*(?:<(?:command-(?:name|message|args)|local-command-\w+|bash-(?:input|stdout|stderr)"
    r"|system-reminder|task-notification|user-memory-input|ide_\w+)>|Caveat: The messages below"
    r"|\[Request interrupted by user)"
)
"""The beginning of texts that the tool writes in the user's name."""

_UUID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_Line = dict[str, Any]


def is_line(value: Any) -> bool:
    """Return whether a line is a message of a session."""
    return isinstance(value, dict) and text_of(value, "type") in _SAID and "sessionId" in value


def read(reading: Reading, _: Options) -> Iterator[Plan | Skip]:
    """Yield the conversation of a session, and the lines that cannot be read."""
    lines: dict[str, _Line] = {}
    titles: dict[str, str] = {}
    for where, value in reading.items(is_line):
        if not isinstance(value, dict):
            yield skip_of(where, value, "it is no JSON object")
            continue
        if not _is_said(value) and (reason := _damage_of(value)):
            yield Skip(where, reason)
        if "uuid" in value or _is_said(value):
            lines[text_of(value, "uuid") or where] = value
        else:
            _add_title(titles, value)
    messages = [it for it in lines.values() if _is_said(it)]
    if not messages:
        yield Skip(reading.name, "it has no messages")
        return
    is_main = any(not flag_of(it, "isSidechain") for it in messages)
    groups: dict[str, dict[str, _Line]] = {}  # lines by the first one of their subagent
    roots: dict[str, str] = {}
    for name, it in lines.items():
        root = ""
        if is_main and flag_of(it, "isSidechain"):
            root = roots.get(parent_of(it, "parentUuid", "") or "") or name
        roots[name] = root
        groups.setdefault(root, {})[name] = it
    for root, group in groups.items():
        if any(map(_is_said, group.values())):
            own_titles = {} if root else titles
            try:
                yield _plan(
                    reading.name, group, own_titles, is_main=is_main and not root, root=root
                )
            except Damaged as error:
                yield Skip(reading.name, str(error))


def _is_said(line: _Line) -> bool:
    """Return whether a line of a session holds a message of the user's or the agent's."""
    is_message = text_of(line, "type") in _SAID and isinstance(line.get("message"), dict)
    return is_message or _queued(line) is not None


def _damage_of(line: _Line) -> str:
    """Return why a line that holds no message should hold one; empty if it need not."""
    if not (kind := text_of(line, "type")):
        return "its `type` is no text"
    if kind in _SAID:
        return "its `message` is no object"
    return f"a message of the type {kind!r:.40} is not read" if "message" in line else ""


def _queued(line: _Line) -> Any:
    """Return what the user said while the agent was at work, which stands in a line of its own;
    None for any other line.
    """
    attached = line.get("attachment")
    if line.get("type") != "attachment" or not isinstance(attached, dict):
        return None
    is_prompt = attached.get("type") == "queued_command" and attached.get("commandMode") == "prompt"
    return attached.get("prompt") if is_prompt else None


def _add_title(titles: dict[str, str], value: _Line) -> None:
    """Keep the title that a line gives, if it gives one."""
    for key in ("customTitle", "aiTitle", "summary"):
        if title := text_of(value, key):
            titles[text_of(value, "leafUuid") or key] = title
            return


def _plan(
    name: str, lines: dict[str, _Line], titles: dict[str, str], *, is_main: bool, root: str
) -> Plan | Skip:
    first = next(it for it in lines.values() if _is_said(it))
    stem = PurePath(name.rpartition(":")[2]).stem
    # The lines that a resumed session begins with may still name the session that it resumes.
    own = stem if is_main and _UUID.fullmatch(stem) else text_of(first, "sessionId") or stem
    if not is_main:
        own = f"{own}/{root or text_of(first, 'agentId') or stem}"
    summaries = [title for key, title in titles.items() if key in lines]
    title = titles.get("customTitle") or titles.get("aiTitle") or (summaries or [""])[-1]
    facts = {"cwd": "cwd", "gitBranch": "gitBranch"}
    facts |= {} if is_main else {"subagentOf": "sessionId"}
    metadata = {key: text for key, name in facts.items() if (text := text_of(first, name))}
    talk = Talk(NAME, own, name, title=title, metadata=metadata)
    branch = _branch(talk, lines)
    for own, line in lines.items():
        if not _is_said(line):
            if text_of(line, "type") in {"system", "attachment"}:
                attached = fields_of(line, "attachment")
                texts = (line.get("content"), attached.get("content"), attached.get("prompt"))
                talk.hide(next((it for it in texts if isinstance(it, str)), ""))
        elif own not in branch:
            talk.set_aside(_add, line=line, own=own)
        else:
            _add(talk, line, own)
    return talk.plan()


def _branch(talk: Talk, lines: dict[str, _Line]) -> set[str]:
    """Return the lines on the branch of the newest message, with what the agent said and did beside
    it.
    """
    parents: dict[str, str | None] = {}
    for index, (own, line) in enumerate(lines.items()):
        named = (parent_of(line, it, "") for it in ("parentUuid", "logicalParentUuid"))
        parent = next(filter(None, named), None)
        # Behind a compaction a session goes on without a parent.
        parents[own] = parent if parent or not index else NOT_STATED
    parents_of_said = {parents[own] for own, it in lines.items() if _is_said(it)}
    end, newest = "", None
    for own, line in lines.items():
        if _is_said(line) and own not in parents_of_said:
            time = moment(line.get("timestamp")) or newest
            if newest is None or time is None or time >= newest:
                end, newest = own, time or newest
    branch = set(talk.branch(parents, end, {own: it.get("timestamp") for own, it in lines.items()}))
    for own, line in lines.items():
        is_near = parents[own] in branch or parents[own] not in parents
        if is_near and not _is_question(line):
            branch.add(own)
    return branch


def _is_question(line: _Line) -> bool:
    """Return whether the user says something in a line, which is no result of a tool."""
    kinds = [it.get("type") for it in _blocks(line)]
    return line.get("type") != "assistant" and bool(kinds) and "tool_result" not in kinds


def _blocks(line: _Line) -> list[dict[str, Any]]:
    if _queued(line) is not None:
        return blocks_of(line["attachment"], "prompt")
    return blocks_of(fields_of(line, "message"), "content")


def _add(talk: Talk, line: _Line, own: str) -> None:
    time, model = line.get("timestamp"), text_of(fields_of(line, "message"), "model")
    is_agent = line.get("type") == "assistant"
    is_boilerplate = bool(
        any(line.get(it) for it in ("isMeta", "isCompactSummary", "isApiErrorMessage"))
        or line.get("promptSource") == "system"
        or fields_of(line, "origin").get("kind") == "task-notification"
    )
    texts: list[str] = []
    calls: list[ToolCall] = []
    files: list[Attachment] = []
    left: list[str] = []
    results = 0
    for index, block in enumerate(_blocks(line), start=1):
        match block.get("type"):
            case "text":
                texts.append(text_of(block, "text"))
            case "thinking":
                talk.think(text_of(block, "thinking"))
            case "redacted_thinking":
                talk.hidden += 1
            case "tool_use" | "server_tool_use":
                arguments = json.dumps(block.get("input"), ensure_ascii=False)
                name = text_of(block, "name")
                calls.append(ToolCall(text_of(block, "id") or f"{own}/{index}", name, arguments))
            case "tool_result":
                results += 1
                talk.result(
                    own if results == 1 else f"{own}/{index}",
                    "",
                    _text(blocks_of(block, "content"), files, own),
                    time,
                    call_id=text_of(block, "tool_use_id"),
                    isError=flag_of(block, "is_error"),
                )
            case "image" | "document":
                _text([block], files, own)
            case kind:
                talk.note(f"a block of the type {kind!r:.40} is not read")
    own_texts = [it for it in texts if it.strip() and not _BOILERPLATE.match(it)]
    if is_agent:
        own_texts = texts
    elif not own_texts and any(texts):
        own_texts, is_boilerplate = texts, True
    else:
        left = [it for it in texts if _BOILERPLATE.match(it)]
    is_said = talk.say(
        Role.ASSISTANT if is_agent else Role.USER,
        f"{own}/text" if results else own,
        "\n\n".join(own_texts),
        time,
        calls=calls,
        attachments=files,
        boilerplate=is_boilerplate,
        model="" if model.startswith("<") else model,
    )
    for it in left:
        talk.hide(it)
    talk.hidden += not is_said and not results and not _blocks(line)


def _text(blocks: list[dict[str, Any]], files: list[Attachment], own: str) -> str:
    """Return the text of a result, and add the files in it, whose content stays behind."""
    texts = []
    for block in blocks:
        texts.append(text_of(block, "text"))
        if source := fields_of(block, "source"):
            kind, place = text_of(source, "media_type"), f"{own}/{len(files) + 1}"
            uri = text_of(source, "url") or f"claude-code:{place}"
            files.append(attachment(uri, media_type=kind))
        elif name := text_of(block, "tool_name"):
            texts.append(name)
    return "\n".join(filter(None, texts))


FORMAT = Format(NAME, "Claude Code", read, is_line)

"""The data export of claude.ai: `conversations.json`.

A message of the agent holds blocks: thinking, text, calls of tools and their results, in the order
in which they came. Here each run of blocks up to a result is a message of its own.
"""

import json
from typing import Any

from recollect import Attachment, Role, ToolCall
from recollect.imports.forms import conversations
from recollect.imports.plans import Plan, Skip
from recollect.imports.talks import Talk, attachment
from recollect.imports.transcript import Damaged
from recollect.imports.trees import parent_of
from recollect.imports.values import flag_of, mapping, objects, pass_over, text_of

NAME = "claude"
_WITHOUT_TEXT = {"text", "token_budget", "flag"}
"""Blocks that may hold nothing of what was said."""


def is_conversation(value: Any) -> bool:
    """Return whether an item is a conversation of this product."""
    return isinstance(value, dict) and isinstance(value.get("chat_messages"), list)


def plan(fields: Any, where: str) -> Plan | Skip:
    """Return the plan of a conversation. Raises Damaged."""
    messages = mapping(fields, "conversation").get("chat_messages")
    if not isinstance(messages, list):
        raise Damaged("chat_messages: it is no list")
    own = text_of(fields, "uuid")
    if not own:
        raise Damaged("uuid: it is missing")
    entries = [mapping(it, "chat_messages: a message") for it in messages]
    talk = Talk(
        NAME,
        own,
        where,
        title=text_of(fields, "name"),
        create_time=fields.get("created_at"),
        update_time=fields.get("updated_at"),
        url=f"https://claude.ai/chat/{own}",
    )
    by_id: dict[str, dict[str, Any]] = {}
    for index, it in enumerate(entries, start=1):
        name = text_of(it, "uuid") or f"message-{index}"
        by_id[f"{name}/{index}" if name in by_id else name] = it
    parents = {own: parent_of(it, "parent_message_uuid") for own, it in by_id.items()}
    if not any(it in by_id for it in parents.values()):
        branch = list(by_id)  # exports of earlier versions have the messages in their order
    else:
        times = {own: it.get("created_at") for own, it in by_id.items()}
        branch = talk.branch(parents, text_of(fields, "current_leaf_message_uuid"), times)
    talk.add_branch(by_id, branch, _add)
    return talk.plan()


def _add(talk: Talk, message: dict[str, Any], own: str) -> None:
    time = message.get("created_at")
    blocks = objects(message, "content")
    match message.get("sender"):
        case "human":
            texts = [_read(talk, it) for it in blocks]
            if not any(texts):
                texts = [text_of(message, "text")]
            files, pasted = _files(message)
            text = "\n\n".join(filter(None, (*texts, *pasted)))
            talk.hidden += not talk.say(Role.USER, own, text, time, attachments=files)
        case "assistant":
            _answer(talk, blocks or [{"type": "text", "text": message.get("text")}], own, time)
        case sender:
            raise Damaged(f"sender: {sender!r:.50} is neither 'human' nor 'assistant'")


def _files(message: dict[str, Any]) -> tuple[tuple[Attachment, ...], list[str]]:
    """Return the files of a message, and the texts of those whose content the export holds."""
    files: dict[str, Attachment] = {}
    pasted = []
    for it in objects(message, "attachments"):
        name, content = text_of(it, "file_name"), text_of(it, "extracted_content")
        if content:
            # A long text that was pasted is an attachment without a name: it is what was said.
            pasted.append(f"[{name}]\n{content}" if name else content)
        if name:
            files[name] = attachment(
                f"claude-export:{name}", name, text_of(it, "file_type"), it.get("file_size")
            )
    for it in (*objects(message, "files"), *objects(message, "files_v2")):
        name = text_of(it, "file_name")
        uuid = text_of(it, "file_uuid") or text_of(it, "uuid")
        if name or uuid:
            files.setdefault(name or uuid, attachment(f"claude-export:{uuid or name}", name))
    return tuple(files.values()), pasted


def _answer(talk: Talk, blocks: list[dict[str, Any]], own: str, time: Any) -> None:
    """Add the messages that an answer's blocks make."""
    count = 0
    texts: list[str] = []
    calls: list[ToolCall] = []

    def next_id() -> str:
        nonlocal count
        count += 1
        return own if count == 1 else f"{own}/{count}"

    def flush() -> None:
        if texts or calls:
            talk.say(
                Role.ASSISTANT, next_id(), "\n\n".join(filter(None, texts)), at, calls=tuple(calls)
            )
        texts.clear()
        calls.clear()

    at = time
    for index, block in enumerate(blocks, start=1):
        begins = block.get("start_timestamp")
        match block.get("type"):
            case "thinking":
                flush()
                talk.think(text_of(block, "thinking"))
            case "tool_use":
                name = text_of(block, "name") or "tool"
                arguments = block.get("input")
                text = json.dumps(arguments, ensure_ascii=False) if arguments is not None else ""
                calls.append(ToolCall(text_of(block, "id") or f"{own}/{index}", name, text))
            case "tool_result":
                flush()
                talk.result(
                    next_id(),
                    text_of(block, "name"),
                    _text(block),
                    block.get("stop_timestamp") or begins or at,
                    call_id=text_of(block, "tool_use_id"),
                    isError=flag_of(block, "is_error"),
                )
            case _:
                if text := _read(talk, block):
                    if calls:
                        flush()
                    texts.append(text)
        at = begins or at
    flush()
    talk.say(Role.ASSISTANT, f"{own}/thinking", "", at)  # thinking with nothing after it


def _read(talk: Talk, block: dict[str, Any]) -> str:
    """Return the text of a block, and name one of which nothing is read."""
    text, kind = _text(block), text_of(block, "type")
    if not text and kind not in _WITHOUT_TEXT:
        talk.note(f"a block of the type {kind!r:.40} is not read")
    return text


def _text(value: Any) -> str:
    """Return the text of a block, or of a list of blocks."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(filter(None, map(_text, value)))
    if not isinstance(value, dict):
        if value is not None:
            pass_over(value, "", "content: nothing is read of a block", value)
        return ""
    if value.get("type") == "tool_result":
        return _text(value.get("content"))
    is_text = value.get("type") == "text"
    names = ["text"] if is_text else ["title", "text", "url", "name"]
    texts = [text_of(value, name) for name in names]
    if not is_text and not value.keys() & {*names, "type", "content"}:
        pass_over(value, "", "content: nothing is read of a block", value)
    return "\n".join(filter(None, [*texts, "" if is_text else _text(value.get("content"))]))


FORMAT = conversations(NAME, "Claude", is_conversation, plan)

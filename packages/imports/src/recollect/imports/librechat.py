"""Conversations of LibreChat: the JSON of its export, one a file, as a list or as a tree."""

from collections.abc import Iterator
from typing import Any

from recollect import Role, ToolCall
from recollect.imports.forms import conversations
from recollect.imports.plans import Plan, Skip
from recollect.imports.talks import Talk, attachment
from recollect.imports.transcript import Damaged
from recollect.imports.trees import NOT_STATED, parent_of
from recollect.imports.values import fields_of, flag_of, mapping, objects, text_of

NAME = "librechat"


def is_conversation(value: Any) -> bool:
    """Return whether an item is a conversation of this product."""
    if not isinstance(value, dict) or "conversationId" not in value:
        return False
    return isinstance(value.get("messages") or value.get("messagesTree"), list)


def plan(fields: Any, where: str) -> Plan | Skip:
    """Return the plan of a conversation. Raises Damaged."""
    own = text_of(mapping(fields, "conversation"), "conversationId")
    if not own:
        raise Damaged("conversationId: it is missing")
    talk = Talk(NAME, own, where, title=text_of(fields, "title"))
    nodes: dict[str, dict[str, Any]] = {}
    parents: dict[str, str | None] = {}
    for it, parent in _nodes(fields):
        name = text_of(it, "messageId") or f"message-{len(nodes) + 1}"
        nodes[name] = it
        parents[name] = parent_of(it, "parentMessageId", parent)
    times = {name: it.get("createdAt") for name, it in nodes.items()}
    branch = talk.branch(parents, "", times) if nodes else []
    talk.add_branch(nodes, branch, _add)
    return talk.plan()


def _nodes(fields: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the messages of a list or a tree, each with the parent that its place tells."""
    all_ = objects(fields, "messagesTree") or objects(fields, "messages")
    waiting = [(it, NOT_STATED) for it in all_][::-1]
    while waiting:
        message, parent = waiting.pop()
        yield message, parent
        own = text_of(message, "messageId")
        waiting += [(it, own) for it in objects(message, "children")][::-1]


def _add(talk: Talk, message: dict[str, Any], own: str) -> None:
    time, model = message.get("createdAt"), text_of(message, "model")
    files = [
        attachment(
            text_of(it, "filepath") or f"librechat:{text_of(it, 'file_id')}",
            text_of(it, "filename"),
            text_of(it, "type"),
            it.get("bytes"),
        )
        for it in [*objects(message, "files"), *objects(message, "attachments")]
    ]
    if flag_of(message, "isCreatedByUser") or message.get("sender") == "User":
        text = text_of(message, "text")
        talk.hidden += not talk.say(Role.USER, own, text, time, attachments=files)
        return
    parts = objects(message, "content")
    count = 0
    for index, part in enumerate(parts or [{"type": "text", "text": message.get("text")}], start=1):
        name = f"{own}/{index}" if count else own
        match part.get("type"):
            case "text":
                is_nested = isinstance(it := part.get("text"), dict) and "value" in it
                text = text_of(part["text"], "value") if is_nested else text_of(part, "text")
                count += talk.say(Role.ASSISTANT, name, text, time, model=model, attachments=files)
                files = []
            case "think":
                talk.think(text_of(part, "think"))
            case "tool_call" if it := fields_of(part, "tool_call"):
                call_id, tool = text_of(it, "id") or name, text_of(it, "name")
                calls = [ToolCall(call_id, tool, text_of(it, "args"))]
                count += talk.say(Role.ASSISTANT, name, "", time, calls=calls, model=model)
                output = text_of(it, "output")
                talk.result(f"{name}/result", tool, output, time, call_id=call_id)
            case "error":
                talk.note("an answer ended with an error", text_of(part, "error")[:80])
            case kind:
                talk.note(f"a part of the type {kind!r:.40} is not read")
    if files:
        count += talk.say(Role.ASSISTANT, f"{own}/files", "", time, attachments=files)
    talk.hidden += not count


FORMAT = conversations(NAME, "LibreChat", is_conversation, plan)

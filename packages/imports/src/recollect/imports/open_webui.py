"""Chats of Open WebUI: the JSON of its export, a list of chats or one alone.

An answer's thinking and tool calls stand in its text, as `<details>` of a type. In chats of newer
versions all of an answer stands in its `output`, and the text may be empty.
"""

import re
from collections.abc import Iterator
from typing import Any

from recollect import Role, ToolCall
from recollect.imports.forms import conversations
from recollect.imports.markup import unescaped
from recollect.imports.plans import Plan, Skip
from recollect.imports.responses import add_item
from recollect.imports.talks import Talk, attachment
from recollect.imports.transcript import Damaged
from recollect.imports.trees import parent_of
from recollect.imports.values import blocks_of, fields_of, flag_of, mapping, objects, text_of

NAME = "open-webui"
_DETAILS = re.compile(r"<details\b([^<>]*)>\s*")
_SUMMARY, _SUMMARY_END, _END = "<summary>", "</summary>", "</details>"
_ATTRIBUTE = re.compile(r'(?<![\w-])([\w-]+)="([^"]*)"')
_TEXTS = {"text", "output_text", "input_text"}
_QUOTE = re.compile(r"^> ?", re.MULTILINE)


def is_conversation(value: Any) -> bool:
    """Return whether an item is a chat of this product."""
    chat = value.get("chat") if isinstance(value, dict) else None
    return isinstance(chat, dict) and ("history" in chat or "messages" in chat)


def plan(fields: Any, where: str) -> Plan | Skip:
    """Return the plan of a chat. Raises Damaged."""
    chat = mapping(mapping(fields, "the item").get("chat"), "chat")
    own = text_of(fields, "id") or text_of(chat, "id")
    if not own:
        raise Damaged("id: it is missing")
    talk = Talk(
        NAME,
        own,
        where,
        title=text_of(fields, "title") or text_of(chat, "title"),
        create_time=fields.get("created_at") or chat.get("timestamp"),
        update_time=fields.get("updated_at"),
        is_archived=flag_of(fields, "archived"),
    )
    history = fields_of(chat, "history")
    nodes = fields_of(history, "messages")
    if not nodes:
        messages = objects(chat, "messages")
        nodes = {text_of(it, "id") or f"message-{n}": it for n, it in enumerate(messages, 1)}
    nodes = {name: mapping(it, f"message {name}") for name, it in nodes.items()}
    parents = {name: parent_of(it, "parentId") for name, it in nodes.items()}
    times = {name: it.get("timestamp") for name, it in nodes.items()}
    branch = talk.branch(parents, text_of(history, "currentId"), times) if nodes else []
    talk.add_branch(nodes, branch, _add)
    return talk.plan()


def _add(talk: Talk, message: dict[str, Any], own: str) -> None:
    text, time = text_of(message, "content"), message.get("timestamp")
    files = [
        attachment(
            text_of(it, "url")
            if not text_of(it, "url").startswith("data:")
            else f"open-webui:{own}",
            text_of(it, "name"),
            "image/*" if it.get("type") == "image" else "",
        )
        for it in objects(message, "files")
    ]
    match message.get("role"):
        case "user":
            is_said = talk.say(Role.USER, own, text, time, attachments=files)
        case "assistant":
            model = text_of(message, "model")
            items = objects(message, "output")
            if not any(_is_full(it) for it in items):
                is_said = _answer(talk, text, own, time, model)
            else:
                is_said = True
                for number, it in enumerate(items, start=1):
                    name = own if number == 1 else f"{own}/{number}"
                    if not add_item(talk, it, name, time, model):
                        kind = text_of(it, "type")
                        talk.note(f"an item of the type {kind!r:.40} is not read", name)
        case "system":
            talk.hide(text)
            return
        case role:
            raise Damaged(f"message {own}: role {role!r:.50} is not known")
    talk.hidden += not is_said


def _is_full(item: dict[str, Any]) -> bool:
    """Return whether an item of an answer's output holds something."""
    blocks = blocks_of(item, "content") if item.get("type") == "message" else [item]
    return any(it.get("text") or text_of(it, "type") not in _TEXTS for it in blocks)


def _details(text: str) -> Iterator[tuple[int, int, dict[str, str], str]]:
    """Yield where each `<details>` begins and ends, with its attributes and what stands in it."""
    at = 0
    while match := _DETAILS.search(text, at):
        at = match.end()
        if (end := text.find(_END, at)) < 0:
            return
        if text.startswith(_SUMMARY, at) and (ends := text.find(_SUMMARY_END, at, end)) >= 0:
            at = ends + len(_SUMMARY_END)
        attributes = {key: unescaped(value) for key, value in _ATTRIBUTE.findall(match[1])}
        inside, at = text[at:end], end + len(_END)
        yield match.start(), at, attributes, inside


def _answer(talk: Talk, text: str, own: str, time: Any, model: str) -> bool:
    """Add an answer: thinking, calls of tools with their results, and texts in their order."""
    at = count = 0

    def say(part: str, calls: tuple[ToolCall, ...] = ()) -> bool:
        nonlocal count
        name = f"{own}/{count + 1}" if count else own
        is_said = talk.say(Role.ASSISTANT, name, part.strip(), time, calls=calls, model=model)
        count += is_said
        return is_said

    for begins, ends, attributes, inside in _details(text):
        kind = attributes.get("type")
        if kind not in {"reasoning", "tool_calls"}:
            continue
        before, at = text[at:begins], ends
        if before.strip():
            say(before)
        if kind == "reasoning":
            talk.think(_QUOTE.sub("", unescaped(inside).strip()))
            continue
        call_id = attributes.get("id") or f"{own}/{begins}"
        name = attributes.get("name", "tool")
        say("", (ToolCall(call_id, name, attributes.get("arguments", "")),))
        result = attributes.get("result") or inside.strip()
        talk.result(f"{own}/result-{count}", name, result, time, call_id=call_id)
    return say(text[at:]) or count > 0


FORMAT = conversations(NAME, "Open WebUI", is_conversation, plan)

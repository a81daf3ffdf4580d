"""Chats of Open WebUI: the JSON of its export, a list of chats or one alone.

An answer's thinking and tool calls stand in its text, as `<details>` of a type.
"""

import html
import re
from typing import Any

from recollect import Role, ToolCall
from recollect.imports.forms import conversations
from recollect.imports.plans import Plan, Skip
from recollect.imports.talks import Talk, attachment
from recollect.imports.transcript import Damaged
from recollect.imports.trees import parent_of
from recollect.imports.values import fields_of, flag_of, mapping, objects, text_of

NAME = "open-webui"
_DETAILS = re.compile(
    r"<details\b(?P<attributes>[^>]*)>\s*(?:<summary>.*?</summary>)?(?P<text>.*?)</details>\s*",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(r'([\w-]+)="([^"]*)"')
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
    talk.branches = len(nodes) - len(branch)
    for name in branch:
        _add(talk, nodes[name], name)
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
            is_said = _answer(talk, text, own, time, text_of(message, "model"))
        case "system":
            is_said = False
        case role:
            raise Damaged(f"message {own}: role {role!r:.50} is not known")
    talk.hidden += not is_said


def _answer(talk: Talk, text: str, own: str, time: Any, model: str) -> bool:
    """Add an answer: thinking, calls of tools with their results, and texts in their order."""
    at = count = 0

    def say(part: str, calls: tuple[ToolCall, ...] = ()) -> bool:
        nonlocal count
        name = f"{own}/{count + 1}" if count else own
        is_said = talk.say(Role.ASSISTANT, name, part.strip(), time, calls=calls, model=model)
        count += is_said
        return is_said

    for match in _DETAILS.finditer(text):
        attributes = {key: html.unescape(value) for key, value in _ATTRIBUTE.findall(match[1])}
        kind = attributes.get("type")
        if kind not in {"reasoning", "tool_calls"}:
            continue
        before, at = text[at : match.start()], match.end()
        if before.strip():
            say(before)
        if kind == "reasoning":
            talk.think(_QUOTE.sub("", html.unescape(match["text"]).strip()))
            continue
        call_id = attributes.get("id") or f"{own}/{match.start()}"
        name = attributes.get("name", "tool")
        say("", (ToolCall(call_id, name, attributes.get("arguments", "")),))
        result = attributes.get("result") or match["text"].strip()
        talk.result(f"{own}/result-{count}", name, result, time, call_id=call_id)
    return say(text[at:]) or count > 0


FORMAT = conversations(NAME, "Open WebUI", is_conversation, plan)

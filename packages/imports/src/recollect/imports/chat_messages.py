"""Messages as programs send them to a model: `{"messages": [{"role": …, "content": …}]}` with the
blocks and tool calls of OpenAI's and Anthropic's interfaces, ShareGPT's
`{"conversations": [{"from": …, "value": …}]}`, or the items of OpenAI's Responses,
`{"input": …, "output": [{"type": …}]}`. Logs and data sets keep them, one a line.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from recollect import Attachment, Role, ToolCall
from recollect.imports.forms import conversations
from recollect.imports.plans import Plan, Skip
from recollect.imports.responses import add_item
from recollect.imports.talks import Talk, attachment
from recollect.imports.values import (
    blocks_of,
    digest,
    fields_of,
    flag_of,
    mapping,
    objects,
    text_of,
)

NAME = "chat-messages"
_ROLES = dict.fromkeys(("user", "human"), Role.USER)
_ROLES |= dict.fromkeys(("assistant", "gpt", "model", "ai", "chatgpt", "bot"), Role.ASSISTANT)
_ROLES |= dict.fromkeys(("tool", "function", "observation"), Role.TOOL)
_INSTRUCTIONS = {"system", "developer"}
_CALLS = {"function_call", "tool_call"}
_CALL_MARK = re.compile(r"\s*<tool_call>(.*)</tool_call>\s*", re.DOTALL)
_TEXTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
_FILES = {"image_url", "image", "document", "file", "input_image", "input_file", "input_audio"}


def is_conversation(value: Any) -> bool:
    """Return whether a value is a conversation of this form."""
    return isinstance(value, dict) and (
        _has_items(value)
        or any(
            isinstance(it, dict) and isinstance(it.get(role), str) and content in it
            for name, role, content in (
                ("messages", "role", "content"),
                ("conversations", "from", "value"),
            )
            for it in (value[name] if isinstance(value.get(name), list) else ())
        )
    )


def _has_items(fields: dict[str, Any]) -> bool:
    """Return whether an object is a response of OpenAI's, with or without what it answers."""
    output = fields.get("output")
    is_response = "input" in fields or fields.get("object") == "response"
    return (
        is_response
        and isinstance(output, list)
        and any(isinstance(it, dict) and isinstance(it.get("type"), str) for it in output)
    )


def plan(value: Any, where: str) -> Plan | Skip:
    """Return the plan of a conversation. Raises Damaged."""
    fields = mapping(value, "the item")
    # Without an id of its own it is known by all that it holds: the same again is nothing new.
    content = digest(json.dumps(fields, sort_keys=True), 32)
    title, began = text_of(fields, "title"), fields.get("created_at") or fields.get("created")
    talk = Talk(NAME, text_of(fields, "id") or content, where, title=title, create_time=began)
    if _has_items(fields):
        _add_items(talk, fields)
    for number, it in enumerate(objects(fields, "messages"), start=1):
        _add(talk, it, text_of(it, "role"), it, text_of(it, "id") or f"message-{number}")
    for number, it in enumerate(objects(fields, "conversations"), start=1):
        _add(talk, it, text_of(it, "from"), {"content": it.get("value")}, f"turn-{number}")
    return talk.plan()


def _add_items(talk: Talk, fields: dict[str, Any]) -> None:
    prompt, model = fields.get("input"), text_of(fields, "model")
    if isinstance(fields.get("instructions"), str):
        talk.hide(fields["instructions"])
    question = {"role": "user", "content": prompt}
    items = [question] if isinstance(prompt, str) else objects(fields, "input")
    for number, it in enumerate([*items, *objects(fields, "output")], start=1):
        own = f"item-{number}"
        if not add_item(talk, it, own, it.get("created_at"), model):
            talk.note(f"an item of the type {text_of(it, 'type')!r:.40} is not read", own)


def _add(talk: Talk, message: dict[str, Any], speaker: str, body: dict[str, Any], own: str) -> None:
    role = _ROLES.get(speaker.lower())
    time, sender = message.get("timestamp") or message.get("created_at"), text_of(message, "name")
    texts, calls, files = list[str](), list[ToolCall](), list[Attachment]()
    blocks = blocks_of(body, "content")
    if speaker.lower() in _INSTRUCTIONS:
        talk.hide("\n".join(text_of(it, "text") for it in blocks))
        return
    if speaker.lower() in _CALLS:
        calls = list(_calls_of(body.get("content")))
        talk.say(Role.ASSISTANT, own, "", time, calls=calls)
        return
    if role is None:
        talk.note(f"a message of the role {speaker!r:.40} is not read", own)
        return
    talk.think(text_of(message, "reasoning_content") or text_of(message, "reasoning"))
    results = 0
    for index, block in enumerate(blocks, start=1):
        match block.get("type"):
            case str(kind) if kind in _TEXTS:
                texts.append(text_of(block, _TEXTS[kind]))
            case "thinking":
                talk.think(text_of(block, "thinking"))
            case "tool_use":
                call_id, arguments = text_of(block, "id"), _as_text(block.get("input"))
                calls.append(ToolCall(call_id, text_of(block, "name"), arguments))
            case "tool_result":
                results += 1
                parts = blocks_of(block, "content")
                output = "\n".join(text_of(it, "text") for it in parts)
                for it in parts:
                    if it.get("type") != "text":
                        talk.note("what a tool returned beside text is not kept", own)
                call_id, is_error = text_of(block, "tool_use_id"), flag_of(block, "is_error")
                place = f"{own}/{index}"
                talk.result(place, "", output, time, call_id=call_id, isError=is_error)
            case str(kind) if kind in _FILES:
                files.append(_file(block, kind, f"{own}/{index}"))
            case kind:
                talk.note(f"a part of the type {kind!r:.40} is not read", own)
    functions = [(it, fields_of(it, "function")) for it in objects(message, "tool_calls")]
    functions += [({}, it)] if (it := fields_of(message, "function_call")) else []
    for call, function in functions:
        arguments = _as_text(function.get("arguments"))
        calls.append(ToolCall(text_of(call, "id"), text_of(function, "name"), arguments))
    text = "\n\n".join(filter(None, texts))
    if role is Role.TOOL:
        talk.result(own, sender, text, time, call_id=text_of(message, "tool_call_id"))
        return
    own = f"{own}/text" if results else own
    is_said = talk.say(role, own, text, time, calls=calls, attachments=files, sender=sender)
    talk.hidden += not is_said and not results


def _calls_of(value: Any) -> Iterator[ToolCall]:
    """Yield the calls that a text of ShareGPT holds as JSON. It is kept whole where it is none."""
    text = _as_text(value)
    marked = _CALL_MARK.fullmatch(text)
    try:
        calls = json.loads(marked[1] if marked else text)
    except (ValueError, RecursionError):
        calls = None
    for it in calls if isinstance(calls, list) else [calls]:
        if not isinstance(it, dict) or not isinstance(it.get("name"), str):
            yield ToolCall("", "", text)
            return
        arguments = it.get("arguments", it.get("parameters"))
        yield ToolCall("", it["name"], "" if arguments is None else _as_text(arguments))


def _as_text(value: Any) -> str:
    """Return the arguments of a call, which are an object or its JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _file(block: dict[str, Any], kind: str, place: str) -> Attachment:
    """Return the reference to a file; bytes that stand in the message itself are not kept."""
    value = block.get(kind)
    uri, inside = value if isinstance(value, str) else "", dict[str, Any]()
    if not uri:
        inside = fields_of(block, kind) or fields_of(block, "source")
        uri = text_of(inside, "url") or text_of(inside, "file_id")
    media_type = text_of(inside, "media_type")
    if uri.startswith("data:"):
        media_type, uri = uri[5:].partition(";")[0], ""
    return attachment(uri or f"{NAME}:{place}", text_of(inside, "filename"), media_type)


FORMAT = conversations(NAME, "messages for a model", is_conversation, plan)

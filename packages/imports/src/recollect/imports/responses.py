"""Items of OpenAI's Responses interface: messages, reasoning, calls of tools and their results.
Codex, Open WebUI and logs of programs keep them.
"""

import json
from contextlib import suppress
from typing import Any

from recollect import Attachment, Role, ToolCall
from recollect.imports.talks import Talk, attachment
from recollect.imports.values import blocks_of, objects, text_of

_ARGUMENTS = ("arguments", "input", "action", "actions", "queries", "code")
_RESULTS = ("output", "outputs", "results", "result")
_OWN_KIND = "open_webui:"


def add_item(talk: Talk, item: dict[str, Any], own: str, time: Any, model: str = "") -> bool:
    """Add an item. Return False for one of a type that is not known."""
    kind = text_of(item, "type") or ("message" if "role" in item else "")
    call_id = text_of(item, "call_id") or text_of(item, "id") or f"{own}/call"
    if kind == "message":
        say(talk, item, own, time, model)
    elif kind == "reasoning":
        parts = blocks_of(item, "summary") or blocks_of(item, "content")
        talk.think("\n\n".join(filter(None, (text_of(it, "text") for it in parts))))
        # A message of its own: what comes next may not yet be in the file.
        talk.hidden += not talk.say(Role.ASSISTANT, own, "", time, model=model)
    elif kind.endswith("_output"):
        _answer(talk, item.get("output", item.get("tools")), own, time, call_id)
    elif kind.endswith("_call") or kind == f"{_OWN_KIND}code_interpreter":
        name = text_of(item, "name") or kind.removeprefix(_OWN_KIND).removesuffix("_call")
        arguments = next((item[it] for it in _ARGUMENTS if item.get(it) is not None), None)
        calls = [ToolCall(call_id, name, text_of_value(arguments))]
        talk.say(Role.ASSISTANT, own, "", time, calls=calls, model=model)
        if output := next(filter(None, map(item.get, _RESULTS)), None):
            _answer(talk, output, f"{own}/result", time, call_id)
    else:
        return False
    return True


def say(
    talk: Talk,
    item: dict[str, Any],
    own: str,
    time: Any,
    model: str = "",
    *,
    is_boilerplate: bool = False,
) -> None:
    """Add a message of the user or the agent. Those of the developer and the system are hidden."""
    role = text_of(item, "role")
    text, files = content_of(talk, blocks_of(item, "content"), own)
    if role in {"assistant", "user"}:
        speaker = Role.USER if role == "user" else Role.ASSISTANT
        model = "" if role == "user" else model
        if not talk.say(
            speaker, own, text, time, attachments=files, model=model, boilerplate=is_boilerplate
        ):
            talk.hide()
    else:
        talk.hide(text)


def content_of(
    talk: Talk, blocks: list[dict[str, Any]], own: str, separator: str = "\n\n"
) -> tuple[str, list[Attachment]]:
    """Return the text of a message's blocks, and the files in them, and name what is neither."""
    texts, files = list[str](), list[Attachment]()
    for block in blocks:
        text = text_of(block, "text") or text_of(block, "refusal")
        names = (text_of(block, it) for it in ("image_url", "file_url", "file_id", "filename"))
        uri, kind = next(filter(None, names), ""), text_of(block, "type")
        if uri or kind in {"input_image", "input_file"}:
            media = "image/*" if kind == "input_image" or "image_url" in block else ""
            if uri.startswith("data:"):
                media, uri = uri[5:].partition(";")[0], ""
            name = text_of(block, "filename")
            place = f"{talk.product}:{talk.id}/{own}" + (f"/{len(files) + 1}" if files else "")
            files.append(attachment(uri or place, name, media))
        elif not text and kind not in {"text", "input_text", "output_text", "summary_text"}:
            talk.note(f"a part of the type {kind!r:.40} is not read", own)
        texts.append(text)
    return separator.join(filter(None, texts)), files


def text_of_value(value: Any) -> str:
    """Return the arguments or the result of a call: a text, nothing, or JSON."""
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


def _answer(talk: Talk, value: Any, own: str, time: Any, call_id: str) -> None:
    """Add the result of a call, which may be an object, a list of parts, or JSON of one."""
    if isinstance(value, str) and value.startswith('{"output"'):
        with suppress(ValueError, RecursionError):
            value = json.loads(value)
    if isinstance(value, dict):
        value = value.get("output", value.get("content", value))
    files = list[Attachment]()
    if isinstance(value, list) and any(isinstance(it, dict) and "type" in it for it in value):
        text, files = content_of(talk, objects({"output": value}, "output"), own, "\n")
    else:
        text = text_of_value(value)
    talk.result(own, "", text, time, call_id=call_id, files=[it.uri for it in files])

"""Rollouts of Codex: files of JSON lines in `~/.codex/sessions`, one session each.

The lines of the type `response_item` hold all that was said; those of the type `event_msg` say it
again for the screen. Rollouts of the first versions have the items without that frame.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from recollect import Attachment, Role, ToolCall
from recollect.imports.forms import Format, Options
from recollect.imports.plans import Plan, Skip
from recollect.imports.reading import Reading
from recollect.imports.talks import Talk, attachment
from recollect.imports.transcript import Damaged
from recollect.imports.values import blocks_of, fields_of, objects, text_of

NAME = "codex"
_BOILERPLATE = re.compile(
    r"\s*(?:<(?:environment_context|user_instructions|permissions instructions|turn_aborted|skill"
    r"|user_shell_command|collaboration_mode|INSTRUCTIONS)\b|# AGENTS\.md instructions"
    r"|<(?P<tag>[a-z]+(?:_[a-z]+)+)\b[^>]*>.*</(?P=tag)>\s*$)",
    re.DOTALL,
)
"""Texts that the tool writes in the user's name: by their beginning, or because all of it stands in
one of its tags, of which each version has more.
"""
_FRAMES = {"session_meta", "response_item", "event_msg", "turn_context", "compacted"}
_CALLS = {"function_call": "arguments", "custom_tool_call": "input", "local_shell_call": "action"}
_CALLS |= {"web_search_call": "action"}
_RESULTS = {"function_call_output", "custom_tool_call_output"}


def is_beginning(value: Any) -> bool:
    """Return whether a line is the first of a rollout."""
    if not isinstance(value, dict):
        return False
    is_first_form = {"id", "timestamp", "instructions"} <= value.keys()
    return is_first_form or (value.get("type") == "session_meta" and "payload" in value)


def read(reading: Reading, options: Options) -> Iterator[Plan | Skip]:
    """Yield the conversation of a rollout, and the lines that cannot be read."""
    del options
    talk: Talk | None = None
    model = ""
    number = 0
    for where, value in reading.items(is_beginning):
        if not isinstance(value, dict):
            reason = str(value) if isinstance(value, Damaged) else "it is no JSON object"
            yield Skip(where, reason)
            continue
        kind = text_of(value, "type")
        payload = fields_of(value, "payload") if kind in _FRAMES else value
        if talk is None:
            if is_beginning(value):
                talk = _begin(payload, reading.name)
            else:
                yield Skip(where, "it stands before the line of the type `session_meta`")
        elif kind == "turn_context":
            model = text_of(payload, "model")
        elif kind == "response_item" or kind not in _FRAMES:
            if payload is value and value.get("record_type") == "state":
                continue
            number += 1
            if not _add(talk, payload, str(number), value.get("timestamp"), model):
                what = f"an item of the type {text_of(payload, 'type')!r:.40} is not read"
                talk.note(what, f"line {where.rpartition(':')[2]}")
    if talk is not None:
        yield talk.plan()


def _begin(fields: dict[str, Any], name: str) -> Talk:
    return Talk(
        NAME,
        text_of(fields, "id") or text_of(fields, "session_id") or name,
        name,
        create_time=fields.get("timestamp"),
        metadata={key: text for key in ("cwd", "originator") if (text := text_of(fields, key))},
        hidden=bool(text_of(fields, "instructions")),
    )


def _add(talk: Talk, item: dict[str, Any], own: str, time: Any, model: str) -> bool:
    """Add an item. Return False for one of a type that is not known."""
    kind = text_of(item, "type")
    call_id = text_of(item, "call_id") or text_of(item, "id") or f"{own}/call"
    if kind == "message":
        _say(talk, item, own, time, model)
    elif kind == "reasoning":
        parts = [*objects(item, "summary"), *objects(item, "content")]
        talk.think("\n\n".join(filter(None, (text_of(it, "text") for it in parts))))
        # A message of its own: what comes next may not yet be in the file.
        talk.hidden += not talk.say(Role.ASSISTANT, own, "", time, model=model)
    elif kind in _CALLS:
        arguments = item.get(_CALLS[kind])
        name = text_of(item, "name") or kind.removesuffix("_call")
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        calls = [ToolCall(call_id, name, text)]
        talk.say(Role.ASSISTANT, own, "", time, calls=calls, model=model)
    elif kind in _RESULTS:
        talk.result(own, "", _output(item), time, call_id=call_id)
    elif kind == "ghost_snapshot":
        talk.hidden += 1
    else:
        return False
    return True


def _say(talk: Talk, item: dict[str, Any], own: str, time: Any, model: str) -> None:
    role = text_of(item, "role")
    texts, files = list[str](), list[Attachment]()
    for block in blocks_of(item, "content"):
        texts.append(text_of(block, "text"))
        if url := text_of(block, "image_url"):
            kind = url.partition(":")[2].partition(";")[0] if url.startswith("data:") else "image/*"
            uri = f"codex:{talk.id}/{own}" if url.startswith("data:") else url
            files.append(attachment(uri, media_type=kind))
    text = "\n\n".join(filter(None, texts))
    if role == "assistant":
        is_said = talk.say(Role.ASSISTANT, own, text, time, attachments=files, model=model)
    elif role == "user":
        is_boilerplate = _BOILERPLATE.match(text) is not None
        is_said = talk.say(
            Role.USER, own, text, time, attachments=files, boilerplate=is_boilerplate
        )
    else:
        is_said = False  # of the developer or the system
    talk.hidden += not is_said


def _output(item: dict[str, Any]) -> str:
    """Return the text of a result, which may be an object, a list of parts, or JSON of one."""
    value = item.get("output")
    if isinstance(value, str) and value.startswith('{"output"'):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return str(value)
    if isinstance(value, dict):
        value = value.get("output", value.get("content", value))
    if isinstance(value, list):
        return "\n".join(
            filter(None, (text_of(it, "text") for it in objects({"output": value}, "output")))
        )
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


FORMAT = Format(NAME, "Codex", read, is_beginning)

"""Rollouts of Codex: files of JSON lines in `~/.codex/sessions`, one session each.

The lines of the type `response_item` hold all that was said; those of the type `event_msg` say it
again for the screen, and tell of turns that were taken back. Rollouts of the first versions have
the items without that frame.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from recollect.imports.forms import Format, Options
from recollect.imports.plans import Plan, Skip, skip_of
from recollect.imports.reading import Reading
from recollect.imports.responses import add_item, say
from recollect.imports.talks import Talk
from recollect.imports.values import blocks_of, fields_of, text_of

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


@dataclass(frozen=True, slots=True)
class _Item:
    """A message, a call or a result, with its number among the items of the rollout."""

    fields: dict[str, Any]
    number: int
    line: str
    time: Any
    model: str


def is_beginning(value: Any) -> bool:
    """Return whether a line is the first of a rollout."""
    if not isinstance(value, dict):
        return False
    is_first_form = {"id", "timestamp", "instructions"} <= value.keys()
    return is_first_form or (value.get("type") == "session_meta" and "payload" in value)


def read(reading: Reading, _: Options) -> Iterator[Plan | Skip]:
    """Yield the conversation of a rollout, and the lines that cannot be read."""
    talk: Talk | None = None
    model = ""
    number = 0
    items: list[_Item] = []
    questions: list[int] = []  # places of the user's own messages among the items
    for where, value in reading.items(is_beginning):
        if not isinstance(value, dict):
            yield skip_of(where, value, "it is no JSON object")
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
        elif kind == "event_msg" and payload.get("type") == "thread_rolled_back":
            turns = payload.get("num_turns")
            if questions and type(turns) is int and turns > 0:
                begins = questions[-min(turns, len(questions))]
                for it in items[begins:]:
                    talk.set_aside(_add, item=it)
                del items[begins:], questions[-min(turns, len(questions)) :]
        elif kind == "response_item" or kind not in _FRAMES:
            if payload is value and value.get("record_type") == "state":
                continue
            number += 1
            line = where.rpartition(":")[2]
            if text_of(payload, "role") == "user" and not _is_boilerplate(payload):
                questions.append(len(items))
            items.append(_Item(payload, number, line, value.get("timestamp"), model))
    if talk is not None:
        for it in items:
            _add(talk, it)
        yield talk.plan()


def _begin(fields: dict[str, Any], name: str) -> Talk:
    talk = Talk(
        NAME,
        text_of(fields, "id") or text_of(fields, "session_id") or name,
        name,
        create_time=fields.get("timestamp"),
        metadata={key: text for key in ("cwd", "originator") if (text := text_of(fields, key))},
    )
    if instructions := text_of(fields, "instructions"):
        talk.hide(instructions)
    return talk


def _is_boilerplate(item: dict[str, Any]) -> bool:
    """Return whether the tool wrote a message in the user's name."""
    texts = (text_of(it, "text") for it in blocks_of(item, "content"))
    return _BOILERPLATE.match("\n\n".join(filter(None, texts))) is not None


def _add(talk: Talk, item: _Item) -> None:
    kind, own = text_of(item.fields, "type"), str(item.number)
    if kind == "message":
        is_boilerplate = text_of(item.fields, "role") == "user" and _is_boilerplate(item.fields)
        say(talk, item.fields, own, item.time, item.model, is_boilerplate=is_boilerplate)
    elif kind == "ghost_snapshot":
        talk.hide()
    elif not add_item(talk, item.fields, own, item.time, item.model):
        talk.note(f"an item of the type {kind!r:.40} is not read", f"line {item.line}")


FORMAT = Format(NAME, "Codex", read, is_beginning)

"""Channels of Slack: the export of a workspace, a folder for each channel and a file for each day.

A day of a channel is a conversation here: a channel has no end, and a file is what an export adds.
"""

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from recollect.imports.forms import Format, Options
from recollect.imports.people import Chat
from recollect.imports.plans import Plan, Skip
from recollect.imports.reading import Reading
from recollect.imports.transcript import Damaged
from recollect.imports.values import fields_of, objects, text_of

NAME = "slack-export"
_STATED = re.compile("_(?:join|leave|topic|purpose|name|archive|unarchive|add|remove)$")
_MARK = re.compile(r"<(?P<target>[^<>|]+)(?:\|(?P<label>[^<>]*))?>")


def is_message(value: Any) -> bool:
    """Return whether an item is a message of a channel."""
    return isinstance(value, dict) and value.get("type") == "message" and "ts" in value


def read(reading: Reading, options: Options) -> Iterator[Plan | Skip]:
    """Yield the conversation of a day, and the messages that cannot be read."""
    path = PurePath(reading.name.replace(":", "/"))
    channel, day = path.parent.name, path.stem
    own = f"{channel}/{day}"
    chat = Chat(NAME, own, reading.name, title=f"{channel} {day}")
    people: dict[str, str] = {}
    for where, value in reading.items(is_message):
        if not is_message(value):
            reason = str(value) if isinstance(value, Damaged) else "it is no message of Slack"
            yield Skip(where, reason)
        elif _STATED.search(text_of(value, "subtype")):
            chat.talk.hidden += 1
        else:
            _add(chat, value, people)
    yield chat.plan(options.owner, is_part=True)


def _add(chat: Chat, message: dict[str, Any], people: dict[str, str]) -> None:
    own, user = text_of(message, "ts"), text_of(message, "user")
    profile = fields_of(message, "user_profile")
    names = (text_of(profile, key) for key in ("display_name", "real_name", "name"))
    if name := next(filter(None, names), "") or text_of(message, "username"):
        people[user] = name
    texts = [text_of(message, "text")]
    texts += [
        text_of(it, "text") or text_of(it, "fallback") for it in objects(message, "attachments")
    ]
    text = _MARK.sub(lambda it: _shown(it, people), "\n".join(filter(None, texts)))
    for mark, character in (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
        text = text.replace(mark, character)
    files = [
        address
        for it in objects(message, "files")
        if (address := text_of(it, "url_private") or text_of(it, "name"))
    ]
    if not chat.say(own, people.get(user) or user or "unknown", text, own, files):
        chat.talk.note("a message of which nothing is read", own)


def _shown(mark: re.Match[str], people: dict[str, str]) -> str:
    """Return a mention or a link as Slack shows it."""
    target, label = mark["target"], mark["label"] or ""
    if target.startswith("@"):
        return f"@{label or people.get(target[1:]) or target[1:]}"
    if target.startswith(("#", "!")):
        return f"{target[0] if target[0] == '#' else '@'}{label or target[1:]}"
    return f"{label} ({target})" if label and label != target else target


FORMAT = Format(NAME, "Slack", read, is_message)

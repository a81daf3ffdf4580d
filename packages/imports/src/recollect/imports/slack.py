"""Channels of Slack: the export of a workspace, a folder for each channel and a file for each day.

A day of a channel is a conversation here: a channel has no end, and a file is what an export adds.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import PurePath
from typing import Any

from recollect.imports.forms import Format, Options
from recollect.imports.people import Chat, forwarded
from recollect.imports.plans import Plan, Skip, skip_of
from recollect.imports.reading import DAMAGE, Reading, Source
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
    users = reading.source and reading.source.beside("../users.json")
    names = _users(users, users.stamp) if users else {}
    people = {user: of_user[0] for user, of_user in names.items()}
    for where, value in reading.items(is_message):
        if not is_message(value):
            yield skip_of(where, value, "it is no message of Slack")
        elif _STATED.search(text_of(value, "subtype")):
            chat.talk.hide(_shown_text(text_of(value, "text"), people))
        else:
            _add(chat, value, people)
    is_user = any(options.owner in of_user for of_user in names.values())
    yield chat.plan(options.owner, is_part=is_user)


@lru_cache(maxsize=1)
def _users(source: Source, stamp: object) -> dict[str, list[str]]:
    """Return the names of each person of a workspace, the one to show first. Each day asks anew."""
    del stamp
    users: dict[str, list[str]] = {}
    try:
        with source.open() as reading:
            for _, it in reading.items(lambda value: isinstance(value, dict)):
                if isinstance(it, dict):
                    profile = fields_of(it, "profile")
                    users[text_of(it, "id")] = _names(profile) + _names(it)
    except (OSError, *DAMAGE):
        return {}
    return {user: names for user, names in users.items() if names}


def _names(fields: dict[str, Any]) -> list[str]:
    names = (text_of(fields, key) for key in ("display_name", "real_name", "name"))
    return [it for it in names if it]


def _add(chat: Chat, message: dict[str, Any], people: dict[str, str]) -> None:
    own, user = text_of(message, "ts"), text_of(message, "user")
    profile = fields_of(message, "user_profile")
    for name in (*_names(profile), text_of(message, "username")):
        if name:
            people.setdefault(user, name)
    texts = [text_of(message, "text")]
    for it in objects(message, "attachments"):
        shared = text_of(it, "text") or text_of(it, "fallback")
        is_message = it.get("is_msg_unfurl") or it.get("is_share")
        texts.append(forwarded(shared, text_of(it, "author_name")) if is_message else shared)
    text = _shown_text("\n".join(filter(None, texts)), people)
    files = [
        address
        for it in objects(message, "files")
        if (address := text_of(it, "url_private") or text_of(it, "name"))
    ]
    if not chat.say(own, people.get(user) or user or "unknown", text, own, files):
        chat.talk.note("a message of which nothing is read", own)


def _shown_text(text: str, people: dict[str, str]) -> str:
    """Return a text as Slack shows it."""
    text = _MARK.sub(lambda it: _shown(it, people), text)
    for mark, character in (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
        text = text.replace(mark, character)
    return text


def _shown(mark: re.Match[str], people: dict[str, str]) -> str:
    """Return a mention or a link as Slack shows it."""
    target, label = mark["target"], mark["label"] or ""
    if target.startswith("@"):
        return f"@{label or people.get(target[1:]) or target[1:]}"
    if target.startswith(("#", "!")):
        return f"{target[0] if target[0] == '#' else '@'}{label or target[1:]}"
    return f"{label} ({target})" if label and label != target else target


FORMAT = Format(NAME, "Slack", read, is_message)

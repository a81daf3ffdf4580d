"""Chats of Telegram: `result.json` of Telegram Desktop's export, one chat or all of them."""

from typing import Any

from recollect.imports.forms import Format, Options
from recollect.imports.people import Chat, chats, forwarded
from recollect.imports.plans import Plan, Skip
from recollect.imports.talks import local_moment
from recollect.imports.values import fields_of, members, objects, pass_over, text_of

NAME = "telegram-export"
_FILES = ("photo", "file")


def is_export(value: Any) -> bool:
    """Return whether a value is an export: one chat, or the chats of an account."""
    return bool(_chats(value))


def _chats(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, dict):
        return []
    lists = [value.get(key) for key in ("chats", "left_chats")]
    all_ = [chat for it in lists if isinstance(it, dict) for chat in objects(it, "list")]
    messages = value.get("messages")
    is_chat = "type" in value and "id" in value and isinstance(messages, list)
    return [value] if is_chat and (not messages or any(map(_is_message, messages))) else all_


def _is_message(value: Any) -> bool:
    """Return whether a value is a message of a chat, and none for a model."""
    return isinstance(value, dict) and bool({"date", "from", "actor"} & value.keys())


def _plan(fields: dict[str, Any], where: str, options: Options) -> Plan | Skip:
    title = text_of(fields, "name")
    chat = Chat(NAME, str(fields.get("id")), f"{where} ({title})" if title else where, title=title)
    for message in objects(fields, "messages"):
        if message.get("type") != "message":
            chat.talk.hide(_text(message, "text"))  # somebody joined, called or pinned
            continue
        own = str(message.get("id"))
        sender = text_of(message, "from") or text_of(message, "from_id") or "deleted"
        text = _text(message, "text" if message.get("text") else "text_entities")
        names = [name for key in _FILES if (name := text_of(message, key))]
        for it in names:
            if it.startswith("("):  # "(File not included. Change data exporting settings …)"
                chat.talk.note("a file is not in the export, and its place is kept", own)
        if poll := fields_of(message, "poll"):
            answers = [f"- {text_of(it, 'text')}" for it in objects(poll, "answers")]
            text = "\n".join(filter(None, (text, text_of(poll, "question"), *answers)))
        elif sticker := text_of(message, "sticker_emoji"):
            text = text or sticker
        if place := fields_of(message, "location_information"):
            text = f"{text}\n{place.get('latitude')}, {place.get('longitude')}".strip()
        if contact := fields_of(message, "contact_information"):
            text = "\n".join(filter(None, [text, *(text_of(contact, it) for it in contact)]))
        if origin := text_of(message, "forwarded_from") or message.get("forwarded_from_id"):
            text = forwarded(text, str(origin))
        date = message.get("date")  # until 2022 it stands alone
        time = message.get("date_unixtime") or local_moment(date) or date
        if not chat.say(own, sender, text, time, names):
            chat.talk.note("a message of which nothing is read", own)
    return chat.plan(options.owner)


def _text(fields: dict[str, Any], name: str) -> str:
    """Return a text, of which parts may be entities such as links."""
    if isinstance(fields.get(name), str):
        return str(fields[name])
    parts = members(fields, name, "text and no object", str, dict)
    for it in parts:
        if "text" not in it and isinstance(it, dict):
            pass_over(it, "text", f"{name}: nothing is read of a part", it)
    return "".join(it if isinstance(it, str) else text_of(it, "text") for it in parts)


FORMAT = Format(NAME, "Telegram", chats(_chats, _plan), is_export)

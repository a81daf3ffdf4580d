"""Channels of Discord: the JSON of DiscordChatExporter, one channel a file."""

from collections.abc import Iterator
from typing import Any

from recollect.imports.forms import Format, Options
from recollect.imports.people import Chat, chats, forwarded
from recollect.imports.plans import Plan, Skip
from recollect.imports.values import fields_of, objects, text_of

NAME = "discord-export"
_SAID = {"Default", "Reply", "ChatInputCommand", "ContextMenuCommand", "ThreadStarterMessage"}
_SAID |= {"20", "21", "23"}  # the same: the exporter has no names for them
"""Types of messages that somebody wrote. The others are notices: somebody joined, called or pinned.
"""


def is_export(value: Any) -> bool:
    """Return whether a value is an export of a channel."""
    is_channel = isinstance(value, dict) and isinstance(value.get("channel"), dict)
    return is_channel and "guild" in value and isinstance(value.get("messages"), list)


def _plan(fields: dict[str, Any], where: str, options: Options) -> Plan | Skip:
    channel = fields["channel"]
    own, title = text_of(channel, "id"), text_of(channel, "name")
    server = text_of(fields_of(fields, "guild"), "name")
    chat = Chat(NAME, own or title, where, title=f"{server}: {title}" if server else title)
    for message in objects(fields, "messages"):
        text, names = "\n".join(_texts(message)), list(_files(message))
        if text_of(message, "type") not in _SAID:
            chat.talk.hide(text)
            continue
        own, author = text_of(message, "id"), fields_of(message, "author")
        sender = text_of(author, "nickname") or text_of(author, "name") or "deleted"
        if other := fields_of(message, "forwardedMessage"):
            text = "\n".join(filter(None, (text, forwarded("\n".join(_texts(other))))))
            names += _files(other)
        if not chat.say(own, sender, text, message.get("timestamp"), names):
            chat.talk.note("a message of which nothing is read", own)
    return chat.plan(options.owner)


def _texts(message: dict[str, Any]) -> Iterator[str]:
    """Yield what a message says, in itself and in what is embedded in it."""
    texts = [text_of(message, "content")]
    for it in objects(message, "embeds"):
        texts.append(text_of(fields_of(it, "author"), "name"))
        texts += [text_of(it, key) for key in ("title", "description", "url")]
        for field in objects(it, "fields"):
            texts.append(f"{text_of(field, 'name')}: {text_of(field, 'value')}".strip(": "))
        texts.append(text_of(fields_of(it, "footer"), "text"))
    texts += [text_of(it, "name") for it in objects(message, "stickers")]
    yield from filter(None, texts)


def _files(message: dict[str, Any]) -> Iterator[str]:
    """Yield the addresses of the files of a message, and of the pictures that it shows."""
    for it in objects(message, "attachments"):
        yield from filter(None, [text_of(it, "url")])
    for it in objects(message, "embeds"):
        for key in ("image", "video"):
            yield from filter(None, [text_of(fields_of(it, key), "url")])


def _exports(value: Any) -> list[dict[str, Any]]:
    return [value] if is_export(value) else []


FORMAT = Format(NAME, "Discord", chats(_exports, _plan), is_export)

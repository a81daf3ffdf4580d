"""Channels of Discord: the JSON of DiscordChatExporter, one channel a file."""

from typing import Any

from recollect.imports.forms import Format, Options
from recollect.imports.people import Chat, chats
from recollect.imports.plans import Plan, Skip
from recollect.imports.values import fields_of, objects, text_of

NAME = "discord-export"
_SAID = {"Default", "Reply", "ChatInputCommand", "ContextMenuCommand", "ThreadStarterMessage"}


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
        if text_of(message, "type") not in _SAID:
            chat.talk.hidden += 1  # somebody joined, called or pinned
            continue
        own, author = text_of(message, "id"), fields_of(message, "author")
        sender = text_of(author, "nickname") or text_of(author, "name") or "deleted"
        texts = [text_of(message, "content")]
        for it in objects(message, "embeds"):
            texts += [text_of(it, key) for key in ("title", "description", "url")]
        stickers = [text_of(it, "name") for it in objects(message, "stickers")]
        text = "\n".join(filter(None, (*texts, *stickers)))
        names = [text_of(it, "url") for it in objects(message, "attachments")]
        if not chat.say(own, sender, text, message.get("timestamp"), filter(None, names)):
            chat.talk.note("a message of which nothing is read", own)
    return chat.plan(options.owner)


def _exports(value: Any) -> list[dict[str, Any]]:
    return [value] if is_export(value) else []


FORMAT = Format(NAME, "Discord", chats(_exports, _plan), is_export)

"""Channels of Discord: the JSON of DiscordChatExporter, one channel a file."""

from typing import Any

from recollect.cli.formats.forms import Format, Options
from recollect.cli.formats.people import Chat, chats
from recollect.cli.formats.talks import objects, text_of
from recollect.cli.plans import Plan, Skip

NAME = "discord-export"
_SAID = {"Default", "Reply", "ChatInputCommand", "ContextMenuCommand", "ThreadStarterMessage"}


def is_export(value: Any) -> bool:
    """Return whether a value is an export of a channel."""
    is_channel = isinstance(value, dict) and isinstance(value.get("channel"), dict)
    return is_channel and "guild" in value and isinstance(value.get("messages"), list)


def _plan(fields: dict[str, Any], where: str, options: Options) -> Plan | Skip:
    channel, guild = fields["channel"], fields.get("guild")
    own, title = text_of(channel.get("id")), text_of(channel.get("name"))
    server = text_of(guild.get("name")) if isinstance(guild, dict) else ""
    chat = Chat(NAME, own or title, where, title=f"{server}: {title}" if server else title)
    for message in objects(fields.get("messages")):
        if text_of(message.get("type")) not in _SAID:
            chat.talk.hidden += 1  # somebody joined, called or pinned
            continue
        own, author = text_of(message.get("id")), message.get("author")
        author = author if isinstance(author, dict) else {}
        sender = text_of(author.get("nickname")) or text_of(author.get("name")) or "deleted"
        texts = [text_of(message.get("content"))]
        for it in objects(message.get("embeds")):
            texts += [text_of(it.get(key)) for key in ("title", "description", "url")]
        stickers = [text_of(it.get("name")) for it in objects(message.get("stickers"))]
        text = "\n".join(filter(None, (*texts, *stickers)))
        names = [text_of(it.get("url")) for it in objects(message.get("attachments"))]
        if not chat.say(own, sender, text, message.get("timestamp"), filter(None, names)):
            chat.talk.note("a message of which nothing is read", own)
    return chat.plan(options.owner)


def _exports(value: Any) -> list[dict[str, Any]]:
    return [value] if is_export(value) else []


FORMAT = Format(NAME, "Discord", chats(_exports, _plan), is_export)

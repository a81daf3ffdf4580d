"""Chats of Signal: its own export (`main.jsonl`), which has the frames of its backups as lines, and
the folders of the program `signal-export`, which reads Signal Desktop's database.
"""

import mimetypes
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from recollect import Role
from recollect.imports.forms import Format, Options
from recollect.imports.people import Chat
from recollect.imports.plans import Plan, Skip, skip_of
from recollect.imports.reading import Reading, Spool
from recollect.imports.talks import Talk
from recollect.imports.values import digest, fields_of, objects, text_of

NAME = "signal-export"
_TITLE = "Signal"
_FRAMES = {"account", "recipient", "chat", "chatItem"}
_OTHER_FRAMES = {"stickerPack", "adHocCall", "notificationProfile", "chatFolder"}
_NOT_SAID = {"remoteDeletedMessage", "updateMessage", "paymentNotification", "giftBadge"}
_LINE = {"date", "sender", "body", "quote", "reactions", "attachments"}


def _is_frame(value: Any) -> bool:
    """Return whether a value is a frame of a backup, or the line before the first one."""
    if not isinstance(value, dict):
        return False
    name = next(iter(value), "")
    is_frame = len(value) == 1 and name in _FRAMES and isinstance(value[name], dict)
    return is_frame or "backupTimeMs" in value


def _inner(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return the object that an object has under a path of names."""
    for name in names:
        fields = fields_of(fields, name)
    return fields


def _joined(fields: dict[str, Any], *names: str) -> str:
    return " ".join(filter(None, (text_of(fields, it) for it in names)))


class _Person:
    """A recipient of a backup: a contact, a group or the owner."""

    def __init__(self, fields: dict[str, Any], owner: str) -> None:
        contact, group = _inner(fields, "contact"), _inner(fields, "group")
        nickname = _inner(contact, "nickname")
        own = contact.get("aci") or contact.get("e164") or group.get("masterKey")
        is_self = "self" in fields
        # The ids of recipients are those of one export, and a group's key is a secret.
        key = "self" if is_self else str(own or fields.get("id"))
        self.key = digest(key, 16)
        self.name = (
            (is_self and owner)
            or _joined(nickname, "given", "family")
            or _joined(contact, "systemGivenName", "systemFamilyName")
            or _joined(contact, "profileGivenName", "profileFamilyName")
            or text_of(_inner(group, "snapshot", "title"), "title")
            or text_of(contact, "username")
            or str(contact.get("e164") or "unknown")
        )


def _read_backup(reading: Reading, options: Options) -> Iterator[Plan | Skip]:
    """Yield the chats, whose messages lie among each other's in the file."""
    owner = ""
    people: dict[str, _Person] = {}
    chats: dict[str, str] = {}
    spool = Spool()
    for where, value in reading.items(_is_frame):
        name = next(iter(value), "") if isinstance(value, dict) else ""
        fields = value[name] if name in _FRAMES else {}
        if not isinstance(value, dict) or not isinstance(fields, dict):
            yield skip_of(where, value, "it is no frame")
        elif name == "account":
            owner = _joined(fields, "givenName", "familyName")
        elif name == "recipient":
            people[str(fields.get("id"))] = _Person(fields, owner)
        elif name == "chat":
            chats[str(fields.get("id"))] = str(fields.get("recipientId"))
        elif name == "chatItem":
            spool.add(str(fields.get("chatId")), where, fields)
        elif name not in _OTHER_FRAMES and "backupTimeMs" not in value:
            yield Skip(where, "it is no frame of an export of Signal")
    stranger = _Person({}, "")
    for own, items in spool.groups():
        party = people.get(chats.get(own, ""), stranger)
        place = f"{reading.name} chat {own} ({party.name})"
        chat = Chat(NAME, party.key, place, title=party.name)
        if party is stranger:
            chat.talk.note("the other side of a chat is not in the export", own)
        for _, item in items:
            author = people.get(str(item.get("authorId")), stranger)
            if author is stranger:
                chat.talk.note("a sender is not in the export", str(item.get("authorId")))
            _add(chat, item, author)
        yield chat.plan(options.owner)


def _add(chat: Chat, item: dict[str, Any], author: _Person) -> None:
    own = f"{item.get('dateSent')}-{author.key}"
    for it in objects(item, "revisions"):
        body = text_of(_inner(it, "standardMessage", "text"), "body")
        chat.talk.set_aside(_say, text=body, own=own, time=it.get("dateSent"))
    if not _NOT_SAID.isdisjoint(item):
        # somebody joined, called, paid or took a message back
        chat.talk.hide(text_of(_inner(item, "paymentNotification"), "note"))
        return
    standard = _inner(item, "standardMessage")
    reply = _inner(item, "directStoryReplyMessage")
    poll, contact = _inner(item, "poll"), _inner(item, "contactMessage", "contact")
    texts = [
        text_of(_inner(standard, "text"), "body"),
        text_of(_inner(reply, "textReply", "text"), "body"),
        text_of(reply, "emoji"),
        text_of(_inner(item, "stickerMessage", "sticker"), "emoji"),
        text_of(poll, "question"),
        *(f"- {text_of(it, 'option')}" for it in objects(poll, "options")),
        _joined(_inner(contact, "name"), "givenName", "familyName"),
        *(text_of(it, "value") for key in ("number", "email") for it in objects(contact, key)),
    ]
    if standard.get("longText"):
        chat.talk.note("the rest of a long text is a file of its own, and is left out", own)
    files = [_file(_inner(it, "pointer")) for it in objects(standard, "attachments")]
    text = "\n".join(filter(None, texts))
    if not chat.say(own, author.name, text, item.get("dateSent"), files):
        chat.talk.note("a message of which nothing is read", own)


def _say(talk: Talk, text: str, own: str, time: Any) -> None:
    talk.say(Role.USER, own, text, time)


def _file(pointer: dict[str, Any]) -> str:
    kind = mimetypes.guess_extension(text_of(pointer, "contentType")) or ""
    return text_of(pointer, "fileName") or f"file{kind}"


def _is_line(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() >= _LINE


def _read_folder(reading: Reading, options: Options) -> Iterator[Plan | Skip]:
    """Yield the chat of a folder of `signal-export`, in which the owner is "Me"."""
    title = PurePath(reading.name.replace(":", "/")).parent.name
    chat = Chat(NAME, title, reading.name, title=title)
    counts: dict[str, int] = {}
    for where, value in reading.items(_is_line):
        if not _is_line(value):
            yield skip_of(where, value, "it is no message")
        elif value.get("deleted") or value.get("call"):
            chat.talk.hide(text_of(value, "body"))
        else:
            sender = text_of(value, "sender")
            stamp = f"{value['date']} {sender}"
            counts[stamp] = counts.get(stamp, 0) + 1
            own = f"{digest(stamp, 16)}-{counts[stamp]}"
            text = text_of(value, "body") or text_of(_inner(value, "sticker"), "emoji")
            files = [
                text_of(it, "path") or text_of(it, "name") for it in objects(value, "attachments")
            ]
            if not chat.say(own, sender, text, value["date"], filter(None, files)):
                chat.talk.note("a message of which nothing is read", own)
    yield chat.plan(options.owner)


BACKUP = Format(NAME, _TITLE, _read_backup, _is_frame)
FOLDER = Format(NAME, _TITLE, _read_folder, _is_line)

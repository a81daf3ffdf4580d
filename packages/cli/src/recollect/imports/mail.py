"""Mailboxes of the format mbox: of Gmail's Takeout, Thunderbird, Apple Mail and others.

A thread is a conversation, and comes only where the owner wrote in it: the rest of a mailbox is
mostly newsletters and strangers.
"""

import hashlib
import re
from collections.abc import Iterator
from contextlib import suppress
from email import message_from_bytes
from email.errors import MessageError
from email.header import decode_header, make_header
from email.message import Message as Mail
from typing import Any

from recollect.imports.forms import Format, Options
from recollect.imports.mailboxes import read_mailbox
from recollect.imports.markup import plain_text
from recollect.imports.people import Chat
from recollect.imports.plans import Plan, Skip
from recollect.imports.reading import MAX_ITEM, Reading, Spool
from recollect.imports.talks import moment
from recollect.imports.transcript import Damaged
from recollect.imports.values import counted

NAME = "mail-export"
_FIRST = re.compile(rb"From \S.*\d{4}|From .*\d\d:\d\d")
_QUOTED = re.compile(rb">+From ")
_ID = re.compile(r"<([^<>\s]+)>")
_REPLY = re.compile(r"^(?:(?:re|aw|fwd?|wg|sv|antw|rv|tr)\s*:\s*)+", re.IGNORECASE)


def _is_head(head: bytes) -> bool:
    return bool(_FIRST.match(head)) and re.search(rb"^[\w-]+:", head, re.MULTILINE) is not None


def read(reading: Reading, options: Options) -> Iterator[Plan | Skip]:
    """Yield the threads in which the owner wrote, and the mails that cannot be read."""
    if not options.owner:
        reason = "it is a mailbox: --owner says which name or address in it is yours"
        yield Skip(reading.name, reason)
        return
    roots: dict[str, str] = {}  # the first mail of the thread of each mail, by their ids
    ids: set[str] = set()
    spool = Spool()
    hidden = 0
    for where, data in _mails(reading):
        if isinstance(data, Damaged):
            yield Skip(where, str(data))
            continue
        try:
            mail = message_from_bytes(data)
            fields = _fields(mail)
        except (RecursionError, ValueError):  # too deep, or a name with NUL: of the library
            yield Skip(where, "its parts or names cannot be read")
            continue
        own = (_ids(mail, "Message-ID") or [hashlib.sha256(data).hexdigest()[:32]])[-1]
        if own in ids or _is_expunged(mail):  # Gmail's labels and copied folders repeat mails
            hidden += 1
            continue
        ids.add(own)
        before = [*_ids(mail, "References"), *_ids(mail, "In-Reply-To")]
        root = next((roots[it] for it in (*before, own) if it in roots), (*before, own)[0])
        for it in (*before, own):
            roots.setdefault(it, root)
        spool.add(root, where, {"id": own} | fields)
    others = 0
    for root, mails in spool.groups():
        people = {it[key].casefold() for _, it in mails for key in ("sender", "address")}
        if options.owner.casefold() in people:
            yield _thread(root, mails, options.owner)
        else:
            others += 1
    if others:
        what = f"{counted(others, 'thread')} in which {options.owner} wrote nothing"
        yield Skip(reading.name, what)
    if hidden:
        what = "is" if hidden == 1 else "are"
        yield Skip(reading.name, f"{counted(hidden, 'mail')} that {what} expunged, or there twice")


def _thread(root: str, mails: list[tuple[str, Any]], owner: str) -> Plan | Skip:
    mails.sort(key=lambda it: str(moment(it[1]["time"]) or ""))
    where, first = mails[0]
    title = _REPLY.sub("", first["subject"], count=1)
    chat = Chat(NAME, root, where, title=title)
    for _, it in mails:
        sender = it["sender"] or it["address"] or "unknown"
        if not chat.say(it["id"], sender, it["text"], it["time"], it["files"]):
            chat.talk.hidden += 1
        for what in it["notes"]:
            chat.talk.note(what, it["id"])
    return chat.plan(owner, is_part=True)


def _mails(reading: Reading) -> Iterator[tuple[str, bytes | Damaged]]:
    """Yield each mail with its place."""
    lines: list[bytes] = []
    size, begins, is_blank = 0, 0, True
    for number, line in reading.lines():
        if is_blank and _FIRST.match(line):
            if begins:
                yield f"{reading.name}:{begins}", _mail(lines, size)
            lines, size, begins = [], 0, number
        elif begins and (size := size + len(line)) <= MAX_ITEM:
            lines.append(line[1:] if _QUOTED.match(line) else line)
        is_blank = not line.strip()
    if begins:
        yield f"{reading.name}:{begins}", _mail(lines, size)


def _mail(lines: list[bytes], size: int) -> bytes | Damaged:
    if size > MAX_ITEM:
        return Damaged(f"it has more than {MAX_ITEM >> 20} million bytes")
    return b"".join(lines) if lines else Damaged("it is empty")


def _fields(mail: Mail) -> dict[str, Any]:
    """Return what is kept of a mail."""
    sender = str(mail.get("From", ""))
    name, address = read_mailbox(sender)  # before its words are decoded: one may hold an address
    texts: list[str] = []
    files: list[str] = []
    notes: list[str] = []
    _read_part(mail, texts, files, notes)
    return {
        "sender": _decoded(name if address else sender),
        "address": address,
        "subject": _header(mail, "Subject"),
        "time": _header(mail, "Date"),
        "text": "\n\n".join(filter(None, texts)),
        "files": files,
        "notes": notes,
    }


def _read_part(part: Mail, texts: list[str], files: list[str], notes: list[str]) -> None:
    """Take the text of a part, and the names of the files in it."""
    kind, name = part.get_content_type(), part.get_filename()
    if kind == "message/rfc822":
        files.append(name or "forwarded.eml")
    elif part.is_multipart():
        parts = [it for it in part.get_payload() if isinstance(it, Mail)]
        if kind == "multipart/alternative":  # the simplest comes first, and says the same
            plain = [it for it in parts if it.get_content_type() == "text/plain"]
            parts = [it for it in plain if _text(it, notes).strip()][:1] or parts[-1:]
        for it in parts:
            _read_part(it, texts, files, notes)
    elif name or part.get_content_disposition() == "attachment" or not kind.startswith("text/"):
        files.append(_decoded(name or "") or f"file.{part.get_content_subtype()}")
    else:
        text = _text(part, notes)
        texts.append(plain_text(text) if kind == "text/html" else text.strip())


def _text(part: Mail, notes: list[str]) -> str:
    data = part.get_payload(decode=True)
    data = data if isinstance(data, bytes) else b""
    try:
        return data.decode(part.get_content_charset() or "utf-8").replace("\r\n", "\n")
    except (LookupError, ValueError):  # no such set, or not of it
        notes.append("a text's bytes are not what its mail says: they are read as Windows-1252")
        return data.decode("cp1252", "replace").replace("\r\n", "\n")


def _header(mail: Mail, name: str) -> str:
    return _decoded(str(mail.get(name, "")))


def _decoded(text: str) -> str:
    """Return a header's text: words in other character sets are encoded in it."""
    with suppress(MessageError, LookupError, ValueError):  # it stays as the file has it
        text = str(make_header(decode_header(text)))
    return " ".join(text.split())


def _ids(mail: Mail, name: str) -> list[str]:
    return _ID.findall(str(mail.get(name, "")))


def _is_expunged(mail: Mail) -> bool:
    """Return whether Thunderbird has deleted a mail, and not rewritten the file yet."""
    status = str(mail.get("X-Mozilla-Status", "")).strip()
    return bool(re.fullmatch("[0-9a-fA-F]{4}", status) and int(status, 16) & 0x0008)


FORMAT = Format(NAME, "mail (mbox)", read, is_head=_is_head)

"""Mailboxes of the format mbox: of Gmail's Takeout, Thunderbird, Apple Mail and others.

A thread is a conversation, and comes only where the owner wrote in it: the rest of a mailbox is
mostly newsletters and strangers.
"""

import codecs
import hashlib
import re
from base64 import b64decode
from collections.abc import Iterator
from email import message_from_bytes
from email.message import Message as Mail
from email.quoprimime import header_decode
from email.utils import getaddresses
from typing import Any

from recollect._shared.mailboxes import read_mailbox
from recollect.imports.forms import Format, Options
from recollect.imports.markup import plain_text
from recollect.imports.people import Chat
from recollect.imports.plans import Plan, Skip
from recollect.imports.reading import MAX_ITEM, Reading, Spool
from recollect.imports.talks import moment
from recollect.imports.transcript import Damaged
from recollect.imports.values import counted

NAME = "mail-export"
_MAX_HEADER = 8192
"""Characters that are read of a header's value: the time that some take grows with their square."""
_MAX_SEPARATOR = 256
_SEPARATOR = re.compile(
    rb"From .*?(?P<date>(?:[A-Z][a-z]{2},? +)?"
    rb"(?:[A-Z][a-z]{2} +\d{1,2}|\d{1,2} [A-Z][a-z]{2}|\d{4}-\d\d-\d\d)\b.*\d\d:\d\d.*)"
)
_FIELD = re.compile(rb"[!-9;-~]+:|>From ")
_QUOTED = re.compile(rb">+From ")
_ID = re.compile(r"<([^<>\s]+)>")
_REPLY = re.compile(r"^(?:(?:re|aw|fwd?|wg|sv|antw|rv|tr)\s*:\s*)+", re.IGNORECASE)
_WORD = re.compile(r"=\?([^?\s]+)\?([bBqQ])\?([^?]*)\?=")
_WORDS = re.compile(rf"(?:{_WORD.pattern}\s*)+")
_NO_CHARSETS = {"idna", "punycode", "raw-unicode-escape", "unicode-escape"}
"""Encodings of Python that no mail has. Some take time with the square of a text."""
_WIDER = {
    "ascii": "utf-8",
    "iso8859-1": "cp1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
    "shift_jis": "cp932",
}
"""Character sets as mails name them, and those that programs mean by them, which hold more."""


def _is_head(head: bytes) -> bool:
    first, _, rest = head.partition(b"\n")
    return bool(_SEPARATOR.match(first[:_MAX_SEPARATOR]) and _FIELD.match(rest))


def read(reading: Reading, options: Options) -> Iterator[Plan | Skip]:
    """Yield the threads in which the owner wrote, and the mails that cannot be read."""
    if not options.owner:
        reason = "it is a mailbox: --owner says which name or address in it is yours"
        yield Skip(reading.name, reason)
        return
    roots: dict[str, str] = {}  # the first mail of the thread of each mail, by their ids
    ids: set[str] = set()
    senders: set[str] = set()
    spool = Spool()
    repeated = 0
    for where, date, data in _mails(reading):
        if isinstance(data, Damaged):
            yield Skip(where, str(data))
            continue
        try:
            mail = _with_short_headers(message_from_bytes(data))
            fields = _fields(mail)
        except (RecursionError, ValueError):  # too deep, or a name with NUL: of the library
            yield Skip(where, "its parts or names cannot be read")
            continue
        own = (_ids(mail, "Message-ID") or [hashlib.sha256(data).hexdigest()[:32]])[-1]
        if own in ids or _is_expunged(mail):  # Gmail's labels and copied folders repeat mails
            repeated += 1
            continue
        ids.add(own)
        senders.add(fields["address"].casefold())
        # Some programs name the writer of the mail that is answered, by his address.
        named = {it.casefold() for _, it in getaddresses([_raw(mail, "To")])}
        answers = _ids(mail, "In-Reply-To")
        answered = [it for it in answers if it.casefold() not in named and it not in senders]
        before = [*_ids(mail, "References"), *answered]
        root = next((roots[it] for it in (*before, own) if it in roots), (*before, own)[0])
        for it in (*before, own):
            roots.setdefault(it, root)
        if moment(fields["time"]) is None and (time := moment(date)):
            fields["time"] = time.isoformat()
            fields["notes"].append(
                "a mail has no date that can be read: it has that of its arrival"
            )
        spool.add(root, where, {"id": own, "parent": (answered or before or [""])[-1]} | fields)
    others = 0
    for root, mails in spool.groups():
        writers = {it[key].casefold() for _, it in mails for key in ("sender", "address")}
        if options.owner.casefold() in writers:
            yield _thread(root, mails, options.owner)
        else:
            others += 1
    if others:
        what = f"{counted(others, 'thread')} in which {options.owner} wrote nothing"
        yield Skip(reading.name, what)
    if repeated:
        what = "is" if repeated == 1 else "are"
        yield Skip(
            reading.name, f"{counted(repeated, 'mail')} that {what} expunged, or there twice"
        )


def _thread(root: str, mails: list[tuple[str, Any]], owner: str) -> Plan | Skip:
    times = {it["id"]: moment(it["time"]) for _, it in mails}
    first = min(filter(None, times.values()), default=None)

    def place(mail: tuple[str, Any]) -> tuple[Any, bool]:
        """Return what sorts the mails: one without a time stands behind the one that it answers."""
        time = times[mail[1]["id"]]
        return time or times.get(mail[1]["parent"]) or first, time is None

    if first is not None:
        mails.sort(key=place)
    where, beginning = mails[0]
    title = _REPLY.sub("", beginning["subject"], count=1)
    chat = Chat(NAME, root, where, title=title)
    for _, it in mails:
        sender = it["sender"] or it["address"] or "unknown"
        if not chat.say(it["id"], sender, it["text"], it["time"], it["files"]):
            chat.talk.hidden += 1
        for what in it["notes"]:
            chat.talk.note(what, it["id"], is_lost=False)
    return chat.plan(owner, is_part=True)


def _mails(reading: Reading) -> Iterator[tuple[str, str, bytes | Damaged]]:
    """Yield each mail with its place and the date of the line that stands before it.

    Some programs leave lines of a text as they are that begin with "From": the line before a mail
    has a date too, and a header stands behind it.
    """
    lines: list[bytes] = []
    size, begins, date = 0, 0, ""
    is_blank, separator = True, None
    for number, line in reading.lines():
        if separator and _FIELD.match(line):
            if begins:
                yield f"{reading.name}:{begins}", date, _mail(lines[:-1], size)
            date = separator["date"].decode("ascii", "replace").strip()
            lines, size, begins = [], 0, number - 1
        separator = _SEPARATOR.match(line[:_MAX_SEPARATOR]) if is_blank else None
        if begins or separator:
            size += len(line)
            if size <= MAX_ITEM or separator:
                lines.append(line[1:] if _QUOTED.match(line) else line)
        is_blank = not line.strip()
    if begins:
        yield f"{reading.name}:{begins}", date, _mail(lines, size)


def _mail(lines: list[bytes], size: int) -> bytes | Damaged:
    if size > MAX_ITEM:
        return Damaged(f"it has more than {MAX_ITEM >> 20} million bytes")
    return b"".join(lines) if lines else Damaged("it is empty")


def _with_short_headers(mail: Mail) -> Mail:
    """Return a mail and its parts with the beginnings of headers that are too long."""
    for part in mail.walk():
        for name, value in part.raw_items():
            if len(str(value)) > _MAX_HEADER:
                part.replace_header(name, str(value)[:_MAX_HEADER])
    return mail


def _fields(mail: Mail) -> dict[str, Any]:
    """Return what is kept of a mail."""
    sender = _raw(mail, "From")
    name, address = read_mailbox(sender)  # before its words are decoded: one may hold an address
    texts: list[str] = []
    files: list[str] = []
    notes: list[str] = []
    _read_part(mail, texts, files, notes)
    return {
        "sender": _decoded(name if address else sender),
        "address": address,
        "subject": _decoded(_raw(mail, "Subject")),
        "time": _raw(mail, "Date"),
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
    charset = _charset(part.get_content_charset() or "utf-8")
    try:
        text = data.decode(charset or "utf-8")
    except ValueError:
        # Where bytes of several make a letter, most of a text is right but for a few.
        is_wide = charset not in {"", "utf-8"}
        charset = charset if is_wide else "cp1252"
        text = data.decode(charset, "replace")
        notes.append(f"a text's bytes are not what its mail says: they are read as {charset}")
    return text.replace("\r\n", "\n")


def _charset(name: str) -> str:
    """Return the character set that Python knows by a name, empty for none."""
    try:
        own = codecs.lookup(name).name
        b"".decode(own)
    except (LookupError, ValueError):  # none, or one of bytes and of no text
        return ""
    if own in _NO_CHARSETS:
        return ""
    return _WIDER.get(own, own)


def _raw(mail: Mail, name: str) -> str:
    """Return a header's text, with the letters that some programs leave as they are."""
    values = (str(value) for key, value in mail.raw_items() if key.lower() == name.lower())
    data = next(values, "").encode("utf-8", "surrogateescape")
    try:
        text = data.decode()
    except ValueError:
        text = data.decode("cp1252", "replace")
    return " ".join(text.split())


def _decoded(text: str) -> str:
    """Return a header's text: words in other character sets are encoded in it."""
    return " ".join(_WORDS.sub(_decoded_words, text).split())


def _decoded_words(match: re.Match[str]) -> str:
    """Return the text of encoded words. A letter may begin in one and end in the next."""
    parts: list[tuple[str, bytearray]] = []
    for charset, encoding, text in _WORD.findall(match[0]):
        own = _charset(charset.partition("*")[0])
        try:
            is_base64 = encoding in "bB"
            padded = text + "=" * (-len(text) % 4)
            data = b64decode(padded) if is_base64 else header_decode(text).encode("latin-1")
        except ValueError:
            own, data = "", b""
        if not own:
            return match[0]  # it stays as the file has it
        if parts and parts[-1][0] == own:
            parts[-1][1].extend(data)
        else:
            parts.append((own, bytearray(data)))
    text = "".join(data.decode(charset, "replace") for charset, data in parts)
    return text + " " * match[0][-1:].isspace()


def _ids(mail: Mail, name: str) -> list[str]:
    return _ID.findall(_raw(mail, name))


def _is_expunged(mail: Mail) -> bool:
    """Return whether Thunderbird has deleted a mail, and not rewritten the file yet."""
    status = _raw(mail, "X-Mozilla-Status").strip()
    return bool(re.fullmatch("[0-9a-fA-F]{4}", status) and int(status, 16) & 0x0008)


FORMAT = Format(NAME, "mail (mbox)", read, is_head=_is_head)

"""Chats of WhatsApp: the text file of "Export chat", in whatever language of the phone.

A line begins with a date and a time as the phone's settings have them. Which of the first numbers
is the day follows from all lines together; where it does not, it is guessed and named.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import PurePath

from recollect.imports.forms import Format, Options
from recollect.imports.people import Chat
from recollect.imports.plans import Plan, Skip
from recollect.imports.reading import Reading
from recollect.imports.transcript import Damaged
from recollect.imports.values import digest

NAME = "whatsapp-export"
_INVISIBLE = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_DIGITS = str.maketrans("٠١٢٣٤٥٦٧٨٩۰۱۲۳۴۵۶۷۸۹०१२३४५६७८९", "0123456789" * 3)
_START = re.compile(
    r"\[?(?P<one>\d{1,4})(?:[./-]|\. )\s?(?P<two>\d{1,2})(?:[./-]|\. )\s?(?P<three>\d{1,4})\.?"
    r"(?:,|،)?(?:\s(?:um|klo|kl\.|à))?\s"
    r"(?P<before>[^\W\d]{1,2}\s?)?(?P<hour>\d{1,2})[:.](?P<minute>\d\d)(?:[:.](?P<second>\d\d))?"
    r"(?:\s?(?P<half>[^\W\d]\.?\s?m\.?|[^\W\d]{1,2}))?(?:\]\s|\s[-–]\s)(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_AFTERNOON = re.compile(r"p|م|오후|下午|午後|μμ|nm|em|du|ip|sl", re.IGNORECASE)
_MORNING = re.compile(r"a|ص|오전|上午|午前|πμ|vm|fm|de|dop|öö", re.IGNORECASE)
_FILE = re.compile(
    r"<[^<>:]{2,30}: (?P<name>[^<>]+\.\w{2,5})>|(?<!\S)(?P<first>\S+\.\w{2,5}) \([^()]{4,40}\)$"
)
_WITHOUT_FILE = re.compile(r"<[^<>]{4,40}>$")
_QUOTES = ('"', "„“”", "«»")
"""Marks of which a text that ends within a quotation has an odd number."""
_NAME = re.compile(r"(?:WhatsApp.*? (?:with|mit|avec|con|com|met|z|-) )?(?P<name>.+?)(?:\.txt)?$")


@dataclass(slots=True)
class _Entry:
    """A message as the file has it."""

    where: str
    line: str
    numbers: tuple[int, int, int]
    clock: tuple[int, int, int]
    lines: list[str]

    @property
    def text(self) -> str:
        """Return all its lines."""
        return "\n".join(self.lines)


def _is_head(head: bytes) -> bool:
    text = head.decode("utf-8-sig", "replace")
    lines = [it for it in text.split("\n", 50)[:50] if it.strip()]
    return any(_entry("", it) for it in lines[:3])


def _entry(where: str, line: str) -> _Entry | None:
    """Return the message that a line begins, None for a line that continues one."""
    plain = _INVISIBLE.sub("", line).translate(_DIGITS)
    match = _START.match(plain)
    if not match:
        return None
    hour = int(match["hour"])
    half = (match["half"] or match["before"] or "").strip().replace(".", "").replace(" ", "")
    if half and _AFTERNOON.match(half):
        hour = hour % 12 + 12
    elif half and _MORNING.match(half):
        hour %= 12
    # The digits of the text itself stay as they were written.
    text = _INVISIBLE.sub("", line)[match.start("rest") :]
    clock = hour, int(match["minute"]), int(match["second"] or 0)
    return _Entry(
        where, line, (int(match["one"]), int(match["two"]), int(match["three"])), clock, [text]
    )


def read(reading: Reading, options: Options) -> Iterator[Plan | Skip]:
    """Yield the conversation of a chat, and the lines that belong to none."""
    entries: list[_Entry] = []
    for number, line in reading.text_lines():
        where = f"{reading.name}:{number}"
        if isinstance(line, Damaged):
            yield Skip(where, str(line))
        elif entry := _entry(where, line):
            entries.append(entry)
        elif entries:
            entries[-1].lines.append(line)
        elif line.strip():
            yield Skip(where, "it stands before the first message")
    yield _chat(reading, entries, options.owner)


def _chat(reading: Reading, entries: list[_Entry], owner: str) -> Plan | Skip:
    path = PurePath(reading.name.replace(":", "/"))
    stem = path.name.removesuffix(".txt")
    if stem == "_chat":  # of an iPhone: the archive or the folder has the name
        stem = path.parent.name.removesuffix(".zip")
    match = _NAME.match(stem)
    title = match["name"] if match else stem
    chat = Chat(NAME, title, reading.name, title=title)
    order = _order(entries, chat)
    senders = Counter(map(_sender, entries))
    counts: dict[str, int] = {}
    for entry in _joined(entries):
        time = _time(entry, order)
        text = entry.text
        sender = _sender(entry)
        if not sender or _is_notice(sender, senders):
            chat.talk.hide(text)  # somebody joined, a number changed, the note on encryption
            continue
        text = text[len(sender) + 2 :]
        if time is None:
            what = "a date cannot be read, and the one before it stands instead"
            chat.talk.note(what, entry.where, is_lost=False)
        # The export has no ids: what was said, by whom and when, names a message.
        key = digest(f"{entry.numbers}{entry.clock}{sender}{text}", 16)
        counts[key] = counts.get(key, 0) + 1
        files = [name for it in _FILE.finditer(text) if (name := it["name"] or it["first"])]
        if not files and _WITHOUT_FILE.match(text.strip()):
            what = "a file is not in the export, and its place is kept"
            chat.talk.note(what, text.strip(), is_lost=False)
        chat.say(f"{key}-{counts[key]}", sender, text.strip(), time, files)
    return chat.plan(owner)


def _sender(entry: _Entry) -> str:
    """Return the name before the colon of a message's first line; empty for a notice."""
    sender, colon, _ = entry.lines[0].partition(": ")
    return sender if colon else ""


def _joined(entries: list[_Entry]) -> Iterator[_Entry]:
    """Yield the messages and notices. A dated line without a name, behind which a text goes on, is
    no notice: somebody pasted it into the message before it.
    """
    before: _Entry | None = None
    for entry in entries:
        if before and _sender(before) and not _sender(entry) and any(entry.lines[1:]):
            before.lines += [entry.line, *entry.lines[1:]]
            continue
        if before:
            yield before
        before = entry
    if before:
        yield before


def _is_notice(sender: str, senders: Counter[str]) -> bool:
    """Return whether the text before a colon is no name but part of a notice: it begins to quote
    something, or says in small letters what somebody did.
    """
    if any(sum(map(sender.count, marks)) % 2 for marks in _QUOTES):
        return True
    if senders[sender] > 1:
        return False
    words = sender.split(" ")
    at = next((at for at, it in enumerate(words) if at and it.islower()), len(words))
    done = words[at:]
    return len(done) > 1 and all(map(str.islower, done)) and " ".join(words[:at]) in senders


def _order(entries: list[_Entry], chat: Chat) -> str:
    """Return the order of year, month and day."""
    if any(it.numbers[0] > 31 for it in entries):
        return "ymd"
    if any(it.numbers[0] > 12 for it in entries):
        return "dmy"
    if any(it.numbers[1] > 12 for it in entries):
        return "mdy"
    # Neither goes beyond 12: the order in which the messages stand in time decides.
    orders = [it for it in ("dmy", "mdy") if _is_sorted([_time(each, it) for each in entries])]
    if len(orders) != 1 and any(it.numbers[0] != it.numbers[1] for it in entries):
        chat.talk.note("which number is the day is guessed: the first one", is_lost=False)
    return orders[0] if orders else "dmy"


def _is_sorted(times: list[datetime | None]) -> bool:
    stamps = [it for it in times if it is not None]
    return all(one <= other for one, other in pairwise(stamps))


def _time(entry: _Entry, order: str) -> datetime | None:
    """Return the time of a message, in this machine's time zone: the export names none."""
    parts = dict(zip(order, entry.numbers, strict=True))
    year = parts["y"]
    # Thailand counts the years of the Buddhist era.
    year = year + 2000 if year < 100 else year - 543 if year > 2400 else year
    try:
        return datetime(year, parts["m"], parts["d"], *entry.clock).astimezone()
    except (ValueError, OverflowError, OSError):
        return None


FORMAT = Format(NAME, "WhatsApp", read, is_head=_is_head)

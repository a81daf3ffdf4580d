"""Gemini: Google Takeout's My Activity (JSON or HTML), and the files of AI Studio.

Takeout has no conversations: it lists prompts with their answers, the newest first. Those that
follow within half an hour of each other are one here, named by the time of its first. AI Studio
keeps a file for each conversation, named as it is.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import PurePath
from typing import Any

from recollect import Role, ToolCall
from recollect._shared.plain import time_text
from recollect.imports.forms import Format, Options, conversations
from recollect.imports.markup import plain_text
from recollect.imports.plans import Plan, Skip
from recollect.imports.reading import Reading
from recollect.imports.talks import Talk, attachment, moment
from recollect.imports.transcript import Damaged
from recollect.imports.values import (
    fields_of,
    flag_of,
    mapping,
    members,
    objects,
    passed_over,
    text_of,
)

NAME = "gemini"
_GAP = timedelta(minutes=30)
"""Silence after which an activity begins another conversation."""
_PRODUCT = re.compile("gemini|bard", re.IGNORECASE)
_PROMPTS = re.compile(r"(?:Prompted with:|Asked (?:Gemini|Bard):|Prompted|Asked|Said)\s+")
"""The beginning of a prompt's title in English. In other languages it stays in the text."""
_NO_PROMPTS = re.compile(
    r"(?:Added|Created|Deleted|Edited|Exported|Gave|Pinned|Renamed|Searched|Selected|Shared|Updated"
    r"|Used|Viewed|Visited)\s"
)
_ATTACHED = re.compile(r"\s*Attached \d+ files?\.?\s*$")


def is_activity(value: Any) -> bool:
    """Return whether an item is an entry of My Activity of this product."""
    return any(_PRODUCT.search(it) for it in _products(value))


def refusal(value: Any) -> str:
    """Return why an item is none of this product if it is an entry of another of Google's."""
    names = ", ".join(filter(None, dict.fromkeys(_products(value))))
    return names and f"it is My Activity of {names:.80}, and none of its entries is one of Gemini"


def _products(value: Any) -> list[str]:
    if not isinstance(value, dict) or not {"title", "time"} <= value.keys():
        return []
    products = value.get("products")
    labels = [value.get("header"), *(products if isinstance(products, list) else ())]
    return [it for it in labels if isinstance(it, str)]


def is_studio(value: Any) -> bool:
    """Return whether a value is a file of AI Studio."""
    return isinstance(value, dict) and isinstance(value.get("chunkedPrompt"), dict)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A prompt of My Activity, and its answer where the export has it."""

    where: str
    time: datetime
    prompt: str
    answer: str
    files: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The name of the entry in every export."""
        digest = hashlib.sha256(self.prompt.encode(errors="replace")).hexdigest()[:8]
        return f"{time_text(self.time)}/{digest}"


def _activity(reading: Reading, options: Options) -> Iterator[Plan | Skip]:
    """Yield the conversations of My Activity as JSON. Raises OSError."""
    del options
    yield from _talks(_entries(reading))


def _page(reading: Reading, options: Options) -> Iterator[Plan | Skip]:
    """Yield the conversations of My Activity as HTML. Raises OSError."""
    del options
    yield from _talks(_page_entries(reading))


def _entries(reading: Reading) -> Iterator[_Entry | Skip | None]:
    """Yield the entries of a file: None for one that is no prompt."""
    for place, value in reading.items(is_activity):
        where = place.replace(" item ", " entry ")
        if isinstance(value, Damaged):
            yield Skip(where, str(value))
        elif not is_activity(value):
            yield None if isinstance(value, dict) else Skip(where, "it is no entry of My Activity")
        elif (time := moment(value["time"])) is None:
            yield Skip(where, f"time: {value['time']!r:.50} is no time")
        else:
            answers = [plain_text(text_of(it, "html")) for it in objects(value, "safeHtmlItem")]
            files = members(value, "attachedFiles", "text", str)
            files += filter(None, [text_of(value, "imageFile")])
            yield _entry(where, time, text_of(value, "title"), "\n\n".join(answers), files)
            for what, short in passed_over():
                yield Skip(where, f"{what}: {short}")


def _entry(where: str, time: datetime, title: str, answer: str, files: list[str]) -> _Entry | None:
    """Return the entry of a title, None where it is no prompt: feedback, a document, a setting."""
    if verb := _PROMPTS.match(title):
        prompt = title[verb.end() :]
    elif answer and not _NO_PROMPTS.match(title):
        prompt = title
    else:
        return None
    return _Entry(where, time, _ATTACHED.sub("", prompt).strip(), answer, tuple(files))


def _talks(entries: Iterator[_Entry | Skip | None]) -> Iterator[Plan | Skip]:
    """Yield the conversations that entries make. They are in the order of time, or against it."""
    group: list[_Entry] = []
    hidden = 0
    for entry in entries:
        if isinstance(entry, Skip):
            yield entry
            continue
        if entry is None:
            hidden += 1
            continue
        if group and abs(entry.time - group[-1].time) > _GAP:
            yield _talk(group, hidden)
            group, hidden = [], 0
        group.append(entry)
    if group:
        yield _talk(group, hidden)


def _talk(group: list[_Entry], hidden: int) -> Plan | Skip:
    if group[0].time > group[-1].time:
        group = group[::-1]
    first = group[0]
    talk = Talk(NAME, f"activity/{first.id}", first.where, create_time=first.time, hidden=hidden)
    for entry in group:
        files = tuple(attachment(f"gemini-export:{it}", it) for it in entry.files if it)
        talk.say(Role.USER, entry.id, entry.prompt, entry.time, attachments=files)
        talk.say(Role.ASSISTANT, f"{entry.id}/answer", entry.answer, entry.time)
    return talk.plan()


_ENGLISH = re.compile(
    r"(?:(?P<month>[A-Z][a-z]{2})[a-z]* (?P<day>\d{1,2})|(?P<day2>\d{1,2}) (?P<month2>[A-Z][a-z]{2})[a-z]*),?"
    r" (?P<year>\d{4}),? (?P<hour>\d{1,2}):(?P<minute>\d\d):(?P<second>\d\d)\s?(?P<half>[AP]M)?"
    r"(?:\s(?P<zone>[A-Z]{2,5}(?:[+-]\d{1,2}(?::?\d\d)?)?))?\s*$"
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_ZONES = {
    "UTC": 0, "GMT": 0, "WET": 0, "WEST": 1, "BST": 1, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "MSK": 3,
    "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7,
}  # fmt: skip


def _time_of_page(text: str) -> datetime | None:
    """Return a time as the page has it in English: `Dec 14, 2023, 5:36:23 PM EST`."""
    match = _ENGLISH.search(" ".join(text.replace("\u202f", " ").split()))
    if not match:
        return None
    month = match["month"] or match["month2"]
    zone = match["zone"] or "UTC"
    name, sign, offset = re.fullmatch(r"([A-Z]+)([+-]?)(.*)", zone).groups()  # type: ignore[union-attr]
    if month not in _MONTHS or name not in _ZONES:
        return None
    hours = timedelta(hours=_ZONES[name])
    if sign:
        digits = offset.replace(":", "")
        hour, minute = (digits, "0") if len(digits) < 3 else (digits[:-2], digits[-2:])
        ahead = timedelta(hours=int(hour), minutes=int(minute))
        hours += ahead if sign == "+" else -ahead
    hour_of_day = (
        int(match["hour"]) % 12 + 12 * (match["half"] == "PM")
        if match["half"]
        else int(match["hour"])
    )
    try:
        return (
            datetime(
                int(match["year"]),
                _MONTHS.index(month) + 1,
                int(match["day"] or match["day2"]),
                hour_of_day,
                int(match["minute"]),
                int(match["second"]),
                tzinfo=UTC,
            )
            - hours
        )
    except (ValueError, OverflowError):
        return None


class _Page(HTMLParser):
    """The cells of My Activity, one an entry: its lines, of which one is the time, and the HTML
    of the answer behind it.
    """

    def __init__(self, receive: Callable[[str, str], None]) -> None:
        super().__init__(convert_charrefs=False)
        self._receive = receive
        self._header = ""
        self._depth = 0  # of the cell that is read
        self._is_title = False
        self._html: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = (dict(attrs).get("class") or "").split()
        if self._depth:
            self._depth += tag == "div"
            self._html.append(self.get_starttag_text() or "")
        elif "mdl-typography--title" in names:
            self._is_title, self._header = True, ""
        elif "content-cell" in names and not {
            "mdl-typography--text-right",
            "mdl-typography--caption",
        } & set(names):
            self._depth, self._html = 1, []

    def handle_endtag(self, tag: str) -> None:
        self._is_title = self._is_title and tag != "p"
        if not self._depth:
            return
        self._depth -= tag == "div"
        if self._depth:
            self._html.append(f"</{tag}>")
        else:
            self._receive(self._header, "".join(self._html))

    def handle_data(self, data: str) -> None:
        if self._depth:
            self._html.append(data)
        elif self._is_title:
            self._header += data

    def handle_entityref(self, name: str) -> None:
        self.handle_data(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self.handle_data(f"&#{name};")


def _page_entries(reading: Reading) -> Iterator[_Entry | Skip | None]:
    cells: list[tuple[str, str]] = []
    page = _Page(lambda header, html: cells.append((header, html)))
    number = 0
    for text in reading.text():
        page.feed(text)
        for header, html in cells:
            number += 1
            yield _cell(f"{reading.name} entry {number}", header, html)
        cells.clear()


def _cell(where: str, header: str, html: str) -> _Entry | Skip | None:
    if not _PRODUCT.search(header):
        return None
    lines = re.split(r"<br\s*/?>", html)
    for index, line in enumerate(lines[1:], start=1):
        # The answer, which may hold breaks of its own, follows the time.
        stamp, answer = re.match(r"([^<]*)(.*)", line, re.DOTALL).groups()  # type: ignore[union-attr]
        if (time := _time_of_page(plain_text(stamp))) is None:
            continue
        title = plain_text("<br>".join(lines[:index])).replace("\xa0", " ")
        answer = "<br>".join((answer, *lines[index + 1 :]))
        return _entry(where, time, title, plain_text(answer), [])
    return Skip(where, "its time cannot be read: export My Activity as JSON")


_FILES = {
    "driveDocument": "",
    "driveImage": "image/*",
    "driveVideo": "video/*",
    "driveAudio": "audio/*",
    "youtubeVideo": "video/*",
}
_INLINE = ("inlineFile", "inlineImage", "inlineData")
_DETAILS = {
    "role", "createTime", "tokenCount", "finishReason", "isThought", "safetyRatings", "branchParent",
    "branchChildren", "thinkingBudget", "thoughtSignatures", "isEdited", "grounding", "errorMessage",
}  # fmt: skip
"""Members of a chunk beside what was said in it."""


def studio(value: Any, where: str) -> Plan | Skip:
    """Return the plan of a file of AI Studio. Raises Damaged."""
    chunks = mapping(mapping(value, "file").get("chunkedPrompt"), "chunkedPrompt").get("chunks")
    if not isinstance(chunks, list):
        raise Damaged("chunkedPrompt: chunks is no list")
    # The file has no id and no title within it: its name is both.
    name = _PLACE.sub("", where)
    title = PurePath(name.rpartition(":")[2]).name.removesuffix(".json")
    model = text_of(fields_of(value, "runSettings"), "model")
    times = (moment(it.get("createTime")) for it in chunks if isinstance(it, dict))
    began = next((it for it in times if it is not None), None)
    talk = Talk(NAME, f"ai-studio/{title}", name, title=title, create_time=began)
    talk.hidden += bool(_studio_text(fields_of(value, "systemInstruction")))
    for index, chunk in enumerate(chunks, start=1):
        _chunk(talk, mapping(chunk, f"chunk {index}"), index, model.removeprefix("models/"))
    return talk.plan()


_PLACE = re.compile(r"(?::\d+| conversation \d+)$")


def _studio_text(value: dict[str, Any], *, is_thought: bool = False) -> str:
    """Return the text of a chunk, which may come in parts of which some are thinking."""
    parts = (
        text_of(it, "text")
        for it in objects(value, "parts")
        if bool(it.get("thought")) == is_thought
    )
    return text_of(value, "text") or "".join(parts)


def _chunk(talk: Talk, chunk: dict[str, Any], index: int, model: str) -> None:
    text, time = _studio_text(chunk), chunk.get("createTime")
    # A file may be edited in its middle: what was said names a chunk beside its place.
    content = {key: chunk[key] for key in ("text", "role", *_FILES) if key in chunk}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]
    own = f"chunk-{index}/{digest}"
    files = [
        attachment(f"{_url_of(key)}{it['id']}", media_type=kind)
        for key, kind in _FILES.items()
        if text_of(it := fields_of(chunk, key), "id")
    ]
    for key in _INLINE:
        if it := fields_of(chunk, key):
            kind = text_of(it, "mimeType")
            files.append(attachment(f"gemini-export:{talk.id}/{index}", media_type=kind))
    code, ran = fields_of(chunk, "executableCode"), fields_of(chunk, "codeExecutionResult")
    match chunk.get("role"):
        case "user":
            is_read = talk.say(Role.USER, own, text, time, attachments=files)
        case "model" if flag_of(chunk, "isThought"):
            thought = text or _studio_text(chunk, is_thought=True)
            talk.think(thought)
            is_read = bool(thought)
        case "model":
            calls = []
            if code:
                calls.append(ToolCall(own, "code_execution", json.dumps(code, ensure_ascii=False)))
            is_read = (not ran or bool(text or files or calls)) and talk.say(
                Role.ASSISTANT, own, text, time, calls=calls, attachments=files, model=model
            )
            if ran:
                failed = text_of(ran, "outcome") not in {"", "OUTCOME_OK"}
                name = f"{own}/result" if calls else own
                output = text_of(ran, "output")
                talk.result(name, "code_execution", output, time, isError=failed)
                is_read = True
        case role:
            raise Damaged(f"chunk {index}: role {role!r:.50} is neither 'user' nor 'model'")
    names = {"text", "parts", "executableCode", "codeExecutionResult", *_FILES, *_INLINE}
    if odd := [it for it, value in chunk.items() if value and it not in names | _DETAILS]:
        talk.note(f"chunk {index}: not read of it: {', '.join(odd):.80}")
    elif not is_read:
        talk.hidden += 1


def _url_of(key: str) -> str:
    """Return the beginning of the address of a file of a kind."""
    if key == "youtubeVideo":
        return "https://www.youtube.com/watch?v="
    return "https://drive.google.com/file/d/"


def _is_page(head: bytes) -> bool:
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    return text.startswith(b"<") and (b"mdl-typography--title" in text or b"outer-cell" in text)


ACTIVITY = Format(NAME, "Gemini", _activity, is_activity, refusal=refusal)
PAGE = Format(NAME, "Gemini", _page, is_head=_is_page)
STUDIO = conversations(NAME, "Gemini", is_studio, studio)

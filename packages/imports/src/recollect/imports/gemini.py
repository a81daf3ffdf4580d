"""Gemini: Google Takeout's My Activity (JSON or HTML), and the files of AI Studio.

Takeout has no conversations: it lists prompts with their answers, the newest first. Those that
follow within half an hour of each other are one here, named by the time of its first. AI Studio
keeps a file for each conversation, named as it is.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import PurePath
from typing import Any

from recollect import Role, ToolCall
from recollect._shared.plain import time_text
from recollect.imports.forms import Format, Options, conversations
from recollect.imports.markup import classes_of, plain_text, tokens, unescaped
from recollect.imports.plans import Plan, Skip
from recollect.imports.reading import MAX_ITEM, Reading
from recollect.imports.talks import MAX_TITLE, Talk, attachment, moment
from recollect.imports.transcript import Damaged
from recollect.imports.values import (
    digest,
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
_ATTACHED = re.compile(r"Attached \d{1,4} files?\.?$")


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
        return f"{time_text(self.time)}/{digest(self.prompt, 8)}"


def _activity(reading: Reading, _: Options) -> Iterator[Plan | Skip]:
    """Yield the conversations of My Activity as JSON. Raises OSError."""
    return _talks(reading.name, _entries(reading))


def _page(reading: Reading, _: Options) -> Iterator[Plan | Skip]:
    """Yield the conversations of My Activity as HTML. Raises OSError."""
    return _talks(reading.name, _page_entries(reading))


def _entries(reading: Reading) -> Iterator[_Entry | Skip | str]:
    """Yield the entries of a file: the title alone of one that is no prompt."""
    for place, value in reading.items(is_activity):
        where = place.replace(" item ", " entry ")
        if isinstance(value, Damaged):
            yield Skip(where, str(value))
        elif not is_activity(value):
            title = text_of(value, "title") if isinstance(value, dict) else ""
            yield title or Skip(where, "it is no entry of My Activity")
        elif (time := moment(value["time"])) is None:
            yield Skip(where, f"time: {value['time']!r:.50} is no time")
        else:
            answers = [plain_text(text_of(it, "html")) for it in objects(value, "safeHtmlItem")]
            files = members(value, "attachedFiles", "text", str)
            files += filter(None, [text_of(value, "imageFile")])
            yield _entry(where, time, text_of(value, "title"), "\n\n".join(answers), files)
            for what, short in passed_over():
                yield Skip(where, f"{what}: {short}")


def _entry(where: str, time: datetime, title: str, answer: str, files: list[str]) -> _Entry | str:
    """Return the entry of a title, or the title where it is no prompt: feedback, a document, a
    setting.
    """
    if verb := _PROMPTS.match(title):
        prompt = title[verb.end() :]
    elif answer and not _NO_PROMPTS.match(title):
        prompt = title
    else:
        return title
    return _Entry(where, time, _ATTACHED.sub("", prompt.strip()).strip(), answer, tuple(files))


def _talks(name: str, entries: Iterator[_Entry | Skip | str]) -> Iterator[Plan | Skip]:
    """Yield the conversations that entries make. They are in the order of time, or against it."""
    group: list[_Entry] = []
    hidden: list[str] = []
    for entry in entries:
        if isinstance(entry, Skip):
            yield entry
            continue
        if isinstance(entry, str):
            hidden.append(entry[:MAX_TITLE])
            continue
        if group and abs(entry.time - group[-1].time) > _GAP:
            yield _talk(group, hidden)
            group, hidden = [], []
        group.append(entry)
    if group:
        yield _talk(group, hidden)
    elif hidden:
        yield Skip(name, f"none of its {len(hidden)} entries is a prompt, as {hidden[0]}")


def _talk(group: list[_Entry], hidden: list[str]) -> Plan | Skip:
    if group[0].time > group[-1].time:
        group = group[::-1]
    first = group[0]
    talk = Talk(NAME, f"activity/{first.id}", first.where, create_time=first.time)
    for it in hidden:
        talk.hide(it)
    for entry in group:
        files = tuple(attachment(f"gemini-export:{it}", it) for it in entry.files if it)
        talk.say(Role.USER, entry.id, entry.prompt, entry.time, attachments=files)
        talk.say(Role.ASSISTANT, f"{entry.id}/answer", entry.answer, entry.time)
    plan = talk.plan()
    if isinstance(plan, Plan):
        plan.loses_beginning = True  # Google deletes entries after some months
    return plan


_STAMP = re.compile(
    r"(?:(?P<month>[^\W\d_]{3,9})\.? (?P<day>\d{1,2})"
    r"|(?P<day2>\d{1,2})(?:\. ?| )(?P<month2>[^\W\d_]{3,9}|\d{1,2})\.?),? ?"
    r"(?P<year>\d{4}),? (?P<hour>\d{1,2}):(?P<minute>\d\d):(?P<second>\d\d)\s?(?P<half>[AP]M)?"
    r"(?:\s(?P<zone>[A-Z]{2,5})(?:(?P<sign>[+-])(?P<hours>\d{1,2})(?::?(?P<minutes>\d\d))?)?)?\s*$"
)
_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS = {name: number for number, name in enumerate(_NAMES, start=1)}
_MONTHS |= {"mär": 3, "mai": 5, "okt": 10, "dez": 12}  # in German
_ZONES = {
    "UTC": 0, "GMT": 0, "WET": 0, "WEST": 1, "BST": 1, "MEZ": 1, "MESZ": 2, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "MSK": 3,
    "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7,
}  # fmt: skip


def _time_of_page(text: str) -> datetime | None:
    """Return a time as the page has it in English, `Dec 14, 2023, 5:36:23 PM EST`, or German,
    `14.12.2023, 17:36:23 MEZ`.
    """
    match = _STAMP.search(" ".join(text.replace("\u202f", " ").split()))
    if not match:
        return None
    month = (match["month"] or match["month2"])[:3].lower()
    zone = match["zone"] or "UTC"
    month_number = int(month) if month.isdecimal() else _MONTHS.get(month)
    if month_number is None or zone not in _ZONES:
        return None
    hours = timedelta(hours=_ZONES[zone])
    if match["sign"]:
        ahead = timedelta(hours=int(match["hours"]), minutes=int(match["minutes"] or 0))
        hours += ahead if match["sign"] == "+" else -ahead
    hour_of_day = (
        int(match["hour"]) % 12 + 12 * (match["half"] == "PM")
        if match["half"]
        else int(match["hour"])
    )
    try:
        return (
            datetime(
                int(match["year"]),
                month_number,
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


_BETWEEN = '<div class="outer-cell'
"""The beginning of the element that holds an entry: a page is read from one to the next."""


def _parts(reading: Reading) -> Iterator[str]:
    """Yield the parts of a page: what is before its first entry, and each entry. Raises Damaged."""
    text = ""
    for more in reading.text():
        *parts, text = (text + more).split(_BETWEEN)
        yield from parts
        if len(text) > MAX_ITEM:
            raise Damaged(f"an entry has more than {MAX_ITEM >> 20} million characters")
    yield text


def _page_entries(reading: Reading) -> Iterator[_Entry | Skip | str]:
    number = 0
    for part in _parts(reading):
        for header, source in _cells(part):
            number += 1
            yield _cell(f"{reading.name} entry {number}", header, source)


def _cells(part: str) -> Iterator[tuple[str, str]]:
    """Yield the cells of a part that hold lines, of which one is the time, and the HTML of the
    answer behind it; each with the title before it.
    """
    title: list[str] = []
    source: list[str] = []
    depth, is_title = 0, False
    for kind, tag, data in tokens(part):
        if depth:
            depth += (tag == "div") * (1 if kind == "start" else -1)
            if depth:
                source.append(data or f"</{tag}>")
            else:
                yield "".join(title), "".join(source)
        elif kind == "start":
            names = classes_of(data)
            if "mdl-typography--title" in names:
                title, is_title = [], True
            elif "content-cell" in names and not names & _ASIDE:
                depth, source = 1, []
        elif kind == "end":
            is_title = is_title and tag != "p"
        elif is_title:
            title.append(unescaped(data))
    if depth:
        yield "".join(title), "".join(source)


_ASIDE = {"mdl-typography--text-right", "mdl-typography--caption"}


def _cell(where: str, header: str, html: str) -> _Entry | Skip | str:
    lines = re.split(r"<br\s*/?>", html)
    if not _PRODUCT.search(header):
        return plain_text(lines[0])
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
    if instruction := _studio_text(fields_of(value, "systemInstruction")):
        talk.hide(instruction)
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
    own = f"chunk-{index}/{digest(json.dumps(content, sort_keys=True), 8)}"
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

"""Histories of aider: `.aider.chat.history.md`, to which each session in a folder is appended.

A line `# aider chat started at …` begins a session. Lines with `#### ` before them are the user's,
those with `> ` are notices and outputs of tools, and all others are the answers. aider ends each
line of the first two kinds with two spaces, a line break of Markdown, and writes an answer between
blank lines: this tells them from the headings and quotations of an answer, which have the same
marks. An editor may have taken the spaces away; then the blank lines alone decide.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from recollect import Role
from recollect.imports.forms import Format, Options
from recollect.imports.plans import Plan, Repeated, Skip, note, skips_of
from recollect.imports.reading import MAX_ITEM, Reading
from recollect.imports.talks import Talk, local_moment
from recollect.imports.transcript import Damaged
from recollect.imports.values import digest

NAME = "aider"
_HEADING = re.compile(r"# aider chat started at(?P<time>.*)")
_HEAD = re.compile(rb"\s*(?:# aider chat started at |# \d{4}(?:-\d\d){2} [\d:.]{8,15}\r?\n\+)")
"""The beginning of a history of chats, or of prompts."""
_PROMPT = re.compile(r"# \d{4}(?:-\d\d){2} [\d:.]{8,15}$")
"""The line before a prompt in `.aider.input.history`."""
_USER = "#### "
_TOOL = "> "
_BREAK = "  "
_MARKS = {Role.USER: re.compile("^####(?: |$)"), Role.TOOL: re.compile("^>(?: |$)")}
_NO_PROMPT = re.compile(r"[/!]|.{0,400} \(Y\)es/\(N\)o.{0,60}: ?\w*$")
"""Commands, and questions of aider to which an earlier choice was the answer."""
_BLANK = "<blank>"
"""The text of a prompt without text."""
_MODEL = re.compile(r"^(?:Main model|Models?): (\S+)(?: with |$)", re.MULTILINE)
_THINKING = re.compile(r"<(think|thinking-content-[0-9a-f]{32})>")


@dataclass(slots=True)
class _Section:
    """The lines of a session, up to the next heading."""

    where: str
    start: str = ""
    """The time in its heading, without a zone. Empty where the file lacks the heading."""
    lines: list[str] = field(default_factory=list)
    size: int = 0
    """Characters of all its lines. Those beyond MAX_ITEM are not kept."""


def read(reading: Reading, _: Options) -> Iterator[Plan | Skip]:
    """Yield the conversation of each session, and the lines that cannot be read."""
    counts: dict[str, int] = {}  # sessions by id
    notes: Repeated = {}
    section = _Section(f"{reading.name}:1")
    for number, line in reading.text_lines():
        where = f"{reading.name}:{number}"
        if isinstance(line, Damaged):
            yield Skip(where, str(line))
        elif heading := _HEADING.match(line):
            yield from _plans(section, counts, notes)
            section = _Section(where, heading["time"].strip())
        elif _PROMPT.match(line) and not section.start and not section.size:
            reason = "it has prompts without answers: aider keeps both in .aider.chat.history.md"
            yield Skip(reading.name, reason)
            return
        else:
            section.size += len(line)
            if section.size <= MAX_ITEM:
                section.lines.append(line)
    yield from _plans(section, counts, notes)
    yield from skips_of(notes, reading.name)


def _plans(section: _Section, counts: dict[str, int], notes: Repeated) -> Iterator[Plan | Skip]:
    """Yield the conversation of a session if anybody said something in it."""
    if section.size > MAX_ITEM:
        yield Skip(section.where, f"it has more than {MAX_ITEM >> 20} million characters")
        return
    parts = list(_parts(section.lines))
    first = next((text for role, text in parts if role is not Role.TOOL), "")
    if first:
        # The file names no session: its start and its first message do, and the place among those
        # in which both are equal.
        own = f"{section.start}/{digest(first, 8)}"
        counts[own] = counts.get(own, 0) + 1
        yield _plan(section, own if counts[own] == 1 else f"{own}/{counts[own]}", parts)
    elif parts:
        note(notes, "a session has notices alone", parts[0][1].partition("\n")[0])


def _plan(section: _Section, own: str, parts: list[tuple[Role, str]]) -> Plan | Skip:
    talk = Talk(NAME, own, section.where, create_time=local_moment(section.start))
    model = answer = ""
    is_begun = False
    for number, (role, text) in enumerate(parts, start=1):
        if role is Role.TOOL:
            model = (_MODEL.findall(text) or [model])[-1]
            if is_begun:
                talk.result(str(number), NAME, text, None)
            else:
                talk.hide(text)
            continue
        is_begun = True
        if role is Role.ASSISTANT:
            answer = _without_thinking(talk, text)
            talk.say(role, str(number), answer, None, model=model)
        elif text.strip() == _BLANK:
            talk.hide()
        else:
            # In architect mode aider hands the answer as it is to the model that edits.
            is_boilerplate = bool(_NO_PROMPT.match(text)) or text.split() == answer.split()
            talk.say(role, str(number), text, None, boilerplate=is_boilerplate)
            answer = ""
    return talk.plan()


def _without_thinking(talk: Talk, answer: str) -> str:
    """Return an answer without the thinking before it, which the talk keeps."""
    if not (tag := _THINKING.match(answer)):
        return answer
    thinking, _, rest = answer[tag.end() :].partition(f"</{tag[1]}>")
    talk.think(thinking)
    return rest.strip()


def _parts(lines: list[str]) -> Iterator[tuple[Role, str]]:
    """Yield the parts of a session in order, each with its writer."""
    has_breaks = any(it.endswith(_BREAK) and it.startswith((_USER, _TOOL)) for it in lines)

    def is_end(index: int) -> bool:
        """Return whether a line ends a line of the user's or an output; the last one may be cut."""
        is_last = index == len(lines) - 1
        return lines[index].endswith(_BREAK) or is_last or not has_breaks

    def is_output(index: int) -> bool:
        """Return whether what begins behind a blank line is the output of a tool: it has an end
        before the next blank line.
        """
        while lines[index].strip() and not is_end(index):
            index += 1
        return bool(lines[index].strip())

    role, part = Role.ASSISTANT, list[str]()
    is_gap, is_open = True, False  # behind a blank line, and within an output of several lines
    for index, line in enumerate(lines):
        before = role
        is_tool = is_open or (role is Role.TOOL and not is_gap and bool(line.strip()))
        if line.startswith(">") and not is_tool:
            is_tool = is_output(index) if is_gap else role is Role.USER
        if line.startswith(_USER) and is_end(index) and (is_gap or role is Role.USER):
            role = Role.USER
        else:
            role = Role.TOOL if is_tool else Role.ASSISTANT
        if part and role is not before:
            yield from _part(before, part)
            part = []
        is_open = role is Role.TOOL and not is_end(index)
        is_gap = not line.strip()
        part.append(line)
    yield from _part(role, part)


def _part(role: Role, lines: list[str]) -> Iterator[tuple[Role, str]]:
    """Yield a part without its marks if it has text."""
    if mark := _MARKS.get(role):
        lines = [mark.sub("", it.removesuffix(_BREAK)) for it in lines]
    if (text := "\n".join(lines).strip("\n")).strip():
        yield role, text


FORMAT = Format(NAME, "aider", read, is_head=lambda head: bool(_HEAD.match(head)))

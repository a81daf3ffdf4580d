"""Cuts through Markdown: a code block that is cut is closed and opened again, rows of a table keep
their header, and no list mark or heading stands alone at a cut.

Everything here is linear in the text, and costs little where the text has no Markdown.
"""

import re

_FENCES = ("```", "~~~")
_FENCE = re.compile(r"[ \t>]*(?P<marks>`{3,}|~{3,})(?P<info>[^`\n]*)")
"""A line that opens or closes a code block."""
_MOST_INFO = 40
"""Characters of a line that opens a code block, at the most: a longer one is no language."""
_RULED = re.compile(r"[ \t]*\|[ \t]*:?-[-:| \t]*")
"""The second line of a table."""
_LONE = re.compile(
    r"(?:\A|\n)[ \t>]*+(?:[-*+•]|\d{1,3}[.)]|[A-Za-z][.)]|#{1,6}[ \t][^\n]*+|\*\*[^*\n]++\*\*:?"
    r"|(?:[-*_=][ \t]*+){3,})?[ \t]*+\Z"
)
"""A last line that says nothing without what follows: a list mark, a heading or a rule."""
_RULE = re.compile(r"[ \t]*(?:[-*_=][ \t]*){3,}(?:\n|\Z)")
_ITEM = re.compile(r"[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]+")
_BLOCK = re.compile(r"\s*(?:[-*+•][ \t]|\d{1,3}[.)][ \t]|#{1,6}[ \t]|>|\||`{3}|~{3})")
_BOLD = "**"
_MOST_LONE = 8  # lines that are left out at a cut
_MOST_ROWS = 200  # of a table, between its header and a cut
_MOST_FENCES = 500
"""Fences of a text, at the most: one with more is no document, and its code is not looked for."""
_LONGEST_LINE = 400
"""Characters that a cut is moved by, at the most, to stand at a line's beginning."""


def closing(opener: str) -> str:
    """Return the line that closes a code block with this first line."""
    fence = _FENCE.match(opener)
    return opener[: fence.end("marks")] if fence else ""


def header_at(text: str, position: int) -> str:
    """Return the two lines of the header of the table that a position is in the body of; else
    empty.
    """
    at = line_start(text, position)
    if not _is_row(text, at):
        return ""
    first = second = at
    for _ in range(_MOST_ROWS):
        before = line_start(text, first - 1) if first else 0
        if first == 0 or not _is_row(text, before):
            break
        first, second = before, first
    ruled = text[second : _line_end(text, second)]
    is_body = second not in (first, at) and _RULED.fullmatch(ruled) is not None
    return f"{text[first:second]}{ruled}\n" if is_body else ""


def beginning(text: str, start: int, limit: int) -> int:
    """Return the character at which an excerpt that is to begin at `start` begins, at most `limit`.

    It moves to the start of the line rather than cut a list mark, a quotation, a line of code or a
    row of a table, and behind the closing line of a code block or a rule.
    """
    line = line_start(text, start)
    if 0 < start - line <= _LONGEST_LINE:
        item = _ITEM.match(text, line)
        is_mark = item is not None and start <= item.end() + 1
        if is_mark or _is_whole(text, line) or code_at(text, start):
            start = line
    for _ in range(_MOST_LONE):
        end = min(_line_end(text, start) + 1, len(text))
        fence = _FENCE.fullmatch(text[start:end].rstrip("\n"))
        is_fence = fence is not None and not fence["info"].strip()
        closes = is_fence and bool(code_at(text, start))
        if not closes and not _RULE.match(text, start):
            break
        behind = end + len(text[end:limit]) - len(text[end:limit].lstrip("\n"))
        if behind > limit or behind >= len(text):
            break
        start = behind
    return start


def ending(text: str, start: int, end: int, least: int) -> int:
    """Return the character at which an excerpt from `start` that is to end at `end` ends, at least
    `least`.

    It ends behind a whole line of code or row of a table, and before a heading, a list mark or a
    table's header that would stand alone.
    """
    line = line_start(text, end)
    if max(start, least) < line < end < len(text) and end - line <= _LONGEST_LINE:
        is_cut = text[end] != "\n" and (_is_whole(text, line) or code_at(text, end))
        if is_cut or _opens_here(text, line, end):
            end = line
    for _ in range(_MOST_LONE):
        end = start + len(text[start:end].rstrip())
        line = line_start(text, end)
        lone = _LONE.search(text, max(start, line - 1), end) if end > start else None
        if lone is None and not _opens_here(text, line, end) and not _is_header(text, line):
            break
        cut = lone.start() if lone else line
        # a figure of the question may have matched the number of an item
        has_match = cut < least and any(map(str.isalpha, text[cut:end]))
        if not start < cut < end or has_match or (lone and code_at(text, cut)):
            break
        end = cut
    return end


def joined(before: str, shown: str, after: str) -> str:
    """Return a part of a text between the marks that stand for the rest, which are lines of their
    own beside a block.
    """
    if before:
        before += "\n" if _BLOCK.match(shown) else " "
    if after:
        last = shown[line_start(shown, len(shown)) :]
        is_block = last.lstrip().startswith(("|", "#", *_FENCES))
        after = f"\n{after}" if is_block else f" {after}"
    return f"{before}{shown}{after}"


def around(text: str, start: int, end: int) -> tuple[str, str]:
    """Return what must stand before and behind a part of a text for its code and its tables to be
    whole.
    """
    opener, ends_in = code_at(text, start), code_at(text, end)
    before = f"{opener}\n" if opener else header_at(text, start)
    after = f"\n{closing(ends_in)}" if ends_in else ""
    if not before and is_bold_at(text, start):
        before = _BOLD
    if not after and is_bold_at(text, end):
        after = _BOLD
    return before, after


def without_marks(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a part of a text without a mark of bold text that ends at its beginning, or begins at
    its end.
    """
    if text.startswith(_BOLD, start) and is_bold_at(text, start):
        behind = start + len(_BOLD)
        start = behind + len(text[behind:end]) - len(text[behind:end].lstrip())
    if text.endswith(_BOLD, start, end) and is_bold_at(text, end):
        end = start + len(text[start : end - len(_BOLD)].rstrip())
    return start, end


def is_bold_at(text: str, position: int) -> bool:
    """Return whether a position is in bold text, which does not go on over a line's end."""
    line = line_start(text, position)
    is_open = text.count(_BOLD, line, position) % 2 == 1
    return (
        is_open
        and _BOLD in text[position : _line_end(text, position)]
        and not code_at(text, position)
    )


def line_start(text: str, position: int) -> int:
    """Return where the line of a position begins."""
    return text.rfind("\n", 0, position) + 1


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return end if end >= 0 else len(text)


def _is_row(text: str, line: int) -> bool:
    return text[line : line + 8].lstrip(" \t").startswith("|")


def _is_header(text: str, line: int) -> bool:
    """Return whether a line is one of the two lines above the body of a table."""
    if not _is_row(text, line):
        return False
    end = _line_end(text, line)
    if _RULED.fullmatch(text, line, end):
        return True
    below = min(end + 1, len(text))
    return _RULED.fullmatch(text, below, _line_end(text, below)) is not None


def _is_whole(text: str, line: int) -> bool:
    """Return whether a line is only shown whole: a row of a table, a quotation or a fence."""
    return text[line : line + 8].lstrip(" \t").startswith(("|", ">", *_FENCES))


def _opens_here(text: str, line: int, end: int) -> bool:
    """Return whether a code block opens in a line, and has nothing up to `end`."""
    if not text[line : line + 8].lstrip(" \t>").startswith(_FENCES):
        return False
    behind = _line_end(text, line)
    return not text[behind:end].strip() and not code_at(text, line) and bool(code_at(text, behind))


def code_at(text: str, position: int) -> str:
    """Return the line that opens the code block in which a position is; empty outside of one."""
    opener = marks = ""
    if all(text.find(fence, 0, position) < 0 for fence in _FENCES):
        return opener
    for at in _fences(text, position):
        end = _line_end(text, at)
        fence = _FENCE.fullmatch(text, at, end)
        if fence is None or end > position:
            continue
        if not opener:
            if len(fence["info"]) <= _MOST_INFO:
                opener, marks = text[at:end], fence["marks"]
        elif fence["marks"].startswith(marks) and not fence["info"].strip():
            opener = marks = ""
    return opener


def _fences(text: str, before: int) -> list[int]:
    """Return where lines with a fence begin, up to a position."""
    lines: list[int] = []
    if sum(text.count(fence, 0, before) for fence in _FENCES) > _MOST_FENCES:
        return lines
    for fence in _FENCES:
        at = text.find(fence, 0, before)
        while at >= 0:
            line = line_start(text, at)
            if not text[line:at].strip(" \t>"):
                lines.append(line)
            end = text.find("\n", at, before)
            at = text.find(fence, end, before) if end >= 0 else -1
    return sorted(lines)

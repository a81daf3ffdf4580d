"""Text of HTML: mails, answers of Gemini, and the pages of Google's My Activity.

Python's own parser takes quadratic time over tags and comments that nothing ends, and anybody may
send such. Here a text is taken apart in one pass: behind the first mark that nothing ends, what
looks like a tag is dropped and the rest is text.
"""

import html
import re
from collections.abc import Iterator

_BREAKS = {"p": 2, "pre": 2, "ul": 2, "ol": 2, "table": 2, "blockquote": 2, "div": 1, "tr": 1} | {
    f"h{level}": 2 for level in range(1, 7)
}
_DROPPED = {
    name: re.compile(f"</{name}[^<>]*>", re.IGNORECASE) for name in ("script", "style", "title")
}
"""Elements that are left out, by the tags that end them: no other tag is one within them."""
_MAX_INDENT = 16
"""Levels of nested lists that are shown."""
_SPACES = re.compile(r"[ \t\r\n\f]+")
_MARK = re.compile(r"<(?:!--|[!?]|/?(?=[a-zA-Z]))")
_TAG = re.compile(
    r"""<(?P<end>/?)(?P<name>[a-zA-Z][^\s/>]*+)"""
    r"""(?:[^>"'=]++|=\s*+(?:"[^"]*+"|'[^']*+')|["'=])*+>"""
)
_ANY_TAG = re.compile(r"<[/!?a-zA-Z][^<>]*>")
_LONG_NUMBER = re.compile(r"&#(?:\d{8,}|[xX][0-9a-fA-F]{7,});?")
_CLASS = re.compile(r"""\sclass\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE)

Token = tuple[str, str, str]
"""A kind (`text`, `start` or `end`), the name of a tag, and its source."""


def unescaped(text: str) -> str:
    """Return a text with its characters for their references."""
    return html.unescape(_LONG_NUMBER.sub("\ufffd", text)) if "&" in text else text


def tokens(source: str) -> Iterator[Token]:
    """Yield the texts and tags of HTML in their order, without comments, scripts and styles."""
    at = 0
    while mark := _MARK.search(source, at):
        begins = mark.start()
        if begins > at:
            yield "text", "", source[at:begins]
        if mark[0] == "<!--":
            end = source.find("-->", begins + 2)
            at = end + 3
        elif mark[0] in {"<!", "<?"}:
            end = source.find(">", begins)
            at = end + 1
        else:
            tag = _TAG.match(source, begins)
            name = tag["name"].lower() if tag else ""
            if tag and name in _DROPPED and not tag["end"]:
                tag = _DROPPED[name].search(source, tag.end())
            elif tag:
                yield ("end" if tag["end"] else "start"), name, tag[0]
            end = at = tag.end() if tag else -1
        if end < 0:
            yield "text", "", _ANY_TAG.sub(" ", source[begins:])
            return
    if at < len(source):
        yield "text", "", source[at:]


def classes_of(tag: str) -> set[str]:
    """Return the names of the classes of a tag."""
    match = _CLASS.search(tag)
    return set("".join(filter(None, match.groups())).split()) if match else set()


class _Text:
    def __init__(self) -> None:
        self._parts: list[str] = []
        self._breaks = 2  # line ends at the end of the text so far
        self._is_bullet = False  # the text so far ends with the mark of an item
        self._lists: list[int] = []  # the next number of each open list, -1 in one of bullets
        self._pre = 0

    def start(self, tag: str) -> None:
        """Begin an element."""
        if tag == "br":
            self._add("\n")
        elif tag in {"ul", "ol"}:
            self._break(1 if self._lists else 2)
            self._lists.append(1 if tag == "ol" else -1)
        elif tag == "li":
            self._break(1)
            depth = min(max(len(self._lists) - 1, 0), _MAX_INDENT)
            number = self._lists[-1] if self._lists else -1
            self._add("  " * depth + ("- " if number < 0 else f"{number}. "))
            self._is_bullet = True
            if number > 0:
                self._lists[-1] += 1
        elif tag in {"td", "th"} and not self._breaks:
            self._add(" | ")
        elif tag == "pre":
            self._break(2)
            self._add("```\n")
            self._pre += 1
        elif tag == "code" and not self._pre:
            self._add("`")
        elif tag in _BREAKS and not self._is_bullet:
            self._break(_BREAKS[tag])  # a paragraph that begins an item goes on in its line

    def end(self, tag: str) -> None:
        """End an element."""
        if tag in {"ul", "ol"}:
            self._lists[-1:] = []
            self._break(1 if self._lists else 2)
        elif tag == "pre":
            self._pre = max(0, self._pre - 1)
            self._break(1)
            self._add("```")
            self._break(2)
        elif tag == "code" and not self._pre:
            self._add("`")
        elif tag in _BREAKS:
            self._break(1 if self._lists else _BREAKS[tag])

    def text(self, data: str) -> None:
        """Add what stands between tags."""
        if not self._pre:
            data = _SPACES.sub(" ", data)
            if self._breaks:
                data = data.lstrip(" ")
        self._add(data)

    def whole(self) -> str:
        """Return the text so far."""
        lines = (line.rstrip() for line in "".join(self._parts).split("\n"))
        return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()

    def _add(self, text: str) -> None:
        if text:
            self._parts.append(text)
            ends = len(text) - len(text.rstrip("\n"))
            self._breaks = ends + (self._breaks if ends == len(text) else 0)
            self._is_bullet = False

    def _break(self, count: int) -> None:
        """End the line, and leave an empty one where two breaks are asked for."""
        if self._parts and self._breaks < count:
            self._add("\n" * (count - self._breaks))


def plain_text(source: str) -> str:
    """Return the text that a reader of the HTML sees, with marks for lists and code."""
    text = _Text()
    for kind, tag, data in tokens(source):
        match kind:
            case "start":
                text.start(tag)
            case "end":
                text.end(tag)
            case _:
                text.text(unescaped(data))
    return text.whole()

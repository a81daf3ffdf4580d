"""Text of HTML: answers of Gemini, and the pages of Google's My Activity."""

import re
from html.parser import HTMLParser

_BREAKS = {"p": 2, "pre": 2, "ul": 2, "ol": 2, "table": 2, "blockquote": 2, "div": 1, "tr": 1} | {
    f"h{level}": 2 for level in range(1, 7)
}
_DROPPED = {"script", "style", "head", "title"}
_BULLET = re.compile(r" *(?:-|\d+\.) ")
_SPACES = re.compile(r"[ \t\r\n\f]+")


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._parts: list[str] = []
        self._lists: list[int] = []  # the next number of each open list, -1 in one of bullets
        self._dropped = 0
        self._pre = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        if tag in _DROPPED:
            self._dropped += 1
        elif tag == "br":
            self._parts.append("\n")
        elif tag in {"ul", "ol"}:
            self._break(1 if self._lists else 2)
            self._lists.append(1 if tag == "ol" else -1)
        elif tag == "li":
            self._break(1)
            depth = max(len(self._lists) - 1, 0)
            number = self._lists[-1] if self._lists else -1
            self._parts.append("  " * depth + ("- " if number < 0 else f"{number}. "))
            if number > 0:
                self._lists[-1] += 1
        elif tag in {"td", "th"} and not self._text().endswith("\n"):
            self._parts.append(" | ")
        elif tag == "pre":
            self._break(2)
            self._parts.append("```\n")
            self._pre += 1
        elif tag == "code" and not self._pre:
            self._parts.append("`")
        elif tag in _BREAKS and not _BULLET.fullmatch(self._text()):
            self._break(_BREAKS[tag])  # a paragraph that begins an item goes on in its line

    def handle_endtag(self, tag: str) -> None:
        if tag in _DROPPED:
            self._dropped = max(0, self._dropped - 1)
        elif tag in {"ul", "ol"}:
            self._lists[-1:] = []
            self._break(1 if self._lists else 2)
        elif tag == "pre":
            self._pre = max(0, self._pre - 1)
            self._break(1)
            self._parts.append("```")
            self._break(2)
        elif tag == "code" and not self._pre:
            self._parts.append("`")
        elif tag in _BREAKS:
            self._break(1 if self._lists else _BREAKS[tag])

    def handle_data(self, data: str) -> None:
        if self._dropped:
            return
        if not self._pre:
            data = _SPACES.sub(" ", data)
            if not self._parts or self._parts[-1].endswith("\n"):
                data = data.lstrip(" ")
        if data:
            self._parts.append(data)

    def text(self) -> str:
        """Return the text so far."""
        lines = (line.rstrip() for line in "".join(self._parts).split("\n"))
        return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()

    def _text(self) -> str:
        return self._parts[-1] if self._parts else "\n"

    def _break(self, count: int) -> None:
        """End the line, and leave an empty one where two breaks are asked for."""
        if not self._parts:
            return
        tail = "".join(self._parts[-3:])
        there = len(tail) - len(tail.rstrip("\n"))
        if there < count:
            self._parts.append("\n" * (count - there))


def plain_text(html: str) -> str:
    """Return the text that a reader of the HTML sees, with marks for lists and code."""
    parser = _Text()
    parser.feed(html)
    parser.close()
    return parser.text()

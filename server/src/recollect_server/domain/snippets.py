"""Snippets: the part of a message that fits a query best, with the words that match marked."""

from collections.abc import Callable

from recollect_server.domain.conversation import opening_of
from recollect_server.domain.text import UNSPACED_RUN

START, END = "\ue000", "\ue001"
"""Around a match. From the private use area: a text that has them loses them in its snippet."""
LENGTH = 240
"""Characters of text in a snippet, at the most."""

Span = tuple[int, int]


def snippet(text: str, tokens: list[tuple[int, int, str]], stems: set[str], prefixes: set[str]) -> str:
    """The part of the text with the most different matches, on one line.

    `tokens` are the text's words (first byte, one past the last, stem), `stems` those searched for, `prefixes` single characters
    of scripts without spaces.
    """
    matches = _matches(text, tokens, stems, prefixes)
    if not matches:
        return opening_of(plain(text))
    start, end = _stretch(text, matches)
    parts: list[str] = ["…" if start > 0 else ""]
    position = start
    for first, last, _ in matches:
        if start <= first and last <= end:
            parts += [plain(text[position:first]), START, plain(text[first:last]), END]
            position = last
    parts += [plain(text[position:end]), "…" if end < len(text) else ""]
    return " ".join("".join(parts).split())


def _matches(text: str, tokens: list[tuple[int, int, str]], stems: set[str], prefixes: set[str]) -> list[tuple[int, int, str]]:
    """Where the text matches: first character, one past the last, and which word; in order, none overlapping."""
    matches: list[tuple[int, int, str]] = []
    place = _characters(text)
    for first_byte, last_byte, stem in tokens:
        if stem in stems:
            matches.append((place(first_byte), place(last_byte), stem))
    for run in UNSPACED_RUN.finditer(text):
        characters = run.group()
        for index in range(len(characters)):
            pair = characters[index : index + 2]
            if (pair in stems and len(pair) == 2) or characters[index] in prefixes:
                length = 2 if pair in stems else 1
                first = run.start() + index
                matches.append((first, first + length, pair))
    apart: list[tuple[int, int, str]] = []
    for first, last, stem in sorted(matches):
        if apart and first < apart[-1][1]:
            apart[-1] = (apart[-1][0], max(last, apart[-1][1]), apart[-1][2])
        else:
            apart.append((first, last, stem))
    return apart


def _stretch(text: str, matches: list[tuple[int, int, str]]) -> Span:
    """The stretch of at most `LENGTH` characters with the most different matches, widened to where words end."""
    best, best_count = matches[0], 0
    for index, (first, _, _) in enumerate(matches):
        inside = {stem for begin, end, stem in matches[index:] if end - first <= LENGTH}
        if len(inside) > best_count:
            best, best_count = matches[index], len(inside)
        if index > 200:
            break
    last = max(end for _, end, _ in matches if (best[0] < end and end - best[0] <= LENGTH) or end == best[1])
    room = max(0, LENGTH - (last - best[0]))
    start = max(0, best[0] - room // 3)
    end = min(len(text), max(last, start + LENGTH))
    if start > 0 and (space := text.find(" ", start, best[0])) >= 0:
        start = space + 1
    if end < len(text) and (space := text.rfind(" ", last, end)) >= 0:
        end = space
    return start, end


def _characters(text: str) -> Callable[[int], int]:
    """A function from an offset in the text's UTF-8 to the offset in the text. Call it with growing offsets."""
    if text.isascii():
        return lambda offset: offset
    data = text.encode()
    known = [0, 0]

    def place(offset: int) -> int:
        known[1] += len(data[known[0] : offset].decode())
        known[0] = offset
        return known[1]

    return place


def has_match(text: str, tokens: list[tuple[int, int, str]], stems: set[str], prefixes: set[str]) -> bool:
    """Whether anything in the text matches."""
    return bool(_matches(text, tokens, stems, prefixes))


def plain(text: str) -> str:
    """The text without marks."""
    return text.replace(START, "").replace(END, "")

"""Another toolkit's message inside one of Recollect's, so that it comes back exactly.

Its words go where Recollect keeps and finds words (content, thinking, a call's arguments). What is
left of it, the shape, goes as JSON text into the metadata, with the places that the words were
taken from.
"""

import json
from collections.abc import Iterable
from typing import Any

Path = list[str | int]

CONTENT, THINKING, ARGUMENTS = "content", "thinking", "arguments"
_BETWEEN = "\n\n"
_LONG = 4096
"""A text of more characters does not stay in the shape: the metadata has 64 KiB."""


class Packed:
    """A message of another toolkit, taken apart: the words of each place, and the shape as JSON
    text.
    """

    def __init__(self, it: Any, words: Iterable[tuple[str, Path]], overflow: str) -> None:
        """Pack a message. `words` are the places of texts, each with a list for its words. Other
        long texts go to `overflow`.

        Raises TypeError for what JSON cannot hold.
        """
        self._shape = json.loads(json.dumps(it))
        self._pieces: dict[str, list[str]] = {}
        self._taken: list[tuple[str, Path | None, int]] = []
        for place, path in words:
            self._take(place, path)
        for path in list(_long_texts(self._shape, [])):
            self._take(overflow, path)

    def words(self, place: str) -> str:
        """Return the words of a place."""
        return _BETWEEN.join(self._pieces.get(place, ()))

    @property
    def shape(self) -> str:
        """Return the rest of the message, for `unpacked`."""
        return json.dumps({"shape": self._shape, "words": self._taken}, separators=(",", ":"))

    def _take(self, place: str, path: Path) -> None:
        holder = _at(self._shape, path[:-1])
        text = holder[path[-1]]
        clean = text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
        # What Recollect does not keep exactly stays in the shape, where JSON spells it out; its
        # words are there to be found.
        exact = clean == text
        if exact:
            holder[path[-1]] = None
        self._pieces.setdefault(place, []).append(clean)
        self._taken.append((place, path if exact else None, len(clean)))


def unpacked(shape: str, words: dict[str, str]) -> Any:
    """Return the original message, made of its shape and the words of each place."""
    packed = json.loads(shape)
    read = dict.fromkeys(words, 0)
    for place, path, length in packed["words"]:
        start = read[place]
        read[place] = start + length + len(_BETWEEN)
        if path is not None:
            _at(packed["shape"], path[:-1])[path[-1]] = words[place][start : start + length]
    return packed["shape"]


def _at(it: Any, path: Path) -> Any:
    for step in path:
        it = it[step]
    return it


def _long_texts(it: Any, path: Path) -> Iterable[Path]:
    if isinstance(it, str) and len(it) > _LONG:
        yield path
    elif isinstance(it, dict | list):
        for key, value in it.items() if isinstance(it, dict) else enumerate(it):
            yield from _long_texts(value, [*path, key])

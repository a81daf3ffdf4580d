"""Another toolkit's message inside one of Recollect's, so that it comes back exactly.

Its words go where Recollect keeps and finds words (content, thinking, a call's arguments). What is
left of it, the shape, goes as JSON text into the metadata, with the places that the words were
taken from. The bytes of files follow the message as parts (`files`).
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

from recollect import Message
from recollect.adapters.files import Files, digest_of, is_file, media_type_of, note_of, parts_of

Path = list[str | int]

CONTENT, THINKING, ARGUMENTS, FILES = "content", "thinking", "arguments", "files"
MAX_WORDS = 512 << 10
"""Bytes of the words of a message, or of a call: a server takes messages of 1 MiB."""
_BETWEEN = "\n\n"
_LONG = 4096
"""A text of more characters does not stay in the shape: the metadata has 64 KiB."""
_LONG_SHAPE = 32 << 10
"""A shape of more characters does not stay in the metadata either."""
_OWN_THINKING = 256 << 10
"""A text of no known kind with more characters does not stay in its message."""
_KINDS = ("image", "audio", "video")
_TYPES = ("mime_type", "media_type", "mimeType", "mediaType", "image_mimetype")


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
        self._notes: list[str] = []
        for path, holder, text in list(texts_in(self._shape, [])):
            if is_file(text) and self._is_apart(holder, path, text, overflow):
                self._take(FILES, path)
            elif len(text) > _LONG:
                self._take(overflow, path)
        self._text = json.dumps(self._shape, separators=(",", ":"))
        self._is_long = len(self._text) > _LONG_SHAPE
        if self._is_long:
            self._pieces.setdefault(FILES, []).append(self._text)

    def words(self, place: str) -> str:
        """Return the words of a place; of the content with a note on each file."""
        notes = self._notes if place == CONTENT else []
        return _BETWEEN.join([*self._pieces.get(place, ()), *notes])

    def parts(self) -> list[Message]:
        """Return the messages that keep the files, to follow this one."""
        return parts_of(self.words(FILES))

    @property
    def shape(self) -> str:
        """Return the rest of the message, for `unpacked`."""
        packed: dict[str, Any] = {"shape": self._shape, "words": self._taken}
        if self._is_long:  # it stands behind the files
            packed["shape"] = len(self._text)
        if FILES in self._pieces:
            packed["files"] = digest_of(self.words(FILES))
        return json.dumps(packed, separators=(",", ":"))

    def _is_apart(self, holder: Any, path: Path, text: str, overflow: str) -> bool:
        """Return whether a text that looks like a file is kept apart, and take a note of it."""
        fields = holder if isinstance(holder, dict) else {}
        named = (fields[name] for name in _TYPES if isinstance(fields.get(name), str))
        media_type = media_type_of(text) or next(named, "")
        text_of_kind = f"{media_type} {fields.get('type', '')}"
        kinds = (it for it in _KINDS if it in text_of_kind or it in path)
        kind = next(kinds, "document" if "document" in path else "file")
        if media_type or kind != "file" or overflow == CONTENT:
            self._notes.append(note_of(kind, media_type, text))
            return True
        return len(text) > _OWN_THINKING

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


def unpacked(shape: str, words: dict[str, str], files: Files) -> Any:
    """Return the original message, made of its shape, the words of each place and its files; None
    if a file of it was not read.
    """
    packed = json.loads(shape)
    if "files" in packed:
        text = files.text(packed["files"])
        if text is None:
            return None
        words = {**words, FILES: text}
        if isinstance(packed["shape"], int):
            packed["shape"] = json.loads(text[-packed["shape"] :])
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


def arguments_of(value: Any) -> str:
    """Return what a tool was called with as JSON text; `{}` if it is longer than a message may be.
    The message that comes back has it all the same.
    """
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    return text.decode() if len(text) <= MAX_WORDS else "{}"


def object_of(arguments: str) -> dict[str, Any]:
    """Return the arguments of a call as an object. A text that is none is the only one in it."""
    try:
        value = json.loads(arguments or "{}")
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"arguments": arguments}


def request_id(kind: str, *parts: Any) -> str:
    """Return the id of the request that these parts name, in every process."""
    return f"{kind}-{hashlib.sha256(repr(parts).encode()).hexdigest()[:40]}"


def is_long(it: Any, paths: Iterable[Path]) -> bool:
    """Return whether texts of a message are too long for its words."""
    return sum(len(_at(it, path).encode("utf-8", "replace")) for path in paths) > MAX_WORDS


def texts_in(it: Any, path: Path, holder: Any = None) -> Iterator[tuple[Path, Any, str]]:
    """Yield all texts of a message, each with its place and the object that it is of."""
    if isinstance(it, str):
        yield path, holder, it
    elif isinstance(it, dict | list):
        for key, value in it.items() if isinstance(it, dict) else enumerate(it):
            yield from texts_in(value, [*path, key], it if isinstance(it, dict) else holder)

"""Texts to embed: what the messages and the notes of conversations say, a part of one at a time."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from recollect_server.kernel.domain.conversation import Conversation
from recollect_server.kernel.domain.message import Message
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.index.stored import Stored
from recollect_server.kernel.space.space import Space
from recollect_server.kernel.space.turns import read_found
from recollect_server.recall.model.marks import marks_of
from recollect_server.recall.vectors.store import ABBREVIATION, hash_of

MAX_TEXTS = 128
"""Texts of one part."""
# characters of a long text that are cut into pieces at a time: a MiB takes a second or more
_PART, _PART_OVERLAP = 64 << 10, 150


@dataclass(frozen=True, slots=True)
class Text:
    """Text that is to be embedded, and where it stands."""

    conversation_id: str
    number: int
    line: int
    time: int
    marks: int
    text: str
    hash: bytes
    content: str
    """The words alone, which tell the language."""


@dataclass(frozen=True, slots=True)
class TextBatch:
    texts: list[Text]
    until: int
    """The line up to which they go."""
    is_end: bool
    """True at the end of what waits."""
    bytes: int
    """The bytes of their lines."""


class TextReader:
    """Reader of the texts of a space. Every method raises DataUnavailable."""

    def __init__(self, space: Space) -> None:
        self._space = space

    def _stored(self, index: Index, name: str) -> Stored[Conversation] | None:
        """Return what the index has of a conversation; None if it is gone, or goes just now: its
        row goes behind its vectors.
        """
        if self._space.deletions.is_left(name):
            return None
        return index.conversations.find(name)

    def at(self, index: Index, name: str, line: int) -> Text | None:
        """Return the text of a line; None if it is gone."""
        stored = self._stored(index, name)
        places = index.messages.of_lines(stored.number, line, line) if stored else []
        messages = read_found(self._space, name, places)
        if stored is None or stored.state.unindexed or not messages:
            return None
        return _text(stored.number, name, messages[0])

    def newest(
        self, index: Index, name: str, after: int, ahead: int, most_bytes: int
    ) -> TextBatch | None:
        """Return the newest texts of a conversation that were not embedded ahead of their turn;
        None if that is all that waits of it, or it is gone.
        """
        stored = self._stored(index, name)
        if stored is None or stored.state.unindexed or after > stored.lines:
            return None
        places = index.messages.of_lines(stored.number, after + 1, stored.lines)
        sizes = np.cumsum([length for _, _, length in reversed(places)])
        count = max(1, int(np.searchsorted(sizes, most_bytes, "right")))
        if len(places) <= count:
            return None
        chosen = [it for it in places[-min(count, MAX_TEXTS) :] if it[0] > ahead]
        messages = (read_found(self._space, name, chosen) if chosen else []) or []
        texts = [text for it in messages if (text := _text(stored.number, name, it))]
        return TextBatch(texts, stored.lines, is_end=False, bytes=sum(it[2] for it in chosen))

    def following(
        self, index: Index, name: str, after: int, most: int, most_bytes: int
    ) -> TextBatch | None:
        """Return the next texts of a conversation, one at least. None if it is gone."""
        stored = self._stored(index, name)
        if stored is None:
            return None
        if stored.state.unindexed:  # all of it is looked at when somebody writes to it
            return TextBatch([], 0, is_end=True, bytes=0)
        # more was looked at than there is: it is another file
        after = after if after <= stored.lines else 0
        places = index.messages.of_lines(stored.number, after + 1, stored.lines)
        sizes = np.cumsum([length for _, _, length in places[:most]])
        count = max(1, int(np.searchsorted(sizes, most_bytes, "right")))
        is_end = len(places) <= count
        chosen = places[:count]
        messages = read_found(self._space, name, chosen)
        if messages is None:
            return None
        texts = [text for it in messages if (text := _text(stored.number, name, it))]
        if is_end and (notes := stored.state.abbreviation):
            texts.append(
                Text(name, stored.number, ABBREVIATION, 0, 0, notes, hash_of(notes), notes)
            )
        size = sum(length for _, _, length in chosen)
        return TextBatch(texts, stored.lines if is_end else places[count - 1][0], is_end, size)


def text_of(message: Message) -> str:
    """Return the text of a message to embed: the speaker, where a name says so, and the words;
    empty without words.
    """
    if not message.content.strip():
        return ""
    return f"{message.sender}: {message.content}" if message.sender else message.content


def _text(number: int, name: str, message: Message) -> Text | None:
    """Return the text of a message; None if it has no words."""
    if not (text := text_of(message)):
        return None
    return Text(
        name,
        number,
        message.sequence,
        message.timestamp,
        marks_of(message),
        text,
        hash_of(text),
        message.content,
    )


def parts_of(text: str) -> Iterator[str]:
    """Yield the parts of a long text that are cut into pieces at a time, which takes moments. Each
    begins with the end of the one before, and none ends within a word.
    """
    start = 0
    while start + _PART < len(text):
        end = max(text.rfind(" ", start + _PART // 2, start + _PART), start + _PART // 2)
        yield text[start:end]
        start = end - _PART_OVERLAP
    yield text[start:]

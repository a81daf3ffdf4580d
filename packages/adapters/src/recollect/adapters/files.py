"""Files inside another toolkit's messages, such as images: their bytes are kept apart from words.

A file's bytes, as the text that the toolkit has them in, follow its message as parts: messages of
the agent's without content, with a piece of that text as thinking, which is stored and answered,
and neither searched nor embedded, shown to a model or counted as tokens. So they are deleted,
exported and backed up with their conversation. In the content stands a note, as
`[image: image/png, 200 kB]`.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence

from recollect import Message
from recollect._shared.file_parts import PART

MAX_BATCH = 1000
"""Messages of one append."""

_PIECE = 512 << 10  # bytes of a part: a message may have 1 MiB
_BATCH_BYTES = 6 << 20  # of one append: a batch may have 8 MiB
_DATA = re.compile(r"data:([\w.+-]+/[\w.+-]+)?[^,\s]{0,255},")
_ENCODED = re.compile(r"[A-Za-z0-9+/_-]+={0,2}\s*")
_LEAST = 1024


def is_file(text: str) -> bool:
    """Return whether a text is a file's bytes: a data URL, or base64 alone."""
    if len(text) <= _LEAST:
        return False
    return bool(_DATA.match(text) or _ENCODED.fullmatch(text))


def media_type_of(text: str) -> str:
    """Return the media type that a data URL names; empty for any other text."""
    match = _DATA.match(text)
    return (match[1] or "") if match else ""


def note_of(kind: str, media_type: str, text: str) -> str:
    """Return the note on a file that stands in the content of its message."""
    size = (len(text) - text.find(",") - 1) * 3 // 4
    shown = f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{max(size // 1000, 1)} kB"
    return f"[{kind}: {media_type}, {shown}]" if media_type else f"[{kind}: {shown}]"


def digest_of(text: str) -> str:
    """Return the name by which a message finds its parts."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def parts_of(text: str) -> list[Message]:
    """Return the parts of the text of a message's files."""
    size = _PIECE if text.isascii() else _PIECE // 4  # characters
    digest, pieces = digest_of(text), range(0, len(text), size)
    return [
        Message.assistant(
            thinking_text=text[start : start + size],
            metadata={PART: json.dumps([digest, index, len(pieces)])},
        )
        for index, start in enumerate(pieces)
    ]


def parts_behind(sequence: int, digest: str, messages: Iterable[Message]) -> list[Message]:
    """Return the parts of the text with a digest that follow the message with a sequence. Another
    one with the same text has parts of its own.
    """
    parts: dict[int, Message] = {}
    for it in sorted(messages, key=lambda it: it.sequence):
        part = it.metadata.get(PART)
        if isinstance(part, str) and it.sequence > sequence:
            own, index, _ = json.loads(part)
            if own == digest:
                parts.setdefault(index, it)
    return [*parts.values()]


class Files:
    """The files of messages that were read. Parts may come in any order."""

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._pieces: dict[str, dict[int, str]] = {}
        self._counts: dict[str, int] = {}
        self.add(messages)

    def add(self, messages: Iterable[Message]) -> None:
        """Add the parts that are among messages."""
        for message in messages:
            part = message.metadata.get(PART)
            if isinstance(part, str):
                digest, index, count = json.loads(part)
                self._pieces.setdefault(digest, {})[index] = message.thinking_text
                self._counts[digest] = count

    def text(self, digest: str) -> str | None:
        """Return the text of a message's files; None if not all of it was read."""
        pieces = self._pieces.get(digest, {})
        if not pieces or len(pieces) < self._counts[digest]:
            return None
        return "".join(pieces[index] for index in range(len(pieces)))


def batches(groups: Sequence[Sequence[Message]]) -> Iterator[list[Message]]:
    """Return messages in batches of the size that one append may have. A group, a message with its
    parts, is one batch's unless it alone is larger.
    """
    batch: list[Message] = []
    room = _BATCH_BYTES
    for group in groups:
        size = sum(map(_size, group))
        if batch and (size > room or len(batch) + len(group) > MAX_BATCH):
            yield batch
            batch, room = [], _BATCH_BYTES
        for message in group:
            if batch and _size(message) > room:
                yield batch
                batch, room = [], _BATCH_BYTES
            batch.append(message)
            room -= _size(message)
    if batch:
        yield batch


def _size(message: Message) -> int:
    texts = [message.content, message.thinking_text, *(it.arguments for it in message.tool_calls)]
    return 1000 + sum(len(text.encode()) for text in texts) + len(str(message.metadata))

"""Lines of a log: the bytes of each and the entry that they stand for, its number and place, and
which log it belongs to.

A file can be renamed and lines can be copied, and each keeps a good checksum. So a line that is
written carries a mark (`at`): its number, and a checksum of the log's name. It is not read under
another log's name, nor twice. Lines of earlier versions have no mark: for them the log's first line
speaks, which names the log. Lines in the plain form, which people write, belong where they stand.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any
from zlib import crc32

import orjson

from recollect_server.kernel.domain.conversation import Content, MessagesRedacted
from recollect_server.kernel.domain.frozen import frozen
from recollect_server.kernel.domain.ids import MAX_LINES
from recollect_server.kernel.domain.message import Message, Role
from recollect_server.kernel.domain.time import to_text
from recollect_server.kernel.log.codec import TEXT, number
from recollect_server.kernel.log.entries import ERASED, MEMBERS, VOCABULARIES, begun_by, content_of

_SUFFIX = len(b',"crc":"00000000"}')
_HEX = frozenset(b"0123456789abcdef")
# of the bytes of a checksum: fewer are no checksum that a few flipped bits made unreadable
_LIKE_A_CHECKSUM = 14
# and what a lost byte leaves of the name: its line is still JSON
_CHECKSUM_NAMES = frozenset({"crc", "cr", "cc", "rc"})
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MAX_DEPTH = 64  # of a plain line; a message's metadata has at most 24 levels
_TURN = number(MAX_LINES)
_CLOSE = "close"
# in the first format these were types, and no events
_EVENTS_AS_TYPES = frozenset(
    {"title_assigned", "compression", "abbreviation", "meta_update", _CLOSE}
)
MARK = "at"
"""Member of a line that says which log's line it is, and the how manieth."""
LOST_CHANNEL = "unknown"  # of a conversation whose first line is damaged, or does not say it


class Damaged(Exception):
    """The line is not one that this program wrote, or not any more; or a foreign one that cannot be
    read.
    """


@frozen
class Stamp:
    """Request that wrote a line, and the line's place in its batch (from 1, of how many)."""

    request_id: str = ""
    request_hash: str = ""
    batch: tuple[int, int] = (1, 1)
    draft_id: str = ""


@frozen
class Entry:
    """Content of a line, and its stamp."""

    content: object
    stamp: Stamp = Stamp()
    mark: str | None = ""
    """Mark of the log and the place that it was written for, as it was read (see `Belonging`);
    empty: it has none; None: nor a checksum.
    """

    @property
    def hash(self) -> str:
        """Hash of the request that wrote it."""
        return self.stamp.request_hash


@lru_cache(4096)  # an append writes to a log that was written to before
def tag_of(log: str) -> str:
    """Return what the mark of each line of a log has behind the line's number."""
    return f".{crc32(log.encode()):08x}"


def encode(entry: Entry, mark: str = "") -> bytes:
    """Return an entry's line with its mark, its checksum and its newline. Raises ValueError for
    text that is not Unicode (lone surrogates).
    """
    fields = MEMBERS[type(entry.content)](entry.content)
    stamp = entry.stamp
    if stamp.request_id:
        fields["requestId"] = stamp.request_id
        fields["requestHash"] = stamp.request_hash
    if stamp.draft_id:
        fields["draftId"] = stamp.draft_id
    if stamp.batch[1] > 1:
        fields["batch"] = stamp.batch
    if mark:
        fields[MARK] = mark
    return seal(fields)


def seal(fields: dict[str, Any], spaces: int = 0) -> bytes:
    """Return a line of these fields with its checksum and newline; `fields` is not empty. Raises
    ValueError as `encode`.

    `spaces` make it longer, where it takes the place of another line.
    """
    body = orjson.dumps(fields)[:-1] + b" " * spaces
    return b'%b,"crc":"%08x"}\n' % (body, crc32(body))


def unseal(line: bytes) -> Any:
    """Return the JSON value of a line without its newline. Raises Damaged if its checksum does not
    fit, ValueError if it is no JSON.
    """
    body, suffix = line[:-_SUFFIX], line[-_SUFFIX:]
    if suffix != b',"crc":"%08x"}' % crc32(body):
        raise Damaged(
            "the checksum does not fit"
            if suffix.startswith(b',"crc":"')
            else "there is no checksum"
        )
    return orjson.loads(body + b"}")


def fields_of(line: bytes) -> dict[str, Any] | None:
    """Return the fields of a line without its newline; None for a damaged one."""
    try:
        fields = unseal(line)
    except (Damaged, ValueError):
        return None
    return fields if isinstance(fields, dict) else None


def has_checksum(line: bytes) -> bool:
    """Return whether a line without its newline ends in a checksum, or in what damage may have left
    of one.
    """
    suffix = line[-_SUFFIX:]
    if len(suffix) < _SUFFIX:
        return False
    if suffix.startswith(b',"crc":"') and suffix.endswith(b'"}') and _HEX.issuperset(suffix[8:16]):
        return True  # as nearly every line: not byte by byte
    same = sum(suffix[place] == byte for place, byte in enumerate(b',"crc":"')) + sum(
        it in _HEX for it in suffix[8:16]
    )
    return same + (suffix[16] == ord('"')) + (suffix[17] == ord("}")) >= _LIKE_A_CHECKSUM


def is_object(line: bytes) -> bool:
    """Return whether a line is a whole JSON object."""
    try:
        return isinstance(orjson.loads(line), dict)
    except ValueError:
        return False


def decode(line: bytes, sequence: int) -> Entry:
    """Return the entry of a line without its newline; `sequence` is the line's number.

    A line with nothing like a checksum is in the plain form, which people and other programs write;
    entries of external communications and of threads have none.
    Raises Damaged with the reason.
    """
    if not has_checksum(line):
        return _decode_plain(line, sequence)
    try:
        fields = unseal(line)
        mark = TEXT.read(fields.get(MARK, ""), MARK)
        return Entry(content_of(fields, sequence), _stamp(fields), mark)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(
            f"the checksum fits and the content does not: {type(error).__name__} {error}"
        ) from error


def _is_deep(value: Any) -> bool:
    """Return whether a JSON value is nested so deeply that other encoders refuse it."""
    level = [value]
    for _ in range(_MAX_DEPTH):
        nested = [it for it in level if isinstance(it, dict | list)]
        level = [each for it in nested for each in (it.values() if isinstance(it, dict) else it)]
        if not level:
            return False
    return True


def _decode_plain(line: bytes, sequence: int) -> Entry:
    if not line.strip():
        raise Damaged("the line is empty")
    try:
        fields = orjson.loads(line.removeprefix(_BYTE_ORDER_MARK))
    except ValueError as error:
        raise Damaged(f"there is no checksum, and it is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise Damaged("there is no checksum, and it is no JSON object")
    if _is_deep(fields):
        raise Damaged(f"it is nested deeper than {_MAX_DEPTH} levels")
    if not _CHECKSUM_NAMES.isdisjoint(fields):
        raise Damaged(
            "the checksum is not at the line's end, where it can be compared: take it off to have the line read"
        )
    try:
        match fields.get("type"):
            case "meta":
                fields = {"id": "", "channel": LOST_CHANNEL, "created": _NOT_GIVEN} | fields
            case "turn" if "turnNumber" not in fields:
                fields["turnNumber"] = 0  # `Belonging` counts it
            case "turn" if _TURN.read(fields["turnNumber"], "turnNumber") == 0:
                raise ValueError("turnNumber is 0: turns count from 1")
            case str(name) if name in _EVENTS_AS_TYPES:
                fields = {"timestamp": _NOT_GIVEN} | fields | {"type": "event", "event": name}
        if fields.get("event") == _CLOSE and fields.get("type") == "event":
            fields["event"] = "meta_update"  # nothing is ever closed; it may name the conversation
        content = content_of(fields, sequence)
        stamp = _stamp(fields)
    except KeyError as error:
        raise Damaged(f"{error.args[0]} is missing") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise Damaged(f"{error}") from error
    # of other kinds of logs there is no plain form, nor of a line that only the server writes
    if not isinstance(content, Content) or isinstance(content, MessagesRedacted):
        raise Damaged("it is of a type that is not known")
    return Entry(content, stamp, None)


_NOT_GIVEN = to_text(0)


def _stamp(fields: dict[str, Any]) -> Stamp:
    index, count = fields.get("batch", (1, 1))
    if not 1 <= index <= count:
        raise ValueError(f"line {index} of {count} of a batch")
    return Stamp(
        TEXT.read(fields.get("requestId", ""), "requestId"),
        TEXT.read(fields.get("requestHash", ""), "requestHash"),
        (index, count),
        TEXT.read(fields.get("draftId", ""), "draftId"),
    )


Place = tuple[int, int, int]
"""Line of a log as its store finds it again: number, offset and length in bytes. Opaque to all but
a store.
"""


@frozen
class Line:
    """One line: its number from 1, where it is, and what it says (or why that cannot be read)."""

    sequence: int
    offset: int
    length: int
    """In bytes, with the newline."""
    entry: Entry | None
    damage: str = ""

    @property
    def end(self) -> int:
        """The offset behind the line."""
        return self.offset + self.length


def line_of(raw: bytes, sequence: int, offset: int) -> Line:
    """Return the line whose bytes, without the newline, are these."""
    try:
        return Line(sequence, offset, len(raw) + 1, decode(raw, sequence))
    except Damaged as damage:
        return Line(sequence, offset, len(raw) + 1, None, str(damage))


def encoded(
    entries: Sequence[Entry], lines: int = 0, offset: int = 0, log: str = ""
) -> tuple[list[Line], list[bytes]]:
    """Return entries as the lines behind so many lines and bytes of a log, and the bytes of each.
    Messages bring their sequence. Without the log's name the lines have no mark of it.
    """
    tag = tag_of(log)
    made: list[Line] = []
    parts: list[bytes] = []
    for sequence, entry in enumerate(entries, start=lines + 1):
        assert not isinstance(entry.content, Message) or entry.content.sequence == sequence
        data = encode(entry, f"{sequence}{tag}" if log else "")
        made.append(Line(sequence, offset, len(data), entry))
        parts.append(data)
        offset += len(data)
    return made, parts


def messages_of(lines: list[Line]) -> list[Message]:
    """Return the messages among the lines."""
    return [
        line.entry.content
        for line in lines
        if line.entry and isinstance(line.entry.content, Message)
    ]


def contents_of(lines: list[Line]) -> list[object]:
    """Return what the lines say, except damaged ones."""
    return [line.entry.content for line in lines if line.entry]


def spoken(raw: bytes, sequence: int) -> tuple[str, str] | None:
    """Return the sender and the content of a message by its line; None of a damaged line, and of
    another one. Costs a quarter of decoding every field.
    """
    try:
        if not has_checksum(raw):
            content = decode(raw, sequence).content
            return (content.sender, content.content) if isinstance(content, Message) else None
        fields = unseal(raw)
        if fields["type"] != "turn":
            return None
        # a message that was redacted may have no content
        content_of = fields.get("content", "") if ERASED in fields else fields["content"]
        return fields.get("sender", ""), content_of
    except (Damaged, ValueError, KeyError, TypeError, AttributeError):
        return None


_ELSEWHERE = "it belongs to "


class Belonging:
    """The look at lines of one log, in the order in which they are read."""

    def __init__(
        self,
        log: str,
        first: Callable[[], Line | None],
        whole: Callable[[], Iterable[Line]],
        after: int | None = None,
    ) -> None:
        """`first` reads the log's first line, and `whole` all of them, where either is needed.
        `after`: the lines come in their order, behind so many; None: in any order.
        """
        self._log = log
        self._tag = tag_of(log)
        contents = (it.contents for it in VOCABULARIES if it.is_name(log))
        self._contents = next(contents, (object,))  # of a ledger anything
        self._first = first
        self._whole = whole
        self._last = after
        self._elsewhere: str | None = None
        self._turns: dict[int, int] | None = None

    def lines(self, lines: Iterable[Line]) -> Iterator[Line]:
        """Yield lines as `check` returns each."""
        return map(self.check, lines)

    def check(self, line: Line) -> Line:
        """Return a line as one of this log: damaged if it belongs elsewhere, and with the number of
        its turn if it is a message that does not say it.
        """
        if line.entry is None:
            return line
        content, mark = line.entry.content, line.entry.mark
        if mark is not None and (reason := self._reason(content, mark)):
            return replace(line, entry=None, damage=reason)
        if isinstance(content, Message) and not content.turn_number:
            if self._turns is None:
                self._turns = dict(_turns(self._whole()))
            turn = self._turns.get(line.sequence, 1)
            return replace(
                line, entry=replace(line.entry, content=replace(content, turn_number=turn))
            )
        return line

    def _reason(self, content: object, mark: str) -> str:
        """Return why a line with this mark belongs elsewhere; empty if it does not."""
        if not isinstance(content, self._contents):
            return "it is a line of another kind of log"
        if not mark:
            if self._elsewhere is None:
                first = self._first()
                entry = first.entry if first else None
                self._elsewhere = ""
                if entry is not None and entry.mark is not None:
                    self._elsewhere = _named_elsewhere(entry.content, self._log)
            # What follows the beginning of another log was copied with it.
            self._elsewhere = self._elsewhere or _named_elsewhere(content, self._log)
            return self._elsewhere
        number = mark.removesuffix(self._tag)
        if number == mark or not number.isdecimal():
            return _ELSEWHERE + (begun_by(content) or "another log")
        if self._last is not None:
            if int(number) <= self._last:
                return f"it was written as line {number}, and stands behind line {self._last}"
            self._last = int(number)
        return ""


def over(log: str, raw: Sequence[bytes], after: int | None = None) -> Belonging:
    """Return the look at lines of a log whose bytes, without newlines, are these."""

    def whole() -> Iterator[Line]:
        return (line_of(text, sequence, 0) for sequence, text in enumerate(raw, 1))

    return Belonging(log, lambda: next(whole(), None), whole, after)


def lines_of(
    log: str, raw: Sequence[bytes], before: tuple[Sequence[bytes], Sequence[Line]] = ((), ())
) -> list[Line]:
    """Return the lines of a log whose bytes, without newlines, are these. `before`: the bytes and
    lines of an earlier call, of which what is as it was is not decoded again.
    """
    check = over(log, raw, 0).check
    lines: list[Line] = []
    offset = 0
    for sequence, text in enumerate(raw, 1):
        is_same = sequence <= len(before[0]) and before[0][sequence - 1] == text
        line = before[1][sequence - 1] if is_same else None
        if line is None or line.offset != offset:
            line = line_of(text, sequence, offset)
        lines.append(check(line))
        offset += len(text) + 1
    return lines


def misplacement(lines: Iterable[Line]) -> str:
    """Return why the first of a log's lines that can be read belongs to another log; empty if it
    does not.
    """
    for line in lines:
        if line.entry is not None:
            return ""
        if line.damage.startswith(_ELSEWHERE):
            return line.damage
    return ""


def _named_elsewhere(content: object, log: str) -> str:
    name = begun_by(content)
    return _ELSEWHERE + name if name not in ("", log) else ""


def _turns(lines: Iterable[Line]) -> Iterator[tuple[int, int]]:
    """Yield the lines of messages that do not say their turn, with its number: a user's message
    opens a turn, and so does the first message.
    """
    turn = 0
    for line in lines:
        message = line.entry.content if line.entry else None
        if not isinstance(message, Message):
            continue
        number = message.turn_number
        if not number:
            number = turn + 1 if message.role is Role.USER or not turn else turn
            yield line.sequence, number
        turn = max(turn, number)

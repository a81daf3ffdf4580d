"""A line of a transcript and the entry that it stands for."""

from typing import Any
from zlib import crc32

import orjson

from recollect_server.domain.checkpoint import ThreadContent
from recollect_server.domain.entry import AnyContent, Unknown
from recollect_server.domain.external import ExternalContent
from recollect_server.domain.frozen import frozen
from recollect_server.domain.ids import MAX_LINES
from recollect_server.domain.time import to_text
from recollect_server.storage.logs.codec import TEXT, number
from recollect_server.storage.logs.entries import content_of, fields_of

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

    content: AnyContent
    stamp: Stamp = Stamp()
    mark: str | None = ""
    """Mark of the log and the place that it was written for, as it was read (see `belonging`);
    empty: it has none; None: nor a checksum.
    """


def tag_of(log: str) -> str:
    """Return what the mark of each line of a log has behind the line's number."""
    return f".{crc32(log.encode()):08x}"


def encode(entry: Entry, mark: str = "") -> bytes:
    """Return an entry's line with its mark, its checksum and its newline. Raises ValueError for
    text that is not Unicode (lone surrogates).
    """
    fields = fields_of(entry.content)
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
                fields["turnNumber"] = 0  # `belonging` counts it
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
    if isinstance(content, Unknown | ExternalContent | ThreadContent):
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

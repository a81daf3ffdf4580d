"""Bounds what the bytes of a request may hold before protobuf parses them, and finds the field at
fault in bytes that it refuses.

Bytes are cheap to send and dear to hold: 14 KiB of gzip inflate to 14 MiB, and 14 MiB of empty
messages take 1.9 GiB once they are parsed. So a request is inflated here, once its caller is
admitted, and no further than its method needs; and the fields of a large one are counted first. A
small one can not hold many.

This walks the encoding (protobuf.dev/programming-guides/encoding) itself, for the library's own
reader of unknown fields ends the process on messages that are nested deeply. A walk gives up after
`MAX_FIELDS` fields, so that it costs some 0.1 s at the most.
"""

import re
import zlib
from functools import cache
from typing import NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor

MAX_FIELDS = 200_000
"""Fields of a request, those of all messages in it together. The most that the contract's own
limits of lists need is some 50,000 (PutRecords); a field takes up to 300 bytes of memory.
"""
_NUMBER = re.compile(rb"[\x80-\xff]{0,9}[\x00-\x7f]")  # a varint, passed over
FEW_BYTES = 64 << 10
"""A request of no more bytes need not be counted."""
_GZIP = b"\x1f\x8b"  # no message begins so: 7 is no wire type
_FIXED = {1: 8, 5: 4}  # bytes of a field, by its wire type
# bytes of each element of a packed field, where they are fixed
_WIDTHS = {
    FieldDescriptor.TYPE_DOUBLE: 8,
    FieldDescriptor.TYPE_FIXED64: 8,
    FieldDescriptor.TYPE_SFIXED64: 8,
    FieldDescriptor.TYPE_FLOAT: 4,
    FieldDescriptor.TYPE_FIXED32: 4,
    FieldDescriptor.TYPE_SFIXED32: 4,
}


class Malformed(Exception):
    """Bytes that are not the request expected, or hold more than one may: a description, and the
    path of the field at fault if it is known.
    """

    def __init__(self, description: str, field: str = "") -> None:
        super().__init__(description, field)


class _Broken(Exception):
    """The bytes are not an encoded message."""


def inflate(data: bytes, most: int) -> bytes:
    """Return the bytes of a request, inflated if its caller compressed them. Raises Malformed if
    they are more than `most`.
    """
    plain, bits = data, 0  # tells zlib the format
    if data.startswith(_GZIP):
        bits = 16 + zlib.MAX_WBITS
    elif data.startswith(b"\x78") and int.from_bytes(data[:2]) % 31 == 0:  # "deflate" of HTTP
        bits = zlib.MAX_WBITS
    if bits and len(data) > 1:
        stream = zlib.decompressobj(bits)
        try:
            inflated = stream.decompress(data, most + 1)
        except zlib.error:
            inflated = b""
        # bytes that only look compressed are a message, or refused as none
        if len(inflated) > most or (stream.eof and not stream.unused_data):
            plain = inflated
    if len(plain) > most:
        raise Malformed(f"the request is too large: it may have {most} bytes")
    return plain


def check_fields(data: bytes, expected: Descriptor) -> None:
    """Raise Malformed if a request has too many fields to be parsed, or has groups, of which no
    contract has any.
    """
    try:
        _walk(data, expected)
    except _Broken:
        raise Malformed(f"the request is not a {expected.name}") from None


def first_not_utf8(data: bytes, expected: Descriptor) -> str:
    """Return the path of the first text field that is not UTF-8, like `messages[2].content`; empty
    if there is none. Raises Malformed if there are too many fields to look at.
    """
    try:
        return _walk(data, expected, texts=True)
    except _Broken:
        return ""


class _Step(NamedTuple):
    """A field that a walk looks into."""

    field: FieldDescriptor
    inner: "dict[int, _Step] | None"
    """The fields of its message, by their tags; None if it is none."""
    width: int
    """Least bytes of an element, if it is packed; else 0."""


@cache
def _steps_of(message: Descriptor) -> dict[int, _Step]:
    return _add_steps(message, {})


def _add_steps(message: Descriptor, made: dict[str, dict[int, _Step]]) -> dict[int, _Step]:
    """Return the steps of a message, by their tags; `made` has those of others, by their names."""
    if (steps := made.get(message.full_name)) is not None:
        return steps
    steps = made[message.full_name] = {}  # before its fields are read: one may hold it again
    for field in message.fields:
        inner, width = None, 0
        if field.message_type is not None:
            inner = _add_steps(field.message_type, made)
        elif field.type == FieldDescriptor.TYPE_BYTES:
            continue
        elif field.type != FieldDescriptor.TYPE_STRING:
            if not field.is_repeated:
                continue
            width = _WIDTHS.get(field.type, 1)
        steps[field.number << 3 | 2] = _Step(field, inner, width)
    return steps


def _walk(data: bytes, expected: Descriptor, *, texts: bool = False) -> str:
    """Count the fields, and with `texts` return the path of the first text that is not UTF-8.
    Raises Malformed if there are too many, and _Broken.
    """
    steps, end, path = _steps_of(expected), len(data), ""
    places: dict[str, int] = {}
    outer: list[tuple[dict[int, _Step], int, str, dict[str, int]]] = []
    position = count = 0
    try:
        while True:
            if position >= end:
                if position > end:
                    raise _Broken
                if not outer:
                    return ""
                steps, end, path, places = outer.pop()
                continue
            count += 1
            if count > MAX_FIELDS:
                raise Malformed(
                    f"the request holds more than {MAX_FIELDS} fields, those of the messages in it"
                    " together: send it in parts"
                )
            tag = data[position]
            position += 1
            if tag > 0x7F:
                tag, position = _varint(data, position - 1)
            if not 7 < tag < 1 << 32:
                raise _Broken
            kind = tag & 7
            if kind == 2:
                length = data[position]
                position += 1
                if length > 0x7F:
                    length, position = _varint(data, position - 1)
                begin, position = position, position + length
                step = steps.get(tag)
                if step is None:
                    continue
                if position > end:
                    raise _Broken
                count += length // step.width if step.width else 0
                name = _name(path, step.field, places) if texts else ""
                if step.inner is not None:
                    outer.append((steps, end, path, places))
                    steps, end, position = step.inner, position, begin
                    path, places = f"{name}.", {}
                elif texts and not step.width:
                    try:
                        data[begin:position].decode()
                    except UnicodeDecodeError:
                        return name
            elif kind == 0:
                if (number := _NUMBER.match(data, position)) is None:
                    raise _Broken
                position = number.end()
            elif kind in _FIXED:
                position += _FIXED[kind]
            else:
                raise _Broken
    except IndexError:
        raise _Broken from None


def _name(path: str, field: FieldDescriptor, places: dict[str, int]) -> str:
    """Return the path of a field's next value."""
    if not field.is_repeated:
        return path + field.name
    place = places[field.name] = places.get(field.name, -1) + 1
    return f"{path}{field.name}[{place}]"


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise _Broken

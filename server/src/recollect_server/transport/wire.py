"""Looks into bytes that protobuf refused to read, for the field that is at fault.

Protobuf says only that some text is not UTF-8. This walks the encoding
(protobuf.dev/programming-guides/encoding) itself, for the library's own reader of unknown fields
ends the process on messages that are nested deeply.
"""

from google.protobuf.descriptor import Descriptor, FieldDescriptor

_MAX_DEPTH = 32
_FIXED = {1: 8, 5: 4}


class _Broken(Exception):
    """The bytes are not an encoded message."""


def first_not_utf8(data: bytes, expected: Descriptor) -> str:
    """Return the path of the first text field that is not UTF-8, like `messages[2].content`; empty
    if there is none.
    """
    try:
        return _walk(data, expected, "", 0)
    except _Broken:
        return ""


def _walk(data: bytes, expected: Descriptor, path: str, depth: int) -> str:
    position = 0
    counts: dict[str, int] = {}
    while position < len(data):
        tag, position = _varint(data, position)
        value = b""
        match tag & 7:
            case 0:
                _, position = _varint(data, position)
            case 1 | 5:
                position += _FIXED[tag & 7]
            case 2:
                length, position = _varint(data, position)
                value = data[position : position + length]
                position += length
            case _:
                raise _Broken
        field = expected.fields_by_number.get(tag >> 3)
        if field is None or tag & 7 != 2:
            continue
        name = f"{path}{field.name}"
        if field.is_repeated:
            place = counts[name] = counts.get(name, -1) + 1
            name = f"{name}[{place}]"
        if field.type == FieldDescriptor.TYPE_STRING:
            try:
                value.decode()
            except UnicodeDecodeError:
                return name
        elif (
            field.message_type is not None
            and depth < _MAX_DEPTH
            and (inner := _walk(value, field.message_type, f"{name}.", depth + 1))
        ):
            return inner
    return ""


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data) and shift < 64:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise _Broken

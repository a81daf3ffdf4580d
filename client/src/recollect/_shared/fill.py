"""Conversion of plain Python values into a request; errors name the path of the field."""

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import NULL_VALUE, ListValue, Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from recollect.errors import ErrorReason, FieldViolation, InvalidArgument

MAX_METADATA_DEPTH = 24
"""protobuf reads at most 100 nested messages, and one level of a Struct is three of them."""
MAX_WHOLE_NUMBER = 2**53
"""A Struct's numbers are doubles: whole numbers beyond this lose digits."""

_KINDS = {
    FieldDescriptor.CPPTYPE_STRING: "text",
    FieldDescriptor.CPPTYPE_BOOL: "true or false",
    FieldDescriptor.CPPTYPE_DOUBLE: "a number",
    FieldDescriptor.CPPTYPE_FLOAT: "a number",
    FieldDescriptor.CPPTYPE_INT32: "a whole number",
    FieldDescriptor.CPPTYPE_INT64: "a whole number",
    FieldDescriptor.CPPTYPE_UINT32: "a whole number",
    FieldDescriptor.CPPTYPE_UINT64: "a whole number",
    Timestamp.DESCRIPTOR.name: "a datetime with a time zone",
}
"""Names of the values of a field, by the type of the field or the name of its message."""
_KEY = Struct.FieldsEntry.DESCRIPTOR.fields_by_name["key"]
_TEXT = Value.DESCRIPTOR.fields_by_name["string_value"]

Filled = TypeVar("Filled", bound=Message)


def invalid(field: str, description: str) -> InvalidArgument:
    """Return the exception for a field that cannot be sent."""
    return InvalidArgument(
        f"{field}: {description}",
        code="INVALID_ARGUMENT",
        reason=ErrorReason.INVALID_FIELD,
        violations=[FieldViolation(field, description)],
    )


def fill(message: Filled, path: str = "", /, **fields: object) -> Filled:
    """Set fields of `message`, which stands at `path` in the request, and return it. `None` leaves
    a field unset.

    A datetime becomes a Timestamp, a dict a Struct, any iterable a repeated field. What protobuf
    refuses is raised as InvalidArgument with the field's path.
    """
    for name, value in fields.items():
        if value is None:
            continue
        field = path + name
        kind = message.DESCRIPTOR.fields_by_name[name]
        if kind.is_repeated:
            if isinstance(value, str | bytes) or not isinstance(value, Iterable):
                raise invalid(field, f"takes several values, and this is {_shown(value)}")
            for index, item in enumerate(value):
                _guarded(f"{field}[{index}]", kind, getattr(message, name).append, item)
        elif isinstance(value, datetime):
            getattr(message, name).CopyFrom(timestamp(value, field))
        elif isinstance(target := getattr(message, name), Struct):
            _fill_struct(target, value, field, depth=1)
        elif isinstance(target, Message):
            _guarded(field, kind, target.CopyFrom, value)
        else:
            _guarded(field, kind, setattr, message, name, value)
    return message


def timestamp(moment: datetime, field: str) -> Timestamp:
    """Return a time as protobuf has it. A datetime without a time zone is refused: it names no
    moment.
    """
    if moment.utcoffset() is None:
        raise invalid(field, f"{moment!r} has no time zone; give it one, as in datetime.now(UTC)")
    result = Timestamp()
    try:
        result.FromDatetime(moment)
    except (OverflowError, ValueError):  # near the year 1 or 9999, and in another year in UTC
        raise invalid(field, f"{moment!r} is outside the years 1 to 9999 in UTC") from None
    return result


def _guarded(
    field: str,
    kind: Any,  # a FieldDescriptor, of Python's protobuf or of upb's
    set_value: Callable[..., object],
    *arguments: object,
) -> None:
    """Set a value; what protobuf refuses is raised as InvalidArgument, in words about its kind."""
    try:
        set_value(*arguments)
    except UnicodeEncodeError as error:
        character = ord(error.object[error.start])
        # Python stands for the bytes of an argument or of input that are not UTF-8 by these.
        is_byte = 0xDC80 <= character <= 0xDCFF
        description = (
            f"is not UTF-8: it holds the byte 0x{character - 0xDC00:02X}"
            if is_byte
            else f"holds half a character (the lone surrogate U+{character:04X}), which"
            " UTF-8 cannot carry"
        )
        raise invalid(field, description) from None
    except TypeError as error:
        kind_name = _KINDS.get(kind.message_type.name if kind.message_type else kind.cpp_type)
        shown = _shown(arguments[-1])
        problem = (
            f"cannot be {shown}: {error}"
            if kind_name is None
            else f"takes {kind_name}, not {shown}"
        )
        raise invalid(field, problem) from None
    except (ValueError, OverflowError) as error:
        raise invalid(field, f"cannot be {_shown(arguments[-1])}: {error}") from None


def _fill_struct(struct: Struct, value: object, field: str, depth: int) -> None:
    if not isinstance(value, Mapping):
        raise invalid(field, f"takes a dict, and this is {_shown(value)}")
    if depth > MAX_METADATA_DEPTH:
        raise invalid(field, f"is nested deeper than {MAX_METADATA_DEPTH} levels")
    for key, item in value.items():
        if not isinstance(key, str):
            raise invalid(field, f"has the key {_shown(key)}; keys are text")
        _guarded(field, _KEY, struct.fields.get_or_create, key)
        _fill_value(struct.fields[key], item, f"{field}.{key}", depth)


def _fill_value(slot: Value, value: object, field: str, depth: int) -> None:
    if value is None:
        slot.null_value = NULL_VALUE
    elif isinstance(value, bool):
        slot.bool_value = value
    elif isinstance(value, int | float):
        if isinstance(value, int) and abs(value) > MAX_WHOLE_NUMBER:
            raise invalid(field, "is a whole number too large to be kept exactly; give it as text")
        if not math.isfinite(value):
            raise invalid(field, f"is {value}, which JSON cannot hold")
        slot.number_value = value
    elif isinstance(value, str):
        _guarded(field, _TEXT, setattr, slot, "string_value", value)
    elif isinstance(value, Mapping):
        slot.struct_value.CopyFrom(Struct())
        _fill_struct(slot.struct_value, value, field, depth + 1)
    elif isinstance(value, list | tuple):
        if depth >= MAX_METADATA_DEPTH:
            raise invalid(field, f"is nested deeper than {MAX_METADATA_DEPTH} levels")
        slot.list_value.CopyFrom(ListValue())
        for index, item in enumerate(value):
            _fill_value(slot.list_value.values.add(), item, f"{field}[{index}]", depth + 1)
    else:
        raise invalid(field, f"is {_shown(value)}, which JSON cannot hold")


def _shown(value: object) -> str:
    text = ascii(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"

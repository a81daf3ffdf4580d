"""Conversion of plain Python values into a request; errors name the path of the field."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any, TypeVar, cast

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import NULL_VALUE, ListValue, Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from recollect._shared.read import scope_name, value_name
from recollect.errors import ErrorReason, FieldViolation, InvalidArgument
from recollect.v1 import scope_pb2

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
    Duration.DESCRIPTOR.name: "a timedelta",
}
"""Names of the values of a field, by the type of the field or the name of its message."""
_SET_BY_SERVER = {"Message": {"sequence", "turn_number", "redaction"}}
"""Fields that only the server sets, by the message."""
_SHORTHANDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "TurnRange": (", or the first and the last turn", ("first", "last")),
    "OwnerIdentity": (", or a channel and an address there", ("channel", "identity")),
    "AnchorSource": (", or a conversation and a line", ("conversation_id", "sequence")),
    "ContextBudget": (" or a number of tokens", ("total",)),
}
"""Shorthands for a data class, in words and as the fields that they give."""
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


def fill(message: Filled, path: str = "", /, **values: object) -> Filled:
    """Set fields of `message`, which stands at `path` in the request, and return it. `None` leaves
    a field unset.

    A datetime becomes a Timestamp, a timedelta a Duration, a dict a Struct or a map, a member of an
    enumeration its number, a data class the message of its name, any iterable a repeated field.
    What does not fit is raised as InvalidArgument with the field's path.
    """
    for name, value in values.items():
        if value is None:
            continue
        if name in message.DESCRIPTOR.oneofs_by_name:
            name = _member_of(message.DESCRIPTOR.oneofs_by_name[name], value)
        field, kind = path + name, message.DESCRIPTOR.fields_by_name[name]
        if not kind.is_repeated:
            _set(message, kind, value, field)
        elif kind.message_type is not None and kind.message_type.GetOptions().map_entry:
            _fill_map(getattr(message, name), value, field)
        elif is_dataclass(value):
            name = type(value).__name__
            raise invalid(field, f"takes several values, as in [{name}(…)], not one {name}")
        elif isinstance(value, str | bytes) or not isinstance(value, Iterable):
            raise invalid(field, f"takes several values, and this is {_shown(value)}")
        else:
            for index, item in enumerate(value):
                _append(getattr(message, name), kind, item, f"{field}[{index}]")
    return message


def _member_of(oneof: Any, value: object) -> str:
    """Return the name of the member that a data class is."""
    names = {it.message_type.name: it.name for it in oneof.fields}
    try:
        return cast(str, names[type(value).__name__])
    except KeyError:
        kinds = ", ".join(names)
        raise invalid(
            oneof.name, f"must be a recollect.{kinds}, not {type(value).__name__}"
        ) from None


def _set(message: Message, kind: Any, value: object, field: str) -> None:
    target = getattr(message, kind.name)
    match target:
        case Timestamp() if isinstance(value, datetime):
            target.CopyFrom(timestamp(value, field))
        case Duration() if isinstance(value, timedelta):
            target.FromTimedelta(value)
        case Struct():
            _fill_struct(target, value, field, depth=1)
        case Message():
            target.SetInParent()
            _fill_from(target, value, field)
        case _:
            if kind.enum_type is not None:
                value = _number(kind, value, field)
            _guarded(field, kind, setattr, message, kind.name, value)


def _append(target: Any, kind: Any, value: object, field: str) -> None:
    if kind.message_type is not None:
        _fill_from(target.add(), value, field)
    else:
        number = value if kind.enum_type is None else _number(kind, value, field)
        _guarded(field, kind, target.append, number)


def _fill_from(target: Message, value: object, field: str) -> None:
    """Set the fields of a message to those of the data class of its name, where they are not what
    they are by default.
    """
    name = target.DESCRIPTOR.name
    others, shorthand = _SHORTHANDS.get(name, ("", ()))
    parts = (value,) if isinstance(value, int) else value
    if is_dataclass(value) and type(value).__name__ == name:
        sent = {
            name: given
            for name, default in _sent_fields(cast(Any, type(value)), target.DESCRIPTOR)
            if (given := getattr(value, name)) != default and given != {}
        }
    elif shorthand and isinstance(parts, tuple | list) and len(parts) == len(shorthand):
        sent = dict(zip(shorthand, parts, strict=True))
    elif name in _KINDS:
        raise invalid(field, f"takes {_KINDS[name]}, not {_shown(value)}")
    else:
        raise invalid(field, f"must be a recollect.{name}{others}, not {type(value).__name__}")
    for oneof in target.DESCRIPTOR.oneofs:
        chosen = [it.name for it in oneof.fields if it.name in sent]
        if len(chosen) > 1:
            raise invalid(field, f"names one {oneof.name}, not {' and '.join(chosen)}")
    fill(target, f"{field}.", **sent)


def _fill_map(target: Any, value: object, field: str) -> None:
    if not isinstance(value, Mapping):
        raise invalid(field, f"takes a dict, and this is {_shown(value)}")
    for key, item in value.items():
        try:
            target[key] = item
        except (TypeError, ValueError):
            raise invalid(field, f"takes numbers by name, and {key!r} is {item!r}") from None


def _number(kind: Any, value: Any, field: str) -> int:
    """Return the number of a member of an enumeration."""
    numbers = _numbers(kind.enum_type)
    if not isinstance(value, str) or value not in numbers:
        is_scope = kind.enum_type is scope_pb2.Scope.DESCRIPTOR
        problem = (
            f"is {value!r}, which is not a scope"
            if is_scope
            else f"must be one of {', '.join(numbers)}, not {value!r}"
        )
        raise invalid(field, problem)
    return numbers[value]


@cache
def _numbers(enumeration: Any) -> dict[str, int]:
    """Return the numbers of an enumeration by the names that users write."""
    if enumeration is scope_pb2.Scope.DESCRIPTOR:
        return {scope_name(it.number): it.number for it in enumeration.values if it.number}
    return {value_name(it): it.number for it in enumeration.values if it.number}


@cache
def _sent_fields(kind: Any, message: Any) -> tuple[tuple[str, object], ...]:
    """Return the fields of a data class that are sent in a message, with their defaults."""
    ignored = _SET_BY_SERVER.get(message.name, ())
    return tuple(
        (it.name, it.default)
        for it in fields(kind)
        if it.name in message.fields_by_name and it.name not in ignored
    )


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

"""Values in which no field has its default, and the same with one field left out: whatever a layer
drops can be seen.
"""

import copy
import dataclasses
import types
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Union, get_args, get_origin, get_type_hints

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message as Proto
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

SEQUENCE = 7
_WHOLE = (Timestamp, Duration, Struct)


def filled(kind: Any, name: str = "") -> Any:
    """Return a value of a type in which no field has its default."""
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and (dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")):
        hints = get_type_hints(kind)
        names = getattr(kind, "_fields", None) or [it.name for it in dataclasses.fields(kind)]
        return kind(**{field: filled(hints[field], field) for field in names})
    if origin in (Union, types.UnionType):
        return filled(arguments[0], name)
    if origin is tuple:
        return (
            (filled(arguments[0], name),)
            if arguments[-1] is Ellipsis
            else tuple(filled(it, name) for it in arguments)
        )
    if origin is dict:
        return {name: 1}
    if issubclass(kind, StrEnum):
        return list(kind)[-1]
    return {str: f"a {name}", int: SEQUENCE, float: 0.5, bool: True}[kind]


def filled_proto(message: Proto, *without: str, choice: str = "") -> Any:
    """Fill every field of a message of the contract but those of these names; of a oneof, the
    member of the name `choice`.
    """
    if isinstance(message, Timestamp):
        message.FromMilliseconds(1_700_000_000_123)
    elif isinstance(message, Duration):
        message.FromMilliseconds(1_123)
    elif isinstance(message, Struct):
        message.update({"key": [1, "two"]})
    else:
        for field in message.DESCRIPTOR.fields:
            if field.name in without or _is_other_choice(field, choice):
                continue
            if _is_map(field):
                getattr(message, field.name)["key"] = 0.5
            elif field.message_type is not None:
                value = getattr(message, field.name)
                value.SetInParent() if not field.is_repeated else None
                filled_proto(value.add() if field.is_repeated else value, choice=choice)
            elif field.enum_type is not None:
                number = field.enum_type.values[-1].number
                if field.is_repeated:
                    getattr(message, field.name).append(number)
                else:
                    setattr(message, field.name, number)
            else:
                values = {
                    field.CPPTYPE_STRING: f"a-{field.name}",
                    field.CPPTYPE_DOUBLE: 0.5,
                    field.CPPTYPE_BOOL: True,
                }
                scalar = values.get(field.cpp_type, 9)
                if field.type == field.TYPE_BYTES:
                    scalar = b"bytes"
                if field.is_repeated:
                    getattr(message, field.name).append(scalar)
                else:
                    setattr(message, field.name, scalar)
    return message


def choices(message: Proto) -> list[str]:
    """Return the names of the members of a message's oneofs; an empty one where it has none."""
    members = [
        field.name
        for field in message.DESCRIPTOR.fields
        if field.containing_oneof and len(field.containing_oneof.fields) > 1
    ]
    return members or [""]


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def without_each(message: Proto, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each path of a field that is set, with the message without it."""
    for field, value in message.ListFields():
        less = copy.deepcopy(message)
        less.ClearField(field.name)
        yield path + field.name, less
        if field.message_type is None or isinstance(value, _WHOLE) or _is_map(field):
            continue
        for at, part in without_each(
            value[0] if field.is_repeated else value, f"{path}{field.name}."
        ):
            less = copy.deepcopy(message)
            target = getattr(less, field.name)
            (target[0] if field.is_repeated else target).CopyFrom(part)
            yield at, less


def unset(message: Proto, path: str = "") -> set[str]:
    """Return the paths of the fields of a message that are not set, and of its parts."""
    paths: set[str] = set()
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        is_set = bool(value) if field.is_repeated else field in dict(message.ListFields())
        if not is_set:
            paths.add(path + field.name)
        elif field.message_type is not None and not isinstance(value, Timestamp | Struct):
            parts = value if field.is_repeated else [value]
            # A list is whole if each field is set in one of its entries.
            paths |= set.intersection(*(unset(it, f"{path}{field.name}.") for it in parts))
    return paths


def _is_other_choice(field: Any, choice: str) -> bool:
    oneof = field.containing_oneof
    return oneof is not None and len(oneof.fields) > 1 and field.name != choice

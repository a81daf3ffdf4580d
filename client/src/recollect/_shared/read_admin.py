"""Answers of AdminService into what a user holds: fields of the same names, by their types."""

import types
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from google.protobuf.message import Message

from recollect._shared.calls.access import scope_name
from recollect._shared.read import moment

T = TypeVar("T")


def read(kind: type[T], it: Message) -> T:
    """Return a data class with the fields of a message."""
    values = {
        name: _value(hint, it, it.DESCRIPTOR.fields_by_name[name])
        for name, hint in _hints(cast(Any, kind)).items()
    }
    return kind(**values)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _value(hint: Any, it: Message, field: Any) -> Any:
    value = getattr(it, field.name)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is types.UnionType:  # an optional message
        return _one(arguments[0], value, field) if it.HasField(field.name) else None
    if origin is tuple:
        return tuple(_one(arguments[0], each, field) for each in value)
    if origin is frozenset:
        return frozenset(map(scope_name, value))
    if origin is Mapping:
        return dict(value)
    return _one(hint, value, field)


def _one(kind: Any, value: Any, field: Any) -> Any:
    if kind is datetime:
        return moment(value)
    if kind is timedelta:
        return value.ToTimedelta()
    if issubclass(kind, StrEnum):
        return _member(kind, value, field)
    return read(kind, value) if isinstance(value, Message) else value


def _member(kind: type[StrEnum], number: int, field: Any) -> StrEnum:
    """Return a member of an enumeration; `unknown` if the server is newer than this client."""
    value = field.enum_type.values_by_number.get(number)
    prefix = field.enum_type.values_by_number[0].name.removesuffix("UNSPECIFIED")
    name = value.name.removeprefix(prefix).lower() if value else ""
    return kind(name) if name in list(kind) else kind("unknown")

"""Messages of the contract into the data classes that a user holds: fields of the same names, by
their types. A data class is read by a function that is compiled at the first answer that holds it.
"""

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache, partial
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from google.protobuf.duration_pb2 import Duration
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from recollect._types.conversation import LoadedConversation
from recollect.errors import InternalError
from recollect.v1 import scope_pb2

T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ALSO = {"ConversationLoaded": LoadedConversation}
"""Data classes of members of a `oneof` whose messages have other names."""


def reading(kind: type[T], field: str = "") -> Callable[[Any], T]:
    """Return the reader of answers that are a `kind`, or hold it in a field."""
    return partial(_read, kind, field)


def struct(it: Struct) -> dict[str, Any]:
    """Return what JSON holds as Python has it. Whole numbers are `int`."""
    return {key: _plain(value) for key, value in it.fields.items()}


def scope_name(number: int) -> str:
    """Return the name of a scope; its number if the server is newer than this client."""
    value = scope_pb2.Scope.DESCRIPTOR.values_by_number.get(number)
    return str(number) if value is None else value_name(value).replace("_", ".", 1)


def _read(kind: type[T], field: str, it: Any) -> T:
    it = getattr(it, field) if field else it
    return cast(T, _reader(cast(Any, kind), it.DESCRIPTOR)(it))


@cache
def _reader(kind: Any, message: Any) -> Callable[[Any], Any]:
    """Compile the reader of messages of one type into a data class."""
    hints = get_type_hints(kind)
    # A frozen data class sets each of its fields by `object.__setattr__`: four times as slow.
    draft = type(kind.__name__, kind.__bases__, {"__slots__": kind.__slots__})
    names: dict[str, Any] = {"kind": kind, "draft": draft}
    lines = ["def function(it):", "made = draft()"]
    for field in fields(kind):
        if field.name in message.oneofs_by_name:
            value = f"read_{field.name}(it)"
            names[f"read_{field.name}"] = _choice(
                hints[field.name], message.oneofs_by_name[field.name]
            )
        elif field.name in message.fields_by_name:
            value = _value(hints[field.name], message.fields_by_name[field.name], names)
        elif field.default is MISSING:
            raise TypeError(f"{message.full_name} has no {field.name}, which {kind} needs")
        else:
            value = f"default_{field.name}"
            names[value] = field.default
        lines.append(f"made.{field.name} = {value}")
    exec("\n ".join([*lines, "made.__class__ = kind", "return made"]), names)  # noqa: S102 - names of the contract
    return cast(Callable[[Any], Any], names["function"])


def _value(hint: Any, field: Any, names: dict[str, Any]) -> str:
    """Return the expression of a field's value; what it calls goes into `names`."""
    value, origin = f"it.{field.name}", get_origin(hint)
    if origin is types.UnionType:
        (hint,) = (each for each in get_args(hint) if each is not type(None))
        return f"{_value(hint, field, names)} if it.HasField({field.name!r}) else None"
    if origin is Mapping:
        return f"dict({value})"
    several = {tuple: "tuple", frozenset: "frozenset"}.get(origin)
    convert = _converter(get_args(hint)[0] if several else hint, field)
    if convert is None:
        return f"{several}({value})" if several else value
    read = f"read_{field.name}"
    names[read] = convert
    if several:  # mostly there are none
        return f"{several}(map({read}, {value})) if {value} else {several}()"
    return f"{read}({value})"


def _converter(hint: Any, field: Any) -> Callable[[Any], Any] | None:
    """Return the function for one value; None for a value that is taken as it is."""
    if field.enum_type is not None:
        return _member(hint, field.enum_type) if issubclass(hint, StrEnum) else scope_name
    if field.message_type is None:
        return None
    by_message: dict[Any, Callable[[Any], Any]] = {
        Timestamp.DESCRIPTOR: moment,
        Duration.DESCRIPTOR: _length,
        Struct.DESCRIPTOR: struct,
    }
    return by_message.get(field.message_type) or _reader(hint, field.message_type)


def moment(value: Timestamp) -> datetime:
    """Return a time of the contract, in UTC: in half the time of `ToDatetime`."""
    return _EPOCH + timedelta(0, value.seconds, value.nanos // 1000)


def _length(value: Duration) -> timedelta:
    return value.ToTimedelta()


def _member(kind: type[StrEnum], enumeration: Any) -> Callable[[int], StrEnum]:
    """Return the function from numbers of an enumeration to members; what this client is too old to
    know is `unknown` where the enumeration has that.
    """
    own_names = set(kind)
    members = {
        value.number: kind(name)
        for value in enumeration.values
        if (name := value_name(value)) in own_names
    }
    if "unknown" in own_names:
        return lambda number: members.get(number, kind("unknown"))

    def member(number: int) -> StrEnum:
        try:
            return members[number]
        except KeyError:
            raise InternalError(
                f"the server answered {enumeration.name.lower()} {number}, which this client is too old to"
                " know"
            ) from None

    return member


def value_name(value: Any) -> str:
    """Return `hot` for the value `CONTEXT_TIER_HOT` of an enumeration."""
    prefix: str = value.type.values_by_number[0].name.removesuffix("UNSPECIFIED")
    name: str = value.name
    return name.removeprefix(prefix).lower()


def _choice(hint: Any, oneof: Any) -> Callable[[Any], Any]:
    """Return the function that reads what a `oneof` holds; None for a member without a data class.

    What is left is what this client is too old to know, and a heartbeat.
    """
    kinds = {each.__name__: each for each in get_args(hint) if each is not type(None)}
    readers: dict[str | None, Callable[[Any], Any]] = {
        field.name: _reader(kind, field.message_type)
        for field in oneof.fields
        if (kind := _ALSO.get(field.message_type.name) or kinds.get(field.message_type.name))
    }

    def read(it: Any) -> Any:
        name = it.WhichOneof(oneof.name)
        return readers[name](getattr(it, name)) if name in readers else None

    return read


def _plain(it: Value) -> Any:
    match it.WhichOneof("kind"):
        case "string_value":
            return it.string_value
        case "number_value":
            return int(it.number_value) if it.number_value.is_integer() else it.number_value
        case "bool_value":
            return it.bool_value
        case "struct_value":
            return struct(it.struct_value)
        case "list_value":
            return [_plain(item) for item in it.list_value.values]
        case _:
            return None

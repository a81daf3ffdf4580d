"""Codecs: entries to JSON objects and back, each field declared once.

A `Codec` is compiled from the fields of a type, in the order of the line. A line with a good
checksum may still be another program's: a value that is not of its type is damage, and refused
here.
"""

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import Any, Generic, TypeVar

from recollect_server.kernel.domain.time import from_text, to_text

T = TypeVar("T")

MAX_NUMBER = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Value:
    """The form of a value in a line."""

    read: Callable[[Any, str], Any]
    """Return the value of a member of this name. Raises TypeError, ValueError, KeyError."""
    write: Callable[[Any], Any] | None = None
    """Return the member; None: the value itself."""


def exactly(kind: type) -> Value:
    """Return the form of a value that is of one type of JSON."""
    name = {str: "text", bool: "bool"}.get(kind, kind.__name__)

    def read(value: Any, member: str) -> Any:
        if type(value) is not kind:
            raise TypeError(f"{member} is not a {name}")
        return value

    return Value(read)


def number(most: int = MAX_NUMBER) -> Value:
    """Return the form of a whole number from 0."""

    def read(value: Any, member: str) -> int:
        if type(value) is not int or not 0 <= value <= most:
            raise TypeError(f"{member} is {value!r}, and not a number from 0 to {most}")
        return value

    return Value(read)


def one_of(kind: type[StrEnum]) -> Value:
    """Return the form of a value of an enumeration."""
    return Value(lambda value, _: kind(value), attrgetter("_value_"))


def _bytes(value: Any, member: str) -> bytes:
    return base64.b64decode(TEXT.read(value, member), validate=True)


def _texts(value: Any, member: str) -> tuple[str, ...]:
    if type(value) is not list or any(type(it) is not str for it in value):
        raise TypeError(f"{member} is not a list of texts")
    return tuple(value)


def _numbers(value: Any, member: str) -> tuple[int, ...]:
    if type(value) is not list:
        raise TypeError(f"{member} is not a list of numbers")
    return tuple(NUMBER.read(it, member) for it in value)


TEXT = exactly(str)
SWITCH = exactly(bool)
FLAG = Value(lambda value, member: value is not None and SWITCH.read(value, member))
"""A truth value, where null is none."""
OBJECT = exactly(dict)
NUMBER = number()
REAL = Value(lambda value, _: float(value))
TIME = Value(lambda value, _: from_text(value), to_text)
ARRIVAL = Value(lambda value, _: 0 if value is None else from_text(value), to_text)
"""A time, where null is none."""
TEXTS = Value(_texts)
BYTES = Value(_bytes, lambda value: base64.b64encode(value).decode())
"""Bytes, as base64."""
NUMBERS = Value(_numbers)
NAMES = Value(lambda value, member: tuple(dict.fromkeys(_texts(value, member))))
"""Texts, each once, where it stands first: a foreign line may repeat one, the index refuses it."""

REQUIRED = object()
"""Default of a field whose member must be there, and is always written."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an entry, and the member of the line that has it."""

    member: str
    """Name of the member."""
    value: Value
    attribute: str = ""
    """Path of the attribute, as `origin.group_id`; empty: the member's name."""
    default: Any = REQUIRED
    """Value where the member is missing. It is written where it is neither this nor empty."""
    is_written: bool | None = None
    """True: it is always written, though it may be missing; False: an empty one is not written,
    though it must be there; None: as the default says.
    """
    is_kept: bool = False
    """True: a redaction leaves it, for it is no text of anybody's."""

    @property
    def path(self) -> str:
        """Return the path of the attribute."""
        return self.attribute or self.member


class Codec(Generic[T]):
    """The JSON object of an entry of one type."""

    def __init__(
        self,
        kind: type[T],
        *fields: Field,
        head: Mapping[str, str] | None = None,
        parts: Mapping[str, type] | None = None,
        numbered: str = "",
        text: str = "",
    ) -> None:
        """`head` are members that say which type it is. `parts` are the types of attributes that
        are objects themselves, and whose fields stand among the others, by name. `numbered` is the
        attribute that has the number of the line, and `text` the member that a redaction removes.
        """
        self.kind = kind
        self.text = text
        self.head = dict(head or {})
        self.lasting = (*self.head, *(field.member for field in fields if field.is_kept))
        """Members that a redaction leaves."""
        self._fields = fields
        self._names: dict[str, Any] = {"kind": kind}
        for at, field in enumerate(fields):
            self._names[f"read_{at}"] = field.value.read
            self._names[f"write_{at}"] = field.value.write
            self._names[f"default_{at}"] = field.default
        self.fields: Callable[[T], dict[str, Any]] = self._encoder()
        """Return the members of an entry."""
        self.entry: Callable[[dict[str, Any], int], T] = self._decoder(parts or {}, numbered)
        """Return the entry of members; the line has this number. Raises KeyError for one that is
        missing, TypeError, ValueError.
        """

    @property
    def value(self) -> Value:
        """The form of an entry that is a member of another one."""

        def read(value: Any, member: str) -> T:
            if type(value) is not dict:
                raise TypeError(f"{member} is not an object")
            return self.entry(value, 0)

        return Value(read, self.fields)

    @property
    def values(self) -> Value:
        """The form of a list of entries that is a member of another one."""

        def read(values: Any, member: str) -> tuple[T, ...]:
            if type(values) is not list or any(type(it) is not dict for it in values):
                raise TypeError(f"{member} is not a list of objects")
            return tuple(self.entry(it, 0) for it in values)

        return Value(read, lambda values: list(map(self.fields, values)))

    def _encoder(self) -> Callable[[T], dict[str, Any]]:
        """Compile the function, as `dataclasses` does: a loop takes three times as long."""
        source = [f"def function(it):\n fields = {self.head!r}"]
        for at, field in enumerate(self._fields):
            source.append(f" value = it.{field.path}")
            encoded = f"write_{at}(value)" if field.value.write else "value"
            if field.default is REQUIRED if field.is_written is None else field.is_written:
                condition = ""
            elif field.default is None and field.value.write:
                condition = f"if value is not None and (value := {encoded}): "
                encoded = "value"
            elif field.default is None:
                condition = "if value is not None: "
            elif field.default is REQUIRED or not field.default:
                condition = "if value: "
            else:
                condition, encoded = f"if value := {encoded}: ", "value"
            source.append(f" {condition}fields[{field.member!r}] = {encoded}")
        return self._compiled("\n".join([*source, " return fields"]))

    def _decoder(
        self, parts: Mapping[str, type], numbered: str
    ) -> Callable[[dict[str, Any], int], T]:
        arguments: dict[str, list[str]] = {"": [], **{part: [] for part in parts}}
        for at, field in enumerate(self._fields):
            part, _, name = field.path.rpartition(".")
            read = f"read_{at}(fields[{field.member!r}], {field.member!r})"
            if field.default is None:
                value = f"fields.get({field.member!r})"
                read = f"None if (value := {value}) is None else read_{at}(value, {field.member!r})"
            elif field.default is not REQUIRED:
                read += f" if {field.member!r} in fields else default_{at}"
            arguments[part].append(f"{name}={read}")
        for part, kind in parts.items():
            self._names[f"{part}_kind"] = kind
            arguments[""].append(f"{part}={part}_kind({', '.join(arguments[part])})")
        if numbered:
            arguments[""].append(f"{numbered}=line")
        return self._compiled(
            f"def function(fields, line):\n return kind({', '.join(arguments[''])})"
        )

    def _compiled(self, source: str) -> Callable[..., Any]:
        exec(source, self._names)  # noqa: S102 - only names from declarations
        function: Callable[..., Any] = self._names.pop("function")
        return function

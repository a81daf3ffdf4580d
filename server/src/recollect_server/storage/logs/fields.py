"""The fields of a line, each of its type or refused.

A line with a good checksum may still be another program's: what is not of its type is damage, here
and not further in.
"""

from typing import Any, TypeVar

from recollect_server.domain.message import Attachment
from recollect_server.domain.time import from_text

T = TypeVar("T")

_MAX_NUMBER = (1 << 63) - 1


def text(fields: dict[str, Any], name: str, default: str | None = None) -> str:
    """Return a text, which is required unless there is a default. Raises KeyError, TypeError."""
    value = fields[name] if default is None else fields.get(name, default)
    if type(value) is not str:
        raise TypeError(f"{name} is not a text")
    return value


def texts(values: Any) -> tuple[str, ...]:
    """Return a list of texts. Raises TypeError."""
    if any(type(value) is not str for value in values):
        raise TypeError("an entry of a list is not a text")
    return tuple(values)


def number(value: Any, most: int = _MAX_NUMBER) -> int:
    """Return a whole number from 0 to `most`. Raises TypeError."""
    if type(value) is not int or not 0 <= value <= most:
        raise TypeError(f"{value!r} is not a number from 0 to {most}")
    return value


def optional(fields: dict[str, Any], name: str, kind: type[T]) -> T | None:
    """Return an optional value. Raises TypeError."""
    value = fields.get(name)
    if value is not None and type(value) is not kind:
        raise TypeError(f"{name} is not a {kind.__name__}")
    return value


def moment(fields: dict[str, Any], name: str) -> int:
    """Return an optional time, 0 if it is missing. Raises TypeError, ValueError."""
    value = fields.get(name)
    return 0 if value is None else from_text(value)


def attachments(fields: dict[str, Any]) -> tuple[Attachment, ...]:
    """Return the attachments of a message. Raises KeyError, TypeError."""
    return tuple(
        Attachment(text(a, "mediaType"), text(a, "uri"), number(a.get("bytesLength", 0)))
        for a in fields.get("attachments", ())
    )


def attachment_fields(values: tuple[Attachment, ...]) -> list[dict[str, Any]]:
    """Return the fields of attachments."""
    return [
        {"mediaType": a.media_type, "uri": a.uri}
        | ({"bytesLength": a.bytes_length} if a.bytes_length else {})
        for a in values
    ]

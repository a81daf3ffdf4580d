"""The fields of a line, each of its type or refused.

A line with a good checksum may still be another program's: what is not of its type is damage, here
and not further in.
"""

from typing import Any

from recollect_server.domain.time import from_text


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


def moment(fields: dict[str, Any], name: str) -> int:
    """Return an optional time, 0 if it is missing. Raises TypeError, ValueError."""
    value = fields.get(name)
    return 0 if value is None else from_text(value)

"""Data classes as JSON: names in camelCase as in a transcript, times in UTC to the millisecond,
lengths of time in seconds.
"""

from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

_EMPTY: tuple[Any, ...] = (None, "", (), {})


def plain(it: Any) -> dict[str, Any]:
    """Return a data class of this package as a JSON object, without its unset fields. Nested values
    keep theirs.
    """
    return {
        name: value for name, value in _value(it).items() if value not in _EMPTY and value != []
    }


def time_text(moment: datetime) -> str:
    """Return a time as `2026-02-14T09:00:00.000Z`. Raises ValueError for a datetime without a time
    zone.
    """
    if moment.utcoffset() is None:
        raise ValueError(f"{moment!r} has no time zone")
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def camel(name: str) -> str:
    """Return `turn_number` as `turnNumber`."""
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _value(it: Any) -> Any:
    if is_dataclass(it) and not isinstance(it, type):
        # Not dataclasses.asdict: the keys of a message's metadata are the caller's own.
        return {camel(field.name): _value(getattr(it, field.name)) for field in fields(it)}
    if isinstance(it, datetime):
        return time_text(it)
    if isinstance(it, timedelta):
        return it.total_seconds()
    if isinstance(it, tuple):
        return [_value(item) for item in it]
    if isinstance(it, frozenset):
        return sorted(it)
    return it

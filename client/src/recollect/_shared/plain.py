"""Data classes as JSON: names in camelCase as in a transcript, times in UTC to the millisecond,
lengths of time in seconds.
"""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

CONTROLS = frozenset(
    (*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
)
"""The characters that move a terminal's cursor, colour it, or turn its text around; stored text may
hold them.
"""
_ESCAPES = {code: f"\\u{code:04x}" for code in CONTROLS if code >= 0x20}  # JSON escapes the others
_EMPTY: tuple[Any, ...] = (None, "", (), {})


def plain(it: Any) -> dict[str, Any]:
    """Return a data class of this package as a JSON object, without its unset fields. Nested values
    keep theirs.
    """
    return {
        name: value for name, value in _value(it).items() if value not in _EMPTY and value != []
    }


def json_text(value: Mapping[str, Any]) -> str:
    """Return a JSON object on one line that does nothing to a terminal."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if text.isprintable() else text.translate(_ESCAPES)


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

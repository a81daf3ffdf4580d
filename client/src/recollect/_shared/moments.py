"""Times as people and models write them."""

import os
import re
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
# `strftime` would write the names in the language of the process.
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)


def local_zone() -> str | None:
    """Return the name of this machine's time zone; None where it has none that everybody
    knows.
    """
    name = os.environ.get("TZ") or os.path.realpath("/etc/localtime").partition("zoneinfo/")[2]
    zone = zone_of(name.removeprefix(":"))
    return zone.key if zone else None


def zone_of(name: str | None) -> ZoneInfo | None:
    """Return a time zone; None for a name that this machine does not know."""
    try:
        return ZoneInfo(name) if name else None
    except (KeyError, ValueError, OSError):
        return None


def moment(text: str, zone: tzinfo | None, *, ends: bool = False) -> datetime:
    """Parse `2026-02-14`, `2026-02-14T09:00` or `2026-02-14T09:00:00Z`; a time without a zone of
    its own is in `zone`.

    A plain date is the beginning of that day, or, where it `ends` a span, the beginning of the
    next: the day belongs to the span. Raises ValueError.
    """
    text = text.strip()
    try:
        time = datetime.fromisoformat(text)
        if ends and _DATE.fullmatch(text):
            time += timedelta(days=1)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text!r} is no date such as 2026-02-14, nor a time such as 2026-02-14T09:00:00Z"
        ) from None
    return time if time.tzinfo else time.replace(tzinfo=zone)


def readable(time: datetime) -> str:
    """Return `Wednesday 4 February 2026, 09:30 UTC`: models misjudge the weekday of a date."""
    time = time.astimezone(UTC)
    day = f"{_DAYS[time.weekday()]} {time.day} {_MONTHS[time.month - 1]} {time.year}"
    return f"{day}, {time:%H:%M} UTC"

"""Time: milliseconds since 1970 in UTC, the text that stands for them in a transcript, and the
deadline of a call.
"""

import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from recollect_server.kernel.domain.errors import CallerGone, DeadlineExceeded
from recollect_server.kernel.domain.ids import is_space_name

Clock = Callable[[], int]
"""Answers the time now in milliseconds. Parts are given one, so that tests can move it."""

DAY = 86_400_000

_ZONE = re.compile(r"[A-Za-z0-9_+/-]{1,64}", re.ASCII)
_EARLIEST = -62_135_596_800_000  # 0001-01-01T00:00:00.000Z
_LATEST = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z, the last moment that datetime can write


def system_clock() -> int:
    """Return the machine's time in milliseconds. A clock that was never set may be before 1970,
    which no time in the contract is: it stands at the first moment that is not 0, "unset".
    """
    return max(1, time.time_ns() // 1_000_000)


def zone_of(name: str) -> tzinfo | None:
    """Return a time zone; None for a name that the IANA database does not have."""
    if name in ("", "UTC"):
        return UTC
    try:
        return ZoneInfo(name) if _ZONE.fullmatch(name) else None
    except (KeyError, ValueError, OSError):  # not there, no path within, or a folder
        return None


@dataclass(frozen=True, slots=True)
class TimeZones:
    """The time zones of the dates of calls, by space; that of "" is the others'."""

    by_space: Mapping[str, str] = field(default_factory=dict)

    def of(self, named: str, space: str) -> tzinfo:
        """Return the time zone of a call: the one that it names, or its space's."""
        return zone_of(named or self.by_space.get(space) or self.by_space.get("", "")) or UTC


def parse_zones(text: str) -> TimeZones:
    """Return the time zones of a text as `Europe/Berlin; tom=Asia/Tokyo`. Raises ValueError."""
    by_space: dict[str, str] = {}
    for part in filter(None, map(str.strip, text.split(";"))):
        space, is_of_space, zone = part.rpartition("=")
        if not zone or zone_of(zone) is None:
            raise ValueError(f"{zone!r} is not the name of a time zone, such as Europe/Berlin")
        if is_of_space and not is_space_name(space):
            raise ValueError(f"{space!r} is not the name of a space")
        if space in by_space:
            raise ValueError(f"names two time zones for {space or 'other spaces'}")
        by_space[space] = zone
    return TimeZones(by_space)


def to_wall(milliseconds: int, zone: tzinfo) -> int:
    """Return what clocks and calendars in a zone show at a time, as if they were in UTC."""
    if zone is UTC:
        return milliseconds
    try:
        offset = datetime.fromtimestamp(milliseconds / 1000, zone).utcoffset()
    except (ValueError, OverflowError, OSError):  # a time that no calendar has
        offset = None
    return milliseconds + (offset or timedelta()) // timedelta(milliseconds=1)


def from_wall(milliseconds: float, zone: tzinfo) -> float:
    """Return the time at which clocks and calendars in a zone show what `to_wall` gives."""
    if zone is UTC:
        return milliseconds
    try:
        shown = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return milliseconds
    return milliseconds - (shown.replace(tzinfo=zone).utcoffset() or timedelta()) / timedelta(
        milliseconds=1
    )


def milliseconds(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)


def arrival(timestamp: int, latest: int, now: int) -> int:
    """Return the arrival time of a message to store beside its own time, in milliseconds; 0 where
    its own time is enough.

    That is `now` where the message's time, or the `latest` before it, lies in the future: the
    message was dated ahead, or the clock had jumped ahead and came back.
    """
    return now if timestamp > now or latest > now else 0


def updated(before: int | None, timestamp: int, arrived: int) -> int:
    """Return the update time of a conversation after a message, in milliseconds. `before` is the
    one until then (None: it is the first message), `arrived` the result of `arrival`.

    The earlier of the message's own time and its arrival counts. The update time only moves back
    where it lies ahead of the arrival, as after a clock was set back.
    """
    moment = min(timestamp, arrived) if arrived else timestamp
    return moment if before is None or (arrived and before > arrived) else max(before, moment)


def to_text(milliseconds: int) -> str:
    """Return a time as `2026-02-14T09:00:00.000Z`. Raises ValueError before year 1 or after year
    9999.
    """
    if not _EARLIEST <= milliseconds <= _LATEST:
        raise ValueError(f"{milliseconds} ms is outside the years 1 to 9999")
    seconds, rest = divmod(milliseconds, 1000)
    return f"{_to_the_second(seconds)}.{rest:03d}Z"


@lru_cache(1024)  # what is written under load is of the same few seconds
def _to_the_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat()


def from_text(text: str) -> int:
    """Return the milliseconds of a text of `to_text`, or of another offset and precision of ISO
    8601. Raises ValueError.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    delta = moment - datetime(1970, 1, 1, tzinfo=UTC)
    milliseconds = delta.days * DAY + delta.seconds * 1000 + delta.microseconds // 1000
    # the last hours of the year 9999, in a zone that is behind
    if not _EARLIEST <= milliseconds <= _LATEST:
        raise ValueError(f"{text!r} is outside the years 1 to 9999 in UTC")
    return milliseconds


class Deadline:
    """A limit of time that a caller can cut short. Safe to call from any thread.

    Long computations call `check` at least every 100 ms.
    """

    def __init__(self, seconds: float = math.inf) -> None:
        """Begin now and end after `seconds`."""
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self._cancelled = False

    def cancel(self) -> None:
        """End the work now: nobody waits for its result."""
        self._cancelled = True

    @property
    def is_over(self) -> bool:
        """Return whether the work must end."""
        return self._cancelled or time.monotonic() >= self._end

    def check_caller(self) -> None:
        """Raise CallerGone if nobody waits for the result."""
        if self._cancelled:
            raise CallerGone

    def check(self) -> None:
        """Raise CallerGone or DeadlineExceeded if the work is to end."""
        if self._cancelled:
            raise CallerGone
        if time.monotonic() >= self._end:
            raise DeadlineExceeded(self._seconds)


UNLIMITED = Deadline()
"""The deadline of work that no caller waits for. Nobody cancels it."""

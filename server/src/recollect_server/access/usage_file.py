"""The file of usage: `<data-dir>/limits.json`, what tokens and spaces used of the day, and who was
limited.

It is derived from nothing and replaced as a whole, without a sync: losing it costs a day's counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import structlog

from recollect_server.kernel.log.files import read_file, write_private

log = structlog.get_logger("recollect.usage")

NAME = "limits.json"
_MAX_NAMES = 10_000  # those with the largest numbers; in memory up to twice as many


@dataclass(slots=True)
class DailyUsage:
    """Usage of one day (UTC), by token and space."""

    day: int = 0
    """Days since 1970."""
    bytes: dict[tuple[str, str], int] = field(default_factory=dict)
    """Bytes of requests, by `token` or `space` and the name."""
    refused: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """Calls refused, by `token` or `space`, the name and the limit."""

    def shrink(self) -> None:
        """Forget the smallest numbers once there are too many names: a caller that may name any
        space must not fill the memory.
        """
        if len(self.bytes) > 2 * _MAX_NAMES:
            self.bytes = {(of, name): count for of, name, count in _rows(self.bytes)}
        if len(self.refused) > 2 * _MAX_NAMES:
            self.refused = {(of, name, it): count for of, name, it, count in _rows(self.refused)}

    def copy(self) -> "DailyUsage":
        """Return a copy that nobody changes."""
        return DailyUsage(self.day, dict(self.bytes), dict(self.refused))


class UsageFile:
    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / NAME

    def read(self) -> DailyUsage:
        """Return the usage in the file; none if there is no file, or not one that can be read."""
        try:
            fields = orjson.loads(read_file(self._path))
            return DailyUsage(
                int(fields["day"]),
                {(of, name): int(count) for of, name, count in fields["bytes"]},
                {(of, name, limit): int(count) for of, name, limit, count in fields["refused"]},
            )
        except FileNotFoundError:
            return DailyUsage()
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("limits_not_read", reason=str(error))
            return DailyUsage()

    def write(self, usage: DailyUsage) -> None:
        """Replace the file. Raises OSError."""
        fields = {
            "day": usage.day,
            "bytes": _rows(usage.bytes),
            "refused": _rows(usage.refused),
        }
        write_private(self._path, orjson.dumps(fields), sync=False)


def _rows(counts: Mapping[Any, int]) -> list[tuple[Any, ...]]:
    largest = sorted(counts.items(), key=lambda row: -row[1])[:_MAX_NAMES]
    return [(*key, count) for key, count in largest]

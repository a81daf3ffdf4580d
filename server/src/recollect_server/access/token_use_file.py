"""The files of the use of tokens: `<data-dir>/token-use.2026-11-29.jsonl`, one for each day (UTC),
for their owner alone (0600). Over PostgreSQL the same counts are in a table instead
(`postgres.token_uses`).

Each line is sealed as those of the audit, and counts the calls of one group. The file of a day is
replaced as a whole whenever counts are added: it is small, for the server bounds its groups.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import structlog

from recollect_server.kernel.domain.frozen import frozen
from recollect_server.kernel.domain.time import DAY, from_text, to_text
from recollect_server.kernel.log.files import read_file, write_private
from recollect_server.kernel.log.folder import failing
from recollect_server.kernel.log.lines import fields_of, seal

log = structlog.get_logger("recollect.tokens")

USES = "token-use"


class CallGroup(NamedTuple):
    """Calls of a day that are counted together."""

    token_id: str
    space: str
    """Empty: they were refused before their space counted."""
    method: str
    """`Service.Method`."""
    peer: str
    """Address without its port."""


@dataclass(slots=True)
class CallCount:
    """Number of calls in a group."""

    admitted: int = 0
    refused: int = 0
    last: int = 0
    """Time of the newest call, in milliseconds since 1970."""

    def add(self, admitted: int, refused: int, last: int) -> None:
        self.admitted += admitted
        self.refused += refused
        self.last = max(self.last, last)


@frozen
class TokenUse:
    """Use that a token made of a method on a day."""

    day: int
    """Days since 1970 (UTC)."""
    group: CallGroup
    count: CallCount


class TokenUseStore(Protocol):
    """Protocol of the place of the counts: files, or a table of a database."""

    def add(self, day: int, counts: Mapping[CallGroup, CallCount]) -> None:
        """Add counts to those of a day, durably. Raises LogUnavailable; then nothing is added."""

    def read(self, token_id: str, first: int, last: int) -> Iterator[TokenUse]:
        """Yield the use of a token from one day to another, in any order. Raises LogUnavailable."""

    def forget(self, before: int) -> None:
        """Remove the counts of all days before one. Raises LogUnavailable."""


class TokenUseFiles:
    """The counts in a data folder. One process adds to them at a time, and others may read."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir

    def add(self, day: int, counts: Mapping[CallGroup, CallCount]) -> None:
        """Add counts to those of a day, durably. Raises LogUnavailable; then nothing is added."""
        total = self._of(day)
        for group, count in counts.items():
            total.setdefault(group, CallCount()).add(count.admitted, count.refused, count.last)
        with failing(USES, "written"):
            write_private(self._path(day), b"".join(map(_line, total.items())))

    def read(self, token_id: str, first: int, last: int) -> Iterator[TokenUse]:
        """Yield the use of a token from one day to another, in any order. Raises LogUnavailable."""
        for day in range(first, last + 1):
            for group, count in self._of(day).items():
                if group.token_id == token_id:
                    yield TokenUse(day, group, count)

    def forget(self, before: int) -> None:
        """Remove the files of all days before one. Raises LogUnavailable."""
        with failing(USES, "removed"):
            for path in self._data_dir.glob(f"{USES}.*.jsonl"):
                if path.name < self._path(before).name:
                    path.unlink()

    def _path(self, day: int) -> Path:
        return self._data_dir / f"{USES}.{to_text(day * DAY)[:10]}.jsonl"

    def _of(self, day: int) -> dict[CallGroup, CallCount]:
        """Return the counts of a day. A damaged line is logged and passed over."""
        counts: dict[CallGroup, CallCount] = {}
        path = self._path(day)
        with failing(USES, "read"):
            lines = read_file(path).splitlines() if path.exists() else []
        for number, line in enumerate(lines, 1):
            if (it := fields_of(line)) is None:
                log.error("damaged_line", file=path.name, line=number)
                continue
            group = CallGroup(it["token"], it["space"], it["method"], it["peer"])
            counts[group] = CallCount(it["calls"], it["refused"], from_text(it["last"]))
        return counts


def _line(entry: tuple[CallGroup, CallCount]) -> bytes:
    group, count = entry
    return seal(
        {
            "token": group.token_id,
            "space": group.space,
            "method": group.method,
            "peer": group.peer,
            "calls": count.admitted,
            "refused": count.refused,
            "last": to_text(count.last),
        }
    )

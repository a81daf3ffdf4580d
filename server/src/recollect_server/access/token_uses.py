"""The use of tokens: which methods each one called, in which spaces, from where, on which days, and
how often. After a leak it says what was read, which the audit does not.

Calls are counted in memory and added to the store in batches, some seconds behind: a server that is
killed forgets those. There is no text of a call in it, and no argument.

The files are `<data-dir>/token-use.2026-11-29.jsonl`, one for each day (UTC), for their owner alone
(0600). Over PostgreSQL the same counts are in a table instead (`postgres.tokens`). Each line is
sealed as those of the audit, and counts the calls of one group. The file of a day is replaced as a
whole whenever counts are added: it is small, for the server bounds its groups.
"""

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import structlog

from recollect_server.access.audit import host_of
from recollect_server.access.principal import Principal
from recollect_server.kernel.domain.errors import StorageUnavailable
from recollect_server.kernel.domain.frozen import frozen
from recollect_server.kernel.domain.time import DAY, Clock, from_text, to_text
from recollect_server.kernel.log.files import read_file, write_private
from recollect_server.kernel.log.folder import failing
from recollect_server.kernel.log.lines import fields_of, seal

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


log = structlog.get_logger("recollect.tokens")

KEPT_DAYS = 90
"""Days whose counts are kept, with that of today."""
MAX_GROUPS = 1000
"""Groups of a token's calls on a day. Further ones are of no space, and come from `others`: who
holds a leaked token must not fill the disk by inventing addresses.
"""
OTHERS = "others"


class TokenUses:
    """The use of the tokens of a server. Safe to call from any thread."""

    def __init__(self, store: TokenUseStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._saving = threading.Lock()  # one write at a time
        self._guard = threading.Lock()  # guards what follows; nothing slow happens under it
        self._pending: dict[int, dict[CallGroup, CallCount]] = {}
        """Counts by day that the store does not have."""
        self._groups: dict[str, set[CallGroup]] = {}
        """Groups of each token on `_day`."""
        self._day = 0
        self._forgotten = 0
        """Day on which old counts were last removed."""
        self._failure = ""
        """Reason why the store did not take the last counts; empty: it did."""

    def count(self, principal: Principal, method: str, *, is_refused: bool) -> None:
        """Count a call of a caller with a token."""
        now = self._clock()
        group = CallGroup(principal.token_id, principal.space, method, host_of(principal.peer))
        with self._guard:
            if self._day != now // DAY:
                self._day, self._groups = now // DAY, {}
            groups = self._groups.setdefault(group.token_id, set())
            if group not in groups and len(groups) >= MAX_GROUPS:
                group = group._replace(space="", peer=OTHERS)
            groups.add(group)
            counts = self._pending.setdefault(self._day, {})
            counts.setdefault(group, CallCount()).add(not is_refused, is_refused, now)

    def save(self) -> None:
        """Add the counts to the store. What it refuses is logged once, and added with the next
        batch that it takes.
        """
        try:
            self._flush()
        except StorageUnavailable as error:
            if self._failure != str(error):
                log.warning("token_use_not_saved", reason=str(error))
            self._failure = str(error)
        else:
            self._failure = ""

    def read(self, token_id: str, start: int, end: int) -> list[TokenUse]:
        """Return the use of a token on the days from `start` to `end`, in milliseconds since 1970:
        the newest day first, then by space, method and address. Raises StorageUnavailable.
        """
        self._flush()
        today = self._clock() // DAY
        first, last = max(start // DAY, today - KEPT_DAYS + 1), min((end - 1) // DAY, today)
        return sorted(self._store.read(token_id, first, last), key=lambda it: (-it.day, it.group))

    def _flush(self) -> None:
        """Add the counts to the store, day by day, and remove those of old days beside new ones.
        Raises StorageUnavailable.
        """
        with self._saving:
            days, today = list(self._pending), self._clock() // DAY
            for day in days:
                with self._guard:
                    counts = self._pending.pop(day)
                try:
                    self._store.add(day, counts)
                except StorageUnavailable:
                    with self._guard:
                        pending = self._pending.setdefault(day, {})
                        for group, it in counts.items():
                            of = pending.setdefault(group, CallCount())
                            of.add(it.admitted, it.refused, it.last)
                    raise
            if days and self._forgotten != today:
                self._store.forget(today - KEPT_DAYS + 1)
                self._forgotten = today

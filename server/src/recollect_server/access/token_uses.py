"""The use of tokens: which methods each one called, in which spaces, from where, on which days, and
how often. After a leak it says what was read, which the audit does not.

Calls are counted in memory and added to the store in batches, some seconds behind: a server that is
killed forgets those. There is no text of a call in it, and no argument.
"""

import threading

import structlog

from recollect_server.access.audit import host_of
from recollect_server.access.principal import Principal
from recollect_server.access.token_use_file import CallCount, CallGroup, TokenUse, TokenUseStore
from recollect_server.kernel.domain.errors import StorageUnavailable
from recollect_server.kernel.domain.time import DAY, Clock

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

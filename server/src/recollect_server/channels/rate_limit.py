"""Rate limit of senders who are not owners. The stats name those who exceeded it."""

import threading

import structlog

from recollect_server.access.limits import Buckets, Rate
from recollect_server.kernel.domain.errors import IndexUnavailable, RateLimited
from recollect_server.kernel.domain.last_used import LastUsed
from recollect_server.kernel.domain.live import Live
from recollect_server.kernel.space.space import Space
from recollect_server.people.routing_table import routing_of

log = structlog.get_logger("recollect.rate_limit")

# milliseconds between two notes of one sender: a flood must not become one of writes
_NOTED_EVERY = 60_000
_MAX_COUNTED = 10_000


class RateLimiter:
    """Rate limiter of senders. Safe to call from any thread."""

    def __init__(self, space: Space, rate: Live[Rate]) -> None:
        self._space = space
        self._rate = rate
        self._buckets = Buckets(rate.now)
        self._guard = threading.Lock()  # guards `_counted`
        # refused since when it was noted
        self._counted: LastUsed[tuple[str, str], tuple[int, int]] = LastUsed(_MAX_COUNTED)

    def admit(self, channel: str, sender: str) -> None:
        """Admit a message. Raises RateLimited."""
        now = self._space.clock()
        wait = self._buckets.take((channel, sender), now, self._rate.now)
        if not wait:
            return
        with self._guard:
            refused, noted = self._counted.get((channel, sender), (0, 0))
            due = not 0 <= now - noted < _NOTED_EVERY  # the clock may be set back
            self._counted.keep((channel, sender), (0, now) if due else (refused + 1, noted))
        if due:
            log.warning("sender_limited", channel=channel, sender=sender, refused=refused + 1)
            self._note(channel, sender, refused + 1, now)
        raise RateLimited(sender, wait)

    def close(self) -> None:
        """Write the counts to the index."""
        with self._guard:
            left = [(name, refused) for name, (refused, _) in self._counted.items() if refused]
            self._counted.clear()
        for (channel, sender), refused in left:
            self._note(channel, sender, refused, self._space.clock())

    def _note(self, channel: str, sender: str, refused: int, now: int) -> None:
        try:
            routing_of(self._space.index).note_limited(channel, sender, refused, now)
        except IndexUnavailable as error:
            log.warning("sender_not_noted", channel=channel, sender=sender, reason=str(error))
